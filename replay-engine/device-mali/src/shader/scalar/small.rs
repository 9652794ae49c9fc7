//! Operations on pairs of 16-bit values and quadruples of 8-bit values in a word.

use super::words::{Scalar, compare, join};
use crate::shader::mods::{Mods, Mux, Round, Truth};
use bifrost::Op;

/// Applies an operation to pairs of halves, which are extended to words as requested.
#[inline(always)]
fn halves(m: &Mods, s: [u32; 4], signed: bool, of: impl Fn(u32, u32) -> u32) -> u32 {
    let (a, b) = (m.pick[0].pair(s[0], signed), m.pick[1].pair(s[1], signed));
    join([of(a[0], b[0]), of(a[1], b[1])])
}

/// Applies an operation to quadruples of bytes.
#[inline(always)]
fn bytes(m: &Mods, s: [u32; 4], of: impl Fn(u8, u8) -> u8) -> u32 {
    let (a, b) = (m.pick[0].bytes(s[0]), m.pick[1].bytes(s[1]));
    u32::from_le_bytes(std::array::from_fn(|n| of(a[n], b[n])))
}

/// Shifts halves by bytes of the third source, then applies an operation with the second.
#[inline(always)]
fn shift_halves(m: &Mods, s: [u32; 4], shift: impl Fn(u16, u32) -> u16, with: impl Fn(u16, u16) -> u16) -> u32 {
    // Two digits select the byte for each half.
    let by = m.pick[2].bytes(s[2]);
    let half = |word: u32, n: usize| (word >> (16 * n)) as u16;
    join(std::array::from_fn(|n| {
        let by = u32::from(if m.pick[2].bits == 32 { by[2 * n] } else { by[n] }) & 15;
        let second = if m.not1 { !half(s[1], n) } else { half(s[1], n) };
        let result = with(shift(half(s[0], n), by), second);
        u32::from(if m.not_result { !result } else { result })
    }))
}

/// Shifts bytes by bytes of the third source, then applies an operation with the second.
#[inline(always)]
fn shift_bytes(m: &Mods, s: [u32; 4], shift: impl Fn(u8, u32) -> u8, with: impl Fn(u8, u8) -> u8) -> u32 {
    let by = m.pick[2].bytes(s[2]);
    let (a, b) = (s[0].to_le_bytes(), s[1].to_le_bytes());
    u32::from_le_bytes(std::array::from_fn(|n| {
        let second = if m.not1 { !b[n] } else { b[n] };
        let result = with(shift(a[n], u32::from(by[n]) & 7), second);
        if m.not_result { !result } else { result }
    }))
}

/// Returns the result of a comparison of halves.
fn truth16(holds: bool, kind: Truth) -> u32 {
    match (holds, kind) {
        (false, _) => 0,
        (true, Truth::One) => 1,
        (true, Truth::Float) => 0x3c00,
        (true, Truth::Mask) => 0xffff,
    }
}

pub(super) fn truth_halves(holds: [bool; 2], kind: Truth) -> u32 {
    join(holds.map(|h| truth16(h, kind)))
}

fn truth8(holds: bool, kind: Truth) -> u8 {
    match (holds, kind) {
        (false, _) => 0,
        (true, Truth::Mask) => 0xff,
        (true, _) => 1,
    }
}

/// Compares halves that are extended to words.
fn icmp_halves(m: &Mods, s: [u32; 4], signed: bool) -> u32 {
    halves(m, s, signed, |a, b| {
        let holds = if signed {
            compare(m.cmp, a as i32, b as i32)
        } else {
            compare(m.cmp, a, b)
        };
        truth16(holds, m.truth)
    })
}

/// Selects one of two halves for each half.
fn mux_halves(m: &Mods, s: [u32; 4]) -> u32 {
    let [a, b, c]: [[u32; 2]; 3] = std::array::from_fn(|n| m.pick[n].pair(s[n], false));
    join(std::array::from_fn(|n| {
        let first = match m.mux {
            Mux::Negative => c[n] >> 15 != 0,
            Mux::IntZero => c[n] == 0,
            Mux::FloatZero => c[n] & 0x7fff == 0,
            Mux::Bit => return a[n] & c[n] | b[n] & !c[n],
        };
        if first { a[n] } else { b[n] }
    }))
}

