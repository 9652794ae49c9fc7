//! Device memory at an event, as far as the recording and its memory traces determine it.
//!
//! The last certain write of a byte (a copy, a fill) or a readback (a copy to the host, a snapshot) determines its
//! value. The value is unknown if a launch in between may have written the byte. A later readback also determines the
//! value, if nothing may have written in between. With a [`super::MemoryTrace`], traced launches are no longer in
//! doubt, and the samples also determine bytes.

use super::ranges::Entry;
use super::rows::{GAPS, NOT_RECORDED, Rows, copy_at, fill_at, written_rows};
use super::{ApiTrace, BufferKind, BufferReference, MemorySample};
use crate::GpuVa;
use crate::recording::{CopyKind, CopyRow, NO_CONTENT, PageId, Recording};
use std::cell::Cell;
use std::ops::Range;

/// Maximum number of device-to-device copies that are followed back to the origin of a byte.
const MAX_COPY_DEPTH: u32 = 64;
/// Maximum size of one read, bytes.
pub const MAX_READ_BYTES: u64 = 1 << 30;
/// Maximum number of pieces of a range; the rest of the range is reported as not examined.
const MAX_PIECES: usize = 1 << 20;

/// The source from which bytes are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentSource {
    /// A copy from the host wrote the bytes.
    Copied,
    /// A fill wrote the bytes.
    Filled,
    /// A copy to the host or a snapshot read the bytes back.
    ReadBack,
    /// A memory trace sampled the bytes before the event.
    TraceBefore,
    /// A memory trace sampled the bytes after the launch at the event, which changed them or bytes around them.
    TraceAfter,
}

/// Why bytes are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownReason {
    /// No memory is allocated there.
    NotAllocated,
    /// Nothing wrote the bytes since the memory was allocated, at the event.
    NeverWritten,
    /// A launch may have written the bytes, at the event.
    Launch {
        /// Whether an argument points into the buffer; otherwise a word may only look like a pointer.
        certain: bool,
    },
    /// A copy at the event wrote the bytes, and the recording does not hold its content.
    NotRecorded,
    /// The host can write the bytes without a call.
    Shared,
    /// The chain of device copies is longer than the limit, or the range has too many pieces.
    LimitExceeded,
}

/// Whether bytes are known, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentState {
    /// The bytes are known, from this source and event.
    Known(ContentSource, u64),
    /// The bytes are unknown, since this event; 0 if there is none.
    Unknown(UnknownReason, u64),
}

impl ContentState {
    /// Returns whether the bytes are known.
    #[must_use]
    pub fn is_known(self) -> bool {
        matches!(self, Self::Known(..))
    }

    /// Returns whether the recording itself holds the bytes, without a memory trace.
    #[must_use]
    pub fn is_recorded(self) -> bool {
        matches!(
            self,
            Self::Known(
                ContentSource::Copied | ContentSource::Filled | ContentSource::ReadBack,
                _
            )
        )
    }

    /// Returns a description: `unknown since the launch at event 12`.
    #[must_use]
    pub fn describe(self) -> String {
        match self {
            Self::Known(ContentSource::Copied, e) => format!("copied from the host at event {e}"),
            Self::Known(ContentSource::Filled, e) => format!("filled at event {e}"),
            Self::Known(ContentSource::ReadBack, e) => format!("read back at event {e}"),
            Self::Known(ContentSource::TraceBefore, e) => format!("content on a target before event {e}"),
            Self::Known(ContentSource::TraceAfter, e) => format!("content on a target after the launch at event {e}"),
            Self::Unknown(UnknownReason::NotAllocated, _) => "not allocated, as far as the recording shows".to_owned(),
            Self::Unknown(UnknownReason::NeverWritten, 0) => "not written before".to_owned(),
            Self::Unknown(UnknownReason::NeverWritten, e) => format!("not written since its allocation at event {e}"),
            Self::Unknown(UnknownReason::Launch { certain: true }, e) => {
                format!("unknown since the launch at event {e}")
            }
            Self::Unknown(UnknownReason::Launch { certain: false }, e) => {
                format!("unknown since the launch at event {e}, which may have written it")
            }
            Self::Unknown(UnknownReason::NotRecorded, e) => {
                format!("copied at event {e}; the content is not in the recording")
            }
            Self::Unknown(UnknownReason::Shared, _) => "unknown: the host can write it without a call".to_owned(),
            Self::Unknown(UnknownReason::LimitExceeded, _) => {
                "not computed: it has too many pieces, or was copied on the device too often".to_owned()
            }
        }
    }
}

