//! Search for moved blocks: events that only one side has at one position, and only the other side at another.

use super::align::prefix;
use std::collections::HashMap;
use std::ops::Range;

/// Minimum number of tokens of a moved block: fewer match by chance.
pub(super) const MIN_MOVED_EVENTS: usize = 4;

/// Maximum number of positions at which the start of a block is tried.
const PLACES: usize = 8;

/// A block that both sides have, at different positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MovedEvents {
    /// Index of its first token in the first stream.
    pub a: usize,
    /// Index of its first token in the second stream.
    pub b: usize,
    /// Number of tokens.
    pub len: usize,
}

/// Finds the moved blocks, sorted by position in the first stream. `alone_a` and `alone_b` are the ranges of tokens
/// that only one side has, ascending. Every block is as long as possible, and no token is part of two.
pub(super) fn find_moved(a: &[u64], b: &[u64], alone_a: &[Range<usize>], alone_b: &[Range<usize>]) -> Vec<MovedEvents> {
    // A block can start only where its first tokens are unmatched on both sides. Only such positions are kept.
    let digest = |of: &[u64], at: usize| {
        of.get(at..at + MIN_MOVED_EVENTS).map(|t| {
            t.iter()
                .fold(0u64, |d, t| d.rotate_left(23).wrapping_mul(0xd6e8_feb8_6659_fd93) ^ t)
        })
    };
    let starts = |of: &'_ [Range<usize>]| -> Vec<Range<usize>> {
        of.iter()
            .filter(|r| r.len() >= MIN_MOVED_EVENTS)
            .map(|r| r.start..r.end - MIN_MOVED_EVENTS + 1)
            .collect()
    };
    let (starts_a, starts_b) = (starts(alone_a), starts(alone_b));
    let wanted = DigestFilter::from_digests(starts_a.iter().flat_map(Clone::clone).filter_map(|i| digest(a, i)));
    let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
    for j in starts_b.iter().flat_map(Clone::clone) {
        let Some(d) = digest(b, j).filter(|d| wanted.may_contain(*d)) else {
            continue;
        };
        let here = places.entry(d).or_default();
        if here.len() < PLACES {
            here.push(j);
        }
    }
    if places.is_empty() {
        return Vec::new();
    }
    let end_of = |alone: &[Range<usize>], at: usize| {
        let n = alone.partition_point(|r| r.end <= at);
        alone.get(n).filter(|r| r.contains(&at)).map_or(at, |r| r.end)
    };
    // Ranges of the second stream that are taken: end by first token.
    let mut taken: std::collections::BTreeMap<usize, usize> = std::collections::BTreeMap::new();
    let free_until = |taken: &std::collections::BTreeMap<usize, usize>, at: usize, end: usize| {
        if taken.range(..=at).next_back().is_some_and(|(_, e)| *e > at) {
            return at;
        }
        taken.range(at..end).next().map_or(end, |(s, _)| *s)
    };
    let mut out: Vec<MovedEvents> = Vec::new();
    for range in alone_a {
        let mut i = range.start;
        while i + MIN_MOVED_EVENTS <= range.end {
            let found = digest(a, i).and_then(|d| places.get(&d));
            let longest = found.into_iter().flatten().map(|j| {
                let end = free_until(&taken, *j, end_of(alone_b, *j));
                let of_a = a.get(i..range.end).unwrap_or_default();
                let of_b = b.get(*j..end).unwrap_or_default();
                (prefix(of_a, of_b, |x, y| x == y), *j)
            });
            // Of equally long blocks, take the first.
            match longest.max_by_key(|(len, j)| (*len, std::cmp::Reverse(*j))) {
                Some((len, j)) if len >= MIN_MOVED_EVENTS => {
                    out.push(MovedEvents { a: i, b: j, len });
                    taken.insert(j, j + len);
                    i += len;
                }
                _ => i += 1,
            }
        }
    }
    out
}

/// A set of digests as a bitmap, with a few false positives.
struct DigestFilter {
    bits: Vec<u64>,
}

impl DigestFilter {
    fn from_digests(digests: impl Iterator<Item = u64> + Clone) -> Self {
        let many = digests.clone().count().max(8);
        let mut bits = vec![0u64; (many * 8).next_power_of_two() / 64];
        let places = bits.len() * 64;
        for d in digests {
            let at = d as usize & (places - 1);
            if let Some(w) = bits.get_mut(at / 64) {
                *w |= 1 << (at % 64);
            }
        }
        Self { bits }
    }

    fn may_contain(&self, digest: u64) -> bool {
        let at = digest as usize & (self.bits.len() * 64 - 1);
        self.bits.get(at / 64).is_some_and(|w| w >> (at % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates ranges of tokens from first and end.
    fn ranges<const N: usize>(bounds: [(usize, usize); N]) -> [Range<usize>; N] {
        bounds.map(|(from, to)| from..to)
    }

    #[test]
    fn moved_block_is_found_complete_and_once() {
        let a: Vec<u64> = (0..40).collect();
        let mut b: Vec<u64> = (100..130).collect();
        b.extend(10..20);
        b.extend(10..20);
        let found = find_moved(&a, &b, &ranges([(5, 25)]), &ranges([(0, 50)]));
        assert_eq!(found, [MovedEvents { a: 10, b: 30, len: 10 }]);
    }

    #[test]
    fn moved_block_ends_at_matched_events_of_either_side() {
        let a: Vec<u64> = (0..40).collect();
        let b: Vec<u64> = (0..40).collect();
        // The same tokens, but only these ranges are unmatched.
        let found = find_moved(&a, &b, &ranges([(3, 12), (20, 30)]), &ranges([(6, 40)]));
        assert_eq!(
            found,
            [
                MovedEvents { a: 6, b: 6, len: 6 },
                MovedEvents { a: 20, b: 20, len: 10 }
            ]
        );
    }

    #[test]
    fn too_few_tokens_are_not_a_moved_block() {
        let (a, b) = ([1, 2, 3, 9, 9], [8, 8, 1, 2, 3]);
        assert_eq!(find_moved(&a, &b, &ranges([(0, 5)]), &ranges([(0, 5)])), []);
    }
}
