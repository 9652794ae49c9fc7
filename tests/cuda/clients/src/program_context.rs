//! What every program works with: the device, its options and its result.

use crate::gpu::Gpu;
use crate::options::Options;
use crate::result::ProgramResult;
use cuda_driver::CuStream;

/// The default stream.
pub const DEFAULT: CuStream = std::ptr::null_mut();

/// Context of a program: the device, its options, and its result.
pub struct ProgramContext<'a> {
    pub gpu: Gpu,
    pub options: &'a Options,
    pub result: ProgramResult,
}

impl ProgramContext<'_> {
    /// Returns the amount of work: the option, or the program's default.
    pub fn size(&self, otherwise: u32) -> u32 {
        self.options.size.unwrap_or(otherwise)
    }
}
