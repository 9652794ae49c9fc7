//! Conversions between floats and integers.
//!
//! Known: the modifier names the rounding mode, and `none` is to the nearest with ties to even. Results are clamped to
//! the bounds of their type, and NaN becomes 0. Mesa's folding of `F32_TO_U32` does this to "match hardware rules".
//!
//! Inferred: 16-bit results have the same rule.

use super::arithmetic::put;
use super::number::{F16, F32, Number};
use super::source::{float, float_halves, halves, lane_of, number};
use super::value::{Check, Value};
use bifrost::{Instruction, Modifier, Op, Value as M};

fn bounds(sign: bool, bits: u32) -> (i64, i64) {
    match sign {
        true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    }
}

/// Returns the result of an operation of this file. Returns `None` for other operations.
pub fn result(i: &Instruction, s: &[u32]) -> Option<Value> {
    let mode = i.get(Modifier::Round);
    let nan = |x: &Number| if x.is_nan() { Check::Nan } else { Check::Exact };
    let to_word = |x: Number, sign| {
        let (min, max) = bounds(sign, 32);
        Value::exact(x.to_integer(mode, min, max) as u32)
    };
    let half_float = || Some(Number::of(F16, lane_of(i, 0, s[0])?.0));
    let from_lane = |sign| {
        let x = Number::integer(number(s[0], i.get(Modifier::Lane0), sign)?);
        Some(Value::exact(x.rounded(F32, mode)))
    };
    let to_halves = |sign: bool| {
        let (min, max) = bounds(sign, 16);
        let [a, b] = float_halves(i, 0, s[0])?.map(|x| x.to_integer(mode, min, max) as u32 & 0xffff);
        Some(Value::exact(a | b << 16))
    };
    let from_halves = |sign: bool| {
        let pieces = halves(s[0], i.get(Modifier::Swz0), sign)?.map(|lane| {
            let value = if sign {
                i64::from(lane as u16 as i16)
            } else {
                i64::from(lane)
            };
            (Number::integer(value).rounded(F16, mode), Check::Exact)
        });
        put(F16, &pieces)
    };
    match i.op() {
        Op::F16ToF32 => {
            let x = half_float()?;
            Some(Value::Word(x.rounded(F32, M::None), nan(&x)))
        }
        Op::F16ToS32 => Some(to_word(half_float()?, true)),
        Op::F16ToU32 => Some(to_word(half_float()?, false)),
        Op::F32ToS32 => Some(to_word(float(i, 0, s[0])?, true)),
        Op::F32ToU32 => Some(to_word(float(i, 0, s[0])?, false)),
        Op::S8ToF32 | Op::S16ToF32 | Op::S32ToF32 => from_lane(true),
        Op::U8ToF32 | Op::U16ToF32 | Op::U32ToF32 => from_lane(false),
        Op::V2f16ToV2s16 => to_halves(true),
        Op::V2f16ToV2u16 => to_halves(false),
        Op::V2s16ToV2f16 | Op::V2s8ToV2f16 => from_halves(true),
        Op::V2u16ToV2f16 | Op::V2u8ToV2f16 => from_halves(false),
        Op::V2f32ToV2f16 => {
            let piece = |n: usize| Some(super::arithmetic::clamped(i, F16, &float(i, n, s[n])?));
            put(F16, &[piece(0)?, piece(1)?])
        }
        _ => None,
    }
}
