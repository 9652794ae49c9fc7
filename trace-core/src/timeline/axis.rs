//! The timeline axis: the position of an event by order, by true time, or by time with compressed idle gaps.
//!
//! Times are stored for blocks of events only: the latest time before each block, and the time cut from gaps before it.
//! Within a block the recorded times are read. A position costs one search among blocks and a scan of one block,
//! however long the recording is.

use crate::recording::Column;
use serde::{Deserialize, Serialize};

/// Number of events in a block.
pub(super) const BLOCK: usize = 128;
/// Longer gaps are compressed on [`AxisKind::Compressed`], in nanoseconds.
pub const MAX_GAP_NS: u64 = 2_000_000;
/// Length of a compressed gap, in nanoseconds.
pub const COMPRESSED_GAP_NS: u64 = 200_000;

/// The meaning of a timeline's horizontal axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AxisKind {
    /// Every event has the same width. Positions are events.
    #[default]
    Order,
    /// Time with compressed long idle gaps. Positions are nanoseconds.
    Compressed,
    /// True time. Positions are nanoseconds since the first event.
    Time,
}

impl AxisKind {
    /// All kinds, in the order of the user interface.
    pub const ALL: [Self; 3] = [Self::Order, Self::Compressed, Self::Time];

    /// Returns the kind's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Compressed => "compressed gaps",
            Self::Time => "true time",
        }
    }
}

/// The state of a walk along the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AxisState {
    /// Latest time so far, in nanoseconds since the first event: if the clock runs backwards, an event has the latest
    /// earlier time.
    latest: u64,
    /// Nanoseconds cut from gaps so far.
    cut: u64,
}

impl AxisState {
    /// Advances to an event at this time since the first one.
    fn step(self, since_first: u64) -> Self {
        let latest = since_first.max(self.latest);
        let gap = latest - self.latest;
        let cut = if gap > MAX_GAP_NS { gap - COMPRESSED_GAP_NS } else { 0 };
        Self {
            latest,
            cut: self.cut.saturating_add(cut),
        }
    }

    fn position(self, kind: AxisKind) -> u64 {
        match kind {
            AxisKind::Compressed => self.latest.saturating_sub(self.cut),
            AxisKind::Order | AxisKind::Time => self.latest,
        }
    }
}

/// The positions of a recording's events. Cloning is cheap and shares the columns.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    time: Column<u64>,
    first: u64,
    /// For each block and one past the last: [`AxisState::latest`] before it.
    pub(super) latest: Column<u64>,
    /// The same for [`AxisState::cut`].
    pub(super) cut: Column<u64>,
}

impl Axis {
    /// Creates the axis of events with these times.
    #[must_use]
    pub fn new(time: Column<u64>) -> Self {
        let first = time.get(0).unwrap_or(0);
        let blocks = time.len().div_ceil(BLOCK) + 1;
        let (mut latest, mut cut) = (Vec::with_capacity(blocks), Vec::with_capacity(blocks));
        let mut at = AxisState::default();
        let mut in_block = 0;
        for t in time.iter() {
            if in_block == 0 {
                latest.push(at.latest);
                cut.push(at.cut);
            }
            in_block = (in_block + 1) % BLOCK;
            at = at.step(t.saturating_sub(first));
        }
        latest.push(at.latest);
        cut.push(at.cut);
        Self {
            time,
            first,
            latest: latest.into(),
            cut: cut.into(),
        }
    }

    /// Creates the axis of these times with blocks computed before. Returns `None` if their number does not fit.
    pub(super) fn from_blocks(time: Column<u64>, latest: Column<u64>, cut: Column<u64>) -> Option<Self> {
        let rows = time.len().div_ceil(BLOCK) + 1;
        let first = time.get(0).unwrap_or(0);
        (latest.len() == rows && cut.len() == rows).then_some(Self {
            time,
            first,
            latest,
            cut,
        })
    }