/// A range of bytes with one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The addresses of the range.
    pub range: Range<GpuVa>,
    /// The state of the bytes.
    pub state: ContentState,
    /// Offset from an address here to the address of the same byte at the event of the state. It differs from 0 after
    /// device-to-device copies. Wraps around.
    shift: u64,
}

/// Bytes of device memory at an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceBytes {
    /// The bytes; 0 where they are not known.
    pub bytes: Vec<u8>,
    /// The pieces of the range, in order, without gaps.
    pub pieces: Vec<Piece>,
}

impl ApiTrace {
    /// Returns the state of a range of addresses just before an event. Cost is proportional to the number of pieces.
    #[must_use]
    pub fn pieces(&self, recording: &Recording, range: Range<GpuVa>, event: u64) -> Vec<Piece> {
        self.first_pieces(recording, range, event, MAX_PIECES)
    }

    /// Returns the same as [`ApiTrace::pieces`], found in at most `max` steps, each of a piece or a part of one. The
    /// rest of the range is one piece that was not examined.
    #[must_use]
    pub fn first_pieces(&self, recording: &Recording, range: Range<GpuVa>, event: u64, max: usize) -> Vec<Piece> {
        let mut out: Vec<Piece> = Vec::new();
        let (mut at, mut looked) = (range.start, 0);
        while at < range.end {
            looked += 1;
            let piece = if looked <= max {
                self.piece(recording, at..range.end, event, MAX_COPY_DEPTH)
            } else {
                unknown_piece(at..range.end, UnknownReason::LimitExceeded, 0)
            };
            at = piece.range.end;
            match out.last_mut() {
                Some(last) if last.state == piece.state && last.shift == piece.shift => last.range.end = at,
                _ => out.push(piece),
            }
        }
        out
    }

    /// Reads a range of addresses just before an event, at most [`MAX_READ_BYTES`] bytes.
    #[must_use]
    pub fn read(&self, recording: &Recording, range: Range<GpuVa>, event: u64) -> DeviceBytes {
        let end = range
            .end
            .min(range.start.saturating_add(MAX_READ_BYTES))
            .max(range.start);
        let mut pieces = self.pieces(recording, range.start..end, event);
        let mut bytes = vec![0; usize::try_from(end - range.start).unwrap_or(0)];
        for p in &mut pieces {
            let (from, to) = (p.range.start - range.start, p.range.end - range.start);
            let Some(part) = bytes.get_mut(from as usize..to as usize) else {
                continue;
            };
            if let ContentState::Known(known, event) = p.state
                && self
                    .fetch(recording, known, event, p.range.start.wrapping_add(p.shift), part)
                    .is_none()
            {
                part.fill(0);
                p.state = ContentState::Unknown(UnknownReason::NotRecorded, event);
            }
        }
        DeviceBytes { bytes, pieces }
    }

