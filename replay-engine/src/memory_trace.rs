//! Memory to be watched while launches of a recording are made again: what is asked of a device, and what is told of it
//! beside [`trace_core::calls::Watched`].

use crate::run::calls::StopLocation;
use serde::{Deserialize, Serialize};

/// Maximum number of bytes of memory that one answer may hold.
pub const MAX_BYTES: u64 = 1 << 30;
/// Bytes that an answer may hold where nobody says how many.
pub const USUAL_BYTES: u64 = 256 << 20;
/// Maximum number of ranges that may be asked for.
pub const MAX_RANGES: usize = 1 << 16;
/// Name of the output that the answer's bytes come back as.
pub const OUTPUT: &str = "watched";

/// Memory to be watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryTraceRequest {
    /// The first event: everything before it is done without being looked at.
    pub from: u64,
    /// One past the last event: launches between the two are watched, and nothing is done behind them.
    pub to: u64,
    /// Ranges of addresses that are watched, first byte and bytes; none: all memory.
    pub ranges: Vec<(u64, u64)>,
    /// Ranges of addresses whose bytes are told as they are before the first event, whether a launch changes them or
    /// not.
    pub look: Vec<(u64, u64)>,
    /// Most bytes that are told of what launches change: watching ends before the launch that goes beyond. As much
    /// again may be told of the ranges that are looked at.
    pub most: u64,
    /// Nanoseconds of the launches that are watched after which watching ends; 0: it has none but the plan's.
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
    /// All memory around the launch at an event, and what some ranges hold before it.
    #[must_use]
    pub fn for_launch(event: u64, look: Vec<(u64, u64)>) -> Self {
        Self {
            from: event,
            to: event.saturating_add(1),
            look,
            ..Self::default()
        }
    }

    /// What is wrong with it, in words.
    #[must_use]
    pub fn find_error(&self) -> Option<String> {
        let ends = |(at, bytes): &(u64, u64)| *bytes > 0 && at.checked_add(*bytes).is_some();
        if self.from > self.to {
            return Some(format!("events {} to {} are none", self.from, self.to));
        }
        if self.ranges.len() + self.look.len() > MAX_RANGES {
            return Some(format!("more than {MAX_RANGES} ranges of memory"));
        }
        if self.most == 0 || self.most > MAX_BYTES {
            return Some(format!("{} bytes, where 1 to {MAX_BYTES} can be told", self.most));
        }
        let odd = self.ranges.iter().chain(&self.look).find(|r| !ends(r));
        odd.map(|(at, bytes)| format!("{bytes} bytes at {at:#x} are no range of memory"))
    }
}

/// What is told of a watch beside what was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryTraceReport {
    /// Launches that were watched.
    pub launches: u64,
    /// The launch before which it ended, because what it changed did not fit any more.
    pub full: Option<u64>,
    /// The launch before which it ended, because its time was over.
    pub late: Option<u64>,
    /// The address from which on the ranges that are looked at did not fit.
    pub looked_until: Option<u64>,
    /// What the device did not do because the recording does not hold it, in words: what follows from it is other than
    /// it was.
    pub left_out: Vec<String>,
    /// Where the device stopped, when it did: what was seen before is told.
    pub stopped: Option<StopLocation>,
    /// Nanoseconds until the first launch that is watched.
    pub ready_ns: u64,
    /// Nanoseconds of the launches that were watched, with looking at memory.
    pub watch_ns: u64,
}
