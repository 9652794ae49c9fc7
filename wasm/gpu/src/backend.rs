//! A worker process as a target of runs: it runs the program on a GPU, or on another target; this side watches it.

use crate::device::CompiledProgram;
use crate::protocol::{Answer, FailureKind, Request, StartRequest, WorkerTarget};
use crate::result_takers::ResultTakers;
use crate::scheduler::RunStatistics;
use crate::translation::TranslationOptions;
use crate::worker_process::{RunWatch, SILENCE_LIMIT, TICK, Worker};
use std::process::Command;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use wasm_run::{
    Backend, BackendError, BlockProfile, Control, Input, LaunchRecord, PhaseSeconds, Program, ProgramError, RunOptions,
};

/// The command word that starts a program as the worker process of WebAssembly runs.
pub const RUN_WASM: &str = "run-wasm";
/// Maximum time of the compilation: the driver's compiler takes minutes for some thousand functions.
const COMPILE_LIMIT: Duration = Duration::from_secs(1800);

/// Maximum number of launches that a report keeps.
pub(crate) const MAX_KEPT_LAUNCHES: usize = 1 << 18;

/// Choices of a run on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuOptions {
    /// Number of the GPU.
    pub device: u32,
    /// Choices of the translation.
    pub translation: TranslationOptions,
    /// Large inputs start first.
    pub sort: bool,
    /// Compile the program also if the cache has it, and keep nothing.
    pub no_cache: bool,
}

/// What is known of the last run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuRunReport {
    /// Number of copies at the same time.
    pub copies: u32,
    /// Compilation.
    pub compiled: CompiledProgram,
    /// What the run took.
    pub statistics: RunStatistics,
    /// The first launches, in the order of their ends.
    pub launches: Vec<LaunchRecord>,
}

/// A program in a worker process, on a GPU of this machine unless another target is set.
pub struct WorkerBackend {
    program: Program,
    options: RunOptions,
    gpu: GpuOptions,
    target: WorkerTarget,
    /// Maximum memory of the worker process in bytes, without that of the GPU; `None` for no limit.
    memory_limit: Option<u64>,
    command: Box<dyn Fn() -> Command + Send + Sync>,
    report: Mutex<GpuRunReport>,
}

impl WorkerBackend {
    /// Checks a program for runs on a GPU. `command` starts a program that calls [`crate::serve_request`] on its
    /// standard input and output.
    ///
    /// # Errors
    /// When the program does not fit the options.
    pub fn new(
        program: Program,
        options: RunOptions,
        gpu: GpuOptions,
        command: impl Fn() -> Command + Send + Sync + 'static,
    ) -> Result<Self, ProgramError> {
        program.check(&options)?;
        Ok(Self {
            program,
            options,
            gpu,
            target: WorkerTarget::Gpu(gpu.device),
            memory_limit: None,
            command: Box::new(command),
            report: Mutex::default(),
        })
    }

    /// Returns the same backend on another target than the GPU of its options.
    #[must_use]
    pub fn with_target(self, target: WorkerTarget) -> Self {
        Self { target, ..self }
    }

    /// Returns the same backend. A worker process that uses more memory than `bytes`, without that of the GPU, is ended.
    #[must_use]
    pub fn with_memory_limit(self, bytes: u64) -> Self {
        Self {
            memory_limit: Some(bytes),
            ..self
        }
    }

    /// Returns what is known of the last run.
    #[must_use]
    pub fn report(&self) -> GpuRunReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn start_request(&self, inputs: usize) -> Request {
        Request::Start(Box::new(StartRequest {
            target: self.target,
            program: self.program.bytes().to_vec(),
            options: self.options.clone(),
            translation: self.gpu.translation,
            sort: self.gpu.sort,
            use_cache: !self.gpu.no_cache,
            inputs: inputs as u64,
        }))
    }

    /// Returns the maximum time without a message: a launch without suspension lasts as long as its slowest copy.
    fn silence_limit(&self) -> Duration {
        let copy = self.options.limits.time.unwrap_or_default();
        SILENCE_LIMIT.saturating_add(copy.saturating_mul(2))
    }

