//! Comparison of the elements of two buffers: number and size of the differences, and the first beyond the tolerance.

use crate::memory::{bf16_to_f32, f16_to_f32};
use crate::recording::ElementType;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The maximum difference between two elements that still counts as equal. An element is within the tolerance if it
/// meets any of the given limits; without a limit, only equal bits are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tolerance {
    /// Maximum absolute difference, in the unit of the elements.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub absolute: Option<f64>,
    /// Maximum relative difference: the absolute one divided by the larger of the two magnitudes, 0 to 2.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub relative: Option<f64>,
    /// Maximum number of representable values of the type from one to the other (ULP).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ulp: Option<u64>,
}

impl Tolerance {
    /// Returns whether there is any limit.
    #[must_use]
    pub fn is_some(&self) -> bool {
        self.absolute.is_some() || self.relative.is_some() || self.ulp.is_some()
    }
}

/// Two elements that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElementPair {
    /// Index of the element, from 0.
    pub index: u64,
    /// Its bits in the first buffer, in the low bits.
    pub a: u64,
    /// Its bits in the second buffer.
    pub b: u64,
}

/// A histogram bin: differences of at least a power of ten and less than the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decade {
    /// The exponent: differences from 10 to this power on.
    pub exponent: i16,
    /// Number of pairs of elements.
    pub pairs: u64,
}

/// Error statistics. They cover the pairs whose bits differ and that are both finite, within the tolerance or not;
/// the means cover all pairs of finite elements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    /// Number of pairs that were measured.
    pub pairs: u64,
    /// Number of pairs whose bits differ and of which at least one is infinite or NaN.
    pub not_finite: u64,
    /// The largest absolute difference.
    pub max_absolute: f64,
    /// Index of the element with that difference.
    pub max_absolute_at: u64,
    /// The mean absolute difference.
    pub mean_absolute: f64,
    /// The largest relative difference: the absolute one divided by the larger of the two magnitudes.
    pub max_relative: f64,
    /// Index of the element with that difference.
    pub max_relative_at: u64,
    /// The mean relative difference.
    pub mean_relative: f64,
    /// The largest number of representable values from one to the other (ULP); for integers, the absolute difference.
    pub max_ulp: u64,
    /// Number of pairs that differ in bits and not in value: positive and negative zero.
    pub zeros: u64,
    /// Absolute differences by decade, ascending, without empty ones.
    pub histogram: Vec<Decade>,
}

/// The comparison of the elements of a buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ElementDiff {
    /// Type of the elements.
    pub element: ElementType,
    /// Number of elements that have contents on both sides.
    pub compared: u64,
    /// Number of elements with the same bits.
    pub equal: u64,
    /// Number of elements with other bits, within the tolerance.
    pub within: u64,
    /// Number of elements that differ.
    pub differ: u64,
    /// The first element that differs.
    pub first: Option<ElementPair>,
    /// The error statistics; `None` if all bits are the same.
    pub errors: Option<Errors>,
}

impl ElementDiff {
    /// Returns the same with the sides swapped.
    #[must_use]
    pub fn swapped(mut self) -> Self {
        if let Some(f) = &mut self.first {
            std::mem::swap(&mut f.a, &mut f.b);
        }
        self
    }
}

/// The numeric value of an element, and its position among the representable values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumericValue {
    /// The value; for an integer of more than 53 bits, the nearest representable one.
    pub value: f64,
    /// Whether the value is a finite number.
    pub is_finite: bool,
    /// Position among the representable values; both float zeros have 0. For an integer it is the integer itself.
    pub ordinal: i128,
}

/// Returns the position of a float among the representable values: sign and magnitude as one integer.
fn place(magnitude: u64, negative: bool) -> i128 {
    if negative {
        -i128::from(magnitude)
    } else {
        i128::from(magnitude)
    }
}

/// Returns the numeric value of an element with these (low) bits.
#[must_use]
pub fn numeric_value(element: ElementType, bits: u64) -> NumericValue {
    let whole = |v: i128| NumericValue {
        value: v as f64,
        is_finite: true,
        ordinal: v,
    };
    let float = |value: f64, magnitude: u64, negative: bool| NumericValue {
        value,
        is_finite: value.is_finite(),
        ordinal: place(magnitude, negative),
    };
    match element {
        ElementType::U8 | ElementType::U16 | ElementType::U32 | ElementType::U64 => whole(i128::from(bits)),
        ElementType::I8 => whole(i128::from(bits as i8)),
        ElementType::I16 => whole(i128::from(bits as i16)),
        ElementType::I32 => whole(i128::from(bits as i32)),
        ElementType::I64 => whole(i128::from(bits as i64)),
        ElementType::F16 => float(f64::from(f16_to_f32(bits as u16)), bits & 0x7fff, bits >> 15 & 1 == 1),
        ElementType::F32 => float(
            f64::from(f32::from_bits(bits as u32)),
            bits & 0x7fff_ffff,
            bits >> 31 & 1 == 1,
        ),
        ElementType::F64 => float(f64::from_bits(bits), bits & (u64::MAX >> 1), bits >> 63 == 1),
        ElementType::BF16 => float(f64::from(bf16_to_f32(bits as u16)), bits & 0x7fff, bits >> 15 & 1 == 1),
    }
}

