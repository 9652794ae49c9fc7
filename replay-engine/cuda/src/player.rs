//! Replay of an API trace on a device, one or more times, with comparison of the outputs.

use super::compare::{OutputComparison, compare};
use super::contents::Contents;
use super::error::CudaReplayError;
use super::graph::Graph;
use super::pages::RestoreStats;
use super::script::Script;
use super::stage::{PrepareDurations, Stage, StageOptions};
use replay_engine::run::GuardReport;
use replay_engine::tune::OutputTolerance;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use trace_core::progress::Progress;

/// The options of a replay.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Device number.
    pub device: u32,
    /// Replacement bytes for recorded inputs, by name.
    pub inputs: BTreeMap<String, Vec<u8>>,
    /// The tolerance of outputs, by name. Other outputs use `rule`.
    pub rules: BTreeMap<String, OutputTolerance>,
    /// The tolerance of all other outputs.
    pub rule: OutputTolerance,
    /// Wait after each launch, so that an error names the launch that caused it.
    pub step: bool,
    /// Number of repetitions. The outputs are those of the last one.
    pub repeat: u32,
    /// Capture the range as one graph and launch that.
    pub graph: bool,
    /// Do not restore memory between repetitions: each starts with the memory of the one before.
    pub no_restore: bool,
    /// Measure the device time of each launch, with events around it. Not available if the range is one graph.
    pub times: bool,
    /// Buffers to guard; see [`StageOptions::guard`].
    pub guard: Option<Vec<u64>>,
}

/// The result of a replay.
#[derive(Clone, Debug, Default)]
pub struct PlayResult {
    /// The device's name.
    pub device: String,
    /// Number of launches per repetition.
    pub launches: u64,
    /// Outputs of the last repetition, in event order.
    pub outputs: Vec<OutputComparison>,
    /// Contents of the outputs.
    pub contents: Vec<Vec<u8>>,
    /// Preparation before the first step.
    pub ready: PrepareDurations,
    /// Time to write the initial memory contents.
    pub first: Duration,
    /// Time to capture the graph and to copy memory for the restores.
    pub prepared: Duration,
    /// Time of the steps, per repetition.
    pub runs: Vec<Duration>,
    /// Restore statistics before each repetition but the first.
    pub restored: Vec<RestoreStats>,
    /// Mapped memory, bytes.
    pub mapped: u64,
    /// Whether the range was one graph.
    pub graph: bool,
    /// What was left out, as messages.
    pub left_out: Vec<String>,
    /// The event and the shortest device time of each launch, nanoseconds.
    pub launch_ns: Vec<[u64; 2]>,
    /// What was guarded, if requested.
    pub guard: Option<GuardReport>,
}

impl PlayResult {}

/// A prepared replay of a recording.
#[derive(Debug)]
pub struct Player<'a, C: Contents + ?Sized> {
    stage: Stage<'a>,
    contents: &'a C,
    options: Options,
}

impl<'a, C: Contents + ?Sized> Player<'a, C> {
    /// Prepares the replay.
    ///
    /// # Errors
    /// Same as [`Stage::new`].
    pub fn new(contents: &'a C, script: &'a Script, options: Options) -> Result<Self, CudaReplayError> {
        let stage = StageOptions {
            device: options.device,
            inputs: options.inputs.clone(),
            guard: options.guard.clone(),
            // A graph has no waits between launches.
            graph: options.graph && !options.step,
        };
        let mut stage = Stage::new(contents, script, &stage)?;
        stage.step = options.step;
        if options.times {
            stage.measure()?;
        }
        Ok(Self {
            stage,
            contents,
            options,
        })
    }

    /// Runs all steps, as often as requested, and compares the outputs. `report` is called with the event of each
    /// launch before it is made, unless the range is a graph.
    ///
    /// # Errors
    /// If the device or the driver stopped, with the event; or if the replay was cancelled.
    pub fn play(
        &mut self,
        progress: &Progress,
        report: &mut dyn FnMut(u64) -> Result<(), CudaReplayError>,
    ) -> Result<PlayResult, CudaReplayError> {
        let repeat = self.options.repeat.max(1);
        let stage = &mut self.stage;
        // Guarded buffers are mapped and unmapped between steps.
        let is_graph = self.options.graph && !self.options.step && self.options.guard.is_none();
        let begun = Instant::now();
        stage.play_first(progress)?;
        let first = begun.elapsed();
        let begun = Instant::now();
        let graph = if is_graph {
            Some(Graph::build(stage, progress)?)
        } else {
            None
        };
        let kept = if repeat > 1 && !self.options.no_restore {
            Some(stage.save_memory()?)
        } else {
            None
        };
        let prepared = begun.elapsed();
        let ready = stage.prepare_durations();
        let mut runs = Vec::new();
        let mut restored = Vec::new();
        let mut launches = 0;
        for n in 0..repeat {
            if progress.check().is_err() {
                return Err(CudaReplayError::Cancelled);
            }
            if n > 0
                && let Some(kept) = &kept
            {
                restored.push(stage.restore(kept)?);
            }
            let begun = Instant::now();
            launches = match &graph {
                Some(graph) => {
                    graph.launch()?;
                    graph.launches
                }
                None => {
                    stage.rewind();
                    stage.play_rest(progress, report)?
                }
            };
            runs.push(begun.elapsed());
        }
        stage.take_down(progress)?;
        let script = stage.script();
        let mut outputs = Vec::new();
        let mut contents = Vec::new();
        for (n, t) in script.outputs.iter().enumerate() {
            let got = stage.output(n);
            let recorded = self.contents.copied(&t.row);
            let rule = self.options.rules.get(&t.name).copied().unwrap_or(self.options.rule);
            outputs.push(OutputComparison {
                event: t.event,
                name: t.name.clone(),
                bytes: got.len() as u64,
                held: recorded.is_some(),
                difference: recorded.and_then(|r| compare(&r, got, rule)),
            });
            contents.push(got.to_vec());
        }
        Ok(PlayResult {
            device: stage.device_name(),
            launches,
            outputs,
            contents,
            ready,
            first,
            prepared,
            runs,
            restored,
            mapped: stage.mapped_bytes(),
            graph: is_graph,
            left_out: script.left_out.clone(),
            launch_ns: stage.launch_times(),
            guard: stage.guard_report(),
        })
    }
}
