//! Whole tables in memory, for programs that take Arrow batches.

use crate::batch::BATCH;
use crate::error::TableError;
use crate::event_batches::{BatchRows, EventBatches};
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
        let rows = recording.events.len();
        return collect_parts(recording, rows, progress, |builder, range| {
            builder.build(&BatchRows::Range(range))
        });
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
    collect_parts(recording, chosen.len(), progress, |builder, range| {
        builder.build(&BatchRows::List(chosen.get(range).unwrap_or_default()))
    })
}

/// Builds `rows` rows in batches, each by `build` from its range of rows.
fn collect_parts(
    recording: &Recording,
    rows: usize,
    progress: &Progress,
    build: impl Fn(&mut EventBatches<'_>, std::ops::Range<usize>) -> Result<RecordBatch, TableError> + Sync,
) -> Result<CollectedTable, TableError> {
    progress.set_total(rows as u64);
    let parts = rows.div_ceil(BATCH).max(1);
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, RecordBatch)>, TableError> {
        let mut built = Vec::new();
        let mut builder = EventBatches::new(recording);
        loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part >= parts {
                return Ok(built);
            }
            let range = part * BATCH..rows.min((part + 1) * BATCH);
            progress.advance(range.len() as u64)?;
            built.push((part, build(&mut builder, range)?));
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
            let selected = collect_events(&recording, &every_third, &progress).unwrap();
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
