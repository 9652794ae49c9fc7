//! The folder of a campaign: its queue, kept outcomes, the table of results, and the status of the process that runs it.

use crate::folder_queue::FolderQueue;
use crate::queue::{Counts, QueueError, TargetCounts, WorkCounts, count_targets};
use crate::result_log::new_id;
use crate::run_result::unix_ms;
use kinescope_files::output::{self, OutputError};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Maximum size of the status, bytes.
const MAX_STATUS_BYTES: u64 = 32 << 20;

/// Why a folder cannot be used for a campaign.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder holds no campaign.
    #[error("{}: no campaign is here (a folder that `kinescope campaign run -o` made has {QUEUE})", .0.display())]
    NoCampaign(PathBuf),
    /// The folder holds another campaign.
    #[error(
        "{}: the campaign `{found}` is here, not `{expected}`; choose another folder with -o", path.display()
    )]
    OtherCampaign {
        /// The folder.
        path: PathBuf,
        /// Name of its campaign.
        found: String,
        /// Name of the campaign to run.
        expected: String,
    },
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The queue cannot be opened.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The log of results cannot be read.
    #[error("{}: {reason}; the cells show when the process that runs the campaign ends", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The status cannot be read.
    #[error("{}: damaged: {reason}; remove it, and `campaign run` writes it again", path.display())]
    Status {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// Name of the queue's file.
const QUEUE: &str = "queue.redb";
/// Name of the status file.
const STATUS: &str = "status.json";
/// Name of the log of results.
const LOG: &str = "results.log";
/// Name of the table of results.
const RESULTS: &str = "results.parquet";
/// Name of the folder of kept outcomes.
const OUTCOMES: &str = "outcomes";

/// The status of a campaign, as the process that runs it wrote it last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusFile {
    /// Name of the campaign.
    pub campaign: String,
    /// Id of this folder's campaign, 32 hex digits: no other folder has it.
    pub id: String,
    /// Whether a process runs it.
    pub running: bool,
    /// When the status was written, milliseconds since 1970.
    pub written_ms: u64,
    /// Numbers of runs by state.
    pub counts: Counts,
    /// The same for each target.
    pub targets: TargetCounts,
    /// The same for each kind of work on each target, with verdicts. Earlier versions do not write it.
    #[serde(default)]
    pub work: Vec<WorkCounts>,
}

/// The folder of a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CampaignFolder {
    path: PathBuf,
}

impl CampaignFolder {
    /// Opens the folder of the campaign `name` to run it, and creates it if there is none.
    ///
    /// # Errors
    /// If it cannot be created, or holds another campaign.
    pub fn create(path: &Path, name: &str) -> Result<Self, FolderError> {
        let folder = Self { path: path.to_owned() };
        fs::create_dir_all(path).map_err(|source| FolderError::Io {
            path: path.to_owned(),
            source,
        })?;
        match folder.status()? {
            Some(status) if status.campaign != name => Err(FolderError::OtherCampaign {
                path: path.to_owned(),
                found: status.campaign,
                expected: name.to_owned(),
            }),
            Some(_) => Ok(folder),
            None => {
                // Name and id are there before the queue.
                folder.write_status(&StatusFile {
                    campaign: name.to_owned(),
                    id: new_id(path),
                    running: false,
                    written_ms: unix_ms(),
                    counts: Counts::default(),
                    targets: TargetCounts::new(),
                    work: Vec::new(),
                })?;
                Ok(folder)
            }
        }
    }

