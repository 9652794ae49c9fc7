//! Who wrote a byte: copies and fills for certain, launches where a board saw them change it, otherwise the launches that
//! had an address in its buffer, the last first.

use super::rows::{Rows, written_rows};
use super::{Calls, GAPS, Place, Reach, Reached, State, copy_at};
use crate::recording::{CopyKind, Recording};
use std::ops::Range;

/// Most launches that are told.
const MOST: usize = 1000;

/// What wrote a byte for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// A copy from the host.
    Copy,
    /// A fill.
    Fill,
    /// A copy on the device, from this address.
    CopyFrom(u64),
}

/// A launch that may have written a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Toucher {
    /// Its event.
    pub event: u64,
    /// The launch, an index into [`Calls::launches`].
    pub launch: u32,
    /// How it has the buffer's address.
    pub reach: Reach,
}

/// A launch that changed a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Its event.
    pub event: u64,
    /// The launch, an index into [`Calls::launches`].
    pub launch: u32,
    /// The byte before it.
    pub was: u8,
    /// The byte behind it.
    pub is: u8,
}

/// Who wrote a byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The address.
    pub address: u64,
    /// The place in a buffer; `None`: in none that the recording tells of.
    pub place: Option<Place>,
    /// The byte, where it is known, and from where.
    pub state: State,
    /// Its value, where it is known.
    pub byte: Option<u8>,
    /// The last copy or fill that wrote it, with its event.
    pub certain: Option<(u64, Writer)>,
    /// The last launch since then that changed it, as a board saw it or the recorder took it down.
    pub changed: Option<Changed>,
    /// The byte is another one than that launch left, and none is in doubt: what changed it since is not recorded, or this
    /// launch leaves something else each time.
    pub unrecorded: bool,
    /// Launches since these that may have written it, the last one first; [`MOST`] at most.
    pub launches: Vec<Toucher>,
    /// Launches since these that are not in doubt, with an address in the buffer: they left the byte as it was.
    pub left: u64,
    /// Launches since these that have an address in the buffer and by their signature do not write through it.
    pub readers: u64,
    /// Launches since these, not watched, whose arguments name the buffer in no way: only an address that they found in memory could
    /// lead them there.
    pub others: u64,
    /// The event that took the memory; `None`: it was there before.
    pub taken: Option<u64>,
}

/// Where a list of launches that rises has the events of a range.
fn part<'a>(calls: &Calls, list: &'a [Reached], events: &Range<u64>) -> &'a [Reached] {
    let at = |event: u64| list.partition_point(|r| calls.launch_event(r.launch) < event);
    list.get(at(events.start)..at(events.end)).unwrap_or_default()
}

impl Calls {
    /// Launches of the module that a variable is of; none for other buffers.
    fn of_module(&self, buffer: u32, events: &Range<u64>) -> &[u32] {
        let module = self.buffers.get(buffer).and_then(|b| b.module);
        let list = module.and_then(|m| self.by_module.get(m as usize));
        let list = list.map_or(&[][..], Vec::as_slice);
        let at = |event: u64| list.partition_point(|l| self.launch_event(*l) < event);
        list.get(at(events.start)..at(events.end)).unwrap_or_default()
    }

    fn touching(&self, buffer: u32) -> (&[Reached], &[Reached]) {
        let t = self.touching.get(buffer as usize);
        t.map_or((&[], &[]), |t| (t.write.as_slice(), t.read.as_slice()))
    }

    /// The last launch among some events that may have written a buffer.
    #[must_use]
    pub fn last_touch(&self, buffer: u32, events: Range<u64>) -> Option<Reached> {
        let named = part(self, self.touching(buffer).0, &events).last().copied();
        let module = self.of_module(buffer, &events).last().copied();
        later(named, module, |a, b| a >= b)
    }

    /// The first launch among some events that may write a buffer.
    #[must_use]
    pub fn first_touch(&self, buffer: u32, events: Range<u64>) -> Option<Reached> {
        let named = part(self, self.touching(buffer).0, &events).first().copied();
        let module = self.of_module(buffer, &events).first().copied();
        later(named, module, |a, b| a <= b)
    }

