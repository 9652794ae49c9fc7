//! The events that access one register, packed to about one byte per access, and less where a driver polls. Lists of a
//! hundred million accesses fit in memory.
//!
//! An access is one number with 7 bits per byte (LEB128): the distance from the previous access, whether it writes, and
//! whether it repeats. A repeated access has one more byte with the number of repetitions. The start of each [`BLOCK`]
//! of accesses is stored separately, with its first event and the number of earlier writes. A lookup by index or event
//! is a search among the blocks and a walk through one.

#[cfg(test)]
mod tests;

use std::ops::Range;

/// Number of accesses of a block: the longest walk.
const BLOCK: usize = 256;

/// Maximum size of an access, bytes: a 32-bit distance with two flag bits, and the number of repetitions.
const LONGEST: usize = 6;

/// Flag bit of a write.
const WRITE: u64 = 1;
/// Flag bit of a repeated access.
const AGAIN: u64 = 2;

/// The start of a block.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// Its first event.
    first: u32,
    /// Its first byte.
    at: u32,
    /// Number of writes before it.
    writes: u32,
}

/// The events that access a register, in ascending order, and which of them are writes.
#[derive(Clone, Debug, Default)]
pub struct Accesses {
    bytes: Vec<u8>,
    blocks: Vec<Block>,
    /// Number of accesses.
    len: usize,
    /// Number of writes.
    writes: usize,
    /// The last event.
    last: u32,
    /// Offset of the last access, and its distance and flag; `None` if the next access cannot repeat it.
    open: Option<(u32, u64)>,
}

/// An access to a register: its event, and whether it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterAccess {
    /// The event of the access.
    pub event: u64,
    /// Whether it is a write.
    pub write: bool,
}

impl Accesses {
    /// Appends an access. Returns `false` without adding it if its event is not after the last one, or there is no room
    /// (events beyond 32 bits, or 4 GiB of accesses).
    pub fn push(&mut self, event: u64, write: bool) -> bool {
        let Ok(event) = u32::try_from(event) else { return false };
        if self.len > 0 && event <= self.last || self.bytes.len() > u32::MAX as usize - LONGEST {
            return false;
        }
        let mut distance = event - self.last;
        if self.len.is_multiple_of(BLOCK) {
            self.blocks.push(Block {
                first: event,
                at: self.bytes.len() as u32,
                writes: self.writes as u32,
            });
            (distance, self.open) = (0, None);
        }
        let number = u64::from(distance) << 2 | if write { WRITE } else { 0 };
        match self.open {
            Some((at, same)) if same == number => self.again(at as usize),
            _ => {
                self.open = Some((self.bytes.len() as u32, number));
                let mut left = number;
                while left >= 0x80 {
                    self.bytes.push(left as u8 | 0x80);
                    left >>= 7;
                }
                self.bytes.push(left as u8);
            }
        }
        self.len += 1;
        self.writes += usize::from(write);
        self.last = event;
        true
    }

    /// Repeats the last access, which starts at byte `at`.
    fn again(&mut self, at: usize) {
        let comes_again = self.bytes.get(at).is_some_and(|b| u64::from(*b) & AGAIN != 0);
        if !comes_again {
            if let Some(first) = self.bytes.get_mut(at) {
                *first |= AGAIN as u8;
            }
            self.bytes.push(0);
        }
        // It fits: a block has at most 256 accesses, and the repeated one is one of them.
        if let Some(times) = self.bytes.last_mut() {
            *times = times.saturating_add(1);
        }
    }

    /// Frees the memory that pushing reserved in advance.
    pub fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.blocks.shrink_to_fit();
    }

    /// Returns its memory size, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.capacity() + self.blocks.capacity() * size_of::<Block>()
    }

    /// Returns the number of accesses.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no accesses.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns all accesses.
    #[must_use]
    pub fn all(&self) -> AccessList<'_> {
        AccessList {
            of: self,
            writes: false,
        }
    }

    /// Returns the writes.
    #[must_use]
    pub fn writes(&self) -> AccessList<'_> {
        AccessList { of: self, writes: true }
    }

    /// Returns the accesses from index `place` on.
    #[must_use]
    pub fn iter_from(&self, place: usize) -> Iter<'_> {
        let block = place / BLOCK;
        let mut walk = Iter::at_block(self, block);
        for _ in 0..place - block * BLOCK {
            if walk.next().is_none() {
                break;
            }
        }
        walk
    }

    /// Returns all accesses in ascending order.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter::at_block(self, 0)
    }

    /// Returns a cursor that finds the last access before each of several ascending events.
    #[must_use]
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor { of: self, block: 0 }
    }

    /// Returns the number of accesses and writes before an event.
    fn before(&self, event: u64) -> (usize, usize) {
        let Some(block) = self
            .blocks
            .partition_point(|b| u64::from(b.first) < event)
            .checked_sub(1)
        else {
            return (0, 0);
        };
        let writes = self.blocks.get(block).map_or(0, |b| b.writes as usize);
        let mut found = (block * BLOCK, writes);
        // Up to the next block's first event, which is not before the requested one.
        for a in Iter::at_block(self, block).take(BLOCK).take_while(|a| a.event < event) {
            found = (found.0 + 1, found.1 + usize::from(a.write));
        }
        found
    }
}

impl<'a> IntoIterator for &'a Accesses {
    type Item = RegisterAccess;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl FromIterator<(u64, bool)> for Accesses {
    /// Builds the list from events and their write flags. Events that are not ascending are left out.
    fn from_iter<T: IntoIterator<Item = (u64, bool)>>(from: T) -> Self {
        let mut out = Self::default();
        for (event, write) in from {
            out.push(event, write);
        }
        out.shrink();
        out
    }
}

/// All accesses to a register, or its writes only, as a list of ascending events.
#[derive(Clone, Copy, Debug)]
pub struct AccessList<'a> {
    of: &'a Accesses,
    writes: bool,
}

