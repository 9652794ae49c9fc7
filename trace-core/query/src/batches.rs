//! Whole tables in memory, for programs that take Arrow batches.

use crate::batch::BATCH;
use crate::error::TableError;
use crate::tables::{self, Table};
use arrow_array::RecordBatch;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use trace_core::Recording;
use trace_core::filter::Selection;
use trace_core::progress::Progress;
use trace_core::timeline::Timeline;

/// Maximum number of threads that build a table.
const MAX_THREADS: usize = 16;

/// A table in memory.
#[derive(Clone, Debug, Default)]
pub struct CollectedTable {
    /// Its rows: at least one batch, all with the same columns. A batch may be empty.
    pub batches: Vec<RecordBatch>,
    /// Descriptions of data that could not be followed: page tables with a hole.
    pub problems: Vec<String>,
}

/// Builds a table in memory, with the rows and columns that [`crate::export`] writes. Events are built on all cores.
///
/// # Errors
/// When a batch cannot be built, or the work is cancelled.
pub fn collect_table(
    table: Table,
    recording: &Recording,
    timeline: &Timeline,
    progress: &Progress,
) -> Result<CollectedTable, TableError> {
    if table == Table::Events {
        let rows = recording.events.len();
        return collect_parts(rows, progress, |range| tables::events(recording, range.len(), range));
    }
    let mut batches = Vec::new();
    let problems = tables::build_table(table, recording, timeline, progress, &mut |batch| {
        batches.push(batch);
        Ok(())
    })?;
    Ok(CollectedTable { batches, problems })
}

/// Builds selected rows of [`Table::Events`] in memory, on all cores.
///
/// # Errors
/// The same as [`collect_table`].
pub fn collect_events(
    recording: &Recording,
    chosen: &Selection,
    progress: &Progress,
) -> Result<CollectedTable, TableError> {
    let chosen: Vec<usize> = chosen.iter().filter_map(|e| usize::try_from(e).ok()).collect();
    collect_parts(chosen.len(), progress, |range| {
        let part = chosen.get(range).unwrap_or_default();
        tables::events(recording, part.len(), part.iter().copied())
    })
}

/// Builds `rows` rows in batches, each by `build` from its range of rows.
fn collect_parts(
    rows: usize,
    progress: &Progress,
    build: impl Fn(std::ops::Range<usize>) -> Result<RecordBatch, TableError> + Sync,
) -> Result<CollectedTable, TableError> {
    progress.set_total(rows as u64);
    let parts = rows.div_ceil(BATCH).max(1);
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, RecordBatch)>, TableError> {
        let mut built = Vec::new();
        loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part >= parts {
                return Ok(built);
            }
            let range = part * BATCH..rows.min((part + 1) * BATCH);
            progress.advance(range.len() as u64)?;
            built.push((part, build(range)?));
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let helpers = cores.min(parts).min(MAX_THREADS).saturating_sub(1);
    let mut all = thread::scope(|scope| {
        let helpers: Vec<_> = (0..helpers).map(|_| scope.spawn(work)).collect();
        let mut all = work()?;
        for helper in helpers {
            match helper.join() {
                Ok(built) => all.extend(built?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok::<_, TableError>(all)
    })?;
    all.sort_unstable_by_key(|(part, _)| *part);
    Ok(CollectedTable {
        batches: all.into_iter().map(|(_, batch)| batch).collect(),
        problems: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::RegOffset;
    use trace_core::recording::{Access, EventsBuilder};

    fn recording(rows: u32) -> Recording {
        let mut b = EventsBuilder::new();
        for i in 0..rows {
            let access = Access {
                space: 0,
                write: i % 3 == 0,
                offset: RegOffset::new(i % 64 * 4),
                width: 4,
                value: u64::from(i),
            };
            b.access(u64::from(i) * 7, i % 5, access);
        }
        Recording {
            events: b.finish(),
            ..Recording::default()
        }
    }

    /// Builds the table batch after batch on this thread.
    fn build_in_order(recording: &Recording) -> Vec<RecordBatch> {
        let (timeline, progress) = (Timeline::default(), Progress::new());
        let mut batches = Vec::new();
        let built = tables::build_table(Table::Events, recording, &timeline, &progress, &mut |batch| {
            batches.push(batch);
            Ok(())
        });
        built.unwrap();
        batches
    }

    #[test]
    fn collected_events_are_in_order() {
        for rows in [0, 1, 70_000, 200_000] {
            let recording = recording(rows);
            let (timeline, progress) = (Timeline::default(), Progress::new());
            let collected = collect_table(Table::Events, &recording, &timeline, &progress).unwrap();
            assert_eq!(collected.batches, build_in_order(&recording), "{rows}");
            let chosen = Selection::from_iter(0..u64::from(rows));
            let selected = collect_events(&recording, &chosen, &progress).unwrap();
            assert_eq!(selected.batches, collected.batches, "{rows}");
        }
    }

    #[test]
    fn cancelled_collection_ends() {
        let progress = Progress::new();
        progress.cancel();
        assert!(collect_table(Table::Events, &recording(100_000), &Timeline::default(), &progress).is_err());
    }
}
