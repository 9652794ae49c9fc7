//! Conversions between numbers in memory and in registers, correctly rounded, in integer arithmetic.
//!
//! Rounding, in one place:
//!
//! - unorm and snorm to float: the quotient `value / greatest`, rounded to nearest, ties to even. The least snorm value
//!   and the one above it are both -1.
//! - float to unorm and snorm: clamped to the range, NaN is 0, multiplied exactly, rounded to nearest, ties to even.
//! - floats of 16, 11 and 10 bits to `f32`: exact. Back: rounded to nearest, ties to even. A value too large for 16
//!   bits becomes infinity. A value too large for 11 and 10 bits becomes the greatest finite value
//!   (`EXT_packed_float`), and a negative value becomes 0 there.
//! - shared exponent (`EXT_texture_shared_exponent`): decoding is exact, encoding the extension's algorithm.
//! - integers to narrower integers: saturated. Integers to floats: rounded to nearest, ties to even.

/// Returns `2^exponent`, for exponents from -126 to 127.
fn power(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127).clamp(1, 254) as u32) << 23)
}

/// Returns `value / greatest` rounded to nearest, ties to even; at most 1.
fn ratio(value: u32, greatest: u32) -> f32 {
    if value >= greatest {
        return if greatest == 0 { 0.0 } else { 1.0 };
    }
    if greatest < 1 << 24 {
        // Both are exact in single precision, so a single division rounds correctly.
        return value as f32 / greatest as f32;
    }
    if value == 0 {
        return 0.0;
    }
    // 64 fractional bits; the remainder only breaks ties.
    let wide = u128::from(value) << 64;
    let (quotient, rest) = ((wide / u128::from(greatest)) as u64, wide % u128::from(greatest) != 0);
    let zeros = quotient.leading_zeros();
    let normal = quotient.wrapping_shl(zeros);
    let (kept, lost) = (normal >> 40, normal & ((1 << 40) - 1));
    let half = 1u64 << 39;
    let up = lost > half || lost == half && (rest || kept & 1 == 1);
    // At most 2^24: exact.
    (kept + u64::from(up)) as f32 * power(-24 - zeros as i32)
}

/// Returns `x * greatest` for x from 0 to 1, rounded to nearest, ties to even.
fn scaled(x: f32, greatest: u32) -> u32 {
    let bits = x.to_bits();
    let (exponent, fraction) = (bits >> 23 & 0xff, bits & 0x7f_ffff);
    let mantissa = u64::from(if exponent == 0 { fraction } else { fraction | 1 << 23 });
    // The value is mantissa * 2^-shift; at most 2^56 before the shift.
    let (product, shift) = (mantissa * u64::from(greatest), 150 - exponent.max(1));
    if shift >= 60 {
        return 0;
    }
    let (kept, lost) = (product >> shift, product & ((1 << shift) - 1));
    let half = 1u64 << (shift - 1);
    let up = lost > half || lost == half && kept & 1 == 1;
    (kept + u64::from(up)) as u32
}

/// Returns the greatest value of `bits` bits, 1 to 32.
fn greatest(bits: u8) -> u32 {
    u32::MAX.wrapping_shr(32 - u32::from(bits.clamp(1, 32)))
}

/// Returns the low `bits` bits of a value, sign-extended, 1 to 32.
#[must_use]
pub fn sign_extend(value: u32, bits: u8) -> i32 {
    let up = 32 - u32::from(bits.clamp(1, 32));
    (value.wrapping_shl(up) as i32).wrapping_shr(up)
}

/// Converts unsigned fixed point of `bits` bits, whose greatest value is 1.
#[must_use]
pub fn unorm_to_f32(value: u32, bits: u8) -> f32 {
    ratio(value & greatest(bits), greatest(bits))
}

/// Converts signed fixed point of `bits` bits (2 to 32), whose greatest value is 1.
#[must_use]
pub fn snorm_to_f32(value: u32, bits: u8) -> f32 {
    let value = sign_extend(value, bits);
    let size = ratio(value.unsigned_abs(), greatest(bits) >> 1);
    if value < 0 { -size } else { size }
}

/// Returns the nearest unsigned fixed-point number of `bits` bits.
#[must_use]
pub fn f32_to_unorm(x: f32, bits: u8) -> u32 {
    if x.is_nan() || x <= 0.0 {
        0
    } else {
        scaled(x.min(1.0), greatest(bits))
    }
}

/// Returns the nearest signed fixed-point number of `bits` bits (2 to 32), in the low bits.
#[must_use]
pub fn f32_to_snorm(x: f32, bits: u8) -> u32 {
    if x.is_nan() {
        return 0;
    }
    let size = scaled(x.abs().min(1.0), greatest(bits) >> 1);
    let value = if x < 0.0 { size.wrapping_neg() } else { size };
    value & greatest(bits)
}

