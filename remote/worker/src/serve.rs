//! Serving of a program: threads that take its requests, and the end of the session.

use crate::call_error::CallError;
use crate::confinement::{confine_from_environment, separate_from_environment};
use crate::device_budget::DEVICE_MEMORY_VARIABLE;
use crate::dispatch::play;
use crate::host_copies::RELAY_VARIABLE;
use crate::host_function_lane::HostFunctionLane;
use crate::lock;
use crate::parent_watch::watch_parent;
use crate::printed_output::flush_output;
use crate::report::WorkerReport;
use crate::session::{Scope, Session};
use cuda_driver::{CuResult, Driver, LoadError, OUT_OF_MEMORY};
use remote_calls::message::{CompletedCopies, MAX_COMPLETED};
use remote_calls::{
    ANSWER_HEADER_BYTES, AnswerHeader, Decoder, Encoder, MessageError, Policy, REQUEST_HEADER_BYTES, RequestFlags,
    RequestHeader,
};
use remote_ring::{
    HostWindow, MessageReader, MessageWriter, PROGRAM_GREETING, Peer, Region, RingError, SocketPeer, Wait,
    has_spare_processors, receive_region, wake_readers_at_end,
};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long a thread looks for the next request before it sleeps, on a machine with processors to spare: longer than
/// copies of some mebibytes take, after which a wake-up would show.
const REQUEST_SPIN: Duration = Duration::from_millis(2);
/// Maximum number of threads of a worker: one for each thread of the program that waits, and one for the rest.
const MAX_THREADS: usize = 256;

/// Reasons why a session ended before its program did.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The shared memory failed.
    #[error("{0}")]
    Ring(#[from] RingError),
    /// The client is no program with this version of the library.
    #[error("the client greets with '{}' (expected '{}'): its libcuda.so.1 is of another version", text(.0), text(PROGRAM_GREETING))]
    Greeting(Vec<u8>),
    /// A message is invalid.
    #[error("request {sequence}: {why}")]
    Message {
        /// Number of the request, or 0 if its header is invalid.
        sequence: u64,
        /// What is wrong with it.
        why: MessageError,
    },
    /// A thread could not be started.
    #[error("a thread of the worker could not be started: {0}")]
    Thread(std::io::Error),
    /// There is no driver.
    #[error("{0}")]
    Driver(#[from] LoadError),
    /// The limit of device memory is no number.
    #[error("{DEVICE_MEMORY_VARIABLE}: '{0}' is no number of bytes")]
    Limit(String),
    /// The report could not be written.
    #[error("the report of the worker: {0}")]
    Report(std::io::Error),
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).escape_default().to_string()
}

/// The server of one program.
struct Server {
    session: Session,
    peer: Arc<SocketPeer<OwnedFd>>,
    requests: Mutex<MessageReader>,
    answers: Mutex<MessageWriter>,
    /// Number of threads that can take the next request.
    free_threads: AtomicUsize,
    threads: AtomicUsize,
    is_over: AtomicBool,
    /// Set once, when the session is over.
    end: Mutex<Option<Result<(), WorkerError>>>,
    ended: Condvar,
}

/// How a program is served.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServeOptions {
    /// Whether a relay stands between the program and the worker: it needs to know when copies to the window are
    /// complete.
    pub is_relayed: bool,
    /// Maximum device memory of the program, bytes, or `None` for no limit.
    pub device_bytes: Option<u64>,
}

impl ServeOptions {
    /// Returns the options that the environment of a worker process has.
    fn from_environment() -> Result<Self, WorkerError> {
        let device_bytes = match std::env::var(DEVICE_MEMORY_VARIABLE) {
            // A limit that cannot be read must not become none.
            Ok(text) => Some(text.parse().map_err(|_| WorkerError::Limit(text))?),
            Err(_) => None,
        };
        Ok(Self {
            is_relayed: std::env::var_os(RELAY_VARIABLE).is_some_and(|value| value == "yes"),
            device_bytes,
        })
    }
}

