//! Job descriptors of Mali job-manager GPUs: headers, chains, payloads, and the code of the shaders that they
//! reference.
//!
//! All functions read through [`GpuMemory`], so they work on a recording, on a plan and inside a simulator.

mod chain;
mod header;
mod payload;
mod shader;
mod space;
#[cfg(test)]
mod tests;

pub use chain::{Chain, ChainEnd, Job, MAX_JOBS, read_chain, read_job};
pub use header::{HEADER_BYTES, HeaderError, JobHeader, JobType, Soundness};
pub use payload::{
    CacheFlush, Compute, Dispatch, INVOCATION_OFFSET, Payload, RendererState, WriteKind, WriteValue, decode_payload,
};
pub use shader::{
    Code, CodeClause, CodeEnd, MAX_CODE, Stage, UnknownOperation, decode_code, decode_code_within, find_shaders,
};
pub use space::{address_spaces, memory_at_submits};

use crate::recording::GpuVa;
use crate::registers::RegisterMap;

/// GPU memory read through virtual addresses.
pub trait GpuMemory {
    /// Fills `out` with the bytes at `va`. Returns `false` if a byte of the range is unmapped or without content;
    /// `out` is then undefined.
    fn read(&self, va: GpuVa, out: &mut [u8]) -> bool;
}

/// Returns the name of an exception code, as in job and fault status registers and job headers.
#[must_use]
pub fn exception_name(code: u8) -> &'static str {
    RegisterMap::by_name("mali-jm")
        .and_then(|m| m.enum_name("exception", u64::from(code)))
        .unwrap_or("unknown")
}
