//! Alignment of two sequences with the fewest insertions and deletions, by Myers' algorithm within a bound.
//!
//! Beyond the bound, the search keeps the furthest point that it reached and restarts there. The result is still an
//! alignment, but not always the shortest, and is marked as cut short.

use crate::progress::{Cancelled, Progress};

/// Maximum number of insertions and deletions of one search. A search costs at most the square of this in time and
/// memory, and advances at least this far. The total cost is therefore at most this number times the length. It is
/// also the longest difference after which the two sides can be matched again.
pub(super) const MAX_EDIT_DISTANCE: usize = 1024;

/// One step of an alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Both sequences have an element.
    Both(usize, usize),
    /// Only the first sequence has the element.
    A(usize),
    /// Only the second sequence has the element.
    B(usize),
}

/// A run of consecutive elements that both sequences have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Common {
    /// Index of the first in the first sequence.
    pub a: usize,
    /// Index of the first in the second sequence.
    pub b: usize,
    /// Number of elements.
    pub len: usize,
}

/// An alignment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alignment {
    /// The common runs, in order; no two are adjacent in both sequences.
    pub common: Vec<Common>,
    /// Whether a search was cut short, so that there may be a shorter alignment.
    pub cut_short: bool,
}

impl Alignment {
    /// Adds a common run; extends the previous run if it continues that one.
    pub fn push(&mut self, run: Common) {
        match self.common.last_mut() {
            _ if run.len == 0 => {}
            Some(last) if (last.a + last.len, last.b + last.len) == (run.a, run.b) => last.len += run.len,
            _ => self.common.push(run),
        }
    }

    /// Returns the steps through both sequences of these lengths.
    pub fn steps(&self, lengths: (usize, usize)) -> impl Iterator<Item = Step> + '_ {
        let end = Common {
            a: lengths.0,
            b: lengths.1,
            len: 0,
        };
        let mut before = (0, 0);
        self.common.iter().copied().chain([end]).flat_map(move |c| {
            let (from_a, from_b) = before;
            before = (c.a + c.len, c.b + c.len);
            let alone = (from_a..c.a).map(Step::A).chain((from_b..c.b).map(Step::B));
            alone.chain((0..c.len).map(move |i| Step::Both(c.a + i, c.b + i)))
        })
    }
}

/// Returns the length of the common prefix of two sequences.
pub(super) fn prefix<T>(a: &[T], b: &[T], same: impl Fn(&T, &T) -> bool) -> usize {
    a.iter().zip(b).take_while(|(x, y)| same(x, y)).count()
}

/// Returns the length of the common suffix of two sequences.
pub(super) fn suffix<T>(a: &[T], b: &[T], same: impl Fn(&T, &T) -> bool) -> usize {
    let (a, b) = (a.iter().rev(), b.iter().rev());
    a.zip(b).take_while(|(x, y)| same(x, y)).count()
}

/// Aligns two sequences by `same`.
///
/// # Errors
/// If the work was cancelled.
pub fn align<T>(a: &[T], b: &[T], progress: &Progress, same: impl Fn(&T, &T) -> bool) -> Result<Alignment, Cancelled> {
    align_within(a, b, MAX_EDIT_DISTANCE, progress, same)
}

/// Aligns two sequences by `same`, with searches of at most `bound` insertions and deletions.
pub(super) fn align_within<T>(
    a: &[T],
    b: &[T],
    bound: usize,
    progress: &Progress,
    same: impl Fn(&T, &T) -> bool,
) -> Result<Alignment, Cancelled> {
    progress.check()?;
    let before = prefix(a, b, &same);
    let (rest_a, rest_b) = (a.get(before..).unwrap_or_default(), b.get(before..).unwrap_or_default());
    let behind = suffix(rest_a, rest_b, &same);
    let middle_a = rest_a.get(..rest_a.len() - behind).unwrap_or_default();
    let middle_b = rest_b.get(..rest_b.len() - behind).unwrap_or_default();
    let mut out = Alignment::default();
    out.push(Common {
        a: 0,
        b: 0,
        len: before,
    });
    let (mut x, mut y) = (0, 0);
    while let (Some(rest_a @ [_, ..]), Some(rest_b @ [_, ..])) = (middle_a.get(x..), middle_b.get(y..)) {
        progress.check()?;
        let found = myers(rest_a, rest_b, bound, &same);
        for c in &found.common {
            out.push(Common {
                a: before + x + c.a,
                b: before + y + c.b,
                len: c.len,
            });
        }
        (x, y) = (x + found.reached.0, y + found.reached.1);
        if found.whole {
            break;
        }
        out.cut_short = true;
    }
    out.push(Common {
        a: before + middle_a.len(),
        b: before + middle_b.len(),
        len: behind,
    });
    Ok(out)
}

