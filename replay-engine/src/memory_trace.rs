//! Memory traces: the request to a device, and the report about it. The trace itself is
//! [`trace_core::api_trace::MemoryTrace`].

use crate::run::StopLocation;
use serde::{Deserialize, Serialize};
use trace_core::GpuVa;

/// Maximum size of the memory in one answer, bytes.
pub const MAX_BYTES: u64 = 1 << 30;
/// Default limit of the memory in an answer, bytes.
pub const USUAL_BYTES: u64 = 256 << 20;
/// Maximum number of requested ranges.
pub const MAX_RANGES: usize = 1 << 16;

/// A request for a memory trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryTraceRequest {
    /// The first event. Everything before it is replayed without tracing.
    pub from: u64,
    /// One past the last event. Launches between the two are traced, and nothing is replayed after them.
    pub to: u64,
    /// Traced address ranges, as first byte and length in bytes. An empty list means all memory.
    pub ranges: Vec<(GpuVa, u64)>,
    /// Address ranges whose contents before the first event are reported, even if no launch changes them.
    pub look: Vec<(GpuVa, u64)>,
    /// Maximum size of reported changes by launches, bytes. The trace ends before the launch that exceeds it. The
    /// ranges of `look` have a separate limit of the same size.
    pub most: u64,
    /// Limit of the time of traced launches, nanoseconds. 0 means only the plan's limit.
    pub time_ns: u64,
}

impl Default for MemoryTraceRequest {
    fn default() -> Self {
        Self {
            from: 0,
            to: 0,
            ranges: Vec::new(),
            look: Vec::new(),
            most: USUAL_BYTES,
            time_ns: 0,
        }
    }
}

impl MemoryTraceRequest {
    /// Returns a request for all memory around the launch at an event, and for the contents of some ranges before it.
    #[must_use]
    pub fn for_launch(event: u64, look: Vec<(GpuVa, u64)>) -> Self {
        Self {
            from: event,
            to: event.saturating_add(1),
            look,
            ..Self::default()
        }
    }

    /// Returns the error in the request, as a message.
    #[must_use]
    pub fn find_error(&self) -> Option<String> {
        let ends = |(at, bytes): &(GpuVa, u64)| *bytes > 0 && at.checked_add(*bytes).is_some();
        if self.from > self.to {
            return Some(format!("the range of events {} to {} is empty", self.from, self.to));
        }
        if self.ranges.len() + self.look.len() > MAX_RANGES {
            return Some(format!("more than {MAX_RANGES} ranges of memory"));
        }
        if self.most == 0 || self.most > MAX_BYTES {
            return Some(format!(
                "{} bytes were requested; 1 to {MAX_BYTES} can be returned",
                self.most
            ));
        }
        let odd = self.ranges.iter().chain(&self.look).find(|r| !ends(r));
        odd.map(|(at, bytes)| format!("{bytes} bytes at {at:#x} are not a valid range of memory"))
    }
}

/// The report about a memory trace, without the observations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryTraceReport {
    /// Number of traced launches.
    pub launches: u64,
    /// The launch before which the trace ended, because its changes did not fit any more.
    pub full: Option<u64>,
    /// The launch before which the trace ended, because its time was over.
    pub late: Option<u64>,
    /// The address after which the ranges of `look` did not fit.
    pub looked_until: Option<u64>,
    /// Messages about calls that were not replayed because the recording lacks their data. Their consequences differ
    /// from the recording.
    pub left_out: Vec<String>,
    /// Where the device stopped, if it did. Observations before it are reported.
    pub stopped: Option<StopLocation>,
    /// Time to the first traced launch, nanoseconds.
    pub ready_ns: u64,
    /// Time of the traced launches, including the reading of memory, nanoseconds.
    pub watch_ns: u64,
}
