//! Chains of all jobs of a recording, read once for all jobs that run the same chain with unchanged memory.

use super::submits::address_spaces;
use crate::GpuVa;
use crate::progress::{Cancelled, Progress};
use crate::recording::Recording;
use crate::registers::RegisterMap;
use std::collections::HashMap;
use std::sync::Arc;

/// Returns for each job what `read` returns for its chain: address space (an index into the recording's list), event of
/// the submit, address of the head. `submits` are the events and heads of the jobs, in event order. Jobs that run the
/// same chain in the same snapshot of memory share one result.
///
/// # Errors
/// [`Cancelled`] if the operation was cancelled.
pub fn read_shared_chains<T>(
    recording: &Recording,
    submits: &[(u64, GpuVa)],
    progress: &Progress,
    mut read: impl FnMut(Option<u32>, u64, GpuVa) -> T,
) -> Result<Vec<Arc<T>>, Cancelled> {
    let snapshots = &recording.memory.snapshots;
    let mut known: HashMap<(GpuVa, usize, Option<u32>), Arc<T>> = HashMap::new();
    let events: Vec<u64> = submits.iter().map(|s| s.0).collect();
    let spaces =
        RegisterMap::for_jobs_of(recording).map_or_else(Vec::new, |map| address_spaces(recording, map, &events));
    let mut out = Vec::with_capacity(submits.len());
    progress.set_total(submits.len() as u64);
    for (n, (submit, head)) in submits.iter().enumerate() {
        let space = spaces.get(n).copied().flatten();
        let snapshot = snapshots.partition_point(|s| s.event <= *submit);
        let chain = known
            .entry((*head, snapshot, space))
            .or_insert_with(|| Arc::new(read(space, *submit, *head)));
        out.push(Arc::clone(chain));
        progress.advance(1)?;
    }
    Ok(out)
}
