//! Whole tables in memory, for programs that take Arrow batches.

use crate::error::TableError;
use crate::tables::{self, Table};
use arrow_array::RecordBatch;
use trace_core::Recording;
use trace_core::filter::Selection;
use trace_core::progress::Progress;
use trace_core::timeline::Timeline;

/// A table in memory.
#[derive(Clone, Debug, Default)]
pub struct CollectedTable {
    /// Its rows: at least one batch, all with the same columns. A batch may be empty.
    pub batches: Vec<RecordBatch>,
    /// Descriptions of data that could not be followed: page tables with a hole.
    pub problems: Vec<String>,
}

/// Builds a table in memory, with the rows and columns that [`crate::export`] writes.
///
/// # Errors
/// When a batch cannot be built, or the work is cancelled.
pub fn collect_table(
    table: Table,
    recording: &Recording,
    timeline: &Timeline,
    progress: &Progress,
) -> Result<CollectedTable, TableError> {
    let mut batches = Vec::new();
    let problems = tables::build_table(table, recording, timeline, progress, &mut |batch| {
        batches.push(batch);
        Ok(())
    })?;
    Ok(CollectedTable { batches, problems })
}

/// Builds selected rows of [`Table::Events`] in memory.
///
/// # Errors
/// The same as [`collect_table`].
pub fn collect_events(
    recording: &Recording,
    chosen: &Selection,
    progress: &Progress,
) -> Result<CollectedTable, TableError> {
    let mut batches = Vec::new();
    tables::build_selected_events(recording, chosen, progress, &mut |batch| {
        batches.push(batch);
        Ok(())
    })?;
    Ok(CollectedTable {
        batches,
        problems: Vec::new(),
    })
}
