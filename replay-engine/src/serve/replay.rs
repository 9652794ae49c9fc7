//! The replay of a session's plan: checks of the request, the watch of the run while it executes, its reply.

use super::counters::ServeCounters;
use super::runner::{self, PreparedReplay, RunEnd, RunResult};
use super::session::{Event, Session, SessionEnd, TICK};
use super::slot::{Hold, LostDevice};
use crate::device::Containment;
use crate::target::{TargetRequest, check_replay_request};
use crate::verify::{self, Reason, Refusal};
use crate::wire::message::{RunReply, RunRequest};
use crate::wire::{ReaderMessage, Topic};
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

impl Session {
    /// Runs the pushed plan as `request` asks, and sends its results, or why it did not run or did not end.
    ///
    /// # Errors
    /// If the session has to end.
    pub(super) fn run(&mut self, request: TargetRequest) -> Result<(), SessionEnd> {
        if self.preempted {
            return Ok(self.sender.send(Topic::Run, &RunReply::Preempted)?);
        }
        let not_ready = |s: &Self, why: String| Ok(s.sender.send(Topic::Run, &RunReply::NotReady(why))?);
        if let Some(info) = self.hold.as_ref().map(Hold::info)
            && info.containment == Containment::None
            && !self.uncontained
        {
            let device = info.name.clone();
            return Ok(self.sender.send(Topic::Run, &RunReply::Uncontained { device })?);
        }
        let limit = self.options().repeat;
        if let TargetRequest::Replay { repeat } = request
            && !(1..=limit).contains(&repeat)
        {
            return not_ready(self, format!("{repeat} repetitions; 1 to {limit} are allowed"));
        }
        let Some(ready) = self.ready.clone() else {
            return not_ready(self, "no plan was pushed".into());
        };
        if let Some(hold) = &self.hold {
            let checked = match (ready.plan.planned_calls(), hold.api()) {
                (Some(calls), Some(api)) => api.check_request(calls, &request),
                _ => check_replay_request(&request, hold.info()),
            };
            if let Err(refusal) = checked {
                return Ok(self.sender.send(Topic::Run, &RunReply::Refused(refusal))?);
            }
        }
        if request == TargetRequest::ReplayWithoutReset
            && let Some(why) = self.find_reset_need(&ready)
        {
            let refusal = Refusal {
                rule: 0,
                place: "reset".to_owned(),
                reason: Reason::ResetNeeded { why },
            };
            return Ok(self.sender.send(Topic::Run, &RunReply::Refused(refusal))?);
        }
        let Some(device) = self.hold.as_mut().and_then(Hold::borrow) else {
            return not_ready(
                self,
                "the device is out of order; release it and lease it again to see the reason".into(),
            );
        };
        let sync_sender = self.to_self.clone();
        self.run += 1;
        let number = self.run;
        // A session that is over receives nothing more; then the target's thread drops the target.
        let finished = move |end| drop(sync_sender.send(Event::Ran(number, end)));
        let yield_flag = self.hold.as_ref().and_then(|hold| hold.yield_flag().cloned());
        let control = match runner::start(ready, device, request, yield_flag, finished) {
            Ok(control) => control,
            Err(e) => {
                // The thread did not start and the target was dropped with it: no other thread has it.
                if let Some(hold) = &mut self.hold {
                    hold.lose(LostDevice::Panicked);
                }
                return Err(SessionEnd(e.into()));
            }
        };
        let begun = Instant::now();
        let end = self.watch(&control);
        self.count_run(&end, begun);
        let Some(hold) = &mut self.hold else {
            return Err(SessionEnd::protocol("the lease is gone"));
        };
        let reply = match end.ended {
            Some(RunEnd::Done(device, ran)) => {
                hold.give_back(device);
                end.quit.map_or(Ok(()), Err)?;
                // The request that waits is served before the results are sent.
                if matches!(*ran, RunResult::Stopped { .. }) {
                    self.yield_device();
                }
                return Ok(runner::deliver(&self.sender, *ran)?);
            }
            Some(RunEnd::Cancelled(device)) => {
                hold.give_back(device);
                match end.why {
                    Some(why) => RunReply::DeviceFailed(why),
                    None => RunReply::Cancelled,
                }
            }
            Some(RunEnd::Panicked(text)) => {
                tracing::error!(device = hold.info().name, "the device failed in a run: {text}");
                hold.lose(LostDevice::Panicked);
                RunReply::DeviceFailed(text)
            }
            None => {
                hold.lose(LostDevice::Hangs);
                RunReply::DeviceFailed(end.why.unwrap_or_else(|| {
                    format!(
                        "it did not stop within {} s after it was cancelled",
                        self.shared.options.grace.as_secs()
                    )
                }))
            }
        };
        end.quit.map_or(Ok(()), Err)?;
        Ok(self.sender.send(Topic::Run, &reply)?)
    }

