//! Memory to be watched while launches of a recording are made again: what is asked of a device, and what is told of it
//! beside [`trace_core::calls::Watched`].

use crate::run::calls::StoppedAt;
use serde::{Deserialize, Serialize};
use trace_core::calls::WatchedError;

/// Most bytes of memory that one answer may hold.
pub const MOST_BYTES: u64 = 1 << 30;
/// Bytes that an answer may hold where nobody says how many.
pub const USUAL_BYTES: u64 = 256 << 20;
/// Most ranges that may be asked for.
pub const MOST_RANGES: usize = 1 << 16;
/// Name of the output that the answer's bytes come back as.
pub const OUTPUT: &str = "watched";

/// Memory to be watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Watch {
    /// The first event: everything before it is done without being looked at.
    pub from: u64,
    /// One past the last event: launches between the two are watched, and nothing is done behind them.
    pub to: u64,
    /// Ranges of addresses that are watched, first byte and bytes; none: all memory.
    pub ranges: Vec<(u64, u64)>,
    /// Ranges of addresses whose bytes are told as they are before the first event, whether a launch changes them or not.
    pub look: Vec<(u64, u64)>,
    /// Most bytes that are told: watching ends before the launch that goes beyond.
    pub most: u64,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            from: 0,
            to: 0,
            ranges: Vec::new(),
            look: Vec::new(),
            most: USUAL_BYTES,
        }
    }
}

impl Watch {
    /// All memory around the launch at an event, and what some ranges hold before it.
    #[must_use]
    pub fn launch(event: u64, look: Vec<(u64, u64)>) -> Self {
        Self {
            from: event,
            to: event.saturating_add(1),
            look,
            ..Self::default()
        }
    }

    /// What is wrong with it, in words.
    #[must_use]
    pub fn wrong(&self) -> Option<String> {
        let ends = |(at, bytes): &(u64, u64)| *bytes > 0 && at.checked_add(*bytes).is_some();
        if self.from > self.to {
            return Some(format!("events {} to {} are none", self.from, self.to));
        }
        if self.ranges.len() + self.look.len() > MOST_RANGES {
            return Some(format!("more than {MOST_RANGES} ranges of memory"));
        }
        if self.most == 0 || self.most > MOST_BYTES {
            return Some(format!("{} bytes, where 1 to {MOST_BYTES} can be told", self.most));
        }
        let odd = self.ranges.iter().chain(&self.look).find(|r| !ends(r));
        odd.map(|(at, bytes)| format!("{bytes} bytes at {at:#x} are no range of memory"))
    }
}

/// What is told of a watch beside what was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchTold {
    /// Launches that were watched.
    pub launches: u64,
    /// The launch before which it ended, because what it changed did not fit any more.
    pub full: Option<u64>,
    /// Where the device stopped, when it did: what was seen before is told.
    pub stopped: Option<StoppedAt>,
    /// Nanoseconds until the first launch that is watched.
    pub ready_ns: u64,
    /// Nanoseconds of the launches that were watched, with looking at memory.
    pub watch_ns: u64,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// What came is no answer.
    #[error(transparent)]
    Watched(#[from] WatchedError),
    /// The board told nothing.
    #[error("{0}")]
    Failed(String),
}
