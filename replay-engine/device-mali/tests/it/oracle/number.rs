//! Exact binary numbers and their rounding to 32-bit and 16-bit formats.
//!
//! This module does not use the host's floating point. A number is a natural number of any length times a power of two.
//! So sums and products are exact, and only the result is rounded.

use bifrost::Value as M;

/// A natural number in 32-bit digits, lowest first, without zero digits at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Natural(Vec<u32>);

impl Natural {
    pub fn new(value: u128) -> Self {
        Self((0..4).map(|n| (value >> (32 * n)) as u32).collect()).trimmed()
    }

    fn trimmed(mut self) -> Self {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    pub fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of bits up to the highest set bit.
    pub fn bits(&self) -> i64 {
        match self.0.last() {
            None => 0,
            Some(top) => 32 * self.0.len() as i64 - i64::from(top.leading_zeros()),
        }
    }

    pub fn bit(&self, n: i64) -> bool {
        n >= 0 && self.0.get((n / 32) as usize).is_some_and(|d| d >> (n % 32) & 1 == 1)
    }

    /// Returns whether any bit below `n` is set.
    pub fn any_below(&self, n: i64) -> bool {
        (0..n.min(self.bits())).any(|k| self.bit(k))
    }

    pub fn shifted_left(&self, by: i64) -> Self {
        let mut digits = vec![0; (by / 32) as usize];
        let mut carry = 0u64;
        for d in &self.0 {
            let v = u64::from(*d) << (by % 32) | carry;
            digits.push(v as u32);
            carry = v >> 32;
        }
        digits.push(carry as u32);
        Self(digits).trimmed()
    }

    /// Returns up to 64 bits from bit `n` on.
    pub fn word_at(&self, n: i64) -> u64 {
        (0..64).filter(|k| self.bit(n + k)).map(|k| 1u64 << k).sum()
    }

    fn plus(&self, other: &Self) -> Self {
        let mut digits = Vec::new();
        let mut carry = 0u64;
        for n in 0..=self.0.len().max(other.0.len()) {
            let digit = |x: &Self| u64::from(x.0.get(n).copied().unwrap_or(0));
            let v = digit(self) + digit(other) + carry;
            digits.push(v as u32);
            carry = v >> 32;
        }
        Self(digits).trimmed()
    }

    /// Returns the difference and whether it is negative.
    fn minus(&self, other: &Self) -> (bool, Self) {
        let less = (self.bits(), self.0.iter().rev().collect::<Vec<_>>())
            < (other.bits(), other.0.iter().rev().collect::<Vec<_>>());
        let (big, small) = if less { (other, self) } else { (self, other) };
        let mut digits = Vec::new();
        let mut borrow = 0i64;
        for n in 0..big.0.len() {
            let digit = |x: &Self| i64::from(x.0.get(n).copied().unwrap_or(0));
            let v = digit(big) - digit(small) - borrow;
            borrow = i64::from(v < 0);
            digits.push(v as u32);
        }
        (less, Self(digits).trimmed())
    }
}

/// An IEEE 754 format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Number of fraction bits.
    pub fraction: u32,
    /// Number of exponent bits.
    pub exponent: u32,
}

pub const F32: Format = Format {
    fraction: 23,
    exponent: 8,
};
pub const F16: Format = Format {
    fraction: 10,
    exponent: 5,
};

impl Format {
    pub fn sign(self) -> u32 {
        1 << (self.fraction + self.exponent)
    }

    pub fn infinity(self) -> u32 {
        ((1 << self.exponent) - 1) << self.fraction
    }

    pub fn quiet_nan(self) -> u32 {
        self.infinity() | 1 << (self.fraction - 1)
    }

    pub fn one(self) -> u32 {
        ((1 << (self.exponent - 1)) - 1) << self.fraction
    }

    /// Returns the power of two of the lowest bit of the smallest number.
    fn lowest(self) -> i64 {
        2 - (1 << (self.exponent - 1)) - i64::from(self.fraction)
    }

    pub fn is_nan(self, bits: u32) -> bool {
        bits & !self.sign() > self.infinity()
    }

    pub fn is_denormal(self, bits: u32) -> bool {
        let fraction = bits & !self.sign();
        fraction != 0 && fraction < 1 << self.fraction
    }
}

/// The value of a float.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Number {
    Nan,
    Infinite {
        negative: bool,
    },
    /// The value is `magnitude` times two to the power of `unit`. Zero also has a sign.
    Finite {
        negative: bool,
        magnitude: Natural,
        unit: i64,
    },
}

