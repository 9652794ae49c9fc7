//! The table of results: one row for each run, as Parquet, Arrow or CSV.

use crate::queue::{QueueError, RunQueue};
use crate::run::Run;
use crate::run_result::RunResult;
use crate::work::{DetailColumns, RunDetails};
use kinescope_files::output::{self, OutputError};
use std::io::Write;
use std::path::Path;
use trace_query::{Cells, ColumnWriter, Format, TableError};

/// Number of rows that are written at once.
const BATCH: usize = 4096;

/// Why the table was not written.
#[derive(Debug, thiserror::Error)]
pub enum TableFileError {
    /// The results cannot be read.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The rows cannot be written.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The file cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// Rows that are not written yet, by column.
#[derive(Default)]
struct Rows {
    texts: [Vec<Option<String>>; 17],
    numbers: [Vec<Option<u64>>; 17],
}

/// Names of the columns with texts.
const TEXTS: [&str; 17] = [
    "run",
    "kind",
    "recording_digest",
    "recording",
    "options",
    "target",
    "on_target",
    "gpu",
    "verdict",
    "divergence",
    "failure",
    "worker",
    "fingerprint",
    "earlier_attempts",
    "failed_parts",
    "best_point",
    "jobs_kept",
];
/// Names of the columns with numbers.
const NUMBERS: [&str; 17] = [
    "repeat",
    "computed",
    "divergence_event",
    "queued_ms",
    "started_ms",
    "ended_ms",
    "compile_ns",
    "upload_ns",
    "run_ns",
    "device_ns",
    "memory_bytes",
    "pushed_bytes",
    "attempt",
    "parts",
    "failed_part_count",
    "recorded_launch_ns",
    "best_launch_ns",
];

impl Rows {
    fn push(&mut self, run: &Run, result: &RunResult) {
        let recording = run.work.recording();
        let details = result
            .details
            .as_ref()
            .map_or_else(DetailColumns::default, RunDetails::columns);
        let earlier = (!result.earlier_attempts.is_empty()).then(|| result.earlier_attempts.join("\n"));
        let texts = [
            Some(run.id.to_string()),
            Some(run.work.kind().to_owned()),
            Some(recording.digest.clone()),
            Some(recording.path.display().to_string()),
            Some(run.work.describe_options()),
            Some(run.target.clone()),
            Some(result.on_target.clone()),
            Some(result.gpu.clone()).filter(|g| !g.is_empty()),
            Some(result.verdict.name().to_owned()),
            result.divergence.as_ref().map(|d| d.text.clone()),
            result.failure.clone(),
            Some(result.worker.clone()),
            Some(result.fingerprint.clone()).filter(|f| !f.is_empty()),
            earlier,
            details.failed,
            details.best_point,
            details.jobs,
        ];
        let numbers = [
            Some(u64::from(run.repeat)),
            Some(u64::from(result.computed)),
            result.divergence.as_ref().map(|d| d.event),
            Some(result.queued_ms),
            Some(result.started_ms),
            Some(result.ended_ms),
            Some(result.compile_ns),
            Some(result.upload_ns),
            Some(result.run_ns),
            Some(result.device_ns),
            Some(result.memory_bytes),
            Some(result.pushed_bytes),
            Some(u64::from(result.attempt)),
            details.items,
            details.failed_items,
            details.launch_ns.map(|(recorded, _)| recorded),
            details.launch_ns.map(|(_, best)| best),
        ];
        for (column, cell) in self.texts.iter_mut().zip(texts) {
            column.push(cell);
        }
        for (column, cell) in self.numbers.iter_mut().zip(numbers) {
            column.push(cell);
        }
    }

    fn len(&self) -> usize {
        self.numbers.first().map_or(0, Vec::len)
    }

    fn take_columns(&mut self) -> Vec<(&'static str, Cells)> {
        let Self { texts, numbers } = std::mem::take(self);
        let texts = TEXTS.into_iter().zip(texts.map(Cells::Text));
        let numbers = NUMBERS.into_iter().zip(numbers.map(Cells::Whole));
        texts.chain(numbers).collect()
    }
}

/// Writes the results of a queue to a file, in order of the ids of runs. Returns the number of rows.
///
/// # Errors
/// If the queue cannot be read or the file cannot be written.
pub fn write_table(queue: &dyn RunQueue, path: &Path) -> Result<u64, TableFileError> {
    let format = Format::from_path(path).unwrap_or(Format::Parquet);
    let mut count = 0;
    output::write_with(path, |to| {
        count = write_rows(queue, format, to)?;
        Ok::<(), TableFileError>(())
    })?;
    Ok(count)
}

fn write_rows(queue: &dyn RunQueue, format: Format, to: &mut (dyn Write + Send)) -> Result<u64, TableFileError> {
    let mut writer = ColumnWriter::new(format, to);
    let mut rows = Rows::default();
    let mut failure = None;
    queue.results(&mut |run, result| {
        rows.push(&run, &result);
        if rows.len() >= BATCH {
            failure = writer.add(rows.take_columns()).err();
        }
        failure.is_none()
    })?;
    if let Some(e) = failure {
        return Err(e.into());
    }
    writer.add(rows.take_columns())?;
    Ok(writer.finish()?)
}
