//! The buffers that a job can access: those of its address space that are mapped at its submit. Buffers that its
//! descriptors point to come first.

use crate::jobs::JobFact;
use crate::lookup::{memory_at, walk};
use trace_core::GpuVa;
use trace_core::recording::Recording;
use trace_core::xref::find_pointers;

/// Maximum number of buffers whose mappings are walked for a job.
const MAX_BUFFERS: usize = 4096;
/// Maximum number of jobs of a chain whose descriptors are scanned.
const MAX_CHAIN_JOBS: usize = 16;

/// A buffer that a job can access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReachableBuffer {
    /// Index into the recording's list of buffers.
    pub buffer: u32,
    /// Access rights: bit 0 read, bit 1 write, bit 2 execute.
    pub rights: u8,
    /// Whether a descriptor of the job points into it.
    pub is_pointed_to: bool,
}

/// Returns the rights of a job at an address, or `None` if the address is not mapped for it.
#[must_use]
pub fn find_rights(recording: &Recording, job: &JobFact, va: GpuVa) -> Option<u8> {
    let leaf = walk(recording, job.chain.space?, va, job.submit)?.result.ok()?;
    let r = leaf.rights;
    Some(u8::from(r.read) | u8::from(r.write) << 1 | u8::from(r.execute) << 2)
}

/// Returns the buffers that a job can access: those that its descriptors point to, then the others in recorded order.
#[must_use]
pub fn find_reachable_buffers(recording: &Recording, job: &JobFact) -> Vec<ReachableBuffer> {
    let Some(space) = job.chain.space else {
        return Vec::new();
    };
    let Some(memory) = memory_at(recording, space, job.submit) else {
        return Vec::new();
    };
    let mut pointers: Vec<GpuVa> = Vec::new();
    for c in job.chain.iter().take(MAX_CHAIN_JOBS) {
        find_pointers(&memory, c.va, &mut pointers);
    }
    pointers.sort_unstable();
    let all = (0u32..).zip(&recording.metadata.buffers);
    let mut out: Vec<ReachableBuffer> = all
        .filter(|(_, b)| b.address_space == space)
        .take(MAX_BUFFERS)
        .filter_map(|(i, b)| {
            let next = pointers.partition_point(|p| *p < b.va);
            Some(ReachableBuffer {
                buffer: i,
                rights: find_rights(recording, job, b.va)?,
                is_pointed_to: pointers.get(next).is_some_and(|p| *p - b.va < b.bytes),
            })
        })
        .collect();
    out.sort_by_key(|r| !r.is_pointed_to);
    out
}