impl Number {
    pub fn of(format: Format, bits: u32) -> Self {
        let negative = bits & format.sign() != 0;
        let rest = bits & !format.sign();
        if rest > format.infinity() {
            return Self::Nan;
        }
        if rest == format.infinity() {
            return Self::Infinite { negative };
        }
        let field = rest >> format.fraction;
        let fraction = rest & ((1 << format.fraction) - 1);
        let hidden = if field == 0 { 0 } else { 1 << format.fraction };
        Self::Finite {
            negative,
            magnitude: Natural::new(u128::from(fraction | hidden)),
            unit: format.lowest() + i64::from(field.max(1)) - 1,
        }
    }

    pub fn integer(value: i64) -> Self {
        Self::Finite {
            negative: value < 0,
            magnitude: Natural::new(u128::from(value.unsigned_abs())),
            unit: 0,
        }
    }

    pub fn is_nan(&self) -> bool {
        *self == Self::Nan
    }

    pub fn is_zero(&self) -> bool {
        matches!(self, Self::Finite { magnitude, .. } if magnitude.is_zero())
    }

    pub fn is_negative(&self) -> bool {
        matches!(
            self,
            Self::Infinite { negative: true } | Self::Finite { negative: true, .. }
        )
    }

    pub fn with_sign(self, sign: bool) -> Self {
        match self {
            Self::Nan => Self::Nan,
            Self::Infinite { .. } => Self::Infinite { negative: sign },
            Self::Finite { magnitude, unit, .. } => Self::Finite {
                negative: sign,
                magnitude,
                unit,
            },
        }
    }

    pub fn negated(self) -> Self {
        let sign = !self.is_negative();
        self.with_sign(sign)
    }

    pub fn times(&self, other: &Self) -> Self {
        let negative = self.is_negative() != other.is_negative();
        match (self, other) {
            (Self::Nan, _) | (_, Self::Nan) => Self::Nan,
            (Self::Infinite { .. }, x) | (x, Self::Infinite { .. }) => {
                if x.is_zero() {
                    Self::Nan
                } else {
                    Self::Infinite { negative }
                }
            }
            (
                Self::Finite {
                    magnitude: a, unit: ua, ..
                },
                Self::Finite {
                    magnitude: b, unit: ub, ..
                },
            ) => Self::Finite {
                negative,
                magnitude: Natural::new(u128::from(a.word_at(0)) * u128::from(b.word_at(0))),
                unit: ua + ub,
            },
        }
    }

    /// Returns the sum. `down` states whether rounding is towards minus infinity. Then a zero sum of opposites is
    /// negative.
    pub fn plus(&self, other: &Self, down: bool) -> Self {
        match (self, other) {
            (Self::Nan, _) | (_, Self::Nan) => Self::Nan,
            (Self::Infinite { negative: a }, Self::Infinite { negative: b }) if a != b => Self::Nan,
            (Self::Infinite { negative }, _) | (_, Self::Infinite { negative }) => {
                Self::Infinite { negative: *negative }
            }
            (
                Self::Finite {
                    negative: na,
                    magnitude: a,
                    unit: ua,
                },
                Self::Finite {
                    negative: nb,
                    magnitude: b,
                    unit: ub,
                },
            ) => {
                let unit = *ua.min(ub);
                let (a, b) = (a.shifted_left(ua - unit), b.shifted_left(ub - unit));
                let (negative, magnitude) = if na == nb {
                    (*na, a.plus(&b))
                } else {
                    let (less, difference) = a.minus(&b);
                    (less != *na, difference)
                };
                let negative = if magnitude.is_zero() && na != nb {
                    down
                } else {
                    negative
                };
                Self::Finite {
                    negative,
                    magnitude,
                    unit,
                }
            }
        }
    }

    /// Returns the number times two to the power of `by`.
    pub fn scaled(self, by: i64) -> Self {
        match self {
            Self::Finite {
                negative,
                magnitude,
                unit,
            } => Self::Finite {
                negative,
                magnitude,
                unit: unit + by,
            },
            other => other,
        }
    }

