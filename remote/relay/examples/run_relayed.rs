//! Runs a program whose device is in a worker process behind a relay, both ends in this process:
//! `run_relayed LIBRARY PROGRAM ARGUMENTS…`. It is its own worker process. The relay's connections are TCP connections of
//! this machine without encryption, to compare with those of an agent. `LANES` is the number of lanes, 2 if it is not set.
#![allow(clippy::print_stderr, reason = "a program for the people who change the relay")]

use remote_relay::{ContentStore, FrameSender, ProgramEnd, RelayError, WorkerEnd, WorkerLimits};
use remote_worker::{
    LibraryLink, ProgramResult, ProgramServer, ProgramSocket, RELAY_VARIABLE, SERVE_PROGRAM, ServedProgram,
    WorkerProcess, program_environment, serve_standard_input,
};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(first) = arguments.next() else {
        eprintln!("run_relayed LIBRARY PROGRAM ARGUMENTS…");
        return ExitCode::from(2);
    };
    if first == SERVE_PROGRAM {
        return match serve_standard_input() {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("worker: {e}");
                ExitCode::FAILURE
            }
        };
    }
    match run(PathBuf::from(first), arguments) {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            eprintln!("run_relayed: {e}");
            ExitCode::from(2)
        }
    }
}

/// Bytes on all connections.
static SENT: AtomicU64 = AtomicU64::new(0);

/// Frames on a socket: a length and the bytes.
struct SocketFrames(Mutex<TcpStream>);

impl FrameSender for SocketFrames {
    fn send_parts(&self, parts: &[&[u8]]) -> Result<(), RelayError> {
        let mut socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        SENT.fetch_add(4 + bytes as u64, Ordering::Relaxed);
        let length = (bytes as u32).to_le_bytes();
        // The length does not travel alone.
        let first: &[u8] = parts.first().copied().unwrap_or_default();
        socket.write_all(&[&length, first].concat())?;
        for part in parts.iter().skip(1) {
            socket.write_all(part)?;
        }
        Ok(())
    }

    fn close(&self) {
        // The other end may be closed.
        let _ = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .shutdown(Shutdown::Both);
    }
}

/// Gives each frame of a socket to `take`, until one of both ends.
fn read_frames(
    mut socket: TcpStream,
    mut take: impl FnMut(&[u8]) -> Result<(), RelayError> + Send + 'static,
    end: impl FnOnce(String) + Send + 'static,
) {
    std::thread::spawn(move || {
        let mut frame = Vec::new();
        let mut next = || -> Result<(), RelayError> {
            let mut length = [0; 4];
            socket.read_exact(&mut length)?;
            frame.resize(u32::from_le_bytes(length) as usize, 0);
            socket.read_exact(&mut frame)?;
            take(&frame)
        };
        loop {
            if let Err(e) = next() {
                return end(e.to_string());
            }
        }
    });
}

/// Creates both ends of a TCP connection.
fn connection() -> std::io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let here = TcpStream::connect(listener.local_addr()?)?;
    let (there, _) = listener.accept()?;
    for socket in [&here, &there] {
        socket.set_nodelay(true)?;
    }
    Ok((here, there))
}

struct Relayed {
    program: Arc<ProgramEnd>,
    worker_end: Arc<WorkerEnd>,
    worker: WorkerProcess,
}

impl ServedProgram for Relayed {
    fn is_running(&mut self) -> bool {
        self.worker.is_running()
    }

    fn finish(mut self: Box<Self>, limit: Instant) -> ProgramResult {
        let reason = self.program.wait(Some(limit));
        self.worker_end.end();
        let result = self.worker.finish(limit);
        ProgramResult {
            failure: result.failure.or(reason.flatten()),
            ..result
        }
    }
}

struct Server {
    own: PathBuf,
    folder: PathBuf,
    store: Arc<ContentStore>,
}

