//! The worker's end of a relay: it stands where the program would be, and passes its requests and memory to the worker.

use crate::arrivals::Arrivals;
use crate::content_store::ClientContents;
use crate::error::RelayError;
use crate::exposed_memory::ExposedMemory;
use crate::frame_sender::FrameSender;
use crate::host_memory::HostMemory;
use crate::known_contents::KnownContents;
use crate::link::{Link, LinkWriter};
use crate::lock;
use crate::pending_copies::PendingCopies;
use crate::printed_output::PrintedOutput;
use crate::record::{Area, Content, ProgramMemory, Record, read_records};
use crate::request_ranges::{RequestRanges, SharedRange};
use crate::shared_memory::SharedMemory;
use remote_calls::cuda_driver::OUT_OF_MEMORY;
use remote_calls::message::CompletedCopies;
use remote_calls::{
    ANSWER_HEADER_BYTES, AnswerHeader, CallId, Decoder, Encoder, Policy, REQUEST_HEADER_BYTES, RequestFlags,
    RequestHeader,
};
use remote_ring::{
    HostWindow, MessageReader, MessageWriter, PROGRAM_GREETING, Region, RegionLayout, RingError, SocketPeer, Wait,
    WindowFile, pass_region, wake_readers_at_end,
};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// Maximum number of answers of one frame.
const BATCH: usize = 256;
/// Interval at which the worker's output is looked at.
const OUTPUT_INTERVAL: Duration = Duration::from_millis(20);
/// Number of bytes after whose arrival the memory of the window is measured.
const MEASURE_BYTES: u64 = 64 << 20;

/// Limits of a program's memory at the worker's machine.
#[derive(Clone, Copy, Debug)]
pub struct WorkerLimits {
    /// Maximum size of the staging area, bytes.
    pub staging_bytes: u64,
    /// Maximum size of pinned, mapped and managed memory together, bytes.
    pub host_bytes: u64,
}

/// What has to happen before an answer.
#[derive(Debug, Default)]
struct BeforeAnswer {
    /// Ranges that the call wrote.
    writes: Vec<SharedRange>,
    /// A range of the window that is free now.
    frees: Option<(u64, u64)>,
    /// A range of the window that is allocated, unless the worker refuses.
    allocates: Option<(u64, u64)>,
    /// The program can learn from the answer that kernels are done.
    is_wait: bool,
}

/// What the end knows of the program's memory.
struct State {
    host: HostMemory,
    exposed: ExposedMemory,
    pending: PendingCopies,
    /// Requests that wait for answers, by their sequence numbers.
    answered: HashMap<u64, BeforeAnswer>,
}

/// What exists since the program's end described its memory.
struct Body {
    link: Link,
    memory: Arc<SharedMemory>,
    state: Mutex<State>,
    requests: Mutex<MessageWriter>,
    finished: Mutex<MessageWriter>,
    /// Bytes that arrived for the window since it was measured.
    arrived_bytes: AtomicU64,
}

/// The end of a relay that a worker is connected to.
pub struct WorkerEnd {
    sender: Arc<dyn FrameSender>,
    limits: WorkerLimits,
    contents: ClientContents,
    peer: SocketPeer<UnixStream>,
    arrivals: Arrivals,
    body: OnceLock<Body>,
    is_over: AtomicBool,
    output: PrintedOutput,
    on_failure: Box<dyn Fn(&str) + Send + Sync>,
}

/// Returns whether the program can learn from a successful answer that work of the device is done.
const fn is_wait(call: CallId) -> bool {
    matches!(call.policy(), Policy::Blocking)
        || matches!(
            call,
            CallId::library_call
                | CallId::cuStreamQuery
                | CallId::cuEventQuery
                | CallId::cuEventElapsedTime
                | CallId::cuEventElapsedTime_v2
        )
}