/// Compares elements, piece by piece.
pub(super) struct Comparer {
    element: ElementType,
    tolerance: Tolerance,
    out: ElementDiff,
    errors: Errors,
    sum_absolute: f64,
    sum_relative: f64,
    decades: BTreeMap<i16, u64>,
}

impl Comparer {
    pub fn new(element: ElementType, tolerance: Tolerance) -> Self {
        Self {
            element,
            tolerance,
            out: ElementDiff {
                element,
                compared: 0,
                equal: 0,
                within: 0,
                differ: 0,
                first: None,
                errors: None,
            },
            errors: Errors::default(),
            sum_absolute: 0.0,
            sum_relative: 0.0,
            decades: BTreeMap::new(),
        }
    }

    /// Returns the type of the elements.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Adds the result for the elements after these.
    pub fn join(&mut self, next: Self) {
        let (out, n) = (&mut self.out, next.out);
        out.compared += n.compared;
        out.equal += n.equal;
        out.within += n.within;
        out.differ += n.differ;
        out.first = out.first.or(n.first);
        let (e, n) = (&mut self.errors, next.errors);
        e.pairs += n.pairs;
        e.not_finite += n.not_finite;
        e.zeros += n.zeros;
        e.max_ulp = e.max_ulp.max(n.max_ulp);
        if n.max_absolute > e.max_absolute {
            (e.max_absolute, e.max_absolute_at) = (n.max_absolute, n.max_absolute_at);
        }
        if n.max_relative > e.max_relative {
            (e.max_relative, e.max_relative_at) = (n.max_relative, n.max_relative_at);
        }
        self.sum_absolute += next.sum_absolute;
        self.sum_relative += next.sum_relative;
        for (exponent, pairs) in next.decades {
            *self.decades.entry(exponent).or_default() += pairs;
        }
    }

    /// Adds elements that are known to be the same.
    pub fn add_equal(&mut self, elements: u64) {
        self.out.compared += elements;
        self.out.equal += elements;
    }