    /// Launches among some events that have the address of a buffer and may write it, the last one first.
    pub fn writers_of(&self, buffer: u32, events: Range<u64>) -> impl Iterator<Item = Reached> + '_ {
        let mut named = part(self, self.touching(buffer).0, &events)
            .iter()
            .rev()
            .copied()
            .peekable();
        let mut module = self.of_module(buffer, &events).iter().rev().copied().peekable();
        std::iter::from_fn(move || {
            let (a, b) = (named.peek().copied(), module.peek().copied());
            let next = later(a, b, |a, b| a >= b)?;
            if a.is_some_and(|a| a.launch == next.launch) {
                named.next();
            }
            if b == Some(next.launch) {
                module.next();
            }
            Some(next)
        })
    }

    /// Launches among some events that have the address of a buffer and by their signature only read it, in order.
    #[must_use]
    pub fn readers_of(&self, buffer: u32, events: Range<u64>) -> &[Reached] {
        part(self, self.touching(buffer).1, &events)
    }

    /// Who wrote a byte, as it stands before an event happens.
    #[must_use]
    pub fn who(&self, recording: &Recording, address: u64, event: u64) -> Who {
        let place = self.buffers.at(address, event);
        let buffer = place.and_then(|p| self.buffers.get(p.buffer));
        let since = buffer.map_or(0, |b| b.from);
        let certain = self.wrote(recording, address, since..event);
        let behind = certain.map_or(since, |(e, _)| e + 1);
        let read = self.read(recording, address..address.saturating_add(1), event);
        let state = read
            .pieces
            .first()
            .map_or(State::Unknown(super::Why::NotTaken, 0), |p| p.state);
        let since = behind;
        let (changed, unlooked) = match self.changed(recording, address, behind..event) {
            Ok(changed) => (changed, None),
            Err(unlooked) => (None, Some(unlooked)),
        };
        let behind = changed.map_or(unlooked.unwrap_or(behind), |c| c.event + 1);
        let mut doubt = self.in_doubt(address, behind..event);
        // What was not looked through is in doubt, whatever is known of it.
        doubt.splice(0..0, unlooked.map(|event| since..event));
        let (mut launches, mut writers, mut readers, mut others) = (Vec::new(), 0u64, 0u64, 0u64);
        for part in doubt.into_iter().rev() {
            let all = self.launches_among(part.clone()).len() as u64;
            let (mut write, mut read) = (0u64, 0);
            if let Some(p) = place {
                for r in self.writers_of(p.buffer, part.clone()) {
                    write += 1;
                    if launches.len() < MOST {
                        launches.push(Toucher {
                            event: self.launch_event(r.launch),
                            launch: r.launch,
                            reach: r.reach,
                        });
                    }
                }
                read = self.readers_of(p.buffer, part).len() as u64;
                others += all.saturating_sub(write + read);
            } else {
                others += all;
            }
            (writers, readers) = (writers + write, readers + read);
        }
        let behind = if unlooked.is_some() { since } else { behind };
        let reached = place.map_or(0, |p| self.writers_of(p.buffer, behind..event).count() as u64);
        let byte = read.bytes.first().copied().filter(|_| state.is_known());
        // With nobody in doubt the byte is what the last launch left, or something that is not recorded came between.
        let unrecorded = launches.is_empty() && changed.zip(byte).is_some_and(|(c, byte)| c.is != byte);
        Who {
            address,
            place,
            byte,
            state,
            certain,
            changed,
            unrecorded,
            launches,
            left: reached.saturating_sub(writers),
            readers,
            others,
            taken: buffer.filter(|b| b.kind.is_taken()).map(|b| b.from),
        }
    }

    /// The last launch among some events that is known to have changed a byte.
    ///
    /// # Errors
    /// The event before which nobody looked further.
    fn changed(&self, recording: &Recording, address: u64, events: Range<u64>) -> Result<Option<Changed>, u64> {
        let seen = self.last_change(address, events.clone());
        let taken = self.last_taken_change(recording, address, events);
        let taken = match (taken, seen) {
            // A later one is known all the same.
            (Err(unlooked), Some(seen)) if seen.0 >= unlooked => None,
            (Err(unlooked), _) => return Err(unlooked),
            (Ok(taken), _) => taken,
        };
        let last = seen.into_iter().chain(taken).max_by_key(|c| c.0);
        Ok(last.and_then(|(event, was, is)| {
            let launch = self.launch_at(event)?;
            Some(Changed { event, launch, was, is })
        }))
    }

    /// Launches among some events that are known to have changed a byte, the last one first, so many at most.
    #[must_use]
    pub fn all_changes(&self, recording: &Recording, address: u64, events: Range<u64>, most: usize) -> Vec<Changed> {
        let (mut found, mut left) = (Vec::new(), events);
        while found.len() < most
            && let Ok(Some(c)) = self.changed(recording, address, left.clone())
        {
            left.end = c.event;
            found.push(c);
        }
        found
    }

    /// The last copy or fill among some events that wrote a byte.
    #[must_use]
    pub fn wrote(&self, recording: &Recording, address: u64, events: Range<u64>) -> Option<(u64, Writer)> {
        let covers = |event| written_rows(&recording.events, event).is_some_and(|r| r.place(address).is_some());
        let found = self
            .writes
            .last(address, events, |e| e.tag & GAPS == 0 || covers(e.event))?;
        Some((found.event, self.writer(recording, found.event, address)))
    }

    /// How an event writes an address.
    fn writer(&self, recording: &Recording, event: u64, address: u64) -> Writer {
        let Some(row) = copy_at(&recording.events, event) else {
            return Writer::Fill;
        };
        let origin = || {
            let (n, offset) = Rows::written(&row).place(address)?;
            row.from
                .checked_add(n.checked_mul(row.from_pitch)?)?
                .checked_add(offset)
        };
        match CopyKind::from_raw(row.kind) {
            Some(CopyKind::DeviceToDevice) => origin().map_or(Writer::Copy, Writer::CopyFrom),
            _ => Writer::Copy,
        }
    }

    /// Copies and fills that write a byte among some events, in order, about `most` of them, the last ones.
    #[must_use]
    pub fn all_writes(
        &self,
        recording: &Recording,
        address: u64,
        events: Range<u64>,
        most: usize,
    ) -> Vec<(u64, Writer)> {
        let found = self.writes.all(address, events, most).into_iter();
        let covered =
            found.filter(|e| e.tag & GAPS == 0 || self.wrote(recording, address, e.event..e.event + 1).is_some());
        covered
            .map(|e| (e.event, self.writer(recording, e.event, address)))
            .collect()
    }

    /// Copies from there and pieces of snapshots that read a byte among some events, in order, about `most` of them, the
    /// last ones.
    #[must_use]
    pub fn all_reads(&self, recording: &Recording, address: u64, events: Range<u64>, most: usize) -> Vec<u64> {
        let covers =
            |event: u64| copy_at(&recording.events, event).is_some_and(|row| Rows::read(&row).place(address).is_some());
        let found = self.seen.all(address, events, most).into_iter();
        found
            .filter(|e| e.tag & GAPS == 0 || covers(e.event))
            .map(|e| e.event)
            .collect()
    }
}

/// Of a launch that names a buffer and one of its module the one that comes first by `before`; of one launch the way by
/// name counts.
fn later(named: Option<Reached>, module: Option<u32>, before: impl Fn(u32, u32) -> bool) -> Option<Reached> {
    let variable = |launch| Reached {
        launch,
        reach: Reach::Variable,
    };
    match (named, module) {
        (Some(n), Some(m)) if before(n.launch, m) => Some(n),
        (_, Some(m)) => Some(variable(m)),
        (n, None) => n,
    }
}
