//! The thread of a target: one lease, and the replays of the stages on it, one after the other.

use super::RunRequest;
use super::report::RunVerdict;
use super::results::{Reply, StageFailure, StageResult, TargetError};
use super::schedule::Task;
use crate::pipeline::{CheckedWork, Pipeline, ReplayStage, Stage};
use crate::tensor::TensorData;
use kinescope_session::replay::request::{ReplayRequest, RequestError, ResetUse};
use kinescope_session::targets::describe_open_error;
use replay_engine::client::{ClientError, Lease};
use replay_engine::plan::{EDIT_END, Edits, Rewrite, RewriteKind};
use replay_engine::run::{Outcome, Verdict};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use trace_core::PAGE_SIZE;
use trace_core::progress::Progress;

/// Why the reset between two stages was left out.
const LEFT_OUT_REASON: &str = "the plan resets the device itself, before anything in it depends on the device's state";
/// Why the user has a reset between two stages.
const KEPT_REASON: &str = "the run keeps all resets";
/// Why other devices need no reset.
const NO_RESET_REASON: &str = "each replay of calls or submissions gets memory of its own, and the device is not reset";

/// A stage to run on the thread of its target.
pub(super) struct ReplayJob {
    pub task: Task,
    pub progress: Progress,
    pub reply: Reply,
}

/// Runs stages on a target until there are no more. The first one opens the lease; the end of the thread frees it.
pub(super) fn serve(pipeline: &Pipeline, request: &RunRequest<'_>, target: &str, jobs: &Receiver<ReplayJob>) {
    request.targets.start_early(target);
    let mut lease: Option<Lease> = None;
    while let Ok(mut job) = jobs.recv() {
        job.reply.begin();
        let is_first = lease.is_none();
        let result = match open(&mut lease, request, target) {
            Ok(lease) => match pipeline.stages.get(job.task.stage) {
                Some(stage) => replay(stage, request, target, &job, lease, is_first),
                None => Err(StageFailure::Unstarted("the stage does not exist".to_owned())),
            },
            Err(error) => Err(StageFailure::Target(Box::new(TargetError::Open {
                message: describe_open_error(target, &error),
                error,
            }))),
        };
        job.reply.send(result);
    }
}

/// Returns the lease, and opens it if needed.
fn open<'l>(
    lease: &'l mut Option<Lease>,
    request: &RunRequest<'_>,
    target: &str,
) -> Result<&'l mut Lease, ClientError> {
    match lease {
        Some(lease) => Ok(lease),
        None => Ok(lease.insert(request.targets.open(target)?)),
    }
}

fn replay(
    stage: &Stage,
    request: &RunRequest<'_>,
    target: &str,
    job: &ReplayJob,
    lease: &mut Lease,
    is_first: bool,
) -> Result<StageResult, StageFailure> {
    let CheckedWork::Replay(work) = &stage.work else {
        return Err(StageFailure::Unstarted("the stage is a module".to_owned()));
    };
    let mut replay = build_request(work, request, target, &job.task.inputs);
    let takes_registers = !(lease.info().takes_api_traces() || lease.info().takes_submissions());
    replay.leaves_out_reset = !is_first && takes_registers && !request.keeps_resets;
    let ended = run_request(&replay, work, request, lease, &job.progress);
    let (mut outcome, ended_edits, reset) = ended.map_err(|e| {
        if let Some(preparation) = request.targets.preparation(target) {
            preparation.discard();
        }
        match e {
            RequestError::Client(ClientError::Cancelled) => StageFailure::Cancelled,
            _ if job.progress.check().is_err() => StageFailure::Cancelled,
            RequestError::Client(e) => StageFailure::Target(Box::new(e.into())),
            e => StageFailure::Unstarted(e.to_string()),
        }
    })?;
    let pushed = lease.push_stats();
    let (is_reset, reset_reason) = match (takes_registers, reset) {
        (false, _) => (false, NO_RESET_REASON.to_owned()),
        (true, ResetUse::LeftOut) => (false, LEFT_OUT_REASON.to_owned()),
        (true, ResetUse::Needed(why)) => (true, why),
        (true, ResetUse::Usual) => (true, KEPT_REASON.to_owned()),
    };
    let verdict = match outcome.verdict {
        Verdict::Match => RunVerdict::Match,
        Verdict::Diverged => RunVerdict::Diverged,
        Verdict::Failed => RunVerdict::Failed,
    };
    let mut result = StageResult {
        verdict,
        message: describe(&outcome),
        computed: Some(outcome.computed),
        device_ns: Some(outcome.device_ns),
        uploaded_bytes: outcome.pushed_bytes,
        saved_bytes: pushed.pages_known.saturating_mul(PAGE_SIZE as u64),
        reset: (!is_first).then_some(is_reset),
        reset_reason: (!is_first).then_some(reset_reason),
        recording: std::mem::take(&mut outcome.recording),
        ..StageResult::default()
    };
    if verdict != RunVerdict::Match {
        return Ok(result);
    }
    if let Some(unused) = find_unused_input(work, &outcome, &ended_edits) {
        result.verdict = RunVerdict::Failed;
        result.message = unused;
        return Ok(result);
    }
    for (name, tensor) in work.given.iter().zip(&stage.outputs) {
        let given = outcome.outputs.iter().find(|o| o.name == *name);
        match given.filter(|o| o.data.len() as u64 == tensor.bytes()) {
            Some(output) => result.outputs.push(Arc::new(output.data.clone())),
            None => {
                let bytes = given.map_or(0, |o| o.data.len());
                result.verdict = RunVerdict::Failed;
                result.message = format!("the replay left {bytes} bytes of '{name}' (expected {tensor})");
                break;
            }
        }
    }
    Ok(result)
}

