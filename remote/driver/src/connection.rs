//! The connection to the worker process: shared memory, and the socket that it came over.
//!
//! All threads of the program write requests to one ring, in the order of their calls. Answers come in another ring. A
//! thread that waits reads that ring, and hands over answers of others.

use crate::answer::Answer;
use crate::errors::{DEVICE_UNAVAILABLE, NO_DEVICE, NOT_PERMITTED};
use crate::message::say;
use crate::staging::{StagingAreas, StagingUse};
use crate::{CallResult, lock, thread_state};
use cuda_driver::{CuResult, INVALID_VALUE, NOT_INITIALIZED};
use remote_calls::message::{BeginSession, Snapshot};
use remote_calls::{AnswerHeader, CallId, Decoder, Encoder, RequestFlags, RequestHeader, TABLE_DIGEST};
use remote_ring::{
    HostWindow, MessageReader, MessageWriter, PROGRAM_GREETING, Region, RegionLayout, RingError, SocketPeer,
    StagingRange, Wait, has_spare_processors, pass_region,
};
use std::collections::HashMap;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once, OnceLock};
use std::time::Duration;

/// Environment variable with the path of the socket that leads to the device. `kinescope run` sets it.
const SOCKET_VARIABLE: &str = "KINESCOPE_REMOTE";
/// Environment variable: `yes` makes each call wait for its result.
const WAIT_VARIABLE: &str = "KINESCOPE_REMOTE_WAIT";
/// How long a wait for an answer spins before it sleeps, on a machine with processors to spare. The driver itself spins
/// without an end there; a sleep and its wake-up take as long as a copy of 2 MiB.
const ANSWER_SPIN: Duration = Duration::from_millis(10);
/// Results after which a context answers every call with the same result.
const STICKY: [CuResult; 11] = [214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721];

/// Message writer, with what belongs to the order of requests.
struct RequestQueue {
    ring: MessageWriter,
    next_sequence: u64,
}

/// The connection.
pub struct Connection {
    requests: Mutex<RequestQueue>,
    answers: Mutex<MessageReader>,
    /// Answers that another thread has read.
    arrived: Mutex<HashMap<u64, Vec<u8>>>,
    arrival: Condvar,
    staging: StagingAreas,
    /// Ranges with lower tickets are free at the worker.
    released: AtomicU64,
    region: Arc<Region>,
    window: HostWindow,
    /// Ends of the region for host functions, until a thread serves them.
    host_functions: Mutex<Option<(MessageWriter, MessageReader)>>,
    peer: SocketPeer<UnixStream>,
    snapshot: OnceLock<Snapshot>,
    waits_for_each: bool,
    /// The worker is gone.
    is_lost: AtomicBool,
    /// Error that every call answers, or 0.
    sticky: AtomicU32,
    /// Error of a call without an answer that no call has reported yet, or 0.
    deferred: AtomicU32,
}

static CONNECTION: OnceLock<Connection> = OnceLock::new();
static BEGINNING: Mutex<()> = Mutex::new(());
/// This process was forked from the one with the connection. Its calls answer `NOT_INITIALIZED`, as a driver's would.
static IS_CHILD: AtomicBool = AtomicBool::new(false);
static WATCH_FORKS: Once = Once::new();

/// Descriptor of the socket, or -1: a child closes its copy, so that the worker sees the end of this process.
static SOCKET: AtomicI32 = AtomicI32::new(-1);

extern "C" fn mark_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
    let socket = SOCKET.swap(-1, Ordering::Relaxed);
    if socket >= 0 {
        // SAFETY: the descriptor is the connection's. The child never uses the connection, and closing is allowed in a
        // process that was just forked.
        unsafe { libc::close(socket) };
    }
}

