//! The state of a run for whoever shows it while it goes on.

use crate::pipeline::Pipeline;
use crate::run::{NamedTarget, RunEvent, RunVerdict, StageReport};
use crate::tensor::TensorData;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// A run that writes its results to a folder and shows its state meanwhile.
#[derive(Clone, Debug)]
pub struct PipelineRun {
    /// The pipeline.
    pub pipeline: Arc<Pipeline>,
    /// Its targets.
    pub on: Vec<NamedTarget>,
    /// Files for inputs, which replace those of the pipeline file.
    pub inputs: BTreeMap<String, PathBuf>,
    /// Folder for the results.
    pub folder: PathBuf,
    /// State of the run, which it updates.
    pub live: Arc<Mutex<LiveRun>>,
}

/// The state of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LiveState {
    /// It did not start.
    #[default]
    Waiting,
    /// It runs.
    Running,
    /// It ended.
    Ended(RunVerdict),
}

/// A stage of a run.
#[derive(Clone, Debug, Default)]
pub struct LiveStage {
    /// Its state.
    pub state: LiveState,
    /// The current round of its loop, from 1.
    pub round: Option<u32>,
    /// Its last report.
    pub report: Option<StageReport>,
    /// Its inputs in the last round that ended, in their order.
    pub inputs: Vec<TensorData>,
    /// Its outputs in that round, in their order.
    pub outputs: Vec<TensorData>,
}

/// The state of a run.
#[derive(Clone, Debug, Default)]
pub struct LiveRun {
    /// Its stages, in the order of the pipeline file.
    pub stages: Vec<LiveStage>,
}

impl LiveRun {
    /// Creates the state before a run of this many stages.
    #[must_use]
    pub fn new(stages: usize) -> Self {
        Self {
            stages: vec![LiveStage::default(); stages],
        }
    }

    /// Takes an event of the run.
    pub fn apply(&mut self, event: RunEvent) {
        match event {
            RunEvent::Started { stage, round } => {
                if let Some(stage) = self.stages.get_mut(stage) {
                    stage.state = LiveState::Running;
                    stage.round = round;
                }
            }
            RunEvent::Ended {
                stage,
                report,
                inputs,
                outputs,
            } => {
                if let Some(stage) = self.stages.get_mut(stage) {
                    stage.state = LiveState::Ended(report.verdict);
                    stage.report = Some(*report);
                    stage.inputs = inputs;
                    stage.outputs = outputs;
                }
            }
        }
    }
}
