//! Job descriptors of Mali job-manager GPUs: headers, chains, payloads, and the code of the shaders that they name.
//!
//! Everything here is read through [`GpuMemory`], so it works on a recording, on a plan and inside a software GPU.

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

/// Memory as the GPU sees it.
pub trait GpuMemory {
    /// Fills `out` from `va` on. `false`: a byte of the range is unmapped or without content; `out` is then undefined.
    fn read(&self, va: GpuVa, out: &mut [u8]) -> bool;
}

/// The name of an exception code, as job and fault status registers and job headers hold it.
#[must_use]
pub fn exception_name(code: u8) -> &'static str {
    RegisterMap::by_name("mali-jm")
        .and_then(|m| m.enum_name("exception", u64::from(code)))
        .unwrap_or("unknown")
}
