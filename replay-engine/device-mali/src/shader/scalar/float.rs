//! Operations on 32-bit and 16-bit floats.

use super::small::truth_halves;
use super::words::{Scalar, compare_floats as compare, join, truth};
use crate::shader::approx;
use crate::shader::float::{
    NAN, NAN16, bits, clamp, odd_fma, odd_sum_in, round_whole, round16, round32, scale, split, widen16,
};
use crate::shader::mods::{Clamp, Mods, Round, Special};
use bifrost::{Op, Value};

/// Returns a source as a float: widened from a half if requested, then its magnitude, then its negation.
#[inline(always)]
pub(crate) fn source(m: &Mods, s: [u32; 4], n: usize) -> f32 {
    let x = match m.pick[n].bits {
        16 => widen16(m.pick[n].word(s[n], false) as u16),
        _ => f32::from_bits(s[n]),
    };
    signs(m, n, x)
}

fn signs(m: &Mods, n: usize, x: f32) -> f32 {
    let x = if m.abs[n] { x.abs() } else { x };
    if m.neg[n] { -x } else { x }
}

/// Returns a source as two floats.
fn pair(m: &Mods, s: [u32; 4], n: usize) -> [f32; 2] {
    m.pick[n].pair(s[n], false).map(|h| signs(m, n, widen16(h as u16)))
}

/// Clamps a 16-bit result to its range.
fn clamp16(h: u16, to: Clamp) -> u16 {
    if to == Clamp::None {
        return h;
    }
    round16(f64::from(clamp(widen16(h), to)), Round::Even)
}

fn half(m: &Mods, x: f64) -> u32 {
    u32::from(clamp16(round16(x, m.round), m.clamp))
}

fn word(m: &Mods, x: f64) -> u32 {
    bits(clamp(round32(x, m.round), m.clamp))
}

/// Returns a fused multiply-add, with the special treatment of a factor of 0.
fn product_and_sum(m: &Mods, a: f32, b: f32, c: f32) -> f64 {
    let zero = a == 0.0 || b == 0.0;
    match m.special {
        Special::Zero if zero => {
            let sign = a.is_sign_negative() != b.is_sign_negative();
            odd_sum_in(if sign { -0.0 } else { 0.0 }, f64::from(c), m.round)
        }
        Special::Left if zero => sum(m, a, c),
        _ => odd_fma(a, b, c, m.round),
    }
}

/// Returns the exponent by which a result is scaled.
fn power(m: &Mods, word: u32) -> i32 {
    if m.special == Special::Scale16 {
        i32::from(word as i16)
    } else {
        word as i32
    }
}

fn sum(m: &Mods, a: f32, b: f32) -> f64 {
    odd_sum_in(f64::from(a), f64::from(b), m.round)
}

/// Returns the greater or lesser of two numbers. -0 is less than +0.
fn extreme(m: &Mods, a: f32, b: f32, max: bool) -> f32 {
    if a.is_nan() || b.is_nan() {
        return match (m.nan_propagates, a.is_nan()) {
            (true, _) => f32::NAN,
            (false, true) => b,
            (false, false) => a,
        };
    }
    let first = match a.total_cmp(&b) {
        std::cmp::Ordering::Less => !max,
        _ => max,
    };
    if first { a } else { b }
}

/// Returns the fraction of a number: in `[0.5, 1)`, or for a logarithm in `[0.75, 1.5)`, for a root in `[0.25, 1)`.
fn fraction(m: &Mods, x: f32) -> f32 {
    if x == 0.0 || x.is_nan() {
        return x;
    }
    if x.is_infinite() {
        // A logarithm takes infinity from the table, and a finite fraction.
        return if m.log { 1f32.copysign(x) } else { x };
    }
    let f = match (m.log, m.sqrt) {
        (true, _) => approx::split_log(x).0,
        (_, true) => approx::split_sqrt(x).0,
        _ => split(x).0,
    };
    (f as f32).copysign(x)
}

/// Returns the exponent that belongs to the fraction.
fn exponent(m: &Mods, x: f32) -> i32 {
    if x == 0.0 || !x.is_finite() {
        return 0;
    }
    let e = match (m.log, m.sqrt) {
        (true, _) => approx::split_log(x).1,
        (_, true) => approx::split_sqrt(x).1,
        _ => split(x).1,
    };
    if m.neg[0] { -e } else { e }
}

