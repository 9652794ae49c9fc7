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
mod words;

pub(crate) use cube::cube_face;
pub(crate) use float::{suppressed16, suppressed32};
pub(crate) use int::wide_sum;
pub(crate) use words::Scalar;

use bifrost::Op;

/// Returns the definition of an operation. Returns `None` for an operation that needs more than its sources (messages,
/// branches, other lanes), or that is not implemented.
pub(crate) fn scalar(op: Op) -> Option<Scalar> {
    int::scalar(op)
        .or_else(|| small::scalar(op))
        .or_else(|| float::scalar(op))
        .or_else(|| convert::scalar(op))
        .or_else(|| cube::scalar(op))
}
