//! Readers of CUDA code containers that need no CUDA: fatbins, cubins and PTX text.
//!
//! A program passes the driver one of three things: PTX text, a cubin (an ELF file of one architecture), or a fatbin. A
//! fatbin holds several of both, each perhaps compressed; the driver selects one. [`Image`] distinguishes them and
//! finds the code that holds a kernel; [`fatbin`], [`cubin`] and [`ptx`] read each of them.
//!
//! None of the formats is published. The facts come from files that CUDA 12.9 and 13.0 wrote. They were compared with
//! the output of NVIDIA's own `cuobjdump` and with what a driver reports of kernels loaded from the files
//! (`tests/fixtures/README.md`). They were also checked against public readers: ZLUDA and cuda-fatbin-decompression for
//! fatbins, LLVM for the flags of a cubin. Everything is little-endian.
//!
//! Input is not trusted: counts are checked against the remaining bytes. Memory and time stay within a small multiple
//! of the input, except for unpacked code, which [`MAX_CODE_BYTES`] and its own header limit. [`names`] gives functions
//! their source names.

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

/// Maximum size of the unpacked code of a compressed fatbin entry: 1 GiB.
pub const MAX_CODE_BYTES: u64 = 1 << 30;
