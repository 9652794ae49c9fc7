//! A reader of a campaign's folder. It holds what it has read, and reads only what was appended while a process runs the
//! campaign.

use crate::campaign_folder::{CampaignFolder, FolderError, StatusFile, describe_queue};
use crate::folder_queue::FolderQueue;
use crate::open_cell::OpenCell;
use crate::queue::{QueueError, RunQueue as _};
use crate::result_log::{LogEntry, LogPart, LogReader};
use crate::snapshot::{CellRun, KindCounts, MatrixCell, MatrixRow, Snapshot};
use crate::summary::{CellKey, WORK_KINDS, WorkKey};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Maximum number of runs of a cell that are held. The table of results has all.
pub const MAX_CELL_RUNS: usize = 200;
/// Maximum number of cells of a log.
const MAX_CELLS: usize = 1 << 20;

/// A cell that is being collected, with its first runs.
#[derive(Debug)]
struct CollectedCell {
    open: OpenCell,
    /// By the digest of the contents, as in the open cell.
    runs: BTreeMap<String, Vec<CellRun>>,
    /// Whether the shown row has the results until now.
    is_shown: bool,
}

/// A row that is being collected.
#[derive(Debug)]
struct CollectedRow {
    cells: BTreeMap<String, CollectedCell>,
    shown: Arc<MatrixRow>,
}

/// The matrix that is being collected.
#[derive(Debug, Default)]
struct CollectedMatrix {
    rows: BTreeMap<WorkKey, CollectedRow>,
    targets: BTreeSet<String>,
    cell_count: usize,
    /// Cells that got results since the last snapshot.
    changed: Vec<(WorkKey, String)>,
}

impl CollectedMatrix {
    /// Adds a result.
    fn add(&mut self, entry: LogEntry<'_>) -> Result<(), String> {
        let Some(kind) = WORK_KINDS.into_iter().find(|kind| *kind == entry.kind) else {
            return Err(format!("`{}` is no kind of work", entry.kind));
        };
        let work = WorkKey {
            kind,
            recording: entry.recording.into_owned(),
            options: entry.options.into_owned(),
        };
        let row = self.rows.entry(work.clone()).or_insert_with(|| CollectedRow {
            cells: BTreeMap::new(),
            shown: Arc::new(MatrixRow {
                work: work.clone(),
                cells: Vec::new(),
            }),
        });
        let result = entry.result.into_owned();
        let cell = match row.cells.get_mut(entry.target.as_ref()) {
            Some(cell) => cell,
            None => {
                if self.cell_count >= MAX_CELLS {
                    return Err(format!("it has more than {MAX_CELLS} cells"));
                }
                self.cell_count += 1;
                if !self.targets.contains(entry.target.as_ref()) {
                    self.targets.insert(entry.target.to_string());
                }
                row.cells
                    .entry(entry.target.to_string())
                    .or_insert_with(|| CollectedCell {
                        open: OpenCell::default(),
                        runs: BTreeMap::new(),
                        is_shown: true,
                    })
            }
        };
        let runs = cell.runs.entry(entry.content_digest.to_string()).or_default();
        if runs.len() < MAX_CELL_RUNS {
            let at = runs.partition_point(|run| run.repeat <= entry.repeat);
            runs.insert(
                at,
                CellRun {
                    repeat: entry.repeat,
                    result: result.clone(),
                },
            );
        }
        cell.open
            .add(&entry.content_digest, entry.path.as_ref(), &entry.digest, result);
        if std::mem::replace(&mut cell.is_shown, false) {
            self.changed.push((work, entry.target.into_owned()));
        }
        Ok(())
    }

    /// Updates the rows with new results, and returns all rows.
    fn show(&mut self) -> Vec<Arc<MatrixRow>> {
        for (work, target) in std::mem::take(&mut self.changed) {
            let Some(row) = self.rows.get_mut(&work) else { continue };
            let Some(cell) = row.cells.get_mut(&target) else {
                continue;
            };
            cell.is_shown = true;
            let Some(closed) = cell.open.close() else { continue };
            let runs = cell.open.newest().and_then(|contents| cell.runs.get(contents));
            Arc::make_mut(&mut row.shown).set(MatrixCell {
                key: CellKey::new(work, target),
                cell: closed,
                runs: runs.cloned().unwrap_or_default(),
            });
        }
        self.rows.values().map(|row| Arc::clone(&row.shown)).collect()
    }
}

