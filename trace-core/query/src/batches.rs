//! Whole tables in memory, for programs that take Arrow batches.

use crate::batch::BATCH;
use crate::error::TableError;
use crate::event_batches::EventBatches;
use crate::event_columns::EventColumns;
use crate::event_rows::BatchRows;
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

/// Builds a table in memory, with the rows and columns that [`crate::export`] writes. Events are built on all cores, and
/// their texts are `string_view`, which consumers in memory take without a copy.
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
        return collect_events(recording, &EventSelection::All, &EventColumns::default(), progress);
    }
    let mut batches = Vec::new();
    let problems = tables::build_table(table, recording, timeline, progress, &mut |batch| {
        batches.push(batch);
        Ok(())
    })?;
    Ok(CollectedTable { batches, problems })
}

/// Events of a recording, in order.
#[derive(Clone, Debug)]
pub enum EventSelection {
    /// All events.
    All,
    /// Those that pass a filter.
    Selected(Selection),
}

impl EventSelection {
    /// Returns the number of events.
    #[must_use]
    pub fn count(&self, recording: &Recording) -> usize {
        match self {
            Self::All => recording.events.len(),
            Self::Selected(selection) => usize::try_from(selection.len()).unwrap_or(usize::MAX),
        }
    }

    /// Returns the events of batch number `part`, counted from 0, and empty rows beyond the last one.
    pub(crate) fn rows_of_part(&self, part: usize, recording: &Recording) -> BatchRows {
        let count = self.count(recording);
        let first = part.saturating_mul(BATCH).min(count);
        let end = first.saturating_add(BATCH).min(count);
        match self {
            Self::All => BatchRows::Range(first..end),
            Self::Selected(selection) => {
                let events = selection.iter_from(first as u64).take(end - first);
                BatchRows::from_list(events.filter_map(|e| usize::try_from(e).ok()).collect())
            }
        }
    }

    /// Returns the number of batches: at least one.
    pub(crate) fn parts(&self, recording: &Recording) -> usize {
        self.count(recording).div_ceil(BATCH).max(1)
    }
}

/// Returns the number of threads that build a table of this many batches.
pub(crate) fn threads_for(parts: usize) -> usize {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    cores.min(parts).clamp(1, MAX_THREADS)
}

/// Builds columns of [`Table::Events`] in memory, on all cores.
///
/// # Errors
/// The same as [`collect_table`].
pub fn collect_events(
    recording: &Recording,
    selection: &EventSelection,
    columns: &EventColumns,
    progress: &Progress,
) -> Result<CollectedTable, TableError> {
    progress.set_total(selection.count(recording) as u64);
    let parts = selection.parts(recording);
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, RecordBatch)>, TableError> {
        let mut built = Vec::new();
        let mut builder = EventBatches::new(recording, columns);
        loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part >= parts {
                return Ok(built);
            }
            let rows = selection.rows_of_part(part, recording);
            progress.advance(rows.len() as u64)?;
            built.push((part, builder.build(&rows)?));
        }
    };
    let mut all = thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads_for(parts)).map(|_| scope.spawn(work)).collect();
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
    use arrow_array::cast::AsArray as _;
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

    /// Compares batches cell by cell: texts are `string_view` on the left and `string` on the right.
    fn assert_same_cells(got: &[RecordBatch], expected: &[RecordBatch]) {
        assert_eq!(got.len(), expected.len());
        for (a, b) in got.iter().zip(expected) {
            assert_eq!((a.num_rows(), a.num_columns()), (b.num_rows(), b.num_columns()));
            for (n, (x, y)) in a.columns().iter().zip(b.columns()).enumerate() {
                let name = a.schema().field(n).name().clone();
                assert_eq!(&name, b.schema().field(n).name());
                match (x.as_string_view_opt(), y.as_string_opt::<i32>()) {
                    (Some(x), Some(y)) => assert!(x.iter().eq(y.iter()), "{name}"),
                    _ => assert_eq!(x, y, "{name}"),
                }
            }
        }
    }

    #[test]
    fn events_of_a_sample_have_the_cells_of_an_export() {
        for name in ["vecadd.kine", "digits.kine", "cuda/net.kine"] {
            let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../../sample-traces")
                .join(name);
            let recording = trace_core::container::open(&file).unwrap();
            let (timeline, progress) = (Timeline::default(), Progress::new());
            let collected = collect_table(Table::Events, &recording, &timeline, &progress).unwrap();
            assert_same_cells(&collected.batches, &build_in_order(&recording));
            let every_third = Selection::from_iter((0..recording.events.len() as u64).step_by(3));
            let mut expected = Vec::new();
            let take = &mut |batch| {
                expected.push(batch);
                Ok(())
            };
            tables::build_selected_events(&recording, &every_third, &progress, take).unwrap();
            let selection = EventSelection::Selected(every_third);
            let selected = collect_events(&recording, &selection, &EventColumns::default(), &progress).unwrap();
            assert_same_cells(&selected.batches, &expected);
        }
    }

    #[test]
    fn collected_events_are_in_order() {
        for rows in [0, 1, 70_000, 200_000] {
            let recording = recording(rows);
            let (timeline, progress) = (Timeline::default(), Progress::new());
            let collected = collect_table(Table::Events, &recording, &timeline, &progress).unwrap();
            assert_same_cells(&collected.batches, &build_in_order(&recording));
            let chosen = EventSelection::Selected(Selection::from_iter(0..u64::from(rows)));
            let selected = collect_events(&recording, &chosen, &EventColumns::default(), &progress).unwrap();
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