/// The result of one search.
struct Search {
    /// The common runs, in order.
    common: Vec<Common>,
    /// The position reached in each sequence.
    reached: (usize, usize),
    /// Whether both positions are at the end.
    whole: bool,
}

/// Finds the shortest edit script. If it is longer than `limit`, finds the script to the furthest point reached,
/// which is at least `limit` elements further.
fn myers<T>(a: &[T], b: &[T], limit: usize, same: &impl Fn(&T, &T) -> bool) -> Search {
    let (n, m) = (a.len() as isize, b.len() as isize);
    let at = |i: isize, j: isize| match (a.get(i as usize), b.get(j as usize)) {
        (Some(x), Some(y)) => same(x, y),
        _ => false,
    };
    let bound = limit.max(1).min(a.len() + b.len());
    // `front[k + d]` is the furthest position in `a` on diagonal `k` after `d` edits; one front is kept for each `d`.
    let mut fronts: Vec<Vec<isize>> = Vec::new();
    for d in 0..=bound as isize {
        let before = fronts.last();
        let get = |k: isize| {
            let width = d - 1;
            before
                .and_then(|f| f.get(usize::try_from(k + width).ok()?).copied())
                .unwrap_or(-1)
        };
        let mut front = vec![-1; 2 * d as usize + 1];
        let mut k = -d;
        while k <= d {
            let mut x = match d {
                0 => 0,
                _ if k == -d || (k != d && get(k - 1) < get(k + 1)) => get(k + 1),
                _ => get(k - 1) + 1,
            };
            while x < n && x - k < m && at(x, x - k) {
                x += 1;
            }
            if let Some(slot) = usize::try_from(k + d).ok().and_then(|i| front.get_mut(i)) {
                *slot = x;
            }
            if x >= n && x - k >= m {
                fronts.push(front);
                return Search {
                    common: trace_back(&fronts, n, m),
                    reached: (a.len(), b.len()),
                    whole: true,
                };
            }
            k += 2;
        }
        fronts.push(front);
    }
    // Of equally far points, take the one nearest to the diagonal: it leaves similar lengths on both sides.
    let d = fronts.len() as isize - 1;
    let furthest = fronts
        .last()
        .into_iter()
        .flatten()
        .enumerate()
        .map(|(i, x)| (*x, x - (i as isize - d)))
        .filter(|(x, y)| (0..=n).contains(x) && (0..=m).contains(y))
        .max_by_key(|(x, y)| (x + y, -(x - y).abs(), *x));
    match furthest {
        Some((x, y)) => Search {
            common: trace_back(&fronts, x, y),
            reached: (x as usize, y as usize),
            whole: false,
        },
        // No point was reached by matches; edits alone lead to one. Then everything differs.
        None => Search {
            common: Vec::new(),
            reached: (a.len(), b.len()),
            whole: true,
        },
    }
}