/// Converts fixed point with 16 fractional bits.
#[must_use]
pub fn fixed_to_f32(value: i32) -> f32 {
    value as f32 * power(-16)
}

/// Converts an unsigned float with 5 bits of exponent and `mantissa` bits of fraction.
fn small_to_f32(value: u32, mantissa: u32) -> f32 {
    let (exponent, fraction) = (value >> mantissa & 31, value & ((1 << mantissa) - 1));
    match exponent {
        0 => fraction as f32 * power(-14 - mantissa as i32),
        31 => f32::from_bits(0xff << 23 | fraction << (23 - mantissa)),
        e => f32::from_bits((e + 112) << 23 | fraction << (23 - mantissa)),
    }
}

/// Converts the magnitude of a number to a float with 5 bits of exponent and `mantissa` bits of fraction.
fn f32_to_small(x: f32, mantissa: u32) -> u32 {
    let bits = x.to_bits() & 0x7fff_ffff;
    let infinity = 31 << mantissa;
    if bits > 0xff << 23 {
        // A quiet NaN with as much of its payload as fits.
        return infinity | 1 << (mantissa - 1) | (bits & 0x7f_ffff) >> (23 - mantissa);
    }
    let exponent = (bits >> 23) as i32 - 112;
    if exponent >= 31 {
        return infinity;
    }
    // A subnormal single-precision number is far below the smallest of these floats.
    let full = u64::from(bits & 0x7f_ffff) | u64::from(bits >> 23 > 0) << 23;
    let shift = 23 - mantissa + (1 - exponent).max(0) as u32;
    if shift > 40 {
        return 0;
    }
    let (kept, lost) = ((full >> shift) as u32, full & ((1 << shift) - 1));
    let half = 1u64 << (shift - 1);
    let up = lost > half || lost == half && kept & 1 == 1;
    // The hidden bit adds one to the exponent, and so does a carry out of the fraction.
    let base = ((exponent - 1).max(0) as u32) << mantissa;
    (base + kept + u32::from(up)).min(infinity)
}

/// Converts from IEEE half precision. Signalling NaNs stay so; the crate `half` would make them quiet.
#[must_use]
pub fn f16_to_f32(half: u16) -> f32 {
    let size = small_to_f32(u32::from(half & 0x7fff), 10);
    if half >> 15 == 1 { -size } else { size }
}

/// Converts to IEEE half precision, rounded to nearest, ties to even.
#[must_use]
pub fn f32_to_f16(x: f32) -> u16 {
    (f32_to_small(x, 10) | x.to_bits() >> 31 << 15) as u16
}

fn f32_to_unsigned_small(x: f32, mantissa: u32) -> u32 {
    if x.is_sign_negative() && !x.is_nan() {
        return 0;
    }
    let small = f32_to_small(x, mantissa);
    let infinity = 31 << mantissa;
    if small == infinity && x.is_finite() {
        infinity - 1
    } else {
        small
    }
}

/// Converts three floats of 11, 11 and 10 bits, starting with the lowest bit.
#[must_use]
pub fn r11g11b10_to_f32(word: u32) -> [f32; 3] {
    [
        small_to_f32(word & 0x7ff, 6),
        small_to_f32(word >> 11 & 0x7ff, 6),
        small_to_f32(word >> 22, 5),
    ]
}

/// Returns the nearest floats of 11, 11 and 10 bits.
#[must_use]
pub fn f32_to_r11g11b10(c: [f32; 3]) -> u32 {
    f32_to_unsigned_small(c[0], 6) | f32_to_unsigned_small(c[1], 6) << 11 | f32_to_unsigned_small(c[2], 5) << 22
}

/// Converts three mantissas of 9 bits with a shared exponent of 5 bits and bias 15.
#[must_use]
pub fn rgb9e5_to_f32(word: u32) -> [f32; 3] {
    let scale = power((word >> 27) as i32 - 24);
    [0, 9, 18].map(|at| (word >> at & 0x1ff) as f32 * scale)
}

/// Encodes with a shared exponent: the extension's algorithm, in exact arithmetic.
#[must_use]
pub fn f32_to_rgb9e5(c: [f32; 3]) -> u32 {
    const GREATEST: f32 = 65_408.0;
    let c = c.map(|x| if x > 0.0 { x.min(GREATEST) } else { 0.0 });
    let max = c[0].max(c[1]).max(c[2]);
    let log = (max.to_bits() >> 23) as i32 - 127;
    let mut exponent = log.max(-16) + 16;
    let mantissa = |x: f32, exponent: i32| {
        let scaled = f64::from(x) * f64::from(power(24 - exponent));
        (scaled + 0.5).floor() as u32
    };
    if mantissa(max, exponent) == 512 {
        exponent += 1;
    }
    let [r, g, b] = c.map(|x| mantissa(x, exponent));
    r | g << 9 | b << 18 | (exponent as u32) << 27
}

#[cfg(test)]
#[path = "number_tests.rs"]
mod tests;
