//! A program of a client on the agent's machine: the client passes the program's socket to the worker, and both share
//! memory without a relay.

use crate::lock;
use crate::relayed_worker::END_LIMIT;
use crate::worker_start::{WorkerProgram, WorkerStart};
use remote_ring::receive_region;
use remote_worker::{ProgramResult, WorkerProcess, wait_for_process_end};
use replay_engine::live::{LiveEnd, LiveSender, LiveSession, LocalWorker};
use replay_engine::wire::pairing_code::nonce;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time in which a connection to the socket passes its file.
const PASS_LIMIT: Duration = Duration::from_secs(5);
/// Interval at which a worker's session is looked at, besides the end of the worker.
const TICK: Duration = Duration::from_secs(1);

/// The worker, once the client has passed the program's socket.
enum Worker {
    Waiting,
    Running(Box<WorkerProcess>),
    Ended(ProgramResult),
}

/// A program with its worker.
pub struct LocalWorkerSession {
    path: PathBuf,
    token: [u8; 32],
    worker: Mutex<Worker>,
    change: Condvar,
    is_over: AtomicBool,
    program: WorkerProgram,
}

impl LocalWorkerSession {
    /// Opens the socket at which the client passes the program's socket.
    ///
    /// # Errors
    /// If the socket cannot be opened.
    pub fn start(start: WorkerStart, sender: LiveSender) -> io::Result<Arc<Self>> {
        let WorkerStart { command, program } = start;
        let path = program.folder.file("socket");
        let listener = UnixListener::bind(&path)?;
        let report = program.folder.file("report");
        let token = nonce().map_err(io::Error::other)?;
        program.start_stream(&sender)?;
        let session = Arc::new(Self {
            path,
            token,
            worker: Mutex::new(Worker::Waiting),
            change: Condvar::new(),
            is_over: AtomicBool::new(false),
            program,
        });
        let of = Arc::clone(&session);
        let thread = std::thread::Builder::new().name("kinescope-worker".into());
        thread.spawn(move || {
            if let Err(why) = of.serve(&listener, command, report) {
                sender.report_end(&why);
            }
        })?;
        Ok(session)
    }

    /// Takes the program's socket, starts the worker, and watches it.
    fn serve(&self, listener: &UnixListener, mut command: Command, report: PathBuf) -> Result<(), String> {
        let Some((program, output)) = self.take_program(listener) else {
            return Ok(());
        };
        if let Some(output) = output {
            command.stdout(output);
        }
        // Nobody else may pass a socket.
        let _ = std::fs::remove_file(&self.path);
        let worker = WorkerProcess::start(command, program, report)
            .map_err(|e| format!("the worker process cannot be started: {e}"))?;
        let process = worker.id();
        {
            let mut state = lock(&self.worker);
            // The session may have ended meanwhile. Then the drop of the process kills it.
            if self.is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            *state = Worker::Running(Box::new(worker));
        }
        self.change.notify_all();
        loop {
            wait_for_process_end(process, TICK);
            let mut state = lock(&self.worker);
            let Worker::Running(worker) = &mut *state else {
                return Ok(());
            };
            if worker.is_running() {
                continue;
            }
            let result = worker.finish(Instant::now());
            let failure = result.failure.clone();
            *state = Worker::Ended(result);
            self.change.notify_all();
            // A worker that ends well has seen the end of its program.
            return failure.map_or(Ok(()), Err);
        }
    }

    /// Returns the socket of the program and its standard output, or `None` if the session ends before. An earlier client
    /// passes no output.
    fn take_program(&self, listener: &UnixListener) -> Option<(OwnedFd, Option<OwnedFd>)> {
        loop {
            let (connection, _) = listener.accept().ok()?;
            if self.is_over.load(Ordering::Relaxed) {
                return None;
            }
            // Whoever does not know the token passes nothing.
            if let Some(program) = self.receive(&connection) {
                return Some((program, self.receive(&connection)));
            }
        }
    }

    /// Returns the next file that comes with the token.
    fn receive(&self, connection: &UnixStream) -> Option<OwnedFd> {
        connection.set_read_timeout(Some(PASS_LIMIT)).ok()?;
        let (token, file) = receive_region(connection).ok()?;
        (token == self.token).then_some(file)
    }
}

impl LiveSession for LocalWorkerSession {
    fn preface(&self) -> (Option<LocalWorker>, Vec<u8>) {
        let worker = LocalWorker {
            path: self.path.as_os_str().as_bytes().to_vec(),
            token: self.token,
        };
        (Some(worker), Vec::new())
    }

    fn take_frame(&self, _: u32, _: &[u8]) -> Result<(), String> {
        Err("a program that shares memory with its worker sends no frames".to_owned())
    }

    fn add_lane(&self, _: u32, _: LiveSender) -> Result<(), String> {
        Err("a program that shares memory with its worker has no lanes".to_owned())
    }

    fn finish(&self) -> LiveEnd {
        let limit = Instant::now() + END_LIMIT;
        let mut state = lock(&self.worker);
        let result = loop {
            match std::mem::replace(&mut *state, Worker::Waiting) {
                Worker::Waiting => break ProgramResult::default(),
                Worker::Ended(result) => break result,
                Worker::Running(worker) if Instant::now() < limit && !self.is_over.load(Ordering::Relaxed) => {
                    *state = Worker::Running(worker);
                    let waited = self.change.wait_timeout(state, TICK);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                Worker::Running(mut worker) => break worker.finish(limit.min(Instant::now())),
            }
        };
        drop(state);
        self.program.finish(result)
    }

    fn end(&self) {
        if self.is_over.swap(true, Ordering::Relaxed) {
            return;
        }
        self.program.stop_stream();
        // A connection wakes the thread that accepts one.
        let _ = UnixStream::connect(&self.path);
        let _ = std::fs::remove_file(&self.path);
        // The drop of the process kills it. A process that is being started sees the flag.
        *lock(&self.worker) = Worker::Waiting;
        self.change.notify_all();
    }

    fn describe(&self) -> String {
        self.program.name.clone()
    }
}

impl Drop for LocalWorkerSession {
    fn drop(&mut self) {
        self.end();
    }
}
