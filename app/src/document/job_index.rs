//! Jobs in the orders in which they are looked up. There may be millions, so that they are put in order where they are
//! found, not where they are shown.

use super::jobs::JobFact;
use super::page_usage::JobAddresses;

/// The orders.
#[derive(Clone, Debug, Default)]
pub struct JobIndex {
    /// Indices of the jobs of each slot, as they were submitted.
    pub slots: Vec<Vec<u32>>,
    /// Submits of jobs that failed, in order.
    pub failed: Vec<u64>,
    /// The longest that a job ran, nanoseconds.
    pub longest_ns: u64,
    /// Addresses of headers that were submitted, ascending, with the job.
    pub heads: Vec<(u64, u32)>,
    /// What they name.
    pub places: JobAddresses,
}

impl JobIndex {
    /// Puts jobs in order.
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
        let mut heads: Vec<(u64, u32)> = jobs.iter().map(|j| (j.head_va, j.index)).collect();
        heads.sort_unstable();
        Self {
            slots,
            failed: jobs.iter().filter(|j| j.failed).map(|j| j.submit).collect(),
            longest_ns: jobs.iter().filter_map(|j| j.duration_ns).max().unwrap_or(0),
            heads,
            places: JobAddresses::new(jobs.iter().map(|j| (j.head_va, j.index, &j.chain))),
        }
    }
}
