//! The bytes of a framebuffer space at any event: checkpoints of pages, and the stores since the nearest one.
//!
//! Events are divided into intervals of equal length. At the end of each interval its changed pages are stored, shared
//! and not copied. If they exceed the budget, every second checkpoint is dropped and intervals double: memory is
//! limited, and a seek replays at most one interval.

use super::page::{Page, StoreState};
use crate::PAGE_SIZE;
use crate::progress::{Cancelled, Progress};
use crate::recording::{Access, EventKind, Events, Recording, SpaceKind};
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of framebuffer pages that stores may touch: 256 MiB.
pub const MAX_PAGES: usize = 1 << 16;
/// Initial number of events in an interval.
const FIRST_INTERVAL: usize = 1 << 14;
/// Maximum size of the stored pages, bytes.
const BUDGET: usize = 256 << 20;
/// Events between two checks for cancellation.
const STEP: usize = 1 << 14;

/// Returns the indices of the recording's framebuffer spaces, the most used by stores first.
///
/// # Errors
///
/// [`Cancelled`] if the work was cancelled.
pub fn framebuffer_spaces(recording: &Recording, progress: &Progress) -> Result<Vec<u8>, Cancelled> {
    let spaces = recording.metadata.spaces.iter().zip(0..=u8::MAX);
    let mut all: Vec<(u64, u8)> = spaces
        .filter(|(s, _)| s.kind == SpaceKind::Framebuffer)
        .map(|(_, i)| (0, i))
        .collect();
    // A single space needs no counting.
    if all.len() > 1 {
        let mut counts = [0u64; 256];
        let n = recording.events.len();
        progress.set_total(n as u64);
        for from in (0..n).step_by(STEP) {
            let to = (from + STEP).min(n);
            let kinds = recording.events.kind.iter_range(from..to);
            for (kind, space) in kinds.zip(recording.events.space.iter_range(from..to)) {
                counts[usize::from(space)] +=
                    u64::from(kind == EventKind::Write as u8 || kind == EventKind::Undecoded as u8);
            }
            progress.advance(STEP as u64)?;
        }
        for (n, i) in &mut all {
            *n = counts[usize::from(*i)];
        }
        all.sort_by_key(|(n, i)| (std::cmp::Reverse(*n), *i));
    }
    Ok(all.into_iter().map(|(_, i)| i).collect())
}

/// The reason why a framebuffer cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramebufferError {
    /// The stores touch too many pages.
    #[error("event {event}: stores touch more than {MAX_PAGES} pages of the framebuffer")]
    Pages {
        /// The store that exceeded the limit.
        event: u64,
    },
    /// The work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// The events of an interval.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    /// Number of earlier stores.
    pub before: u64,
    /// Numbers of the pages with stores, ascending.
    pub touched: Vec<u32>,
}

/// The state of a page at the end of an interval, and from then on.
struct Version {
    interval: u32,
    page: Arc<Page>,
}

/// The bytes of a framebuffer space at any event.
pub struct Framebuffer {
    pub(super) events: Events,
    pub(super) space: u8,
    /// Size of the space, bytes.
    bytes: u64,
    /// Number of events in an interval.
    pub(super) interval: usize,
    pub(super) intervals: Vec<Interval>,
    /// By page number.
    versions: Vec<Vec<Version>>,
    /// Number of stored versions.
    kept: usize,
    stores: u64,
}

impl std::fmt::Debug for Framebuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (intervals, kept) = (self.intervals.len(), self.kept);
        write!(
            f,
            "Framebuffer({} stores, {intervals} intervals, {kept} pages kept)",
            self.stores
        )
    }
}

/// A store to a framebuffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreHit {
    pub offset: u32,
    pub width: u8,
    /// The stored value; `None`: unknown.
    pub value: Option<u64>,
}

/// Number of bytes that an access of unknown width may have stored: the maximum access width.
const WIDEST: u8 = 8;

/// Returns the stores to a space among events, in order, each with its event. An access that the recorder could not
/// decode counts as a store of unknown bytes unless it is known to be a read.
pub(super) fn hits(events: &Events, space: u8, range: Range<usize>) -> impl Iterator<Item = (usize, StoreHit)> + '_ {
    let mut lost = lost(events, space, range.clone()).peekable();
    let stores = events.accesses(range).filter_map(move |(e, a)| {
        let Access {
            offset, width, value, ..
        } = a;
        let value = Some(value);
        (a.write && a.space == space && (1..=8).contains(&width)).then_some((
            e,
            StoreHit {
                offset: offset.get(),
                width,
                value,
            },
        ))
    });
    let mut stores = stores.peekable();
    std::iter::from_fn(move || match (stores.peek(), lost.peek()) {
        (Some((a, _)), Some((b, _))) if b < a => lost.next(),
        (None, _) => lost.next(),
        _ => stores.next(),
    })
}

