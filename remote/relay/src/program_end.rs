//! The program's end of a relay: it stands where a worker would be, and sends the program's requests and memory.

use crate::arrivals::Arrivals;
use crate::error::RelayError;
use crate::exposed_memory::ExposedMemory;
use crate::frame_sender::FrameSender;
use crate::host_memory::HostMemory;
use crate::known_contents::KnownContents;
use crate::link::{Link, LinkWriter, MIN_LANE_BYTES};
use crate::lock;
use crate::record::{Area, Content, ProgramMemory, Record, read_records};
use crate::request_ranges::{RequestRanges, SharedRange};
use crate::shared_memory::SharedMemory;
use remote_calls::{CallId, Decoder, REQUEST_HEADER_BYTES, RequestHeader};
use remote_ring::{
    HostWindow, MessageReader, MessageWriter, PROGRAM_GREETING, Region, RingError, SocketPeer, Wait, WindowFile,
    receive_region, wake_readers_at_end,
};
use std::io::Write as _;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of requests of one frame.
const BATCH: usize = 256;
/// Maximum number of reads that are repeated after a host function.
const MAX_LATE_READS: usize = 4096;
/// Size of the parts in which exposed memory is sent first, bytes.
const PART_BYTES: u64 = 256 << 10;

/// What the end knows of the program's memory.
struct State {
    host: HostMemory,
    exposed: ExposedMemory,
    /// Host functions that were launched and have not ended.
    host_functions: u64,
    /// Reads of the window after a host function was launched: it can change their bytes.
    late_reads: Vec<SharedRange>,
}

/// The end of a relay that a program is connected to.
pub struct ProgramEnd {
    link: Link,
    memory: Arc<SharedMemory>,
    state: Mutex<State>,
    answers: Mutex<MessageWriter>,
    /// Calls of host functions, for the thread that passes them to the program: it can be slow.
    host_calls: Mutex<Option<Sender<Vec<u8>>>>,
    arrivals: Arrivals,
    peer: SocketPeer<UnixStream>,
    /// Set once: the reason, or `None` for the program's end.
    ended: Mutex<Option<Option<String>>>,
    end: Condvar,
    has_large_copies: AtomicBool,
}

fn receive(program: &UnixStream) -> Result<(Region, HostWindow, Region), RelayError> {
    let region = || {
        let (greeting, file) = receive_region(program)?;
        match greeting == PROGRAM_GREETING {
            true => Ok(Region::open(file)?),
            false => Err(RelayError::Greeting(
                String::from_utf8_lossy(&greeting).escape_default().to_string(),
            )),
        }
    };
    let first = region()?;
    let window = HostWindow::attach(WindowFile::receive(program)?)?;
    Ok((first, window, region()?))
}

impl ProgramEnd {
    /// Takes the program at the other end of a socket, and begins to send what it does. `digests` are those of contents
    /// that the worker's end has; `uses_contents` is `false` where hashing costs more than sending.
    ///
    /// # Errors
    /// If the program's memory cannot be taken, or the connection is lost.
    pub fn start(
        program: UnixStream,
        sender: Arc<dyn FrameSender>,
        digests: &[u8],
        uses_contents: bool,
    ) -> Result<Arc<Self>, RelayError> {
        let (region, window, functions) = receive(&program)?;
        let (region, functions) = (Arc::new(region), Arc::new(functions));
        let layout = region.layout();
        let begin = ProgramMemory {
            window_address: window.file().address(),
            window_bytes: window.bytes(),
            request_bytes: layout.request_bytes,
            answer_bytes: layout.answer_bytes,
            staging_bytes: layout.staging_bytes,
        };
        let (answers, requests) = region.worker_ends()?;
        let (calls, finished) = functions.worker_ends()?;
        let wakers = [requests.waker(), finished.waker()];
        let memory = Arc::new(SharedMemory { region, window });
        let (host_calls, arrived_calls) = channel();
        let end = Arc::new(Self {
            link: Link::new(sender, Arc::clone(&memory), KnownContents::new(digests, uses_contents)),
            state: Mutex::new(State {
                host: HostMemory::new(begin.window_address, begin.window_bytes),
                exposed: ExposedMemory::default(),
                host_functions: 0,
                late_reads: Vec::new(),
            }),
            memory,
            answers: Mutex::new(answers),
            host_calls: Mutex::new(Some(host_calls)),
            arrivals: Arrivals::default(),
            peer: SocketPeer::new(program),
            ended: Mutex::new(None),
            end: Condvar::new(),
            has_large_copies: AtomicBool::new(false),
        });
        let mut writer = end.link.writer();
        writer.add(&Record::Begin(begin));
        writer.flush()?;
        drop(writer);
        end.spawn("kinescope-requests", move |end| end.send_requests(requests))?;
        end.spawn("kinescope-functions", move |end| end.send_finished(finished))?;
        end.spawn("kinescope-end", move |end| {
            wake_readers_at_end(end.peer.socket(), &wakers);
            Ok(())
        })?;
        end.spawn("kinescope-calls", move |end| end.pass_host_calls(&arrived_calls, calls))?;
        Ok(end)
    }