/// Adds the first source and the second source, which is first reduced to the fraction that a logarithm uses.
fn add_reduced(m: &Mods, s: [u32; 4]) -> u32 {
    let (a, b) = (source(m, s, 0), source(m, s, 1));
    let reduced = if b == 0.0 || !b.is_finite() {
        b
    } else {
        (approx::split_log(b).0 as f32).copysign(b)
    };
    bits(a + reduced)
}

/// Returns a float result without the values that its clause suppresses.
pub(crate) fn suppressed32(m: &Mods, s: [u32; 4]) -> u32 {
    suppressed(m, s[0], 0x7f80_0000)
}

/// Returns the same for two halves.
pub(crate) fn suppressed16(m: &Mods, s: [u32; 4]) -> u32 {
    join([s[0] & 0xffff, s[0] >> 16].map(|h| suppressed(m, h, 0x7c00)))
}

fn suppressed(m: &Mods, word: u32, infinity: u32) -> u32 {
    // The sign is above the exponent.
    let magnitude = word & !(infinity.wrapping_add(infinity & infinity.wrapping_neg()));
    match magnitude.cmp(&infinity) {
        std::cmp::Ordering::Equal if m.no_infinity => word - 1,
        std::cmp::Ordering::Greater if m.no_nan => 0,
        _ => word,
    }
}

/// Rounds to an integer that keeps the sign of the number.
fn whole(m: &Mods, x: f32) -> f32 {
    (round_whole(f64::from(x), m.round) as f32).copysign(x)
}

fn fcmp16(m: &Mods, s: [u32; 4]) -> u32 {
    let (a, b) = (pair(m, s, 0), pair(m, s, 1));
    truth_halves(std::array::from_fn(|n| compare(m.cmp, a[n], b[n])), m.truth)
}

fn each_half(m: &Mods, s: [u32; 4], of: impl Fn(f32) -> u16) -> u32 {
    join(pair(m, s, 0).map(|x| u32::from(of(x))))
}

fn both_halves(m: &Mods, s: [u32; 4], of: impl Fn(f32, f32) -> u32) -> u32 {
    let (a, b) = (pair(m, s, 0), pair(m, s, 1));
    join([of(a[0], b[0]), of(a[1], b[1])])
}

fn exact16(x: f32) -> u16 {
    round16(f64::from(x), Round::Even)
}

