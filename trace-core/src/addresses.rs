//! Address space maps: the contents of any address range, from all 48 bits down to one page.
//!
//! A query of a range costs a search and a few steps, whatever the number of mappings in it. For this, pieces in
//! ascending order carry a tree of summaries. A picture of any part costs in proportion to its size.

mod changes;
mod content;
pub mod hilbert;
mod map_runs;
mod owners;
mod pieces;
mod reverse_map;
#[cfg(test)]
mod tests;

pub use changes::last_changes;
pub use content::{Entropies, MAX_ENTROPY, page_entropy};
pub use map_runs::{Island, MapRun, MappedRuns, RightsSummary, find_islands};
pub use owners::{Owner, OwnerSummary, find_owners};
pub use pieces::{Piece, Pieces, Summary};
pub use reverse_map::{ReverseMap, ReverseMapping};

use crate::GpuVa;
use std::ops::Range;

/// A value of frames, such as [`last_changes`] and [`Entropies`] return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameValue {
    /// Physical frame numbers (address / 4096).
    pub frames: Range<u64>,
    /// Their value.
    pub value: u64,
}

/// A value of consecutive mapped pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueRun {
    /// First byte.
    pub va: GpuVa,
    /// Bytes.
    pub bytes: u64,
    /// Their value.
    pub value: u64,
}

/// Summary of the values in a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueSummary {
    /// Number of bytes with a value.
    pub bytes: u64,
    /// Minimum; `u64::MAX` if no byte has a value.
    pub min: u64,
    /// Maximum.
    pub max: u64,
    /// Sum of value times bytes.
    pub weighted: f64,
}

impl Default for ValueSummary {
    fn default() -> Self {
        Self {
            bytes: 0,
            min: u64::MAX,
            max: 0,
            weighted: 0.0,
        }
    }
}

impl ValueSummary {
    /// Returns the average value per byte, or `None` if no byte has one.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.weighted / self.bytes as f64)
    }
}

impl Summary for ValueSummary {
    fn join(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.weighted += other.weighted;
    }
}

impl Piece for ValueRun {
    type Summary = ValueSummary;

    fn start(&self) -> GpuVa {
        self.va
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn summarize(&self, bytes: u64) -> ValueSummary {
        ValueSummary {
            bytes,
            min: self.value,
            max: self.value,
            weighted: self.value as f64 * bytes as f64,
        }
    }
}

/// Converts values of frames to values of the addresses mapped to them. At most [`MappedRuns::MAX_RUNS`] pieces: the
/// flag is `true` if all are there.
#[must_use]
pub fn map_values(runs: &[MapRun], frames: &[FrameValue]) -> (Pieces<ValueRun>, bool) {
    let mut out: Vec<ValueRun> = Vec::new();
    for run in runs {
        let first = run.pa.frame();
        let end = first.saturating_add(run.pages);
        let from = frames.partition_point(|f| f.frames.end <= first);
        for f in frames.get(from..).unwrap_or_default() {
            if f.frames.start >= end {
                break;
            }
            let (a, b) = (f.frames.start.max(first), f.frames.end.min(end));
            let piece = ValueRun {
                va: run.va.saturating_add((a - first).saturating_mul(4096)),
                bytes: (b - a).saturating_mul(4096),
                value: f.value,
            };
            let full = out.len() >= MappedRuns::MAX_RUNS;
            match out.last_mut() {
                Some(last)
                    if last.value == piece.value && last.va.get().saturating_add(last.bytes) == piece.va.get() =>
                {
                    last.bytes = last.bytes.saturating_add(piece.bytes);
                }
                _ if full => return (Pieces::new(out), false),
                _ => out.push(piece),
            }
        }
    }
    (Pieces::new(out), true)
}
