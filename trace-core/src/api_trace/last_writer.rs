//! The last writer of a byte: copies and fills for certain, launches if a target observed the change, otherwise the
//! launches that had an address in the byte's buffer, most recent first.

use super::rows::{GAPS, Rows, copy_at, written_rows};
use super::{ApiTrace, BufferLocation, BufferReference, ContentState, ReferenceKind};
use crate::GpuVa;
use crate::recording::{CopyKind, Recording};
use std::ops::Range;

/// Maximum number of launches listed.
const MAX_LAUNCHES: usize = 1000;

/// A certain writer of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertainWriter {
    /// A copy from the host.
    Copy,
    /// A fill.
    Fill,
    /// A copy on the device, from this address.
    CopyFrom(GpuVa),
}

/// A launch that may have written a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PossibleWriter {
    /// Event of the launch.
    pub event: u64,
    /// The launch, an index into [`ApiTrace::launches`].
    pub launch: u32,
    /// How the launch references the buffer.
    pub reference: ReferenceKind,
}

/// A launch that changed a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteChange {
    /// Event of the launch.
    pub event: u64,
    /// The launch, an index into [`ApiTrace::launches`].
    pub launch: u32,
    /// The byte before the launch.
    pub before: u8,
    /// The byte after the launch.
    pub after: u8,
}

/// The last writer of a byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWriter {
    /// The address.
    pub address: GpuVa,
    /// The location in a buffer; `None` if it is in no buffer known from the recording.
    pub location: Option<BufferLocation>,
    /// Whether the byte is known, and from which source.
    pub state: ContentState,
    /// The value of the byte, if it is known.
    pub byte: Option<u8>,
    /// The last copy or fill that wrote the byte, with its event.
    pub certain: Option<(u64, CertainWriter)>,
    /// The last later launch that changed the byte, as a target observed it or the recorder stored it.
    pub change: Option<ByteChange>,
    /// The byte differs from what that launch left, and no other launch is in doubt. Either an unrecorded writer
    /// changed it since, or the result of the launch varies between runs.
    pub unrecorded: bool,
    /// Later launches that may have written the byte, most recent first; at most [`MAX_LAUNCHES`].
    pub launches: Vec<PossibleWriter>,
    /// Later launches with an address in the buffer that are known to have left the byte unchanged.
    pub excluded: u64,
    /// Later launches that have an address in the buffer and do not write through it by their signature.
    pub readers: u64,
    /// Later untraced launches whose arguments do not reference the buffer. They can reach it only with an address
    /// that they load from memory.
    pub others: u64,
    /// The event that allocated the memory; `None` if it existed before the recording.
    pub allocated_at: Option<u64>,
}

/// Returns the part of a list sorted by launch whose events are in a range.
fn launches_within<'a>(
    api_trace: &ApiTrace,
    list: &'a [BufferReference],
    events: &Range<u64>,
) -> &'a [BufferReference] {
    let at = |event: u64| list.partition_point(|r| api_trace.launch_event(r.launch) < event);
    list.get(at(events.start)..at(events.end)).unwrap_or_default()
}

impl ApiTrace {
    /// Returns the launches of the module that a variable belongs to; none for other buffers.
    fn module_launches(&self, buffer: u32, events: &Range<u64>) -> &[u32] {
        let module = self.buffers.get(buffer).and_then(|b| b.module);
        let list = module.and_then(|m| self.by_module.get(m as usize));
        let list = list.map_or(&[][..], Vec::as_slice);
        let at = |event: u64| list.partition_point(|l| self.launch_event(*l) < event);
        list.get(at(events.start)..at(events.end)).unwrap_or_default()
    }

    fn buffer_references(&self, buffer: u32) -> (&[BufferReference], &[BufferReference]) {
        let t = self.references.get(buffer as usize);
        t.map_or((&[], &[]), |t| (t.write.as_slice(), t.read.as_slice()))
    }

    /// Returns the last launch in a range of events that may have written a buffer.
    #[must_use]
    pub fn find_last_possible_writer(&self, buffer: u32, events: Range<u64>) -> Option<BufferReference> {
        self.find_last_writer_where(buffer, events, |_| true)
    }

    /// Same as [`ApiTrace::find_last_possible_writer`], for the launches that match.
    pub(super) fn find_last_writer_where(
        &self,
        buffer: u32,
        events: Range<u64>,
        is_match: impl Fn(u32) -> bool,
    ) -> Option<BufferReference> {
        let named = launches_within(self, self.buffer_references(buffer).0, &events);
        let named = named.iter().rev().copied().find(|r| is_match(r.launch));
        let module = self.module_launches(buffer, &events).iter().rev().copied();
        later(named, module.into_iter().find(|l| is_match(*l)), |a, b| a >= b)
    }

    /// Returns the first launch in a range of events that may write a buffer.
    #[must_use]
    pub fn find_first_possible_writer(&self, buffer: u32, events: Range<u64>) -> Option<BufferReference> {
        self.find_first_writer_where(buffer, events, |_| true)
    }

