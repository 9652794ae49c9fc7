//! The shared axis of two aligned recordings. A position is a step of the alignment: matching events share a step, and
//! an event of one side leaves a gap in the other.
//!
//! Change counts are precomputed in levels. A range of any length is drawn from about as many sums as it has pixels.

use std::ops::Range;
use trace_core::diff::{Block, ChangeKind, DiffSide, EventAlignment};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{EventKind, Recording};

/// Number of kinds of [`ChangeKind`].
pub const KINDS: usize = 6;
/// Steps per bin of the finest level, as a power of two.
const FINEST: u32 = 3;
/// Bins of a level per bin of the next one, as a power of two.
const COARSER: u32 = 3;
/// Number of events between two checks for cancellation.
const STEP: usize = 1 << 16;

const READ: u8 = 0;
const WRITE: u8 = 1;
const OTHER: u8 = 2;
/// Bit of an event that submits a job.
const SUBMIT: u8 = 4;

/// Counts of steps and events in a part of the axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepCounts {
    /// Steps by change, in the order of [`ChangeKind`].
    pub by_change: [u32; KINDS],
    /// Reads of the first and second recording.
    pub reads: [u32; 2],
    /// Writes of the first and second recording.
    pub writes: [u32; 2],
    /// Job submits of the first and second recording.
    pub jobs: [u32; 2],
}

impl StepCounts {
    /// Returns the number of steps with this change.
    #[must_use]
    pub fn count(&self, what: ChangeKind) -> u32 {
        self.by_change.get(what as usize).copied().unwrap_or(0)
    }

    /// Returns the number of steps that differ.
    #[must_use]
    pub fn differ(&self) -> u32 {
        self.by_change.iter().sum::<u32>() - self.count(ChangeKind::Equal)
    }

    /// Returns the number of events of one side.
    #[must_use]
    pub fn events(&self, which: DiffSide) -> u32 {
        let both = self.count(ChangeKind::Equal) + self.count(ChangeKind::Changed);
        both + match which {
            DiffSide::A => self.count(ChangeKind::Deleted) + self.count(ChangeKind::MovedFrom),
            DiffSide::B => self.count(ChangeKind::Inserted) + self.count(ChangeKind::MovedTo),
        }
    }

    fn each(self, other: Self, f: fn(u32, u32) -> u32) -> Self {
        fn two<const N: usize>(a: [u32; N], b: [u32; N], f: fn(u32, u32) -> u32) -> [u32; N] {
            std::array::from_fn(|i| f(a[i], b[i]))
        }
        Self {
            by_change: two(self.by_change, other.by_change, f),
            reads: two(self.reads, other.reads, f),
            writes: two(self.writes, other.writes, f),
            jobs: two(self.jobs, other.jobs, f),
        }
    }

    fn plus(self, other: Self) -> Self {
        self.each(other, u32::wrapping_add)
    }

    fn minus(self, other: Self) -> Self {
        self.each(other, u32::wrapping_sub)
    }
}

/// A step: aligned events, or an event of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The change of the step.
    pub change: ChangeKind,
    /// Event of the first recording; `None` if it has none.
    pub a: Option<u64>,
    /// Event of the second recording; `None` if it has none.
    pub b: Option<u64>,
    /// Position of the first recording: its event, or else the event that follows its position; the last event after
    /// the end.
    pub at_a: u64,
    /// Position of the second recording, likewise.
    pub at_b: u64,
}

/// A row of the list of differences: a changed step, or a run of events that only one side has or that moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// First step of the row.
    pub step: u64,
    /// Number of steps.
    pub len: u64,
}

/// A cell of the axis: a pixel, or a step if steps are wider.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// First step.
    pub from: f64,
    /// One past the last.
    pub to: f64,
    /// Counts of the cell.
    pub sums: StepCounts,
}

