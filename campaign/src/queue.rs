//! Queues of runs: what any queue does, whether it is a folder on this machine or a broker.

use crate::run::{LeasedRun, Run, RunId};
use crate::run_result::RunResult;
use replay_engine::device::DeviceInfo;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Why a queue cannot do what was requested.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// Another process has the queue open.
    #[error("{}: another process uses this campaign; wait for it, or stop it", .0.display())]
    InUse(PathBuf),
    /// The files of the queue cannot be read or written.
    #[error("{}: {reason}", path.display())]
    Storage {
        /// The file.
        path: PathBuf,
        /// What failed.
        reason: String,
    },
    /// The queue was written by another version of the program.
    #[error("{}: the queue has version {found} (this program reads version {expected})", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version found.
        found: u64,
        /// The version that this code reads.
        expected: u64,
    },
    /// The broker that holds the queue cannot be used.
    #[error("{address}: {reason}")]
    Broker {
        /// Address of the broker.
        address: String,
        /// What failed.
        reason: String,
    },
    /// An entry cannot be read.
    #[error("{}: entry {entry} is damaged: {reason}", path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// Id of the run, or name of the entry.
        entry: String,
        /// What is wrong.
        reason: String,
    },
}

/// Numbers of runs by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Runs that wait.
    pub queued: u64,
    /// Runs that a worker has.
    pub leased: u64,
    /// Runs with a result.
    pub done: u64,
}

impl Counts {
    /// Returns the number of all runs.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.queued.saturating_add(self.leased).saturating_add(self.done)
    }

    /// Adds other numbers.
    pub fn add(&mut self, other: &Self) {
        self.queued = self.queued.saturating_add(other.queued);
        self.leased = self.leased.saturating_add(other.leased);
        self.done = self.done.saturating_add(other.done);
    }
}

/// The numbers of each target, by its name.
pub type TargetCounts = BTreeMap<String, Counts>;

/// Numbers of results by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct VerdictCounts {
    /// Runs that match.
    #[serde(rename = "match")]
    pub matching: u64,
    /// Runs that diverged.
    pub diverged: u64,
    /// Runs that did not come to their end.
    pub failed: u64,
    /// Runs that were not started.
    pub refused: u64,
}

impl VerdictCounts {
    /// Returns the number of all results.
    #[must_use]
    pub fn total(&self) -> u64 {
        let all = [self.matching, self.diverged, self.failed, self.refused];
        all.into_iter().fold(0, u64::saturating_add)
    }
}

/// Numbers of the runs of one kind of work on one target.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct WorkCounts {
    /// Target of the description.
    pub target: String,
    /// Kind of work: `replay`, `pipeline`, `tuning`, `wasm`, `fuzz`, `bisect`.
    pub kind: String,
    /// Numbers by state.
    #[serde(flatten)]
    pub counts: Counts,
    /// Numbers of results.
    #[serde(flatten)]
    pub verdicts: VerdictCounts,
}

/// Returns the numbers of each target, from those of its kinds of work.
#[must_use]
pub fn count_targets(work: &[WorkCounts]) -> TargetCounts {
    let mut targets = TargetCounts::new();
    for row in work {
        targets.entry(row.target.clone()).or_default().add(&row.counts);
    }
    targets
}

/// What became of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishedRun {
    /// It is the result of the run.
    Recorded,
    /// The run has a result already, which stays.
    HadResult,
}

/// An answer to the question whether an attempt may begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartAnswer {
    /// The attempt is noted, and may begin.
    Started {
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Why earlier attempts had no result, oldest first.
        earlier_attempts: Vec<String>,
    },
    /// The run has a result, another worker has it, or nobody may run it again.
    Withdrawn,
}

/// Where the thread of a target gets its runs, and where it reports them: a folder on this machine, or a broker. A change
/// of a folder is durable when its method returns; a result when its target takes the next run, or the one after it if runs
/// are leased ahead. A broker may receive a result later. A run whose result is lost is repeated.
pub trait RunSource: Send + Sync {
    /// Waits until a run of a target is queued, at most for `limit`. Returns whether there may be one. A queue without
    /// other writers answers at once.
    ///
    /// # Errors
    /// If the queue cannot be read.
    fn wait_for_run(&self, target: &str, limit: Duration) -> Result<bool, QueueError>;

    /// Receives the description of a target that can be used now; `None` for one without a device, which only runs
    /// WebAssembly programs. A source that selects runs by labels needs it.
    fn note_target(&self, _target: &str, _device: Option<&DeviceInfo>) {}

    /// Returns the folder of a run's kept files; `None` for that of the campaign. Two campaigns can have the same run, and
    /// the files of both the same names.
    fn outcome_folder(&self, _leased: &LeasedRun) -> Option<PathBuf> {
        None
    }

    /// Reports that a target cannot be used now. A run that the source holds for it goes back to the queue.
    ///
    /// # Errors
    /// If the queue cannot be written.
    fn decline(&self, _target: &str) -> Result<(), QueueError> {
        Ok(())
    }

    /// Leases the first queued run of a target to a worker; `None` if there is none. A run whose lease has expired is
    /// queued again before.
    ///
    /// # Errors
    /// If the queue cannot be read or written.
    fn take(&self, target: &str, worker: &str, lease: Duration) -> Result<Option<LeasedRun>, QueueError>;

    /// Returns where the answer comes that allows a leased run to begin on its target; `None` if it may begin at once. The
    /// run may be prepared meanwhile. A run that is withdrawn is released.
    fn pending_start(&self, _leased: &LeasedRun) -> Option<Receiver<StartAnswer>> {
        None
    }

    /// Records the result of a leased run. Each run gets one result: the first.
    ///
    /// # Errors
    /// If the queue cannot be written.
    fn finish(&self, leased: &LeasedRun, result: &RunResult) -> Result<FinishedRun, QueueError>;

    /// Returns a leased run to the front of the queue. `reason` says why there is no result; if the run cannot have
    /// executed, it is `None`, and the attempt does not count.
    ///
    /// # Errors
    /// If the queue cannot be written.
    fn release(&self, leased: &LeasedRun, reason: Option<&str>) -> Result<(), QueueError>;
}

/// A queue of runs. A run is queued, leased by a worker with a deadline, or done with a result. When a method returns, its
/// change survives the end of the process and of the machine; [`RunSource::finish`] is the exception.
pub trait RunQueue: RunSource {
    /// Adds runs in their order. A run whose id the queue has stays as it is. Returns the number of added runs.
    ///
    /// # Errors
    /// If the queue cannot be written.
    fn add(&self, runs: &mut dyn Iterator<Item = Run>) -> Result<u64, QueueError>;

    /// Returns the numbers of runs by state.
    ///
    /// # Errors
    /// If the queue cannot be read.
    fn counts(&self) -> Result<Counts, QueueError>;

    /// Calls `each` with every run that has a result, in order of ids, until it returns `false`.
    ///
    /// # Errors
    /// If the queue cannot be read.
    fn results(&self, each: &mut dyn FnMut(Run, RunResult) -> bool) -> Result<(), QueueError>;

    /// Returns the result of a run, if it has one.
    ///
    /// # Errors
    /// If the queue cannot be read.
    fn result(&self, id: RunId) -> Result<Option<RunResult>, QueueError>;
}
