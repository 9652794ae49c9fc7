//! What threads send back about their stages: results, failures, and a reply that is never lost.

use super::report::RunVerdict;
use super::schedule::Task;
use crate::module::ModuleError;
use crate::tensor::TensorData;
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
    /// It could not be started.
    Unstarted(String),
    /// Its module failed.
    Module(ModuleError),
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
    /// Returns the reply to a task, which is sent even if its thread panics.
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
