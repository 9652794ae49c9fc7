//! Worker processes of this machine, one for each program.

use crate::SERVE_PROGRAM;
use crate::report::{REPORT_VARIABLE, WorkerReport};
use crate::served_program::{ProgramResult, ProgramServer, ServedProgram};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Interval between two checks whether a worker has ended.
const TICK: Duration = Duration::from_millis(2);

/// A worker process. It is killed on drop.
#[derive(Debug)]
pub struct WorkerProcess {
    child: Child,
    report: PathBuf,
}

impl WorkerProcess {
    /// Starts a worker for the program at the other end of a socket. `command` starts a program that calls
    /// [`crate::serve_standard_input`] for the argument [`SERVE_PROGRAM`]. The worker writes its report to the file
    /// `report`.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn start(mut command: Command, program: OwnedFd, report: PathBuf) -> std::io::Result<Self> {
        command
            .arg(SERVE_PROGRAM)
            .stdin(Stdio::from(program))
            .env(REPORT_VARIABLE, &report)
            // A terminal interrupt is for the program. Its end ends the worker.
            .process_group(0);
        Ok(Self {
            child: command.spawn()?,
            report,
        })
    }

    /// Returns the number of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether the process is running.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends the process at once.
    pub fn kill(&mut self) {
        // It may have ended by itself; then both calls do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until the process has ended, at most until `limit`. Then it is killed.
    pub fn finish(&mut self, limit: Instant) -> ProgramResult {
        let begin = Instant::now();
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if Instant::now() < limit => std::thread::sleep(TICK),
                _ => break None,
            }
        };
        let failure = match status {
            Some(status) if status.success() => None,
            Some(status) => Some(format!("a worker process ended: {status}")),
            None => {
                self.kill();
                let seconds = begin.elapsed().as_secs();
                Some(format!(
                    "a worker process was killed: it did not end within {seconds} s of its program"
                ))
            }
        };
        // A worker that was killed has written none.
        let report = WorkerReport::read(&self.report);
        ProgramResult { report, failure }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

impl ServedProgram for WorkerProcess {
    fn is_running(&mut self) -> bool {
        Self::is_running(self)
    }

    fn finish(mut self: Box<Self>, limit: Instant) -> ProgramResult {
        Self::finish(&mut self, limit)
    }
}

/// Serves programs by worker processes of this machine.
pub struct LocalWorkers<F> {
    command: F,
    folder: PathBuf,
    /// Number of workers so far, for names of their files.
    started: AtomicU64,
}

impl<F: Fn() -> Command + Send + Sync> LocalWorkers<F> {
    /// Creates it. `command` starts this program; workers write their reports into `folder`.
    pub const fn new(command: F, folder: PathBuf) -> Self {
        Self {
            command,
            folder,
            started: AtomicU64::new(0),
        }
    }
}

impl<F: Fn() -> Command + Send + Sync> ProgramServer for LocalWorkers<F> {
    fn serve(&self, program: UnixStream) -> std::io::Result<Box<dyn ServedProgram>> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let report = self.folder.join(format!("report-{number}"));
        Ok(Box::new(WorkerProcess::start(
            (self.command)(),
            program.into(),
            report,
        )?))
    }
}
