//! The results of an open queue for other processes: a log that each new result is appended to.

use super::FolderQueue;
use crate::queue::{QueueError, RunQueue as _};
use crate::result_log::{LogEntry, ResultLog};
use crate::run::Run;
use crate::run_result::RunResult;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The log of a queue, if it has one.
#[derive(Debug, Default)]
pub(super) struct ResultPublisher(Mutex<Option<ResultLog>>);

impl ResultPublisher {
    fn lock(&self) -> MutexGuard<'_, Option<ResultLog>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether there is a log.
    pub fn is_open(&self) -> bool {
        self.lock().is_some()
    }

    /// Appends a result. A log that cannot be written ends, with a warning: the campaign does not need it.
    pub fn append(&self, run: &Run, result: &RunResult) {
        let mut log = self.lock();
        let Some(open) = log.as_mut() else { return };
        if let Err(e) = open.append(&LogEntry::new(run, result)) {
            tracing::warn!("other processes cannot follow the results: {e}");
            *log = None;
        }
    }
}

/// Why a log cannot be made.
enum LogFailure {
    Queue(QueueError),
    Log(io::Error),
}

impl From<io::Error> for LogFailure {
    fn from(e: io::Error) -> Self {
        Self::Log(e)
    }
}

impl FolderQueue {
    /// Writes a log of the results for other processes, and appends later results to it until the queue is closed. Takes
    /// time proportional to the number of results.
    ///
    /// # Errors
    /// If the queue cannot be read, or the log cannot be written.
    pub fn log_results(&self, path: &Path) -> Result<(), QueueError> {
        let log = ResultLog::create(path, |write| {
            let mut failure = None;
            let read = self.results(&mut |run, result| {
                failure = write(&LogEntry::new(&run, &result)).err();
                failure.is_none()
            });
            read.map_err(LogFailure::Queue)?;
            failure.map_or(Ok(()), |e| Err(LogFailure::Log(e)))
        });
        let log = log.map_err(|e| match e {
            LogFailure::Queue(e) => e,
            LogFailure::Log(e) => QueueError::Storage {
                path: path.to_owned(),
                reason: e.to_string(),
            },
        })?;
        *self.log.lock() = Some(log);
        Ok(())
    }
}
