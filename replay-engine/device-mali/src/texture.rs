//! Descriptor-based accesses of shaders: textures, texel buffers, images and attributes.
//!
//! All functions are pure functions over a [`TexMemory`]. Descriptors are parsed once ([`Texture::load`],
//! [`Sampler::load`], [`Attribute::load`]); the caller can keep them and share them between threads. An access takes
//! one thread's operands and returns one thread's registers. An unsupported feature is a [`Refusal`] that names it; it
//! is never replaced by something else. A descriptor may contain any bytes: no access panics, loops or allocates memory
//! because of them.
//!
//! `TEXC`, for one thread:
//!
//! ```
//! use device_mali::texture::{Arch, Derivatives, Operation, Sampler, TexMemory, Texture};
//!
//! # use trace_core::GpuVa;
//! # struct Flat(Vec<u8>);
//! # impl TexMemory for Flat {
//! #     type Error = ();
//! #     fn read(&mut self, va: GpuVa, out: &mut [u8]) -> Result<(), ()> {
//! #         let from = usize::try_from(va.get()).map_err(|_| ())?;
//! #         out.copy_from_slice(self.0.get(from..from + out.len()).ok_or(())?);
//! #         Ok(())
//! #     }
//! # }
//! # fn words(memory: &mut Flat, at: usize, words: &[u32]) {
//! #     for (i, w) in words.iter().enumerate() {
//! #         memory.0[at + i * 4..at + i * 4 + 4].copy_from_slice(&w.to_le_bytes());
//! #     }
//! # }
//! # let mut memory = Flat(vec![0; 4096]);
//! # words(&mut memory, 0, &[2 | 2 << 4 | (133 << 12 | 0o5440) << 10, 15 | 7 << 16, 0o5440 | 1 << 12, 0, 64]);
//! # words(&mut memory, 64, &[1024, 0, 1024, 0]);
//! # words(&mut memory, 128, &[1 | 0x999 << 8]);
//! # words(&mut memory, 1024 + 4 * 3, &[77]);
//! // The word stands in the shader; the tables of descriptors are named by the job.
//! let Operation::Single(op) = Operation::decode(0xfe18_6800)? else { unreachable!() };
//! let staging = [0u32]; // the level; `op.staging()` says how many registers there are
//! let (texture, sampler) = op.indices(&staging);
//! let texture = Texture::load(Arch::V6, &mut memory, GpuVa::new(u64::from(texture) * 32))?;
//! let sampler = Sampler::load(&mut memory, GpuVa::new(128 + u64::from(sampler) * 32))?;
//! let registers = op.run(&mut memory, &texture, &sampler, (0, 1), &staging, Derivatives::default())?;
//! assert_eq!((op.written_mask(), registers), (15, [77, 0, 0, 1]));
//! # Ok::<(), device_mali::texture::TexError<()>>(())
//! ```
//!
//! An image store is `LEA_ATTR_TEX` ([`Attribute::texel`], [`Attribute::reference`]) and `ST_CVT`
//! ([`Conversion::parse`], [`Conversion::store`]: bytes that the caller writes); an image load is `LD_ATTR_TEX`
//! ([`Attribute::load_from`], then [`RegisterFormat::pack`]).

mod attribute;
mod axis;
mod conversion;
mod cube;
mod descriptor;
mod etc2;
mod format;
#[cfg(test)]
mod gles_tests;
mod level;
mod names;
mod number;
mod operation;
mod refusal;
mod register;
mod sample;
mod srgb;
#[cfg(test)]
mod testing;
mod texel;
mod tiling;

pub use attribute::{ATTRIBUTE_BYTES, Attribute, BUFFER_BYTES, Shape};
pub use conversion::{Conversion, ConvertedTexel};
pub use cube::{across as cube_across, down as cube_down, face as cube_face, major as cube_major};
pub use descriptor::{Compare, DESCRIPTOR_BYTES, Dimension, Mipmap, SURFACE_BYTES, Sampler, Surface, Texture, Wrap};
pub use etc2::Etc2;
pub use format::{Arch, Block, Channel, Class, Encoding, Number, PixelFormat, Swizzle};
pub use level::{Derivatives, Lod};
pub use names::format_name;
pub use number::{f16_to_f32, f32_to_f16};
pub use operation::{Clamp, Dual, Index, Kind, LodMode, MAX_STAGING, Operation, Single};
pub use refusal::{Refusal, TexError};
pub use register::RegisterFormat;
pub use sample::{FetchRequest, SampleRequest, fetch, gather, sample};
pub use texel::Texel;
pub use tiling::Ordering;

use trace_core::GpuVa;

/// GPU memory as a thread reads it: through page tables, with checked rights.
pub trait TexMemory {
    /// Error of a failed read.
    type Error;

    /// Fills `out` with the bytes at an address. At most 32 bytes are read at once; they may cross a page.
    ///
    /// # Errors
    /// When part of the range cannot be read.
    fn read(&mut self, va: GpuVa, out: &mut [u8]) -> Result<(), Self::Error>;
}
