//! Memory of the device at an event, as far as the recording tells.
//!
//! A byte is known from what wrote it last for certain (a copy, a fill) or from when it was read back (a copy to the
//! host, a snapshot), unless a launch that may have written it stands in between. What is read back later tells it too,
//! where nothing may have written in between. Where a board was asked ([`super::Watched`]), launches that it watched
//! are in doubt no more, and what it saw tells bytes, too.

use super::ranges::Entry;
use super::rows::{Rows, written_rows};
use super::{BufferKind, BufferReference, Calls, GAPS, MemorySample, NOT_RECORDED, copy_at, fill_at};
use crate::recording::{CopyKind, CopyRow, NO_CONTENT, PageId, Recording};
use std::cell::Cell;
use std::ops::Range;

/// Copies on the device that are followed from a byte back to where it came from.
const MAX_COPY_DEPTH: u32 = 64;
/// Maximum number of bytes that are read at once.
pub const MAX_READ_BYTES: u64 = 1 << 30;
/// Maximum number of pieces that a range is told in: the rest of it is told as not looked at.
const MAX_PIECES: usize = 1 << 20;

/// Where bytes are known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentSource {
    /// A copy from the host wrote them.
    Copied,
    /// A fill wrote them.
    Filled,
    /// They were read back: by a copy to the host or by a snapshot.
    ReadBack,
    /// A board had them so before the event happened.
    TraceBefore,
    /// A board had them so behind the launch at the event, which changed them or what lies around them.
    TraceAfter,
}

/// Why bytes are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownReason {
    /// No memory is there.
    NotAllocated,
    /// Nothing wrote them since the memory was taken, at the event.
    NeverWritten,
    /// A launch may have written them, at the event.
    Launch {
        /// An argument points into the buffer; otherwise a word may only look like it.
        certain: bool,
    },
    /// A copy wrote them whose content the recording does not hold, at the event.
    NotRecorded,
    /// The host writes there without a call.
    Shared,
    /// They were copied on the device more often than is followed, or the range has too many pieces.
    LimitExceeded,
}

/// What is known of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentState {
    /// The recording holds them; the event that told them.
    Known(ContentSource, u64),
    /// It does not; the event since when, 0 where there is none.
    Unknown(UnknownReason, u64),
}

impl ContentState {
    /// Whether the bytes are known.
    #[must_use]
    pub fn is_known(self) -> bool {
        matches!(self, Self::Known(..))
    }

    /// Whether the recording itself holds the bytes, and no board had to be asked.
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

    /// In words: `unknown since the launch at event 12`.
    #[must_use]
    pub fn describe(self) -> String {
        match self {
            Self::Known(ContentSource::Copied, e) => format!("copied from the host at event {e}"),
            Self::Known(ContentSource::Filled, e) => format!("filled at event {e}"),
            Self::Known(ContentSource::ReadBack, e) => format!("read back at event {e}"),
            Self::Known(ContentSource::TraceBefore, e) => format!("as a board had it before event {e}"),
            Self::Known(ContentSource::TraceAfter, e) => format!("as a board had it behind the launch at event {e}"),
            Self::Unknown(UnknownReason::NotAllocated, _) => "no memory that the recording tells of".to_owned(),
            Self::Unknown(UnknownReason::NeverWritten, 0) => "not written before".to_owned(),
            Self::Unknown(UnknownReason::NeverWritten, e) => format!("not written since it was taken at event {e}"),
            Self::Unknown(UnknownReason::Launch { certain: true }, e) => {
                format!("unknown since the launch at event {e}")
            }
            Self::Unknown(UnknownReason::Launch { certain: false }, e) => {
                format!("unknown since the launch at event {e}, which may have written it")
            }
            Self::Unknown(UnknownReason::NotRecorded, e) => {
                format!("copied at event {e}; the content is not in the recording")
            }
            Self::Unknown(UnknownReason::Shared, _) => "unknown: the host writes it without a call".to_owned(),
            Self::Unknown(UnknownReason::LimitExceeded, _) => {
                "not looked at: it has too many pieces, or was copied on the device too often".to_owned()
            }
        }
    }
}

/// A stretch of bytes of one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its addresses.
    pub range: Range<u64>,
    /// What is known of it.
    pub state: ContentState,
    /// What is added to an address here for the address at which the event of the state has the byte; it differs from 0
    /// behind copies on the device. Wraps around.
    shift: u64,
}

