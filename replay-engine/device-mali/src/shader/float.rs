//! Float arithmetic as the hardware defines it: one rounding in the requested mode, and a single NaN result.
//!
//! Intermediate results before a rounding have 64 bits, and the last bit is set if any bits were cut off (rounding to
//! odd). This is exact enough for a later rounding to 32 or 16 bits, because 53 bits are more than twice 24 plus two.

use super::mods::{Clamp, Round};

/// The only NaN result.
pub(crate) const NAN: u32 = 0x7fc0_0000;
/// The only 16-bit NaN result.
pub(crate) const NAN16: u16 = 0x7e00;

/// Returns the bits of a result. Every NaN becomes [`NAN`], so that the result does not depend on the host.
#[inline(always)]
pub(crate) fn bits(x: f32) -> u32 {
    if x.is_nan() { NAN } else { x.to_bits() }
}

/// Clamps a result to a range. NaN becomes the lower limit.
#[inline(always)]
pub(crate) fn clamp(x: f32, to: Clamp) -> f32 {
    // `max` and `min` return the other operand if one is NaN.
    match to {
        Clamp::None => x,
        Clamp::Positive => {
            if x > 0.0 {
                x
            } else {
                0.0
            }
        }
        Clamp::Signed => {
            if x > -1.0 {
                if x < 1.0 { x } else { 1.0 }
            } else {
                -1.0
            }
        }
        Clamp::Unit => {
            if x > 0.0 {
                if x < 1.0 { x } else { 1.0 }
            } else {
                0.0
            }
        }
    }
}

/// Returns `x + y` rounded to odd: inexact bits are folded into the last bit.
pub(crate) fn odd_sum(x: f64, y: f64) -> f64 {
    let sum = x + y;
    if !sum.is_finite() {
        return sum;
    }
    // The error of the sum is computed exactly (Knuth), from the part of each operand that the sum does not contain.
    let taken = sum - x;
    let rest = (x - (sum - taken)) + (y - taken);
    if rest == 0.0 || sum.to_bits() & 1 == 1 {
        return sum;
    }
    // The sum was rounded to an even neighbour. The exact sum lies in the direction of the remainder.
    let away = (rest > 0.0) == (sum > 0.0);
    let bits = sum.to_bits();
    f64::from_bits(if sum == 0.0 {
        // This cannot happen, because a sum of zero is exact. The case keeps the function total.
        1
    } else if away {
        bits + 1
    } else {
        bits - 1
    })
}

/// Returns the same for a rounding mode. When rounding down, operands that cancel give minus zero.
pub(crate) fn odd_sum_in(x: f64, y: f64, mode: Round) -> f64 {
    let sum = odd_sum(x, y);
    if mode == Round::Down && sum == 0.0 && (x.is_sign_negative() || y.is_sign_negative()) {
        return -0.0;
    }
    sum
}

/// Returns `a * b + c` rounded to odd: inexact bits are folded into the last bit. The product of two 24-bit
/// significands is exact.
pub(crate) fn odd_fma(a: f32, b: f32, c: f32, mode: Round) -> f64 {
    odd_sum_in(f64::from(a) * f64::from(b), f64::from(c), mode)
}

/// Rounds to 32 bits.
pub(crate) fn round32(x: f64, mode: Round) -> f32 {
    let near = x as f32;
    let back = f64::from(near);
    if back == x || x.is_nan() {
        return near;
    }
    let towards_zero = |near: f32| {
        if back.abs() > x.abs() {
            f32::from_bits(near.to_bits() - 1)
        } else {
            near
        }
    };
    match mode {
        Round::Even => near,
        Round::Zero => towards_zero(near),
        Round::Odd => f32::from_bits(towards_zero(near).to_bits() | 1),
        Round::Up if back < x => up(near),
        Round::Down if back > x => -up(-near),
        Round::Up | Round::Down => near,
        Round::Away => {
            // A tie is equally far from the number below and the number above.
            let below = towards_zero(near);
            let above = f32::from_bits(below.to_bits() + 1);
            let middle = (f64::from(below) + f64::from(above)) / 2.0;
            if x == middle { above } else { near }
        }
    }
}

/// Returns the next greater number. `x` is neither NaN nor positive infinity.
fn up(x: f32) -> f32 {
    let b = x.to_bits();
    f32::from_bits(if x == 0.0 {
        1
    } else if b >> 31 == 0 {
        b + 1
    } else {
        b - 1
    })
}

/// Rounds to 16 bits.
pub(crate) fn round16(x: f64, mode: Round) -> u16 {
    if x.is_nan() {
        return NAN16;
    }
    let sign = ((x.to_bits() >> 48) & 0x8000) as u16;
    let x = x.abs();
    // Rounds towards zero first. The bits that are cut off decide the rest.
    let exponent = ((x.to_bits() >> 52) as i32 - 1023).max(-14);
    if x == f64::INFINITY {
        return sign | 0x7c00;
    }
    // Scales to units of the last place. This is exact, because it only changes the exponent.
    let scaled = x * power_of_two(10 - exponent);
    let whole = scaled.trunc();
    let cut = scaled - whole;
    let up = match mode {
        Round::Even => cut > 0.5 || cut == 0.5 && whole % 2.0 == 1.0,
        Round::Away => cut >= 0.5,
        Round::Zero => false,
        Round::Odd => cut > 0.0 && whole % 2.0 == 0.0,
        Round::Up => cut > 0.0 && sign == 0,
        Round::Down => cut > 0.0 && sign != 0,
    };
    if exponent > 15 {
        // Above the greatest finite number, the modes that never round up return that number.
        let stays = match mode {
            Round::Zero | Round::Odd => true,
            Round::Up => sign != 0,
            Round::Down => sign == 0,
            Round::Even | Round::Away => false,
        };
        return sign | if stays { 0x7bff } else { 0x7c00 };
    }
    let units = whole as u32 + u32::from(up);
    // Normal numbers have the eleventh bit set, which adds one to the exponent field.
    let field = (exponent + 14) as u32;
    sign | (field * 1024 + units) as u16
}