pub(super) fn scalar(op: Op) -> Option<Scalar> {
    Some(match op {
        Op::FaddF32 => |m, s| word(m, sum(m, source(m, s, 0), source(m, s, 1))),
        Op::FmaF32 => |m, s| word(m, odd_fma(source(m, s, 0), source(m, s, 1), source(m, s, 2), m.round)),
        Op::FmaRscaleF32 => |m, s| {
            let x = product_and_sum(m, source(m, s, 0), source(m, s, 1), source(m, s, 2));
            word(m, scale(x, power(m, s[3])))
        },
        Op::FaddRscaleF32 => |m, s| {
            let x = sum(m, source(m, s, 0), source(m, s, 1));
            word(m, scale(x, power(m, s[2])))
        },
        Op::FaddLscaleF32 => add_reduced,
        Op::LdexpF32 => |m, s| bits(round32(scale(f64::from(f32::from_bits(s[0])), s[1] as i32), m.round)),
        Op::LdexpV2f16 => |m, s| {
            let x = m.pick[0].pair(s[0], false).map(|h| widen16(h as u16));
            let e = m.pick[1].pair(s[1], true);
            join(std::array::from_fn(|n| {
                u32::from(round16(scale(f64::from(x[n]), e[n] as i32), m.round))
            }))
        },
        Op::FmaV2f16 => |m, s| {
            let (a, b, c) = (pair(m, s, 0), pair(m, s, 1), pair(m, s, 2));
            join(std::array::from_fn(|n| half(m, odd_fma(a[n], b[n], c[n], m.round))))
        },
        Op::FaddV2f16 => |m, s| both_halves(m, s, |a, b| half(m, sum(m, a, b))),
        Op::FmaxF32 => |m, s| bits(clamp(extreme(m, source(m, s, 0), source(m, s, 1), true), m.clamp)),
        Op::FminF32 => |m, s| bits(clamp(extreme(m, source(m, s, 0), source(m, s, 1), false), m.clamp)),
        Op::FmaxV2f16 => |m, s| both_halves(m, s, |a, b| u32::from(exact16(extreme(m, a, b, true)))),
        Op::FminV2f16 => |m, s| both_halves(m, s, |a, b| u32::from(exact16(extreme(m, a, b, false)))),
        Op::FcmpF32 => |m, s| truth(compare(m.cmp, source(m, s, 0), source(m, s, 1)), m.truth),
        Op::FcmpV2f16 => fcmp16,
        Op::CselF32 => |m, s| {
            if compare(m.cmp, f32::from_bits(s[0]), f32::from_bits(s[1])) {
                s[2]
            } else {
                s[3]
            }
        },
        Op::CselV2f16 => |m, s| {
            join(std::array::from_fn(|n| {
                let at = |w: u32| widen16((w >> (16 * n)) as u16);
                let from = if compare(m.cmp, at(s[0]), at(s[1])) { s[2] } else { s[3] };
                from >> (16 * n) & 0xffff
            }))
        },
        Op::FroundF32 => |m, s| bits(whole(m, source(m, s, 0))),
        Op::FroundV2f16 => |m, s| each_half(m, s, |x| exact16(whole(m, x))),
        Op::FrexpmF32 => |m, s| bits(fraction(m, source(m, s, 0))),
        Op::FrexpmV2f16 => |m, s| each_half(m, s, |x| exact16(fraction(m, x))),
        // The sign of the source does not matter here: `neg` negates the result.
        Op::FrexpeF32 => |m, s| {
            let plain = Mods { neg: [false; 3], ..*m };
            exponent(m, source(&plain, s, 0)) as u32
        },
        Op::FrexpeV2f16 => |m, s| {
            let plain = Mods { neg: [false; 3], ..*m };
            join(pair(&plain, s, 0).map(|x| exponent(m, x) as u32))
        },
        Op::QuietF32 => |_, s| if f32::from_bits(s[0]).is_nan() { NAN } else { s[0] },
        Op::QuietV2f16 => |m, s| {
            join(
                m.pick[0]
                    .pair(s[0], false)
                    .map(|h| if h & 0x7fff > 0x7c00 { u32::from(NAN16) } else { h }),
            )
        },
        Op::FrcpF32 => |m, s| bits(approx::rcp(source(m, s, 0))),
        Op::FrcpApproxF32 => |m, s| approx::rcp_fraction(source(m, s, 0)),
        Op::FrcpF16 => |m, s| u32::from(round16(1.0 / f64::from(source(m, s, 0)), Round::Even)),
        Op::FrsqF32 => |m, s| bits(approx::rsqrt(source(m, s, 0))),
        Op::FrsqApproxF32 => |m, s| approx::rsqrt_fraction(source(m, s, 0)),
        Op::FrsqF16 => |m, s| {
            let x = source(m, s, 0);
            let root = if x == 0.0 {
                f64::INFINITY.copysign(f64::from(x))
            } else {
                1.0 / f64::from(x).sqrt()
            };
            u32::from(round16(root, Round::Even))
        },
        Op::FexpF32 => |_, s| approx::exp2_fixed(s[0], f32::from_bits(s[1])),
        Op::FexpTableU4 => |_, s| approx::exp2_sixteenths(s[0]),
        Op::FlogTableF32 => |m, s| {
            let x = source(m, s, 0);
            if m.mode == Value::Red {
                approx::log_red(x)
            } else {
                approx::log_table(x, m.mode == Value::Natural)
            }
        },
        Op::FlogdF32 => |_, s| approx::log_divided(f32::from_bits(s[0])),
        Op::FsinTableU6 => |_, s| approx::sin_32nds(s[0]),
        Op::FcosTableU6 => |_, s| approx::cos_32nds(s[0]),
        _ => return None,
    })
}
