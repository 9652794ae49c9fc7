//! Two sequences aligned: the fewest insertions and deletions, found by Myers' algorithm within a bound. Beyond it the
//! search keeps the furthest that it came and begins anew there: still an alignment, but not always the shortest, and
//! told to be cut short.

use crate::progress::{Cancelled, Progress};

/// Most insertions and deletions that one search looks for. A search costs at most its square in work and memory and
/// comes at least so far, so the whole costs no more than this many times the length. What the two sides may be apart
/// and still be brought together again is as much.
const BOUND: usize = 1024;

/// One step of an alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Both go on.
    Both(usize, usize),
    /// Only the first has it.
    A(usize),
    /// Only the second has it.
    B(usize),
}

/// An alignment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Alignment {
    /// Both sequences, whole and in order.
    pub steps: Vec<Step>,
    /// Whether a search was cut short, so that there may be a shorter alignment.
    pub cut_short: bool,
}

/// Aligns two sequences by `same`.
pub(crate) fn align<T>(
    a: &[T],
    b: &[T],
    progress: &Progress,
    same: impl Fn(&T, &T) -> bool,
) -> Result<Alignment, Cancelled> {
    let prefix = a.iter().zip(b).take_while(|(x, y)| same(x, y)).count();
    let (rest_a, rest_b) = (a.get(prefix..).unwrap_or_default(), b.get(prefix..).unwrap_or_default());
    let suffix = rest_a
        .iter()
        .rev()
        .zip(rest_b.iter().rev())
        .take_while(|(x, y)| same(x, y))
        .count();
    let middle_a = rest_a.get(..rest_a.len() - suffix).unwrap_or_default();
    let middle_b = rest_b.get(..rest_b.len() - suffix).unwrap_or_default();
    let mut steps: Vec<Step> = (0..prefix).map(|i| Step::Both(i, i)).collect();
    let (mut x, mut y) = (0, 0);
    let mut cut_short = false;
    loop {
        progress.check()?;
        let (Some(rest_a), Some(rest_b)) = (middle_a.get(x..), middle_b.get(y..)) else {
            break;
        };
        if rest_a.is_empty() && rest_b.is_empty() {
            break;
        }
        let (found, whole) = myers(rest_a, rest_b, BOUND, &same);
        let (from_x, from_y) = (x + prefix, y + prefix);
        for s in found {
            steps.push(match s {
                Step::Both(i, j) => Step::Both(i + from_x, j + from_y),
                Step::A(i) => Step::A(i + from_x),
                Step::B(j) => Step::B(j + from_y),
            });
            match s {
                Step::Both(..) => (x, y) = (x + 1, y + 1),
                Step::A(_) => x += 1,
                Step::B(_) => y += 1,
            }
        }
        if whole {
            break;
        }
        cut_short = true;
    }
    steps.extend((0..suffix).map(|i| Step::Both(prefix + middle_a.len() + i, prefix + middle_b.len() + i)));
    Ok(Alignment { steps, cut_short })
}

/// The shortest edit script and `true`; where it is longer than `limit`, that to the furthest place reached, which is
/// at least `limit` elements on, and `false`.
fn myers<T>(a: &[T], b: &[T], limit: usize, same: &impl Fn(&T, &T) -> bool) -> (Vec<Step>, bool) {
    if a.is_empty() && b.is_empty() {
        return (Vec::new(), true);
    }
    let (n, m) = (a.len() as isize, b.len() as isize);
    let at = |i: isize, j: isize| match (a.get(i as usize), b.get(j as usize)) {
        (Some(x), Some(y)) => same(x, y),
        _ => false,
    };
    let bound = limit.max(1).min(a.len() + b.len());
    // `front[k + d]` is the furthest place in `a` on diagonal `k` after `d` edits; one front is kept for each `d`.
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
                return (trace_back(&fronts, n, m), true);
            }
            k += 2;
        }
        fronts.push(front);
    }
    // Of equally far places the one nearest to the diagonal: it leaves as much of one side as of the other.
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
        Some((x, y)) => (trace_back(&fronts, x, y), false),
        // Not reached: the edits alone lead to one. Everything then differs.
        None => {
            let all_a = (0..a.len()).map(Step::A);
            (all_a.chain((0..b.len()).map(Step::B)).collect(), true)
        }
    }
}

