//! Who wrote a byte: copies and fills for certain, launches where a board saw them change it, otherwise the launches
//! that had an address in its buffer, the last first.

use super::rows::{Rows, written_rows};
use super::{BufferLocation, BufferReference, Calls, ContentState, GAPS, ReferenceKind, copy_at};
use crate::recording::{CopyKind, Recording};
use std::ops::Range;

/// Maximum number of launches that are told.
const MAX_LAUNCHES: usize = 1000;

/// What wrote a byte for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertainWriter {
    /// A copy from the host.
    Copy,
    /// A fill.
    Fill,
    /// A copy on the device, from this address.
    CopyFrom(u64),
}

/// A launch that may have written a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PossibleWriter {
    /// Its event.
    pub event: u64,
    /// The launch, an index into [`Calls::launches`].
    pub launch: u32,
    /// How it has the buffer's address.
    pub reference: ReferenceKind,
}

/// A launch that changed a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteChange {
    /// Its event.
    pub event: u64,
    /// The launch, an index into [`Calls::launches`].
    pub launch: u32,
    /// The byte before it.
    pub before: u8,
    /// The byte behind it.
    pub after: u8,
}

/// Who wrote a byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWriter {
    /// The address.
    pub address: u64,
    /// The place in a buffer; `None`: in none that the recording tells of.
    pub location: Option<BufferLocation>,
    /// The byte, where it is known, and from where.
    pub state: ContentState,
    /// Its value, where it is known.
    pub byte: Option<u8>,
    /// The last copy or fill that wrote it, with its event.
    pub certain: Option<(u64, CertainWriter)>,
    /// The last launch since then that changed it, as a board saw it or the recorder took it down.
    pub change: Option<ByteChange>,
    /// The byte is another one than that launch left, and none is in doubt: what changed it since is not recorded, or
    /// this launch leaves something else each time.
    pub unrecorded: bool,
    /// Launches since these that may have written it, the last one first; [`MAX_LAUNCHES`] at most.
    pub launches: Vec<PossibleWriter>,
    /// Launches since these that are not in doubt, with an address in the buffer: they left the byte as it was.
    pub excluded: u64,
    /// Launches since these that have an address in the buffer and by their signature do not write through it.
    pub readers: u64,
    /// Launches since these, not watched, whose arguments name the buffer in no way: only an address that they found in
    /// memory could lead them there.
    pub others: u64,
    /// The event that took the memory; `None`: it was there before.
    pub allocated_at: Option<u64>,
}

/// Where a list of launches that rises has the events of a range.
fn launches_within<'a>(calls: &Calls, list: &'a [BufferReference], events: &Range<u64>) -> &'a [BufferReference] {
    let at = |event: u64| list.partition_point(|r| calls.launch_event(r.launch) < event);
    list.get(at(events.start)..at(events.end)).unwrap_or_default()
}

impl Calls {
    /// Launches of the module that a variable is of; none for other buffers.
    fn module_launches(&self, buffer: u32, events: &Range<u64>) -> &[u32] {
        let module = self.buffers.get(buffer).and_then(|b| b.module);
        let list = module.and_then(|m| self.by_module.get(m as usize));
        let list = list.map_or(&[][..], Vec::as_slice);
        let at = |event: u64| list.partition_point(|l| self.launch_event(*l) < event);
        list.get(at(events.start)..at(events.end)).unwrap_or_default()
    }

    fn buffer_references(&self, buffer: u32) -> (&[BufferReference], &[BufferReference]) {
        let t = self.touching.get(buffer as usize);
        t.map_or((&[], &[]), |t| (t.write.as_slice(), t.read.as_slice()))
    }

    /// The last launch among some events that may have written a buffer.
    #[must_use]
    pub fn find_last_possible_writer(&self, buffer: u32, events: Range<u64>) -> Option<BufferReference> {
        self.find_last_writer_where(buffer, events, |_| true)
    }

    /// As [`Calls::find_last_possible_writer`], of the launches that are wanted.
    pub(super) fn find_last_writer_where(
        &self,
        buffer: u32,
        events: Range<u64>,
        wanted: impl Fn(u32) -> bool,
    ) -> Option<BufferReference> {
        let named = launches_within(self, self.buffer_references(buffer).0, &events);
        let named = named.iter().rev().copied().find(|r| wanted(r.launch));
        let module = self.module_launches(buffer, &events).iter().rev().copied();
        later(named, module.into_iter().find(|l| wanted(*l)), |a, b| a >= b)
    }