impl WorkerEnd {
    /// Creates the end for the worker at the other end of a socket. `on_failure` gets the reason if the worker ends by
    /// itself.
    #[must_use]
    pub fn new(
        worker: UnixStream,
        sender: Arc<dyn FrameSender>,
        limits: WorkerLimits,
        contents: ClientContents,
        on_failure: impl Fn(&str) + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            sender,
            limits,
            contents,
            peer: SocketPeer::new(worker),
            arrivals: Arrivals::default(),
            body: OnceLock::new(),
            is_over: AtomicBool::new(false),
            output: PrintedOutput::default(),
            on_failure: Box::new(on_failure),
        })
    }

    /// Sets the output of the worker: a pipe that does not block. The program's end prints it.
    pub fn set_output(&self, output: impl Read + Send + 'static) {
        self.output.set(output);
    }

    /// Adds what the worker has printed.
    fn add_output(&self, writer: &mut LinkWriter<'_>) {
        self.output.read(|part| writer.add(&Record::Output(part)));
    }

    /// Sends what the worker has printed, until the relay ends: kernels can print while the program does not call.
    fn send_output(&self, body: &Body) -> Result<(), RelayError> {
        while !self.is_over.load(Ordering::Relaxed) && self.output.is_open() {
            std::thread::sleep(OUTPUT_INTERVAL);
            self.flush_output(body)?;
        }
        Ok(())
    }

    fn flush_output(&self, body: &Body) -> Result<(), RelayError> {
        let mut writer = body.link.writer();
        self.add_output(&mut writer);
        writer.flush()
    }

    /// Sends the rest of what the worker has printed, after it has ended.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn finish_output(&self) -> Result<(), RelayError> {
        match self.body.get() {
            Some(body) => self.flush_output(body),
            None => Ok(()),
        }
    }

    fn body(&self) -> Result<&Body, RelayError> {
        self.body
            .get()
            .ok_or(RelayError::Unexpected("a record before the description of the memory"))
    }

    /// Ends the relay: the worker sees the end of its program. The main connection stays.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.arrivals.end();
        if let Some(body) = self.body.get() {
            body.link.end_lanes();
        }
        // The worker can be gone.
        let _ = self.peer.socket().shutdown(Shutdown::Both);
    }

    /// Returns the memory of the window that the program uses, bytes.
    #[must_use]
    pub fn host_bytes(&self) -> u64 {
        let body = self.body.get();
        body.and_then(|body| body.memory.window.file().used_bytes().ok())
            .unwrap_or(0)
    }

    fn fail(&self, error: &RelayError) {
        if !self.is_over.swap(true, Ordering::Relaxed) {
            self.arrivals.end();
            let text = match error {
                RelayError::Ring(RingError::PeerGone { .. }) => "the worker process ended".to_owned(),
                other => other.to_string(),
            };
            (self.on_failure)(&text);
        }
    }

    fn spawn(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce(&Self, &Body) -> Result<(), RelayError> + Send + 'static,
    ) -> Result<(), RelayError> {
        let end = Arc::clone(self);
        let thread = std::thread::Builder::new().name(name.into());
        thread.spawn(move || {
            let worked = end.body().and_then(|body| work(&end, body));
            if let Err(e) = worked {
                end.fail(&e);
            }
        })?;
        Ok(())
    }

    /// Adds a lane for large copies to the program.
    ///
    /// # Errors
    /// If there are too many lanes, or the program's end has not described its memory yet.
    pub fn add_lane(self: &Arc<Self>, sender: Arc<dyn FrameSender>) -> Result<(), RelayError> {
        let end = Arc::clone(self);
        self.body()?.link.add_lane(sender, move |e| end.fail(&e))
    }

    /// Takes a frame that arrived on the main connection (0) or on a lane.
    ///
    /// # Errors
    /// If the frame is invalid or exceeds a limit, or the worker is gone. The caller ends the session then.
    pub fn take_frame(self: &Arc<Self>, lane: u32, frame: &[u8]) -> Result<(), RelayError> {
        read_records(frame, |record| match record {
            Record::Data { area, offset, content } => {
                let bytes = self.resolve(content)?;
                self.take_data(area, offset, &bytes)?;
                if lane > 0 {
                    self.arrivals.note(lane)?;
                }
                Ok(())
            }
            Record::Begin(memory) if lane == 0 => self.begin(&memory),
            Record::Fence(counts) if lane == 0 => self.arrivals.wait_for(&counts),
            Record::Message(message) if lane == 0 => self.take_request(message),
            Record::LongMessage { head, tail } if lane == 0 => {
                let tail = self.resolve(tail)?;
                self.take_request(&[head, &tail].concat())
            }
            Record::HostFunction(message) if lane == 0 => {
                Ok(lock(&self.body()?.finished).write(&[message], &self.peer)?)
            }
            Record::Exposed { offset, bytes } if lane == 0 => self.take_exposed(offset, bytes),
            _ => Err(RelayError::Unexpected("a record of the main connection on a lane")),
        })
    }

    fn resolve<'f>(&self, content: Content<'f>) -> Result<Cow<'f, [u8]>, RelayError> {
        match content {
            Content::Plain(bytes) => Ok(Cow::Borrowed(bytes)),
            Content::Kept { digest, bytes } => {
                self.contents.keep(digest, bytes);
                Ok(Cow::Borrowed(bytes))
            }
            Content::Known { digest, bytes } => {
                let content = self.contents.get(&digest);
                match content.filter(|content| content.len() as u64 == u64::from(bytes)) {
                    Some(content) => Ok(Cow::Owned(content.to_vec())),
                    None => {
                        let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                        Err(RelayError::Content(digits))
                    }
                }
            }
        }
    }

    fn begin(self: &Arc<Self>, memory: &ProgramMemory) -> Result<(), RelayError> {
        if self.body.get().is_some() {
            return Err(RelayError::Unexpected("a second description of the memory"));
        }
        if memory.staging_bytes > self.limits.staging_bytes {
            return Err(RelayError::Limit {
                what: "the size of the staging area",
                value: memory.staging_bytes,
                limit: self.limits.staging_bytes,
            });
        }
        let region = Arc::new(Region::create(RegionLayout {
            request_bytes: memory.request_bytes,
            answer_bytes: memory.answer_bytes,
            staging_bytes: memory.staging_bytes,
        })?);
        let window = WindowFile::create(memory.window_address, memory.window_bytes)?;
        let functions = Arc::new(Region::create(RegionLayout::HOST_FUNCTIONS)?);
        let worker = self.peer.socket();
        pass_region(worker, PROGRAM_GREETING, &region)?;
        window.pass(worker)?;
        pass_region(worker, PROGRAM_GREETING, &functions)?;
        let (requests, answers) = region.client_ends()?;
        let (finished, calls) = functions.client_ends()?;
        let wakers = [answers.waker(), calls.waker()];
        let window = HostWindow::attach(window)?;
        let shared = Arc::new(SharedMemory { region, window });
        let body = Body {
            link: Link::new(
                Arc::clone(&self.sender),
                Arc::clone(&shared),
                KnownContents::new(&[], false),
            ),
            memory: shared,
            state: Mutex::new(State {
                host: HostMemory::new(memory.window_address, memory.window_bytes),
                exposed: ExposedMemory::default(),
                pending: PendingCopies::default(),
                answered: HashMap::new(),
            }),
            requests: Mutex::new(requests),
            finished: Mutex::new(finished),
            arrived_bytes: AtomicU64::new(0),
        };
        if self.body.set(body).is_err() {
            return Err(RelayError::Unexpected("a second description of the memory"));
        }
        self.spawn("kinescope-end", move |end, _| {
            wake_readers_at_end(end.peer.socket(), &wakers);
            Ok(())
        })?;
        self.spawn("kinescope-answers", move |end, body| end.send_answers(body, answers))?;
        self.spawn("kinescope-calls", move |end, body| end.send_host_calls(body, calls))?;
        if !self.output.is_open() {
            return Ok(());
        }
        self.spawn("kinescope-output", |end, body| end.send_output(body))
    }

    fn take_data(&self, area: Area, offset: u64, bytes: &[u8]) -> Result<(), RelayError> {
        let body = self.body()?;
        body.memory.write(area, offset, bytes)?;
        if area == Area::Window {
            lock(&body.state).exposed.note(offset, bytes);
            let size = bytes.len() as u64;
            if body.arrived_bytes.fetch_add(size, Ordering::Relaxed) + size > MEASURE_BYTES {
                body.arrived_bytes.store(0, Ordering::Relaxed);
                self.check_host_bytes(body, 0)?;
            }
        }
        Ok(())
    }

    fn check_host_bytes(&self, body: &Body, more: u64) -> Result<(), RelayError> {
        let value = body.memory.window.file().used_bytes()?.saturating_add(more);
        match value > self.limits.host_bytes {
            true => Err(RelayError::Limit {
                what: "the size of the program's host memory",
                value,
                limit: self.limits.host_bytes,
            }),
            false => Ok(()),
        }
    }

    /// Takes bytes of memory that kernels use from now on. Copies on their way to it win.
    fn take_exposed(&self, offset: u64, bytes: &[u8]) -> Result<(), RelayError> {
        let body = self.body()?;
        let mut state = lock(&body.state);
        let State {
            host, exposed, pending, ..
        } = &mut *state;
        let first = host
            .allocation_of(offset)
            .ok_or(RelayError::Unexpected("mapped memory that was not allocated"))?;
        let (size, _) = host.allocation(first).unwrap_or_default();
        if offset.saturating_add(bytes.len() as u64) > first.saturating_add(size) {
            return Err(RelayError::Unexpected("mapped memory behind its allocation"));
        }
        exposed.add(first, size)?;
        exposed.note(offset, bytes);
        pending.outside(offset, bytes.len() as u64, |at, size| {
            let part = bytes.get(at as usize..(at + size) as usize).unwrap_or_default();
            Ok(body.memory.window.write(offset + at, part)?)
        })
    }

    fn take_request(&self, message: &[u8]) -> Result<(), RelayError> {
        let body = self.body()?;
        let header = RequestHeader::read(&mut Decoder::new(message))?;
        let arguments = message.get(REQUEST_HEADER_BYTES..).unwrap_or_default();
        let mut state = lock(&body.state);
        let ranges = RequestRanges::of(&mut state.host, &header, arguments)?;
        if let Some((offset, bytes)) = ranges.allocates {
            let allowed = self.check_host_bytes(body, bytes);
            if allowed.is_err() || body.memory.window.commit(offset, bytes).is_err() {
                state.host.free(offset);
                drop(state);
                return self.refuse(body, &header);
            }
        }
        for range in &ranges.writes {
            body.memory.check(range.area, range.offset, range.bytes)?;
        }
        for first in &ranges.exposes {
            if let Some((bytes, _)) = state.host.allocation(*first) {
                state.exposed.add(*first, bytes)?;
            }
        }
        if let Some((offset, _)) = ranges.frees {
            state.exposed.remove(offset);
        }
        let mut before = BeforeAnswer {
            writes: Vec::new(),
            frees: ranges.frees,
            allocates: ranges.allocates,
            is_wait: is_wait(header.call),
        };
        match ranges.is_asynchronous {
            true => {
                if !state.pending.add(header.sequence, ranges.writes) {
                    return Err(RelayError::Unexpected("another copy among so many unfinished ones"));
                }
            }
            false => before.writes = ranges.writes,
        }
        let is_kept =
            !before.writes.is_empty() || before.frees.is_some() || before.allocates.is_some() || before.is_wait;
        if header.flags.contains(RequestFlags::ANSWERED) && is_kept {
            state.answered.insert(header.sequence, before);
        }
        drop(state);
        Ok(lock(&body.requests).write(&[message], &self.peer)?)
    }

    /// Answers an allocation that exceeds a limit, in the worker's place.
    fn refuse(&self, body: &Body, header: &RequestHeader) -> Result<(), RelayError> {
        let mut answer = Encoder::default();
        AnswerHeader {
            sequence: header.sequence,
            result: OUT_OF_MEMORY,
            ..AnswerHeader::default()
        }
        .write(&mut answer);
        let mut writer = body.link.writer();
        writer.message(answer.as_bytes())?;
        writer.flush()
    }

    fn send_answers(&self, body: &Body, mut answers: MessageReader) -> Result<(), RelayError> {
        let mut message = Vec::new();
        loop {
            answers.read(&mut message, Wait::Forever, &self.peer)?;
            let mut writer = body.link.writer();
            let mut count = 0;
            loop {
                self.send_answer(body, &mut writer, &message)?;
                count += 1;
                if count == BATCH || !answers.read(&mut message, Wait::No, &self.peer)? {
                    break;
                }
            }
            writer.flush()?;
        }
    }

    fn send_answer(&self, body: &Body, writer: &mut LinkWriter<'_>, message: &[u8]) -> Result<(), RelayError> {
        let header = AnswerHeader::read(&mut Decoder::new(message))?;
        let mut state = lock(&body.state);
        let mut ranges = Vec::new();
        let mut is_answered_wait = false;
        if header.sequence == 0 {
            let rest = message.get(ANSWER_HEADER_BYTES..).unwrap_or_default();
            for request in CompletedCopies::read(&mut Decoder::new(rest))?.requests {
                let completed = state.pending.complete(request);
                ranges.extend(completed.iter().filter(|range| is_sent_whole(&state, range)));
            }
        } else if let Some(before) = state.answered.remove(&header.sequence) {
            is_answered_wait = true;
            if header.result == 0 {
                ranges.extend(before.writes.iter().filter(|range| is_sent_whole(&state, range)));
                if let Some((offset, bytes)) = before.frees {
                    body.memory.window.release(offset, bytes)?;
                }
            } else if let Some((offset, bytes)) = before.allocates {
                state.host.free(offset);
                state.exposed.remove(offset);
                body.memory.window.release(offset, bytes)?;
            }
            if before.is_wait || !before.writes.is_empty() {
                add_changes(body, &mut state, writer)?;
            }
        }
        drop(state);
        for range in ranges {
            writer.range(range)?;
        }
        if is_answered_wait {
            self.add_output(writer);
        }
        match header.sequence {
            0 => Ok(()),
            _ => writer.message(message),
        }
    }

    /// Sends calls of host functions, after everything that can be in the program's memory then.
    fn send_host_calls(&self, body: &Body, mut calls: MessageReader) -> Result<(), RelayError> {
        let mut message = Vec::new();
        loop {
            calls.read(&mut message, Wait::Forever, &self.peer)?;
            let mut writer = body.link.writer();
            let mut state = lock(&body.state);
            // Which copies are complete is not known inside of a host function. Those that are not are sent again.
            let mut ranges = state.pending.ranges();
            ranges.retain(|range| is_sent_whole(&state, range));
            add_changes(body, &mut state, &mut writer)?;
            drop(state);
            for range in ranges {
                writer.range(range)?;
            }
            writer.host_function(&message);
            writer.flush()?;
        }
    }
}

/// Returns whether a range that the device wrote is sent whole. Changes of exposed memory are sent word by word.
fn is_sent_whole(state: &State, range: &SharedRange) -> bool {
    range.area == Area::Staging || !state.host.is_exposed(range.offset)
}

fn add_changes(body: &Body, state: &mut State, writer: &mut LinkWriter<'_>) -> Result<(), RelayError> {
    if state.exposed.is_empty() {
        return Ok(());
    }
    state.exposed.send_changes(&body.memory.window, |offset, bytes| {
        writer.add(&Record::Data {
            area: Area::Window,
            offset,
            content: Content::Plain(bytes),
        });
        Ok(())
    })
}

impl std::fmt::Debug for WorkerEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerEnd").finish_non_exhaustive()
    }
}
