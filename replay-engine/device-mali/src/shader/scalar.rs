//! Scalar definition of every arithmetic operation, for one lane, which the vector forms follow.
//!
//! The names, sources and modifiers are those of the table of the crate `bifrost`. Their meaning is described in our
//! own words. The sources are Mesa's compiler (how it builds each shading language function from them) and the results
//! of its recorded programs.

mod convert;
mod cube;
mod float;
mod int;
mod small;

pub(crate) use cube::cube_face;
pub(crate) use float::{suppressed16, suppressed32};
pub(crate) use int::wide_sum;

use super::mods::{Cmp, Mods, Truth};
use bifrost::Op;
use std::cmp::Ordering;

/// Operation on the words of up to four sources.
pub(crate) type Scalar = fn(&Mods, [u32; 4]) -> u32;

/// Returns the definition of an operation. Returns `None` for an operation that needs more than its sources (messages,
/// branches, other lanes), or that is not implemented.
pub(crate) fn scalar(op: Op) -> Option<Scalar> {
    int::scalar(op)
        .or_else(|| small::scalar(op))
        .or_else(|| float::scalar(op))
        .or_else(|| convert::scalar(op))
        .or_else(|| cube::scalar(op))
}

/// Returns whether a comparison of two ordered values holds.
#[inline(always)]
pub(crate) fn compare<T: PartialOrd>(cmp: Cmp, a: T, b: T) -> bool {
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
pub(crate) fn compare_floats(cmp: Cmp, a: f32, b: f32) -> bool {
    match cmp {
        Cmp::Total => a.total_cmp(&b) == Ordering::Less,
        _ => compare(cmp, a, b),
    }
}

/// Returns the word of a comparison's result.
#[inline(always)]
pub(crate) fn truth(holds: bool, kind: Truth) -> u32 {
    match (holds, kind) {
        (false, _) => 0,
        (true, Truth::One) => 1,
        (true, Truth::Float) => 1f32.to_bits(),
        (true, Truth::Mask) => u32::MAX,
    }
}

/// Joins two halves to a word.
#[inline(always)]
pub(crate) fn join(halves: [u32; 2]) -> u32 {
    halves[0] & 0xffff | halves[1] << 16
}