    /// The first launch among some events that may write a buffer.
    #[must_use]
    pub fn find_first_possible_writer(&self, buffer: u32, events: Range<u64>) -> Option<BufferReference> {
        self.find_first_writer_where(buffer, events, |_| true)
    }

    /// As [`Calls::find_first_possible_writer`], of the launches that are wanted.
    pub(super) fn find_first_writer_where(
        &self,
        buffer: u32,
        events: Range<u64>,
        wanted: impl Fn(u32) -> bool,
    ) -> Option<BufferReference> {
        let named = launches_within(self, self.buffer_references(buffer).0, &events);
        let named = named.iter().copied().find(|r| wanted(r.launch));
        let module = self.module_launches(buffer, &events).iter().copied();
        later(named, module.into_iter().find(|l| wanted(*l)), |a, b| a <= b)
    }

    /// Launches among some events that have the address of a buffer and may write it, the last one first.
    pub fn possible_writers(&self, buffer: u32, events: Range<u64>) -> impl Iterator<Item = BufferReference> + '_ {
        let mut named = launches_within(self, self.buffer_references(buffer).0, &events)
            .iter()
            .rev()
            .copied()
            .peekable();
        let mut module = self.module_launches(buffer, &events).iter().rev().copied().peekable();
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
    pub fn readers(&self, buffer: u32, events: Range<u64>) -> &[BufferReference] {
        launches_within(self, self.buffer_references(buffer).1, &events)
    }

    /// Who wrote a byte, as it stands before an event happens.
    #[must_use]
    pub fn find_last_writer(&self, recording: &Recording, address: u64, event: u64) -> LastWriter {
        let place = self.buffers.locate(address, event);
        let buffer = place.and_then(|p| self.buffers.get(p.buffer));
        let since = buffer.map_or(0, |b| b.from);
        let certain = self.find_last_write(recording, address, since..event);
        let behind = certain.map_or(since, |(e, _)| e + 1);
        let read = self.read(recording, address..address.saturating_add(1), event);
        let state = read
            .pieces
            .first()
            .map_or(ContentState::Unknown(super::UnknownReason::NotAllocated, 0), |p| {
                p.state
            });
        let since = behind;
        let (changed, unlooked) = match self.find_last_change(recording, address, behind..event) {
            Ok(changed) => (changed, None),
            Err(unlooked) => (None, Some(unlooked)),
        };
        let behind = changed.map_or(unlooked.unwrap_or(behind), |c| c.event + 1);
        let mut doubt = self.find_uncertain_events(address, behind..event);
        // What was not looked through is in doubt, whatever is known of it.
        doubt.splice(0..0, unlooked.map(|event| since..event));
        let (mut launches, mut writers, mut readers, mut others) = (Vec::new(), 0u64, 0u64, 0u64);
        for part in doubt.into_iter().rev() {
            let all = self.launches_in(part.clone()).len() as u64;
            let (mut write, mut read) = (0u64, 0);
            if let Some(p) = place {
                for r in self.possible_writers(p.buffer, part.clone()) {
                    write += 1;
                    if launches.len() < MAX_LAUNCHES {
                        launches.push(PossibleWriter {
                            event: self.launch_event(r.launch),
                            launch: r.launch,
                            reference: r.kind,
                        });
                    }
                }
                read = self.readers(p.buffer, part).len() as u64;
                others += all.saturating_sub(write + read);
            } else {
                others += all;
            }
            (writers, readers) = (writers + write, readers + read);
        }
        let behind = if unlooked.is_some() { since } else { behind };
        let reached = place.map_or(0, |p| self.possible_writers(p.buffer, behind..event).count() as u64);
        let byte = read.bytes.first().copied().filter(|_| state.is_known());
        // With nobody in doubt the byte is what the last launch left, or something that is not recorded came between.
        let unrecorded = launches.is_empty() && changed.zip(byte).is_some_and(|(c, byte)| c.after != byte);
        LastWriter {
            address,
            location: place,
            byte,
            state,
            certain,
            change: changed,
            unrecorded,
            launches,
            excluded: reached.saturating_sub(writers),
            readers,
            others,
            allocated_at: buffer.filter(|b| b.kind.is_allocated()).map(|b| b.from),
        }
    }

