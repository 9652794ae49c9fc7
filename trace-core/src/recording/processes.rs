//! The processes of a recorded program, each with its own recording.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The processes of a recorded program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIndex {
    /// Version of this format: 1.
    pub kinescope_processes: u32,
    /// The processes in the order in which their recordings started, as far as it is known.
    pub processes: Vec<ProcessEntry>,
}

/// A process with a recording of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessEntry {
    /// Path of its recording, relative to the index.
    pub file: PathBuf,
    /// Process id on the recorded machine; 0: unknown.
    pub process: u32,
    /// Process id of its parent; 0: unknown.
    pub parent: u32,
    /// Its command line.
    pub command: Vec<String>,
    /// Name of its device.
    pub device: String,
    /// Number of events.
    pub events: u64,
    /// Number of launches.
    pub launches: u64,
    /// Whether the process ended normally, so that its recording is complete.
    pub complete: bool,
}

impl ProcessIndex {
    /// Returns the process that the index opens as: the first one with the most launches.
    #[must_use]
    pub fn main(&self) -> Option<&ProcessEntry> {
        let all = self.processes.iter().enumerate();
        all.max_by_key(|(n, p)| (p.launches, p.events, usize::MAX - n))
            .map(|(_, p)| p)
    }
}