/// Serves the program at the other end of a socket until it ends.
///
/// # Errors
/// If the shared memory fails, or the program sends what no library of this version sends.
pub fn serve(socket: OwnedFd, driver: Driver, options: ServeOptions) -> Result<WorkerReport, WorkerError> {
    let (greeting, file) = receive_region(&socket)?;
    if greeting != PROGRAM_GREETING {
        return Err(WorkerError::Greeting(greeting));
    }
    let region = Arc::new(Region::open(file)?);
    let window = HostWindow::receive(&socket)?;
    let (greeting, file) = receive_region(&socket)?;
    if greeting != PROGRAM_GREETING {
        return Err(WorkerError::Greeting(greeting));
    }
    let host_functions = Arc::new(Region::open(file)?);
    let peer = Arc::new(SocketPeer::new(socket));
    let (calls, finished) = host_functions.worker_ends()?;
    let lane_waker = finished.waker();
    let lane = HostFunctionLane::new(calls, finished, Arc::clone(&peer) as Arc<dyn Peer + Send + Sync>);
    let (answers, mut requests) = region.worker_ends()?;
    if has_spare_processors() {
        requests.set_spin(REQUEST_SPIN);
    }
    let waker = requests.waker();
    let server = Arc::new(Server {
        session: Session::new(driver, region, window, lane, options.device_bytes),
        peer,
        requests: Mutex::new(requests),
        answers: Mutex::new(answers),
        free_threads: AtomicUsize::new(1),
        threads: AtomicUsize::new(1),
        is_over: AtomicBool::new(false),
        end: Mutex::new(None),
        ended: Condvar::new(),
    });
    if options.is_relayed {
        server.session.host_copies.serve_relay();
    }
    let (watched, wakers) = (Arc::clone(&server.peer), [waker, lane_waker]);
    let watch = move || wake_readers_at_end(watched.socket(), &wakers);
    let thread = std::thread::Builder::new().name("kinescope-end".into());
    thread.spawn(watch).map_err(WorkerError::Thread)?;
    let first = Arc::clone(&server);
    let thread = std::thread::Builder::new().name("kinescope-calls".into());
    thread.spawn(move || Server::run(&first)).map_err(WorkerError::Thread)?;
    // Threads may still wait for the device when the program ends. The process ends then, and they with it.
    let mut end = lock(&server.end);
    loop {
        match end.take() {
            Some(Ok(())) => break,
            Some(Err(error)) => return Err(error),
            None => end = server.ended.wait(end).unwrap_or_else(PoisonError::into_inner),
        }
    }
    drop(end);
    // The driver may still copy from or to shared memory: it stays mapped until the process ends.
    std::mem::forget(Arc::clone(&server));
    Ok(server.session.report())
}

/// Serves the program at the other end of the standard input, with the driver of this machine, until it ends. This is the
/// whole work of a worker process.
///
/// # Errors
/// As [`serve`]; also without a driver, and if the report cannot be written.
pub fn serve_standard_input() -> Result<(), WorkerError> {
    // Before any thread starts.
    separate_from_environment();
    let socket = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map_err(WorkerError::Thread)?;
    watch_parent().map_err(WorkerError::Thread)?;
    confine_from_environment();
    let report = serve(socket, Driver::load()?, ServeOptions::from_environment()?)?;
    report.write_to_environment().map_err(WorkerError::Report)
}

