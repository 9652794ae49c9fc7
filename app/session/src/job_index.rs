//! The index of jobs by slot, failure and address. There may be millions of jobs, so it is built where jobs are
//! derived, not where they are shown.

use crate::jobs::{Chain, JobFact};
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::xref::JobAddresses;

/// An index of jobs by slot, failure and address.
#[derive(Clone, Debug, Default)]
pub struct JobIndex {
    /// Indices of the jobs of each slot, in order of submit.
    pub slots: Vec<Vec<u32>>,
    /// Submits of failed jobs, in order.
    pub failed: Vec<u64>,
    /// Maximum duration of a job, nanoseconds.
    pub longest_ns: u64,
    /// Addresses of submitted headers with the job, in ascending order.
    pub heads: Vec<(GpuVa, u32)>,
    /// Addresses that the jobs name.
    pub places: JobAddresses,
}

impl JobIndex {
    /// Builds the index.
    #[must_use]
    pub fn new(jobs: &[JobFact]) -> Self {
        let mut slots: Vec<Vec<u32>> = Vec::new();
        for (j, i) in jobs.iter().zip(0u32..) {
            let slot = usize::from(j.slot);
            if slots.len() <= slot {
                slots.resize_with(slot + 1, Vec::new);
            }
            if let Some(list) = slots.get_mut(slot) {
                list.push(i);
            }
        }
        let mut heads: Vec<(GpuVa, u32)> = jobs.iter().map(|j| (j.head_va, j.index)).collect();
        heads.sort_unstable();
        Self {
            slots,
            failed: jobs.iter().filter(|j| j.failed).map(|j| j.submit).collect(),
            longest_ns: jobs.iter().filter_map(|j| j.duration_ns).max().unwrap_or(0),
            heads,
            places: index_addresses(jobs.iter().map(|j| (j.head_va, j.index, &j.chain))),
        }
    }
}

/// Sorts the addresses that jobs name. Each job is given as header address, index and chain.
#[must_use]
pub fn index_addresses<'a>(jobs: impl Iterator<Item = (GpuVa, u32, &'a Arc<Chain>)>) -> JobAddresses {
    let (mut heads, mut shaders) = (Vec::new(), Vec::new());
    let mut last: Option<&Arc<Chain>> = None;
    for (head, index, chain) in jobs {
        heads.push((head, index));
        // Jobs that run the same chain share it.
        if !last.is_some_and(|l| Arc::ptr_eq(l, chain)) {
            heads.extend(chain.iter().map(|c| (c.va, index)));
            shaders.extend(chain.iter().filter_map(|c| Some((c.shader?, index))));
        }
        last = Some(chain);
    }
    JobAddresses::new(heads, shaders)
}
