//! Numeric test: some bits of a number, shifted down or not, in ranges.

use fearless_simd::{Level, dispatch};

/// Maximum number of ranges that are tested one after another.
const FEW: usize = 4;

/// A test of whether the bits of `mask` of a number are in one of some ranges, or in none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NumberTest {
    pub mask: u64,
    /// First and last value, inclusive; ascending and disjoint.
    pub ranges: Vec<(u64, u64)>,
    pub not: bool,
}

impl NumberTest {
    /// Creates a test of ranges with inclusive ends.
    pub fn new(mask: Option<u64>, mut ranges: Vec<(u64, u64)>, not: bool) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(m) if m.1 == u64::MAX || first <= m.1 + 1 => m.1 = m.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self {
            mask: mask.unwrap_or(u64::MAX),
            ranges: merged,
            not,
        }
    }

    /// Returns whether a number passes.
    pub fn is_match(&self, value: u64) -> bool {
        let v = value & self.mask;
        let n = self.ranges.partition_point(|r| r.1 < v);
        self.ranges.get(n).is_some_and(|r| r.0 <= v) != self.not
    }

    /// Writes 1 for each value that passes, 0 for others.
    pub fn fill<T: Lane>(&self, level: Level, values: &[T], out: &mut [u8]) {
        let Some((first, more)) = self.ranges.split_first() else {
            out.fill(u8::from(self.not));
            return;
        };
        if more.len() >= FEW {
            for (o, v) in out.iter_mut().zip(values) {
                *o = u8::from(self.is_match(v.wide()));
            }
            return;
        }
        let mask = T::narrow(self.mask);
        one(level, values, mask, *first, out, false);
        for r in more {
            one(level, values, mask, *r, out, true);
        }
        if self.not {
            dispatch!(level, _ => flip(out));
        }
    }
}

/// Tests one range; if `more` is set, existing results in `out` are kept.
fn one<T: Lane>(level: Level, values: &[T], mask: T, (first, last): (u64, u64), out: &mut [u8], more: bool) {
    if first > T::MAX_VALUE {
        if !more {
            out.fill(0);
        }
        return;
    }
    let first_narrow = T::narrow(first);
    let span = T::narrow(last.min(T::MAX_VALUE) - first);
    if more {
        dispatch!(level, _ => within::<T, true>(values, mask, first_narrow, span, out));
    } else {
        dispatch!(level, _ => within::<T, false>(values, mask, first_narrow, span, out));
    }
}

/// An element type of a numeric column.
pub(super) trait Lane: Copy {
    /// The largest value of the type.
    const MAX_VALUE: u64;
    /// Truncates a number to the type.
    fn narrow(wide: u64) -> Self;
    fn wide(self) -> u64;
    /// Returns whether the bits of `mask` are at least `first` and at most `span` more.
    fn within(self, mask: Self, first: Self, span: Self) -> bool;
}

macro_rules! lane {
    ($($t:ty),*) => {$(
        impl Lane for $t {
            const MAX_VALUE: u64 = <$t>::MAX as u64;
            #[inline(always)]
            fn narrow(wide: u64) -> Self {
                wide as Self
            }
            #[inline(always)]
            fn wide(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn within(self, mask: Self, first: Self, span: Self) -> bool {
                (self & mask).wrapping_sub(first) <= span
            }
        }
    )*};
}

lane!(u8, u32, u64);

/// This loop is inlined where it is dispatched, so it is compiled for the features of the machine.
#[inline(always)]
fn within<T: Lane, const MORE: bool>(values: &[T], mask: T, first: T, span: T, out: &mut [u8]) {
    for (o, v) in out.iter_mut().zip(values) {
        let passes = u8::from(v.within(mask, first, span));
        *o = if MORE { *o | passes } else { passes };
    }
}

#[inline(always)]
fn flip(out: &mut [u8]) {
    for o in out.iter_mut() {
        *o ^= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agrees<T: Lane>(test: &NumberTest, values: &[T]) {
        let mut out = vec![9; values.len()];
        test.fill(Level::new(), values, &mut out);
        for (v, o) in values.iter().zip(out) {
            assert_eq!(o == 1, test.is_match(v.wide()), "{test:?} of {:#x}", v.wide());
            assert!(o <= 1);
        }
    }

    #[test]
    fn column_tests_agree_with_single_value_tests() {
        let wide: Vec<u64> = (0..300)
            .chain([u64::MAX, u64::MAX - 1, 1 << 32, (1 << 32) + 5])
            .collect();
        let narrow: Vec<u32> = (0..300).chain([u32::MAX]).collect();
        let bytes: Vec<u8> = (0..=255).collect();
        for mask in [None, Some(0x10), Some(!0xff)] {
            for not in [false, true] {
                for ranges in [
                    vec![],
                    vec![(3, 3)],
                    vec![(0, u64::MAX)],
                    vec![(200, u64::MAX)],
                    vec![(1 << 32, (1 << 32) + 5)],
                    vec![(16, 16), (3, 5)],
                    (0..20).map(|n| (n * 10, n * 10 + 1)).collect(),
                ] {
                    let t = NumberTest::new(mask, ranges, not);
                    agrees(&t, &wide);
                    agrees(&t, &narrow);
                    agrees(&t, &bytes);
                }
            }
        }
    }

    #[test]
    fn adjacent_ranges_are_joined() {
        let t = NumberTest::new(None, vec![(5, 6), (1, 2), (3, 3), (u64::MAX, u64::MAX), (6, 9)], false);
        assert_eq!(t.ranges, [(1, 3), (5, 9), (u64::MAX, u64::MAX)]);
    }
}
