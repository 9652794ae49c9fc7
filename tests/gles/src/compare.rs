//! When what a GPU made is what was expected.

use crate::work::Element;

/// How near a result has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// The same bytes.
    Exact,
    /// Each element within this part of the expected one's size.
    Relative(f64),
    /// Each element within this distance.
    Absolute(f64),
}

impl std::fmt::Display for Tolerance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact => write!(f, "exact"),
            Self::Relative(t) => write!(f, "rel {t:e}"),
            Self::Absolute(t) => write!(f, "abs {t:e}"),
        }
    }
}

/// Where a result is not what was expected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Mismatch {
    /// There is more or less of it.
    #[error("{got} bytes, expected {expected}")]
    Length {
        /// Bytes there are.
        got: usize,
        /// Bytes expected.
        expected: usize,
    },
    /// Elements differ.
    #[error(
        "{differ} of {all} elements differ ({tolerance}); the first is [{index}]: {got}, expected {expected}; the furthest is off by {worst:e}"
    )]
    Elements {
        /// Elements that differ.
        differ: usize,
        /// Elements there are.
        all: usize,
        /// How near they had to be.
        tolerance: Tolerance,
        /// Index of the first that differs.
        index: usize,
        /// What it is, in words.
        got: String,
        /// What it should be, in words.
        expected: String,
        /// The greatest difference, in the tolerance's measure.
        worst: f64,
    },
}

/// Compares a result with what was expected. Gives the greatest difference, in the tolerance's measure.
///
/// # Errors
/// [`Mismatch`] when an element is further off than the tolerance allows. A value that is no number only equals the
/// same bytes.
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
        // `worst` takes a value that is no number too: `max` would pass over it.
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
