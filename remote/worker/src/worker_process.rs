//! Worker processes of this machine, one for each program.

use crate::SERVE_PROGRAM;
use crate::process_end::wait_for_process_end;
use crate::report::{REPORT_VARIABLE, WorkerReport};
use crate::served_program::{ProgramResult, ProgramServer, ServedProgram};
use rustix::fs::OFlags;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Returns the environment of a worker that sees only these devices of this machine, in this order: names and values.
#[must_use]
pub fn device_environment(devices: &[u32]) -> Vec<(&'static str, String)> {
    const VARIABLE: &str = "CUDA_VISIBLE_DEVICES";
    // The numbers count the devices that this process sees.
    let visible = std::env::var(VARIABLE).unwrap_or_default();
    let visible: Vec<&str> = visible
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect();
    let name = |device: &u32| match visible.get(*device as usize) {
        Some(name) => (*name).to_owned(),
        None => device.to_string(),
    };
    vec![(VARIABLE, devices.iter().map(name).collect::<Vec<_>>().join(","))]
}

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

    /// Returns the standard output, if the command made it a pipe. A read does not block.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn take_output(&mut self) -> std::io::Result<Option<ChildStdout>> {
        let Some(output) = self.child.stdout.take() else {
            return Ok(None);
        };
        let flags = rustix::fs::fcntl_getfl(&output)?;
        rustix::fs::fcntl_setfl(&output, flags | OFlags::NONBLOCK)?;
        Ok(Some(output))
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
                Ok(None) if Instant::now() < limit => {
                    wait_for_process_end(self.id(), limit.saturating_duration_since(Instant::now()));
                }
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
