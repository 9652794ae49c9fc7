//! The measurement of one point.

use super::spread::Spread;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Resources of a multiprocessor that a function uses with a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// Registers per thread.
    pub registers: u32,
    /// Shared memory per block, static and dynamic, bytes.
    pub shared: u32,
    /// Local memory per thread, bytes.
    pub local: u32,
    /// Concurrent blocks per multiprocessor, or 0 if unknown.
    pub blocks: u32,
    /// Occupancy: fraction of the maximum threads per multiprocessor, 0 to 1, or 0 if unknown.
    pub occupancy: f32,
}

/// A difference beyond the tolerances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutputMismatch {
    /// Address of the first differing element.
    pub at: u64,
    /// Number of differing elements, or of bytes if the comparison is exact.
    pub count: u64,
    /// Expected contents of the first one, bytes in hexadecimal, lowest address first.
    pub wanted: String,
    /// Actual contents.
    pub got: String,
    /// Largest distance of two elements, if a rule gives their type.
    pub largest: Option<f64>,
    /// Whether there may be more than counted: after very many errors the comparison stops.
    pub at_least: bool,
}

impl OutputMismatch {
    /// Adds a difference at higher addresses.
    pub fn join(all: &mut Option<Self>, more: Option<Self>) {
        match (all, more) {
            (_, None) => {}
            (all @ None, more) => *all = more,
            (Some(all), Some(more)) => {
                all.count = all.count.saturating_add(more.count);
                all.at_least |= more.at_least;
                all.largest = match (all.largest, more.largest) {
                    (Some(a), Some(b)) => Some(a.max(b)),
                    (a, b) => a.or(b),
                };
            }
        }
    }
}

impl fmt::Display for OutputMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = if self.count == 1 { "place" } else { "places" };
        let least = if self.at_least { "at least " } else { "" };
        write!(
            f,
            "wrong at {least}{} {places}, first at {:#x} ({} instead of {})",
            self.count, self.at, self.got, self.wanted
        )?;
        match self.largest {
            Some(largest) => write!(f, ", by up to {largest:.3e}"),
            None => Ok(()),
        }
    }
}

/// The reason why a point is rejected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RejectReason {
    /// The code cannot be built with these bounds.
    Code {
        /// The message of the compiler or driver.
        why: String,
    },
    /// The driver refused the launch.
    Refused {
        /// Its error message.
        why: String,
    },
    /// Memory differed from the expected contents.
    Wrong(OutputMismatch),
    /// One launch took too long, and the point was abandoned.
    TooSlow {
        /// Its time, nanoseconds.
        took: u64,
        /// The limit, nanoseconds.
        limit: u64,
    },
    /// The launch did not end, and its process was killed.
    Stuck {
        /// Time waited, nanoseconds.
        waited: u64,
    },
    /// The device failed during the launch.
    Failed {
        /// The driver's message.
        why: String,
    },
}

impl RejectReason {
    /// Returns one or two words for a table.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Code { .. } => "no code",
            Self::Refused { .. } => "refused",
            Self::Wrong(_) => "wrong",
            Self::TooSlow { .. } => "too slow",
            Self::Stuck { .. } => "stuck",
            Self::Failed { .. } => "failed",
        }
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ns: u64| ns as f64 / 1e9;
        match self {
            Self::Code { why } => write!(f, "the code cannot be built for this point: {}", why.trim()),
            Self::Refused { why } => write!(f, "the driver refused the launch: {}", why.trim()),
            Self::Wrong(w) => w.fmt(f),
            Self::TooSlow { took, limit } => write!(
                f,
                "one launch took {:.3} s, more than {:.3} s, and was not repeated",
                seconds(*took),
                seconds(*limit)
            ),
            Self::Stuck { waited } => write!(f, "it did not end within {:.1} s", seconds(*waited)),
            Self::Failed { why } => write!(f, "the device failed: {}", why.trim()),
        }
    }
}

/// The measurement of one point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measurement {
    /// Device time of each timed launch, in order, nanoseconds.
    pub times: Vec<u64>,
    /// Its use of a multiprocessor, if known.
    pub resources: Option<Resources>,
    /// Why it is rejected, if it is.
    pub rejected: Option<RejectReason>,
}

impl Measurement {
    /// Returns the measurement of a rejected point.
    #[must_use]
    pub fn from_rejection(why: RejectReason) -> Self {
        Self {
            rejected: Some(why),
            ..Self::default()
        }
    }

    /// Returns statistics of its times, or `None` if it is rejected or has none.
    #[must_use]
    pub fn spread(&self) -> Option<Spread> {
        if self.rejected.is_some() {
            return None;
        }
        Spread::from_times(&self.times)
    }

    /// Returns the median of its first `repeats` times, or `None` if it is rejected.
    #[must_use]
    pub fn median_of(&self, repeats: u32) -> Option<u64> {
        if self.rejected.is_some() {
            return None;
        }
        let first = self.times.get(..repeats as usize).unwrap_or(&self.times);
        super::spread::median(&mut first.to_vec())
    }
}