fn mux_bytes(m: &Mods, s: [u32; 4]) -> u32 {
    let [a, b, c, _] = s.map(u32::to_le_bytes);
    u32::from_le_bytes(std::array::from_fn(|n| {
        let first = if m.mux == Mux::Negative {
            c[n] >> 7 != 0
        } else {
            c[n] == 0
        };
        if first { a[n] } else { b[n] }
    }))
}

/// Compares two halves and selects one of two other halves.
fn csel_halves(m: &Mods, s: [u32; 4], signed: bool) -> u32 {
    let half = |word: u32, n: usize| {
        let h = (word >> (16 * n)) as u16;
        if signed { i32::from(h as i16) } else { i32::from(h) }
    };
    join(std::array::from_fn(|n| {
        let from = if compare(m.cmp, half(s[0], n), half(s[1], n)) {
            s[2]
        } else {
            s[3]
        };
        from >> (16 * n) & 0xffff
    }))
}

/// Computes with saturation or without, as the operation says.
#[inline]
fn limited<T>(m: &Mods, a: T, b: T, saturating: impl Fn(T, T) -> T, wrapping: impl Fn(T, T) -> T) -> T {
    if m.saturate { saturating(a, b) } else { wrapping(a, b) }
}

#[inline]
fn limited_s16(m: &Mods, value: i32) -> u32 {
    let value = if m.saturate {
        value.clamp(-0x8000, 0x7fff)
    } else {
        value
    };
    value as u32
}

fn round_up(m: &Mods) -> i32 {
    i32::from(m.round == Round::Up)
}

