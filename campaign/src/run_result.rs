//! The result of a run: its verdict, its first divergence, its times, and who ran it.

use crate::run::{LeasedRun, RunId};
use crate::work::RunDetails;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The verdict on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunVerdict {
    /// Every comparison matched the recording.
    Match,
    /// At least one comparison differed.
    Diverged,
    /// The replay did not run to its end.
    Failed,
    /// The replay was not started: the recording cannot be read or compiled, or does not fit the target.
    Refused,
}

impl RunVerdict {
    /// Returns the verdict in one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Match => "match",
            Self::Diverged => "diverged",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }
}

/// The first difference between a run and its recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstDivergence {
    /// Event of the recording.
    pub event: u64,
    /// The difference, in words.
    pub text: String,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResult {
    /// The run.
    pub run: RunId,
    /// The verdict.
    pub verdict: RunVerdict,
    /// Whether every job ended as done and every shader ran.
    pub computed: bool,
    /// The first difference; `None` if there is none or it has no event.
    pub divergence: Option<FirstDivergence>,
    /// Why the run failed or was refused.
    pub failure: Option<String>,
    /// Target that ran it, as `--on` takes it.
    pub on_target: String,
    /// Name of the GPU; empty if the target was never reached.
    pub gpu: String,
    /// When the run was queued, started and reported, milliseconds since 1970.
    pub queued_ms: u64,
    /// When the run was started, milliseconds since 1970.
    pub started_ms: u64,
    /// When the run ended, milliseconds since 1970.
    pub ended_ms: u64,
    /// Compiling and verifying the plan, ns.
    pub compile_ns: u64,
    /// Sending plan and pages, ns.
    pub upload_ns: u64,
    /// Running the plan, ns on the target's machine.
    pub run_ns: u64,
    /// Running the plan, ns on the clock of the device.
    pub device_ns: u64,
    /// Memory of the target that the plan uses, bytes.
    pub memory_bytes: u64,
    /// Bytes that were sent to the target.
    pub pushed_bytes: u64,
    /// Number of the attempt, from 1. An attempt above 1 repeats one that may have executed and was not confirmed.
    pub attempt: u32,
    /// Why earlier attempts had no result, oldest first.
    pub earlier_attempts: Vec<String>,
    /// Who ran it: name of the worker.
    pub worker: String,
    /// Digest of everything that a run must repeat bit for bit, 64 hex digits; empty without an outcome.
    pub fingerprint: String,
    /// The outcome as a recording, if it was kept: a path in the campaign's folder.
    pub outcome: Option<PathBuf>,
    /// What only this kind of work has; `None` for a replay, and for a run that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<RunDetails>,
}

impl RunResult {
    /// Returns the result of a run that starts now, until it is updated: refused.
    #[must_use]
    pub fn unstarted(leased: &LeasedRun, on_target: &str, worker: &str) -> Self {
        let now = unix_ms();
        Self {
            run: leased.run.id,
            verdict: RunVerdict::Refused,
            computed: false,
            divergence: None,
            failure: None,
            on_target: on_target.to_owned(),
            gpu: String::new(),
            queued_ms: leased.queued_ms,
            started_ms: now,
            ended_ms: now,
            compile_ns: 0,
            upload_ns: 0,
            run_ns: 0,
            device_ns: 0,
            memory_bytes: 0,
            pushed_bytes: 0,
            attempt: leased.attempt,
            earlier_attempts: leased.earlier_attempts.clone(),
            worker: worker.to_owned(),
            fingerprint: String::new(),
            outcome: None,
            details: None,
        }
    }

    /// Returns the result of a run whose last attempt was lost too.
    #[must_use]
    pub fn lost(leased: &LeasedRun, on_target: &str, worker: &str, reason: &str) -> Self {
        Self {
            verdict: RunVerdict::Failed,
            failure: Some(format!("attempt {} was lost too: {reason}", leased.attempt)),
            ..Self::unstarted(leased, on_target, worker)
        }
    }

    /// Returns the beginning of the names of the run's kept files.
    #[must_use]
    pub fn file_prefix(&self) -> String {
        format!("{}-{}", self.run, self.attempt)
    }

    /// Forgets the kept files for which `is_kept` returns `false`. It receives each path in the campaign's folder.
    pub fn retain_files(&mut self, is_kept: &dyn Fn(&Path) -> bool) {
        self.outcome = self.outcome.take().filter(|path| is_kept(path));
        if let Some(RunDetails::Fuzz(details)) = &mut self.details {
            for seed in &mut details.failed {
                seed.files.retain(|_, path| is_kept(path));
            }
        }
    }

    /// Returns whether an earlier attempt may have executed too.
    #[must_use]
    pub fn is_repeated(&self) -> bool {
        self.attempt > 1
    }
}

/// Returns the time now, milliseconds since 1970.
#[must_use]
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