    /// The last launch among some events that is known to have changed a byte.
    ///
    /// # Errors
    /// The event before which nobody looked further.
    fn find_last_change(
        &self,
        recording: &Recording,
        address: u64,
        events: Range<u64>,
    ) -> Result<Option<ByteChange>, u64> {
        let seen = self.find_last_traced_change(address, events.clone());
        let taken = self.find_last_recorded_change(recording, address, events);
        let taken = match (taken, seen) {
            // A later one is known all the same.
            (Err(unlooked), Some(seen)) if seen.0 >= unlooked => None,
            (Err(unlooked), _) => return Err(unlooked),
            (Ok(taken), _) => taken,
        };
        let last = seen.into_iter().chain(taken).max_by_key(|c| c.0);
        Ok(last.and_then(|(event, was, is)| {
            let launch = self.launch_at(event)?;
            Some(ByteChange {
                event,
                launch,
                before: was,
                after: is,
            })
        }))
    }

    /// Launches among some events that are known to have changed a byte, the last one first, so many at most.
    #[must_use]
    pub fn list_changes(
        &self,
        recording: &Recording,
        address: u64,
        events: Range<u64>,
        most: usize,
    ) -> Vec<ByteChange> {
        let (mut found, mut left) = (Vec::new(), events);
        while found.len() < most
            && let Ok(Some(c)) = self.find_last_change(recording, address, left.clone())
        {
            left.end = c.event;
            found.push(c);
        }
        found
    }

    /// The last copy or fill among some events that wrote a byte.
    #[must_use]
    pub fn find_last_write(
        &self,
        recording: &Recording,
        address: u64,
        events: Range<u64>,
    ) -> Option<(u64, CertainWriter)> {
        let covers = |event| written_rows(&recording.events, event).is_some_and(|r| r.locate(address).is_some());
        let found = self
            .writes
            .last(address, events, |e| e.tag & GAPS == 0 || covers(e.event))?;
        Some((found.event, self.writer(recording, found.event, address)))
    }

    /// How an event writes an address.
    fn writer(&self, recording: &Recording, event: u64, address: u64) -> CertainWriter {
        let Some(row) = copy_at(&recording.events, event) else {
            return CertainWriter::Fill;
        };
        let origin = || {
            let (n, offset) = Rows::from_destination(&row).locate(address)?;
            row.from
                .checked_add(n.checked_mul(row.from_pitch)?)?
                .checked_add(offset)
        };
        match CopyKind::from_raw(row.kind) {
            Some(CopyKind::DeviceToDevice) => origin().map_or(CertainWriter::Copy, CertainWriter::CopyFrom),
            _ => CertainWriter::Copy,
        }
    }

    /// Copies and fills that write a byte among some events, in order, about `most` of them, the last ones.
    #[must_use]
    pub fn list_writes(
        &self,
        recording: &Recording,
        address: u64,
        events: Range<u64>,
        most: usize,
    ) -> Vec<(u64, CertainWriter)> {
        let found = self.writes.list(address, events, most).into_iter();
        let covered = found
            .filter(|e| e.tag & GAPS == 0 || self.find_last_write(recording, address, e.event..e.event + 1).is_some());
        covered
            .map(|e| (e.event, self.writer(recording, e.event, address)))
            .collect()
    }

    /// Copies from there and pieces of snapshots that read a byte among some events, in order, about `most` of them,
    /// the last ones.
    #[must_use]
    pub fn list_reads(&self, recording: &Recording, address: u64, events: Range<u64>, most: usize) -> Vec<u64> {
        let covers = |event: u64| {
            copy_at(&recording.events, event).is_some_and(|row| Rows::from_source(&row).locate(address).is_some())
        };
        let found = self.seen.list(address, events, most).into_iter();
        found
            .filter(|e| e.tag & GAPS == 0 || covers(e.event))
            .map(|e| e.event)
            .collect()
    }
}

/// Of a launch that names a buffer and one of its module the one that comes first by `before`; of one launch the way by
/// name counts.
fn later(
    named: Option<BufferReference>,
    module: Option<u32>,
    before: impl Fn(u32, u32) -> bool,
) -> Option<BufferReference> {
    let variable = |launch| BufferReference {
        launch,
        kind: ReferenceKind::Variable,
    };
    match (named, module) {
        (Some(n), Some(m)) if before(n.launch, m) => Some(n),
        (_, Some(m)) => Some(variable(m)),
        (n, None) => n,
    }
}