/// The shared axis of two recordings.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    blocks: Vec<Block>,
    /// First step of each block, and the number of steps.
    starts: Vec<u64>,
    /// Indices of the blocks that differ.
    differing: Vec<u32>,
    /// First row of each differing block, and the number of rows.
    rows: Vec<u64>,
    /// Event range of the first recording at which each differing block is shown. Events of only the second recording
    /// are shown at the event before them.
    seen: Vec<Range<u32>>,
    events: [Vec<u32>; 2],
    /// Kind bits of each compared event.
    kinds: [Vec<u8>; 2],
    /// For each level, the sums before each of its bins.
    levels: Vec<Vec<StepCounts>>,
}

impl Steps {
    /// Builds the axis of two compared recordings. `submits` are the events that submit jobs, in ascending order.
    ///
    /// # Errors
    /// [`Cancelled`] if the operation was cancelled.
    pub fn new(
        aligned: &EventAlignment,
        recordings: [&Recording; 2],
        submits: [&[u64]; 2],
        progress: &Progress,
    ) -> Result<Self, Cancelled> {
        let a = (0..).map_while(|i| aligned.event_a(i)).map(|e| e as u32).collect();
        let b = (0..).map_while(|i| aligned.event_b(i)).map(|e| e as u32).collect();
        let mut out = Self {
            blocks: aligned.blocks().to_vec(),
            events: [a, b],
            rows: vec![0],
            starts: vec![0],
            ..Self::default()
        };
        let (mut step, mut row) = (0u64, 0u64);
        for (i, b) in (0u32..).zip(&out.blocks) {
            step += u64::from(b.len);
            out.starts.push(step);
            if b.change.differs() && b.len > 0 {
                out.differing.push(i);
                let events = &out.events[0];
                let at = |n: u32| events.get(n as usize).or(events.last()).copied().unwrap_or(0);
                let first = if b.len_a() > 0 { b.a } else { b.a.saturating_sub(1) };
                let last = first.saturating_add(b.len_a().saturating_sub(1));
                out.seen.push(at(first)..at(last).saturating_add(1));
                row += if b.change == ChangeKind::Changed {
                    u64::from(b.len)
                } else {
                    1
                };
                out.rows.push(row);
            }
        }
        progress.set_total(step.saturating_mul(2));
        for side in 0..2 {
            let (mut kinds, mut next) = (Vec::with_capacity(out.events[side].len()), 0);
            for (n, event) in out.events[side].iter().enumerate() {
                if n % STEP == 0 {
                    progress.advance(if n == 0 { 0 } else { STEP as u64 })?;
                }
                let at = *event as usize;
                let mut kind = match recordings[side].events.kind(at) {
                    Some(EventKind::Read) => READ,
                    Some(EventKind::Write) => WRITE,
                    _ => OTHER,
                };
                while submits[side].get(next).is_some_and(|s| *s < u64::from(*event)) {
                    next += 1;
                }
                if submits[side].get(next) == Some(&u64::from(*event)) {
                    kind |= SUBMIT;
                }
                kinds.push(kind);
            }
            out.kinds[side] = kinds;
        }
        out.sum(progress)?;
        Ok(out)
    }

    /// Computes the levels.
    fn sum(&mut self, progress: &Progress) -> Result<(), Cancelled> {
        let mut finest = vec![StepCounts::default()];
        let (mut sum, mut step) = (StepCounts::default(), 0u64);
        for (i, b) in self.blocks.iter().enumerate() {
            for by in 0..b.len {
                sum = sum.plus(self.one(i, by));
                step += 1;
                if step.is_multiple_of(1 << FINEST) {
                    finest.push(sum);
                }
                if step.is_multiple_of(STEP as u64) {
                    progress.advance(STEP as u64)?;
                }
            }
        }
        self.levels = vec![finest];
        while let Some(last) = self.levels.last().filter(|l| l.len() > 1 << (COARSER + 6)) {
            let next = last.iter().step_by(1 << COARSER).copied().collect();
            self.levels.push(next);
        }
        Ok(())
    }

