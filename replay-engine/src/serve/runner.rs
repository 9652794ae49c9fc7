//! Execution of a plan in a separate thread, so that a panicking or hanging target affects nothing else, and
//! delivery of its results to the client.

use super::cache::PinnedPages;
use super::preemption::YieldFlag;
use super::slot::panic_text;
use crate::device::RegisterTarget;
use crate::plan::{Plan, PlannedAccesses, PlannedCalls, PlannedSubmissions};
use crate::run::{self, ExecutedRun, Outcome, RunArtifacts, RunOptions, RunStops, Verdict};
use crate::target::{ApiTarget, ChannelTarget, OpenTarget, TargetRequest, TracedMemory};
use crate::tune::TuneReport;
use crate::wire::message::RunReply;
use crate::wire::{BULK, Sender, Topic, WireError};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;
use trace_core::progress::Progress;
use trace_core::registers::RegisterMap;

/// A verified plan with its pages.
#[derive(Debug)]
pub(crate) struct PreparedReplay {
    pub plan: Plan,
    pub pages: PinnedPages,
}

/// The result of a request.
pub(crate) enum RunResult {
    /// Of a replay: the outcome, and the artifacts for its recording.
    Replayed(Box<Outcome>, Option<RunArtifacts>),
    /// Of a replay that stopped at an event for a request of higher priority.
    Stopped {
        event: u32,
        outcome: Box<Outcome>,
        artifacts: Option<RunArtifacts>,
    },
    /// Of a tuning.
    Tuned(Box<TuneReport>),
    /// Of a memory trace.
    TracedMemory(TracedMemory),
    /// There is none, for this reason.
    Failed(String),
}

/// How a run ended.
pub(crate) enum RunEnd {
    /// The run is complete, and the target is returned.
    Done(OpenTarget, Box<RunResult>),
    /// The run was cancelled, and the target is returned.
    Cancelled(OpenTarget),
    /// The target panicked with this message, and is lost.
    Panicked(String),
}

/// Shared state of the running thread and the monitoring session.
#[derive(Debug)]
pub(crate) struct RunControl {
    repeat: u32,
    done: AtomicU32,
    cancelled: AtomicBool,
    current: Mutex<Progress>,
}

impl RunControl {
    /// Asks the run to stop.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        self.current.lock().unwrap_or_else(PoisonError::into_inner).cancel();
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    /// Starts the next repetition, unless it was cancelled.
    fn next(&self) -> Option<Progress> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Progress::new();
        (!self.is_cancelled()).then(|| current.clone())
    }

    /// Returns the progress of all repetitions, millionths.
    pub fn millionths(&self) -> u32 {
        let part = self
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .fraction()
            .unwrap_or(0.0);
        let done = f64::from(self.done.load(Ordering::Relaxed)) + f64::from(part);
        (done / f64::from(self.repeat) * 1e6).clamp(0.0, 1e6) as u32
    }
}

/// Starts what is requested. A replay with stops ends at one of them when `yield_flag` is set. `finished` is called once,
/// in the run's thread.
pub(crate) fn start(
    ready: Arc<PreparedReplay>,
    mut device: OpenTarget,
    request: TargetRequest,
    yield_flag: Option<Arc<YieldFlag>>,
    finished: impl FnOnce(RunEnd) + Send + 'static,
) -> io::Result<Arc<RunControl>> {
    let repeat = match request {
        TargetRequest::Replay { repeat } => repeat.max(1),
        TargetRequest::Tune(_)
        | TargetRequest::TraceMemory(_)
        | TargetRequest::ReplayWithStops { .. }
        | TargetRequest::ReplayWithoutReset => 1,
    };
    let control = Arc::new(RunControl {
        repeat,
        done: AtomicU32::new(0),
        cancelled: AtomicBool::new(false),
        current: Mutex::new(Progress::new()),
    });
    let shared = Arc::clone(&control);
    let work = move || {
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let outcome = run_request(&ready, &mut device, &request, yield_flag.as_deref(), &shared);
            (device, outcome)
        }));
        finished(match ran {
            Ok((device, Some(outcome))) => RunEnd::Done(device, outcome),
            Ok((device, None)) => RunEnd::Cancelled(device),
            Err(payload) => RunEnd::Panicked(panic_text(&*payload)),
        });
    };
    thread::Builder::new().name("kinescope-run".into()).spawn(work)?;
    Ok(control)
}