impl<'a> AccessList<'a> {
    /// Returns the number of events.
    #[must_use]
    pub fn len(self) -> usize {
        if self.writes { self.of.writes } else { self.of.len }
    }

    /// Whether there are no events.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the event at an index of the list.
    #[must_use]
    pub fn get(self, place: usize) -> Option<u64> {
        if place >= self.len() {
            return None;
        }
        if !self.writes {
            return Some(self.of.iter_from(place).next()?.event);
        }
        let block = self
            .of
            .blocks
            .partition_point(|b| b.writes as usize <= place)
            .checked_sub(1)?;
        let skip = place - self.of.blocks.get(block)?.writes as usize;
        let mut written = Iter::at_block(self.of, block).filter(|a| a.write);
        written.nth(skip).map(|a| a.event)
    }

    /// Returns the first event.
    #[must_use]
    pub fn first(self) -> Option<u64> {
        self.get(0)
    }

    /// Returns the last event.
    #[must_use]
    pub fn last(self) -> Option<u64> {
        self.get(self.len().checked_sub(1)?)
    }

    /// Returns the number of events before an event: the index of the first one at it or after it.
    #[must_use]
    pub fn count_before(self, event: u64) -> usize {
        let (all, writes) = self.of.before(event);
        if self.writes { writes } else { all }
    }

    /// Returns the number of events up to and including an event.
    #[must_use]
    pub fn count_until(self, event: u64) -> usize {
        self.count_before(event.saturating_add(1))
    }

    /// Returns the first event within a range of events.
    #[must_use]
    pub fn first_in(self, range: Range<u64>) -> Option<u64> {
        self.get(self.count_before(range.start)).filter(|e| *e < range.end)
    }

    /// Returns the neighbours of an event: the last before it, and the first at it or after it.
    #[must_use]
    pub fn neighbors(self, event: u64) -> [Option<u64>; 2] {
        let n = self.count_before(event);
        [n.checked_sub(1).and_then(|n| self.get(n)), self.get(n)]
    }

    /// Whether an event is in the list.
    #[must_use]
    pub fn contains(self, event: u64) -> bool {
        self.first_in(event..event.saturating_add(1)).is_some()
    }

    /// Returns the events in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u64> + 'a {
        self.of.iter().filter(move |a| a.write || !self.writes).map(|a| a.event)
    }
}

/// A search for accesses at ascending events. Each search starts where the previous one ended, so that close events
/// cost little.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    of: &'a Accesses,
    block: usize,
}

impl Cursor<'_> {
    /// Returns the last access before an event, with its index among all accesses. The event must not be before that of
    /// the previous call.
    pub fn last_before(&mut self, event: u64) -> Option<(usize, RegisterAccess)> {
        let blocks = self.of.blocks.get(self.block..).unwrap_or_default();
        let begun = gallop(blocks, |b| u64::from(b.first) < event);
        self.block += begun.checked_sub(1)?;
        let within = Iter::at_block(self.of, self.block).take(BLOCK);
        let (place, last) = within.take_while(|a| a.event < event).enumerate().last()?;
        Some((self.block * BLOCK + place, last))
    }
}

/// Returns the number of leading items that satisfy `holds`, as `partition_point` does, in time logarithmic in that
/// number instead of the list's length.
pub(crate) fn gallop<T>(items: &[T], holds: impl Fn(&T) -> bool) -> usize {
    let mut step = 1;
    while items.get(step - 1).is_some_and(&holds) {
        step = step.saturating_mul(2);
    }
    let from = step / 2;
    let rest = items.get(from..step.min(items.len())).unwrap_or_default();
    from + rest.partition_point(holds)
}

/// An iterator over accesses in order.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    bytes: &'a [u8],
    blocks: std::slice::Iter<'a, Block>,
    /// Number of accesses left in the block.
    left: usize,
    /// Number of accesses left in total.
    rest: usize,
    event: u32,
    /// The last access read, and its remaining repetitions.
    number: u64,
    again: u8,
}

impl<'a> Iter<'a> {
    fn at_block(of: &'a Accesses, block: usize) -> Self {
        let blocks = of.blocks.get(block..).unwrap_or_default();
        let at = blocks.first().map_or(of.bytes.len(), |b| b.at as usize);
        Self {
            bytes: of.bytes.get(at..).unwrap_or_default(),
            blocks: blocks.iter(),
            left: 0,
            rest: of.len.saturating_sub(block.saturating_mul(BLOCK)),
            event: 0,
            number: 0,
            again: 0,
        }
    }

    /// Reads the next packed access.
    fn read(&mut self) -> Option<()> {
        let (mut number, mut shift) = (0u64, 0u32);
        loop {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                break;
            }
            shift += 7;
        }
        if number & AGAIN != 0 {
            let (times, rest) = self.bytes.split_first()?;
            (self.again, self.bytes) = (*times, rest);
        }
        self.number = number;
        Some(())
    }
}

impl Iterator for Iter<'_> {
    type Item = RegisterAccess;

    fn next(&mut self) -> Option<RegisterAccess> {
        if self.left == 0 {
            self.event = self.blocks.next()?.first;
            self.left = BLOCK;
        }
        match self.again.checked_sub(1) {
            Some(again) => self.again = again,
            None => self.read()?,
        }
        self.left -= 1;
        self.rest = self.rest.saturating_sub(1);
        self.event = self.event.wrapping_add((self.number >> 2) as u32);
        Some(RegisterAccess {
            event: u64::from(self.event),
            write: self.number & WRITE != 0,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.rest, Some(self.rest))
    }
}

impl ExactSizeIterator for Iter<'_> {}
