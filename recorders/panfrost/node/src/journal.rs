//! Partial recording on disk, which grows while the program runs, so that a killed program leaves a recording of its
//! work. It is marked as unfinished; the complete recording replaces it at the end.

use crate::error::NodeError;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use trace_core::container::{ContainerError, FileSink, Writer};

/// Minimum time between two commits.
const MIN_COMMIT_INTERVAL: Duration = Duration::from_millis(250);
/// A commit takes at most one part in this many of the time.
const SHARE: u32 = 20;

/// The growing file.
pub(crate) struct Journal {
    path: PathBuf,
    writer: Writer<FileSink>,
    due: Instant,
    /// Number of events in the file.
    events: u64,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Journal({})", self.path.display())
    }
}

impl Journal {
    /// Creates a file that must not exist yet.
    pub(crate) fn begin(path: &Path) -> Result<Self, NodeError> {
        let writer = Writer::create(path).map_err(|source| failed(path, source))?;
        Ok(Self {
            path: path.to_owned(),
            writer,
            due: Instant::now(),
            events: 0,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of the file's descriptor.
    pub(crate) fn descriptor(&self) -> i32 {
        self.writer.sink().as_raw_fd()
    }

    /// Returns the number of events that a reader finds in it.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// Returns whether a commit is due if the recording has this many events.
    pub(crate) fn is_due(&self, events: u64) -> bool {
        events > self.events && Instant::now() >= self.due
    }

    /// Commits the data that `push` pushes.
    pub(crate) fn commit(
        &mut self,
        events: u64,
        push: impl FnOnce(&mut Writer<FileSink>) -> Result<(), ContainerError>,
    ) -> Result<(), NodeError> {
        let begun = Instant::now();
        let all = || {
            push(&mut self.writer)?;
            self.writer.commit()
        };
        all().map_err(|source| failed(&self.path, source))?;
        self.events = events;
        let took = begun.elapsed();
        self.due = begun + (took * SHARE).max(MIN_COMMIT_INTERVAL);
        Ok(())
    }
}

fn failed(path: &Path, source: ContainerError) -> NodeError {
    NodeError::Save {
        path: path.to_owned(),
        source,
    }
}
