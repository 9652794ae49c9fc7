//! An address space as a map: what lies where, asked of any range of it, from all 48 bits down to one page.
//!
//! A question about a range costs a search and a few steps, not the number of mappings in it: pieces in rising order
//! carry a tree of what they come to together. So a picture of any part costs what it shows.

mod changes;
mod content;
pub mod hilbert;
mod islands;
mod owners;
mod pieces;
mod places;
mod runs;
#[cfg(test)]
mod tests;

pub use changes::last_changes;
pub use content::{ENTROPY_MOST, Entropies, page_entropy};
pub use islands::{Island, islands};
pub use owners::{Owned, Owner, owners};
pub use pieces::{Piece, Pieces, Summary};
pub use places::{Place, Places};
pub use runs::{MapRun, RightsIn, Runs};

use crate::recording::GpuVa;
use std::ops::Range;

/// A value of pages: what [`last_changes`] and [`Entropies`] tell of frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameValue {
    /// Numbers of physical frames (address / 4096).
    pub frames: Range<u64>,
    /// Their value.
    pub value: u64,
}

/// A value of mapped pages, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Valued {
    /// First byte.
    pub va: GpuVa,
    /// Bytes.
    pub bytes: u64,
    /// Their value.
    pub value: u64,
}

/// What the values in a range come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Values {
    /// Bytes that have a value.
    pub bytes: u64,
    /// The least; `u64::MAX` where no byte has one.
    pub least: u64,
    /// The greatest.
    pub most: u64,
    /// Sum of value times bytes.
    pub weighted: f64,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            bytes: 0,
            least: u64::MAX,
            most: 0,
            weighted: 0.0,
        }
    }
}

impl Values {
    /// The value of a byte on average; `None` where no byte has one.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.weighted / self.bytes as f64)
    }
}

impl Summary for Values {
    fn join(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
        self.weighted += other.weighted;
    }
}

impl Piece for Valued {
    type Summary = Values;

    fn start(&self) -> u64 {
        self.va.0
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn of(&self, bytes: u64) -> Values {
        Values {
            bytes,
            least: self.value,
            most: self.value,
            weighted: self.value as f64 * bytes as f64,
        }
    }
}

/// Values of frames, told of the addresses that are mapped to them. At most [`Runs::MOST`] pieces: the flag says whether
/// all are there.
#[must_use]
pub fn values(runs: &[MapRun], frames: &[FrameValue]) -> (Pieces<Valued>, bool) {
    let mut out: Vec<Valued> = Vec::new();
    for run in runs {
        let first = run.pa.frame();
        let end = first.saturating_add(run.pages);
        let from = frames.partition_point(|f| f.frames.end <= first);
        for f in frames.get(from..).unwrap_or_default() {
            if f.frames.start >= end {
                break;
            }
            let (a, b) = (f.frames.start.max(first), f.frames.end.min(end));
            let piece = Valued {
                va: GpuVa(run.va.0.saturating_add((a - first).saturating_mul(4096))),
                bytes: (b - a).saturating_mul(4096),
                value: f.value,
            };
            let full = out.len() >= Runs::MOST;
            match out.last_mut() {
                Some(last) if last.value == piece.value && last.va.0.saturating_add(last.bytes) == piece.va.0 => {
                    last.bytes = last.bytes.saturating_add(piece.bytes);
                }
                _ if full => return (Pieces::new(out), false),
                _ => out.push(piece),
            }
        }
    }
    (Pieces::new(out), true)
}