    /// Compares the whole elements of two pieces of the same length; the first is element number `index`.
    pub fn add_pair(&mut self, index: u64, a: &[u8], b: &[u8]) {
        let size = self.element.bytes();
        if a == b {
            self.add_equal((a.len() / size) as u64);
            return;
        }
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(bytes) {
                *to = *from;
            }
            u64::from_le_bytes(word)
        };
        for (n, (x, y)) in a.chunks_exact(size).zip(b.chunks_exact(size)).enumerate() {
            self.out.compared += 1;
            if x == y {
                self.out.equal += 1;
            } else {
                self.pair(ElementPair {
                    index: index.saturating_add(n as u64),
                    a: word(x),
                    b: word(y),
                });
            }
        }
    }

    /// Adds a pair with other bits.
    fn pair(&mut self, pair: ElementPair) {
        let (x, y) = (numeric_value(self.element, pair.a), numeric_value(self.element, pair.b));
        let within = if x.is_finite && y.is_finite {
            self.measure(pair.index, x, y)
        } else {
            self.errors.not_finite += 1;
            // Two NaNs count as equal; an infinity equals only itself.
            self.tolerance.is_some() && x.value.is_nan() && y.value.is_nan()
        };
        if within {
            self.out.within += 1;
        } else {
            self.out.differ += 1;
            self.out.first.get_or_insert(pair);
        }
    }

    /// Measures two finite elements; returns whether they are within the tolerance.
    fn measure(&mut self, index: u64, x: NumericValue, y: NumericValue) -> bool {
        let absolute = (x.value - y.value).abs();
        let scale = x.value.abs().max(y.value.abs());
        let relative = if scale > 0.0 { (absolute / scale).min(2.0) } else { 0.0 };
        let ulp = u64::try_from((x.ordinal - y.ordinal).unsigned_abs()).unwrap_or(u64::MAX);
        let e = &mut self.errors;
        e.pairs += 1;
        if absolute > e.max_absolute {
            (e.max_absolute, e.max_absolute_at) = (absolute, index);
        }
        if relative > e.max_relative {
            (e.max_relative, e.max_relative_at) = (relative, index);
        }
        e.max_ulp = e.max_ulp.max(ulp);
        self.sum_absolute += absolute;
        self.sum_relative += relative;
        if absolute > 0.0 {
            // The difference of two doubles may be infinite: it counts in the largest decade.
            let exponent = absolute.log10().floor().clamp(-400.0, 400.0) as i16;
            *self.decades.entry(exponent).or_default() += 1;
        } else if ulp == 0 {
            e.zeros += 1;
        }
        let t = &self.tolerance;
        t.absolute.is_some_and(|t| absolute <= t)
            || t.relative.is_some_and(|t| relative <= t)
            || t.ulp.is_some_and(|t| ulp <= t)
    }

    pub fn finish(mut self) -> ElementDiff {
        let e = &mut self.errors;
        if e.pairs + e.not_finite > 0 {
            let finite = self.out.compared.saturating_sub(e.not_finite).max(1) as f64;
            e.mean_absolute = self.sum_absolute / finite;
            e.mean_relative = self.sum_relative / finite;
            let decades = self.decades.into_iter();
            e.histogram = decades.map(|(exponent, pairs)| Decade { exponent, pairs }).collect();
            self.out.errors = Some(self.errors);
        }
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::parse_elements;

    fn compared(element: ElementType, tolerance: Tolerance, a: &str, b: &str) -> ElementDiff {
        let bytes = |t: &str| parse_elements(element, t).unwrap();
        let mut c = Comparer::new(element, tolerance);
        c.add_pair(0, &bytes(a), &bytes(b));
        c.finish()
    }

    #[test]
    fn float_errors_are_symmetric() {
        let (a, b) = ("1 2 3 -4 nan inf 0", "1 2.5 3.003 -4 nan 1 -0");
        let none = Tolerance::default();
        let d = compared(ElementType::F32, none, a, b);
        assert_eq!((d.compared, d.equal, d.within, d.differ), (7, 3, 0, 4));
        let e = d.errors.clone().unwrap();
        assert_eq!((e.pairs, e.not_finite, e.zeros), (3, 1, 1));
        assert_eq!((e.max_absolute, e.max_absolute_at), (0.5, 1));
        assert!((e.max_relative - 0.2).abs() < 1e-9 && e.max_relative_at == 1);
        assert_eq!(
            e.histogram,
            [Decade { exponent: -3, pairs: 1 }, Decade { exponent: -1, pairs: 1 }]
        );
        assert_eq!(d.first.unwrap().index, 1);
        assert_eq!(compared(ElementType::F32, none, b, a), d.swapped());
    }

    #[test]
    fn one_satisfied_tolerance_makes_elements_equal() {
        let (a, b) = ("1 1000 0.001 1", "1.05 1001 0.0019 1.0000001");
        let counts = |t: Tolerance| {
            let d = compared(ElementType::F32, t, a, b);
            (d.within, d.differ, d.first.map(|f| f.index))
        };
        let none = Tolerance::default();
        assert_eq!(counts(none), (0, 4, Some(0)));
        let absolute = Tolerance {
            absolute: Some(0.1),
            ..none
        };
        assert_eq!(counts(absolute), (3, 1, Some(1)));
        let relative = Tolerance {
            relative: Some(0.01),
            ..none
        };
        assert_eq!(counts(relative), (2, 2, Some(0)));
        assert_eq!(counts(Tolerance { ulp: Some(1), ..none }), (1, 3, Some(0)));
        assert_eq!(
            counts(Tolerance {
                absolute: Some(0.1),
                relative: Some(0.01),
                ulp: None
            }),
            (4, 0, None)
        );
        // The two zeros have the same value, and a tolerance of 0 treats them as equal.
        let zeros = compared(
            ElementType::F32,
            Tolerance {
                absolute: Some(0.0),
                ..none
            },
            "0",
            "-0",
        );
        assert_eq!((zeros.within, zeros.differ), (1, 0));
    }

    #[test]
    fn integer_differences_at_type_limits_do_not_overflow() {
        let none = Tolerance::default();
        let d = compared(ElementType::I64, none, "-9223372036854775808", "9223372036854775807");
        assert_eq!(d.errors.unwrap().max_ulp, u64::MAX);
        let d = compared(ElementType::U8, none, "0 255 7", "255 0 7");
        assert_eq!((d.differ, d.errors.unwrap().max_absolute), (2, 255.0));
        let d = compared(ElementType::F64, none, "1.7e308", "-1.7e308");
        let e = d.errors.unwrap();
        assert!(e.max_absolute.is_infinite() && e.max_relative == 2.0);
        let d = compared(ElementType::F16, none, "1", "1.0009765625");
        assert_eq!(d.errors.unwrap().max_ulp, 1);
    }
}