/// Returns the connection.
///
/// # Errors
/// `NOT_INITIALIZED` before `cuInit` and in a forked child, `NOT_PERMITTED` inside a host function.
pub fn current() -> CallResult<&'static Connection> {
    if IS_CHILD.load(Ordering::Relaxed) {
        return Err(NOT_INITIALIZED);
    }
    if thread_state::is_in_host_function() {
        return Err(NOT_PERMITTED);
    }
    CONNECTION.get().ok_or(NOT_INITIALIZED)
}

/// Connects to the worker, once for the process.
///
/// # Errors
/// `NO_DEVICE` if there is no worker. A message on the standard error stream says why.
pub fn begin() -> CallResult<&'static Connection> {
    if IS_CHILD.load(Ordering::Relaxed) {
        return Err(NOT_INITIALIZED);
    }
    let _one = lock(&BEGINNING);
    if let Some(connection) = CONNECTION.get() {
        return Ok(connection);
    }
    let connection = match Connection::open() {
        Ok(connection) => connection,
        Err(why) => {
            say(format_args!("no CUDA device: {why}"));
            return Err(NO_DEVICE);
        }
    };
    WATCH_FORKS.call_once(|| {
        // SAFETY: the handler only stores a flag.
        unsafe { libc::pthread_atfork(None, None, Some(mark_child)) };
    });
    SOCKET.store(connection.peer.socket().as_raw_fd(), Ordering::Relaxed);
    let connection = CONNECTION.get_or_init(|| connection);
    connection.begin_session()?;
    Ok(connection)
}