    /// Returns why a reset cannot be left out before a plan.
    fn find_reset_need(&self, ready: &PreparedReplay) -> Option<String> {
        match self.hold.as_ref().is_some_and(Hold::is_idle) {
            true => verify::find_reset_need(&ready.plan),
            false => Some("the device is not known to be idle".to_owned()),
        }
    }

    /// Counts a run that ended.
    fn count_run(&self, end: &WatchResult, begun: Instant) {
        let counters = &self.shared.counters;
        ServeCounters::raise(match &end.ended {
            Some(RunEnd::Done(..)) => &counters.runs,
            Some(RunEnd::Cancelled(_)) => &counters.cancelled,
            Some(RunEnd::Panicked(_)) | None => &counters.failed,
        });
        let busy = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        counters.busy_ns.fetch_add(busy, Ordering::Relaxed);
    }

    /// Monitors a run: sends its progress, handles cancellation and the end of the connection, and enforces the limits.
    fn watch(&mut self, control: &runner::RunControl) -> WatchResult {
        let options = self.options().clone();
        let begin = Instant::now();
        let mut stop_by: Option<Instant> = None;
        let mut reported = 0;
        let mut watched = WatchResult {
            ended: None,
            quit: None,
            why: None,
        };
        let stop = |stop_by: &mut Option<Instant>| {
            control.cancel();
            stop_by.get_or_insert_with(|| Instant::now() + options.grace);
        };
        loop {
            match self.events.recv_timeout(TICK) {
                Ok(Event::Ran(number, ended)) if number == self.run => {
                    watched.ended = Some(ended);
                    return watched;
                }
                Ok(
                    Event::Ran(..)
                    | Event::Checked
                    | Event::WasmResult(..)
                    | Event::WasmEnded(..)
                    | Event::LiveFinished(..)
                    | Event::Yield,
                ) => {}
                Ok(Event::Arrived(ReaderMessage::Ended(e))) => {
                    watched.quit = Some(SessionEnd(e));
                    stop(&mut stop_by);
                }
                Ok(Event::Arrived(ReaderMessage::Frame(frame))) => {
                    let cancel = frame.concern == Topic::Run && matches!(frame.message(), Ok(RunRequest::Cancel));
                    if !cancel {
                        watched.quit = Some(SessionEnd::protocol("a frame other than cancel during a run"));
                    }
                    stop(&mut stop_by);
                }
                Err(RecvTimeoutError::Disconnected) => return watched,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if stop_by.is_none() && self.shared.stopping.load(Ordering::SeqCst) {
                watched.why = Some("the agent is being stopped".into());
                stop(&mut stop_by);
            }
            if stop_by.is_none()
                && let Err(quit) = self.still_known()
            {
                watched.quit = Some(quit);
                stop(&mut stop_by);
            }
            if stop_by.is_none() && begin.elapsed() > options.longest_run {
                watched.why = Some(format!("it ran longer than {} s", options.longest_run.as_secs_f32()));
                stop(&mut stop_by);
            }
            if let (Some(hold), Some(_)) = (&self.hold, &watched.quit) {
                hold.mark_ending();
            }
            if stop_by.is_some_and(|by| Instant::now() > by) {
                return watched;
            }
            let now = control.millionths();
            if now != reported && watched.quit.is_none() && stop_by.is_none() {
                reported = now;
                if let Err(e) = self.sender.send(Topic::Run, &RunReply::Progress(now)) {
                    watched.quit = Some(SessionEnd(e));
                    stop(&mut stop_by);
                }
            }
        }
    }
}

/// The result of monitoring a run.
struct WatchResult {
    /// How it ended, or `None` if it did not.
    ended: Option<RunEnd>,
    /// Why the session has to end.
    quit: Option<SessionEnd>,
    /// Why the agent stopped it.
    why: Option<String>,
}
