//! Conditions of branches.
//!
//! Known: `BRANCH` compares two operands, `BRANCHZ` one with zero, in the type of the name, parts of words where the
//! modifier says so; `.i16` without it is the low half (how Mesa uses it).

use super::arithmetic::condition;
use super::number::{F16, F32, Number};
use super::source::{lane, number};
use bifrost::{Instruction, Modifier, Value as M};

/// Whether a branch is taken; `None` for what is no branch on a condition.
pub fn taken(i: &Instruction, s: &[u32]) -> Option<bool> {
    let name = i.op().name();
    let against_zero = name.starts_with("BRANCHZ.");
    if !against_zero && !name.starts_with("BRANCH.") {
        return None;
    }
    let part = |n: usize| match i.get([Modifier::Widen0, Modifier::Widen1][n]) {
        M::None if name.ends_with("16") => M::H0,
        part => part,
    };
    let order = if name.contains(".f") {
        let float = |n: usize| {
            let (bits, width) = lane(s[n], part(n))?;
            Some(Number::of(if width == 16 { F16 } else { F32 }, bits))
        };
        let second = if against_zero { Number::integer(0) } else { float(1)? };
        float(0)?.compare(&second)
    } else {
        let integer = |n: usize| number(s[n], part(n), name.contains(".s"));
        let second = if against_zero { 0 } else { integer(1)? };
        Some(integer(0)?.cmp(&second))
    };
    condition(i.get(Modifier::Cmpf), order)
}
