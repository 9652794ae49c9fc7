//! The run of a pipeline: stages start as soon as their inputs are known, one at a time on each target, modules on
//! threads of their own.

mod assignment;
mod coordinator;
mod replays;
mod report;
mod results;
mod schedule;

use crate::document::InputSource;
use crate::module::{ModuleError, ModuleProgram};
use crate::pipeline::{CheckedWork, Pipeline};
use crate::resources::{InputError, read_input};
use crate::tensor::TensorData;
pub use assignment::{Assignment, AssignmentError, NamedTarget, assign};
use coordinator::{Coordinator, empty_report};
use kinescope_files::output::OutputError;
use kinescope_session::targets::Targets;
use replay_engine::plan::Budgets;
use replays::ReplayJob;
pub use report::{LoopReport, OutputReport, RunReport, RunVerdict, StageReport};
pub use results::TargetError;
use results::{FinishedStage, Reply, StageFailure, StageResult};
use schedule::{Schedule, Task};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;
use trace_core::progress::Progress;

/// Maximum number of modules that run at once.
const MAX_MODULES_AT_ONCE: usize = 4;

/// What a run is given besides the pipeline.
#[derive(Clone, Debug)]
pub struct RunRequest<'a> {
    /// The targets of this program.
    pub targets: &'a Targets,
    /// The targets of the run.
    pub on: Vec<NamedTarget>,
    /// Files for inputs, which replace those of the pipeline file.
    pub inputs: BTreeMap<String, PathBuf>,
    /// Limits of each replay.
    pub budgets: Budgets,
    /// Whether the user accepts a target without containment.
    pub accepts_no_containment: bool,
    /// Whether a device is reset between two stages also where the plans allow to leave it out.
    pub keeps_resets: bool,
    /// Whether a replay whose end was not observed is the result of its stage. Otherwise it is a [`TargetError`].
    pub keeps_lost_runs: bool,
}

impl<'a> RunRequest<'a> {
    /// Creates a request with default limits and no changed inputs, which keeps lost runs.
    #[must_use]
    pub fn new(targets: &'a Targets, on: Vec<NamedTarget>) -> Self {
        Self {
            targets,
            on,
            inputs: BTreeMap::new(),
            budgets: Budgets::default(),
            accepts_no_containment: false,
            keeps_resets: false,
            keeps_lost_runs: true,
        }
    }
}

/// Something that happened in a run.
#[derive(Clone, Debug)]
pub enum RunEvent {
    /// A stage started.
    Started {
        /// Index of the stage.
        stage: usize,
        /// Round of its loop, from 1.
        round: Option<u32>,
    },
    /// A stage ended.
    Ended {
        /// Index of the stage.
        stage: usize,
        /// Its report.
        report: Box<StageReport>,
        /// Its inputs, in their order.
        inputs: Vec<TensorData>,
        /// Its outputs, in their order; empty if it failed.
        outputs: Vec<TensorData>,
    },
}

/// What takes the outcomes of stages, for example a folder.
pub trait OutcomeSink {
    /// Stores the outcome of a stage: the bytes of a `.kine` file. Returns the name of the file, or `None` if the
    /// outcome is not kept.
    ///
    /// # Errors
    /// If it cannot be stored.
    fn store(&mut self, stage: &str, round: Option<u32>, recording: &[u8]) -> Result<Option<String>, OutputError>;

    /// Takes the report of a run that ends with an error after its start: its failure is the reason.
    fn end_early(&mut self, _report: &RunReport) {}
}

/// Keeps no outcomes.
pub struct NoOutcomes;

impl OutcomeSink for NoOutcomes {
    fn store(&mut self, _stage: &str, _round: Option<u32>, _recording: &[u8]) -> Result<Option<String>, OutputError> {
        Ok(None)
    }
}

/// Why a run did not start, or was given up.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A stage has no target.
    #[error(transparent)]
    Assignment(#[from] AssignmentError),
    /// An input cannot be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// An outcome cannot be stored.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The user cancelled.
    #[error("cancelled")]
    Cancelled,
}

/// The result of a run.
#[derive(Debug)]
pub struct RunResult {
    /// The report; its outputs have no files.
    pub report: RunReport,
    /// The outputs of the pipeline, in their order; empty if the run did not come to its end.
    pub outputs: Vec<TensorData>,
    /// Whether a stage could not be started: its target cannot be leased, or its plan is refused.
    pub is_unstarted: bool,
    /// The error of the target that ended the run; `None` if it came to its end, or another reason ended it.
    pub target_error: Option<TargetError>,
    /// Whether a replay may have executed on a target: it has a result, or it was cancelled when the run ended.
    pub has_executed: bool,
}

