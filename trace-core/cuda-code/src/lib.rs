//! Containers of CUDA code, read without CUDA: fatbins, cubins and PTX text.
//!
//! A program hands the driver one of three things: PTX text, a cubin (an ELF file of one architecture), or a fatbin
//! that holds several of both, each perhaps compressed, of which the driver takes one. [`Image`] tells them apart and
//! finds the code that holds a kernel; [`fatbin`], [`cubin`] and [`ptx`] say what is in each.
//!
//! None of the formats is published. What is known of them was read off files that CUDA 12.9 and 13.0 made, compared
//! with what NVIDIA's own `cuobjdump` prints of them and what a driver reports of kernels loaded from them
//! (`tests/fixtures/README.md`), and checked against public readers: ZLUDA and cuda-fatbin-decompression for fatbins,
//! LLVM for the flags of a cubin. Everything is little-endian.
//!
//! Input is not trusted: counts are checked against the bytes that are left, and nothing takes memory or time beyond
//! a small multiple of its input, but for unpacked code, which [`MAX_CODE_BYTES`] and its own header limit. [`names`]
//! tells functions as their authors wrote them.

mod arch;
pub mod cubin;
mod error;
pub mod fatbin;
mod image;
pub mod names;
pub mod ptx;
mod read;

pub use arch::{Arch, Capability, Form, Variant, choose};
pub use error::Error;
pub use image::{Image, ImageKind, SelectedCode};

/// Maximum number of bytes that one compressed entry of a fatbin may unpack to: 1 GiB.
pub const MAX_CODE_BYTES: u64 = 1 << 30;