    /// Returns the piece at the start of a range.
    fn piece(&self, recording: &Recording, range: Range<GpuVa>, event: u64, deep: u32) -> Piece {
        let (at, events) = (range.start, &recording.events);
        let end = Cell::new(range.end);
        for stretch in [self.buffers.stretch(at), self.writes.stretch(at), self.seen.stretch(at)] {
            end.set(end.get().min(stretch.end));
        }
        let buffer = self.buffers.locate(at, event);
        let fact = buffer.and_then(|p| self.buffers.get(p.buffer));
        let (since, until) = match fact {
            Some(b) => (b.from, b.to.unwrap_or(self.events).saturating_add(1)),
            None => {
                let bare = self.buffers.unallocated_events(at, event);
                (bare.start, bare.end.min(self.events))
            }
        };
        // If rows have gaps, the piece ends where a row or a gap ends.
        let covers = |rows: Option<Rows>| {
            let Some(rows) = rows else { return false };
            let (inside, edge) = rows.covers(at);
            end.set(end.get().min(edge.max(at.saturating_add(1))));
            inside
        };
        let wrote = |e: &Entry| e.tag & GAPS == 0 || covers(written_rows(events, e.event));
        let read = |e: &Entry| {
            e.tag & NOT_RECORDED == 0
                && (e.tag & GAPS == 0 || covers(copy_at(events, e.event).map(|row| Rows::from_source(&row))))
        };
        let write = self.writes.last(at, since..event, wrote);
        let seen = self.seen.last(at, since..event, read);
        end.set(end.get().min(self.next_trace_boundary(at)));
        let launch = self.find_possible_writer(at, buffer.map(|p| p.buffer), since..event, false);
        let shared = fact.is_some_and(|b| b.kind.is_shared());
        // Before this buffer was allocated, something else was there.
        let since = since.saturating_add(u64::from(fact.is_some_and(|b| b.kind.is_allocated())));
        let traced = fact.is_some() && !shared && !self.memory_traces.is_empty();
        let next_events = since..event.saturating_add(1);
        let changed = traced
            .then(|| self.find_last_change_event(at, next_events.clone()))
            .flatten();
        let behind = |e: &Option<Entry>| e.as_ref().map_or(0, |e| e.event + 1);
        let launched = launch.map_or(0, |(e, _)| e + 1);
        let doubt = launched.max(changed.unwrap_or(0));
        // The recording takes precedence; a sample is used only where the recording holds nothing.
        if let Some(s) = seen.filter(|s| s.event + 1 > behind(&write).max(doubt) && !shared) {
            return known_piece(at..end.get(), ContentSource::ReadBack, s.event);
        }
        let last = write.filter(|w| w.event + 1 > doubt && !shared);
        let report = last.and_then(|w| self.written_piece(recording, at..end.get(), &w, deep));
        if let Some(piece) = report.as_ref().filter(|p| p.state.is_recorded()) {
            return piece.clone();
        }
        // A later readback also determines the bytes, unless something may have written in between.
        let unwritten = |between: Range<u64>| {
            let buffer = buffer.map(|p| p.buffer);
            self.writes.first(at, between.clone(), wrote).is_none()
                && self.find_possible_writer(at, buffer, between.clone(), true).is_none()
                && !(traced && self.find_first_changing_launch(at, between).is_some())
        };
        let until = until.min(self.readback_limit(event));
        if let Some(next) = self.seen.first(at, event..until, read).filter(|_| !shared)
            && unwritten(event..next.event)
        {
            return known_piece(at..end.get(), ContentSource::ReadBack, next.event);
        }
        // The search for that readback can find that the piece ends earlier.
        let within_end = |mut piece: Piece| {
            piece.range.end = piece.range.end.min(end.get());
            piece
        };
        if let Some(piece) = report.as_ref().filter(|p| p.state.is_known()) {
            return within_end(piece.clone());
        }
        // A target had no content for a copy whose content the recording does not hold.
        let unheld = |p: &Piece| matches!(p.state, ContentState::Unknown(UnknownReason::NotRecorded, _));
        if traced && !last.is_some_and(|_| report.as_ref().is_none_or(unheld)) {
            let before = self
                .find_last_sample(at, next_events)
                .filter(|s| s.next_event >= launched.max(behind(&write)));
            let later = || {
                self.find_first_sample(at, event..until)
                    .filter(|s| unwritten(event..s.next_event))
            };
            if let Some(s) = before.or_else(later) {
                // The copy may determine bytes after those that were copied to here.
                let end = report.as_ref().map_or(end.get(), |p| p.range.end.min(end.get()));
                return self.traced_piece(at..end, &s);
            }
        }
        if let Some(piece) = report {
            return within_end(piece);
        }
        let range = at..end.get();
        match (launch, write, fact) {
            _ if shared => unknown_piece(range, UnknownReason::Shared, fact.map_or(0, |b| b.from)),
            (Some((e, reached)), w, _) if e + 1 > behind(&w) => {
                let certain = reached.is_some_and(|r| r.kind.is_certain());
                unknown_piece(range, UnknownReason::Launch { certain }, e)
            }
            (_, Some(w), _) => unknown_piece(range, UnknownReason::NotRecorded, w.event),
            (_, None, Some(b)) if b.kind == BufferKind::Preexisting => {
                unknown_piece(range, UnknownReason::NeverWritten, 0)
            }
            (_, None, Some(b)) => unknown_piece(range, UnknownReason::NeverWritten, b.from),
            (_, None, None) => unknown_piece(range, UnknownReason::NotAllocated, 0),
        }
    }

