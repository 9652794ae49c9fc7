//! The values that a register, or a field of it, had over the events of a recording: gathered, looked up, and summed up
//! so that a plot of any length costs what it shows.

mod pieces;
#[cfg(test)]
mod tests;

pub use pieces::Piece;

use crate::progress::{Cancelled, Progress};
use crate::recording::Recording;
use crate::registers::{Accesses, Field, RecordedRegisters};
use pieces::Block;

/// Accesses that are looked at between two looks at whether to stop.
const CHUNK: usize = 1 << 16;

/// Which accesses tell a value.
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
    /// All, in the order in which a person is offered them.
    pub const ALL: [Self; 3] = [Self::Both, Self::Reads, Self::Writes];

    /// In words.
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

/// Values in the order of their events.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// Rising.
    events: Vec<u32>,
    values: Vec<u64>,
    /// From the second step on, each block of which sums up [`pieces::FAN`] of the step below.
    steps: Vec<Vec<Block>>,
}

impl Values {
    /// Values with the events that told them, which rise. Where one list is longer than the other its rest counts for
    /// nothing.
    #[must_use]
    pub fn new(mut events: Vec<u32>, mut values: Vec<u64>) -> Self {
        let n = events.len().min(values.len());
        events.truncate(n);
        values.truncate(n);
        let steps = pieces::steps(&events, &values);
        Self { events, values, steps }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The values, in the order of their events.
    #[must_use]
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    /// The events that told them, rising.
    #[must_use]
    pub fn events(&self) -> &[u32] {
        &self.events
    }

    /// The smallest and the largest; `None` where there are none.
    #[must_use]
    pub fn range(&self) -> Option<(u64, u64)> {
        pieces::range(&self.values, &self.steps)
    }

    /// The last value told at or before an event, and the event that told it.
    #[must_use]
    pub fn at(&self, event: u64) -> Option<(u64, u64)> {
        let n = self.events.partition_point(|e| u64::from(*e) <= event).checked_sub(1)?;
        Some((u64::from(*self.events.get(n)?), *self.values.get(n)?))
    }
}

/// Gathers the values that a register had: what it held after each of its accesses that `which` takes. `accesses` are all
/// that it had. An access that touches a part of the register leaves the rest as accesses before
/// it told it, reads and writes alike, and 0 where none did. Of a field those accesses count that touch a bit of it, and
/// its values are its bits, shifted down to bit 0. Takes time by the number of events.
///
/// # Errors
/// [`Cancelled`].
pub fn collect(
    recording: &Recording,
    device: Option<RecordedRegisters>,
    register: u32,
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
                // No map knows the register: the access is all that tells.
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
