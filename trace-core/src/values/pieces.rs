//! The drawable pieces of a plot of values: values closer together than a column form one piece with their minimum and
//! maximum, found in precomputed blocks.

use super::Values;

/// Number of values, or of blocks of the level below, that a block summarises.
pub(super) const FAN: usize = 8;

/// Several consecutive values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// First event.
    first: u32,
    /// Last event.
    last: u32,
    min: u64,
    max: u64,
    /// The value at the last event.
    end: u64,
}

impl Block {
    fn join(self, later: Self) -> Self {
        Self {
            first: self.first,
            last: later.last,
            min: self.min.min(later.min),
            max: self.max.max(later.max),
            end: later.end,
        }
    }
}

/// One value, or several in one column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Position of the first value.
    pub from: f64,
    /// Position of the last value.
    pub to: f64,
    /// Minimum.
    pub min: u64,
    /// Maximum.
    pub max: u64,
    /// First value.
    pub begin: u64,
    /// Last value: it holds until the next piece.
    pub end: u64,
}

fn single(event: u32, value: u64) -> Block {
    Block {
        first: event,
        last: event,
        min: value,
        max: value,
        end: value,
    }
}

/// Summarises values, level by level, until one block is left.
pub(super) fn steps(events: &[u32], values: &[u64]) -> Vec<Vec<Block>> {
    let joined = |blocks: &[Block]| blocks.iter().copied().reduce(Block::join);
    let mut steps: Vec<Vec<Block>> = Vec::new();
    let bottom = events.chunks(FAN).zip(values.chunks(FAN));
    let bottom = bottom.filter_map(|(e, v)| e.iter().zip(v).map(|(e, v)| single(*e, *v)).reduce(Block::join));
    let mut next: Vec<Block> = bottom.collect();
    while !next.is_empty() {
        let above = (next.len() > 1).then(|| next.chunks(FAN).filter_map(joined).collect());
        steps.push(next);
        next = above.unwrap_or_default();
    }
    steps
}

/// Returns the minimum and maximum of all values.
pub(super) fn range(values: &[u64], steps: &[Vec<Block>]) -> Option<(u64, u64)> {
    match steps.last().and_then(|s| s.first()) {
        Some(all) => Some((all.min, all.max)),
        None => Some((*values.iter().min()?, *values.iter().max()?)),
    }
}

/// A walk down the blocks.
struct Walk<'a> {
    of: &'a Values,
    place: &'a dyn Fn(u64) -> f64,
    from: f64,
    to: f64,
    /// Width of a column: narrower spans become one piece.
    column: f64,
    before: Option<u64>,
    out: Vec<Piece>,
}

impl Walk<'_> {
    /// Visits a block of a level; level 0 is the values themselves. Returns `false` if all further values are out of
    /// view.
    fn look(&mut self, step: usize, index: usize) -> bool {
        let block = match step.checked_sub(1) {
            None => match (self.of.events.get(index), self.of.values.get(index)) {
                (Some(e), Some(v)) => single(*e, *v),
                _ => return true,
            },
            Some(n) => match self.of.steps.get(n).and_then(|s| s.get(index)) {
                Some(b) => *b,
                None => return true,
            },
        };
        let first = (self.place)(u64::from(block.first));
        if first > self.to {
            return false;
        }
        let last = match block.first == block.last {
            true => first,
            false => (self.place)(u64::from(block.last)),
        };
        if last < self.from {
            self.before = Some(block.end);
            return true;
        }
        let seen = first >= self.from && last <= self.to;
        let Some(below) = step.checked_sub(1).filter(|_| !seen || last - first > self.column) else {
            self.take(first, last, block, index, step);
            return true;
        };
        (index * FAN..(index + 1) * FAN).all(|i| self.look(below, i))
    }

    /// Returns the first value of a block.
    fn begin(&self, step: usize, index: usize) -> Option<u64> {
        let first = (0..step).fold(index, |i, _| i.saturating_mul(FAN));
        self.of.values.get(first).copied()
    }

    fn take(&mut self, from: f64, to: f64, block: Block, index: usize, step: usize) {
        if let Some(p) = self.out.last_mut().filter(|p| to - p.from <= self.column) {
            p.to = to;
            p.min = p.min.min(block.min);
            p.max = p.max.max(block.max);
            p.end = block.end;
            return;
        }
        let begin = self.begin(step, index).unwrap_or(block.end);
        self.out.push(Piece {
            from,
            to,
            min: block.min,
            max: block.max,
            begin,
            end: block.end,
        });
    }
}

impl Values {
    /// Returns the pieces of the values between two positions, both inclusive, for a number of columns, and the value
    /// that holds before the first of them. `place` gives the position of an event and must not decrease. Time depends
    /// on the number of columns: values closer together than a column form one piece with their minimum and maximum.
    #[must_use]
    pub fn pieces(&self, place: &dyn Fn(u64) -> f64, from: f64, to: f64, columns: usize) -> (Option<u64>, Vec<Piece>) {
        let mut walk = Walk {
            of: self,
            place,
            from,
            to,
            column: ((to - from) / columns.max(1) as f64).max(0.0),
            before: None,
            out: Vec::new(),
        };
        // The topmost level is one block.
        walk.look(self.steps.len(), 0);
        (walk.before, walk.out)
    }
}
