//! What came of one point.

use super::outputs::OutputMismatch;
use super::spread::Spread;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a function takes of a multiprocessor with a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// Registers a thread.
    pub registers: u32,
    /// Bytes of shared memory a block, its own and what is asked for beside it.
    pub shared: u32,
    /// Bytes of local memory a thread.
    pub local: u32,
    /// Blocks that a multiprocessor has at once; 0: not known.
    pub blocks: u32,
    /// Part of the threads that a multiprocessor can have, 0 to 1; 0: not known.
    pub occupancy: f32,
}

/// Why a point does not count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RejectReason {
    /// The code cannot be had with these bounds.
    Code {
        /// Why, in the compiler's or driver's words.
        why: String,
    },
    /// The driver refused the launch.
    Refused {
        /// What it answered.
        why: String,
    },
    /// It left something else in memory than it has to.
    Wrong(OutputMismatch),
    /// One launch took too long, and the point was given up.
    TooSlow {
        /// Nanoseconds that it took.
        took: u64,
        /// Nanoseconds that it may take.
        limit: u64,
    },
    /// The launch did not end; its process was ended instead.
    Stuck {
        /// Nanoseconds that were waited.
        waited: u64,
    },
    /// The device failed while it ran.
    Failed {
        /// What happened, in the driver's words.
        why: String,
    },
}

impl RejectReason {
    /// One or two words for a table.
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
            Self::Code { why } => write!(f, "the code cannot be had so: {}", why.trim()),
            Self::Refused { why } => write!(f, "the driver refused the launch: {}", why.trim()),
            Self::Wrong(w) => w.fmt(f),
            Self::TooSlow { took, limit } => write!(
                f,
                "one launch took {:.3} s, more than {:.3} s, and no further one was made",
                seconds(*took),
                seconds(*limit)
            ),
            Self::Stuck { waited } => write!(f, "it did not end within {:.1} s", seconds(*waited)),
            Self::Failed { why } => write!(f, "the device failed: {}", why.trim()),
        }
    }
}

/// What came of one point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measurement {
    /// Nanoseconds on the device of each timed launch, in order.
    pub times: Vec<u64>,
    /// What it takes of a multiprocessor, where that is known.
    pub resources: Option<Resources>,
    /// Why it does not count, when it does not.
    pub rejected: Option<RejectReason>,
}

impl Measurement {
    /// A point that does not count.
    #[must_use]
    pub fn from_rejection(why: RejectReason) -> Self {
        Self {
            rejected: Some(why),
            ..Self::default()
        }
    }

    /// Statistics of its times; `None` when it does not count, or has none.
    #[must_use]
    pub fn spread(&self) -> Option<Spread> {
        if self.rejected.is_some() {
            return None;
        }
        Spread::from_times(&self.times)
    }

    /// Median of its first times, so many of them; `None` when it does not count.
    pub(super) fn median_of(&self, repeats: u32) -> Option<u64> {
        if self.rejected.is_some() {
            return None;
        }
        let first = self.times.get(..repeats as usize).unwrap_or(&self.times);
        super::spread::median(&mut first.to_vec())
    }
}