    fn receive(
        &self,
        worker: &mut Worker,
        control: &dyn Control,
        takers: &ResultTakers<'_>,
        watch: &RunWatch,
    ) -> Result<(), BackendError> {
        let mut limit = COMPILE_LIMIT;
        let mut last = Instant::now();
        loop {
            let (answer, charge) = match worker.answers.recv_timeout(TICK) {
                Ok(received) => (received.answer, received.charge),
                Err(RecvTimeoutError::Disconnected) => return Err(worker.death()),
                Err(RecvTimeoutError::Timeout) => {
                    if watch.has_ended_process() {
                        return Err(worker.death());
                    }
                    if control.is_cancelled() {
                        worker.stop();
                        return Err(BackendError::Cancelled);
                    }
                    if last.elapsed() > limit {
                        worker.kill();
                        return Err(BackendError::Target(format!(
                            "the worker process said nothing for {} s: a launch does not end, or the driver hangs; \
                             --strict makes all loops stop in time",
                            limit.as_secs()
                        )));
                    }
                    continue;
                }
            };
            last = Instant::now();
            let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
            match answer.map_err(|e| BackendError::Target(format!("the worker process: {e}")))? {
                Answer::Compiled(compiled) => report.compiled = compiled,
                Answer::Started(copies) => {
                    report.copies = copies;
                    limit = self.silence_limit();
                }
                Answer::Alive => {}
                Answer::InputStarted(index) => control.input_started(usize::try_from(index).unwrap_or(usize::MAX)),
                Answer::Launched(launch) => {
                    if report.launches.len() < MAX_KEPT_LAUNCHES {
                        report.launches.push(launch);
                    }
                }
                Answer::Result(index, run) => {
                    drop(report);
                    let index = usize::try_from(index).unwrap_or(usize::MAX);
                    if !takers.pass(index, *run, charge) {
                        worker.stop();
                        // The message of the caller replaces this one.
                        return Err(BackendError::ResultNotTaken("a result was not taken".into()));
                    }
                    // The caller may be slow. The time that it takes is no silence of the worker.
                    last = Instant::now();
                }
                Answer::Finished(statistics) => {
                    report.statistics = statistics;
                    return Ok(());
                }
                Answer::Failed(FailureKind::Cancelled, _) => return Err(BackendError::Cancelled),
                Answer::Failed(FailureKind::Target, text) => return Err(BackendError::Target(text)),
            }
            if control.is_cancelled() {
                worker.stop();
                return Err(BackendError::Cancelled);
            }
            if watch.has_ended_process() {
                return Err(worker.death());
            }
        }
    }
}

impl Backend for WorkerBackend {
    fn copies(&self, _inputs: usize) -> u32 {
        self.report().copies
    }

    fn compile_time(&self) -> Duration {
        self.report().compiled.time
    }

    fn run_time(&self) -> Option<Duration> {
        Some(self.report().statistics.run_time)
    }

    fn phases(&self) -> Option<PhaseSeconds> {
        Some(self.report().statistics.phases.in_seconds())
    }

    fn lowered_call_depth(&self) -> Option<u32> {
        self.report().statistics.lowered_call_depth
    }

    fn profile(&self) -> Option<Vec<BlockProfile>> {
        self.report().statistics.profile
    }

    fn launches(&self) -> Vec<LaunchRecord> {
        self.report().launches
    }

    fn run(&self, inputs: &[Input], control: &dyn Control) -> Result<(), BackendError> {
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = GpuRunReport::default();
        let mut worker = Worker::start((self.command)())?;
        let watch = RunWatch::new(&worker, self.memory_limit);
        let ran = watch.run(control, || {
            worker.send(&self.start_request(inputs.len()), inputs, &watch)?;
            let received = ResultTakers::run(control, |takers| self.receive(&mut worker, control, takers, &watch));
            received.map_err(BackendError::ResultNotTaken)?
        });
        ran?;
        worker.stop();
        Ok(())
    }
}
