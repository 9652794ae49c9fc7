//! What threads send back about their stages: results, failures, and a reply that is never lost.

use super::report::RunVerdict;
use super::schedule::Task;
use crate::module::ModuleError;
use crate::tensor::TensorData;
use kinescope_session::replay::request::is_lost_run;
use replay_engine::client::ClientError;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// What a stage did.
#[derive(Debug)]
pub(super) struct StageResult {
    pub verdict: RunVerdict,
    pub message: String,
    pub computed: Option<bool>,
    pub device_ns: Option<u64>,
    pub uploaded_bytes: u64,
    pub saved_bytes: u64,
    pub reset: Option<bool>,
    pub reset_reason: Option<String>,
    pub fuel: Option<u64>,
    pub recording: Vec<u8>,
    pub outputs: Vec<TensorData>,
}

impl Default for StageResult {
    fn default() -> Self {
        Self {
            verdict: RunVerdict::Match,
            message: String::new(),
            computed: None,
            device_ns: None,
            uploaded_bytes: 0,
            saved_bytes: 0,
            reset: None,
            reset_reason: None,
            fuel: None,
            recording: Vec::new(),
            outputs: Vec::new(),
        }
    }
}

/// Why a stage has no result.
#[derive(Debug)]
pub(super) enum StageFailure {
    /// It was cancelled.
    Cancelled,
    /// It could not be started, and its target is not the reason.
    Unstarted(String),
    /// Its target cannot be used, refused the replay, or was lost. Boxed, because it is large.
    Target(Box<TargetError>),
    /// Its module failed.
    Module(ModuleError),
}

/// Why a target ended a stage without a result.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// It cannot be opened: the stage did not start.
    #[error("{message}")]
    Open {
        /// The error.
        error: ClientError,
        /// The error in words, with the target and what to do.
        message: String,
    },
    /// It refused the replay, failed, or was lost.
    #[error(transparent)]
    Replay(#[from] ClientError),
}

impl TargetError {
    /// Returns whether the replay of the stage did not start.
    #[must_use]
    pub fn is_unstarted(&self) -> bool {
        match self {
            Self::Open { .. } => true,
            Self::Replay(error) => !is_lost_run(error),
        }
    }
}

/// A stage that ended.
pub(super) struct FinishedStage {
    pub stage: usize,
    pub round: Option<u32>,
    pub inputs: Vec<TensorData>,
    pub started: Instant,
    pub wall: Duration,
    pub result: Result<StageResult, StageFailure>,
}

impl FinishedStage {
    /// Returns the reply to a task. It is sent even if its thread panics, or has ended before it took the task.
    pub fn reply(task: &Task, to: &Sender<Self>) -> Reply {
        Reply {
            to: to.clone(),
            finished: Some(Self {
                stage: task.stage,
                round: task.round,
                inputs: task.inputs.clone(),
                started: Instant::now(),
                wall: Duration::ZERO,
                result: Err(StageFailure::Unstarted("its thread ended early".to_owned())),
            }),
        }
    }
}

/// The reply to a task.
pub(super) struct Reply {
    to: Sender<FinishedStage>,
    finished: Option<FinishedStage>,
}

impl Reply {
    /// Notes that the stage begins now.
    pub fn begin(&mut self) {
        if let Some(finished) = &mut self.finished {
            finished.started = Instant::now();
        }
    }

    pub fn send(mut self, result: Result<StageResult, StageFailure>) {
        if let Some(finished) = &mut self.finished {
            finished.wall = finished.started.elapsed();
            finished.result = result;
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(finished) = self.finished.take() {
            // A run that was given up receives nothing.
            let _ = self.to.send(finished);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// A job in the queue of a thread that panicked had no reply, and its run waited for ever.
    #[test]
    fn a_job_that_no_thread_takes_still_has_a_reply() {
        let (sender, finished) = channel();
        let task = Task {
            stage: 3,
            round: Some(2),
            inputs: Vec::new(),
        };
        let (queue, jobs) = channel();
        queue.send(FinishedStage::reply(&task, &sender)).unwrap();
        drop(jobs);
        let ended = finished.try_recv().unwrap();
        assert_eq!((ended.stage, ended.round), (3, Some(2)));
        assert!(matches!(ended.result, Err(StageFailure::Unstarted(_))));
        // The same for a job that comes later.
        assert!(queue.send(FinishedStage::reply(&task, &sender)).is_err());
        assert_eq!(finished.try_recv().unwrap().stage, 3);
    }
}