/// Runs a pipeline. `observe` is called on this thread at the start and the end of each stage. Cancelling `progress` ends
/// the stages that run, frees their targets, and returns.
///
/// A stage that diverges or fails ends the run; it is no error.
///
/// # Errors
/// If a stage has no target or an input cannot be read: then no target is opened. If an outcome cannot be stored, or the
/// user cancels.
pub fn run(
    pipeline: &Pipeline,
    request: &RunRequest<'_>,
    outcomes: &mut dyn OutcomeSink,
    observe: &mut dyn FnMut(RunEvent),
    progress: &Progress,
) -> Result<RunResult, RunError> {
    let assigned = assign(pipeline, request.targets, &request.on)?.targets;
    let inputs = read_inputs(pipeline, request)?;
    progress.set_total(pipeline.stages.len() as u64);
    thread::scope(|scope| {
        let (sender, finished) = channel::<FinishedStage>();
        let mut jobs: Vec<Option<Sender<ReplayJob>>> = Vec::new();
        for (number, target) in request.on.iter().enumerate() {
            let is_used = assigned.contains(&Some(number));
            jobs.push(is_used.then(|| {
                let (to, from) = channel::<ReplayJob>();
                scope.spawn(move || replays::serve(pipeline, request, &target.name, &from));
                to
            }));
        }
        let (modules, waiting) = channel::<ModuleJob>();
        let waiting = Arc::new(std::sync::Mutex::new(waiting));
        let module_count = pipeline
            .stages
            .iter()
            .filter(|s| matches!(s.work, CheckedWork::Module(_)));
        for _ in 0..module_count.count().min(MAX_MODULES_AT_ONCE) {
            let waiting = Arc::clone(&waiting);
            scope.spawn(move || serve_modules(&waiting));
        }
        // Jobs are dropped once no thread is left to take them.
        drop(waiting);
        let mut coordinator = Coordinator {
            pipeline,
            request,
            assigned: &assigned,
            schedule: Schedule::new(pipeline, inputs),
            jobs,
            modules,
            finished: sender,
            running: Vec::new(),
            started: Instant::now(),
            report: empty_report(pipeline),
            is_unstarted: false,
            target_error: None,
            has_executed: false,
        };
        // The end of the coordinator closes the queues, which ends the threads and frees the leases.
        coordinator.run(&finished, outcomes, observe, progress)
    })
}

/// A module stage for one of the threads that run modules.
struct ModuleJob {
    program: ModuleProgram,
    task: Task,
    progress: Progress,
    reply: Reply,
}

fn serve_modules(waiting: &std::sync::Mutex<Receiver<ModuleJob>>) {
    loop {
        let job = match waiting.lock() {
            Ok(queue) => queue.recv(),
            Err(_) => return,
        };
        let Ok(mut job) = job else { return };
        job.reply.begin();
        let run = job.program.run(&job.task.inputs, &job.progress);
        job.reply.send(match run {
            Ok(run) => Ok(StageResult {
                message: "ended".to_owned(),
                fuel: Some(run.fuel),
                outputs: run.outputs,
                ..StageResult::default()
            }),
            Err(ModuleError::Cancelled) => Err(StageFailure::Cancelled),
            Err(e) => Err(StageFailure::Module(e)),
        });
    }
}

/// Reads the inputs of a run, in their order.
fn read_inputs(pipeline: &Pipeline, request: &RunRequest<'_>) -> Result<Vec<TensorData>, InputError> {
    let fail = |name: &str, reason: &str| InputError {
        name: name.to_owned(),
        reason: reason.to_owned(),
    };
    let known = |name: &&String| pipeline.document.inputs.iter().any(|i| i.name == **name);
    if let Some(unknown) = request.inputs.keys().find(|name| !known(name)) {
        return Err(fail(unknown, "the pipeline has no input of this name"));
    }
    let read = |(input, file): (&crate::document::InputDefinition, &Option<PathBuf>)| {
        if let Some(path) = request.inputs.get(&input.name) {
            return read_input(path, &input.name, &input.tensor);
        }
        match &input.source {
            InputSource::File(path) => read_input(file.as_ref().unwrap_or(path), &input.name, &input.tensor),
            InputSource::Values(bytes) => Ok(Arc::new(bytes.clone())),
            InputSource::Given => Err(fail(
                &input.name,
                "the pipeline file has no content for it; give a file with --input NAME=FILE",
            )),
        }
    };
    let files = pipeline.document.inputs.iter().zip(&pipeline.input_files);
    files.map(read).collect()
}
