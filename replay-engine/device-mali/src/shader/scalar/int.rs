//! Operations on 32-bit integers and bits, and selections between words.

use super::words::{Scalar, compare, truth};
use crate::shader::mods::{Mods, Mux, Round};
use bifrost::Op;

/// Shifts the first source by a byte of the third, then applies an operation with the second.
#[inline(always)]
fn shift(m: &Mods, s: [u32; 4], left: bool, with: impl Fn(u32, u32) -> u32) -> u32 {
    let by = m.pick[2].word(s[2], false) & 31;
    let shifted = if left { s[0] << by } else { s[0] >> by };
    let second = if m.not1 { !s[1] } else { s[1] };
    let result = with(shifted, second);
    if m.not_result { !result } else { result }
}

/// Selects one of two words.
pub(crate) fn choose(mux: Mux, s: [u32; 4]) -> u32 {
    let first = match mux {
        Mux::Negative => s[2] >> 31 != 0,
        Mux::IntZero => s[2] == 0,
        Mux::FloatZero => s[2] << 1 == 0,
        Mux::Bit => return s[0] & s[2] | s[1] & !s[2],
    };
    if first { s[0] } else { s[1] }
}

/// Returns the mean of two numbers, rounded down or up.
fn mean(a: i64, b: i64, round: Round) -> u32 {
    let up = i64::from(round == Round::Up);
    ((a + b + up) >> 1) as u32
}

/// Returns the sum of the products of bytes.
fn dot(m: &Mods, s: [u32; 4]) -> u32 {
    let byte = |word: u32, n: u32, signed: bool| {
        let b = (word >> (8 * n)) as u8;
        if signed { i32::from(b as i8) } else { i32::from(b) }
    };
    (0..4)
        .map(|n| byte(s[0], n, m.signed[0]) * byte(s[1], n, m.signed[1]))
        .sum::<i32>() as u32
}

/// Returns the operation for the high word of a 64-bit sum whose second operand is shifted first. Its sources are the
/// low words of both operands, then the high words. Returns `None` for operations that do not compute the low word.
pub(crate) fn wide_sum(op: Op) -> Option<Scalar> {
    fn high(m: &Mods, s: [u32; 4], second: u64) -> u32 {
        let first = u64::from(s[0]) | u64::from(s[2]) << 32;
        (first.wrapping_add(second << (m.number & 7)) >> 32) as u32
    }
    Some(match op {
        Op::ShaddxlI64 => |m, s| high(m, s, u64::from(s[1]) | u64::from(s[3]) << 32),
        // The 32-bit or 16-bit operand is extended; the other high word is ignored.
        Op::ShaddxlS32 => |m, s| high(m, s, m.pick[1].word(s[1], true) as i32 as i64 as u64),
        Op::ShaddxlU32 => |m, s| high(m, s, u64::from(m.pick[1].word(s[1], false))),
        _ => return None,
    })
}

pub(super) fn scalar(op: Op) -> Option<Scalar> {
    Some(match op {
        Op::Nop => |_, _| 0,
        Op::MovI32 => |_, s| s[0],
        Op::IaddS32 => |m, s| {
            let b = m.pick[1].word(s[1], true);
            if m.saturate {
                (s[0] as i32).saturating_add(b as i32) as u32
            } else {
                s[0].wrapping_add(b)
            }
        },
        Op::IaddU32 => |m, s| {
            let b = m.pick[1].word(s[1], false);
            if m.saturate {
                s[0].saturating_add(b)
            } else {
                s[0].wrapping_add(b)
            }
        },
        Op::IsubS32 => |m, s| {
            let b = m.pick[1].word(s[1], true);
            if m.saturate {
                (s[0] as i32).saturating_sub(b as i32) as u32
            } else {
                s[0].wrapping_sub(b)
            }
        },
        Op::IsubU32 => |m, s| {
            let b = m.pick[1].word(s[1], false);
            if m.saturate {
                s[0].saturating_sub(b)
            } else {
                s[0].wrapping_sub(b)
            }
        },
        Op::ShaddxlI64 | Op::ShaddxlU32 => |m, s| s[0].wrapping_add(m.pick[1].word(s[1], false) << (m.number & 7)),
        Op::ShaddxlS32 => |m, s| s[0].wrapping_add(m.pick[1].word(s[1], true) << (m.number & 7)),
        Op::IaddcI32 => |_, s| s[0].wrapping_add(s[1]).wrapping_add(s[2] & 1),
        Op::IsubbI32 => |_, s| s[0].wrapping_sub(s[1]).wrapping_sub(s[2] & 1),
        Op::ImulI32 => |m, s| s[0].wrapping_mul(m.pick[1].word(s[1], m.signed[1])),
        Op::IabsS32 => |_, s| (s[0] as i32).unsigned_abs(),
        Op::HaddS32 => |m, s| mean(i64::from(s[0] as i32), i64::from(s[1] as i32), m.round),
        Op::HaddU32 => |m, s| mean(i64::from(s[0]), i64::from(s[1]), m.round),
        Op::IdpV4i8 => dot,
        Op::LshiftOrI32 => |m, s| shift(m, s, true, |a, b| a | b),
        Op::LshiftAndI32 => |m, s| shift(m, s, true, |a, b| a & b),
        Op::LshiftXorI32 => |m, s| shift(m, s, true, |a, b| a ^ b),
        Op::RshiftOrI32 => |m, s| shift(m, s, false, |a, b| a | b),
        Op::RshiftAndI32 => |m, s| shift(m, s, false, |a, b| a & b),
        Op::RshiftXorI32 => |m, s| shift(m, s, false, |a, b| a ^ b),
        Op::ArshiftI32 => |m, s| (s[0] as i32 >> (m.pick[2].word(s[2], false) & 31)) as u32,
        Op::ClzU32 => |m, s| {
            if m.masks && s[0] == 0 {
                u32::MAX
            } else {
                s[0].leading_zeros()
            }
        },
        Op::PopcountI32 => |_, s| s[0].count_ones(),
        Op::BitrevI32 => |_, s| s[0].reverse_bits(),
        Op::IcmpI32 | Op::IcmpU32 => |m, s| truth(compare(m.cmp, s[0], s[1]), m.truth),
        Op::IcmpS32 => |m, s| truth(compare(m.cmp, s[0] as i32, s[1] as i32), m.truth),
        Op::CselI32 | Op::CselU32 => |m, s| if compare(m.cmp, s[0], s[1]) { s[2] } else { s[3] },
        Op::CselS32 => |m, s| {
            if compare(m.cmp, s[0] as i32, s[1] as i32) {
                s[2]
            } else {
                s[3]
            }
        },
        Op::MuxI32 => |m, s| choose(m.mux, s),
        _ => return None,
    })
}