/// Converts a 16-bit float to a 32-bit float, exactly. Signalling NaNs stay so, and loops over lanes become vector
/// instructions; neither holds for the crate `half`.
#[inline(always)]
pub(crate) fn widen16(h: u16) -> f32 {
    let h = u32::from(h);
    let (sign, rest) = ((h & 0x8000) << 16, h & 0x7fff);
    // The exponent changes by 112. A product with 2^112 does this for denormals too.
    let finite = f32::from_bits(rest << 13) * f32::from_bits(0x7780_0000);
    let bits = if rest >= 0x7c00 {
        0x7f80_0000 | (rest & 0x3ff) << 13
    } else {
        finite.to_bits()
    };
    f32::from_bits(bits | sign)
}

/// Rounds to an integer.
pub(crate) fn round_whole(x: f64, mode: Round) -> f64 {
    match mode {
        Round::Even => x.round_ties_even(),
        Round::Up => x.ceil(),
        Round::Down => x.floor(),
        Round::Zero => x.trunc(),
        Round::Away => x.round(),
        Round::Odd => {
            let t = x.trunc();
            if t == x || t % 2.0 != 0.0 {
                t
            } else {
                t + 1f64.copysign(x)
            }
        }
    }
}

/// Returns two to a power between -1022 and 1023. Powers out of range are clamped.
fn power_of_two(power: i32) -> f64 {
    f64::from_bits(((power.clamp(-1022, 1023) + 1023) as u64) << 52)
}

/// Returns `x` times a power of two, in 64 bits. `x` is a product and sum of 32-bit floats: from 2^-298 to 2^257. A
/// power of 700 takes all of these out of the 32-bit range but none out of the 64-bit range, so that rounding still
/// sees them.
pub(crate) fn scale(x: f64, power: i32) -> f64 {
    let power = power.clamp(-700, 700);
    // Two steps, so that neither factor leaves the 64-bit range.
    x * power_of_two(power / 2) * power_of_two(power - power / 2)
}

/// Splits a finite number other than 0 into `m` in `[0.5, 1)` and `e`, such that `m * 2^e` is its magnitude.
pub(crate) fn split(x: f32) -> (f64, i32) {
    let x = f64::from(x).abs();
    // Every 32-bit float is a normal number in 64 bits.
    let e = (x.to_bits() >> 52) as i32 - 1022;
    (f64::from_bits(x.to_bits() & !(0x7ff << 52) | 1022 << 52), e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f16_values_round_trip() {
        for h in 0..=u16::MAX {
            let x = widen16(h);
            let back = round16(f64::from(x), Round::Even);
            if x.is_nan() {
                assert_eq!(back, NAN16);
            } else {
                assert_eq!(back, h);
                for mode in [Round::Up, Round::Down, Round::Zero, Round::Away, Round::Odd] {
                    assert_eq!(round16(f64::from(x), mode), h, "{mode:?}");
                }
            }
        }
    }

    #[test]
    fn modes_choose_between_neighbours() {
        let between = 1.0 + 2f64.powi(-24);
        assert_eq!(round32(between, Round::Even), 1.0);
        assert_eq!(round32(between, Round::Up), 1.0 + f32::EPSILON);
        assert_eq!(round32(between, Round::Away), 1.0 + f32::EPSILON);
        assert_eq!(round32(-between, Round::Down), -1.0 - f32::EPSILON);
        assert_eq!(round32(-between, Round::Zero), -1.0);
        assert_eq!(round32(between, Round::Odd), 1.0 + f32::EPSILON);
        assert_eq!(round32(1e300, Round::Zero), f32::MAX);
        assert_eq!(round32(1e300, Round::Down), f32::MAX);
        assert_eq!(round32(-1e300, Round::Up), f32::MIN);
        assert_eq!(round32(1e-300, Round::Up), f32::from_bits(1));
        assert_eq!(round16(65520.0, Round::Even), 0x7c00);
        assert_eq!(round16(65519.0, Round::Even), 0x7bff);
        assert_eq!(round16(65520.0, Round::Zero), 0x7bff);
        assert_eq!(round16(2f64.powi(-25), Round::Even), 0);
        assert_eq!(round16(2f64.powi(-25) * 1.01, Round::Even), 1);
        assert_eq!(round16(-1e-30, Round::Down), 0x8001);
    }

    #[test]
    fn a_fused_sum_is_rounded_once() {
        // The product is exactly 1 + 2^-23 + 2^-46. Adding -2^-60 changes only the last bit.
        let a = 1.0 + 2f32.powi(-23);
        for (a, b, c) in [
            (a, a, -1.0),
            (a, a, 2f32.powi(-60)),
            (3.0, 5.0, -15.0),
            (1e30, 1e-30, 1e-38),
        ] {
            assert_eq!(round32(odd_fma(a, b, c, Round::Even), Round::Even), a.mul_add(b, c));
        }
    }
}
