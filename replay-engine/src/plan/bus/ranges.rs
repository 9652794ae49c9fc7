//! A set of bytes, as disjoint, non-adjacent ranges.

use std::collections::BTreeMap;
use std::ops::Range;
use trace_core::BusAddr;

/// A set of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    /// Start to end (exclusive).
    ranges: BTreeMap<BusAddr, BusAddr>,
}

impl Ranges {
    /// Adds bytes.
    pub fn add(&mut self, range: Range<BusAddr>) {
        let (mut start, mut end) = (range.start, range.end);
        if start >= end {
            return;
        }
        // All ranges that touch it are merged with it.
        while let Some((s, e)) = self.ranges.range(..=end).next_back().map(|(s, e)| (*s, *e)) {
            if e < start {
                break;
            }
            self.ranges.remove(&s);
            (start, end) = (start.min(s), end.max(e));
        }
        self.ranges.insert(start, end);
    }

    /// Returns the ranges, ascending; no two touch.
    pub fn iter(&self) -> impl Iterator<Item = Range<BusAddr>> + '_ {
        self.ranges.iter().map(|(s, e)| *s..*e)
    }

    /// Removes bytes.
    pub fn remove(&mut self, range: Range<BusAddr>) {
        while let Some((s, e)) = self.overlapping(&range) {
            self.ranges.remove(&s);
            if s < range.start {
                self.ranges.insert(s, range.start);
            }
            if e > range.end {
                self.ranges.insert(range.end, e);
            }
        }
    }

    /// Returns whether any of these bytes is in the set.
    pub fn overlaps(&self, range: &Range<BusAddr>) -> bool {
        self.overlapping(range).is_some()
    }

    /// Returns the part of these bytes in the set, as ranges.
    pub fn within(&self, range: Range<BusAddr>) -> impl Iterator<Item = Range<BusAddr>> + '_ {
        let before = self.ranges.range(..range.start).next_back();
        let (from, to) = (range.start, range.end.max(range.start));
        let all = before.into_iter().chain(self.ranges.range(from..to));
        all.map(move |(s, e)| from.max(*s)..to.min(*e))
            .filter(|r| r.start < r.end)
    }

    fn overlapping(&self, range: &Range<BusAddr>) -> Option<(BusAddr, BusAddr)> {
        if range.start >= range.end {
            return None;
        }
        let last = self.ranges.range(..range.end).next_back();
        last.map(|(s, e)| (*s, *e)).filter(|(_, e)| *e > range.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_set_agrees_with_a_byte_set() {
        let mut state = 7u64;
        let mut next = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % n
        };
        for _ in 0..200 {
            let (mut set, mut bytes) = (Ranges::default(), [false; 64]);
            for _ in 0..40 {
                let from = next(64);
                let range = from..from + next(64 - from + 1);
                let add = next(3) > 0;
                if add {
                    set.add(BusAddr::new_range(range.clone()));
                } else {
                    set.remove(BusAddr::new_range(range.clone()));
                }
                range.for_each(|i| bytes[i as usize] = add);
                let from = next(64);
                let requested = from..from + next(64 - from + 1);
                assert_eq!(
                    set.overlaps(&BusAddr::new_range(requested.clone())),
                    requested.clone().any(|i| bytes[i as usize]),
                    "{set:?} {requested:?}"
                );
                let mut covered = [false; 64];
                let within = set.within(BusAddr::new_range(requested.clone()));
                within.for_each(|r| BusAddr::get_range(&r).for_each(|i| covered[i as usize] = true));
                assert!((0..64).all(|i| covered[i as usize] == (bytes[i as usize] && requested.contains(&(i as u64)))));
            }
        }
    }
}
