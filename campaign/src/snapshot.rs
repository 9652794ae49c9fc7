//! What a campaign's folder shows at one time: its cells with their runs, and the state of its queue. For views.

use crate::campaign_folder::{CampaignFolder, FolderError, StatusFile, describe_queue};
use crate::folder_queue::FolderQueue;
use crate::queue::{QueueError, RunQueue as _};
use crate::run_result::RunResult;
use crate::summary::{CellKey, Summary};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Maximum number of runs of a cell that are kept. The table of results has all.
const MAX_CELL_RUNS: usize = 200;

/// A run of a cell, with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellRun {
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// The result.
    pub result: RunResult,
}

/// A campaign at one time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Folder of the campaign.
    pub folder: PathBuf,
    /// The state of its queue.
    pub status: StatusFile,
    /// Whether another process has the queue: then only the status is known, with the numbers of each kind of work on each
    /// target. It may be a second old.
    pub is_elsewhere: bool,
    /// The cells.
    pub summary: Summary,
    /// The first runs of each cell, in order of their repeats.
    pub runs: BTreeMap<CellKey, Vec<CellRun>>,
}

impl Snapshot {
    /// Reads the folder of a campaign. If another process runs it, only its status is read.
    ///
    /// # Errors
    /// If the folder holds no campaign, or a file in it cannot be read.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let folder = CampaignFolder::open(path)?;
        let stored = folder.stored_status()?;
        match folder.open_queue() {
            Ok(queue) => Ok(Self::read(&folder, &queue, false)?),
            Err(QueueError::InUse(_)) => Ok(Self {
                folder: path.to_owned(),
                status: stored,
                is_elsewhere: true,
                summary: Summary::default(),
                runs: BTreeMap::new(),
            }),
            Err(e) => Err(e.into()),
        }
    }

    /// Reads a queue that is open here. `running`: this process runs it.
    ///
    /// # Errors
    /// If the queue or the status cannot be read.
    pub fn read(folder: &CampaignFolder, queue: &FolderQueue, running: bool) -> Result<Self, FolderError> {
        let mut runs: BTreeMap<CellKey, Vec<CellRun>> = BTreeMap::new();
        queue.results(&mut |run, result| {
            let of_cell = runs.entry(CellKey::for_run(&run)).or_default();
            if of_cell.len() < MAX_CELL_RUNS {
                of_cell.push(CellRun {
                    repeat: run.repeat,
                    result,
                });
            }
            true
        })?;
        runs.values_mut().for_each(|of_cell| of_cell.sort_by_key(|r| r.repeat));
        Ok(Self {
            folder: folder.path().to_owned(),
            status: describe_queue(&folder.stored_status()?, queue, running)?,
            is_elsewhere: false,
            summary: Summary::read(queue)?,
            runs,
        })
    }
}
