//! Functions of instructions that compute: operands and results are 64-bit slots, whose unused upper bits are ignored.

pub mod compare;
pub mod convert;
pub mod float;
pub mod integer;
mod table;

pub use table::{Shape, find};

/// Function of an instruction with one operand.
pub type Unary = fn(u64) -> u64;
/// Function of an instruction with two operands.
pub type Binary = fn(u64, u64) -> u64;
/// Function of an instruction with three operands.
pub type Ternary = fn(u64, u64, u64) -> u64;
/// Function of a division: `None` for a divisor of zero, whose result PTX does not specify.
pub type Division = fn(u64, u64) -> Option<u64>;
/// Function of an instruction with four operands.
pub type Quaternary = fn(u64, u64, u64, u64) -> u64;