    /// Returns the number of events.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.time.len() as u64
    }

    /// Whether there are no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    fn before_block(&self, block: usize) -> AxisState {
        AxisState {
            latest: self.latest.get(block).unwrap_or(0),
            cut: self.cut.get(block).unwrap_or(0),
        }
    }

    /// Returns the state of the walk at an event, or at the last one if there are fewer.
    fn at(&self, event: u64) -> AxisState {
        let Some(last) = self.time.len().checked_sub(1) else {
            return AxisState::default();
        };
        let event = usize::try_from(event).unwrap_or(usize::MAX).min(last);
        let block = event / BLOCK;
        self.time
            .iter_range(block * BLOCK..event + 1)
            .fold(self.before_block(block), |at, t| at.step(t.saturating_sub(self.first)))
    }

    /// Returns the nanoseconds from the first event to this one, never decreasing.
    #[must_use]
    pub fn ns(&self, event: u64) -> u64 {
        self.at(event).latest
    }

    /// Returns the position of an event.
    #[must_use]
    pub fn position(&self, kind: AxisKind, event: u64) -> f64 {
        match kind {
            AxisKind::Order => event as f64,
            _ => self.at(event).position(kind) as f64,
        }
    }

    /// Returns the first event at or after a position, or the number of events if there is none.
    #[must_use]
    pub fn event_at(&self, kind: AxisKind, position: f64) -> u64 {
        let wanted = position.ceil().max(0.0) as u64;
        if kind == AxisKind::Order || wanted == 0 {
            return wanted.min(self.len());
        }
        // The event is in the first block whose end reaches the position.
        let (mut low, mut high) = (0, self.time.len().div_ceil(BLOCK));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.before_block(middle + 1).position(kind) < wanted {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let mut at = self.before_block(low);
        let mut event = low * BLOCK;
        for t in self.time.iter_range(event..event + BLOCK) {
            at = at.step(t.saturating_sub(self.first));
            if at.position(kind) >= wanted {
                break;
            }
            event += 1;
        }
        (event as u64).min(self.len())
    }

    /// Returns the event nearest to a position.
    #[must_use]
    pub fn nearest(&self, kind: AxisKind, position: f64) -> u64 {
        let at = self.event_at(kind, position).min(self.len().saturating_sub(1));
        let before = at.saturating_sub(1);
        let (a, b) = (self.position(kind, before), self.position(kind, at));
        if (position - a).abs() < (b - position).abs() {
            before
        } else {
            at
        }
    }

    /// Returns the position one past the last event.
    #[must_use]
    pub fn end(&self, kind: AxisKind) -> f64 {
        match kind {
            AxisKind::Order => self.len().max(1) as f64,
            _ => (self.position(kind, self.len().saturating_sub(1)) * 1.001).max(1_000.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns every position, computed by a walk from the first event.
    fn walk_positions(times: &[u64], kind: AxisKind) -> Vec<f64> {
        let mut at = AxisState::default();
        let walk = times.iter().enumerate().map(|(e, t)| {
            at = at.step(t.saturating_sub(times[0]));
            match kind {
                AxisKind::Order => e as f64,
                _ => at.position(kind) as f64,
            }
        });
        walk.collect()
    }

    #[test]
    fn positions_and_events_agree_on_every_axis() {
        let mut times = vec![5_000u64, 5_100, 5_050, 9_000_000, 9_000_100, 60_000_000, 60_000_001];
        for i in 0..1000u64 {
            let step = match i % 97 {
                0 => 7_000_000,
                n if n % 5 == 0 => 0,
                n => n * 31,
            };
            times.push(times.last().unwrap() + step);
            // The clock sometimes runs backwards.
            if i % 61 == 0 {
                times.push(times.last().unwrap() - 5_000);
            }
        }
        let axis = Axis::new(times.clone().into());
        for kind in AxisKind::ALL {
            let expected = walk_positions(&times, kind);
            for (e, p) in expected.iter().enumerate() {
                assert_eq!(axis.position(kind, e as u64), *p, "{kind:?} {e}");
                for position in [p - 0.5, *p, p + 0.5] {
                    let first = expected.iter().position(|x| *x >= position).unwrap_or(expected.len());
                    assert_eq!(axis.event_at(kind, position), first as u64, "{kind:?} at {position}");
                }
                assert_eq!(axis.position(kind, axis.nearest(kind, *p)), *p);
            }
            assert_eq!(axis.event_at(kind, axis.end(kind) + 1e12), axis.len());
        }
        assert_eq!(axis.ns(2), 100, "time never falls");
        assert_eq!(
            axis.position(AxisKind::Compressed, 6) as u64,
            100 + 200_000 + 100 + 200_000 + 1
        );
    }

    #[test]
    fn axis_without_events_maps_every_position_to_0() {
        let axis = Axis::new(Column::default());
        for kind in AxisKind::ALL {
            assert_eq!((axis.event_at(kind, 5.0), axis.ns(3)), (0, 0));
            assert!(axis.end(kind) > 0.0);
        }
    }
}