/// Bytes of the device's memory at an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceBytes {
    /// The bytes; 0 where they are not known.
    pub bytes: Vec<u8>,
    /// The stretches that they are made of, in order, without gaps.
    pub pieces: Vec<Piece>,
}

impl Calls {
    /// What is known of a range of addresses before an event happens. Costs by the pieces that it is told in.
    #[must_use]
    pub fn pieces(&self, recording: &Recording, range: Range<u64>, event: u64) -> Vec<Piece> {
        self.first_pieces(recording, range, event, MAX_PIECES)
    }

    /// As [`Calls::pieces`], found in so many steps at most, each of a piece or a part of one: the rest of the range is
    /// one that was not looked at.
    #[must_use]
    pub fn first_pieces(&self, recording: &Recording, range: Range<u64>, event: u64, most: usize) -> Vec<Piece> {
        let mut out: Vec<Piece> = Vec::new();
        let (mut at, mut looked) = (range.start, 0);
        while at < range.end {
            looked += 1;
            let piece = if looked <= most {
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

    /// The bytes of a range of addresses before an event happens, at most [`MAX_READ_BYTES`] of them.
    #[must_use]
    pub fn read(&self, recording: &Recording, range: Range<u64>, event: u64) -> DeviceBytes {
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

    /// The piece that a range begins with.
    fn piece(&self, recording: &Recording, range: Range<u64>, event: u64, deep: u32) -> Piece {
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
        // Rows with gaps end the piece where a row or a gap ends.
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
        // Before a buffer was taken something else lay there.
        let since = since.saturating_add(u64::from(fact.is_some_and(|b| b.kind.is_allocated())));
        let boards = fact.is_some() && !shared && !self.watched.is_empty();
        let moments = since..event.saturating_add(1);
        let changed = boards
            .then(|| self.find_last_change_event(at, moments.clone()))
            .flatten();
        let behind = |e: &Option<Entry>| e.as_ref().map_or(0, |e| e.event + 1);
        let launched = launch.map_or(0, |(e, _)| e + 1);
        let doubt = launched.max(changed.unwrap_or(0));
        // What the recording holds counts, and what a board saw where it holds nothing.
        if let Some(s) = seen.filter(|s| s.event + 1 > behind(&write).max(doubt) && !shared) {
            return known_piece(at..end.get(), ContentSource::ReadBack, s.event);
        }
        let last = write.filter(|w| w.event + 1 > doubt && !shared);
        let told = last.and_then(|w| self.written_piece(recording, at..end.get(), &w, deep));
        if let Some(piece) = told.as_ref().filter(|p| p.state.is_recorded()) {
            return piece.clone();
        }
        // What is read back later tells it too, unless something may have written in between.
        let unwritten = |between: Range<u64>| {
            let buffer = buffer.map(|p| p.buffer);
            self.writes.first(at, between.clone(), wrote).is_none()
                && self.find_possible_writer(at, buffer, between.clone(), true).is_none()
                && !(boards && self.find_first_changing_launch(at, between).is_some())
        };
        let until = until.min(self.readback_limit(event));
        if let Some(next) = self.seen.first(at, event..until, read).filter(|_| !shared)
            && unwritten(event..next.event)
        {
            return known_piece(at..end.get(), ContentSource::ReadBack, next.event);
        }
        if let Some(piece) = told.as_ref().filter(|p| p.state.is_known()) {
            return piece.clone();
        }
        // A board had no content for a copy whose content the recording does not hold.
        let unheld = |p: &Piece| matches!(p.state, ContentState::Unknown(UnknownReason::NotRecorded, _));
        if boards && !last.is_some_and(|_| told.as_ref().is_none_or(unheld)) {
            let before = self
                .find_last_sample(at, moments)
                .filter(|s| s.moment >= launched.max(behind(&write)));
            let later = || {
                self.find_first_sample(at, event..until)
                    .filter(|s| unwritten(event..s.moment))
            };
            if let Some(s) = before.or_else(later) {
                // Behind what was copied to here the copy may tell more.
                let end = told.as_ref().map_or(end.get(), |p| p.range.end.min(end.get()));
                return self.traced_piece(at..end, &s);
            }
        }
        if let Some(mut piece) = told {
            // What is read back later may tell the bytes behind a row's end.
            piece.range.end = piece.range.end.min(end.get());
            return piece;
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

    /// A piece that a board told.
    fn traced_piece(&self, range: Range<u64>, sight: &MemorySample) -> Piece {
        match self.find_change_before(range.start, sight.moment) {
            Some(launch) => known_piece(range, ContentSource::TraceAfter, launch),
            None => known_piece(range, ContentSource::TraceBefore, sight.moment),
        }
    }

    /// What a copy or a fill wrote; `None` where the recording does not hold it.
    fn written_piece(&self, recording: &Recording, range: Range<u64>, write: &Entry, deep: u32) -> Option<Piece> {
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
        // Within one row, since rows follow each other otherwise where they came from.
        end = end.min(at.checked_add(to.bytes.checked_sub(offset)?)?);
        let origin = from.at.checked_add(n.checked_mul(from.pitch)?)?.checked_add(offset)?;
        let piece = self.piece(recording, origin..origin.checked_add(end - at)?, write.event, deeper);
        let bytes = piece.range.end - piece.range.start;
        Some(Piece {
            range: at..at + bytes,
            shift: piece.shift.wrapping_add(origin).wrapping_sub(at),
            state: piece.state,
        })
    }

    /// The last launch among some events that may have written an address, or the first, by its buffer; outside of
    /// buffers any launch may have. Launches that a board watched are not in doubt. With its event.
    fn find_possible_writer(
        &self,
        address: u64,
        buffer: Option<u32>,
        events: Range<u64>,
        first: bool,
    ) -> Option<(u64, Option<BufferReference>)> {
        if self.watched.is_empty() && self.around.is_empty() {
            return self.find_referencing_launch(buffer, events, first);
        }
        let parts = self.find_untraced_events(address, events).into_iter();
        let mut found = |part| self.find_possible_writer_by_snapshots(address, buffer, part, first);
        match first {
            true => parts.into_iter().find_map(&mut found),
            false => parts.into_iter().rev().find_map(&mut found),
        }
    }

    /// As [`Calls::find_referencing_launch`]; launches that memory was taken down around wrote what is told behind them.
    fn find_possible_writer_by_snapshots(
        &self,
        address: u64,
        buffer: Option<u32>,
        events: Range<u64>,
        first: bool,
    ) -> Option<(u64, Option<BufferReference>)> {
        if self.around.is_empty() {
            return self.find_referencing_launch(buffer, events, first);
        }
        let told = self
            .find_launch_with_changed_page(address, &events, first)
            .map(|e| (e, None));
        let open = self.find_writer_without_snapshots(buffer, &events, first);
        match first {
            true => told.into_iter().chain(open).min_by_key(|f| f.0),
            false => told.into_iter().chain(open).max_by_key(|f| f.0),
        }
    }

    /// Finds the last launch, or the first, that may have written a buffer and that has no snapshots around it. Goes
    /// through the launches that reference the buffer, not through all that have no snapshots: those can be millions.
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

    /// Bytes as an event has them from an address on; `None` where they are not all held.
    fn fetch(
        &self,
        recording: &Recording,
        known: ContentSource,
        event: u64,
        address: u64,
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

fn known_piece(range: Range<u64>, known: ContentSource, event: u64) -> Piece {
    Piece {
        range,
        state: ContentState::Known(known, event),
        shift: 0,
    }
}

fn unknown_piece(range: Range<u64>, why: UnknownReason, event: u64) -> Piece {
    Piece {
        range,
        state: ContentState::Unknown(why, event),
        shift: 0,
    }
}

/// Bytes as an event has them from an address on; `None` where the recording does not hold them all.
fn read_recorded(recording: &Recording, known: ContentSource, event: u64, address: u64, to: &mut [u8]) -> Option<()> {
    if known == ContentSource::Filled {
        let row = fill_at(&recording.events, event)?;
        let rows = Rows::from_fill(&row)?;
        let value = row.value.to_le_bytes();
        let element = u64::from(row.element.clamp(1, 4));
        let (_, offset) = rows.locate(address)?;
        for (n, b) in (offset..).zip(to.iter_mut()) {
            // A piece over several rows: each begins with a whole element.
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

/// A part of what a copy moved, from so many bytes of its rows on.
fn copied_part(recording: &Recording, row: &CopyRow, from: u64, to: &mut [u8]) -> Option<()> {
    let end = from.checked_add(to.len() as u64)?;
    if row.pages_at == NO_CONTENT || end > row.total()? {
        return None;
    }
    let page = crate::PAGE_SIZE as u64;
    let first = (row.device() % page).checked_add(from)?;
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