    /// Starts a thread of the end. A failure of it ends the relay.
    fn spawn(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce(&Self) -> Result<(), RelayError> + Send + 'static,
    ) -> Result<(), RelayError> {
        let end = Arc::clone(self);
        let thread = std::thread::Builder::new().name(name.into());
        thread.spawn(move || match work(&end) {
            // The thread of the requests ends the relay after the program's last one.
            Ok(()) | Err(RelayError::Over | RelayError::Ring(RingError::PeerGone { .. })) => {}
            Err(e) => end.finish(Some(e.to_string())),
        })?;
        Ok(())
    }

    /// Adds a lane for large copies.
    ///
    /// # Errors
    /// If there are too many lanes, or no thread can be started.
    pub fn add_lane(self: &Arc<Self>, sender: Arc<dyn FrameSender>) -> Result<(), RelayError> {
        let end = Arc::clone(self);
        self.link.add_lane(sender, move |e| end.finish(Some(e.to_string())))
    }

    /// Takes a frame that arrived on the main connection (0) or on a lane.
    ///
    /// # Errors
    /// If the frame is invalid, or the program is gone.
    pub fn take_frame(&self, lane: u32, frame: &[u8]) -> Result<(), RelayError> {
        read_records(frame, |record| match record {
            Record::Data {
                area,
                offset,
                content: Content::Plain(bytes),
            } => {
                self.memory.write(area, offset, bytes)?;
                if area == Area::Window {
                    lock(&self.state).exposed.note(offset, bytes);
                }
                if lane > 0 {
                    self.arrivals.note(lane)?;
                }
                Ok(())
            }
            Record::Fence(counts) if lane == 0 => self.arrivals.wait_for(&counts),
            Record::Message(message) if lane == 0 => self.answer(&[message]),
            Record::LongMessage {
                head,
                tail: Content::Plain(tail),
            } if lane == 0 => self.answer(&[head, tail]),
            Record::Output(bytes) if lane == 0 => {
                let mut output = std::io::stdout().lock();
                // A reader that closed its end wants no output; the program itself learns of it.
                let _ = output.write_all(bytes).and_then(|()| output.flush());
                Ok(())
            }
            Record::HostFunction(call) if lane == 0 => {
                // Without a receiver, the relay is ending.
                let _ = lock(&self.host_calls).as_ref().map(|to| to.send(call.to_vec()));
                Ok(())
            }
            _ => Err(RelayError::Unexpected("a record of the worker's end")),
        })
    }