/// Returns accesses to a space that the recorder could not decode.
fn lost(events: &Events, space: u8, range: Range<usize>) -> impl Iterator<Item = (usize, StoreHit)> + '_ {
    let range = if events.undecoded.is_empty() { 0..0 } else { range };
    let kinds = events.kind.iter_range(range.clone());
    let rows = kinds
        .zip(events.space.iter_range(range.clone()))
        .zip(events.payload.iter_range(range.clone()));
    let rows = range.zip(rows);
    rows.filter_map(move |(event, ((kind, of), payload))| {
        if kind != EventKind::Undecoded as u8 || of != space {
            return None;
        }
        let row = events.undecoded.get(payload as usize)?;
        let hit = StoreHit {
            offset: row.offset.get(),
            width: row.width().unwrap_or(WIDEST),
            value: None,
        };
        (row.write() != Some(false)).then_some((event, hit))
    })
}

impl Framebuffer {
    /// Builds the framebuffer. Reads every store to a space once.
    ///
    /// # Errors
    ///
    /// [`FramebufferError`] if stores touch too many pages, or the work was cancelled.
    pub fn build(recording: &Recording, space: u8, progress: &Progress) -> Result<Self, FramebufferError> {
        Self::with_budget(recording, space, FIRST_INTERVAL, BUDGET, progress)
    }

    /// Same as `build`, with another interval and another budget for stored pages, in bytes.
    pub(super) fn with_budget(
        recording: &Recording,
        space: u8,
        interval: usize,
        budget: usize,
        progress: &Progress,
    ) -> Result<Self, FramebufferError> {
        let bytes = recording.metadata.spaces.get(usize::from(space)).map_or(0, |s| s.bytes);
        let mut fb = Self {
            events: recording.events.clone(),
            space,
            bytes,
            interval: interval.max(1),
            intervals: Vec::new(),
            versions: Vec::new(),
            kept: 0,
            stores: 0,
        };
        let max = (budget / size_of::<Page>()).max(1);
        let mut state = FramebufferState::default();
        let n = fb.events.len();
        progress.set_total(n as u64);
        let mut from = 0;
        while from < n {
            let to = (from + fb.interval).min(n);
            let before = state.stores;
            let mut touched = Vec::new();
            let mut step = from;
            while step < to {
                let end = (step + STEP).min(to);
                state.replay(&fb.events, fb.space, step..end, &mut touched)?;
                progress.advance((end - step) as u64)?;
                step = end;
            }
            touched.sort_unstable();
            touched.dedup();
            fb.close(&state, Interval { before, touched });
            // Merges pairs of an even number of intervals.
            while fb.kept > max && fb.intervals.len() > 1 && fb.intervals.len().is_multiple_of(2) {
                fb.double();
            }
            from = to;
        }
        fb.stores = state.stores;
        Ok(fb)
    }

    /// Stores the pages that changed in an interval.
    fn close(&mut self, state: &FramebufferState, interval: Interval) {
        let number = self.intervals.len() as u32;
        for page in interval.touched.iter().map(|p| *p as usize) {
            let Some(Some(now)) = state.pages.get(page) else {
                continue;
            };
            if self.versions.len() <= page {
                self.versions.resize_with(page + 1, Vec::new);
            }
            let of = &mut self.versions[page];
            if of.last().is_none_or(|v| v.page != *now) {
                of.push(Version {
                    interval: number,
                    page: Arc::clone(now),
                });
                self.kept += 1;
            }
        }
        self.intervals.push(interval);
    }

    /// Drops every second checkpoint.
    fn double(&mut self) {
        self.interval *= 2;
        self.kept = 0;
        for of in &mut self.versions {
            for v in of.iter_mut() {
                v.interval /= 2;
            }
            // Of two versions in the same interval, the later one holds at its end.
            let mut later: Option<u32> = None;
            let mut keep: Vec<bool> = Vec::with_capacity(of.len());
            for v in of.iter().rev() {
                keep.push(later != Some(v.interval));
                later = Some(v.interval);
            }
            let mut keep = keep.into_iter().rev();
            of.retain(|_| keep.next().unwrap_or(true));
            self.kept += of.len();
        }
        let old = std::mem::take(&mut self.intervals);
        let mut old = old.into_iter();
        while let Some(mut first) = old.next() {
            if let Some(second) = old.next() {
                first.touched.extend(second.touched);
                first.touched.sort_unstable();
                first.touched.dedup();
            }
            self.intervals.push(first);
        }
    }

    /// Returns the index of the space.
    #[must_use]
    pub fn space(&self) -> u8 {
        self.space
    }

    /// Returns the size of the space, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of stores in the whole recording.
    #[must_use]
    pub fn stores(&self) -> u64 {
        self.stores
    }

    /// Returns the maximum number of events that a seek replays.
    #[must_use]
    pub fn longest_replay(&self) -> usize {
        self.interval
    }

    /// Returns the offset after the last stored byte, rounded up to a page.
    #[must_use]
    pub fn end(&self) -> u64 {
        (self.versions.len() * PAGE_SIZE) as u64
    }

    /// Returns the framebuffer after an event and all earlier ones.
    #[must_use]
    pub fn after(&self, event: u64) -> FramebufferState {
        let mut state = FramebufferState::default();
        state.seek(self, event.saturating_add(1));
        state
    }

