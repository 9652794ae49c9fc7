//! The socket that programs find their device at, and what serves each program that connects.

use crate::lock;
use crate::private_folder::PrivateFolder;
use crate::report::WorkerReport;
use crate::served_program::{ProgramServer, ServedProgram};
use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time in which a worker ends after its program did. Then it is killed.
const END_LIMIT: Duration = Duration::from_secs(5);
/// Maximum number of programs that are served at a time.
const MAX_PROGRAMS: usize = 64;

/// A library for programs: its file, and the name under which they look for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryLink {
    /// Name, such as `libcuda.so.1`.
    pub name: &'static str,
    /// The file.
    pub library: PathBuf,
}

struct Shared {
    folder: PrivateFolder,
    programs: Mutex<Vec<Box<dyn ServedProgram>>>,
    /// Reports of programs that were taken from the list.
    reports: Mutex<Vec<WorkerReport>>,
    failures: Mutex<Vec<String>>,
    is_closed: AtomicBool,
}

/// A socket that programs find their device at. On drop, what serves them is killed and the folder is removed.
pub struct ProgramSocket {
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl ProgramSocket {
    /// Opens the socket in a new folder of this user, with links to the libraries. `server` makes what serves the programs;
    /// it gets the folder for its own files.
    ///
    /// # Errors
    /// If the folder or the socket cannot be made, or the error of `server`.
    pub fn open<S: ProgramServer + 'static>(
        links: &[LibraryLink],
        server: impl FnOnce(&Path) -> std::io::Result<S>,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            folder: PrivateFolder::create("kinescope-run")?,
            programs: Mutex::default(),
            reports: Mutex::default(),
            failures: Mutex::default(),
            is_closed: AtomicBool::new(false),
        });
        // From here on, an error removes the folder.
        let mut socket = Self { shared, acceptor: None };
        std::fs::create_dir(socket.library_folder())?;
        for link in links {
            symlink(&link.library, socket.library_folder().join(link.name))?;
        }
        let server = server(socket.shared.folder.path())?;
        let listener = UnixListener::bind(socket.path())?;
        let shared = Arc::clone(&socket.shared);
        let thread = std::thread::Builder::new().name("kinescope-programs".into());
        socket.acceptor = Some(thread.spawn(move || shared.accept(&listener, &server))?);
        Ok(socket)
    }

    /// Returns the path of the socket, for the variable `KINESCOPE_REMOTE` of programs.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.shared.folder.path().join("socket")
    }

    /// Returns the folder with the libraries, for the variable `LD_LIBRARY_PATH` of programs.
    #[must_use]
    pub fn library_folder(&self) -> PathBuf {
        self.shared.folder.path().join("lib")
    }

    /// Waits until the programs are served to their ends, for programs that have ended. Returns their reports, and what
    /// failed.
    #[must_use]
    pub fn finish(mut self) -> (Vec<WorkerReport>, Vec<String>) {
        self.close();
        let programs = std::mem::take(&mut *lock(&self.shared.programs));
        let mut failures = std::mem::take(&mut *lock(&self.shared.failures));
        let mut reports = std::mem::take(&mut *lock(&self.shared.reports));
        let limit = Instant::now() + END_LIMIT;
        for program in programs {
            let result = program.finish(limit);
            failures.extend(result.failure);
            reports.extend(result.report);
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
        lock(&self.shared.programs).clear();
    }
}

impl Shared {
    fn accept(&self, listener: &UnixListener, server: &dyn ProgramServer) {
        for connection in listener.incoming() {
            if self.is_closed.load(Ordering::Relaxed) {
                return;
            }
            let started = connection.and_then(|connection| self.start(connection, server));
            if let Err(e) = started {
                lock(&self.failures).push(format!("a program has no device: {e}"));
            }
        }
    }

    fn start(&self, connection: UnixStream, server: &dyn ProgramServer) -> std::io::Result<()> {
        let mut programs = lock(&self.programs);
        if programs.len() >= MAX_PROGRAMS {
            for mut program in std::mem::take(&mut *programs) {
                match program.is_running() {
                    true => programs.push(program),
                    false => lock(&self.reports).extend(program.finish(Instant::now()).report),
                }
            }
        }
        if programs.len() >= MAX_PROGRAMS {
            return Err(std::io::Error::other(format!("{MAX_PROGRAMS} are running")));
        }
        programs.push(server.serve(connection)?);
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
