//! A run of a WebAssembly program on an agent: program and inputs go out, results come back as copies end.

use super::connection::{Connection, wire_error_at};
use super::error::{ClientError, Stage};
use super::session::Client;
use crate::wasm::{WasmCall, WasmObserver, WasmReport, WasmResult, WasmRun};
use crate::wire::wasm_message::{
    MAX_INPUTS_OF_MESSAGE, MAX_REQUESTS_OF_INPUT, WASM_VERSION, WasmInputHeader, WasmRefusal, WasmReply, WasmRequest,
    WasmResultHeader,
};
use crate::wire::{BULK, Frame, Sender, Topic};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which a cancellation is noticed.
const TICK: Duration = Duration::from_millis(50);
/// Content of the inputs of one message, bytes. A larger input has a message of its own.
const BATCH_BYTES: usize = BULK;
/// Maximum number of requests of several inputs of one message. Each input has at least one.
const BATCH_REQUESTS: usize = MAX_INPUTS_OF_MESSAGE;
/// Maximum time for an agent to confirm a cancellation. Then the end of the connection stops the run.
const CANCEL_LIMIT: Duration = Duration::from_secs(2);
/// Maximum time for the next part of an output, which the agent sends without a pause.
const PART_LIMIT: Duration = Duration::from_secs(60);
/// What the outputs of a copy may exceed their limit by: a copy ends after the call that exceeds it.
const OUTPUT_SLACK: u64 = 1 << 20;

/// An input of a run: its name, then its standard input and its other requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WasmInputRef<'a> {
    /// Name of the input.
    pub name: &'a str,
    /// The standard input, which is also the first request, then the other requests. There is at least one.
    pub requests: Vec<&'a [u8]>,
}

impl Client {
    /// Runs a program on a target of the agent, once for each input. `run` names the target; the sizes in it are set
    /// here. Results go to `observer` in any order.
    ///
    /// # Errors
    /// If the agent is too old, refuses or fails, if the connection is lost, or if `observer` cancels. Results until
    /// then are valid.
    pub fn run_wasm<'a>(
        self,
        run: WasmRun,
        program: &[u8],
        inputs: impl IntoIterator<Item = WasmInputRef<'a>>,
        observer: &dyn WasmObserver,
    ) -> Result<WasmReport, ClientError> {
        if self.version < WASM_VERSION {
            return Err(ClientError::Version(format!(
                "the agent ({}) speaks protocol version {}, and WebAssembly programs need version {WASM_VERSION}; \
                 update the agent",
                self.program, self.version
            )));
        }
        let inputs: Vec<WasmInputRef<'a>> = inputs.into_iter().collect();
        let sizes = inputs.iter().flat_map(|i| i.requests.iter().map(|r| r.len() as u64));
        let run = WasmRun {
            program_bytes: program.len() as u64,
            inputs: inputs.len() as u64,
            input_bytes: sizes.sum(),
            ..run
        };
        let exchange = Exchange {
            connection: &self.connection,
            run: &run,
            observer,
            cancelled: Cell::new(None),
        };
        let sender = self.connection.sender.clone();
        let work = || {
            exchange.send_program(program)?;
            exchange.send_inputs(&inputs)?;
            exchange.receive_results()
        };
        run_until_cancelled(observer, sender, work)
    }
}

/// Does the work of a run. Closes the connection [`CANCEL_LIMIT`] after a cancellation: a write to an agent that does not
/// read waits much longer.
fn run_until_cancelled<T>(
    observer: &dyn WasmObserver,
    sender: Sender,
    work: impl FnOnce() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let is_closed = &AtomicBool::new(false);
    let (work_ended, wait) = sync_channel::<()>(0);
    let watch = move || {
        let mut cancelled: Option<Instant> = None;
        // The other end is dropped when the work ends.
        while wait.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            if observer.is_cancelled() && cancelled.get_or_insert_with(Instant::now).elapsed() > CANCEL_LIMIT {
                is_closed.store(true, Ordering::SeqCst);
                sender.close();
                return;
            }
        }
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("kinescope-cancel".into());
        thread
            .spawn_scoped(scope, watch)
            .map_err(|e| wire_error_at(Stage::SendProgram, e.into()))?;
        let result = work();
        drop(work_ended);
        result
    })
    .map_err(|e| match is_closed.load(Ordering::SeqCst) {
        true => ClientError::Cancelled,
        false => e,
    })
}

/// The messages of one run. An error before the run ends the connection, and that ends the agent's part.
struct Exchange<'a> {
    connection: &'a Connection,
    run: &'a WasmRun,
    observer: &'a dyn WasmObserver,
    /// When the run was cancelled, if it was.
    cancelled: Cell<Option<Instant>>,
}