/// Does what is requested. Returns `None` if it was cancelled.
fn run_request(
    ready: &PreparedReplay,
    device: &mut OpenTarget,
    request: &TargetRequest,
    yield_flag: Option<&YieldFlag>,
    control: &RunControl,
) -> Option<Box<RunResult>> {
    let plan = &ready.plan;
    let result = match (device, plan.planned_accesses(), plan.planned_calls()) {
        (OpenTarget::Registers(device), Some(plan), _) => {
            let stops = match (request, yield_flag) {
                (TargetRequest::ReplayWithStops { stops }, Some(flag)) => Some(RunStops {
                    events: stops,
                    requested: flag.requested(),
                }),
                _ => None,
            };
            let options = RunOptions {
                stops,
                without_reset: *request == TargetRequest::ReplayWithoutReset,
            };
            run_repeated(plan, ready, &mut **device, options, control)?
        }
        (OpenTarget::Api(device), _, Some(plan)) => run_calls(plan, ready, &mut **device, request, control)?,
        (OpenTarget::Channel(device), _, _) => match plan.planned_submissions() {
            Some(plan) => run_submissions(plan, ready, &mut **device, control)?,
            None => RunResult::Failed("the plan is of another kind than the device".to_owned()),
        },
        // A verified plan is one for its device.
        _ => RunResult::Failed("the plan is of another kind than the device".to_owned()),
    };
    Some(Box::new(result))
}

/// Replays submissions to channels.
fn run_submissions(
    plan: PlannedSubmissions<'_>,
    ready: &PreparedReplay,
    device: &mut dyn ChannelTarget,
    control: &RunControl,
) -> Option<RunResult> {
    let progress = control.next()?;
    let began = Instant::now();
    let mut outcome = device.replay(plan, &ready.pages, control.repeat, &progress);
    if outcome.timing.runs_ns.is_empty() {
        outcome.timing.runs_ns = vec![u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)];
    }
    (!control.is_cancelled()).then(|| RunResult::Replayed(Box::new(outcome), None))
}

/// Runs a request for an API trace. Results of a tuning before it was stopped are kept.
fn run_calls(
    plan: PlannedCalls<'_>,
    ready: &PreparedReplay,
    device: &mut dyn ApiTarget,
    request: &TargetRequest,
    control: &RunControl,
) -> Option<RunResult> {
    let progress = control.next()?;
    let began = Instant::now();
    let result = match request {
        TargetRequest::Replay { .. } | TargetRequest::ReplayWithStops { .. } | TargetRequest::ReplayWithoutReset => {
            let mut outcome = device.replay(plan, &ready.pages, control.repeat, &progress);
            if outcome.timing.runs_ns.is_empty() {
                outcome.timing.runs_ns = vec![u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)];
            }
            RunResult::Replayed(Box::new(outcome), None)
        }
        TargetRequest::Tune(tune) => match device.tune(plan, &ready.pages, tune, &progress) {
            Ok(tuned) => RunResult::Tuned(Box::new(tuned)),
            Err(why) => RunResult::Failed(why),
        },
        TargetRequest::TraceMemory(trace) => match device.trace_memory(plan, &ready.pages, trace, &progress) {
            Ok(traced) => RunResult::TracedMemory(traced),
            Err(why) => RunResult::Failed(why),
        },
    };
    let is_kept = matches!(&result, RunResult::Tuned(tuned) if !tuned.points.is_empty());
    (is_kept || !control.is_cancelled()).then_some(result)
}

