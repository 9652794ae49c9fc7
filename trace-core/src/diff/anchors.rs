//! Alignment of two long sequences in near-linear time with anchors, and a bounded search between them.
//!
//! Anchors are short windows of elements that occur equally often, and rarely, on both sides. They are searched with
//! ever shorter windows, down to single elements. The longest series of anchors that ascends on both sides is kept
//! (patience diff). Elements that the other side does not contain are removed before a search at no cost, because no
//! alignment can use them. Two sequences with nothing in common are therefore done at once.

use super::align::{Alignment, Common, MAX_EDIT_DISTANCE, align_within, prefix, suffix};
use crate::progress::{Cancelled, Progress};
use std::collections::HashSet;

/// Lengths of the windows, in the order of use, each with a mask. Only windows whose digest has none of the mask's
/// bits set are used, so that both sides use the same ones and the lists stay short.
const LEVELS: [(usize, u64); 3] = [(32, 31), (8, 3), (1, 0)];

/// Maximum number of occurrences of a window on either side: more frequent ones do not identify a match.
const RARE: usize = 8;

/// Below this total number of elements on both sides, the shortest alignment is searched directly.
const SMALL: usize = 256;

/// Maximum number of recursive passes for single-element anchors between two anchors.
const DEPTH: u32 = 8;

/// Above this number of elements, a search uses a smaller bound, so that the total stays linear.
const LONG: usize = 1 << 20;

/// The bound of a search of long sequences.
const LONG_BOUND: usize = 64;

/// Above this number of elements, a bitmap records which elements the other side has; its false positives keep a few
/// elements needlessly.
const MAPPED: usize = 1 << 16;

/// Up to this number, elements are searched linearly.
const FEW: usize = 16;

/// Number of rounds in which each side is filtered by what is left of the other.
const ROUNDS: usize = 4;

/// Aligns two sequences. The elements are digests, which are equal if the events that they stand for are.
///
/// # Errors
/// If the work was cancelled.
pub(super) fn align_long(a: &[u64], b: &[u64], progress: &Progress) -> Result<Alignment, Cancelled> {
    let mut work = Work {
        a,
        b,
        progress,
        out: Alignment::default(),
    };
    work.between((0, a.len()), (0, b.len()), 0)?;
    Ok(work.out)
}

/// A range of a sequence: first element and end.
type Range = (usize, usize);

struct Work<'a> {
    a: &'a [u64],
    b: &'a [u64],
    progress: &'a Progress,
    out: Alignment,
}

impl Work<'_> {
    fn push(&mut self, a: usize, b: usize, len: usize) {
        self.out.push(Common { a, b, len });
    }

    /// Aligns two ranges. `round` is the number of anchor passes so far.
    fn between(&mut self, of_a: Range, of_b: Range, round: u32) -> Result<(), Cancelled> {
        self.progress.check()?;
        let same = |x: &u64, y: &u64| x == y;
        let (all_a, all_b) = (self.a, self.b);
        let (a, b) = (subslice(all_a, of_a), subslice(all_b, of_b));
        let before = prefix(a, b, same);
        self.push(of_a.0, of_b.0, before);
        let behind = suffix(
            a.get(before..).unwrap_or_default(),
            b.get(before..).unwrap_or_default(),
            same,
        );
        let inner_a = (of_a.0 + before, of_a.1 - behind);
        let inner_b = (of_b.0 + before, of_b.1 - behind);
        self.inner(inner_a, inner_b, round)?;
        self.push(inner_a.1, inner_b.1, behind);
        Ok(())
    }

    /// Aligns two ranges that have no common prefix or suffix.
    fn inner(&mut self, of_a: Range, of_b: Range, round: u32) -> Result<(), Cancelled> {
        let (all_a, all_b) = (self.a, self.b);
        let (a, b) = (subslice(all_a, of_a), subslice(all_b, of_b));
        if a.is_empty() || b.is_empty() {
            return Ok(());
        }
        let small = a.len() + b.len() <= SMALL;
        let levels = LEVELS
            .iter()
            .enumerate()
            .skip(round.min(LEVELS.len() as u32 - 1) as usize);
        for (level, (length, mask)) in levels.filter(|_| !small && round < DEPTH) {
            self.progress.check()?;
            let held = longest_rising(find_common_anchors(a, b, *length, *mask));
            if held.is_empty() {
                continue;
            }
            let (mut from_a, mut from_b) = (of_a.0, of_b.0);
            for (i, j) in held {
                let (i, j) = (i + of_a.0, j + of_b.0);
                if i < from_a || j < from_b || all_a.get(i) != all_b.get(j) {
                    continue;
                }
                // Extend the match backward and forward as far as both sides are equal.
                let same = |x: &u64, y: &u64| x == y;
                let back = suffix(subslice(all_a, (from_a, i)), subslice(all_b, (from_b, j)), same);
                let on = prefix(subslice(all_a, (i, of_a.1)), subslice(all_b, (j, of_b.1)), same);
                self.between((from_a, i - back), (from_b, j - back), (level as u32).max(round) + 1)?;
                self.push(i - back, j - back, back + on);
                (from_a, from_b) = (i + on, j + on);
            }
            return self.between((from_a, of_a.1), (from_b, of_b.1), (level as u32).max(round) + 1);
        }
        self.search((of_a.0, a), (of_b.0, b))
    }

    /// Searches the fewest differences, within a bound, in ranges without anchors. Each side is the index of its
    /// first element and the elements.
    fn search(&mut self, a: (usize, &[u64]), b: (usize, &[u64])) -> Result<(), Cancelled> {
        let all = |of: &[u64]| -> Vec<(u32, u64)> { of.iter().enumerate().map(|(i, t)| (i as u32, *t)).collect() };
        let (mut kept_a, mut kept_b) = (retain_shared(all(a.1), &all(b.1)), all(b.1));
        // An element removed on one side can remove more on the other, until the rest is examined exactly.
        for _ in 0..ROUNDS {
            kept_b = retain_shared(kept_b, &kept_a);
            kept_a = retain_shared(kept_a, &kept_b);
            if kept_a.len().max(kept_b.len()) <= MAPPED {
                break;
            }
        }
        let bound = if kept_a.len() + kept_b.len() > LONG {
            LONG_BOUND
        } else {
            MAX_EDIT_DISTANCE
        };
        let found = align_within(&kept_a, &kept_b, bound, self.progress, |x, y| x.1 == y.1)?;
        for c in found.common {
            // Removed elements may be between two elements that are consecutive here.
            let (of_a, of_b) = (kept_a.get(c.a..c.a + c.len), kept_b.get(c.b..c.b + c.len));
            for (x, y) in of_a.unwrap_or_default().iter().zip(of_b.unwrap_or_default()) {
                self.push(a.0 + x.0 as usize, b.0 + y.0 as usize, 1);
            }
        }
        self.out.cut_short |= found.cut_short;
        Ok(())
    }
}

