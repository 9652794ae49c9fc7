//! Job descriptors of Mali job-manager GPUs: headers, chains, payloads, and the code of the shaders that they
//! reference.
//!
//! All functions read through [`crate::memory::GpuMemory`], so they work on a recording, on a plan and inside a simulator.

mod chain;
mod header;
mod payload;
mod shader;
mod shared_chains;
mod space;
#[cfg(test)]
mod tests;

pub use chain::{Chain, ChainEnd, Job, MAX_JOBS, read_chain, read_job};
pub use header::{HEADER_BYTES, HeaderError, JobHeader, JobType, Soundness, exception_name};
pub use payload::{
    CacheFlush, Compute, Dispatch, INVOCATION_OFFSET, Payload, RendererState, WriteKind, WriteValue, decode_payload,
};
pub use shader::{
    Code, CodeClause, CodeEnd, MAX_CODE, Stage, UnknownOperation, decode_code, decode_code_within, find_shaders,
};
pub use shared_chains::read_shared_chains;
pub use space::{address_spaces, memory_at_submits};
