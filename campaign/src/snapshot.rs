//! What a campaign's folder shows at one time: the rows of its matrix with their runs, and the state of its queue.

use crate::campaign_folder::StatusFile;
use crate::cell::Cell;
use crate::queue::WorkCounts;
use crate::run_result::RunResult;
use crate::summary::{CellKey, WORK_KINDS, WorkKey};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A run of a cell, with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellRun {
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// The result.
    pub result: RunResult,
}

/// A cell of the matrix, with its first runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixCell {
    /// What identifies it.
    pub key: CellKey,
    /// The results of its repeats.
    pub cell: Cell,
    /// The first runs that have a result, in order of their repeats; at most [`crate::MAX_CELL_RUNS`]. The table of
    /// results has all.
    pub runs: Vec<CellRun>,
}

/// A row of the matrix: a work item on all targets that have a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixRow {
    /// The work item.
    pub work: WorkKey,
    /// Its cells in order of the names of their targets.
    pub(crate) cells: Vec<Arc<MatrixCell>>,
}

impl MatrixRow {
    /// Returns the cell of a target, or `None` if it has no result.
    #[must_use]
    pub fn cell(&self, target: &str) -> Option<&MatrixCell> {
        let at = self.position(target).ok()?;
        self.cells.get(at).map(AsRef::as_ref)
    }

    /// Sets the cell of a target.
    pub(crate) fn set(&mut self, cell: MatrixCell) {
        match self.position(&cell.key.target) {
            Ok(at) => {
                if let Some(place) = self.cells.get_mut(at) {
                    *place = Arc::new(cell);
                }
            }
            Err(at) => self.cells.insert(at, Arc::new(cell)),
        }
    }

    fn position(&self, target: &str) -> Result<usize, usize> {
        self.cells.binary_search_by(|c| c.key.target.as_str().cmp(target))
    }
}

/// Numbers of the runs of each kind of work, by target.
pub type KindCounts = BTreeMap<&'static str, BTreeMap<String, WorkCounts>>;

/// A campaign at one time. Its rows are shared with earlier and later readings.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Folder of the campaign.
    pub folder: PathBuf,
    /// The state of its queue.
    pub status: StatusFile,
    /// Whether another process has the queue: then the status may be a second old.
    pub is_elsewhere: bool,
    /// The rows in the order of reports.
    pub rows: Vec<Arc<MatrixRow>>,
    /// Names of the targets.
    pub targets: Vec<String>,
    /// Numbers of the status.
    pub counts: KindCounts,
}

impl Snapshot {
    /// Returns the rows of a kind of work. Takes time logarithmic in the number of rows.
    #[must_use]
    pub fn rows_of(&self, kind: &str) -> &[Arc<MatrixRow>] {
        let order = |kind: &str| WORK_KINDS.iter().position(|k| *k == kind);
        let first = self.rows.partition_point(|row| order(row.work.kind) < order(kind));
        let rows = self.rows.get(first..).unwrap_or_default();
        let count = rows.partition_point(|row| row.work.kind == kind);
        rows.get(..count).unwrap_or_default()
    }

    /// Returns a cell, or `None` if it has no result. Takes time logarithmic in the number of cells.
    #[must_use]
    pub fn cell(&self, key: &CellKey) -> Option<&MatrixCell> {
        let work = key.work();
        let at = self.rows.binary_search_by(|row| row.work.cmp(&work)).ok()?;
        self.rows.get(at)?.cell(&key.target)
    }

    /// Returns all cells, in the order of their rows.
    pub fn cells(&self) -> impl Iterator<Item = &MatrixCell> {
        self.rows.iter().flat_map(|row| row.cells.iter().map(AsRef::as_ref))
    }
}
