//! Copies to the window that are on their way: their bytes are sent when the worker reports that they are complete.

use crate::request_ranges::SharedRange;
use std::collections::BTreeMap;

/// Maximum number of copies on their way. The program waits for its copies at some time.
const MAX_PENDING: usize = 1 << 20;

/// Copies on their way, by the sequence numbers of their requests.
#[derive(Debug, Default)]
pub struct PendingCopies(BTreeMap<u64, Vec<SharedRange>>);

impl PendingCopies {
    /// Notes a copy. Returns `false` if there are too many.
    #[must_use]
    pub fn add(&mut self, request: u64, ranges: Vec<SharedRange>) -> bool {
        if ranges.is_empty() {
            return true;
        }
        self.0.insert(request, ranges);
        self.0.len() <= MAX_PENDING
    }

    /// Takes out a copy that is complete.
    pub fn complete(&mut self, request: u64) -> Vec<SharedRange> {
        self.0.remove(&request).unwrap_or_default()
    }

    /// Returns the ranges of all copies, from the oldest.
    pub fn ranges(&self) -> Vec<SharedRange> {
        self.0.values().flatten().copied().collect()
    }

    /// Calls `keep` with the parts of a range of the window, by their offsets in it, that no copy is on its way to.
    pub fn outside<E>(
        &self,
        offset: u64,
        bytes: u64,
        mut keep: impl FnMut(u64, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let end = offset.saturating_add(bytes);
        let mut taken: Vec<(u64, u64)> = self
            .0
            .values()
            .flatten()
            .map(|range| {
                (
                    range.offset.max(offset),
                    range.offset.saturating_add(range.bytes).min(end),
                )
            })
            .filter(|(first, last)| first < last)
            .collect();
        taken.sort_unstable();
        let mut at = offset;
        for (first, last) in taken {
            if first > at {
                keep(at - offset, first - at)?;
            }
            at = at.max(last);
        }
        match at < end {
            true => keep(at - offset, end - at),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Area;

    fn range(offset: u64, bytes: u64) -> SharedRange {
        SharedRange {
            area: Area::Window,
            offset,
            bytes,
        }
    }

    #[test]
    fn parts_outside_of_copies_are_found() {
        let mut copies = PendingCopies::default();
        assert!(copies.add(1, vec![range(10, 10), range(40, 5)]));
        assert!(copies.add(2, vec![range(15, 10)]));
        assert!(copies.add(3, Vec::new()));
        let outside = |copies: &PendingCopies, offset, bytes| {
            let mut parts = Vec::new();
            let kept: Result<(), ()> = copies.outside(offset, bytes, |at, bytes| {
                parts.push((at, bytes));
                Ok(())
            });
            kept.unwrap();
            parts
        };
        assert_eq!(outside(&copies, 0, 50), [(0, 10), (25, 15), (45, 5)]);
        assert_eq!(outside(&copies, 12, 8), []);
        assert_eq!(outside(&copies, 30, 5), [(0, 5)]);
        assert_eq!(copies.complete(1), [range(10, 10), range(40, 5)]);
        assert_eq!(copies.complete(1), []);
        assert_eq!(outside(&copies, 0, 50), [(0, 15), (25, 25)]);
        assert_eq!(copies.ranges(), [range(15, 10)]);
    }
}
