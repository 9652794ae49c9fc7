//! Comparison of device outputs with recorded outputs.

use replay_engine::tune::OutputTolerance;
use trace_core::diff::{NumericValue, numeric_value};
use trace_core::recording::ElementType;

/// The first difference of two outputs, and its extent.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Offset of the first byte that differs beyond the tolerance.
    pub at: u64,
    /// Number of elements that differ beyond the tolerance, or of bytes if the comparison is exact.
    pub count: u64,
    /// Largest absolute distance of two elements, or `None` for bytes.
    pub largest: Option<f64>,
}

/// A compared output.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputComparison {
    /// The event of the copy.
    pub event: u64,
    /// Name of the output.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// The difference, if it is beyond the tolerance.
    pub difference: Option<Difference>,
    /// Whether the recording holds the expected contents.
    pub held: bool,
}

/// A predicate: whether two elements are equal within the tolerance.
type ElementPredicate = dyn Fn(&[u8], &[u8]) -> bool;

/// Returns the difference beyond the tolerance. Bytes that are missing on one side differ.
#[must_use]
pub fn compare(recorded: &[u8], got: &[u8], rule: OutputTolerance) -> Option<Difference> {
    let (element, is_near): (ElementType, Box<ElementPredicate>) = match rule {
        OutputTolerance::Exact => (ElementType::U8, Box::new(|a, b| a == b)),
        OutputTolerance::Near {
            element,
            absolute,
            relative,
        } => {
            let near = move |a: &[u8], b: &[u8]| {
                let (Some(a), Some(b)) = (of(element, a), of(element, b)) else {
                    return false;
                };
                let close = || distance(element, a, b) <= absolute.max(relative * a.value.abs());
                a.ordinal == b.ordinal || a.value.is_nan() && b.value.is_nan() || a.is_finite && b.is_finite && close()
            };
            (element, Box::new(near))
        }
        OutputTolerance::Steps { element, most: max } => {
            let near = move |a: &[u8], b: &[u8]| {
                let (Some(a), Some(b)) = (of(element, a), of(element, b)) else {
                    return false;
                };
                match (a.value.is_nan(), b.value.is_nan()) {
                    (false, false) => (a.ordinal - b.ordinal).unsigned_abs() <= u128::from(max),
                    (a, b) => a && b,
                }
            };
            (element, Box::new(near))
        }
    };
    if recorded == got {
        return None;
    }
    let size = element.bytes();
    let mut first = None;
    let (mut count, mut largest) = (0u64, None::<f64>);
    let pairs = recorded.chunks(size).zip(got.chunks(size));
    for (n, (a, b)) in pairs.enumerate() {
        if a == b {
            continue;
        }
        if !is_near(a, b) {
            first.get_or_insert((n * size) as u64);
            count += 1;
        }
        if rule != OutputTolerance::Exact
            && let (Some(a), Some(b)) = (of(element, a), of(element, b))
        {
            let distance = distance(element, a, b);
            largest = Some(largest.map_or(distance, |l: f64| l.max(distance)));
        }
    }
    let shorter = recorded.len().min(got.len());
    let missing = recorded.len().max(got.len()) - shorter;
    if missing > 0 {
        first.get_or_insert(shorter as u64);
        count += missing.div_ceil(size) as u64;
    }
    first.map(|at| Difference { at, count, largest })
}

/// Returns the value of an element, or `None` if there are too few bytes.
fn of(element: ElementType, bytes: &[u8]) -> Option<NumericValue> {
    let mut word = [0; 8];
    word.get_mut(..element.bytes())?
        .copy_from_slice(bytes.get(..element.bytes())?);
    Some(numeric_value(element, u64::from_le_bytes(word)))
}

/// Returns the distance of two numbers. Integers are distinguished even beyond the precision of a floating-point
/// number.
fn distance(element: ElementType, a: NumericValue, b: NumericValue) -> f64 {
    match element.is_float() {
        true => (a.value - b.value).abs(),
        false => (a.ordinal - b.ordinal).unsigned_abs() as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn outputs_match_only_within_the_tolerance() {
        let a = floats(&[1.0, -2.0, 0.0, f32::NAN, 100.0]);
        let b = floats(&[1.0 + f32::EPSILON, -2.0, -0.0, f32::NAN, 100.5]);
        assert_eq!(compare(&a, &a, OutputTolerance::Exact), None);
        let exact = compare(&a, &b, OutputTolerance::Exact).unwrap();
        assert_eq!((exact.at, exact.largest), (0, None));
        let near_tolerance = |absolute, relative| OutputTolerance::Near {
            element: ElementType::F32,
            absolute,
            relative,
        };
        let d = compare(&a, &b, near_tolerance(0.1, 0.0)).unwrap();
        assert_eq!((d.at, d.count, d.largest), (16, 1, Some(0.5)));
        assert_eq!(compare(&a, &b, near_tolerance(0.1, 0.01)), None);
        let within = |max| OutputTolerance::Steps {
            element: ElementType::F32,
            most: max,
        };
        let d = compare(&a, &b, within(1)).unwrap();
        assert_eq!((d.at, d.count), (16, 1));
        assert_eq!(
            compare(&a[..16], &b[..16], within(1)),
            None,
            "one step is within the tolerance, and both zeros are equal"
        );
        assert_eq!(compare(&a[..4], &b[..4], within(0)).unwrap().count, 1);
        // Missing elements differ, and so do two different NaN values.
        let d = compare(&a, &a[..16], near_tolerance(9.0, 9.0)).unwrap();
        assert_eq!((d.at, d.count), (16, 1));
        assert!(compare(&floats(&[f32::NAN]), &floats(&[1.0]), near_tolerance(1e9, 1.0)).is_some());
        assert!(
            compare(
                &floats(&[f32::INFINITY]),
                &floats(&[f32::MAX]),
                near_tolerance(1.0, 0.5)
            )
            .is_some()
        );
    }

    #[test]
    fn integers_beyond_float_precision_are_compared_exactly() {
        let rule = |element| OutputTolerance::Near {
            element,
            absolute: 0.0,
            relative: 0.0,
        };
        let (a, b) = (1u64 << 53, (1u64 << 53) + 1);
        let d = compare(&a.to_le_bytes(), &b.to_le_bytes(), rule(ElementType::U64)).unwrap();
        assert_eq!((d.count, d.largest), (1, Some(1.0)));
        let (a, b) = (i64::MIN, i64::MIN + 1);
        assert!(compare(&a.to_le_bytes(), &b.to_le_bytes(), rule(ElementType::I64)).is_some());
    }
}