/// A reader of the folder of a campaign.
#[derive(Debug)]
pub struct CampaignReader {
    folder: CampaignFolder,
    matrix: CollectedMatrix,
    log: LogReader,
    last: Option<Arc<Snapshot>>,
    /// The stored status when the queue was free and was read.
    free_status: Option<StatusFile>,
}

impl CampaignReader {
    /// Opens the folder of a campaign.
    ///
    /// # Errors
    /// If it holds none.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        Ok(Self::new(CampaignFolder::open(path)?))
    }

    /// Creates a reader of a folder.
    #[must_use]
    pub fn new(folder: CampaignFolder) -> Self {
        Self {
            folder,
            matrix: CollectedMatrix::default(),
            log: LogReader::default(),
            last: None,
            free_status: None,
        }
    }

    /// Reads the folder. If another process has the queue, this reads the results that were appended to its log since the
    /// last call; without a log, the cells stay as they were read last. If the queue is free, this reads all its results,
    /// unless the status is the one of the last call.
    ///
    /// # Errors
    /// If a file cannot be read or is damaged. The last snapshot stays valid.
    pub fn read(&mut self) -> Result<Arc<Snapshot>, FolderError> {
        let stored = self.folder.stored_status()?;
        // A process that goes on with the campaign writes another status.
        if let Some(last) = self.last.as_ref().filter(|last| !last.is_elsewhere)
            && self.free_status.as_ref() == Some(&stored)
        {
            return Ok(Arc::clone(last));
        }
        match self.folder.open_queue_to_read() {
            Ok(queue) => {
                self.read_queue(&queue)?;
                let status = describe_queue(&stored, &queue, false)?;
                self.free_status = Some(stored);
                Ok(self.publish(status, false))
            }
            Err(QueueError::InUse(_)) => {
                self.read_log()?;
                Ok(self.publish(stored, true))
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Reads the results that were appended to the log of a queue that is open here. `running`: this process runs it.
    ///
    /// # Errors
    /// If the queue or its log cannot be read.
    pub fn read_running(&mut self, queue: &FolderQueue, running: bool) -> Result<Arc<Snapshot>, FolderError> {
        let status = describe_queue(&self.folder.stored_status()?, queue, running)?;
        self.read_log()?;
        Ok(self.publish(status, false))
    }

    /// Reads all results of a queue.
    fn read_queue(&mut self, queue: &FolderQueue) -> Result<(), FolderError> {
        let mut matrix = CollectedMatrix::default();
        let mut failure = None;
        queue.results(&mut |run, result| {
            failure = matrix.add(LogEntry::new(&run, &result)).err();
            failure.is_none()
        })?;
        if let Some(reason) = failure {
            return Err(self.damaged(reason));
        }
        self.matrix = matrix;
        // A later log begins with these results.
        self.log = LogReader::default();
        Ok(())
    }

    /// Reads what the log has. Results that were read before stay until the first part of another log is read.
    fn read_log(&mut self) -> Result<(), FolderError> {
        let path = self.folder.log_path();
        loop {
            let part = self.log.read(&path).map_err(|reason| self.damaged(reason))?;
            let entries = match part {
                LogPart::None => return Ok(()),
                LogPart::Appended(entries) => entries,
                LogPart::Restarted(entries) => {
                    self.matrix = CollectedMatrix::default();
                    entries
                }
            };
            if entries.is_empty() {
                return Ok(());
            }
            for entry in entries {
                self.matrix.add(entry).map_err(|reason| self.damaged(reason))?;
            }
        }
    }

    fn damaged(&self, reason: String) -> FolderError {
        FolderError::Log {
            path: self.folder.log_path(),
            reason,
        }
    }

    fn publish(&mut self, status: StatusFile, is_elsewhere: bool) -> Arc<Snapshot> {
        let mut counts = KindCounts::new();
        for row in &status.work {
            if let Some(kind) = WORK_KINDS.into_iter().find(|kind| *kind == row.kind) {
                counts.entry(kind).or_default().insert(row.target.clone(), row.clone());
            }
        }
        let targets: BTreeSet<&String> = self.matrix.targets.iter().chain(status.targets.keys()).collect();
        let targets = targets.into_iter().cloned().collect();
        let snapshot = Arc::new(Snapshot {
            folder: self.folder.path().to_owned(),
            is_elsewhere,
            rows: self.matrix.show(),
            targets,
            counts,
            status,
        });
        self.last = Some(Arc::clone(&snapshot));
        snapshot
    }
}

#[cfg(test)]
mod tests;