    /// Returns the counts of one step of a block.
    fn one(&self, block: usize, by: u32) -> StepCounts {
        let mut sum = StepCounts::default();
        let Some(b) = self.blocks.get(block) else { return sum };
        if let Some(n) = sum.by_change.get_mut(b.change as usize) {
            *n = 1;
        }
        let sides = [(b.a, b.len_a()), (b.b, b.len_b())];
        for (side, (first, len)) in sides.into_iter().enumerate() {
            let kind = self.kinds[side].get((first as usize).saturating_add(by as usize));
            let Some(kind) = kind.filter(|_| len > 0) else { continue };
            sum.reads[side] = u32::from(kind & 3 == READ);
            sum.writes[side] = u32::from(kind & 3 == WRITE);
            sum.jobs[side] = u32::from(kind & SUBMIT != 0);
        }
        sum
    }

    /// Returns the number of steps.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Whether there are no steps.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the block of a step and the position in it. Steps past the end mean the last step.
    fn block(&self, step: u64) -> Option<(usize, u32)> {
        let step = step.min(self.len().checked_sub(1)?);
        let i = self.starts.partition_point(|s| *s <= step).checked_sub(1)?;
        Some((i, (step - self.starts.get(i)?) as u32))
    }

    /// Returns a step. Steps past the end mean the last step. Returns `None` if there are no steps.
    #[must_use]
    pub fn at(&self, step: u64) -> Option<Step> {
        let (i, by) = self.block(step)?;
        let b = self.blocks.get(i)?;
        let stand = |side: usize, first: u32, len: u32| {
            let events = self.events.get(side)?;
            let at = (first as usize).saturating_add(if len > 0 { by as usize } else { 0 });
            let found = events.get(at).or(events.last()).map(|e| u64::from(*e));
            Some((found.filter(|_| len > 0), found.unwrap_or(0)))
        };
        let (a, at_a) = stand(0, b.a, b.len_a())?;
        let (b_, at_b) = stand(1, b.b, b.len_b())?;
        Some(Step {
            change: b.change,
            a,
            b: b_,
            at_a,
            at_b,
        })
    }

    /// Returns the step of an event of one side, or of the next compared event.
    #[must_use]
    pub fn step_of(&self, which: DiffSide, event: u64) -> u64 {
        let side = which as usize;
        let compared = self.events[side].partition_point(|e| u64::from(*e) < event) as u32;
        let first = |b: &Block| if which == DiffSide::A { b.a } else { b.b };
        // Blocks without events of this side start at the same event as the next block with events, so the last one is
        // the right one.
        let Some(i) = self.blocks.partition_point(|b| first(b) <= compared).checked_sub(1) else {
            return 0;
        };
        let (Some(b), Some(start)) = (self.blocks.get(i), self.starts.get(i)) else {
            return 0;
        };
        let by = u64::from(compared.saturating_sub(first(b))).min(u64::from(b.len).saturating_sub(1));
        start + by
    }

