//! The results of an API-trace replay beyond those of every replay.

use serde::{Deserialize, Serialize};

/// The result of guarding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GuardReport {
    /// Guarded buffers, by their first event.
    pub guarded: Vec<u64>,
    /// Buffers for which the device had no memory left. Another replay can guard them.
    pub left: Vec<u64>,
    /// Buffers that cannot be guarded, because memory holds their addresses.
    pub pointed_at: Vec<u64>,
}

/// Duration of the parts of the preparation, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PrepareTimes {
    /// Reading the file.
    pub read_ns: u64,
    /// Waiting for the driver and the device context to be initialized.
    pub driver_ns: u64,
    /// Mapping memory.
    pub memory_ns: u64,
    /// Loading code.
    pub code_ns: u64,
    /// Writing the initial memory contents.
    pub first_ns: u64,
    /// Capturing the graph, and copying memory for the restores.
    pub prepared_ns: u64,
}

/// An output compared with the recorded one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutputResult {
    /// Event of the recording that copied it back.
    pub event: u64,
    /// Its name.
    pub name: String,
    /// Length, bytes.
    pub bytes: u64,
    /// Whether the recording holds the expected contents.
    pub held: bool,
    /// Whether it has to equal the recorded one. It does not if the inputs are edited and it has no rule.
    pub expected: bool,
    /// Offset of the first byte that differs beyond the tolerance.
    pub differs_at: Option<u64>,
    /// Number of elements that differ beyond the tolerance, or of bytes if the comparison is exact.
    pub differing: u64,
    /// Largest distance of two elements, if the rule gives their type.
    pub largest: Option<f64>,
}

/// Where an API-trace replay stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StopLocation {
    /// Event of the recording, if known.
    pub event: Option<u64>,
    /// Whether that event is known to be the cause. Otherwise it was this event or an earlier one.
    pub sure: bool,
    /// The function that was launched there.
    pub function: Option<String>,
    /// What happened, as a message.
    pub why: String,
}

/// The results of an API-trace replay beyond those of every replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApiOutcome {
    /// Launches per repetition.
    pub launches: u64,
    /// Time to the first step, nanoseconds: driver initialized, memory mapped, code loaded.
    pub ready_ns: u64,
    /// The parts of this time, and of the time to the first run.
    pub parts: PrepareTimes,
    /// Mapped memory, bytes.
    pub mapped: u64,
    /// Whether the range was one graph.
    pub graph: bool,
    /// Number of 4 KiB pages restored before each repetition but the first.
    pub restored: Vec<u64>,
    /// What was left out, as messages.
    pub left_out: Vec<String>,
    /// The event and the shortest device time of each launch, nanoseconds, if requested.
    pub launch_ns: Vec<[u64; 2]>,
    /// What was guarded, if requested.
    pub guard: Option<GuardReport>,
    /// Outputs compared with the recorded ones; empty until the comparison with a recording.
    pub outputs: Vec<OutputResult>,
    /// Where it stopped, if it did.
    pub stopped: Option<StopLocation>,
}

impl ApiOutcome {
    /// Returns the outputs without an expectation, because inputs were edited: the number that differ from the recorded
    /// ones, and their number.
    #[must_use]
    pub fn free_outputs(&self) -> (u64, u64) {
        let free = || self.outputs.iter().filter(|s| s.held && !s.expected);
        let differ = free().filter(|s| s.differs_at.is_some()).count();
        (differ as u64, free().count() as u64)
    }
}
