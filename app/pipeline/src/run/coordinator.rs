//! The thread that starts stages as soon as they are ready, takes their results, and writes the report.

use super::replays::ReplayJob;
use super::report::{LoopReport, RunReport, RunVerdict, StageReport};
use super::results::{FinishedStage, StageFailure, StageResult, TargetError};
use super::schedule::{LoopEnd, RoundEnd, Schedule, Task, is_failure};
use super::{ModuleJob, OutcomeSink, RunError, RunEvent, RunRequest, RunResult};
use crate::pipeline::{CheckedWork, Pipeline};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use trace_core::progress::Progress;

/// Interval at which a run checks whether the user stopped it.
const TICK: Duration = Duration::from_millis(20);

/// The thread that starts stages and takes their results.
pub(super) struct Coordinator<'a> {
    pub pipeline: &'a Pipeline,
    pub request: &'a RunRequest<'a>,
    pub assigned: &'a [Option<usize>],
    pub schedule: Schedule<'a>,
    pub jobs: Vec<Option<Sender<ReplayJob>>>,
    pub modules: Sender<ModuleJob>,
    /// Where the results of stages come from.
    pub finished: Sender<FinishedStage>,
    /// Running stages with the progress of each.
    pub running: Vec<(usize, Progress)>,
    pub started: Instant,
    pub report: RunReport,
    pub is_unstarted: bool,
    pub target_error: Option<TargetError>,
    /// Whether a replay may have executed, other than the one of `target_error`.
    pub has_executed: bool,
}