    /// Opens the folder of a campaign that was run.
    ///
    /// # Errors
    /// If it holds none.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        match path.join(QUEUE).is_file() {
            true => Ok(Self { path: path.to_owned() }),
            false => Err(FolderError::NoCampaign(path.to_owned())),
        }
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the table of results.
    #[must_use]
    pub fn results_path(&self) -> PathBuf {
        self.path.join(RESULTS)
    }

    /// Returns the path of the log of results, which is there while a process runs the campaign.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// Returns the folder of kept outcomes.
    #[must_use]
    pub fn outcomes_path(&self) -> PathBuf {
        self.path.join(OUTCOMES)
    }

    /// Opens the queue for this process.
    ///
    /// # Errors
    /// If another process has it open, or it cannot be read or written.
    pub fn open_queue(&self) -> Result<FolderQueue, QueueError> {
        FolderQueue::open(&self.path.join(QUEUE))
    }

    /// Opens the queue for this process to read it, also in a folder that this process may not write.
    ///
    /// # Errors
    /// If another process has it open, or it cannot be read.
    pub fn open_queue_to_read(&self) -> Result<FolderQueue, QueueError> {
        FolderQueue::open_to_read(&self.path.join(QUEUE))
    }

    /// Opens the queue to run it: other processes can follow its results in the log until it is closed.
    ///
    /// # Errors
    /// If another process has it open, or a file cannot be read or written.
    pub fn open_running_queue(&self) -> Result<FolderQueue, QueueError> {
        let queue = self.open_queue()?;
        queue.log_results(&self.log_path())?;
        Ok(queue)
    }

    /// Returns the status that was written last, or `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn status(&self) -> Result<Option<StatusFile>, FolderError> {
        let path = self.path.join(STATUS);
        let mut bytes = Vec::new();
        let read = fs::File::open(&path).and_then(|f| f.take(MAX_STATUS_BYTES).read_to_end(&mut bytes));
        match read {
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(FolderError::Io { path, source }),
        }
        let status = serde_json::from_slice(&bytes);
        status.map(Some).map_err(|e| FolderError::Status {
            path,
            reason: e.to_string(),
        })
    }

    /// Returns the status that was written last. If somebody removed it, the campaign has the name of its folder.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn stored_status(&self) -> Result<StatusFile, FolderError> {
        let unnamed = || StatusFile {
            campaign: self.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            id: String::new(),
            running: false,
            written_ms: 0,
            counts: Counts::default(),
            targets: TargetCounts::new(),
            work: Vec::new(),
        };
        Ok(self.status()?.unwrap_or_else(unnamed))
    }

    /// Writes the status. A reader sees the old one or the new one.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_status(&self, status: &StatusFile) -> Result<(), FolderError> {
        let path = self.path.join(STATUS);
        let bytes = serde_json::to_vec_pretty(status).map_err(|e| FolderError::Io {
            path: path.clone(),
            source: e.into(),
        })?;
        Ok(output::write(&path, &bytes)?)
    }

    /// Writes the status of a queue.
    ///
    /// # Errors
    /// If the queue cannot be read, or the file cannot be written.
    pub fn write_queue_status(&self, queue: &FolderQueue, running: bool) -> Result<(), FolderError> {
        self.write_status(&describe_queue(&self.stored_status()?, queue, running)?)
    }
}

/// Returns the status of a queue that is open here. `stored` is the one that was written last.
///
/// # Errors
/// If the queue cannot be read.
pub fn describe_queue(stored: &StatusFile, queue: &FolderQueue, running: bool) -> Result<StatusFile, QueueError> {
    let work = queue.work_counts()?;
    let mut counts = Counts::default();
    work.iter().for_each(|row| counts.add(&row.counts));
    Ok(StatusFile {
        campaign: stored.campaign.clone(),
        id: stored.id.clone(),
        running,
        written_ms: unix_ms(),
        counts,
        targets: count_targets(&work),
        work,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_holds_one_campaign() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nightly");
        assert!(matches!(CampaignFolder::open(&path), Err(FolderError::NoCampaign(_))));
        let campaign = CampaignFolder::create(&path, "nightly").unwrap();
        let queue = campaign.open_queue().unwrap();
        campaign.write_queue_status(&queue, true).unwrap();
        assert!(CampaignFolder::open(&path).unwrap().status().unwrap().unwrap().running);
        let other = CampaignFolder::create(&path, "weekly");
        assert!(matches!(other, Err(FolderError::OtherCampaign { .. })));
        fs::remove_file(path.join(STATUS)).unwrap();
        assert_eq!(campaign.stored_status().unwrap().campaign, "nightly");
        fs::write(path.join(STATUS), "{").unwrap();
        assert!(matches!(campaign.status(), Err(FolderError::Status { .. })));
    }
}