    /// Returns the number of rows of the list of differences.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows.last().copied().unwrap_or(0)
    }

    /// Returns a row of the list of differences.
    #[must_use]
    pub fn row(&self, row: u64) -> Option<Row> {
        let n = self.rows.partition_point(|r| *r <= row).checked_sub(1)?;
        let block = *self.differing.get(n)? as usize;
        let (b, start) = (self.blocks.get(block)?, self.starts.get(block)?);
        let changed = b.change == ChangeKind::Changed;
        Some(Row {
            step: start + if changed { row - self.rows.get(n)? } else { 0 },
            len: if changed { 1 } else { u64::from(b.len) },
        })
    }

    /// Returns the first row that does not end before a step.
    fn row_from(&self, step: u64) -> u64 {
        let end = |i: &u32| self.starts.get(*i as usize + 1).copied().unwrap_or(0);
        let n = self.differing.partition_point(|i| end(i) <= step);
        let first = self.rows.get(n).copied().unwrap_or(0);
        let within = || {
            let block = *self.differing.get(n)? as usize;
            let changed = self.blocks.get(block)?.change == ChangeKind::Changed;
            changed.then_some(step.saturating_sub(*self.starts.get(block)?))
        };
        first + within().unwrap_or(0)
    }

    /// Returns the row that contains a step.
    #[must_use]
    pub fn row_at(&self, step: u64) -> Option<u64> {
        let row = self.row_from(step);
        let r = self.row(row)?;
        (r.step <= step && step < r.step + r.len).then_some(row)
    }

    /// Whether there are differences at events `first..end` of the first recording. This runs for every pixel of a
    /// lane, so it searches only the differences.
    #[must_use]
    pub fn differs_within(&self, first: u64, end: u64) -> bool {
        let at = self.seen.partition_point(|s| u64::from(s.end) <= first);
        self.seen.get(at).is_some_and(|s| u64::from(s.start) < end)
    }

    /// Returns the row that contains a step, or the next row.
    #[must_use]
    pub fn row_at_or_behind(&self, step: u64) -> Option<u64> {
        Some(self.row_from(step)).filter(|r| *r < self.rows())
    }

    /// Returns the next row after a step, or the previous one.
    #[must_use]
    pub fn neighbour(&self, step: u64, forward: bool) -> Option<u64> {
        let here = self.row_from(step);
        let inside = self.row_at(step).is_some();
        if forward {
            Some(here + u64::from(inside)).filter(|r| *r < self.rows())
        } else {
            here.checked_sub(1)
        }
    }

    /// Returns the exact sums of a range of steps. Takes time proportional to the number of steps.
    fn exact(&self, steps: Range<u64>) -> StepCounts {
        let mut sum = StepCounts::default();
        let Some((mut i, mut by)) = self.block(steps.start) else {
            return sum;
        };
        for _ in steps.start..steps.end.min(self.len()) {
            sum = sum.plus(self.one(i, by));
            by += 1;
            while self.blocks.get(i).is_some_and(|b| by >= b.len) {
                (i, by) = (i + 1, 0);
            }
        }
        sum
    }

    /// Returns the sums before a bin of a level.
    fn before(&self, level: usize, bin: u64) -> StepCounts {
        let level = self.levels.get(level).map_or(&[][..], Vec::as_slice);
        let at = usize::try_from(bin).unwrap_or(usize::MAX);
        level.get(at).or(level.last()).copied().unwrap_or_default()
    }

    /// Returns the cells of a part of the axis: at most `max`, or one per step if there are fewer steps.
    #[must_use]
    pub fn cells(&self, range: (f64, f64), max: usize) -> Vec<Cell> {
        let end = self.len() as f64;
        let (from, to) = (range.0.clamp(0.0, end), range.1.clamp(0.0, end));
        let n = max.max(1);
        let per = (to - from) / n as f64;
        if per <= 1.0 {
            return (from.floor() as u64..to.ceil() as u64)
                .map(|s| Cell {
                    from: s as f64,
                    to: (s + 1) as f64,
                    sums: self.exact(s..s + 1),
                })
                .collect();
        }
        // Use the coarsest level whose bins are at most half a cell wide.
        let wide = |level: usize| (1u64 << FINEST) << (COARSER * level as u32);
        let level = (0..self.levels.len()).rev().find(|l| wide(*l) as f64 <= per / 2.0);
        // The last edge is exactly the end, independent of rounding.
        let edge = |i: usize| if i == n { to } else { from + per * i as f64 };
        (0..n)
            .map(|i| {
                let (a, b) = (edge(i), edge(i + 1));
                let sums = match level {
                    None => self.exact(a.round() as u64..b.round() as u64),
                    Some(l) => {
                        let bin = |x: f64| {
                            // The last bin may be incomplete: everything is before its end.
                            if x >= end {
                                u64::MAX
                            } else {
                                (x / wide(l) as f64).round() as u64
                            }
                        };
                        self.upto(l, bin(b)).minus(self.upto(l, bin(a)))
                    }
                };
                Cell { from: a, to: b, sums }
            })
            .collect()
    }

    /// Returns the sums before a bin, or of everything for `u64::MAX`.
    fn upto(&self, level: usize, bin: u64) -> StepCounts {
        if bin != u64::MAX {
            return self.before(level, bin);
        }
        let whole = self.levels.first().map_or(0, |l| l.len().saturating_sub(1)) as u64;
        self.before(0, whole).plus(self.exact(whole << FINEST..self.len()))
    }
}
