//! A result, and how much of it is defined.

use super::number::{F16, F32};

/// How exactly the bits of a result, or of half of it, are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// All bits are known.
    Exact,
    /// The result is NaN. IEEE 754 leaves its sign and payload open, and no source describes the hardware's.
    Nan,
    /// The result is zero of either sign.
    Zero,
    /// The result is an approximation within 1e-6 of the value. The limit is relative, but absolute below one if `flat`
    /// is set.
    Near {
        /// Set for tables of values around zero.
        flat: bool,
    },
    /// The result is unknown.
    Free,
}

/// 32 bits, and what is known about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// One 32-bit piece.
    Word(u32, Check),
    /// Two halves, low half first.
    Halves([(u16, Check); 2]),
}

impl Value {
    pub const FREE: Self = Self::Word(0, Check::Free);

    pub fn exact(bits: u32) -> Self {
        Self::Word(bits, Check::Exact)
    }

    /// Returns the bits if all of them are known.
    pub fn known(self) -> Option<u32> {
        match self {
            Self::Word(bits, Check::Exact) => Some(bits),
            Self::Halves([(low, Check::Exact), (high, Check::Exact)]) => Some(u32::from(low) | u32::from(high) << 16),
            _ => None,
        }
    }

    /// Returns one half of the value.
    pub fn half(self, high: bool) -> (u16, Check) {
        match self {
            Self::Word(bits, Check::Exact) => (if high { bits >> 16 } else { bits } as u16, Check::Exact),
            Self::Word(..) => (0, Check::Free),
            Self::Halves(halves) => halves[usize::from(high)],
        }
    }

    /// Returns the value with one half from another value.
    pub fn with_half(self, from: Self, high: bool) -> Self {
        if high {
            Self::Halves([self.half(false), from.half(true)])
        } else {
            Self::Halves([from.half(false), self.half(true)])
        }
    }

    /// Returns whether this result allows the bits `got`.
    pub fn allows(self, got: u32) -> bool {
        match self {
            Self::Word(_, Check::Free) => true,
            Self::Word(bits, Check::Exact) => bits == got,
            Self::Word(_, Check::Nan) => F32.is_nan(got),
            Self::Word(_, Check::Zero) => got & !F32.sign() == 0,
            Self::Word(bits, Check::Near { flat }) => {
                let (want, got) = (f64::from(f32::from_bits(bits)), f64::from(f32::from_bits(got)));
                let scale = if flat { want.abs().max(1.0) } else { want.abs() };
                want == got || (want - got).abs() <= 1e-6 * scale
            }
            Self::Halves(halves) => halves.iter().zip([got, got >> 16]).all(|(half, got)| {
                let got = got & 0xffff;
                match *half {
                    (_, Check::Free) => true,
                    (bits, Check::Exact) => u32::from(bits) == got,
                    (_, Check::Nan) => F16.is_nan(got),
                    (_, Check::Zero) => got & !F16.sign() == 0,
                    // A half has less precision than the approximation, so one unit in the last place is allowed.
                    (bits, Check::Near { .. }) => u32::from(bits).abs_diff(got) <= 1,
                }
            }),
        }
    }
}

#[test]
fn oracle_value_accepts_unspecified_results() {
    assert!(Value::exact(5).allows(5) && !Value::exact(5).allows(4));
    assert!(Value::Word(0, Check::Nan).allows(0xffc0_0001) && !Value::Word(0, Check::Nan).allows(0xff80_0000));
    let near = Value::Word(1f32.to_bits(), Check::Near { flat: false });
    assert!(near.allows(1.000_000_8f32.to_bits()) && !near.allows(1.000_002f32.to_bits()));
    let mixed = Value::Halves([(1, Check::Exact), (0, Check::Nan)]);
    assert!(mixed.allows(0x7e00_0001) && !mixed.allows(0x7e00_0002) && !mixed.allows(0x7c00_0001));
    assert_eq!(
        Value::exact(0x1234_5678)
            .with_half(Value::exact(0xabcd_ef01), true)
            .known(),
        Some(0xabcd_5678)
    );
}
