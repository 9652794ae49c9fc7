//! Guard process that restores the machine when the recorder is killed. It runs the recorder's own program in a session
//! of its own. A socket closes when the recorder has ended, and the guard holds the recorder's lock with it.

use crate::error::RecordError;
use crate::journal::{Job, Journal, Lock};
use crate::kernel::Kernel;
use crate::{finish, stream};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsStr;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Maximum time until the guard is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Minimum size of a log without accesses that is worth keeping, bytes.
const MIN_LOG_BYTES: u64 = 1 << 16;
const READY: &str = "ready\n";
const DONE: &str = "done\n";

/// The recorder's handle of the guard.
#[derive(Debug)]
pub struct Guard {
    socket: UnixStream,
    child: Child,
}

impl Guard {
    /// Starts the guard and waits until it is ready.
    ///
    /// # Errors
    /// Returns an error if it does not start.
    pub fn start<S: AsRef<OsStr>>(program: &Path, arguments: &[S], lock: &Lock) -> Result<Self, RecordError> {
        let failed = |e| RecordError::file(program, e);
        let (socket, other) = UnixStream::pair().map_err(failed)?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::from(OwnedFd::from(other)))
            .stdout(Stdio::from(lock.share().map_err(failed)?))
            .spawn()
            .map_err(failed)?;
        let mut guard = Self { socket, child };
        guard.socket.set_read_timeout(Some(READY_TIMEOUT)).map_err(failed)?;
        let mut line = String::new();
        let read = BufReader::new(&guard.socket).read_line(&mut line);
        if let Err(e) = read.and_then(|_| {
            if line == READY {
                Ok(())
            } else {
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }) {
            let _ = guard.child.kill();
            let _ = guard.child.wait();
            return Err(failed(e));
        }
        Ok(guard)
    }

    /// Releases the guard, which is not needed any more.
    pub fn release(mut self) {
        // A guard that has ended needs no message.
        let _ = self.socket.write_all(DONE.as_bytes());
        let _ = self.child.wait();
    }
}

/// Watches the recorder at the other end of standard input, and restores the machine when the recorder has ended. The
/// trace becomes a recording that is marked as truncated. Returns messages for the user; none if the recorder ended by
/// itself.
///
/// # Errors
/// Returns an error if the list of changes cannot be read.
pub fn keep_watch(kernel: &dyn Kernel, folder: &Path) -> Result<Vec<String>, RecordError> {
    let failed = |e| RecordError::file("standard input", e);
    // A signal from the terminal that ends the recorder must not end the guard.
    let heed = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&heed)).map_err(failed)?;
    }
    // This process is not a session leader unless the user started it by hand: then it stays in that session.
    let _ = rustix::process::setsid();
    let socket = io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
    watch(UnixStream::from(socket), kernel, folder)
}

/// Does the same as [`keep_watch`] on a socket.
pub(crate) fn watch(socket: UnixStream, kernel: &dyn Kernel, folder: &Path) -> Result<Vec<String>, RecordError> {
    let failed = |e| RecordError::file("the recorder's socket", e);
    (&socket).write_all(READY.as_bytes()).map_err(failed)?;
    let mut line = String::new();
    // However the read ends: unless the recorder sent that it is done, it has died.
    let _ = BufReader::new(&socket).read_line(&mut line);
    if line == DONE {
        return Ok(Vec::new());
    }
    recover(kernel, folder, "the recorder was killed")
}

/// Returns the size of the log in bytes.
fn log_bytes(job: &Job) -> u64 {
    let logs = job
        .traces
        .iter()
        .filter_map(|(_, log)| std::fs::metadata(job.folder.join(log)).ok());
    logs.map(|m| m.len()).sum()
}

/// Undoes the changes of an earlier recorder, and makes a recording of its trace. Returns messages for the user; none
/// if nothing was left.
///
/// # Errors
/// Returns an error if the list of changes cannot be read.
pub(crate) fn recover(kernel: &dyn Kernel, folder: &Path, why: &str) -> Result<Vec<String>, RecordError> {
    let Some(mut journal) = Journal::open_leftover(folder, kernel)? else {
        return Ok(Vec::new());
    };
    let mut messages = vec![format!("{why}; its changes of the machine are undone now")];
    if !journal.is_ended() {
        journal.end_processes(kernel);
        for (trace, log) in journal.job.traces.clone() {
            let log = journal.job.folder.join(log);
            if !journal.job.folder.is_dir() {
                break;
            }
            if let Err(e) = stream::resume_log(kernel, &trace, &log, u64::MAX) {
                messages.push(format!(
                    "{}: the rest of the trace could not be read: {e}",
                    log.display()
                ));
            }
        }
        journal.job.capture.cut = Some(format!("{why} while the trace was on"));
    }
    let problems = journal.undo(kernel);
    messages.extend(
        problems
            .iter()
            .map(|p| format!("could not be undone: {p}; the next recording tries again")),
    );
    if journal.job.folder.is_dir() {
        match finish::finish(&journal.job) {
            Ok(done) => messages.push(format!(
                "{}: {} events, up to the end of the log",
                journal.job.output.display(),
                done.events
            )),
            // It was killed before the driver did anything.
            Err(RecordError::Import { .. }) if log_bytes(&journal.job) < MIN_LOG_BYTES => {
                let _ = std::fs::remove_dir_all(&journal.job.folder);
                messages.push("nothing was traced yet, so there is no recording".into());
            }
            Err(e) => messages.push(e.to_string()),
        }
    }
    journal.end()?;
    Ok(messages)
}
