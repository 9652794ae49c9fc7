//! Rule 3: a job chain, header by header as the hardware fetches them.

use super::Reason;
use super::work::{HEADER, Work};
use crate::plan::{PlanGpuMemory, PlanPages};
use std::collections::HashSet;
use trace_core::jobs::{GpuMemory, HEADER_BYTES, JobHeader, MAX_JOBS};
use trace_core::{GpuVa, PhysAddr};

/// Alignment of a job header, bytes: the hardware ignores the low bits of the address, or faults on them.
const ALIGN: u64 = 64;

/// A mapped chain with an end.
pub(super) struct ChainHeaders {
    /// Addresses of its headers, in chain order. No header crosses a page, because its size is half its alignment.
    pub headers: Vec<PhysAddr>,
    /// Number of headers that no driver would write. The hardware's behavior for them is unknown, so they are read as
    /// if they were valid.
    pub undecoded: u64,
}

/// Follows the chain from `head` through the current memory.
///
/// # Errors
/// If a header is misaligned or not mapped, or the chain loops or is too long.
pub(super) fn follow<M: PlanPages>(
    gpu: &PlanGpuMemory<'_, M>,
    head: GpuVa,
    work: &Work<'_>,
) -> Result<ChainHeaders, Reason> {
    let mut seen = HashSet::new();
    let mut followed = ChainHeaders {
        headers: Vec::new(),
        undecoded: 0,
    };
    let mut at = head;
    loop {
        work.spend(HEADER)?;
        if !seen.insert(at) {
            return Err(Reason::ChainLoops { head: head.0, va: at.0 });
        }
        if followed.headers.len() >= MAX_JOBS {
            return Err(Reason::ChainTooLong { head: head.0 });
        }
        if !at.0.is_multiple_of(ALIGN) {
            return Err(Reason::ChainMisaligned { head: head.0, va: at.0 });
        }
        let mut bytes = [0; HEADER_BYTES];
        let Some(pa) = gpu.physical(at).filter(|_| gpu.read(at, &mut bytes)) else {
            return Err(Reason::ChainUnmapped { head: head.0, va: at.0 });
        };
        followed.headers.push(pa);
        followed.undecoded += u64::from(JobHeader::decode(&bytes).is_err());
        match JobHeader::read(&bytes).next {
            GpuVa(0) => return Ok(followed),
            next => at = next,
        }
    }
}