    /// Compares two numbers. Returns `None` if one of them is NaN.
    pub fn compare(&self, other: &Self) -> Option<std::cmp::Ordering> {
        use std::cmp::Ordering::{Equal, Greater, Less};
        let rank = |x: &Self| match x {
            Self::Infinite { negative: true } => -1,
            Self::Infinite { negative: false } => 1,
            _ => 0,
        };
        match (self, other) {
            (Self::Nan, _) | (_, Self::Nan) => None,
            (a, b) if rank(a) != 0 || rank(b) != 0 => Some(rank(a).cmp(&rank(b))),
            _ => {
                let difference = self.plus(&other.clone().negated(), false);
                Some(match (difference.is_zero(), difference.is_negative()) {
                    (true, _) => Equal,
                    (_, true) => Less,
                    _ => Greater,
                })
            }
        }
    }

    /// Returns the exponent as `frexp` defines it: the magnitude is at least 1/2 and below 1, times two to its power.
    /// Returns `None` for zero, infinity and NaN.
    pub fn exponent(&self) -> Option<i64> {
        match self {
            Self::Finite { magnitude, unit, .. } if !magnitude.is_zero() => Some(magnitude.bits() + unit),
            _ => None,
        }
    }

    /// Returns the bits of the nearest number in a format and rounding mode. [`Number::Nan`] returns the quiet NaN.
    pub fn rounded(&self, format: Format, mode: M) -> u32 {
        let sign = |negative: bool| if negative { format.sign() } else { 0 };
        let (negative, magnitude, unit) = match self {
            Self::Nan => return format.quiet_nan(),
            Self::Infinite { negative } => return sign(*negative) | format.infinity(),
            Self::Finite {
                negative,
                magnitude,
                unit,
            } => (*negative, magnitude, *unit),
        };
        if magnitude.is_zero() {
            return sign(negative);
        }
        let top = magnitude.bits() - 1 + unit;
        let last = (top - i64::from(format.fraction)).max(format.lowest());
        let cut = last - unit;
        let mut kept = if cut <= 0 {
            magnitude.word_at(0) << -cut
        } else {
            magnitude.word_at(cut)
        };
        let half = cut > 0 && magnitude.bit(cut - 1);
        let below = cut > 0 && magnitude.any_below(cut - 1);
        kept += u64::from(match mode {
            M::Rtz | M::Rto => false,
            M::Rtp => !negative && (half || below),
            M::Rtn => negative && (half || below),
            M::Rtna => half,
            _ => half && (below || kept & 1 == 1),
        });
        if mode == M::Rto && (half || below) {
            kept |= 1;
        }
        // The exponent field of a normal number is one more than the distance of its last bit. The hidden bit adds this
        // one.
        let encoded = (i128::from(last - format.lowest()) << format.fraction) + i128::from(kept);
        let magnitude = if encoded < i128::from(format.infinity()) {
            encoded as u32
        } else {
            let to_infinity = match mode {
                M::Rtz | M::Rto => false,
                M::Rtp => !negative,
                M::Rtn => negative,
                _ => true,
            };
            format.infinity() - u32::from(!to_infinity)
        };
        sign(negative) | magnitude
    }

    /// Returns the nearest integer in the rounding mode, clamped to the bounds. NaN becomes 0.
    pub fn to_integer(&self, mode: M, min: i64, max: i64) -> i64 {
        let (negative, magnitude, unit) = match self {
            Self::Nan => return 0,
            Self::Infinite { negative } => return if *negative { min } else { max },
            Self::Finite {
                negative,
                magnitude,
                unit,
            } => (*negative, magnitude, *unit),
        };
        if magnitude.bits() + unit > 40 {
            return if negative { min } else { max };
        }
        let whole = self.whole(mode, negative, magnitude, unit);
        let signed = if negative { -whole } else { whole };
        signed.clamp(min, max)
    }

    fn whole(&self, mode: M, negative: bool, magnitude: &Natural, unit: i64) -> i64 {
        let kept = if unit >= 0 {
            magnitude.shifted_left(unit).word_at(0)
        } else {
            magnitude.word_at(-unit)
        };
        let (half, below) = (magnitude.bit(-unit - 1), magnitude.any_below(-unit - 1));
        let up = match mode {
            M::Rtz => false,
            M::Rtp => !negative && (half || below),
            M::Rtn => negative && (half || below),
            M::Rtna => half,
            _ => half && (below || kept & 1 == 1),
        };
        kept as i64 + i64::from(up)
    }