impl Exchange<'_> {
    fn check_cancelled(&self) -> Result<(), ClientError> {
        match self.observer.is_cancelled() {
            true => Err(ClientError::Cancelled),
            false => Ok(()),
        }
    }

    /// Returns the next reply before the run.
    fn reply(&self) -> Result<WasmReply, ClientError> {
        let stage = Stage::SendProgram;
        loop {
            self.check_cancelled()?;
            if let Some(frame) = self.connection.frame(stage, TICK)? {
                return match self.connection.decode(stage, Topic::Wasm, &frame)? {
                    WasmReply::Refused(refusal) => Err(self.refusal_error(refusal)),
                    reply => Ok(reply),
                };
            }
        }
    }

    fn refusal_error(&self, refusal: WasmRefusal) -> ClientError {
        let device = self.run.target.clone();
        match refusal {
            WasmRefusal::NoTarget { known } if known.is_empty() => {
                ClientError::Refused("it runs no WebAssembly programs".to_owned())
            }
            WasmRefusal::NoTarget { known } => ClientError::Refused(format!(
                "`{device}` runs no WebAssembly programs; it runs them on {}",
                known.join(", ")
            )),
            WasmRefusal::Busy { holder, since_s } => ClientError::Busy {
                device,
                holder,
                since_s,
            },
            WasmRefusal::OutOfOrder(reason) => ClientError::OutOfOrder { device, reason },
            WasmRefusal::Limit(why) => ClientError::Refused(why),
            WasmRefusal::Program(why) => ClientError::ProgramRefused(why),
        }
    }

    fn unexpected(&self) -> ClientError {
        let connection = self.connection;
        connection.protocol_error(
            Stage::SendProgram,
            "it answers another request than the one that was sent",
        )
    }

    fn send(&self, request: &WasmRequest) -> Result<(), ClientError> {
        self.connection.send(Stage::SendProgram, Topic::Wasm, request)
    }

    fn send_program(&self, program: &[u8]) -> Result<(), ClientError> {
        self.check_cancelled()?;
        self.send(&WasmRequest::Start(Box::new(self.run.clone())))?;
        let WasmReply::Accepted = self.reply()? else {
            return Err(self.unexpected());
        };
        for part in program.chunks(BULK) {
            self.check_cancelled()?;
            self.connection.send_bulk(Stage::SendProgram, part)?;
        }
        match self.reply()? {
            WasmReply::Ready => Ok(()),
            _ => Err(self.unexpected()),
        }
    }

    fn send_inputs(&self, inputs: &[WasmInputRef<'_>]) -> Result<(), ClientError> {
        let mut rest = inputs;
        while !rest.is_empty() {
            let (mut bytes, mut requests, mut count) = (0usize, 0usize, 0usize);
            for input in rest {
                if input.requests.len() > MAX_REQUESTS_OF_INPUT {
                    let name = input.name;
                    return Err(ClientError::Refused(format!(
                        "input {name} has more than {MAX_REQUESTS_OF_INPUT} requests, which is the maximum for agents"
                    )));
                }
                let size = input.requests.iter().fold(0usize, |sum, r| sum.saturating_add(r.len()));
                bytes = bytes.saturating_add(size);
                requests = requests.saturating_add(input.requests.len());
                if count > 0 && (bytes > BATCH_BYTES || requests > BATCH_REQUESTS) {
                    break;
                }
                count += 1;
            }
            let (batch, after) = rest.split_at(count.min(rest.len()));
            self.send_batch(batch)?;
            rest = after;
        }
        Ok(())
    }

    fn send_batch(&self, batch: &[WasmInputRef<'_>]) -> Result<(), ClientError> {
        let headers = batch.iter().map(|input| WasmInputHeader {
            name: input.name.to_owned(),
            lengths: input.requests.iter().map(|r| r.len() as u64).collect(),
        });
        self.check_cancelled()?;
        self.send(&WasmRequest::Inputs(headers.collect()))?;
        let mut waiting = Vec::new();
        for request in batch.iter().flat_map(|input| &input.requests) {
            let mut rest = *request;
            while !rest.is_empty() {
                let (now, after) = rest.split_at(rest.len().min(BULK - waiting.len()));
                waiting.extend_from_slice(now);
                rest = after;
                if waiting.len() == BULK {
                    self.check_cancelled()?;
                    self.connection.send_bulk(Stage::SendProgram, &waiting)?;
                    waiting.clear();
                }
            }
        }
        match waiting.as_slice() {
            [] => Ok(()),
            last => self.connection.send_bulk(Stage::SendProgram, last),
        }
    }

    /// Asks the agent to stop the run, once.
    fn cancel(&self) -> Result<(), ClientError> {
        if self.cancelled.get().is_some() {
            return Ok(());
        }
        self.cancelled.set(Some(Instant::now()));
        self.connection
            .send(Stage::RunProgram, Topic::Wasm, &WasmRequest::Cancel)
    }

    /// Returns the next frame of the run, or `None` if none arrives within [`TICK`]. Passes a cancellation on.
    fn frame_of_run(&self) -> Result<Option<Frame>, ClientError> {
        if self.observer.is_cancelled() {
            self.cancel()?;
        }
        if self.cancelled.get().is_some_and(|since| since.elapsed() > CANCEL_LIMIT) {
            return Err(ClientError::Cancelled);
        }
        self.connection.frame(Stage::RunProgram, TICK)
    }

    /// Receives results until the end of the run.
    fn receive_results(&self) -> Result<WasmReport, ClientError> {
        let stage = Stage::RunProgram;
        let inputs = usize::try_from(self.run.inputs).unwrap_or(usize::MAX);
        let mut results = ResultCount {
            known: vec![false; inputs],
            missing: inputs,
        };
        let mut taken = Ok(());
        loop {
            if taken.is_err() {
                self.cancel()?;
            }
            let Some(frame) = self.frame_of_run()? else {
                continue;
            };
            match self.connection.decode(stage, Topic::Wasm, &frame)? {
                WasmReply::Result(header) => {
                    let result = self.receive_result(*header, &mut results)?;
                    if taken.is_ok() {
                        taken = self.observer.take_result(result);
                    }
                }
                _ if taken.is_err() => return Err(ClientError::Cancelled),
                WasmReply::Finished(report) if results.missing == 0 => return Ok(report),
                WasmReply::Failed(why) => return Err(ClientError::ProgramFailed(why)),
                WasmReply::Cancelled => return Err(ClientError::Cancelled),
                WasmReply::Refused(refusal) => return Err(self.refusal_error(refusal)),
                WasmReply::Finished(_) | WasmReply::Accepted | WasmReply::Ready => {
                    return Err(self
                        .connection
                        .protocol_error(stage, "it ends a run without all results"));
                }
            }
        }
    }

    fn receive_result(&self, header: WasmResultHeader, results: &mut ResultCount) -> Result<WasmResult, ClientError> {
        let broken = |what: &str| self.connection.protocol_error(Stage::RunProgram, what);
        if !results.add(header.index) {
            return Err(broken("a result of no input, or a second result of an input"));
        }
        let total = header.output_bytes.checked_add(header.error_bytes);
        let limit = self.run.limits.output_bytes.saturating_add(OUTPUT_SLACK);
        if total.is_none_or(|bytes| bytes > limit) {
            return Err(broken("outputs that are longer than their limit"));
        }
        if header.calls.len() as u64 > u64::from(self.run.limits.log_entries) {
            return Err(broken("more system calls than the log of a copy keeps"));
        }
        // A program can let its clock overflow: it waits for the last time that there is.
        let step = self.run.clock_step;
        let in_order =
            |first: &WasmCall, next: &WasmCall| first.time <= next.time || first.time.checked_add(step).is_none();
        if !header.calls.is_sorted_by(in_order) {
            return Err(broken("system calls whose times fall"));
        }
        Ok(WasmResult {
            index: header.index,
            end: header.end,
            output: self.receive_bytes(header.output_bytes)?,
            error: self.receive_bytes(header.error_bytes)?,
            calls: header.calls,
            lost_calls: header.lost_calls,
        })
    }

    fn receive_bytes(&self, bytes: u64) -> Result<Vec<u8>, ClientError> {
        let stage = Stage::RunProgram;
        let mut all = Vec::new();
        let mut last = Instant::now();
        while (all.len() as u64) < bytes {
            let Some(frame) = self.frame_of_run()? else {
                if last.elapsed() > PART_LIMIT {
                    let seconds = PART_LIMIT.as_secs();
                    let reason = format!("no part of an output within {seconds} s");
                    return Err(self.connection.protocol_error(stage, reason));
                }
                continue;
            };
            last = Instant::now();
            if frame.concern != Topic::Bulk || frame.payload.is_empty() {
                return Err(self
                    .connection
                    .protocol_error(stage, "a frame in the middle of an output"));
            }
            all.extend_from_slice(&frame.payload);
        }
        if all.len() as u64 != bytes {
            return Err(self
                .connection
                .protocol_error(stage, "an output of another size than announced"));
        }
        Ok(all)
    }
}

/// The inputs that have results.
struct ResultCount {
    known: Vec<bool>,
    missing: usize,
}

impl ResultCount {
    /// Adds the result of an input, and returns whether it is the first one.
    fn add(&mut self, index: u64) -> bool {
        let known = usize::try_from(index).ok().and_then(|i| self.known.get_mut(i));
        match known {
            Some(known) if !*known => {
                *known = true;
                self.missing -= 1;
                true
            }
            _ => false,
        }
    }
}
