//! A block of consecutive events with their columns: lent if they are contiguous in memory, otherwise gathered.

use crate::recording::{BLOCK_ROWS, BlockFact, Column, EventKind, Events};
use bytemuck::Pod;
use fearless_simd::{Level, dispatch};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

/// Maximum number of events of a block: the number of rows that a run of one value lends at once.
pub(super) const BLOCK: usize = BLOCK_ROWS;

/// Events that are tested together.
pub(super) struct Block<'a> {
    pub events: &'a Events,
    pub first: usize,
    pub len: usize,
    kind: OnceCell<Cow<'a, [u8]>>,
    time: OnceCell<Cow<'a, [u64]>>,
    thread: OnceCell<Cow<'a, [u32]>>,
    space: OnceCell<Cow<'a, [u8]>>,
    payload: OnceCell<Cow<'a, [u32]>>,
    rows: OnceCell<Rows>,
    offset: OnceCell<Cow<'a, [u32]>>,
    width: OnceCell<Cow<'a, [u8]>>,
    value: OnceCell<Cow<'a, [u64]>>,
}

/// The rows of the accesses among the events.
pub(super) enum Rows {
    /// Every event is an access, and their rows are consecutive from this one on.
    All(usize),
    /// Any other combination.
    Some(Mixed),
}

/// A block in which not every event is an access, or whose access rows are not consecutive.
pub(super) struct Mixed {
    /// Runs of consecutive accesses whose rows are also consecutive.
    runs: Vec<Run>,
    /// 1 for each event that is an access.
    pub access: Vec<u8>,
    /// 1 for each event that has a location: an access, or an undecoded access.
    pub place: Vec<u8>,
    /// 1 for each event whose width is known.
    pub wide: Vec<u8>,
    /// Undecoded accesses: index in the block, offset, width.
    undecoded: Vec<(usize, u32, u8)>,
}

struct Run {
    at: usize,
    row: usize,
    len: usize,
}

/// Returns the number of rows that all event columns have: the columns of a damaged recording may differ in length.
pub(super) fn len(events: &Events) -> usize {
    let lens = [
        events.kind.len(),
        events.space.len(),
        events.time.len(),
        events.thread.len(),
        events.payload.len(),
    ];
    lens.into_iter().min().unwrap_or(0)
}

/// Returns the number of rows that all access columns have.
fn access_rows(events: &Events) -> usize {
    events.offset.len().min(events.width.len()).min(events.value.len())
}

/// Returns the rows of a range in a column.
fn rows_of<T: Pod>(column: &Column<T>, range: Range<usize>) -> Cow<'_, [T]> {
    let len = range.len();
    let mut slices = column.slices(range.clone());
    match slices.next() {
        Some(first) if first.len() >= len => Cow::Borrowed(first),
        first => {
            let mut all = Vec::with_capacity(len);
            all.extend_from_slice(first.unwrap_or_default());
            slices.for_each(|s| all.extend_from_slice(s));
            Cow::Owned(all)
        }
    }
}

impl<'a> Block<'a> {
    /// Returns the events from `first` on: at most [`BLOCK`], and none after `end`, which is at most [`len`].
    pub fn new(events: &'a Events, first: usize, end: usize) -> Self {
        Self {
            events,
            first,
            len: end.saturating_sub(first).min(BLOCK),
            kind: OnceCell::new(),
            time: OnceCell::new(),
            thread: OnceCell::new(),
            space: OnceCell::new(),
            payload: OnceCell::new(),
            rows: OnceCell::new(),
            offset: OnceCell::new(),
            width: OnceCell::new(),
            value: OnceCell::new(),
        }
    }

    fn range(&self) -> Range<usize> {
        self.first..self.first + self.len
    }

    pub fn kind(&self) -> &[u8] {
        self.kind.get_or_init(|| rows_of(&self.events.kind, self.range()))
    }

    pub fn time(&self) -> &[u64] {
        self.time.get_or_init(|| rows_of(&self.events.time, self.range()))
    }

    pub fn thread(&self) -> &[u32] {
        self.thread.get_or_init(|| rows_of(&self.events.thread, self.range()))
    }

    pub fn space(&self) -> &[u8] {
        self.space.get_or_init(|| rows_of(&self.events.space, self.range()))
    }

    pub fn payload(&self) -> &[u32] {
        self.payload.get_or_init(|| rows_of(&self.events.payload, self.range()))
    }

