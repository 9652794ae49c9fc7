//! The type of scalar operations, and the words of comparisons and halves.

use crate::shader::mods::{Cmp, Mods, Truth};
use std::cmp::Ordering;

/// Operation on the words of up to four sources.
pub(crate) type Scalar = fn(&Mods, [u32; 4]) -> u32;

/// Returns whether a comparison of two ordered values holds.
#[inline(always)]
pub(super) fn compare<T: PartialOrd>(cmp: Cmp, a: T, b: T) -> bool {
    match cmp {
        Cmp::Eq => a == b,
        Cmp::Ne => a != b,
        Cmp::Gt => a > b,
        Cmp::Ge => a >= b,
        Cmp::Lt => a < b,
        Cmp::Le => a <= b,
        Cmp::GtLt => matches!(a.partial_cmp(&b), Some(Ordering::Less | Ordering::Greater)),
        // Floats are compared by `compare_floats`; integers have only one order.
        Cmp::Total => a < b,
    }
}

/// Returns whether a comparison of two floats holds.
#[inline(always)]
pub(super) fn compare_floats(cmp: Cmp, a: f32, b: f32) -> bool {
    match cmp {
        Cmp::Total => a.total_cmp(&b) == Ordering::Less,
        _ => compare(cmp, a, b),
    }
}

/// Returns the word of a comparison's result.
#[inline(always)]
pub(super) fn truth(holds: bool, kind: Truth) -> u32 {
    match (holds, kind) {
        (false, _) => 0,
        (true, Truth::One) => 1,
        (true, Truth::Float) => 1f32.to_bits(),
        (true, Truth::Mask) => u32::MAX,
    }
}

/// Joins two halves to a word.
#[inline(always)]
pub(super) fn join(halves: [u32; 2]) -> u32 {
    halves[0] & 0xffff | halves[1] << 16
}