impl Server {
    fn start(&self, program: UnixStream) -> Result<Relayed, RelayError> {
        let (to_worker, worker_socket) = UnixStream::pair()?;
        let mut command = Command::new(&self.own);
        command.env(RELAY_VARIABLE, "yes");
        let worker = WorkerProcess::start(command, worker_socket.into(), self.folder.join("report"))?;
        let (here, there) = connection()?;
        let frames = |socket: &TcpStream| -> std::io::Result<Arc<dyn FrameSender>> {
            Ok(Arc::new(SocketFrames(Mutex::new(socket.try_clone()?))))
        };
        let contents = self.store.open([0; 32]);
        let digests = contents.digests(1 << 20);
        let limits = WorkerLimits {
            staging_bytes: 64 << 20,
            host_bytes: 8 << 30,
        };
        let socket = there.try_clone()?;
        let worker_end = WorkerEnd::new(to_worker, frames(&there)?, limits, contents, move |reason| {
            eprintln!("worker's end: {reason}");
            // It may be closed.
            let _ = socket.shutdown(Shutdown::Both);
        });
        let end = Arc::clone(&worker_end);
        let over = Arc::clone(&worker_end);
        read_frames(there, move |frame| end.take_frame(0, frame), move |_| over.end());
        let program = ProgramEnd::start(program, frames(&here)?, &digests, true)?;
        let end = Arc::clone(&program);
        let over = Arc::clone(&program);
        read_frames(
            here,
            move |frame| end.take_frame(0, frame),
            move |why| over.finish(Some(why)),
        );
        let lanes = std::env::var("LANES").ok().and_then(|lanes| lanes.parse().ok());
        for lane in 1..=lanes.unwrap_or(2) {
            // The worker's end knows the memory after the first frame.
            std::thread::sleep(std::time::Duration::from_millis(20));
            let (here, there) = connection()?;
            program.add_lane(frames(&here)?)?;
            worker_end.add_lane(frames(&there)?)?;
            let (end, over) = (Arc::clone(&worker_end), Arc::clone(&worker_end));
            read_frames(there, move |frame| end.take_frame(lane, frame), move |_| over.end());
            let (end, over) = (Arc::clone(&program), Arc::clone(&program));
            read_frames(
                here,
                move |frame| end.take_frame(lane, frame),
                move |why| over.finish(Some(why)),
            );
        }
        Ok(Relayed {
            program,
            worker_end,
            worker,
        })
    }
}

impl ProgramServer for Server {
    fn serve(&self, program: UnixStream) -> std::io::Result<Box<dyn ServedProgram>> {
        Ok(Box::new(self.start(program).map_err(std::io::Error::other)?))
    }
}

fn run(library: PathBuf, mut arguments: impl Iterator<Item = std::ffi::OsString>) -> std::io::Result<u8> {
    let own = std::env::current_exe()?;
    let links = [LibraryLink {
        name: "libcuda.so.1",
        library: std::path::absolute(library)?,
    }];
    let server = |folder: &Path| {
        Ok(Server {
            own: own.clone(),
            folder: folder.to_owned(),
            store: ContentStore::new(1 << 30),
        })
    };
    let socket = ProgramSocket::open(&links, server)?;
    let program = arguments.next().ok_or(std::io::ErrorKind::InvalidInput)?;
    let rest: Vec<_> = arguments.collect();
    let waits = std::env::var_os("WAIT_EACH").is_some();
    let starts = std::env::var("STARTS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let mut code = 255;
    for _ in 0..starts {
        let before = SENT.load(Ordering::Relaxed);
        let status = Command::new(&program)
            .args(&rest)
            .envs(program_environment(&socket, waits))
            .env("LD_LIBRARY_PATH", socket.library_folder())
            .status()?;
        if std::env::var_os("STATS").is_some() {
            eprintln!("{} bytes on the connections", SENT.load(Ordering::Relaxed) - before);
        }
        code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(255);
    }
    let (_, failures) = socket.finish();
    for failure in failures {
        eprintln!("{failure}");
    }
    Ok(code)
}
