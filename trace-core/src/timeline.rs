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

use crate::GpuVa;
use crate::recording::InterruptLine;
use serde::{Deserialize, Serialize};

/// A longer time without an event, in nanoseconds, is a [`Gap`], and ends a [`Poll`].
pub const GAP_NS: u64 = 10_000_000;

/// Changes when the same events give another [`Timeline`]; derived data of another version is derived again.
pub const ANALYSIS_VERSION: u32 = 2;

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
    pub offset: u32,
    /// Value of the last read of that register.
    pub value_at_end: u64,
    /// Whether it repeats a group of registers rather than one.
    pub group: bool,
}

/// An interrupt, inferred from the reads of its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InferredInterrupt {
    /// First read of the handler, or the interrupt event itself if the recording has one.
    pub event: u64,
    /// Last event of the handler, inclusive.
    pub last: u64,
    /// Line of the GPU.
    pub line: InterruptLine,
    /// Status bits that the handler read.
    pub status: u64,
}

/// A job from its submit to its interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpan {
    /// Number of the submit, from 0.
    pub index: u32,
    /// Job slot.
    pub slot: u8,
    /// The event that submitted it to the GPU.
    pub submit_event: u64,
    /// The interrupt handler's first event, or the last write of a command stream; `None` if it never ended.
    pub done_event: Option<u64>,
    /// GPU address of the first job of the chain.
    pub head_va: GpuVa,
    /// Time of the submit.
    pub submit_ns: u64,
    /// Time of the handler's first event; `None` if it never ended, or no end was recorded.
    pub done_ns: Option<u64>,
    /// Whether the interrupt reported a failure of the slot.
    pub failed: bool,
}

/// A time without an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The event before it.
    pub after_event: u64,
    /// Nanoseconds to the next event.
    pub ns: u64,
}

/// A phase of the driver's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Name of the phase.
    pub name: PhaseName,
    /// First event.
    pub first: u64,
    /// Last event, inclusive.
    pub last: u64,
}

/// The phases of a driver's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PhaseName {
    /// Identification, reset, power-up.
    Boot,
    /// Jobs between which the driver still changes the address space.
    Setup,
    /// Jobs without such changes between them.
    Compute,
    /// From the point where translation is switched off.
    Teardown,
}

impl PhaseName {
    /// Returns the phase's name in JSON, tables and the window.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Boot => "boot",
            Self::Setup => "setup",
            Self::Compute => "compute",
            Self::Teardown => "teardown",
        }
    }
}