    /// Returns the number rounded to an integer. Zero keeps its sign.
    pub fn integral(&self, mode: M) -> Self {
        match self {
            Self::Finite {
                negative,
                magnitude,
                unit,
            } if *unit < 0 => Self::Finite {
                negative: *negative,
                magnitude: Natural::new(self.whole(mode, *negative, magnitude, *unit) as u128),
                unit: 0,
            },
            other => other.clone(),
        }
    }
}

#[test]
fn sums_and_products_are_rounded_once() {
    let n = |x: f32| Number::of(F32, x.to_bits());
    // 1 + 2^-24 is halfway to the next float. The modes round it to even, up or away.
    let half = n(1.0).plus(&n(2f32.powi(-24)), false);
    assert_eq!(half.rounded(F32, M::None), 0x3f80_0000);
    assert_eq!(half.rounded(F32, M::Rtp), 0x3f80_0001);
    assert_eq!(half.rounded(F32, M::Rtna), 0x3f80_0001);
    assert_eq!(half.rounded(F32, M::Rto), 0x3f80_0001);
    assert_eq!(half.rounded(F32, M::Rtn), 0x3f80_0000);
    // A tiny addend decides the rounding of a product that is halfway.
    let tipped = n(16_777_217.0).times(&n(1.0)).plus(&n(f32::from_bits(1)), false);
    assert_eq!(tipped.rounded(F32, M::None), 16_777_216f32.to_bits());
    let product = n(f32::from_bits(0x3f80_0001)).times(&n(f32::from_bits(0x3f80_0001)));
    let exact = f64::from(f32::from_bits(0x3f80_0001)).powi(2) as f32;
    assert_eq!(product.rounded(F32, M::None), exact.to_bits());
    assert_eq!(n(f32::MAX).times(&n(2.0)).rounded(F32, M::None), 0x7f80_0000);
    assert_eq!(n(f32::MAX).times(&n(2.0)).rounded(F32, M::Rtz), 0x7f7f_ffff);
    assert_eq!(n(-f32::MAX).times(&n(2.0)).rounded(F32, M::Rtp), 0xff7f_ffff);
    assert_eq!(n(f32::MIN_POSITIVE).scaled(-23).rounded(F32, M::None), 1);
    assert_eq!(n(f32::MIN_POSITIVE).scaled(-24).rounded(F32, M::None), 0);
    assert_eq!(n(f32::MIN_POSITIVE).scaled(-24).rounded(F32, M::Rtp), 1);
    assert_eq!(n(-0.0).plus(&n(0.0), false).rounded(F32, M::None), 0);
    assert_eq!(n(1.5).plus(&n(-1.5), true).rounded(F32, M::Rtn), 0x8000_0000);
}

#[test]
fn f16_rounding_follows_the_ieee_table() {
    for bits in 0..=0xffffu32 {
        let n = Number::of(F16, bits);
        if !n.is_nan() {
            assert_eq!(n.rounded(F16, M::None), bits);
            let wide = n.rounded(F32, M::None);
            assert_eq!(Number::of(F32, wide).rounded(F16, M::Rtz), bits);
        }
    }
    let n = |x: f32| Number::of(F32, x.to_bits()).rounded(F16, M::None);
    assert_eq!((n(65519.0), n(65520.0)), (0x7bff, 0x7c00));
    assert_eq!((n(2f32.powi(-25)), n(2f32.powi(-25) * 1.001)), (0, 1));
}

#[test]
fn float_to_integer_conversion_rounds_and_saturates() {
    let n = |x: f32| Number::of(F32, x.to_bits());
    let s32 = |x: f32, mode| n(x).to_integer(mode, i64::from(i32::MIN), i64::from(i32::MAX));
    assert_eq!(s32(2.5, M::None), 2);
    assert_eq!(s32(3.5, M::None), 4);
    assert_eq!(s32(-2.5, M::Rtna), -3);
    assert_eq!(s32(-2.5, M::Rtp), -2);
    assert_eq!(s32(-0.1, M::Rtn), -1);
    assert_eq!(s32(3e9, M::Rtz), i64::from(i32::MAX));
    assert_eq!(s32(f32::NEG_INFINITY, M::Rtz), i64::from(i32::MIN));
    assert_eq!(s32(f32::NAN, M::Rtz), 0);
    assert_eq!(n(-0.3).integral(M::None).rounded(F32, M::None), 0x8000_0000);
    assert_eq!(
        n(8_388_609.0).integral(M::Rtp).rounded(F32, M::None),
        8_388_609f32.to_bits()
    );
}