/// The steps that led to the end of both sequences.
fn trace_back(fronts: &[Vec<isize>], n: isize, m: isize) -> Vec<Step> {
    let mut steps = Vec::new();
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
        let (mid_x, mid_y) = if down {
            (from_x, from_y + 1)
        } else {
            (from_x + 1, from_y)
        };
        while x > mid_x && y > mid_y {
            (x, y) = (x - 1, y - 1);
            steps.push(Step::Both(x as usize, y as usize));
        }
        steps.push(if down {
            Step::B(from_y as usize)
        } else {
            Step::A(from_x as usize)
        });
        (x, y) = (from_x, from_y);
    }
    while x > 0 && y > 0 {
        (x, y) = (x - 1, y - 1);
        steps.push(Step::Both(x as usize, y as usize));
    }
    steps.reverse();
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Length of the longest common subsequence, by the table.
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
        fn an_alignment_is_whole_in_order_and_as_short_as_can_be(
            a in proptest::collection::vec(0u8..4, 0..40),
            b in proptest::collection::vec(0u8..4, 0..40),
        ) {
            let found = align(&a, &b, &Progress::new(), |x, y| x == y).unwrap();
            prop_assert!(!found.cut_short);
            // Taking a common end off first costs nothing.
            prop_assert_eq!(common(&a, &b, &found.steps), lcs(&a, &b));
        }

        /// Whatever the limit, each search goes on from where the one before it ended.
        #[test]
        fn a_search_that_is_cut_short_is_a_part_of_an_alignment(
            a in proptest::collection::vec(0u8..4, 0..40),
            b in proptest::collection::vec(0u8..4, 0..40),
            limit in 1usize..12,
        ) {
            let (steps, whole) = myers(&a, &b, limit, &|x: &u8, y: &u8| x == y);
            let x = steps.iter().filter(|s| !matches!(s, Step::B(_))).count();
            let y = steps.iter().filter(|s| !matches!(s, Step::A(_))).count();
            common(&a[..x], &b[..y], &steps);
            prop_assert_eq!(whole, (x, y) == (a.len(), b.len()) && steps.len() == x + y - lcs(&a, &b));
            prop_assert!(whole || x + y >= limit);
        }
    }

    /// The number of common steps of an alignment, which must be whole and in order.
    fn common(a: &[u8], b: &[u8], steps: &[Step]) -> usize {
        let (mut i, mut j, mut both) = (0, 0, 0);
        for s in steps {
            match *s {
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
        both
    }

    #[test]
    fn sequences_without_anything_in_common_are_gone_through_and_told_to_be_cut_short() {
        let (a, b) = (vec![1u8; 5000], vec![2u8; 5000]);
        let found = align(&a, &b, &Progress::new(), |x, y| x == y).unwrap();
        assert_eq!((found.steps.len(), found.cut_short), (10_000, true));
        assert_eq!(common(&a, &b, &found.steps), 0);
    }

    /// Behind more differences than a search looks for, what is common is found again.
    #[test]
    fn an_alignment_finds_its_way_back_behind_the_bound() {
        let noise = |of: u8, n: usize| std::iter::repeat_n(of, n);
        let shared: Vec<u8> = (0..3000u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8 | 4)
            .collect();
        let with = |of: u8, n: usize| -> Vec<u8> {
            let mut v: Vec<u8> = shared[..1000].to_vec();
            v.extend(noise(of, n));
            v.extend(&shared[1000..2000]);
            v.extend(noise(of, 7));
            v.extend(&shared[2000..]);
            v
        };
        let (a, b) = (with(1, 900), with(2, 700));
        let found = align(&a, &b, &Progress::new(), |x, y| x == y).unwrap();
        assert!(found.cut_short);
        let both = common(&a, &b, &found.steps);
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