pub(super) fn scalar(op: Op) -> Option<Scalar> {
    Some(match op {
        Op::IaddV2s16 => |m, s| halves(m, s, true, |a, b| limited_s16(m, (a as i32).wrapping_add(b as i32))),
        Op::IaddV2u16 => |m, s| halves(m, s, false, |a, b| if m.saturate { (a + b).min(0xffff) } else { a + b }),
        Op::IsubV2s16 => |m, s| halves(m, s, true, |a, b| limited_s16(m, (a as i32).wrapping_sub(b as i32))),
        Op::IsubV2u16 => |m, s| {
            halves(m, s, false, |a, b| {
                limited(m, a, b, u32::saturating_sub, u32::wrapping_sub)
            })
        },
        Op::IaddV4s8 => |m, s| {
            bytes(m, s, |a, b| {
                limited(m, a as i8, b as i8, i8::saturating_add, i8::wrapping_add) as u8
            })
        },
        Op::IaddV4u8 => |m, s| bytes(m, s, |a, b| limited(m, a, b, u8::saturating_add, u8::wrapping_add)),
        Op::IsubV4s8 => |m, s| {
            bytes(m, s, |a, b| {
                limited(m, a as i8, b as i8, i8::saturating_sub, i8::wrapping_sub) as u8
            })
        },
        Op::IsubV4u8 => |m, s| bytes(m, s, |a, b| limited(m, a, b, u8::saturating_sub, u8::wrapping_sub)),
        Op::ImulV2i16 => |m, s| halves(m, s, false, u32::wrapping_mul),
        Op::ImulV4i8 => |m, s| bytes(m, s, u8::wrapping_mul),
        Op::IabsV2s16 => |m, s| join(m.pick[0].pair(s[0], true).map(|a| (a as i32).unsigned_abs())),
        Op::IabsV4s8 => |_, s| u32::from_le_bytes(s[0].to_le_bytes().map(|a| (a as i8).unsigned_abs())),
        Op::HaddV2s16 => |m, s| halves(m, s, true, |a, b| ((a as i32 + b as i32 + round_up(m)) >> 1) as u32),
        Op::HaddV2u16 => |m, s| halves(m, s, false, |a, b| (a + b + round_up(m) as u32) >> 1),
        Op::HaddV4s8 => |m, s| {
            bytes(m, s, |a, b| {
                ((i32::from(a as i8) + i32::from(b as i8) + round_up(m)) >> 1) as u8
            })
        },
        Op::HaddV4u8 => |m, s| bytes(m, s, |a, b| ((i32::from(a) + i32::from(b) + round_up(m)) >> 1) as u8),
        Op::LshiftOrV2i16 => |m, s| shift_halves(m, s, |a, by| a << by, |a, b| a | b),
        Op::LshiftAndV2i16 => |m, s| shift_halves(m, s, |a, by| a << by, |a, b| a & b),
        Op::LshiftXorV2i16 => |m, s| shift_halves(m, s, |a, by| a << by, |a, b| a ^ b),
        Op::RshiftOrV2i16 => |m, s| shift_halves(m, s, |a, by| a >> by, |a, b| a | b),
        Op::RshiftAndV2i16 => |m, s| shift_halves(m, s, |a, by| a >> by, |a, b| a & b),
        Op::RshiftXorV2i16 => |m, s| shift_halves(m, s, |a, by| a >> by, |a, b| a ^ b),
        Op::ArshiftV2i16 => |m, s| shift_halves(m, s, |a, by| (a as i16 >> by) as u16, |a, _| a),
        Op::LshiftOrV4i8 => |m, s| shift_bytes(m, s, |a, by| a << by, |a, b| a | b),
        Op::LshiftAndV4i8 => |m, s| shift_bytes(m, s, |a, by| a << by, |a, b| a & b),
        Op::LshiftXorV4i8 => |m, s| shift_bytes(m, s, |a, by| a << by, |a, b| a ^ b),
        Op::RshiftOrV4i8 => |m, s| shift_bytes(m, s, |a, by| a >> by, |a, b| a | b),
        Op::RshiftAndV4i8 => |m, s| shift_bytes(m, s, |a, by| a >> by, |a, b| a & b),
        Op::RshiftXorV4i8 => |m, s| shift_bytes(m, s, |a, by| a >> by, |a, b| a ^ b),
        Op::ArshiftV4i8 => |m, s| shift_bytes(m, s, |a, by| (a as i8 >> by) as u8, |a, _| a),
        Op::ClzV2u16 => |m, s| {
            join(m.pick[0].pair(s[0], false).map(|a| {
                if m.masks && a == 0 {
                    0xffff
                } else {
                    (a as u16).leading_zeros()
                }
            }))
        },
        Op::ClzV4u8 => |m, s| {
            let count = |a: u8| {
                if m.masks && a == 0 {
                    0xff
                } else {
                    a.leading_zeros() as u8
                }
            };
            u32::from_le_bytes(s[0].to_le_bytes().map(count))
        },
        Op::IcmpV2i16 | Op::IcmpV2u16 => |m, s| icmp_halves(m, s, false),
        Op::IcmpV2s16 => |m, s| icmp_halves(m, s, true),
        Op::IcmpV4i8 | Op::IcmpV4u8 => |m, s| bytes(m, s, |a, b| truth8(compare(m.cmp, a, b), m.truth)),
        Op::IcmpV4s8 => |m, s| bytes(m, s, |a, b| truth8(compare(m.cmp, a as i8, b as i8), m.truth)),
        Op::CselV2i16 | Op::CselV2u16 => |m, s| csel_halves(m, s, false),
        Op::CselV2s16 => |m, s| csel_halves(m, s, true),
        Op::MuxV2i16 => mux_halves,
        Op::MuxV4i8 => mux_bytes,
        Op::MkvecV2i16 => |m, s| join(std::array::from_fn(|n| m.pick[n].word(s[n], false))),
        Op::MkvecV4i8 => |m, s| u32::from_le_bytes(std::array::from_fn(|n| m.pick[n].word(s[n], false) as u8)),
        Op::SwzV2i16 => |m, s| join(m.pick[0].pair(s[0], false)),
        Op::SwzV4i8 => |m, s| u32::from_le_bytes(m.pick[0].bytes(s[0])),
        _ => return None,
    })
}