impl Connection {
    fn open() -> Result<Self, String> {
        let Some(path) = std::env::var_os(SOCKET_VARIABLE).filter(|v| !v.is_empty()) else {
            return Err(format!(
                "{SOCKET_VARIABLE} is not set. Start the program with 'kinescope run --on TARGET -- PROGRAM'"
            ));
        };
        let path = PathBuf::from(path);
        let socket = UnixStream::connect(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let ring = |e: RingError| format!("{}: {e}", path.display());
        let region = Arc::new(Region::create(RegionLayout::default()).map_err(ring)?);
        pass_region(&socket, PROGRAM_GREETING, &region).map_err(ring)?;
        let window = HostWindow::create().map_err(ring)?;
        window.pass(&socket).map_err(ring)?;
        let host_functions = Arc::new(Region::create(RegionLayout::HOST_FUNCTIONS).map_err(ring)?);
        pass_region(&socket, PROGRAM_GREETING, &host_functions).map_err(ring)?;
        let host_function_ends = host_functions.client_ends().map_err(ring)?;
        let (writer, mut reader) = region.client_ends().map_err(ring)?;
        if has_spare_processors() {
            reader.set_spin(ANSWER_SPIN);
        }
        Ok(Self {
            requests: Mutex::new(RequestQueue {
                ring: writer,
                next_sequence: 1,
            }),
            answers: Mutex::new(reader),
            arrived: Mutex::default(),
            arrival: Condvar::new(),
            staging: StagingAreas::new(region.staging_bytes()),
            released: AtomicU64::new(0),
            region,
            window,
            host_functions: Mutex::new(Some(host_function_ends)),
            peer: SocketPeer::new(socket),
            snapshot: OnceLock::new(),
            waits_for_each: std::env::var_os(WAIT_VARIABLE).is_some_and(|v| v == "yes"),
            is_lost: AtomicBool::new(false),
            sticky: AtomicU32::new(0),
            deferred: AtomicU32::new(0),
        })
    }

    fn begin_session(&'static self) -> CallResult {
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(|p| p.file_name()).unwrap_or_default();
        let mut encoder = Encoder::default();
        BeginSession {
            table: TABLE_DIGEST,
            program: &program.to_string_lossy(),
            process: std::process::id(),
        }
        .write(&mut encoder);
        let sequence = self.send(CallId::begin_session, RequestFlags::ANSWERED, encoder.as_bytes())?;
        let answer = self.wait(sequence)?;
        let snapshot = Snapshot::read(&mut answer.decoder()).map_err(|e| self.fail(&e.to_string()))?;
        if !snapshot.is_relayed {
            self.staging.stay_in_caches();
        }
        // Only one thread begins a session.
        let _ = self.snapshot.set(snapshot);
        Ok(())
    }

    /// Returns what is constant of the worker's devices.
    ///
    /// # Errors
    /// `NOT_INITIALIZED` before the session has begun.
    pub fn snapshot(&self) -> CallResult<&Snapshot> {
        self.snapshot.get().ok_or(NOT_INITIALIZED)
    }

    /// Returns whether each call waits for its result.
    pub const fn waits_for_each(&self) -> bool {
        self.waits_for_each
    }

    /// Returns the error that every call answers, if there is one.
    ///
    /// # Errors
    /// That error.
    pub fn check_health(&self) -> CallResult {
        match self.sticky.load(Ordering::Relaxed) {
            0 => Ok(()),
            result => Err(result),
        }
    }

    /// Forgets the error that every call answers: the context that had it is gone.
    pub fn forget_sticky_error(&self) {
        self.sticky.store(0, Ordering::Relaxed);
    }

    /// Sends a request. Returns its sequence number.
    ///
    /// # Errors
    /// `DEVICE_UNAVAILABLE` if the worker is gone, `INVALID_VALUE` for arguments that no message can hold.
    pub fn send(&self, call: CallId, flags: RequestFlags, arguments: &[u8]) -> CallResult<u64> {
        if self.is_lost.load(Ordering::Relaxed) {
            return Err(DEVICE_UNAVAILABLE);
        }
        let (thread, context) = (thread_state::number(), thread_state::current_context());
        let mut queue = lock(&self.requests);
        let sequence = queue.next_sequence;
        let header = RequestHeader {
            call,
            flags,
            thread,
            sequence,
            context,
        };
        let header = header.to_bytes();
        match queue.ring.write(&[&header, arguments], &self.peer) {
            Ok(()) => {
                queue.next_sequence += 1;
                Ok(sequence)
            }
            Err(RingError::MessageTooLong { .. }) => Err(INVALID_VALUE),
            Err(e) => Err(self.fail(&e.to_string())),
        }
    }

    /// Waits for the answer to a request.
    ///
    /// # Errors
    /// The result of the call, if it is not success.
    pub fn wait(&self, sequence: u64) -> CallResult<Answer> {
        let message = self.receive(sequence)?;
        let header = AnswerHeader::read(&mut Decoder::new(&message)).map_err(|e| self.fail(&e.to_string()))?;
        self.released.fetch_max(header.released, Ordering::Relaxed);
        for result in [header.deferred, header.result] {
            if STICKY.contains(&result) {
                self.sticky.store(result, Ordering::Relaxed);
            }
        }
        if header.deferred != 0 {
            // Only the first one is reported.
            let _ = self
                .deferred
                .compare_exchange(0, header.deferred, Ordering::Relaxed, Ordering::Relaxed);
        }
        match header.result {
            0 => Ok(Answer::new(message)),
            result => Err(result),
        }
    }

    /// Returns the error of a call without an answer, once.
    ///
    /// # Errors
    /// That error.
    pub fn take_deferred(&self) -> CallResult {
        match self.deferred.swap(0, Ordering::Relaxed) {
            0 => Ok(()),
            result => Err(result),
        }
    }

    fn receive(&self, sequence: u64) -> CallResult<Vec<u8>> {
        let mut arrived = lock(&self.arrived);
        loop {
            if let Some(message) = arrived.remove(&sequence) {
                return Ok(message);
            }
            if self.is_lost.load(Ordering::Relaxed) {
                return Err(DEVICE_UNAVAILABLE);
            }
            // The lock of the arrived answers is held until this thread waits: the reading thread takes it before it
            // notifies, so that no notification is lost.
            let Ok(mut reader) = self.answers.try_lock() else {
                arrived = self
                    .arrival
                    .wait(arrived)
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                continue;
            };
            drop(arrived);
            let mut message = Vec::new();
            let received = reader.read(&mut message, Wait::Forever, &self.peer);
            // The answer is among the arrived ones before another thread can read: that thread looks there first. Nobody
            // waits for the reader with this lock.
            arrived = lock(&self.arrived);
            drop(reader);
            if let Err(e) = received {
                self.fail(&e.to_string());
                continue;
            }
            match AnswerHeader::read(&mut Decoder::new(&message)) {
                Ok(header) if header.sequence == sequence => {
                    self.arrival.notify_all();
                    return Ok(message);
                }
                Ok(header) => {
                    arrived.insert(header.sequence, message);
                    self.arrival.notify_all();
                }
                Err(e) => {
                    self.fail(&e.to_string());
                }
            }
        }
    }

    /// Ends the use of the connection. Returns the result of all further calls.
    fn fail(&self, why: &str) -> CuResult {
        if !self.is_lost.swap(true, Ordering::Relaxed) {
            let reason = self.peer.take_reason();
            let why = reason.as_deref().unwrap_or(why);
            say(format_args!("the connection to the CUDA device is lost: {why}"));
        }
        self.arrival.notify_all();
        DEVICE_UNAVAILABLE
    }

    /// Returns a staging range for at most `bytes` bytes: the whole, or a part that fits. It waits for earlier copies
    /// while the area is full.
    ///
    /// # Errors
    /// If the worker is gone.
    pub fn allocate_staging(&self, purpose: StagingUse, bytes: u64) -> CallResult<StagingRange> {
        self.check_health()?;
        let part = self.staging.part_bytes(bytes);
        if purpose == StagingUse::ToHost {
            return Ok(self.staging.allocate_to_host(part));
        }
        loop {
            let oldest = match self
                .staging
                .allocate_to_device(part, self.released.load(Ordering::Relaxed))
            {
                Ok(range) => return Ok(range),
                Err(oldest) => oldest.ok_or(INVALID_VALUE)?,
            };
            let mut encoder = Encoder::default();
            encoder.write(oldest);
            let flags = RequestFlags::ANSWERED.with(RequestFlags::BLOCKING);
            let sequence = self.send(CallId::drain_staging, flags, encoder.as_bytes())?;
            self.wait(sequence)?;
        }
    }

    /// Returns a staging range of a copy to the host for at most `bytes` bytes, if there is room for it.
    ///
    /// # Errors
    /// If an earlier error stays.
    pub fn try_allocate_staging_to_host(&self, bytes: u64) -> CallResult<Option<StagingRange>> {
        self.check_health()?;
        Ok(self.staging.try_allocate_to_host(self.staging.part_bytes(bytes)))
    }

    /// Gives back a range to the device that no copy uses.
    pub fn skip_staging(&self, range: StagingRange) {
        let mut encoder = Encoder::default();
        encoder.write(range.ticket);
        // Without a worker, nothing uses the area any more.
        let _ = self.send(CallId::release_staging, RequestFlags::default(), encoder.as_bytes());
    }

    /// Frees a range to the host.
    pub fn release_staging(&self, range: StagingRange) {
        self.staging.release_to_host(range);
    }

    /// Returns the socket that shows whether the worker lives.
    pub const fn peer(&self) -> &SocketPeer<UnixStream> {
        &self.peer
    }

    /// Returns the ends of the region for host functions, once.
    pub fn take_host_function_ends(&self) -> Option<(MessageWriter, MessageReader)> {
        lock(&self.host_functions).take()
    }

    /// Returns the host memory that the worker maps too.
    pub const fn window(&self) -> &HostWindow {
        &self.window
    }

    /// Returns the shared memory.
    pub fn region(&self) -> &Region {
        &self.region
    }
}
