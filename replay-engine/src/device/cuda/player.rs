//! Plays a recording of calls on a device, as often as is asked for, and compares what came.

use super::compare::{OutputComparison, OutputTolerance, compare};
use super::contents::Contents;
use super::error::CudaReplayError;
use super::graph::Graph;
use super::guard::GuardReport;
use super::pages::RestoreStats;
use super::script::Script;
use super::stage::{PrepareDurations, Stage, StageOptions};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use trace_core::progress::Progress;

/// What a replay is to do.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Number of the device.
    pub device: u32,
    /// Bytes in the place of recorded inputs, by name.
    pub inputs: BTreeMap<String, Vec<u8>>,
    /// How alike outputs have to be, by name; the others as `rule` says.
    pub rules: BTreeMap<String, OutputTolerance>,
    /// How alike all other outputs have to be.
    pub rule: OutputTolerance,
    /// Wait behind each launch, so that a failure is told with the launch that caused it.
    pub step: bool,
    /// How often the whole is done; outputs are those of the last time.
    pub repeat: u32,
    /// Make the range one graph and launch that.
    pub graph: bool,
    /// Put nothing back between the times: each goes on with memory as the one before left it.
    pub no_restore: bool,
    /// Measure the device's time for each launch, by events around it. Not where the range is one graph.
    pub times: bool,
    /// Buffers that are guarded; see [`StageOptions::guard`].
    pub guard: Option<Vec<u64>>,
}

/// What a replay did.
#[derive(Clone, Debug, Default)]
pub struct PlayResult {
    /// The device's name.
    pub device: String,
    /// Launches that were made, of each time.
    pub launches: u64,
    /// Outputs in the order of their events, those of the last time.
    pub outputs: Vec<OutputComparison>,
    /// Their bytes.
    pub contents: Vec<Vec<u8>>,
    /// What was done until the first step.
    pub ready: PrepareDurations,
    /// Time in which memory got what it holds at first.
    pub first: Duration,
    /// Time in which the range became a graph and memory was copied to be put back.
    pub prepared: Duration,
    /// Time of the steps, of each time.
    pub runs: Vec<Duration>,
    /// What was put back before each time but the first.
    pub restored: Vec<RestoreStats>,
    /// Bytes of memory that were mapped.
    pub mapped: u64,
    /// Whether the range was one graph.
    pub graph: bool,
    /// What was left out, in words.
    pub left_out: Vec<String>,
    /// Of each launch its event and the shortest of its times on the device, in nanoseconds.
    pub launch_ns: Vec<[u64; 2]>,
    /// What was guarded, where something was to be.
    pub guard: Option<GuardReport>,
}

impl PlayResult {
    /// Outputs that differ beyond their rule.
    pub fn list_different(&self) -> impl Iterator<Item = &OutputComparison> {
        self.outputs.iter().filter(|c| c.difference.is_some())
    }
}

/// A recording that is ready to be played.
#[derive(Debug)]
pub struct Player<'a, C: Contents + ?Sized> {
    stage: Stage<'a>,
    contents: &'a C,
    options: Options,
}

impl<'a, C: Contents + ?Sized> Player<'a, C> {
    /// Makes everything ready.
    ///
    /// # Errors
    /// As [`Stage::new`].
    pub fn new(contents: &'a C, script: &'a Script, options: Options) -> Result<Self, CudaReplayError> {
        let stage = StageOptions {
            device: options.device,
            inputs: options.inputs.clone(),
            guard: options.guard.clone(),
            // Waiting behind each launch is what a graph is there to avoid.
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

    /// Plays all steps, as often as is asked for, and compares what came. `told` hears of the event of each launch
    /// before it is made, where the range is no graph.
    ///
    /// # Errors
    /// When the device or the driver stopped, with the event; or nobody wants the replay any more.
    pub fn play(
        &mut self,
        progress: &Progress,
        report: &mut dyn FnMut(u64) -> Result<(), CudaReplayError>,
    ) -> Result<PlayResult, CudaReplayError> {
        let repeat = self.options.repeat.max(1);
        let stage = &mut self.stage;
        // What is guarded comes and goes between steps.
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

    /// The stage that it plays on.
    #[must_use]
    pub fn stage(&self) -> &Stage<'a> {
        &self.stage
    }
}