    /// Returns a piece known from a memory trace.
    fn traced_piece(&self, range: Range<GpuVa>, sample: &MemorySample) -> Piece {
        match self.find_change_before(range.start, sample.next_event) {
            Some(launch) => known_piece(range, ContentSource::TraceAfter, launch),
            None => known_piece(range, ContentSource::TraceBefore, sample.next_event),
        }
    }

    /// Returns the content that a copy or a fill wrote; `None` if the recording does not hold it.
    fn written_piece(&self, recording: &Recording, range: Range<GpuVa>, write: &Entry, deep: u32) -> Option<Piece> {
        let (at, mut end) = (range.start, range.end);
        if fill_at(&recording.events, write.event).is_some() {
            return Some(known_piece(range, ContentSource::Filled, write.event));
        }
        let row = copy_at(&recording.events, write.event)?;
        if CopyKind::from_raw(row.kind) != Some(CopyKind::DeviceToDevice) {
            return (row.pages_at != NO_CONTENT).then(|| known_piece(range, ContentSource::Copied, write.event));
        }
        let Some(deeper) = deep.checked_sub(1) else {
            return Some(unknown_piece(range, UnknownReason::LimitExceeded, write.event));
        };
        let (to, from) = (Rows::from_destination(&row), Rows::from_source(&row));
        let (n, offset) = to.locate(at)?;
        // Stay within one row, because the next row may come from elsewhere.
        end = end.min(at.checked_add(to.bytes.checked_sub(offset)?)?);
        let origin = from.at.checked_add(n.checked_mul(from.pitch)?)?.checked_add(offset)?;
        let piece = self.piece(recording, origin..origin.checked_add(end - at)?, write.event, deeper);
        let bytes = piece.range.end - piece.range.start;
        Some(Piece {
            range: at..at + bytes,
            shift: piece.shift.wrapping_add(origin.get()).wrapping_sub(at.get()),
            state: piece.state,
        })
    }

    /// Finds the last or the first launch in a range of events that may have written an address, by its buffer.
    /// Outside all buffers, any launch may have written it. Traced launches are not in doubt. Returns the launch with
    /// its event.
    fn find_possible_writer(
        &self,
        address: GpuVa,
        buffer: Option<u32>,
        events: Range<u64>,
        first: bool,
    ) -> Option<(u64, Option<BufferReference>)> {
        if self.memory_traces.is_empty() && self.launch_snapshots.is_empty() {
            return self.find_referencing_launch(buffer, events, first);
        }
        let parts = self.find_untraced_events(address, events).into_iter();
        let mut found = |part| self.find_possible_writer_by_snapshots(address, buffer, part, first);
        match first {
            true => parts.into_iter().find_map(&mut found),
            false => parts.into_iter().rev().find_map(&mut found),
        }
    }

    /// Returns the same as [`ApiTrace::find_referencing_launch`]. A launch with snapshots around it wrote what the
    /// snapshot after it holds.
    fn find_possible_writer_by_snapshots(
        &self,
        address: GpuVa,
        buffer: Option<u32>,
        events: Range<u64>,
        first: bool,
    ) -> Option<(u64, Option<BufferReference>)> {
        if self.launch_snapshots.is_empty() {
            return self.find_referencing_launch(buffer, events, first);
        }
        let reported = self
            .find_launch_with_changed_page(address, &events, first)
            .map(|e| (e, None));
        let open = self.find_writer_without_snapshots(buffer, &events, first);
        match first {
            true => reported.into_iter().chain(open).min_by_key(|f| f.0),
            false => reported.into_iter().chain(open).max_by_key(|f| f.0),
        }
    }

    /// Finds the last launch, or the first, that may have written a buffer and that has no snapshots around it. Goes
    /// through the launches that reference the buffer, not through all without snapshots: those can be millions.
    fn find_writer_without_snapshots(
        &self,
        buffer: Option<u32>,
        events: &Range<u64>,
        first: bool,
    ) -> Option<(u64, Option<BufferReference>)> {
        let open = self.launches_without_snapshots(events);
        let nearest = if first { open.first() } else { open.last() };
        let (nearest, Some(buffer)) = (nearest?, buffer) else {
            return nearest.map(|event| (*event, None));
        };
        let outermost = if first {
            *nearest..events.end
        } else {
            events.start..nearest.saturating_add(1)
        };
        let is_open = |launch: u32| open.binary_search(&self.launch_event(launch)).is_ok();
        let found = match first {
            true => self.find_first_writer_where(buffer, outermost, is_open),
            false => self.find_last_writer_where(buffer, outermost, is_open),
        };
        found.map(|r| (self.launch_event(r.launch), Some(r)))
    }

