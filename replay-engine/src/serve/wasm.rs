//! Runs of WebAssembly programs for clients: limits, lease of the target, program, inputs, results.

use super::session::{Event, Session, SessionEnd, TICK, WaitingWasmResult, wait_for_lease};
use super::slot::panic_text;
use super::wasm_budgets::{InputBudget, check_budgets};
use super::wasm_targets::TargetLease;
use crate::lease_options::LeaseOptions;
use crate::wasm::{PreparedWasm, WasmInput, WasmObserver, WasmResult, WasmRun, WasmRunError};
use crate::wire::message::LeaseReply;
use crate::wire::wasm_message::{WASM_VERSION, WasmInputHeader, WasmRefusal, WasmReply, WasmRequest, WasmResultHeader};
use crate::wire::{BULK, Frame, ReaderMessage, Topic, WireError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Size of the outputs of a result that waits outside of the queue of its session, bytes: the queue is limited by the
/// number of events.
const MAX_QUEUED_BYTES: usize = 1 << 20;
/// Maximum number of characters of a text in the log that the client or its program can choose.
const MAX_LOG_CHARACTERS: usize = 400;

/// Passes what a run reports to its session.
struct Observer {
    number: u64,
    to_session: SyncSender<Event>,
    cancelled: Arc<AtomicBool>,
}

impl WasmObserver for Observer {
    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Returns after a large result is sent: then its caller counts it until it is.
    fn take_result(&self, result: WasmResult) -> Result<(), String> {
        let is_large = result.output.len().saturating_add(result.error.len()) > MAX_QUEUED_BYTES;
        let (on_sent, sent) = sync_channel(0);
        let waiting = WaitingWasmResult {
            result,
            on_sent: is_large.then_some(on_sent),
        };
        let event = Event::WasmResult(self.number, Box::new(waiting));
        self.to_session
            .send(event)
            .map_err(|_| "the client is gone".to_owned())?;
        if is_large {
            // The session sends nothing here: it drops its end with the result.
            let _: Result<(), _> = sent.recv();
        }
        Ok(())
    }
}

/// How a monitored run ended.
struct MonitoredRun {
    /// The last message to the client.
    reply: WasmReply,
    /// Why the session has to end.
    quit: Option<SessionEnd>,
}

impl Session {
    /// Answers a request about a run. A run occupies the session until it ends.
    pub(super) fn answer_wasm(&mut self, frame: &Frame) -> Result<(), SessionEnd> {
        if self.version < WASM_VERSION {
            return Err(SessionEnd::protocol("a WebAssembly run in this protocol version"));
        }
        match frame.message()? {
            WasmRequest::Start(run) => {
                self.look_up()?;
                self.start_wasm(*run)
            }
            WasmRequest::Inputs(_) => Err(SessionEnd::protocol("inputs without a WebAssembly run")),
            // It crossed the end of its run in transit.
            WasmRequest::Cancel => Ok(()),
        }
    }

    fn reply_wasm(&self, reply: &WasmReply) -> Result<(), SessionEnd> {
        Ok(self.sender.send(Topic::Wasm, reply)?)
    }

    /// Runs a program from its announcement to the last message, and logs one line about it.
    fn start_wasm(&mut self, run: WasmRun) -> Result<(), SessionEnd> {
        let (begin, target, inputs) = (Instant::now(), run.target.clone(), run.inputs);
        let mut digest = None;
        let ended = self.run_wasm(run, &mut digest);
        tracing::info!(
            "WebAssembly run of client {}: program {}, {inputs} input{} on {}, {:.3} s: {}",
            self.name,
            digest.as_deref().unwrap_or("not received"),
            if inputs == 1 { "" } else { "s" },
            format_for_log(&target),
            begin.elapsed().as_secs_f64(),
            format_for_log(&describe_end(&ended))
        );
        self.reply_wasm(&ended?)
    }

    /// Runs a program, and returns the last message to the client. `digest` gets the digest of the program.
    fn run_wasm(&mut self, run: WasmRun, digest: &mut Option<String>) -> Result<WasmReply, SessionEnd> {
        if self.hold.is_some() {
            return Err(SessionEnd::protocol("a WebAssembly run on a connection with a lease"));
        }
        if let Err(why) = check_budgets(&run, &self.options().wasm, self.options().longest_run) {
            return Ok(WasmReply::Refused(WasmRefusal::Limit(why)));
        }
        let lease = match self.lease_wasm_target(&run.target) {
            Ok(lease) => lease,
            Err(refusal) => return Ok(WasmReply::Refused(refusal)),
        };
        self.reply_wasm(&WasmReply::Accepted)?;
        let program = self.receive_bytes(run.program_bytes)?;
        *digest = Some(blake3::hash(&program).to_hex().to_string());
        let prepared = match self.prepare_wasm(&run, program)? {
            Ok(prepared) => prepared,
            Err(why) => return Ok(WasmReply::Refused(WasmRefusal::Program(why))),
        };
        self.reply_wasm(&WasmReply::Ready)?;
        let Some(inputs) = self.receive_inputs(&run)? else {
            return Ok(WasmReply::Cancelled);
        };
        let cancelled = self.spawn_wasm(prepared, inputs, lease)?;
        let ended = self.monitor_wasm(&cancelled);
        ended.quit.map_or(Ok(ended.reply), Err)
    }

    fn lease_wasm_target(&self, target: &str) -> Result<TargetLease, WasmRefusal> {
        let Some(service) = self.shared.wasm.get() else {
            return Err(WasmRefusal::NoTarget { known: Vec::new() });
        };
        let named = service.runner.targets();
        if named.iter().any(|name| name == target) {
            let is_busy = |refusal: &WasmRefusal| matches!(refusal, WasmRefusal::Busy { .. });
            return wait_for_lease(|| service.take(target, &self.name), is_busy);
        }
        let runs = |name: &str| service.runner.runs_on_device(name);
        let slots = &self.shared.slots;
        match slots.iter().find(|s| s.info().name == target && runs(target)) {
            Some(slot) => match self.take_slot(slot, LeaseOptions::default()) {
                Ok(hold) => Ok(TargetLease::Device { _hold: hold }),
                Err(reply) => Err(match *reply {
                    LeaseReply::Busy { holder, since_s } => WasmRefusal::Busy { holder, since_s },
                    LeaseReply::OutOfOrder(why) => WasmRefusal::OutOfOrder(why),
                    _ => WasmRefusal::OutOfOrder("it cannot be leased".to_owned()),
                }),
            },
            None => {
                let devices = slots.iter().map(|s| s.info().name.clone()).filter(|name| runs(name));
                let known = devices.chain(named).collect();
                Err(WasmRefusal::NoTarget { known })
            }
        }
    }

    /// Validates the program in a separate thread, so that the end of the connection is noticed.
    fn prepare_wasm(
        &mut self,
        run: &WasmRun,
        program: Vec<u8>,
    ) -> Result<Result<Box<dyn PreparedWasm>, String>, SessionEnd> {
        let shared = Arc::clone(&self.shared);
        let prepare = move |_: &_| match shared.wasm.get() {
            Some(service) => catch_unwind(AssertUnwindSafe(|| service.runner.prepare(run, program)))
                .unwrap_or_else(|panic| Err(panic_text(&*panic))),
            None => Err("the agent runs no programs".to_owned()),
        };
        let checked = self.watched(prepare)?;
        checked.ok_or_else(|| SessionEnd::protocol("a withdrawn plan instead of a program"))
    }

    /// Receives bulk frames with exactly this many bytes together.
    fn receive_bytes(&mut self, bytes: u64) -> Result<Vec<u8>, SessionEnd> {
        let mut all = Vec::new();
        while (all.len() as u64) < bytes {
            let frame = self.frame()?;
            if frame.concern != Topic::Bulk || frame.payload.is_empty() {
                return Err(SessionEnd::protocol("a frame in the middle of a program or its inputs"));
            }
            all.extend_from_slice(&frame.payload);
        }
        if all.len() as u64 != bytes {
            return Err(SessionEnd::protocol("more bytes than announced"));
        }
        Ok(all)
    }

    /// Receives all inputs, or returns `None` if the client cancels.
    fn receive_inputs(&mut self, run: &WasmRun) -> Result<Option<Vec<WasmInput>>, SessionEnd> {
        let mut budget = InputBudget::new(run, &self.options().wasm);
        let mut inputs = Vec::new();
        while (inputs.len() as u64) < run.inputs {
            let frame = self.frame()?;
            if frame.concern != Topic::Wasm {
                return Err(SessionEnd::protocol("a frame other than inputs"));
            }
            let headers = match frame.message()? {
                WasmRequest::Inputs(headers) if !headers.is_empty() => headers,
                WasmRequest::Cancel => return Ok(None),
                _ => return Err(SessionEnd::protocol("a request other than inputs")),
            };
            if inputs.len() as u64 + headers.len() as u64 > run.inputs {
                return Err(SessionEnd::protocol("more inputs than announced"));
            }
            let bytes = budget
                .charge(&headers)
                .map_err(|e| SessionEnd::protocol(e.to_string()))?;
            let content = self.receive_bytes(bytes)?;
            let mut rest = content.as_slice();
            for WasmInputHeader { name, lengths } in headers {
                let mut requests = Vec::with_capacity(lengths.len());
                for length in lengths {
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    let Some((request, after)) = rest.split_at_checked(length) else {
                        return Err(SessionEnd::protocol("inputs of another size than announced"));
                    };
                    requests.push(request.to_vec());
                    rest = after;
                }
                inputs.push(WasmInput { name, requests });
            }
        }
        match budget.is_complete() {
            true => Ok(Some(inputs)),
            false => Err(SessionEnd::protocol("fewer bytes of inputs than announced")),
        }
    }

    /// Starts the run in a thread, which owns the lease. Returns the flag that cancels the run.
    fn spawn_wasm(
        &mut self,
        prepared: Box<dyn PreparedWasm>,
        inputs: Vec<WasmInput>,
        lease: TargetLease,
    ) -> Result<Arc<AtomicBool>, SessionEnd> {
        self.run += 1;
        let number = self.run;
        let cancelled = Arc::new(AtomicBool::new(false));
        let observer = Observer {
            number,
            to_session: self.to_self.clone(),
            cancelled: Arc::clone(&cancelled),
        };
        let work = move || {
            let ran = catch_unwind(AssertUnwindSafe(|| prepared.run(inputs, &observer)));
            let ended = ran.unwrap_or_else(|panic| Err(WasmRunError::Failed(panic_text(&*panic))));
            // The client may start the next run as soon as it knows of the end.
            drop(lease);
            // A session that is over does not wait for it.
            let _ = observer.to_session.send(Event::WasmEnded(number, ended));
        };
        let thread = thread::Builder::new().name("kinescope-wasm".into());
        thread.spawn(work).map_err(|e| SessionEnd(e.into()))?;
        Ok(cancelled)
    }

    /// Monitors the run: sends its results, handles cancellation and the end of the connection, enforces the limits.
    fn monitor_wasm(&mut self, cancelled: &AtomicBool) -> MonitoredRun {
        let (grace, longest_run) = (self.options().grace, self.options().longest_run);
        let begin = Instant::now();
        let mut stop = RunStop {
            cancelled,
            by: None,
            grace,
            quit: None,
            reason: None,
        };
        let ended = loop {
            match self.events.recv_timeout(TICK) {
                Ok(Event::WasmResult(number, waiting)) if number == self.run => {
                    if stop.quit.is_none()
                        && let Err(e) = self.send_wasm_result(*waiting)
                    {
                        stop.end_session(SessionEnd(e));
                    }
                }
                Ok(Event::WasmEnded(number, ended)) if number == self.run => break Some(ended),
                Ok(Event::Arrived(ReaderMessage::Ended(e))) => stop.end_session(SessionEnd(e)),
                Ok(Event::Arrived(ReaderMessage::Frame(frame))) => {
                    let is_cancel = frame.concern == Topic::Wasm && matches!(frame.message(), Ok(WasmRequest::Cancel));
                    if is_cancel {
                        stop.cancel(None);
                    } else {
                        stop.end_session(SessionEnd::protocol("a frame other than cancel during a run"));
                    }
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break None,
            }
            if stop.by.is_none() {
                if self.shared.stopping.load(Ordering::SeqCst) {
                    stop.cancel(Some("the agent is being stopped".to_owned()));
                } else if let Err(quit) = self.still_known() {
                    stop.end_session(quit);
                } else if begin.elapsed() > longest_run {
                    let limit = longest_run.as_secs_f32();
                    stop.cancel(Some(format!("it ran longer than {limit} s")));
                }
            }
            if stop.by.is_some_and(|by| Instant::now() > by) {
                break None;
            }
        };
        let reply = match (ended, stop.reason) {
            (Some(Ok(report)), _) => WasmReply::Finished(report),
            (_, Some(reason)) => WasmReply::Failed(reason),
            (Some(Err(WasmRunError::Cancelled)), None) => WasmReply::Cancelled,
            (Some(Err(WasmRunError::Failed(why))), None) => WasmReply::Failed(why),
            (None, None) => {
                let seconds = grace.as_secs_f32();
                WasmReply::Failed(format!("it did not stop within {seconds} s after it was cancelled"))
            }
        };
        MonitoredRun { reply, quit: stop.quit }
    }

    fn send_wasm_result(&self, waiting: WaitingWasmResult) -> Result<(), WireError> {
        let WaitingWasmResult { result, on_sent } = waiting;
        let header = WasmResultHeader {
            index: result.index,
            end: result.end,
            output_bytes: result.output.len() as u64,
            error_bytes: result.error.len() as u64,
            calls: result.calls,
            lost_calls: result.lost_calls,
        };
        self.sender.send(Topic::Wasm, &WasmReply::Result(Box::new(header)))?;
        let mut parts = result.output.chunks(BULK).chain(result.error.chunks(BULK));
        let sent = parts.try_for_each(|part| self.sender.send_bytes(Topic::Bulk, part));
        drop(on_sent);
        sent
    }
}

/// Describes the end of a run for the log.
fn describe_end(ended: &Result<WasmReply, SessionEnd>) -> String {
    match ended {
        Ok(WasmReply::Refused(refusal)) => format!("refused, {refusal}"),
        Ok(WasmReply::Failed(why)) => format!("failed, {why}"),
        Ok(WasmReply::Cancelled) => "cancelled by the client".to_owned(),
        Ok(_) => "finished".to_owned(),
        Err(quit) => format!("the connection ended, {}", quit.0),
    }
}

/// Returns the start of a text of a client in one line of the log.
pub(super) fn format_for_log(text: &str) -> String {
    let text = text.chars().take(MAX_LOG_CHARACTERS);
    text.map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The end of a run before its last result.
struct RunStop<'a> {
    cancelled: &'a AtomicBool,
    /// When a run that was cancelled counts as hanging.
    by: Option<Instant>,
    grace: Duration,
    /// Why the session ends.
    quit: Option<SessionEnd>,
    /// Why the agent stops the run, if the client did not ask for it.
    reason: Option<String>,
}

impl RunStop<'_> {
    fn cancel(&mut self, reason: Option<String>) {
        self.cancelled.store(true, Ordering::Relaxed);
        let by = Instant::now() + self.grace;
        self.by.get_or_insert(by);
        if self.reason.is_none() {
            self.reason = reason;
        }
    }

    fn end_session(&mut self, quit: SessionEnd) {
        self.quit.get_or_insert(quit);
        self.cancel(None);
    }
}
