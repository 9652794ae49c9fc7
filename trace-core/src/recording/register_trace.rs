//! Metadata that only register traces have: the recorded device, results of chains, queues of jobs, memory locations,
//! final picture.

use super::hardware::Hardware;
use crate::PhysAddr;
use serde::{Deserialize, Serialize};

/// Maximum number of dimensions of a buffer.
pub(super) const MAX_DIMENSIONS: usize = 32;

/// Metadata of a register trace. Absent or empty values are unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegisterTraceMetadata {
    /// The recorded device as its bus knows it. Recordings of GPUs without a bus have none.
    pub hardware: Option<Hardware>,
    /// The results of chains on the recorded device, in the order of their submits.
    pub chain_reports: Vec<ChainReport>,
    /// The memory locations in the replayed recording, by ascending address. Empty if this is no replay, or if page
    /// tables give the locations.
    pub recorded_ranges: Vec<RecordedRange>,
    /// Names of the queues that jobs are submitted to, by slot. Empty: slots have numbers alone.
    pub job_queues: Vec<String>,
    /// The picture on the screen at the end, a binary PPM file. [`Recording::expected_screen`] decodes it.
    ///
    /// [`Recording::expected_screen`]: super::Recording::expected_screen
    pub screen_at_end: Option<Vec<u8>>,
}

/// A range of a replay's physical memory, and its location in the replayed recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRange {
    /// Physical address of the first byte.
    pub at: PhysAddr,
    /// Number of bytes.
    pub bytes: u64,
    /// Physical address of the first byte in the replayed recording.
    pub recorded_at: PhysAddr,
}

/// The result of a chain, as reported by the recorded device itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainReport {
    /// Event of the write that started it.
    pub submit_event: u64,
    /// Exception code of the slot: [`ChainReport::DONE`], or why the chain ended early.
    pub status: u8,
    /// Whether every shader of the chain ran. Absent: it has none, or did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computed: Option<bool>,
    /// Why a shader did not run, or what stopped it, as text for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ChainReport {
    /// Status of a chain that is done.
    pub const DONE: u8 = 1;

    /// Whether it completed as done, with every shader.
    #[must_use]
    pub fn has_computed(&self) -> bool {
        self.status == Self::DONE && self.computed != Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chain_report_omits_unknown_fields() {
        let all = vec![
            ChainReport {
                submit_event: 7,
                status: 1,
                computed: Some(false),
                reason: Some("a vertex job".into()),
            },
            ChainReport {
                submit_event: 9,
                status: 1,
                computed: None,
                reason: None,
            },
        ];
        let json = serde_json::to_string(&all).unwrap();
        assert!(json.ends_with(r#"{"submit_event":9,"status":1}]"#), "{json}");
        assert_eq!(serde_json::from_str::<Vec<ChainReport>>(&json).unwrap(), all);
        assert_eq!(
            all.iter().map(ChainReport::has_computed).collect::<Vec<_>>(),
            [false, true]
        );
        assert!(serde_json::from_str::<Vec<ChainReport>>("[{}]").is_err());
    }
}
