//! Execution of a plan in a separate thread, so that a panicking or hanging target affects nothing else, and
//! delivery of its results to the client.

use super::cache::PinnedPages;
use super::slot::panic_text;
use crate::device::ReplayDevice;
use crate::plan::Plan;
use crate::run::calls::CallsOutcome;
use crate::run::{self, Outcome, RunArtifacts, Verdict};
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

/// The results of runs: the outcome, and the artifacts for its recording.
pub(crate) struct RunResult {
    pub outcome: Outcome,
    pub material: Option<RunArtifacts>,
}

/// How a run ended.
pub(crate) enum RunEnd {
    /// The run is complete, and the target is returned.
    Done(Box<dyn ReplayDevice>, Box<RunResult>),
    /// The run was cancelled, and the target is returned.
    Cancelled(Box<dyn ReplayDevice>),
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

/// Starts `repeat` runs. `finished` is called once, in the run's thread.
pub(crate) fn start(
    ready: Arc<PreparedReplay>,
    mut device: Box<dyn ReplayDevice>,
    repeat: u32,
    finished: impl FnOnce(RunEnd) + Send + 'static,
) -> io::Result<Arc<RunControl>> {
    let control = Arc::new(RunControl {
        repeat: repeat.max(1),
        done: AtomicU32::new(0),
        cancelled: AtomicBool::new(false),
        current: Mutex::new(Progress::new()),
    });
    let shared = Arc::clone(&control);
    let work = move || {
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let outcome = run_repeated(&ready, &mut *device, &shared);
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

/// Returns the outcome of all repetitions: the first one's, unless a later one differs. The differing one is then the
/// outcome, and a failure. Returns `None` if it was cancelled.
fn run_repeated(ready: &PreparedReplay, device: &mut dyn ReplayDevice, control: &RunControl) -> Option<Box<RunResult>> {
    if ready.plan.calls.is_some() {
        let progress = control.next()?;
        let began = Instant::now();
        let played = device.play_calls(&ready.plan, &ready.pages, control.repeat, &progress);
        // The results of a tuning before it was stopped are kept.
        let tried = |o: &Outcome| o.calls.as_ref().is_some_and(CallsOutcome::has_tried);
        if control.is_cancelled() && !played.as_ref().is_some_and(tried) {
            return None;
        }
        let mut outcome = played.unwrap_or_else(|| Outcome {
            failure: Some("the device cannot run driver calls".to_owned()),
            ..Outcome::unfinished(device.info().name)
        });
        if outcome.timing.runs_ns.is_empty() {
            outcome.timing.runs_ns = vec![u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)];
        }
        return Some(Box::new(RunResult {
            outcome,
            material: None,
        }));
    }
    let map = RegisterMap::by_name(&ready.plan.register_map);
    let mut first: Option<Box<RunResult>> = None;
    let mut runs_ns = Vec::new();
    for n in 0..control.repeat {
        let progress = control.next()?;
        let begin = Instant::now();
        let (outcome, material) = run::run_with_artifacts(&ready.plan, &ready.pages, device, map, &progress);
        runs_ns.push(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX));
        if control.is_cancelled() {
            return None;
        }
        control.done.fetch_add(1, Ordering::Relaxed);
        match &first {
            None => first = Some(Box::new(RunResult { outcome, material })),
            Some(f) if f.outcome.fingerprint == outcome.fingerprint => {}
            Some(_) => {
                let mut odd = Box::new(RunResult { outcome, material });
                odd.outcome.verdict = Verdict::Failed;
                odd.outcome.failure = Some(format!("run {} did not have the outcome of run 1", n + 1));
                first = Some(odd);
                break;
            }
        }
    }
    let mut ran = first?;
    ran.outcome.timing.runs_ns = runs_ns;
    Some(ran)
}

/// Sends an outcome: the record, then its bulk data, which is freed piece by piece.
pub(super) fn deliver(sender: &Sender, ran: RunResult) -> Result<(), WireError> {
    let RunResult { mut outcome, material } = ran;
    let outputs: Vec<Vec<u8>> = outcome
        .outputs
        .iter_mut()
        .map(|o| std::mem::take(&mut o.data))
        .collect();
    let large = material.as_ref().map_or([0; 3], RunArtifacts::lengths);
    let lengths = large.into_iter().chain(outputs.iter().map(|o| o.len() as u64));
    let done = RunReply::Done {
        outcome: Box::new(outcome),
        left: material.as_ref().map(|m| Box::new(m.header.clone())),
        bulk: lengths.collect(),
    };
    sender.send(Topic::Run, &done)?;
    drop(done);
    let send = |bytes: &[u8]| {
        let mut parts = bytes.chunks(BULK);
        parts.try_for_each(|part| sender.send_bytes(Topic::Bulk, part))
    };
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
