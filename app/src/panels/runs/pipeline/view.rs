//! State of the Pipeline panel.

use kinescope_pipeline::{InputSource, LiveRun, LiveStage, NamedTarget, Pipeline, PipelineRun};
use kinescope_session::running_work::RunningWork;
use kinescope_session::targets::is_simulator;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

/// State of the panel.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The open pipeline.
    pub pipeline: Option<Arc<Pipeline>>,
    /// Why no pipeline could be opened.
    pub error: Option<String>,
    /// The typed targets.
    pub on: String,
    /// Files that the user chose for inputs, by their names.
    pub inputs: BTreeMap<String, PathBuf>,
    /// The typed folder for results.
    pub folder: String,
    /// Whether the user confirmed that targets may be hardware.
    pub accepts_hardware: bool,
    /// Index of the selected stage.
    pub selected: Option<usize>,
    /// The last run.
    run: Option<(PipelineRun, RunningWork)>,
    /// How the last run ended, in one line, and whether it was good.
    pub(super) end: Option<(String, bool)>,
}

impl View {
    /// Shows a pipeline, or why it cannot be opened.
    pub fn show(&mut self, opened: Result<Arc<Pipeline>, String>) {
        let pipeline = match opened {
            Ok(pipeline) => pipeline,
            Err(error) => {
                *self = Self {
                    error: Some(error),
                    on: std::mem::take(&mut self.on),
                    ..Self::default()
                };
                return;
            }
        };
        let folder = pipeline.path.with_extension("results").display().to_string();
        let on = match self.on.is_empty() {
            true => "software:mali-g71".to_owned(),
            false => std::mem::take(&mut self.on),
        };
        *self = Self {
            selected: pipeline.graph.order.first().copied(),
            pipeline: Some(pipeline),
            folder,
            on,
            ..Self::default()
        };
    }

    /// Returns the typed targets.
    ///
    /// # Errors
    /// What is wrong with them. Modules alone need none.
    pub(super) fn targets(&self) -> Result<Vec<NamedTarget>, String> {
        match self.on.trim() {
            "" => Ok(Vec::new()),
            on => NamedTarget::parse_list(on).map_err(|e| e.to_string()),
        }
    }

    /// Returns the name of an input that has no file yet, if there is one.
    pub(super) fn missing_input(&self) -> Option<&str> {
        let mut inputs = self.pipeline.iter().flat_map(|p| &p.document.inputs);
        let missing = inputs.find(|input| input.source == InputSource::Given && !self.inputs.contains_key(&input.name));
        missing.map(|input| input.name.as_str())
    }

    /// Whether a typed target may be hardware, so that the user has to confirm it.
    pub(super) fn may_be_hardware(targets: &[NamedTarget]) -> bool {
        targets.iter().any(|t| !is_simulator(&t.name))
    }

    /// Returns the work of the run, while it goes on.
    #[must_use]
    pub fn running(&self) -> Option<&RunningWork> {
        self.run.as_ref().map(|(_, work)| work).filter(|work| work.is_alive())
    }

    /// Takes a run that started.
    pub fn begin(&mut self, run: PipelineRun, work: RunningWork) {
        self.run = Some((run, work));
        self.end = None;
    }

    /// Takes the end of a run: in one line, and whether it was good.
    pub fn finish(&mut self, message: String, is_good: bool) {
        self.end = Some((message, is_good));
    }

    /// Returns how the last run ended, in one line.
    #[must_use]
    pub fn end(&self) -> Option<&str> {
        self.end.as_ref().map(|(message, _)| message.as_str())
    }

    /// Returns the folder of the last run.
    pub(super) fn result_folder(&self) -> Option<&PathBuf> {
        self.run.as_ref().map(|(run, _)| &run.folder)
    }

    /// Returns the stages of the last run; before a run, stages that wait.
    #[must_use]
    pub fn live_stages(&self) -> Vec<LiveStage> {
        match &self.run {
            Some((run, _)) => run.live.lock().unwrap_or_else(PoisonError::into_inner).stages.clone(),
            None => {
                let count = self.pipeline.as_ref().map_or(0, |p| p.stages.len());
                LiveRun::new(count).stages
            }
        }
    }
}
