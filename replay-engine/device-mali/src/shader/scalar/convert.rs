//! Conversions between numbers of different types and sizes.

use super::float::source;
use super::words::{Scalar, join};
use crate::shader::float::{bits, clamp, round_whole, round16, round32, widen16};
use crate::shader::mods::{Clamp, Mods, Round};
use bifrost::Op;

/// Converts a float to an integer: rounded as requested and clamped. NaN becomes 0.
fn to_int(x: f32, round: Round, low: f64, high: f64) -> i64 {
    if x.is_nan() {
        return 0;
    }
    round_whole(f64::from(x), round).clamp(low, high) as i64
}

fn to_s32(m: &Mods, x: f32) -> u32 {
    to_int(x, m.round, f64::from(i32::MIN), f64::from(i32::MAX)) as u32
}

fn to_u32(m: &Mods, x: f32) -> u32 {
    to_int(x, m.round, 0.0, f64::from(u32::MAX)) as u32
}

/// Converts an integer to a 32-bit float. Every 32-bit integer is exact in 64 bits.
fn float(m: &Mods, x: f64) -> u32 {
    bits(round32(x, m.round))
}

fn halves(m: &Mods, s: [u32; 4], of: impl Fn(f32) -> i64) -> u32 {
    join(m.pick[0].pair(s[0], false).map(|h| of(widen16(h as u16)) as u32))
}

/// Smallest half that is not denormal.
const SMALLEST_HALF: f32 = 1.0 / 16_384.0;

/// Returns a number, or a zero of its sign if the clause flushes denormal halves. A number below the smallest normal
/// half is flushed even if rounding would make it that half.
fn flushed(m: &Mods, x: f32) -> f32 {
    if m.flushes && x.abs() < SMALLEST_HALF {
        0f32.copysign(x)
    } else {
        x
    }
}

/// Converts two 32-bit floats to 16-bit floats.
fn pack(m: &Mods, s: [u32; 4]) -> u32 {
    join(std::array::from_fn(|n| {
        let h = round16(f64::from(flushed(m, source(m, s, n))), m.round);
        u32::from(match m.clamp {
            Clamp::None => h,
            to => round16(f64::from(clamp(widen16(h), to)), Round::Even),
        })
    }))
}

pub(super) fn scalar(op: Op) -> Option<Scalar> {
    Some(match op {
        Op::F16ToF32 => |m, s| bits(flushed(m, widen16(m.pick[0].pair(s[0], false)[0] as u16))),
        Op::F16ToS32 => |m, s| to_s32(m, widen16(m.pick[0].pair(s[0], false)[0] as u16)),
        Op::F16ToU32 => |m, s| to_u32(m, widen16(m.pick[0].pair(s[0], false)[0] as u16)),
        Op::F32ToS32 => |m, s| to_s32(m, f32::from_bits(s[0])),
        Op::F32ToU32 => |m, s| to_u32(m, f32::from_bits(s[0])),
        Op::S32ToF32 => |m, s| float(m, f64::from(s[0] as i32)),
        Op::U32ToF32 => |m, s| float(m, f64::from(s[0])),
        Op::S16ToF32 | Op::S8ToF32 => |m, s| float(m, f64::from(m.pick[0].word(s[0], true) as i32)),
        Op::U16ToF32 | Op::U8ToF32 => |m, s| float(m, f64::from(m.pick[0].word(s[0], false))),
        Op::S16ToS32 | Op::S8ToS32 => |m, s| m.pick[0].word(s[0], true),
        Op::U16ToU32 | Op::U8ToU32 => |m, s| m.pick[0].word(s[0], false),
        Op::V2f32ToV2f16 => pack,
        Op::V2f16ToV2s16 => |m, s| halves(m, s, |x| to_int(x, m.round, -32768.0, 32767.0)),
        Op::V2f16ToV2u16 => |m, s| halves(m, s, |x| to_int(x, m.round, 0.0, 65535.0)),
        Op::V2s16ToV2f16 | Op::V2s8ToV2f16 => |m, s| {
            join(
                m.pick[0]
                    .pair(s[0], true)
                    .map(|a| u32::from(round16(f64::from(a as i32), m.round))),
            )
        },
        Op::V2u16ToV2f16 | Op::V2u8ToV2f16 => |m, s| {
            join(
                m.pick[0]
                    .pair(s[0], false)
                    .map(|a| u32::from(round16(f64::from(a), m.round))),
            )
        },
        Op::V2s8ToV2s16 => |m, s| join(m.pick[0].pair(s[0], true)),
        Op::V2u8ToV2u16 => |m, s| join(m.pick[0].pair(s[0], false)),
        _ => return None,
    })
}