    pub fn rows(&self) -> &Rows {
        self.rows.get_or_init(|| {
            let row = self.events.payload.get(self.first).unwrap_or(0) as usize;
            let fits = row
                .checked_add(self.len)
                .is_some_and(|end| end <= access_rows(self.events));
            let level = Level::new();
            let events = self.events;
            if fits
                && self.all(
                    &events.kind,
                    BlockFact::OnlyAccesses,
                    || dispatch!(level, _ => only_accesses(self.kind())),
                )
                && self.all(
                    &events.payload,
                    BlockFact::FollowOneAnother,
                    || dispatch!(level, _ => follow_one_another(self.payload())),
                )
            {
                Rows::All(row)
            } else {
                Rows::Some(self.mixed())
            }
        })
    }

    /// Returns whether a fact holds for all rows of a column. The result for a whole block is cached, so that the
    /// next filter does not need to read the column.
    fn all<T: Pod>(&self, column: &Column<T>, fact: BlockFact, look: impl FnOnce() -> bool) -> bool {
        let block = self.first / BLOCK;
        let kept = column.fact(block, fact);
        // A fact that holds for a block holds for its parts; one that does not hold for the block may still hold for
        // a part.
        let whole = self.first.is_multiple_of(BLOCK) && self.len == BLOCK.min(column.len().saturating_sub(self.first));
        match kept {
            Some(true) => true,
            Some(false) if whole => false,
            _ => {
                let holds = look();
                if whole {
                    column.keep_fact(block, fact, holds);
                }
                holds
            }
        }
    }

    fn mixed(&self) -> Mixed {
        let max = access_rows(self.events);
        let mut m = Mixed {
            runs: Vec::new(),
            access: vec![0; self.len],
            place: vec![0; self.len],
            wide: vec![0; self.len],
            undecoded: Vec::new(),
        };
        for (at, (kind, payload)) in self.kind().iter().zip(self.payload()).enumerate() {
            let row = *payload as usize;
            if *kind == EventKind::Read as u8 || *kind == EventKind::Write as u8 {
                if row >= max {
                    continue;
                }
                match m.runs.last_mut() {
                    Some(r) if r.at + r.len == at && r.row + r.len == row => r.len += 1,
                    _ => m.runs.push(Run { at, row, len: 1 }),
                }
            } else if *kind == EventKind::Undecoded as u8
                && let Some(u) = self.events.undecoded.get(row)
            {
                let width = u.width();
                m.undecoded.push((at, u.offset.get(), width.unwrap_or(0)));
                set(&mut m.place, at, 1);
                set(&mut m.wide, at, u8::from(width.is_some()));
            }
        }
        for r in &m.runs {
            for has in [&mut m.access, &mut m.place, &mut m.wide] {
                if let Some(has) = has.get_mut(r.at..r.at + r.len) {
                    has.fill(1);
                }
            }
        }
        m
    }

    /// Returns a column of accesses with one row per event; 0 for events that have none.
    fn accesses<T: Pod>(&self, column: &'a Column<T>) -> Cow<'a, [T]> {
        match self.rows() {
            Rows::All(row) => rows_of(column, *row..*row + self.len),
            Rows::Some(m) => {
                let mut out = vec![T::zeroed(); self.len];
                for r in &m.runs {
                    let mut at = r.at;
                    for s in column.slices(r.row..r.row + r.len) {
                        if let Some(to) = out.get_mut(at..at + s.len()) {
                            to.copy_from_slice(s);
                        }
                        at += s.len();
                    }
                }
                Cow::Owned(out)
            }
        }
    }

    pub fn offset(&self) -> &[u32] {
        self.offset.get_or_init(|| {
            let mut out = self.accesses(&self.events.offset);
            if let Rows::Some(m) = self.rows() {
                for (at, offset, _) in &m.undecoded {
                    set(out.to_mut(), *at, *offset);
                }
            }
            out
        })
    }

    pub fn width(&self) -> &[u8] {
        self.width.get_or_init(|| {
            let mut out = self.accesses(&self.events.width);
            if let Rows::Some(m) = self.rows() {
                for (at, _, width) in &m.undecoded {
                    set(out.to_mut(), *at, *width);
                }
            }
            out
        })
    }

    pub fn value(&self) -> &[u64] {
        self.value.get_or_init(|| self.accesses(&self.events.value))
    }
}

fn set<T>(all: &mut [T], at: usize, to: T) {
    if let Some(one) = all.get_mut(at) {
        *one = to;
    }
}

#[inline(always)]
fn only_accesses(kinds: &[u8]) -> bool {
    let mut others = 0u8;
    for k in kinds {
        // 1 for reads, 2 for writes; 0 becomes 255.
        others |= u8::from(k.wrapping_sub(EventKind::Read as u8) > 1);
    }
    others == 0
}

#[inline(always)]
fn follow_one_another(rows: &[u32]) -> bool {
    let first = rows.first().copied().unwrap_or(0);
    let mut others = 0u32;
    for (at, p) in rows.iter().enumerate() {
        others |= p ^ first.wrapping_add(at as u32);
    }
    others == 0
}
