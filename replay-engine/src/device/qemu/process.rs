//! QEMU's process: finding, starting, monitoring and ending it. It never outlives this program, and leaves nothing
//! behind.

use super::PROGRAM;
use super::error::QemuError;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Number of kept lines of standard error, and maximum length of each, bytes.
const KEPT_LINES: usize = 6;
const KEPT_BYTES: u64 = 400;
/// Interval at which the end of the process is checked.
const TICK: Duration = Duration::from_millis(5);
/// Maximum wait for the end of a process that closed its sockets.
const END_LIMIT: Duration = Duration::from_secs(2);

/// Finds the program in the folders of a PATH.
///
/// # Errors
/// [`QemuError::Absent`], if it is in none of them.
pub(super) fn find(path: &OsStr) -> Result<PathBuf, QemuError> {
    look(path, PROGRAM).ok_or(QemuError::Absent { program: PROGRAM })
}

fn look(path: &OsStr, program: &str) -> Option<PathBuf> {
    let runs = |p: &PathBuf| std::fs::metadata(p).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(program))
        .find(runs)
}

/// The state shared by the process watcher and the owner.
#[derive(Default)]
struct Shared {
    child: Mutex<Option<Child>>,
    /// Exit status.
    status: Mutex<Option<ExitStatus>>,
    /// The last lines of its standard error.
    words: Mutex<VecDeque<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Returns whether the process has ended. It is then not a zombie.
    fn has_ended(&self) -> bool {
        let mut child = lock(&self.child);
        let Some(running) = child.as_mut() else { return true };
        match running.try_wait() {
            Ok(None) => false,
            Ok(Some(status)) => {
                *lock(&self.status) = Some(status);
                *child = None;
                true
            }
            // Waiting failed, and no other thread waits: there is nothing to wait for.
            Err(_) => {
                *child = None;
                true
            }
        }
    }
}

/// A QEMU process. It is ended on drop.
pub(super) struct Process {
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts QEMU in a folder. `path` holds the folders to search for programs; `device` is the name in the log.
    ///
    /// Its sockets are its standard input and output, which no other process can access. If the system has `setpriv`,
    /// the kernel ends QEMU when the thread that started it ends. That thread lives as long as QEMU, so QEMU ends with
    /// this program in every case.
    pub fn start(
        path: &OsStr,
        device: &str,
        arguments: Vec<OsString>,
        folder: &Path,
        qtest: OwnedFd,
        monitor: OwnedFd,
    ) -> Result<Self, QemuError> {
        let program = find(path)?;
        let mut command = match look(path, "setpriv") {
            Some(setpriv) => {
                let mut c = Command::new(setpriv);
                c.args(["--pdeathsig", "KILL", "--"]).arg(program);
                c
            }
            None => Command::new(program),
        };
        command
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::from(qtest))
            .stdout(Stdio::from(monitor))
            .stderr(Stdio::piped());
        let failed = |source| QemuError::System {
            doing: "QEMU could not be started",
            source,
        };
        let shared = Arc::new(Shared::default());
        let (watched, device) = (Arc::clone(&shared), device.to_owned());
        let (to, from) = sync_channel(1);
        let thread = thread::Builder::new().name("kinescope-qemu".into());
        let watcher = thread
            .spawn(move || watch(command, &device, &watched, &to))
            .map_err(failed)?;
        let process = Self {
            shared,
            watcher: Some(watcher),
        };
        match from.recv() {
            Ok(Ok(())) => Ok(process),
            Ok(Err(e)) => Err(failed(e)),
            Err(_) => Err(failed(std::io::Error::other("the thread that starts it ended"))),
        }
    }

    /// Returns how QEMU ended, with its last messages. If it closed its sockets, this waits briefly for its end.
    pub fn end(&self) -> QemuError {
        let started = Instant::now();
        while started.elapsed() < END_LIMIT && self.watcher.as_ref().is_some_and(|w| !w.is_finished()) {
            thread::sleep(TICK);
        }
        let status = match *lock(&self.shared.status) {
            Some(s) => match (s.code(), s.signal()) {
                (_, Some(signal)) => format!("signal {signal}"),
                (Some(code), _) => format!("exit code {code}"),
                _ => s.to_string(),
            },
            None => "it closed its socket".to_owned(),
        };
        let words = Vec::from(lock(&self.shared.words).clone()).join(" / ");
        QemuError::Ended { status, words }
    }

    /// Returns the process id.
    pub fn id(&self) -> Option<u32> {
        lock(&self.shared.child).as_ref().map(Child::id)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = lock(&self.shared.child).as_mut() {
            // It may have ended by itself just now.
            let _ = child.kill();
        }
        // The killed process ends soon, and the watcher reaps it.
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

/// Starts the process, keeps its last messages, and runs until it has ended.
fn watch(mut command: Command, device: &str, shared: &Shared, started: &SyncSender<std::io::Result<()>>) {
    let child = command.spawn();
    // The command holds this end of QEMU's sockets, which must close when QEMU does.
    drop(command);
    let stderr = match child {
        Ok(mut child) => {
            let stderr = child.stderr.take();
            *lock(&shared.child) = Some(child);
            stderr
        }
        Err(e) => {
            // The starting thread waits for this message.
            let _ = started.send(Err(e));
            return;
        }
    };
    let _ = started.send(Ok(()));
    if let Some(stderr) = stderr {
        let mut lines = BufReader::new(stderr);
        let mut line = Vec::new();
        while (&mut lines)
            .take(KEPT_BYTES)
            .read_until(b'\n', &mut line)
            .is_ok_and(|n| n > 0)
        {
            let text = String::from_utf8_lossy(&line).trim().to_owned();
            line.clear();
            if text.is_empty() {
                continue;
            }
            // It may be only a warning, but the device may differ from the intended one.
            tracing::warn!(device, "QEMU says: {text}");
            let mut words = lock(&shared.words);
            if words.len() == KEPT_LINES {
                words.pop_front();
            }
            words.push_back(text);
        }
    }
    while !shared.has_ended() {
        thread::sleep(TICK);
    }
}

/// Returns the ends of a socket pair: this program's and QEMU's.
pub(super) fn pair() -> Result<(UnixStream, OwnedFd), QemuError> {
    let made = UnixStream::pair();
    let (ours, theirs) = made.map_err(|source| QemuError::System {
        doing: "no sockets for QEMU could be made",
        source,
    })?;
    Ok((ours, theirs.into()))
}