    /// Loads the state before interval `number`.
    fn load(&self, number: usize, state: &mut FramebufferState) {
        state.pages.clear();
        let at = |of: &Vec<Version>| {
            let n = of.partition_point(|v| (v.interval as usize) < number);
            Some(Arc::clone(&of.get(n.checked_sub(1)?)?.page))
        };
        state.pages.extend(self.versions.iter().map(at));
        state.next = number.saturating_mul(self.interval).min(self.events.len());
        state.stores = self.intervals.get(number).map_or(self.stores, |i| i.before);
    }
}

/// The bytes of a framebuffer at one event. Clones share the pages.
#[derive(Clone, Default)]
pub struct FramebufferState {
    /// By page number.
    pages: Vec<Option<Arc<Page>>>,
    touched: usize,
    /// The first event that is not included.
    next: usize,
    stores: u64,
}

impl std::fmt::Debug for FramebufferState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FramebufferState(before event {})", self.next)
    }
}

impl FramebufferState {
    /// Seeks to the state before event `event`, which may be one past the last: forward from here if that is nearer
    /// than a checkpoint.
    pub fn seek(&mut self, framebuffer: &Framebuffer, event: u64) {
        let fb = framebuffer;
        let target = usize::try_from(event).map_or(fb.events.len(), |e| e.min(fb.events.len()));
        let number = target / fb.interval;
        if self.next > target || self.next < number * fb.interval {
            fb.load(number, self);
        }
        let mut touched = Vec::new();
        // Pages were counted when the framebuffer was built: there are no more of them now.
        let _ = self.replay(&fb.events, fb.space, self.next..target, &mut touched);
    }

    /// Returns the number of events that [`FramebufferState::seek`] would replay.
    #[must_use]
    pub fn distance(&self, framebuffer: &Framebuffer, event: u64) -> u64 {
        let target = usize::try_from(event).map_or(framebuffer.events.len(), |e| e.min(framebuffer.events.len()));
        let from = target / framebuffer.interval * framebuffer.interval;
        let from = if self.next > target { from } else { self.next.max(from) };
        (target - from) as u64
    }

    fn replay(
        &mut self,
        events: &Events,
        space: u8,
        range: Range<usize>,
        touched: &mut Vec<u32>,
    ) -> Result<(), FramebufferError> {
        let end = range.end;
        for (event, hit) in hits(events, space, range) {
            self.store(hit, touched)
                .map_err(|()| FramebufferError::Pages { event: event as u64 })?;
        }
        self.next = end;
        Ok(())
    }

    #[inline]
    fn store(&mut self, hit: StoreHit, touched: &mut Vec<u32>) -> Result<(), ()> {
        self.stores += 1;
        let bytes = hit.value.unwrap_or_default().to_le_bytes();
        let bytes = &bytes[..usize::from(hit.width)];
        let at = hit.offset as usize;
        let (number, in_page) = (at / PAGE_SIZE, at % PAGE_SIZE);
        let here = bytes.len().min(PAGE_SIZE - in_page);
        let parts = [(number, in_page, &bytes[..here]), (number + 1, 0, &bytes[here..])];
        for (number, in_page, bytes) in parts {
            if bytes.is_empty() {
                continue;
            }
            let page = self.page(number)?;
            match hit.value {
                Some(_) => page.store(in_page, bytes),
                None => page.mark_lost(in_page, bytes.len()),
            }
            if touched.last() != Some(&(number as u32)) {
                touched.push(number as u32);
            }
        }
        Ok(())
    }

    fn page(&mut self, number: usize) -> Result<&mut Page, ()> {
        if self.pages.len() <= number {
            self.pages.resize(number + 1, None);
        }
        let slot = &mut self.pages[number];
        if slot.is_none() {
            self.touched += 1;
            if self.touched > MAX_PAGES {
                return Err(());
            }
        }
        Ok(Arc::make_mut(slot.get_or_insert_with(|| Arc::new(Page::new()))))
    }

    /// Returns the first event that is not included.
    #[must_use]
    pub fn next_event(&self) -> u64 {
        self.next as u64
    }

    /// Returns the number of stores included.
    #[must_use]
    pub fn stores(&self) -> u64 {
        self.stores
    }

    /// Copies bytes and their states. Bytes beyond the last store are [`StoreState::Never`]. `known` is as long as
    /// `bytes`.
    pub fn read(&self, offset: u64, bytes: &mut [u8], known: &mut [StoreState]) {
        let mut done = 0;
        let length = bytes.len().min(known.len());
        while done < length {
            let at = offset.saturating_add(done as u64);
            let in_page = (at % PAGE_SIZE as u64) as usize;
            let here = (PAGE_SIZE - in_page).min(length - done);
            let (to, states) = (&mut bytes[done..done + here], &mut known[done..done + here]);
            let page = usize::try_from(at / PAGE_SIZE as u64).ok();
            match page.and_then(|n| self.pages.get(n)) {
                Some(Some(p)) => p.read(in_page, to, states),
                _ => {
                    to.fill(0);
                    states.fill(StoreState::Never);
                }
            }
            done += here;
        }
    }
}