impl Server {
    /// Takes requests until the session is over.
    fn run(server: &Arc<Self>) {
        let mut message = Vec::new();
        let mut buffer = Vec::new();
        while !server.is_over.load(Ordering::Relaxed) {
            let mut requests = lock(&server.requests);
            if server.is_over.load(Ordering::Relaxed) {
                return;
            }
            match requests.read(&mut message, Wait::Forever, &*server.peer) {
                Ok(_) => {}
                Err(RingError::PeerGone { .. }) => {
                    server.end(None);
                    return;
                }
                Err(e) => {
                    server.end(Some(e.into()));
                    return;
                }
            }
            let mut decoder = Decoder::new(&message);
            let header = match RequestHeader::read(&mut decoder) {
                Ok(header) => header,
                Err(why) => {
                    server.end(Some(WorkerError::Message { sequence: 0, why }));
                    return;
                }
            };
            // A call that waits for the device must not hold up those of other threads. All others are played before the
            // next request is taken: the program's order is the driver's.
            let is_answered = header.flags.contains(RequestFlags::ANSWERED);
            server.session.counters.count(header.call, is_answered);
            server.session.counters.add_in(message.len() as u64);
            // The table decides as well: a client cannot have two calls on one object at a time.
            let can_wait = header.flags.contains(RequestFlags::BLOCKING) && header.call.policy() == Policy::Blocking;
            let others_continue = can_wait && Self::leave_to_others(server);
            let _held = (!others_continue).then_some(requests);
            let arguments = message.get(REQUEST_HEADER_BYTES..).unwrap_or_default();
            buffer = server.play(&header, arguments, buffer);
            if others_continue {
                server.free_threads.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Makes sure that another thread takes the next request. Returns `false` if there are too many threads.
    fn leave_to_others(server: &Arc<Self>) -> bool {
        // This thread is busy from now on.
        if server.free_threads.fetch_sub(1, Ordering::Relaxed) > 1 {
            return true;
        }
        if server.threads.load(Ordering::Relaxed) >= MAX_THREADS {
            server.free_threads.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        let other = Arc::clone(server);
        let name = format!("kinescope-calls-{}", server.threads.fetch_add(1, Ordering::Relaxed));
        server.free_threads.fetch_add(1, Ordering::Relaxed);
        match std::thread::Builder::new().name(name).spawn(move || Self::run(&other)) {
            Ok(_) => true,
            Err(e) => {
                server.end(Some(WorkerError::Thread(e)));
                false
            }
        }
    }

    /// Plays a request and sends its answer. Returns the buffer for the next answer.
    fn play(&self, header: &RequestHeader, arguments: &[u8], buffer: Vec<u8>) -> Vec<u8> {
        let scope = Scope {
            session: &self.session,
            thread: header.thread,
            context: header.context,
            sequence: header.sequence,
            is_answered: header.flags.contains(RequestFlags::ANSWERED),
        };
        let mut answer = Encoder::with_buffer(buffer);
        let played = play(header.call, &scope, &mut Decoder::new(arguments), &mut answer);
        let result = match played {
            Ok(()) => 0,
            Err(CallError::Result(result)) => result,
            Err(CallError::Message(why)) => {
                let sequence = header.sequence;
                self.end(Some(WorkerError::Message { sequence, why }));
                return answer.into_buffer();
            }
        };
        if !header.flags.contains(RequestFlags::ANSWERED) {
            if result != 0 {
                self.session.defer(result);
            }
            return answer.into_buffer();
        }
        let results = if result == 0 { answer.as_bytes() } else { &[] };
        let mut sent = self.answer(header, result, results);
        if matches!(sent, Err(RingError::MessageTooLong { .. })) {
            // Lists of very many functions or nodes. The program gets an error, and the session goes on.
            sent = self.answer(header, OUT_OF_MEMORY, &[]);
        }
        match sent {
            Ok(()) => {}
            Err(RingError::PeerGone { .. }) => self.end(None),
            Err(e) => self.end(Some(e.into())),
        }
        answer.into_buffer()
    }

    /// Sends an answer.
    fn answer(&self, header: &RequestHeader, result: CuResult, results: &[u8]) -> Result<(), RingError> {
        if header.call.policy() == Policy::Blocking {
            flush_output();
        }
        let mut head = Encoder::default();
        let deferred = self.session.take_deferred();
        let released = self.session.copies.released(&self.session.driver);
        AnswerHeader {
            sequence: header.sequence,
            result,
            deferred,
            released,
        }
        .write(&mut head);
        // The program can learn from this answer that copies are complete: a relay knows it before.
        let completed = self.session.host_copies.take_completed(&self.session.driver);
        let mut answers = lock(&self.answers);
        for requests in completed.chunks(MAX_COMPLETED as usize) {
            let mut notice = Encoder::default();
            AnswerHeader {
                released,
                ..AnswerHeader::default()
            }
            .write(&mut notice);
            CompletedCopies {
                requests: requests.to_vec(),
            }
            .write(&mut notice);
            answers.write(&[notice.as_bytes()], &*self.peer)?;
        }
        let sent = answers.write(&[head.as_bytes(), results], &*self.peer);
        drop(answers);
        if sent.is_err() && deferred != 0 {
            self.session.defer(deferred);
        }
        sent?;
        self.session
            .counters
            .add_out((ANSWER_HEADER_BYTES + results.len()) as u64);
        Ok(())
    }

    /// Ends the session, with the reason if it is not the program's end.
    fn end(&self, error: Option<WorkerError>) {
        if self.is_over.swap(true, Ordering::Relaxed) {
            return;
        }
        *lock(&self.end) = Some(error.map_or(Ok(()), Err));
        self.ended.notify_all();
    }
}
