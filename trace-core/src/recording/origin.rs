//! The origin of a recording that was made from another one: cuts, applied edits.

use serde::{Deserialize, Serialize};

/// A cut of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// File name of the source recording.
    pub source: String,
    /// Number of events of the source.
    pub events: u64,
    /// Number of jobs of the source.
    pub jobs: u64,
    /// Kept jobs, as ranges of their numbers in the source, both ends inclusive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_jobs: Vec<[u32; 2]>,
    /// Kept events, if a range of them was chosen: first and last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_events: Option<[u64; 2]>,
    /// Number of pieces of memory that replace the output of removed jobs, as a software GPU computed it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub supplied: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// An input whose bytes differ from the recorded ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedEdit {
    /// The buffer's name.
    pub buffer: String,
    /// Size of the buffer, bytes.
    pub bytes: u64,
    /// The file name of the recording that the edit was made on.
    pub source: String,
}
