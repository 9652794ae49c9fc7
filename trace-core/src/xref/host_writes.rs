//! CPU writes to ranges of physical memory.

use crate::PhysAddr;
use crate::progress::{Cancelled, Progress};
use crate::recording::{EventKind, HostWriteRow, Recording};
use std::ops::Range;

/// Number of events between two checks for cancellation.
const STEP: usize = 1 << 16;

/// Calls `report` for each CPU write to some of these bytes, in event order, until it returns `false`. `ranges` must be
/// ascending and must not overlap. Takes time proportional to the number of events.
///
/// # Errors
/// [`Cancelled`] if the operation was cancelled.
pub(super) fn for_each_host_write(
    recording: &Recording,
    ranges: &[Range<u64>],
    progress: &Progress,
    report: &mut dyn FnMut(u64, HostWriteRow) -> bool,
) -> Result<(), Cancelled> {
    let events = &recording.events;
    if events.host_writes.is_empty() || ranges.iter().all(Range::is_empty) {
        return Ok(());
    }
    let is_hit = |row: &HostWriteRow| {
        let end = row.at.saturating_add(u64::from(row.bytes));
        let n = ranges.partition_point(|r| r.end <= row.at.get());
        ranges
            .get(n)
            .is_some_and(|r| r.start < end.get() && row.at < PhysAddr::new(r.end))
    };
    for from in (0..events.len()).step_by(STEP) {
        let kinds = events.kind.iter_range(from..(from + STEP).min(events.len()));
        for (event, kind) in (from..).zip(kinds) {
            if kind != EventKind::HostWrite as u8 {
                continue;
            }
            let Some(row) = events.host_write(event).filter(is_hit) else {
                continue;
            };
            if !report(event as u64, row) {
                return Ok(());
            }
        }
        progress.check()?;
    }
    Ok(())
}
