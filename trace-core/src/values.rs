//! The values of a register, or of a field of it, over the events of a recording: collected, looked up, and summarised.
//! The cost of a plot depends on its size only.

mod pieces;
#[cfg(test)]
mod tests;

pub use pieces::Piece;

use crate::RegOffset;
use crate::progress::{Cancelled, Progress};
use crate::recording::Recording;
use crate::registers::{Accesses, Field, RecordedRegisters};
use pieces::Block;

/// Number of accesses between two checks for cancellation.
const CHUNK: usize = 1 << 16;

/// The accesses that give a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AccessFilter {
    /// Reads and writes.
    #[default]
    Both,
    /// Reads alone.
    Reads,
    /// Writes alone.
    Writes,
}

impl AccessFilter {
    /// All filters, in the order of the user interface.
    pub const ALL: [Self; 3] = [Self::Both, Self::Reads, Self::Writes];

    /// Returns a description.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Both => "reads and writes",
            Self::Reads => "reads",
            Self::Writes => "writes",
        }
    }

    fn includes(self, write: bool) -> bool {
        match self {
            Self::Both => true,
            Self::Reads => !write,
            Self::Writes => write,
        }
    }
}

/// Values in event order.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// Events, ascending.
    events: Vec<u32>,
    values: Vec<u64>,
    /// Summaries from the second level on; each block covers [`pieces::FAN`] items of the level below.
    steps: Vec<Vec<Block>>,
}

impl Values {
    /// Creates values from events, which must ascend, and their values. The excess of the longer list is ignored.
    #[must_use]
    pub fn new(mut events: Vec<u32>, mut values: Vec<u64>) -> Self {
        let n = events.len().min(values.len());
        events.truncate(n);
        values.truncate(n);
        let steps = pieces::steps(&events, &values);
        Self { events, values, steps }
    }

    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the values, in the order of their events.
    #[must_use]
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    /// Returns the events of the values, ascending.
    #[must_use]
    pub fn events(&self) -> &[u32] {
        &self.events
    }

    /// Returns the minimum and maximum, or `None` if there are no values.
    #[must_use]
    pub fn range(&self) -> Option<(u64, u64)> {
        pieces::range(&self.values, &self.steps)
    }

    /// Returns the last value at or before an event, and its event.
    #[must_use]
    pub fn at(&self, event: u64) -> Option<(u64, u64)> {
        let n = self.events.partition_point(|e| u64::from(*e) <= event).checked_sub(1)?;
        Some((u64::from(*self.events.get(n)?), *self.values.get(n)?))
    }
}

/// Collects the values of a register: its value after each access selected by `which`. `accesses` are all accesses to
/// it. After an access to a part of the register, the rest has the values of earlier accesses, reads and writes, or 0
/// if there were none. For a field, only accesses that touch a bit of it count, and its values are its bits, shifted
/// down to bit 0. Time depends on the number of events.
///
/// # Errors
///
/// [`Cancelled`].
pub fn collect(
    recording: &Recording,
    device: Option<RecordedRegisters>,
    register: RegOffset,
    field: Option<&Field>,
    accesses: &Accesses,
    which: AccessFilter,
    progress: &Progress,
) -> Result<Values, Cancelled> {
    progress.set_total(accesses.len() as u64);
    let bits = field.map_or(u64::MAX, |f| f.insert(0, u64::MAX));
    let (mut told_by, mut entries) = (Vec::new(), Vec::new());
    let mut held = 0;
    let mut walk = accesses.iter();
    while walk.len() > 0 {
        let chunk = walk.len().min(CHUNK);
        for event in walk.by_ref().take(chunk).map(|a| a.event as usize) {
            let Some(access) = recording.events.access(event) else {
                continue;
            };
            let part = device.filter(|d| d.space() == access.space).and_then(|d| {
                d.map()
                    .covered_registers(access.offset, access.width)
                    .find(|p| p.register.offset == register)
            });
            let mask = part.as_ref().map_or(u64::MAX, |p| p.mask());
            held = match &part {
                Some(p) => held & !mask | p.bits(access.value),
                // No map knows the register: only the access itself is known.
                None => access.value,
            };
            if which.includes(access.write) && mask & bits != 0 {
                told_by.push(event as u32);
                entries.push(field.map_or(held, |f| f.extract(held)));
            }
        }
        progress.advance(chunk as u64)?;
    }
    Ok(Values::new(told_by, entries))
}
