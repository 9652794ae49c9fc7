//! Derived data: polls, interrupts, jobs, gaps, phases, and event counts at every scale. All of it can be derived again
//! from the events.

mod axis;
mod derive;
mod lanes;
mod pyramid;
mod pyramid_store;
mod scan;
mod spans;
mod store;
#[cfg(test)]
mod tests;

pub use axis::{Axis, AxisKind, COMPRESSED_GAP_NS, MAX_GAP_NS};
pub use derive::derive;
pub use lanes::StreamLanes;
pub use pyramid::{Pixels, Pyramid};
pub use pyramid_store::{PYRAMID_SECTION, PYRAMID_VERSION};
pub use spans::{MergedSpan, merge_spans};
pub use store::{SECTION, StoredTimeline, append, write};

pub use crate::families::{InferredInterrupt, JobSpan, Phase, PhaseName};

use crate::RegOffset;
use serde::{Deserialize, Serialize};

/// A longer time without an event, in nanoseconds, is a [`Gap`], and ends a [`Poll`].
pub const GAP_NS: u64 = 10_000_000;

/// Changes when the same events give another [`Timeline`]; derived data of another version is derived again.
pub const ANALYSIS_VERSION: u32 = 3;

/// The result of [`derive`] for a recording. Every list is in event order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// Runs of reads that wait for something.
    pub polls: Vec<Poll>,
    /// Interrupts, from the reads of their handlers.
    pub interrupts: Vec<InferredInterrupt>,
    /// Jobs, one per submit.
    pub jobs: Vec<JobSpan>,
    /// Times without an event.
    pub gaps: Vec<Gap>,
    /// The driver's phases in order, without holes; absent ones are not listed.
    pub phases: Vec<Phase>,
}

/// A run of reads that waits for a condition, or repeats a group of status reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Poll {
    /// First event.
    pub first: u64,
    /// Last event, inclusive.
    pub last: u64,
    /// Number of reads, at least 2.
    pub reads: u64,
    /// Register, or the first register of the group.
    pub offset: RegOffset,
    /// Value of the last read of that register.
    pub value_at_end: u64,
    /// Whether it repeats a group of registers rather than one.
    pub group: bool,
}

/// A time without an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The event before it.
    pub after_event: u64,
    /// Nanoseconds to the next event.
    pub ns: u64,
}
