//! Two sequences aligned: the fewest insertions and deletions, found by Myers' algorithm within a bound.

/// Most insertions and deletions that are looked for. Beyond it the rest counts as wholly different, which is what a
/// person would say of it too.
const BOUND: usize = 1024;

/// One step of an alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Both go on.
    Both(usize, usize),
    /// Only the first has it.
    A(usize),
    /// Only the second has it.
    B(usize),
}

/// Aligns two sequences by `same`.
pub(super) fn align<T>(a: &[T], b: &[T], same: impl Fn(&T, &T) -> bool) -> Vec<Step> {
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
    match myers(middle_a, middle_b, &same) {
        Some(middle) => steps.extend(middle.into_iter().map(|s| match s {
            Step::Both(i, j) => Step::Both(i + prefix, j + prefix),
            Step::A(i) => Step::A(i + prefix),
            Step::B(j) => Step::B(j + prefix),
        })),
        None => {
            steps.extend((0..middle_a.len()).map(|i| Step::A(i + prefix)));
            steps.extend((0..middle_b.len()).map(|j| Step::B(j + prefix)));
        }
    }
    steps.extend((0..suffix).map(|i| Step::Both(prefix + middle_a.len() + i, prefix + middle_b.len() + i)));
    steps
}

/// The shortest edit script, or `None` when it is longer than [`BOUND`].
fn myers<T>(a: &[T], b: &[T], same: &impl Fn(&T, &T) -> bool) -> Option<Vec<Step>> {
    if a.is_empty() && b.is_empty() {
        return Some(Vec::new());
    }
    let (n, m) = (a.len() as isize, b.len() as isize);
    let at = |i: isize, j: isize| match (a.get(i as usize), b.get(j as usize)) {
        (Some(x), Some(y)) => same(x, y),
        _ => false,
    };
    let bound = BOUND.min(a.len() + b.len());
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
                return Some(trace_back(&fronts, n, m));
            }
            k += 2;
        }
        fronts.push(front);
    }
    None
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
            let steps = align(&a, &b, |x, y| x == y);
            let (mut i, mut j, mut both) = (0, 0, 0);
            for s in steps {
                match s {
                    Step::Both(x, y) => {
                        prop_assert_eq!((x, y), (i, j));
                        prop_assert_eq!(a[x], b[y]);
                        (i, j, both) = (i + 1, j + 1, both + 1);
                    }
                    Step::A(x) => { prop_assert_eq!(x, i); i += 1; }
                    Step::B(y) => { prop_assert_eq!(y, j); j += 1; }
                }
            }
            prop_assert_eq!((i, j), (a.len(), b.len()));
            // Taking a common end off first costs nothing.
            prop_assert_eq!(both, lcs(&a, &b));
        }
    }

    #[test]
    fn sequences_without_anything_in_common_end_at_the_bound() {
        let (a, b) = (vec![1u8; 5000], vec![2u8; 5000]);
        assert_eq!(align(&a, &b, |x, y| x == y).len(), 10_000);
    }
}