    /// Same as [`ApiTrace::find_first_possible_writer`], for the launches that match.
    pub(super) fn find_first_writer_where(
        &self,
        buffer: u32,
        events: Range<u64>,
        is_match: impl Fn(u32) -> bool,
    ) -> Option<BufferReference> {
        let named = launches_within(self, self.buffer_references(buffer).0, &events);
        let named = named.iter().copied().find(|r| is_match(r.launch));
        let module = self.module_launches(buffer, &events).iter().copied();
        later(named, module.into_iter().find(|l| is_match(*l)), |a, b| a <= b)
    }

    /// Returns the launches in a range of events that have the address of a buffer and may write it, most recent
    /// first.
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

    /// Returns the launches in a range of events that have the address of a buffer and only read it by their
    /// signature, in order.
    #[must_use]
    pub fn readers(&self, buffer: u32, events: Range<u64>) -> &[BufferReference] {
        launches_within(self, self.buffer_references(buffer).1, &events)
    }

    /// Finds the last writer of a byte, as of just before an event.
    #[must_use]
    pub fn find_last_writer(&self, recording: &Recording, address: GpuVa, event: u64) -> LastWriter {
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
        // Launches that were not examined are in doubt, whatever is known of the byte.
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
        // If no launch is in doubt, the byte is what the last launch left, or an unrecorded change came between.
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

    /// Finds the last launch in a range of events that is known to have changed a byte.
    ///
    /// # Errors
    /// The event before which the search stopped.
    fn find_last_change(
        &self,
        recording: &Recording,
        address: GpuVa,
        events: Range<u64>,
    ) -> Result<Option<ByteChange>, u64> {
        let seen = self.find_last_traced_change(address, events.clone());
        let taken = self.find_last_recorded_change(recording, address, events);
        let taken = match (taken, seen) {
            // A later change is known all the same.
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

    /// Lists the launches in a range of events that are known to have changed a byte, most recent first, up to a
    /// maximum number.
    #[must_use]
    pub fn list_changes(
        &self,
        recording: &Recording,
        address: GpuVa,
        events: Range<u64>,
        max: usize,
    ) -> Vec<ByteChange> {
        let (mut found, mut left) = (Vec::new(), events);
        while found.len() < max
            && let Ok(Some(c)) = self.find_last_change(recording, address, left.clone())
        {
            left.end = c.event;
            found.push(c);
        }
        found
    }

    /// Finds the last copy or fill in a range of events that wrote a byte.
    #[must_use]
    pub fn find_last_write(
        &self,
        recording: &Recording,
        address: GpuVa,
        events: Range<u64>,
    ) -> Option<(u64, CertainWriter)> {
        let covers = |event| written_rows(&recording.events, event).is_some_and(|r| r.locate(address).is_some());
        let found = self
            .writes
            .last(address, events, |e| e.tag & GAPS == 0 || covers(e.event))?;
        Some((found.event, self.writer(recording, found.event, address)))
    }

    /// Returns how an event writes an address.
    fn writer(&self, recording: &Recording, event: u64, address: GpuVa) -> CertainWriter {
        let Some(row) = copy_at(&recording.events, event) else {
            return CertainWriter::Fill;
        };
        let origin = || {
            let (n, offset) = Rows::from_destination(&row).locate(address)?;
            GpuVa::new(row.from)
                .checked_add(n.checked_mul(row.from_pitch)?)?
                .checked_add(offset)
        };
        match CopyKind::from_raw(row.kind) {
            Some(CopyKind::DeviceToDevice) => origin().map_or(CertainWriter::Copy, CertainWriter::CopyFrom),
            _ => CertainWriter::Copy,
        }
    }

    /// Returns the first address of a range, and the others from which on other copies and fills cover the bytes; at
    /// most `max`.
    #[must_use]
    pub fn list_bounds(&self, range: Range<GpuVa>, max: usize) -> Vec<GpuVa> {
        let mut out = vec![range.start];
        while let Some(at) = out.last().copied().filter(|_| out.len() < max) {
            let next = self.writes.stretch(at).end.min(self.seen.stretch(at).end);
            if next <= at || next >= range.end {
                break;
            }
            out.push(next);
        }
        out
    }

    /// Lists the copies and fills that write a byte in a range of events, in order; about the last `max` of them.
    #[must_use]
    pub fn list_writes(
        &self,
        recording: &Recording,
        address: GpuVa,
        events: Range<u64>,
        max: usize,
    ) -> Vec<(u64, CertainWriter)> {
        let found = self.writes.list(address, events, max).into_iter();
        let covered = found
            .filter(|e| e.tag & GAPS == 0 || self.find_last_write(recording, address, e.event..e.event + 1).is_some());
        covered
            .map(|e| (e.event, self.writer(recording, e.event, address)))
            .collect()
    }

    /// Lists the copies from the byte and the pieces of snapshots that read it in a range of events, in order; about
    /// the last `max` of them.
    #[must_use]
    pub fn list_reads(&self, recording: &Recording, address: GpuVa, events: Range<u64>, max: usize) -> Vec<u64> {
        let covers = |event: u64| {
            copy_at(&recording.events, event).is_some_and(|row| Rows::from_source(&row).locate(address).is_some())
        };
        let found = self.seen.list(address, events, max).into_iter();
        found
            .filter(|e| e.tag & GAPS == 0 || covers(e.event))
            .map(|e| e.event)
            .collect()
    }
}

/// Returns the later, by `before`, of a launch that references a buffer and a launch of the buffer's module. If both
/// are the same launch, returns the reference by name.
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
