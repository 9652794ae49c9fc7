//! What serves the programs that connect to a socket: processes here, or an agent.

use crate::report::WorkerReport;
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// What serves programs.
pub trait ProgramServer: Send + Sync {
    /// Begins to serve the program at the other end of a connection.
    ///
    /// # Errors
    /// If it cannot be served, with the reason for the user.
    fn serve(&self, program: UnixStream) -> std::io::Result<Box<dyn ServedProgram>>;
}

impl ProgramServer for Box<dyn ProgramServer> {
    fn serve(&self, program: UnixStream) -> std::io::Result<Box<dyn ServedProgram>> {
        (**self).serve(program)
    }
}

/// A program that is being served. Its drop ends what serves it.
pub trait ServedProgram: Send {
    /// Returns whether what serves it is still running.
    fn is_running(&mut self) -> bool;

    /// Waits until what serves it has ended, at most until `limit`. Then it is killed.
    fn finish(self: Box<Self>, limit: Instant) -> ProgramResult;
}

/// What is left of a program that was served.
#[derive(Debug, Default)]
pub struct ProgramResult {
    /// What it did; `None` if that is not known.
    pub report: Option<WorkerReport>,
    /// Why it was not served to its end, for the user.
    pub failure: Option<String>,
}