    fn answer(&self, parts: &[&[u8]]) -> Result<(), RelayError> {
        match lock(&self.answers).write(parts, &self.peer) {
            // Nobody waits for the answer any more.
            Ok(()) | Err(RingError::PeerGone { .. }) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Ends the relay. The program's calls fail from now on.
    pub fn finish(&self, reason: Option<String>) {
        let mut ended = lock(&self.ended);
        if ended.is_some() {
            return;
        }
        if let Some(reason) = &reason {
            self.peer.send_reason(reason);
        }
        *ended = Some(reason);
        drop(ended);
        self.end.notify_all();
        self.arrivals.end();
        self.link.end_lanes();
        lock(&self.host_calls).take();
        // The program can be gone.
        let _ = self.peer.socket().shutdown(Shutdown::Both);
    }

    /// Returns whether the relay has ended.
    pub fn has_ended(&self) -> bool {
        lock(&self.ended).is_some()
    }

    /// Waits until the relay has ended, at most until `limit`. Returns the reason if it was not the program's end, and
    /// `None` for a relay that goes on.
    #[must_use]
    pub fn wait(&self, limit: Option<Instant>) -> Option<Option<String>> {
        let mut ended = lock(&self.ended);
        loop {
            if let Some(reason) = &*ended {
                return Some(reason.clone());
            }
            let left = limit.map_or(Duration::from_secs(1), |limit| {
                limit.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return None;
            }
            let waited = self.end.wait_timeout(ended, left);
            ended = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn note_large_copy(&self) {
        if !self.has_large_copies.swap(true, Ordering::Relaxed) {
            // Who waits looks at the flag with the lock.
            drop(lock(&self.ended));
            self.end.notify_all();
        }
    }

    /// Waits until the program makes a copy that lanes are worth for. Returns `false` if the relay ends before.
    #[must_use]
    pub fn wait_for_large_copy(&self) -> bool {
        let mut ended = lock(&self.ended);
        loop {
            if ended.is_some() {
                return false;
            }
            if self.has_large_copies.load(Ordering::Relaxed) {
                return true;
            }
            ended = self.end.wait(ended).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Sends requests until the program has ended, and then ends the relay.
    fn send_requests(&self, requests: MessageReader) -> Result<(), RelayError> {
        match self.send_each_request(requests) {
            Err(RelayError::Ring(RingError::PeerGone { .. })) => {
                self.finish(None);
                Ok(())
            }
            ended => ended,
        }
    }

    fn send_each_request(&self, mut requests: MessageReader) -> Result<(), RelayError> {
        let mut message = Vec::new();
        loop {
            requests.read(&mut message, Wait::Forever, &self.peer)?;
            let mut writer = self.link.writer();
            let mut count = 0;
            loop {
                self.send_request(&mut writer, &message)?;
                count += 1;
                if count == BATCH || !requests.read(&mut message, Wait::No, &self.peer)? {
                    break;
                }
            }
            writer.flush()?;
        }
    }

    fn send_request(&self, writer: &mut LinkWriter<'_>, message: &[u8]) -> Result<(), RelayError> {
        let header = RequestHeader::read(&mut Decoder::new(message))?;
        let arguments = message.get(REQUEST_HEADER_BYTES..).unwrap_or_default();
        let mut state = lock(&self.state);
        let ranges = RequestRanges::of(&mut state.host, &header, arguments)?;
        if let Some((offset, _)) = ranges.frees {
            state.exposed.remove(offset);
        }
        for offset in &ranges.exposes {
            self.add_exposed(&mut state, writer, *offset)?;
        }
        let reads_window = ranges.reads.iter().any(|range| range.area == Area::Window);
        if ranges.reads_exposed || reads_window {
            self.add_changes(&mut state, writer)?;
        }
        let mut reads = Vec::new();
        for range in &ranges.reads {
            if range.area == Area::Window && state.host.is_exposed(range.offset) {
                continue;
            }
            reads.push(*range);
            if range.area == Area::Window && state.host_functions > 0 && state.late_reads.len() < MAX_LATE_READS {
                state.late_reads.push(*range);
            }
        }
        if header.call == CallId::launch_host_function && !state.host.is_capturing() {
            state.host_functions += 1;
        }
        drop(state);
        if reads
            .iter()
            .chain(&ranges.writes)
            .any(|range| range.bytes >= MIN_LANE_BYTES)
        {
            self.note_large_copy();
        }
        for range in reads {
            writer.range(range)?;
        }
        writer.message(message)
    }

    /// Adds all of an allocation that kernels use from now on.
    fn add_exposed(&self, state: &mut State, writer: &mut LinkWriter<'_>, first: u64) -> Result<(), RelayError> {
        let Some((bytes, is_transferred)) = state.host.allocation(first) else {
            return Ok(());
        };
        state.exposed.add(first, bytes)?;
        let mut buffer = Vec::new();
        let mut done = 0;
        while done < bytes {
            let size = (bytes - done).min(PART_BYTES);
            buffer.resize(size as usize, 0);
            self.memory.window.read(first + done, &mut buffer)?;
            // The other end has zeros, unless a copy put something there.
            if is_transferred || buffer.iter().any(|byte| *byte != 0) {
                writer.add(&Record::Exposed {
                    offset: first + done,
                    bytes: &buffer,
                });
                state.exposed.note(first + done, &buffer);
            }
            done += size;
        }
        Ok(())
    }

    fn add_changes(&self, state: &mut State, writer: &mut LinkWriter<'_>) -> Result<(), RelayError> {
        if state.exposed.is_empty() {
            return Ok(());
        }
        state.exposed.send_changes(&self.memory.window, |offset, bytes| {
            writer.add(&Record::Data {
                area: Area::Window,
                offset,
                content: Content::Plain(bytes),
            });
            Ok(())
        })
    }

    /// Sends the ends of host functions, after what they wrote.
    fn send_finished(&self, mut finished: MessageReader) -> Result<(), RelayError> {
        let mut message = Vec::new();
        loop {
            finished.read(&mut message, Wait::Forever, &self.peer)?;
            let mut writer = self.link.writer();
            let mut state = lock(&self.state);
            self.add_changes(&mut state, &mut writer)?;
            state.host_functions = state.host_functions.saturating_sub(1);
            let reads = match state.host_functions {
                0 => std::mem::take(&mut state.late_reads),
                _ => state.late_reads.clone(),
            };
            drop(state);
            for range in reads {
                writer.range(range)?;
            }
            writer.host_function(&message);
            writer.flush()?;
        }
    }

    fn pass_host_calls(&self, arrived: &Receiver<Vec<u8>>, mut calls: MessageWriter) -> Result<(), RelayError> {
        for call in arrived {
            calls.write(&[&call], &self.peer)?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for ProgramEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramEnd").finish_non_exhaustive()
    }
}
