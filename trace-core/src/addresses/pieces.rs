//! Pieces of an address space in ascending order, with a tree of their summaries.

use crate::GpuVa;
use std::ops::Range;

/// The summary of several pieces. Joining is commutative and associative, and the default is neutral.
pub trait Summary: Clone + Default {
    /// Adds another summary.
    fn join(&mut self, other: &Self);
}

/// A piece of an address space.
pub trait Piece {
    /// The summary of several pieces.
    type Summary: Summary;

    /// Returns the first byte.
    fn start(&self) -> GpuVa;

    /// Returns the number of bytes.
    fn bytes(&self) -> u64;

    /// Returns the summary of `bytes` bytes of it.
    fn summarize(&self, bytes: u64) -> Self::Summary;

    /// Returns one past the last byte.
    fn end(&self) -> GpuVa {
        self.start().saturating_add(self.bytes())
    }
}

/// Number of pieces or nodes per tree node.
const FAN: usize = 16;

/// Pieces in ascending order that do not overlap, with the summary of any range.
#[derive(Clone, Debug)]
pub struct Pieces<P: Piece> {
    list: Vec<P>,
    /// Each level holds the summaries of [`FAN`] items of the level below; the lowest level is above the pieces.
    levels: Vec<Vec<P::Summary>>,
}

impl<P: Piece> Default for Pieces<P> {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl<P: Piece> Pieces<P> {
    /// Builds the tree. `list` must be in ascending order and must not overlap; otherwise answers are wrong, but
    /// nothing worse happens.
    #[must_use]
    pub fn new(list: Vec<P>) -> Self {
        let sum = |parts: &mut dyn Iterator<Item = P::Summary>| {
            let mut all = P::Summary::default();
            parts.for_each(|p| all.join(&p));
            all
        };
        let mut levels: Vec<Vec<P::Summary>> = Vec::new();
        if list.len() > FAN {
            let parts = list.chunks(FAN);
            levels.push(
                parts
                    .map(|c| sum(&mut c.iter().map(|p| p.summarize(p.bytes()))))
                    .collect(),
            );
        }
        while let Some(below) = levels.last().filter(|l| l.len() > FAN) {
            let above = below.chunks(FAN).map(|c| sum(&mut c.iter().cloned())).collect();
            levels.push(above);
        }
        Self { list, levels }
    }

    /// Returns the pieces.
    #[must_use]
    pub fn list(&self) -> &[P] {
        &self.list
    }

    /// Returns the indices of the pieces that reach into an address range.
    #[must_use]
    pub fn within(&self, range: &Range<GpuVa>) -> Range<usize> {
        let from = self.list.partition_point(|p| p.end() <= range.start);
        let to = self.list.partition_point(|p| p.start() < range.end);
        from..to.max(from)
    }

    /// Returns the piece that contains an address.
    #[must_use]
    pub fn at(&self, address: GpuVa) -> Option<&P> {
        let n = self.list.partition_point(|p| p.start() <= address);
        self.list.get(n.checked_sub(1)?).filter(|p| address < p.end())
    }

    /// Returns the next border above an address: the end of the piece that contains it, or the start of the next one;
    /// [`GpuVa::MAX`] above all pieces.
    #[must_use]
    pub fn border(&self, address: GpuVa) -> GpuVa {
        let n = self.list.partition_point(|p| p.end() <= address);
        match self.list.get(n) {
            Some(p) if p.start() <= address => p.end(),
            Some(p) => p.start(),
            None => GpuVa::MAX,
        }
    }

    /// Returns the summary of an address range; pieces that reach beyond it count with their part in it.
    #[must_use]
    pub fn over(&self, range: &Range<GpuVa>) -> P::Summary {
        let places = self.within(range);
        let clipped = |p: &P| {
            let (from, to) = (p.start().max(range.start), p.end().min(range.end));
            p.summarize(to.saturating_sub(from.get()).get())
        };
        let mut out = P::Summary::default();
        let Some(inner) = self.list.get(places.clone()) else {
            return out;
        };
        // The first and the last piece may reach beyond.
        match inner {
            [] => {}
            [one] => out.join(&clipped(one)),
            [first, .., last] => {
                out.join(&clipped(first));
                out.join(&clipped(last));
                self.whole(places.start + 1..places.end - 1, &mut out);
            }
        }
        out
    }

    /// Adds the summary of whole pieces.
    fn whole(&self, places: Range<usize>, out: &mut P::Summary) {
        let (mut from, mut to) = (places.start, places.end);
        let mut below: Option<&Vec<P::Summary>> = None;
        let mut levels = self.levels.iter();
        loop {
            let add = |at: usize, out: &mut P::Summary| match below {
                None => {
                    if let Some(p) = self.list.get(at) {
                        out.join(&p.summarize(p.bytes()));
                    }
                }
                Some(level) => {
                    if let Some(s) = level.get(at) {
                        out.join(s);
                    }
                }
            };
            let above = levels.next();
            while from < to && (above.is_none() || !from.is_multiple_of(FAN)) {
                add(from, out);
                from += 1;
            }
            while from < to && !to.is_multiple_of(FAN) {
                to -= 1;
                add(to, out);
            }
            if from >= to {
                return;
            }
            (from, to, below) = (from / FAN, to / FAN, above);
        }
    }
}
