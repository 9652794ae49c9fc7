//! Comparison of a GPU's results with expected values.

use crate::work::{Element, Tolerance};

/// Difference of a result from its expected value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Mismatch {
    /// The lengths differ.
    #[error("{got} bytes, expected {expected}")]
    Length {
        /// Length of the result, bytes.
        got: usize,
        /// Expected length, bytes.
        expected: usize,
    },
    /// Elements differ.
    #[error(
        "{differ} of {all} elements differ ({tolerance}); the first is [{index}]: {got}, expected {expected}; the furthest is off by {worst:e}"
    )]
    Elements {
        /// Number of elements that differ.
        differ: usize,
        /// Number of all elements.
        all: usize,
        /// Allowed difference.
        tolerance: Tolerance,
        /// Index of the first element that differs.
        index: usize,
        /// Value of this element, as text.
        got: String,
        /// Expected value of this element, as text.
        expected: String,
        /// Greatest difference, in the measure of the tolerance.
        worst: f64,
    },
}

/// Compares a result with its expected value. Returns the greatest difference, in the measure of the tolerance.
///
/// # Errors
/// Returns [`Mismatch`] if a difference is greater than the tolerance. A NaN matches only the same bytes.
pub fn compare(element: Element, got: &[u8], expected: &[u8], tolerance: Tolerance) -> Result<f64, Mismatch> {
    if got.len() != expected.len() {
        return Err(Mismatch::Length {
            got: got.len(),
            expected: expected.len(),
        });
    }
    let (mut worst, mut differ, mut first) = (0f64, 0, None);
    for (i, (g, e)) in got.chunks_exact(4).zip(expected.chunks_exact(4)).enumerate() {
        if g == e {
            continue;
        }
        let (a, b) = (element.value(g), element.value(e));
        let (off, limit) = match tolerance {
            Tolerance::Exact => ((a - b).abs(), -1.0),
            Tolerance::Relative(t) => ((a - b).abs() / b.abs(), t),
            Tolerance::Absolute(t) => ((a - b).abs(), t),
        };
        // `max` would ignore a NaN, but `worst` must not.
        worst = if off > worst || off.is_nan() { off } else { worst };
        if off.is_nan() || off > limit {
            differ += 1;
            first.get_or_insert((i, a, b));
        }
    }
    match first {
        None => Ok(worst),
        Some((index, a, b)) => Err(Mismatch::Elements {
            differ,
            all: got.len() / 4,
            tolerance,
            index,
            got: a.to_string(),
            expected: b.to_string(),
            worst,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(v: &[f32]) -> Vec<u8> {
        v.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    #[test]
    fn values_match_only_within_the_tolerance() {
        let (a, b) = (f32s(&[1.0, 2.0]), f32s(&[1.0, 2.0001]));
        assert!(compare(Element::F32, &a, &a, Tolerance::Exact).is_ok());
        assert!(compare(Element::F32, &b, &a, Tolerance::Exact).is_err());
        assert!(compare(Element::F32, &b, &a, Tolerance::Absolute(1e-3)).is_ok());
        assert!(compare(Element::F32, &b, &a, Tolerance::Absolute(1e-5)).is_err());
        assert!(compare(Element::F32, &b, &a, Tolerance::Relative(1e-4)).is_ok());
        assert!(compare(Element::F32, &b, &a, Tolerance::Relative(1e-6)).is_err());
        assert!(compare(Element::F32, &b[..4], &a, Tolerance::Absolute(1.0)).is_err());
    }

    #[test]
    fn nan_never_matches_a_number() {
        let (nan, one) = (f32s(&[f32::NAN]), f32s(&[1.0]));
        for (got, expected) in [(&nan, &one), (&one, &nan)] {
            for t in [Tolerance::Exact, Tolerance::Absolute(9.0), Tolerance::Relative(9.0)] {
                assert!(compare(Element::F32, got, expected, t).is_err());
            }
        }
    }
}
