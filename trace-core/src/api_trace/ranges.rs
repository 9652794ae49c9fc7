//! Address ranges that each belong to an event, queried by address and event.
//!
//! The index is a tree over the end points of all ranges. Each range is stored in at most as many nodes as the tree
//! is deep. In each node the ranges are sorted by event. The ranges that cover an address are on the path from its
//! leaf to the root. A query costs the depth of the tree and a search in each node, for any number of ranges.

use crate::GpuVa;
use std::ops::Range;

/// A range of addresses and its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// First address.
    pub from: GpuVa,
    /// One past the last address.
    pub to: GpuVa,
    /// The event.
    pub event: u64,
    /// The caller's identifier for the range.
    pub tag: u32,
}

/// Ranges in the order of their events.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    entries: Vec<Entry>,
    /// The addresses where ranges start or end, ascending and unique.
    bounds: Vec<GpuVa>,
    /// The index in `held` of each node's first entry, plus one more for the end.
    first: Vec<u32>,
    /// Entries by node, ascending.
    held: Vec<u32>,
}

impl Ranges {
    /// Builds a tree of ranges. Skips empty ranges, and those that do not fit in 32-bit indices.
    pub fn new(mut entries: Vec<Entry>) -> Self {
        entries.retain(|e| e.from < e.to);
        entries.sort_by_key(|e| e.event);
        entries.truncate(u32::MAX as usize / 64);
        let mut bounds: Vec<GpuVa> = entries.iter().flat_map(|e| [e.from, e.to]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let leaves = bounds.len();
        let mut ranges = Self {
            entries,
            bounds,
            first: vec![0; leaves * 2 + 1],
            held: Vec::new(),
        };
        // Counting first lets all nodes share one list.
        for at in 0..ranges.entries.len() {
            let Some(e) = ranges.entries.get(at).copied() else {
                break;
            };
            let (from, to) = (ranges.bound(e.from), ranges.bound(e.to));
            nodes(leaves, from..to, |n| {
                if let Some(count) = ranges.first.get_mut(n + 1) {
                    *count += 1;
                }
            });
        }
        let mut sum = 0;
        for n in &mut ranges.first {
            sum += *n;
            *n = sum;
        }
        ranges.held = vec![0; sum as usize];
        let mut next = ranges.first.clone();
        for at in 0..ranges.entries.len() {
            let Some(e) = ranges.entries.get(at).copied() else {
                break;
            };
            let (from, to) = (ranges.bound(e.from), ranges.bound(e.to));
            nodes(leaves, from..to, |n| {
                if let Some(place) = next.get_mut(n) {
                    if let Some(held) = ranges.held.get_mut(*place as usize) {
                        *held = at as u32;
                    }
                    *place += 1;
                }
            });
        }
        ranges
    }

    /// Returns a new tree of the ranges that match.
    pub fn only(&self, is_match: impl Fn(&Entry) -> bool) -> Self {
        Self::new(self.entries.iter().filter(|e| is_match(e)).copied().collect())
    }

    /// Returns the index of the first bound at or after an address.
    fn bound(&self, address: GpuVa) -> usize {
        self.bounds.partition_point(|b| *b < address)
    }

    /// Returns the range around an address in which no range starts or ends.
    pub fn stretch(&self, address: GpuVa) -> Range<GpuVa> {
        let n = self.bounds.partition_point(|b| *b <= address);
        let from = n.checked_sub(1).and_then(|i| self.bounds.get(i)).copied();
        from.unwrap_or_default()..self.bounds.get(n).copied().unwrap_or(GpuVa::MAX)
    }

    /// Returns the lists of ranges that cover an address, each sorted by event.
    fn over(&self, address: GpuVa) -> impl Iterator<Item = &[u32]> {
        let n = self.bounds.partition_point(|b| *b <= address);
        let leaf = n.checked_sub(1).map_or(0, |i| i + self.bounds.len());
        let mut node = if n == 0 { 0 } else { leaf };
        std::iter::from_fn(move || {
            let at = (node > 0).then_some(node)?;
            node /= 2;
            let (from, to) = (*self.first.get(at)? as usize, *self.first.get(at + 1)? as usize);
            self.held.get(from..to)
        })
    }

    fn entry(&self, at: u32) -> Option<Entry> {
        self.entries.get(at as usize).copied()
    }

    fn event(&self, at: u32) -> u64 {
        self.entry(at).map_or(0, |e| e.event)
    }

    /// Returns the last range that covers an address, has its event in `events`, and is accepted by `is_match`.
    pub fn last(&self, address: GpuVa, events: Range<u64>, mut is_match: impl FnMut(&Entry) -> bool) -> Option<Entry> {
        let mut best: Option<Entry> = None;
        for list in self.over(address) {
            let n = list.partition_point(|i| self.event(*i) < events.end);
            let min = best.map_or(events.start, |b| b.event.max(events.start));
            let before = list
                .get(..n)
                .unwrap_or_default()
                .iter()
                .rev()
                .map_while(|i| self.entry(*i));
            let found = before.take_while(|e| e.event >= min).find(|e| is_match(e));
            best = found.or(best);
        }
        best
    }

    /// Returns the first range that covers an address, has its event in `events`, and is accepted by `is_match`.
    pub fn first(&self, address: GpuVa, events: Range<u64>, mut is_match: impl FnMut(&Entry) -> bool) -> Option<Entry> {
        let mut best: Option<Entry> = None;
        for list in self.over(address) {
            let n = list.partition_point(|i| self.event(*i) < events.start);
            let max = best.map_or(events.end, |b| b.event.min(events.end));
            let behind = list.get(n..).unwrap_or_default().iter().map_while(|i| self.entry(*i));
            let found = behind.take_while(|e| e.event < max).find(|e| is_match(e));
            best = found.or(best);
        }
        best
    }

    /// Returns the ranges that cover an address and have their event in `events`, sorted by event; at most the last
    /// `max` of each node.
    pub fn list(&self, address: GpuVa, events: Range<u64>, max: usize) -> Vec<Entry> {
        let mut out = Vec::new();
        for list in self.over(address) {
            let from = list.partition_point(|i| self.event(*i) < events.start);
            let to = list.partition_point(|i| self.event(*i) < events.end);
            let part = list.get(from.max(to.saturating_sub(max))..to).unwrap_or_default();
            out.extend(part.iter().filter_map(|i| self.entry(*i)));
        }
        out.sort_by_key(|e| e.event);
        out
    }
}

/// Calls `call` with each node that makes up a range of leaves.
fn nodes(leaves: usize, range: Range<usize>, mut call: impl FnMut(usize)) {
    let (mut from, mut to) = (range.start + leaves, range.end + leaves);
    while from < to {
        if from % 2 == 1 {
            call(from);
            from += 1;
        }
        if to % 2 == 1 {
            to -= 1;
            call(to);
        }
        from /= 2;
        to /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn range_queries_agree_with_a_linear_scan(
            list in prop::collection::vec((0u64..60, 0u64..20, 0u64..40), 0..60),
            odd in any::<bool>(),
        ) {
            let entries: Vec<Entry> = list
                .iter()
                .enumerate()
                .map(|(i, (from, bytes, event))| Entry {
                    from: GpuVa::new(*from),
                    to: GpuVa::new(from + bytes),
                    event: *event,
                    tag: i as u32,
                })
                .collect();
            let r = Ranges::new(entries.clone());
            let is_match = |e: &Entry| !odd || e.tag % 2 == 1;
            for address in 0..85 {
                let over = |e: &&Entry| e.from <= GpuVa::new(address) && address < e.to.get();
                for (a, b) in [(0, 50), (10, 30), (20, 20), (35, 36)] {
                    let within = |e: &&Entry| over(e) && (a..b).contains(&e.event) && is_match(e);
                    let events: Vec<u64> = entries.iter().filter(within).map(|e| e.event).collect();
                    let last = r.last(GpuVa::new(address), a..b, is_match).map(|e| e.event);
                    prop_assert_eq!(last, events.iter().max().copied());
                    let first = r.first(GpuVa::new(address), a..b, is_match).map(|e| e.event);
                    prop_assert_eq!(first, events.iter().min().copied());
                    let mut all: Vec<u32> = r.list(GpuVa::new(address), a..b, 1000).iter().map(|e| e.tag).collect();
                    all.sort_unstable();
                    let mut walked: Vec<u32> =
                        entries.iter().filter(|e| over(e) && (a..b).contains(&e.event)).map(|e| e.tag).collect();
                    walked.sort_unstable();
                    prop_assert_eq!(all, walked);
                }
                let stretch = r.stretch(GpuVa::new(address));
                prop_assert!(stretch.contains(&GpuVa::new(address)));
                let ends = entries.iter().filter(|e| e.from < e.to).flat_map(|e| [e.from, e.to]);
                prop_assert!(ends.into_iter().all(|b| b <= stretch.start || b >= stretch.end));
            }
        }
    }
}
