//! Effects of a clause's header on the results of its float operations.
//!
//! Known: `bifrost.h` states that the bits turn infinite results into the greatest number and NaN into `+0`. Mesa's
//! compiler uses flushing only for `fquantize2f16`. NIR defines that a value smaller than `2^-14` becomes a zero of its
//! sign. All other values are rounded to a half.
//!
//! Open: every other operation under flushing, and tables and approximations under suppression.

use super::arithmetic::put;
use super::number::{F16, F32, Format, Number};
use super::source::{float, lane_of};
use super::value::{Check, Value};
use bifrost::{Header, Instruction, Modifier, Op, Value as M};

/// Returns the result of an operation that flushes halves, or `None` if flushing changes nothing.
pub fn flushed(i: &Instruction, s: &[u32]) -> Option<Value> {
    let small = |x: &Number| !x.is_zero() && below_the_normal_halves(x);
    match i.op() {
        Op::F16ToF32 => {
            let half = lane_of(i, 0, s[0])?.0;
            let sign = (half & F16.sign()) << 16;
            F16.is_denormal(half).then_some(Value::exact(sign))
        }
        Op::V2f32ToV2f16 if i.get(Modifier::Round) == M::None => {
            let piece = |n: usize| {
                let x = float(i, n, s[n])?;
                let x = if small(&x) {
                    Number::integer(0).with_sign(x.is_negative())
                } else {
                    x
                };
                Some(super::arithmetic::clamped(i, F16, &x))
            };
            put(F16, &[piece(0)?, piece(1)?])
        }
        _ => None,
    }
}

/// Returns whether a number is below the smallest normal half.
fn below_the_normal_halves(x: &Number) -> bool {
    let smallest = Number::of(F16, 1 << 10);
    x.clone().with_sign(false).compare(&smallest) == Some(std::cmp::Ordering::Less)
}

fn piece(h: Header, format: Format, bits: u32, check: Check) -> (u32, Check) {
    match check {
        Check::Nan if h.suppress_nan() => (0, Check::Exact),
        Check::Exact if h.suppress_inf() && bits & !format.sign() == format.infinity() => (bits - 1, Check::Exact),
        _ => (bits, check),
    }
}

/// Replaces the parts of a float result that the header suppresses.
pub fn suppressed(h: Header, i: &Instruction, result: Value) -> Value {
    let name = i.op().name();
    let floats = name.ends_with("TO_F32") || name.ends_with("f32") || name.ends_with("F16") || name.ends_with("f16");
    let integers = name.starts_with("FCMP");
    if !floats || integers {
        return result;
    }
    match result {
        Value::Word(bits, check) => {
            let (bits, check) = piece(h, F32, bits, check);
            Value::Word(bits, check)
        }
        Value::Halves(halves) => Value::Halves(halves.map(|(bits, check)| {
            let (bits, check) = piece(h, F16, u32::from(bits), check);
            (bits as u16, check)
        })),
    }
}