fn subslice(of: &[u64], range: Range) -> &[u64] {
    of.get(range.0..range.1).unwrap_or_default()
}

/// Returns the elements of one side that the other side may have. Each is an index and the element.
fn retain_shared(mut of: Vec<(u32, u64)>, other: &[(u32, u64)]) -> Vec<(u32, u64)> {
    if other.len() <= FEW {
        of.retain(|(_, t)| other.iter().any(|o| o.1 == *t));
        return of;
    }
    if other.len() <= MAPPED {
        let there: HashSet<u64> = other.iter().map(|o| o.1).collect();
        of.retain(|(_, t)| there.contains(t));
        return of;
    }
    // At least eight bits per element: an absent element is kept in at most one of eight cases.
    let bits = (other.len() * 8).next_power_of_two();
    let place = |t: u64| (t.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as usize & (bits - 1);
    let mut there = vec![0u64; bits / 64];
    for (_, t) in other {
        if let Some(word) = there.get_mut(place(*t) / 64) {
            *word |= 1 << (place(*t) % 64);
        }
    }
    of.retain(|(_, t)| {
        there
            .get(place(*t) / 64)
            .is_some_and(|w| w >> (place(*t) % 64) & 1 == 1)
    });
    of
}

/// Returns the digests of the windows of `length` elements that the mask selects, with their start positions; sorted
/// by digest, then by position.
fn hash_windows(of: &[u64], length: usize, mask: u64) -> Vec<(u64, u32)> {
    const BASE: u64 = 0xd6e8_feb8_6659_fd93;
    // The weight of the first element of a window in its digest, used to remove it again.
    let first = (1..length).fold(1u64, |p, _| p.wrapping_mul(BASE));
    let mut out = Vec::new();
    let mut digest = 0u64;
    for (i, t) in of.iter().enumerate() {
        if let Some(gone) = i.checked_sub(length).and_then(|g| of.get(g)) {
            digest = digest.wrapping_sub(gone.wrapping_mul(first));
        }
        digest = digest.wrapping_mul(BASE).wrapping_add(*t);
        if i + 1 < length {
            continue;
        }
        // The low bits of a sum of products are badly distributed.
        let mixed = (digest ^ digest >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = mixed ^ mixed >> 32;
        if mixed & mask == 0 {
            out.push((mixed, (i + 1 - length) as u32));
        }
    }
    out.sort_unstable();
    out
}

/// Returns pairs of positions of matching anchors in order: windows that both sides have equally often and rarely.
fn find_common_anchors(a: &[u64], b: &[u64], length: usize, mask: u64) -> Vec<(usize, usize)> {
    let (of_a, of_b) = (hash_windows(a, length, mask), hash_windows(b, length, mask));
    let mut of_b = of_b.chunk_by(|x, y| x.0 == y.0).peekable();
    let mut out = Vec::new();
    for run in of_a.chunk_by(|x, y| x.0 == y.0) {
        let Some(digest) = run.first().map(|r| r.0) else {
            continue;
        };
        while of_b.next_if(|r| r.first().is_some_and(|r| r.0 < digest)).is_some() {}
        let Some(other) = of_b.next_if(|r| r.first().is_some_and(|r| r.0 == digest)) else {
            continue;
        };
        if run.len() == other.len() && run.len() <= RARE {
            out.extend(run.iter().zip(other).map(|(x, y)| (x.1 as usize, y.1 as usize)));
        }
    }
    out.sort_unstable();
    out
}

/// Returns the longest series of pairs, sorted by the first, that ascends in both.
fn longest_rising(pairs: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    // For each length, the pair with the lowest second position that ends a series; and the predecessor of each pair.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    let second = |i: usize| pairs.get(i).map_or(0, |p| p.1);
    for (i, (_, b)) in pairs.iter().enumerate() {
        let at = ends.partition_point(|e| second(*e) < *b);
        before.push(at.checked_sub(1).and_then(|l| ends.get(l).copied()));
        match ends.get_mut(at) {
            Some(end) => *end = i,
            None => ends.push(i),
        }
    }
    let mut out = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(i) = next {
        out.extend(pairs.get(i).copied());
        next = before.get(i).copied().flatten();
    }
    out.reverse();
    out
}

#[cfg(test)]
mod tests {
    use super::super::align::tests::common;
    use super::*;
    use proptest::prelude::*;

    /// Creates a sequence without repeats, or, if `different` is small, with many.
    fn sequence(length: usize, different: u64, seed: u64) -> Vec<u64> {
        let mut state = seed;
        let next = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state ^ state >> 31)
                .wrapping_mul(0xbf58_476d_1ce4_e5b9)
                .rotate_left(32)
                % different
        });
        next.take(length).collect()
    }

    fn aligned(a: &[u64], b: &[u64]) -> Alignment {
        align_long(a, b, &Progress::new()).unwrap()
    }

    proptest! {
        #[test]
        fn long_alignment_is_complete_and_correct(
            different in 1u64..2000, n in 0usize..3000, m in 0usize..3000, seed in any::<u64>(), cut in 0usize..3000,
        ) {
            let a = sequence(n, different, seed);
            let b = sequence(m, different, seed ^ 1);
            common(&a, &b, &aligned(&a, &b));
            // `c` is `a` with elements removed from the middle and others inserted.
            let mut c = a.clone();
            let end = n.min(cut + 40);
            c.splice(cut.min(end)..end, sequence(cut % 70, different, seed ^ 2));
            let both = common(&a, &c, &aligned(&a, &c));
            prop_assert!(both >= n - (end - cut.min(end)));
        }
    }

    #[test]
    fn one_difference_in_a_hundred_is_aligned_exactly() {
        let a = sequence(400_000, u64::MAX, 7);
        let mut b = a.clone();
        for i in (50..b.len()).step_by(100) {
            b[i] ^= 1;
        }
        // Some elements are removed and some are inserted.
        b.drain(100_000..100_010);
        b.splice(200_000..200_000, sequence(25, u64::MAX, 9));
        let found = aligned(&a, &b);
        // 4,000 elements differ, and the removed range has further elements.
        let removed = (100_000..100_010).filter(|i| i % 100 != 50).count();
        assert_eq!(common(&a, &b, &found), 400_000 - 4_000 - removed);
        assert!(!found.cut_short);
    }

    #[test]
    fn repetitive_sequences_align_within_bounds() {
        // `a` repeats 50 elements 8,000 times, and in `b` one element in a thousand differs.
        let round = sequence(50, u64::MAX, 3);
        let a: Vec<u64> = round.iter().copied().cycle().take(400_000).collect();
        let mut b = a.clone();
        for (n, i) in (500..b.len()).step_by(1000).enumerate() {
            b[i] = n as u64;
        }
        let found = aligned(&a, &b);
        assert_eq!(common(&a, &b, &found), 400_000 - 400);
    }

    #[test]
    fn disjoint_sequences_align_without_search() {
        let (a, b) = (sequence(300_000, u64::MAX, 1), sequence(200_000, u64::MAX, 2));
        let found = aligned(&a, &b);
        assert_eq!((found.common.len(), found.cut_short), (0, false));
    }

    #[test]
    fn a_long_alignment_can_be_cancelled() {
        let progress = Progress::new();
        progress.cancel();
        assert_eq!(align_long(&[1], &[2], &progress), Err(Cancelled));
    }

    #[test]
    fn the_longest_rising_series_is_found() {
        let pairs = vec![(0, 5), (1, 1), (2, 2), (3, 0), (4, 3), (5, 9), (6, 4)];
        assert_eq!(longest_rising(pairs), [(1, 1), (2, 2), (4, 3), (6, 4)]);
    }
}
