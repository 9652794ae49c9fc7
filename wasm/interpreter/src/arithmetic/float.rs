//! Floating-point functions, with the NaNs of NVIDIA's hardware.

/// NaN of all `f32` arithmetic.
const NAN_32: u64 = 0x7fff_ffff;
/// NaN that `f64` arithmetic makes of numbers. It has a sign: a translator must not expect the positive one.
const NAN_64: u64 = 0xfff8_0000_0000_0000;
/// Bit that makes a NaN a quiet one.
const QUIET_64: u64 = 1 << 51;

fn f32(a: u64) -> f32 {
    f32::from_bits(a as u32)
}

fn f64(a: u64) -> f64 {
    f64::from_bits(a)
}

fn bits_32(value: f32) -> u64 {
    if value.is_nan() {
        NAN_32
    } else {
        u64::from(value.to_bits())
    }
}

/// Returns the bits of a result; a NaN is the first operand that is one, made quiet.
fn bits_64(value: f64, operands: [u64; 2]) -> u64 {
    if !value.is_nan() {
        return value.to_bits();
    }
    let first = operands.into_iter().find(|a| f64(*a).is_nan());
    first.map_or(NAN_64, |a| a | QUIET_64)
}

pub fn add_f32(a: u64, b: u64) -> u64 {
    bits_32(f32(a) + f32(b))
}

pub fn sub_f32(a: u64, b: u64) -> u64 {
    bits_32(f32(a) - f32(b))
}

pub fn mul_f32(a: u64, b: u64) -> u64 {
    bits_32(f32(a) * f32(b))
}

pub fn div_f32(a: u64, b: u64) -> u64 {
    bits_32(f32(a) / f32(b))
}

pub fn sqrt_f32(a: u64) -> u64 {
    bits_32(f32(a).sqrt())
}

pub fn add_f64(a: u64, b: u64) -> u64 {
    bits_64(f64(a) + f64(b), [a, b])
}

pub fn sub_f64(a: u64, b: u64) -> u64 {
    bits_64(f64(a) - f64(b), [a, b])
}

pub fn mul_f64(a: u64, b: u64) -> u64 {
    bits_64(f64(a) * f64(b), [a, b])
}

pub fn div_f64(a: u64, b: u64) -> u64 {
    bits_64(f64(a) / f64(b), [a, b])
}

pub fn sqrt_f64(a: u64) -> u64 {
    bits_64(f64(a).sqrt(), [a, a])
}

/// Returns the smaller number, with -0 below +0; the result is a NaN if an operand is one.
pub fn min_nan_f32(a: u64, b: u64) -> u64 {
    let (x, y) = (f32(a), f32(b));
    if x.is_nan() || y.is_nan() {
        NAN_32
    } else if x == y {
        // Equal numbers have equal bits, except zeros: the one with the sign is smaller.
        a | b
    } else if x < y {
        a
    } else {
        b
    }
}

/// Returns the larger number, with +0 above -0; the result is a NaN if an operand is one.
pub fn max_nan_f32(a: u64, b: u64) -> u64 {
    let (x, y) = (f32(a), f32(b));
    if x.is_nan() || y.is_nan() {
        NAN_32
    } else if x == y {
        a & b
    } else if x > y {
        a
    } else {
        b
    }
}

/// Returns the smaller number, with -0 below +0; a NaN loses against a number.
pub fn min_f64(a: u64, b: u64) -> u64 {
    let (x, y) = (f64(a), f64(b));
    match (x.is_nan(), y.is_nan()) {
        (true, true) => NAN_64,
        (true, false) => b,
        (false, true) => a,
        (false, false) if x == y => a | b,
        (false, false) if x < y => a,
        (false, false) => b,
    }
}

/// Returns the larger number, with +0 above -0; a NaN loses against a number.
pub fn max_f64(a: u64, b: u64) -> u64 {
    let (x, y) = (f64(a), f64(b));
    match (x.is_nan(), y.is_nan()) {
        (true, true) => NAN_64,
        (true, false) => b,
        (false, true) => a,
        (false, false) if x == y => a & b,
        (false, false) if x > y => a,
        (false, false) => b,
    }
}
