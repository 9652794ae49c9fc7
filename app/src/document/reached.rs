//! What a job can reach: the buffers of its address space as they are mapped at its submit, first those that its
//! descriptors point to.

use super::jobs::JobFact;
use super::lookup::{memory_at, walk};
use super::touches;
use trace_core::recording::Recording;

/// Most buffers that are walked for a job.
const MOST_BUFFERS: usize = 4096;
/// Most jobs of a chain whose descriptors are looked through.
const MOST_CHAIN: usize = 16;

/// A buffer that a job can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Index in the recording's list of buffers.
    pub buffer: u32,
    /// Rights there: bit 0 read, bit 1 write, bit 2 execute.
    pub rights: u8,
    /// Whether a descriptor of the job points into it.
    pub pointed: bool,
}

/// The rights with which a job sees an address; `None` where it sees none.
#[must_use]
pub fn rights(recording: &Recording, job: &JobFact, va: u64) -> Option<u8> {
    let leaf = walk(recording, job.chain.space?, va, job.submit)?.result.ok()?;
    let r = leaf.rights;
    Some(u8::from(r.read) | u8::from(r.write) << 1 | u8::from(r.execute) << 2)
}

/// The buffers that a job can reach: those that its descriptors point to, then the others in the recording's order.
#[must_use]
pub fn buffers(recording: &Recording, job: &JobFact) -> Vec<Reached> {
    let Some(space) = job.chain.space else {
        return Vec::new();
    };
    let Some(memory) = memory_at(recording, space, job.submit) else {
        return Vec::new();
    };
    let mut pointers: Vec<u64> = Vec::new();
    for c in job.chain.iter().take(MOST_CHAIN) {
        touches::pointers(&memory, c.va, &mut pointers);
    }
    pointers.sort_unstable();
    let all = (0u32..).zip(&recording.facts.buffers);
    let mut out: Vec<Reached> = all
        .filter(|(_, b)| b.address_space == space)
        .take(MOST_BUFFERS)
        .filter_map(|(i, b)| {
            let next = pointers.partition_point(|p| *p < b.va.0);
            Some(Reached {
                buffer: i,
                rights: rights(recording, job, b.va.0)?,
                pointed: pointers.get(next).is_some_and(|p| p - b.va.0 < b.bytes),
            })
        })
        .collect();
    out.sort_by_key(|r| !r.pointed);
    out
}