    fn find_referencing_launch(
        &self,
        buffer: Option<u32>,
        events: Range<u64>,
        first: bool,
    ) -> Option<(u64, Option<BufferReference>)> {
        let Some(buffer) = buffer else {
            let n = self.launches_before(if first { events.start } else { events.end });
            let at = if first { Some(n) } else { n.checked_sub(1) };
            let found = self.launches.get(at?)?;
            return events.contains(&found.event).then_some((found.event, None));
        };
        let reached = if first {
            self.find_first_possible_writer(buffer, events)
        } else {
            self.find_last_possible_writer(buffer, events)
        };
        reached.map(|r| (self.launch_event(r.launch), Some(r)))
    }

    /// Fetches bytes from an address on as of an event; returns `None` if not all of them are held.
    fn fetch(
        &self,
        recording: &Recording,
        known: ContentSource,
        event: u64,
        address: GpuVa,
        to: &mut [u8],
    ) -> Option<()> {
        match known {
            ContentSource::TraceBefore => self.read_samples(address, event, to),
            ContentSource::TraceAfter => self.read_samples(address, event.checked_add(1)?, to),
            ContentSource::Copied | ContentSource::Filled | ContentSource::ReadBack => {
                read_recorded(recording, known, event, address, to)
            }
        }
    }
}

fn known_piece(range: Range<GpuVa>, known: ContentSource, event: u64) -> Piece {
    Piece {
        range,
        state: ContentState::Known(known, event),
        shift: 0,
    }
}

fn unknown_piece(range: Range<GpuVa>, why: UnknownReason, event: u64) -> Piece {
    Piece {
        range,
        state: ContentState::Unknown(why, event),
        shift: 0,
    }
}

/// Reads bytes from an address on as of an event; returns `None` if the recording does not hold all of them.
fn read_recorded(recording: &Recording, known: ContentSource, event: u64, address: GpuVa, to: &mut [u8]) -> Option<()> {
    if known == ContentSource::Filled {
        let row = fill_at(&recording.events, event)?;
        let rows = Rows::from_fill(&row)?;
        let value = row.value.to_le_bytes();
        let element = u64::from(row.element.clamp(1, 4));
        let (_, offset) = rows.locate(address)?;
        for (n, b) in (offset..).zip(to.iter_mut()) {
            // In a piece of several rows, each row starts with a whole element.
            let within = if rows.rows > 1 && rows.pitch > 0 {
                n % rows.pitch
            } else {
                n
            };
            *b = *value.get((within % element) as usize)?;
        }
        return Some(());
    }
    let row = copy_at(&recording.events, event)?;
    let rows = if known == ContentSource::Copied {
        Rows::from_destination(&row)
    } else {
        Rows::from_source(&row)
    };
    copied_part(recording, &row, rows.before(address)?, to)
}

/// Reads a part of the data that a copy moved, from an offset in its rows on.
fn copied_part(recording: &Recording, row: &CopyRow, from: u64, to: &mut [u8]) -> Option<()> {
    let end = from.checked_add(to.len() as u64)?;
    if row.pages_at == NO_CONTENT || end > row.total()? {
        return None;
    }
    let page = crate::PAGE_SIZE as u64;
    let first = (row.device().in_page() as u64).checked_add(from)?;
    let (mut done, mut at) = (0usize, first);
    while let Some(rest) = to.get_mut(done..).filter(|r| !r.is_empty()) {
        let index = usize::try_from(row.pages_at.checked_add(at / page)?).ok()?;
        let image = recording
            .memory
            .pages
            .page(PageId(recording.events.call_pages.get(index)?))?;
        let begin = (at % page) as usize;
        let part = rest.len().min(crate::PAGE_SIZE - begin);
        rest.get_mut(..part)?.copy_from_slice(image.get(begin..begin + part)?);
        (done, at) = (done + part, at + part as u64);
    }
    Some(())
}
