//! The socket that programs find their device at, and a worker process for each program that connects.

use crate::report::{REPORT_VARIABLE, WorkerReport};
use crate::{SERVE_PROGRAM, lock};
use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time in which a worker ends after its program did. Then it is killed.
const END_LIMIT: Duration = Duration::from_secs(5);
/// Interval between two checks whether a worker has ended.
const TICK: Duration = Duration::from_millis(2);
/// A library for programs: its file, and the name under which they look for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryLink {
    /// Name, such as `libcuda.so.1`.
    pub name: &'static str,
    /// The file.
    pub library: PathBuf,
}

/// Maximum number of worker processes at a time.
const MAX_WORKERS: usize = 64;

/// Returns the command that starts a worker process.
type WorkerCommand = dyn Fn() -> Command + Send + Sync;

struct Shared {
    command: Box<WorkerCommand>,
    folder: PathBuf,
    workers: Mutex<Vec<(Child, PathBuf)>>,
    /// Reports of workers that were taken from the list.
    reports: Mutex<Vec<WorkerReport>>,
    /// Number of workers so far, for names of their files.
    started: AtomicU64,
    failures: Mutex<Vec<String>>,
    is_closed: AtomicBool,
}

/// A socket with a worker process for each program that connects. On drop, the workers are killed and the folder is
/// removed.
pub struct ProgramSocket {
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl ProgramSocket {
    /// Opens the socket in a new folder of this user, with links to the libraries. `command` starts this program; the
    /// socket adds the argument that makes it a worker.
    ///
    /// # Errors
    /// If the folder or the socket cannot be made.
    pub fn open(links: &[LibraryLink], command: impl Fn() -> Command + Send + Sync + 'static) -> std::io::Result<Self> {
        let folder = create_folder()?;
        let shared = Arc::new(Shared {
            command: Box::new(command),
            folder,
            workers: Mutex::default(),
            reports: Mutex::default(),
            started: AtomicU64::new(0),
            failures: Mutex::default(),
            is_closed: AtomicBool::new(false),
        });
        // From here on, an error removes the folder.
        let mut socket = Self { shared, acceptor: None };
        std::fs::create_dir(socket.library_folder())?;
        for link in links {
            symlink(&link.library, socket.library_folder().join(link.name))?;
        }
        let listener = UnixListener::bind(socket.path())?;
        let shared = Arc::clone(&socket.shared);
        let thread = std::thread::Builder::new().name("kinescope-programs".into());
        socket.acceptor = Some(thread.spawn(move || shared.accept(&listener))?);
        Ok(socket)
    }

    /// Returns the path of the socket, for the variable `KINESCOPE_REMOTE` of programs.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.shared.folder.join("socket")
    }

    /// Returns the folder with the libraries, for the variable `LD_LIBRARY_PATH` of programs.
    #[must_use]
    pub fn library_folder(&self) -> PathBuf {
        self.shared.folder.join("lib")
    }

    /// Waits until the workers have ended, for programs that have. Returns their reports, and what failed.
    #[must_use]
    pub fn finish(mut self) -> (Vec<WorkerReport>, Vec<String>) {
        self.close();
        let workers = std::mem::take(&mut *lock(&self.shared.workers));
        let mut failures = std::mem::take(&mut *lock(&self.shared.failures));
        let mut reports = std::mem::take(&mut *lock(&self.shared.reports));
        let limit = Instant::now() + END_LIMIT;
        for (mut worker, report) in workers {
            match wait_until(&mut worker, limit) {
                Some(status) if status.success() => {}
                Some(status) => failures.push(format!("a worker process ended: {status}")),
                None => {
                    // It may end by itself meanwhile; then this does nothing.
                    let _ = worker.kill();
                    let _ = worker.wait();
                    failures.push(format!(
                        "a worker process was killed: it did not end within {} s of its program",
                        END_LIMIT.as_secs()
                    ));
                }
            }
            // A worker that was killed has written none.
            if let Some(report) = WorkerReport::read(&report) {
                reports.push(report);
            }
        }
        (reports, failures)
    }

    fn close(&mut self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        // A connection wakes the thread that accepts them.
        let _ = UnixStream::connect(self.path());
        if let Some(acceptor) = self.acceptor.take() {
            // The thread does not panic.
            let _ = acceptor.join();
        }
    }
}

impl Drop for ProgramSocket {
    fn drop(&mut self) {
        self.close();
        for (mut worker, _) in std::mem::take(&mut *lock(&self.shared.workers)) {
            // It may have ended by itself; then both calls do nothing.
            let _ = worker.kill();
            let _ = worker.wait();
        }
        // What cannot be removed stays in the temporary folder of the system.
        let _ = std::fs::remove_dir_all(&self.shared.folder);
    }
}

/// Creates a folder that only this user can enter.
fn create_folder() -> std::io::Result<PathBuf> {
    let base = std::env::var_os("XDG_RUNTIME_DIR").filter(|base| Path::new(base).is_dir());
    let base = base.map_or_else(std::env::temp_dir, PathBuf::from);
    for attempt in 0..1000 {
        let folder = base.join(format!("kinescope-run-{}-{attempt}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

fn wait_until(worker: &mut Child, limit: Instant) -> Option<std::process::ExitStatus> {
    loop {
        match worker.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < limit => std::thread::sleep(TICK),
            _ => return None,
        }
    }
}

impl Shared {
    fn accept(&self, listener: &UnixListener) {
        for connection in listener.incoming() {
            if self.is_closed.load(Ordering::Relaxed) {
                return;
            }
            let started = connection.and_then(|connection| self.start(connection));
            if let Err(e) = started {
                lock(&self.failures).push(format!("no worker process for a program: {e}"));
            }
        }
    }

    fn start(&self, connection: UnixStream) -> std::io::Result<()> {
        let mut workers = lock(&self.workers);
        if workers.len() >= MAX_WORKERS {
            workers.retain_mut(|(worker, report)| {
                let is_running = matches!(worker.try_wait(), Ok(None));
                if !is_running && let Some(report) = WorkerReport::read(report) {
                    lock(&self.reports).push(report);
                }
                is_running
            });
        }
        if workers.len() >= MAX_WORKERS {
            return Err(std::io::Error::other(format!("{MAX_WORKERS} are running")));
        }
        let report = self
            .folder
            .join(format!("report-{}", self.started.fetch_add(1, Ordering::Relaxed)));
        let mut command = (self.command)();
        command
            .arg(SERVE_PROGRAM)
            .stdin(Stdio::from(OwnedFd::from(connection)))
            .env(REPORT_VARIABLE, &report);
        // A terminal interrupt is for the program. Its end ends the worker.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        workers.push((command.spawn()?, report));
        Ok(())
    }
}

/// Returns the environment of a program that finds its device at a socket: names and values.
#[must_use]
pub fn program_environment(socket: &ProgramSocket, waits_for_each: bool) -> Vec<(&'static str, std::ffi::OsString)> {
    let wait: &OsStr = OsStr::new(if waits_for_each { "yes" } else { "no" });
    vec![
        ("KINESCOPE_REMOTE", socket.path().into_os_string()),
        ("KINESCOPE_REMOTE_WAIT", wait.to_owned()),
    ]
}