/// Returns the outcome of all repetitions: the first one's, unless a later one differs. The differing one is then the
/// outcome, and a failure. Returns `None` if it was cancelled.
fn run_repeated(
    plan: PlannedAccesses<'_>,
    ready: &PreparedReplay,
    device: &mut dyn RegisterTarget,
    options: RunOptions<'_>,
    control: &RunControl,
) -> Option<RunResult> {
    let map = RegisterMap::by_name(&plan.accesses.register_map);
    let mut first: Option<(Box<Outcome>, Option<RunArtifacts>)> = None;
    let mut runs_ns = Vec::new();
    for n in 0..control.repeat {
        let progress = control.next()?;
        let begin = Instant::now();
        let ExecutedRun {
            outcome,
            artifacts: material,
            stopped_at,
        } = run::run_with_artifacts(plan, &ready.pages, device, map, &progress, options);
        runs_ns.push(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX));
        if control.is_cancelled() {
            return None;
        }
        if let Some(event) = stopped_at {
            let mut outcome = Box::new(outcome);
            outcome.timing.runs_ns = runs_ns;
            return Some(RunResult::Stopped {
                event,
                outcome,
                artifacts: material,
            });
        }
        control.done.fetch_add(1, Ordering::Relaxed);
        match &first {
            None => first = Some((Box::new(outcome), material)),
            Some((first, _)) if first.fingerprint == outcome.fingerprint => {}
            Some(_) => {
                let mut odd = Box::new(outcome);
                odd.verdict = Verdict::Failed;
                odd.failure = Some(format!("run {} did not have the outcome of run 1", n + 1));
                first = Some((odd, material));
                break;
            }
        }
    }
    let (mut outcome, material) = first?;
    outcome.timing.runs_ns = runs_ns;
    Some(RunResult::Replayed(outcome, material))
}

/// Sends a result: the record, then its bulk data, which is freed piece by piece.
pub(super) fn deliver(sender: &Sender, ran: RunResult) -> Result<(), WireError> {
    let (outcome, material, stopped_at) = match ran {
        RunResult::Replayed(outcome, material) => (outcome, material, None),
        RunResult::Stopped {
            event,
            outcome,
            artifacts,
        } => (outcome, artifacts, Some(event)),
        RunResult::Tuned(tuned) => return sender.send(Topic::Run, &RunReply::Tuned(tuned)),
        RunResult::Failed(why) => return sender.send(Topic::Run, &RunReply::Failed(why)),
        RunResult::TracedMemory(TracedMemory { report, trace }) => {
            let (report, bytes) = (Box::new(report), trace.len() as u64);
            sender.send(Topic::Run, &RunReply::TracedMemory { report, bytes })?;
            return send_bulk(sender, &trace);
        }
    };
    deliver_outcome(sender, outcome, material, stopped_at)
}

fn send_bulk(sender: &Sender, bytes: &[u8]) -> Result<(), WireError> {
    let mut parts = bytes.chunks(BULK);
    parts.try_for_each(|part| sender.send_bytes(Topic::Bulk, part))
}

fn deliver_outcome(
    sender: &Sender,
    mut outcome: Box<Outcome>,
    material: Option<RunArtifacts>,
    stopped_at: Option<u32>,
) -> Result<(), WireError> {
    let outputs: Vec<Vec<u8>> = outcome
        .outputs
        .iter_mut()
        .map(|o| std::mem::take(&mut o.data))
        .collect();
    let large = material.as_ref().map_or([0; 3], RunArtifacts::lengths);
    let lengths = large.into_iter().chain(outputs.iter().map(|o| o.len() as u64));
    let (left, bulk) = (material.as_ref().map(|m| Box::new(m.header.clone())), lengths.collect());
    let done = match stopped_at {
        Some(event) => RunReply::Stopped {
            event,
            outcome,
            left,
            bulk,
        },
        None => RunReply::Replayed { outcome, left, bulk },
    };
    sender.send(Topic::Run, &done)?;
    drop(done);
    let send = |bytes: &[u8]| send_bulk(sender, bytes);
    if let Some(RunArtifacts {
        events, images, screen, ..
    }) = material
    {
        for block in events.into_blocks() {
            send(&block)?;
        }
        for page in images.iter() {
            send(page)?;
        }
        if let Some(picture) = screen {
            send(picture.rgb())?;
        }
    }
    for output in outputs {
        send(&output)?;
    }
    Ok(())
}