/// Returns the common runs on the way to a point.
fn trace_back(fronts: &[Vec<isize>], n: isize, m: isize) -> Vec<Common> {
    let mut common = Vec::new();
    let mut note = |x: isize, y: isize, len: isize| {
        if len > 0 {
            common.push(Common {
                a: x as usize,
                b: y as usize,
                len: len as usize,
            });
        }
    };
    let (mut x, mut y) = (n, m);
    for d in (1..fronts.len() as isize).rev() {
        let get = |k: isize| {
            let front = fronts.get((d - 1) as usize);
            front
                .and_then(|f| f.get(usize::try_from(k + d - 1).ok()?).copied())
                .unwrap_or(-1)
        };
        let k = x - y;
        let down = k == -d || (k != d && get(k - 1) < get(k + 1));
        let from_k = if down { k + 1 } else { k - 1 };
        let (from_x, from_y) = (get(from_k), get(from_k) - from_k);
        let mid_x = if down { from_x } else { from_x + 1 };
        note(mid_x, mid_x - k, x - mid_x);
        (x, y) = (from_x, from_y);
    }
    note(x - x.min(y), y - x.min(y), x.min(y));
    common.reverse();
    common
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computes the length of the longest common subsequence with the full table.
    fn lcs(a: &[u8], b: &[u8]) -> usize {
        let mut row = vec![0; b.len() + 1];
        for x in a {
            let mut diagonal = 0;
            for (j, y) in b.iter().enumerate() {
                let above = row[j + 1];
                row[j + 1] = if x == y { diagonal + 1 } else { above.max(row[j]) };
                diagonal = above;
            }
        }
        row[b.len()]
    }

    proptest! {
        #[test]
        fn alignment_is_complete_ordered_and_minimal(
            a in proptest::collection::vec(0u8..4, 0..40),
            b in proptest::collection::vec(0u8..4, 0..40),
        ) {
            let found = align(&a, &b, &Progress::new(), |x, y| x == y).unwrap();
            prop_assert!(!found.cut_short);
            // Removing a common suffix first costs nothing.
            prop_assert_eq!(common(&a, &b, &found), lcs(&a, &b));
        }

        /// For any limit, each search continues where the previous one ended.
        #[test]
        fn limited_search_finds_part_of_an_alignment(
            a in proptest::collection::vec(0u8..4, 0..40),
            b in proptest::collection::vec(0u8..4, 0..40),
            limit in 1usize..12,
        ) {
            let found = myers(&a, &b, limit, &|x: &u8, y: &u8| x == y);
            let (x, y) = found.reached;
            let part = Alignment { common: found.common, cut_short: false };
            let both = common(&a[..x], &b[..y], &part);
            let shortest = x + y - 2 * both == a.len() + b.len() - 2 * lcs(&a, &b);
            prop_assert_eq!(found.whole, (x, y) == (a.len(), b.len()) && shortest);
            prop_assert!(found.whole || x + y >= limit);
        }
    }

    /// Returns the number of common steps of an alignment, which must be complete and in order.
    pub(crate) fn common<T: PartialEq + std::fmt::Debug>(a: &[T], b: &[T], found: &Alignment) -> usize {
        let (mut i, mut j, mut both) = (0, 0, 0);
        for s in found.steps((a.len(), b.len())) {
            match s {
                Step::Both(x, y) => {
                    assert_eq!((x, y), (i, j));
                    assert_eq!(a[x], b[y]);
                    (i, j, both) = (i + 1, j + 1, both + 1);
                }
                Step::A(x) => {
                    assert_eq!(x, i);
                    i += 1;
                }
                Step::B(y) => {
                    assert_eq!(y, j);
                    j += 1;
                }
            }
        }
        assert_eq!((i, j), (a.len(), b.len()));
        for pair in found.common.windows(2) {
            let (x, y) = (pair[0], pair[1]);
            assert!(
                (x.a + x.len, x.b + x.len) != (y.a, y.b),
                "two adjacent runs are not merged"
            );
        }
        both
    }

    #[test]
    fn disjoint_sequences_are_aligned_and_marked_cut_short() {
        let (a, b) = (vec![1u8; 5000], vec![2u8; 5000]);
        let found = align(&a, &b, &Progress::new(), |x, y| x == y).unwrap();
        assert!(found.cut_short);
        assert_eq!(common(&a, &b, &found), 0);
    }

    /// After more differences than the limit of a search, common elements are found again.
    #[test]
    fn alignment_recovers_after_its_search_limit() {
        let noise = |byte: u8, n: usize| std::iter::repeat_n(byte, n);
        let shared: Vec<u8> = (0..3000u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8 | 4)
            .collect();
        let with = |byte: u8, n: usize| -> Vec<u8> {
            let mut v: Vec<u8> = shared[..1000].to_vec();
            v.extend(noise(byte, n));
            v.extend(&shared[1000..2000]);
            v.extend(noise(byte, 7));
            v.extend(&shared[2000..]);
            v
        };
        let (a, b) = (with(1, 900), with(2, 700));
        let found = align(&a, &b, &Progress::new(), |x, y| x == y).unwrap();
        assert!(found.cut_short);
        let both = common(&a, &b, &found);
        assert!(both >= 2900, "{both} of 3000");
    }

    #[test]
    fn an_alignment_can_be_cancelled() {
        let progress = Progress::new();
        progress.cancel();
        let found = align(&[1u8], &[2], &progress, |x, y| x == y);
        assert_eq!(found, Err(Cancelled));
    }
}