fn build_request(work: &ReplayStage, request: &RunRequest<'_>, target: &str, inputs: &[TensorData]) -> ReplayRequest {
    let inputs = work.replaced.iter().zip(inputs);
    ReplayRequest {
        target: target.to_owned(),
        edits: Edits {
            inputs: inputs.map(|(name, data)| (name.clone(), data.to_vec())).collect(),
            ..Edits::default()
        },
        outputs: work.given.clone(),
        budgets: request.budgets,
        repeat: 1,
        accepts_no_containment: request.accepts_no_containment,
        keeps_lost_runs: request.keeps_lost_runs,
        prepares_target: true,
        ..ReplayRequest::default()
    }
}

/// Returns why an input was never used: the CPU of the recording writes other bytes over it before the first job.
fn find_unused_input(work: &ReplayStage, outcome: &Outcome, ended: &[Rewrite]) -> Option<String> {
    let first = outcome.jobs().first()?.submit_event;
    let name_of = |rewrite: &Rewrite| {
        let is_of = |name: &&String| rewrite.detail == format!("input `{name}`: {EDIT_END}");
        work.replaced.iter().find(is_of).cloned()
    };
    ended.iter().find_map(|rewrite| {
        let event = rewrite.event.filter(|event| *event <= first)?;
        let name = name_of(rewrite)?;
        Some(format!(
            "input '{name}' reaches no job: before the first one, at event {event}, the CPU of the recording writes other \
             bytes there; cut the recording without these bytes (`kinescope trim --alone`)"
        ))
    })
}

/// Replays on the path of the verb `replay`: compile, verify, push, run, compare.
fn run_request(
    replay: &ReplayRequest,
    work: &ReplayStage,
    request: &RunRequest<'_>,
    lease: &mut Lease,
    progress: &Progress,
) -> Result<(Outcome, Vec<Rewrite>, ResetUse), RequestError> {
    let device = lease.info().clone();
    let mut prepared = replay.compile(&work.recording, request.targets, &device, progress)?;
    let outcome = replay.run(&mut prepared, lease, progress)?;
    let rewrites = prepared.compiled.plan.rewrites.iter();
    let ended = rewrites.filter(|r| r.kind == RewriteKind::Input && r.detail.ends_with(EDIT_END));
    let ended = ended.cloned().collect();
    let reset = std::mem::take(&mut prepared.reset);
    Ok((replay.report(&work.recording, &prepared, outcome).outcome, ended, reset))
}

/// Describes an outcome in one line.
fn describe(outcome: &Outcome) -> String {
    let line = outcome.verdict_line();
    match (outcome.verdict, &outcome.failure, outcome.divergences.first()) {
        (Verdict::Failed, Some(failure), _) => failure.clone(),
        (Verdict::Diverged, _, Some(first)) => format!(
            "{line} at event {}: {} is {:#x} (expected {:#x}); {} in all",
            first.event, first.register, first.got, first.expected, outcome.divergence_count
        ),
        _ => line,
    }
}