impl Coordinator<'_> {
    /// Starts stages and takes their results until the run is over.
    pub fn run(
        &mut self,
        finished: &Receiver<FinishedStage>,
        outcomes: &mut dyn OutcomeSink,
        observe: &mut dyn FnMut(RunEvent),
        progress: &Progress,
    ) -> Result<RunResult, RunError> {
        let mut error = None;
        loop {
            if progress.check().is_err() {
                error.get_or_insert(RunError::Cancelled);
            }
            let is_over = error.is_some() || self.report.failure.is_some();
            if is_over {
                self.running.iter().for_each(|(_, progress)| progress.cancel());
            } else {
                while let Some(task) = self.schedule.take_ready() {
                    self.start(task, observe);
                }
            }
            if self.running.is_empty() {
                break;
            }
            match finished.recv_timeout(TICK) {
                Ok(ended) => {
                    self.running.retain(|(stage, _)| *stage != ended.stage);
                    if let Err(e) = self.take(ended, outcomes, observe) {
                        error.get_or_insert(e);
                    }
                    // Rounds of loops do not count.
                    let _ = progress.advance(1);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.report.wall_ns = nanoseconds(self.started.elapsed());
        if let Some(error) = error {
            if self.report.failure.is_none() {
                self.report.verdict = RunVerdict::Failed;
                self.report.failure = Some(match &error {
                    RunError::Cancelled => "the run was stopped".to_owned(),
                    error => error.to_string(),
                });
            }
            outcomes.end_early(&self.report);
            return Err(error);
        }
        let mut outputs = Vec::new();
        if self.report.failure.is_none() {
            let sources = self.pipeline.graph.outputs.iter();
            outputs.extend(sources.filter_map(|source| self.schedule.value(*source)));
        }
        Ok(RunResult {
            report: self.report.clone(),
            outputs,
            is_unstarted: self.is_unstarted,
            target_error: self.target_error.take(),
            has_executed: self.has_executed,
        })
    }

    fn start(&mut self, task: Task, observe: &mut dyn FnMut(RunEvent)) {
        let progress = Progress::new();
        let (stage, round) = (task.stage, task.round);
        observe(RunEvent::Started { stage, round });
        self.running.push((stage, progress.clone()));
        // A job that no thread takes is dropped, and its reply says so.
        let reply = FinishedStage::reply(&task, &self.finished);
        match self.pipeline.stages.get(stage).map(|s| &s.work) {
            Some(CheckedWork::Module(program)) => {
                let program = program.clone();
                let _ = self.modules.send(ModuleJob {
                    program,
                    task,
                    progress,
                    reply,
                });
            }
            Some(CheckedWork::Replay(_)) => {
                let target = self.assigned.get(stage).copied().flatten();
                let queue = target.and_then(|t| self.jobs.get(t)?.as_ref());
                let job = ReplayJob { task, progress, reply };
                if let Some(queue) = queue {
                    let _ = queue.send(job);
                }
            }
            None => {}
        }
    }

    /// Notes why the run ends, unless it is known.
    fn fail(&mut self, stage: usize, verdict: RunVerdict, message: &str) {
        if self.report.failure.is_none() {
            let name = self.pipeline.document.stages.get(stage).map(|s| s.name.as_str());
            self.report.verdict = verdict;
            self.report.failure = Some(format!("stage '{}': {message}", name.unwrap_or_default()));
        }
    }

    /// Takes the result of a stage.
    fn take(
        &mut self,
        ended: FinishedStage,
        outcomes: &mut dyn OutcomeSink,
        observe: &mut dyn FnMut(RunEvent),
    ) -> Result<(), RunError> {
        let Some(definition) = self.pipeline.document.stages.get(ended.stage) else {
            return Ok(());
        };
        let is_replay = self
            .pipeline
            .stages
            .get(ended.stage)
            .is_some_and(|s| matches!(s.work, CheckedWork::Replay(_)));
        self.has_executed |= is_replay && matches!(ended.result, Ok(_) | Err(StageFailure::Cancelled));
        let is_unstarted = match &ended.result {
            Err(StageFailure::Unstarted(_)) => true,
            Err(StageFailure::Target(e)) => e.is_unstarted(),
            _ => false,
        };
        let failed = |message: String| StageResult {
            verdict: RunVerdict::Failed,
            message,
            ..StageResult::default()
        };
        let mut target_error = None;
        let result = match ended.result {
            Ok(result) => result,
            // Only a run that is over cancels its stages.
            Err(StageFailure::Cancelled) => return Ok(()),
            Err(StageFailure::Unstarted(message)) => failed(message),
            Err(StageFailure::Target(e)) => {
                let message = e.to_string();
                target_error = Some(*e);
                failed(message)
            }
            Err(StageFailure::Module(e)) => failed(e.to_string()),
        };
        let outcome = match result.recording.is_empty() {
            true => None,
            false => outcomes.store(&definition.name, ended.round, &result.recording)?,
        };
        let target = self.assigned.get(ended.stage).copied().flatten();
        let target = target.and_then(|t| self.request.on.get(t)).map(|t| t.name.clone());
        let report = StageReport {
            stage: definition.name.clone(),
            kind: if is_replay { "replay" } else { "module" },
            round: ended.round,
            target,
            verdict: result.verdict,
            message: result.message.clone(),
            computed: result.computed,
            start_ns: nanoseconds(ended.started.saturating_duration_since(self.started)),
            wall_ns: nanoseconds(ended.wall),
            device_ns: result.device_ns,
            uploaded_bytes: result.uploaded_bytes,
            saved_bytes: result.saved_bytes,
            reset: result.reset,
            reset_reason: result.reset_reason.clone(),
            fuel: result.fuel,
            outcome,
        };
        self.report.uploaded_bytes = self.report.uploaded_bytes.saturating_add(report.uploaded_bytes);
        self.report.saved_bytes = self.report.saved_bytes.saturating_add(report.saved_bytes);
        self.report.resets += u64::from(report.reset == Some(true));
        self.report.stages.push(report.clone());
        observe(RunEvent::Ended {
            stage: ended.stage,
            report: Box::new(report),
            inputs: ended.inputs,
            outputs: result.outputs.clone(),
        });
        if result.verdict != RunVerdict::Match {
            if self.report.failure.is_none() {
                self.is_unstarted = is_unstarted;
                self.target_error = target_error;
            }
            let message = match result.verdict {
                RunVerdict::Diverged => format!("the replay {}", result.message),
                _ => result.message,
            };
            self.fail(ended.stage, result.verdict, &message);
        } else if let Some(round) = self.schedule.finish(ended.stage, result.outputs) {
            self.end_round(round);
        }
        Ok(())
    }

    fn end_round(&mut self, round: RoundEnd) {
        let Some(definition) = self.pipeline.document.loops.get(round.of_loop) else {
            return;
        };
        let Some(end) = round.end else { return };
        self.report.loops.push(LoopReport {
            name: definition.name.clone(),
            rounds: round.round,
            ended_by: match end {
                LoopEnd::Condition => "condition",
                LoopEnd::Bound => "bound",
            },
            value: round.number,
        });
        if is_failure(definition, end) && self.report.failure.is_none() {
            self.report.verdict = RunVerdict::Failed;
            self.report.failure = Some(format!(
                "loop '{}': {} rounds did not reach '{} {}', its last value is {}",
                definition.name, round.round, definition.until.value, definition.until.test, round.number
            ));
        }
    }
}

/// Returns the report of a run that did nothing.
pub(super) fn empty_report(pipeline: &Pipeline) -> RunReport {
    RunReport {
        pipeline: pipeline.path.display().to_string(),
        title: pipeline.document.title.clone(),
        verdict: RunVerdict::Match,
        failure: None,
        stages: Vec::new(),
        loops: Vec::new(),
        outputs: Vec::new(),
        uploaded_bytes: 0,
        saved_bytes: 0,
        resets: 0,
        wall_ns: 0,
        warnings: pipeline.warnings.iter().map(ToString::to_string).collect(),
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
