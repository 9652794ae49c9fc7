//! Numbers in shader registers: register formats, conversion and packing.

use super::format::Class;
use super::number::{f16_to_f32, f32_to_f16};
use super::refusal::Refusal;
use super::texel::Texel;
use num_enum::TryFromPrimitive;

/// Format of the components in registers. Two 16-bit components share a register, with the first in the low half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, TryFromPrimitive)]
#[repr(u32)]
pub enum RegisterFormat {
    /// Half precision.
    F16 = 0,
    /// Single precision.
    F32 = 1,
    /// Signed, 32 bits.
    S32 = 2,
    /// Unsigned, 32 bits.
    U32 = 3,
    /// Signed, 16 bits.
    S16 = 4,
    /// Unsigned, 16 bits.
    U16 = 5,
}

impl RegisterFormat {
    /// Converts the number in instructions and conversion descriptors.
    ///
    /// # Errors
    /// When the number is another one: formats of 64 bits are not implemented.
    pub fn from_number(n: u32) -> Result<Self, Refusal> {
        Self::try_from(n).map_err(|_| Refusal::Value {
            field: "a register format",
            value: n,
        })
    }

    /// Returns the number of the format, the inverse of [`RegisterFormat::from_number`].
    #[must_use]
    pub fn number(self) -> u32 {
        self as u32
    }

    /// Returns the format that holds this class without a conversion, which `auto` selects.
    #[must_use]
    pub fn natural(class: Class) -> Self {
        match class {
            Class::Float => Self::F32,
            Class::Sint => Self::S32,
            Class::Uint => Self::U32,
        }
    }

    /// Returns whether two components share a register.
    #[must_use]
    pub fn is_half(self) -> bool {
        matches!(self, Self::F16 | Self::S16 | Self::U16)
    }

    /// Returns how many registers this many components need.
    #[must_use]
    pub fn registers(self, components: u32) -> u32 {
        if self.is_half() {
            components.div_ceil(2)
        } else {
            components
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16 registers",
            Self::F32 => "f32 registers",
            Self::S32 => "s32 registers",
            Self::U32 => "u32 registers",
            Self::S16 => "s16 registers",
            Self::U16 => "u16 registers",
        }
    }

    /// Converts a texel to four components in this format, each in the low bits of a word. Integers become floats by
    /// value (the driver calls these scaled formats). Integers of another sign or width are saturated.
    ///
    /// # Errors
    /// When floats are converted to integers: no API has this, and the hardware's behaviour is unknown.
    pub fn convert(self, texel: &Texel) -> Result<[u32; 4], Refusal> {
        let wrong = Refusal::Conversion {
            from: "a format of real numbers",
            to: self.name(),
        };
        let wide = |bits: u32| match texel.class {
            Class::Sint => i64::from(bits as i32),
            _ => i64::from(bits),
        };
        let clamped = |low: i64, high: i64| texel.bits.map(|b| wide(b).clamp(low, high) as u32);
        match (self, texel.class) {
            (Self::F32, Class::Float) => Ok(texel.bits),
            (Self::F16, Class::Float) => Ok(texel.as_floats().map(|x| u32::from(f32_to_f16(x)))),
            // An integer that single precision cannot hold is infinite in half precision, so there is no double
            // rounding.
            (Self::F16, _) => Ok(texel.bits.map(|b| u32::from(f32_to_f16(wide(b) as f32)))),
            (Self::F32, _) => Ok(texel.bits.map(|b| (wide(b) as f32).to_bits())),
            (_, Class::Float) => Err(wrong),
            (Self::S32, _) => Ok(clamped(i64::from(i32::MIN), i64::from(i32::MAX))),
            (Self::U32, _) => Ok(clamped(0, i64::from(u32::MAX))),
            (Self::S16, _) => Ok(clamped(i64::from(i16::MIN), i64::from(i16::MAX)).map(|v| v & 0xffff)),
            (Self::U16, _) => Ok(clamped(0, i64::from(u16::MAX))),
        }
    }

    /// Does the inverse: converts four components in the low bits of words to numbers of the class in memory.
    ///
    /// # Errors
    /// When floats and integers are converted to each other.
    pub fn convert_back(self, values: [u32; 4], class: Class) -> Result<Texel, Refusal> {
        let from = match self {
            Self::F16 => Texel::floats(values.map(|v| f16_to_f32(v as u16))),
            Self::F32 => Texel {
                class: Class::Float,
                bits: values,
            },
            Self::S32 => Texel {
                class: Class::Sint,
                bits: values,
            },
            Self::U32 => Texel {
                class: Class::Uint,
                bits: values,
            },
            Self::S16 => Texel {
                class: Class::Sint,
                bits: values.map(|v| i32::from(v as u16 as i16) as u32),
            },
            Self::U16 => Texel {
                class: Class::Uint,
                bits: values.map(|v| v & 0xffff),
            },
        };
        match (from.class, class) {
            (a, b) if a == b => Ok(from),
            (Class::Sint | Class::Uint, Class::Sint | Class::Uint) => Ok(Texel {
                class,
                bits: Self::natural(class).convert(&from)?,
            }),
            (Class::Float, _) => Err(Refusal::Conversion {
                from: self.name(),
                to: "a format of integers",
            }),
            _ => Err(Refusal::Conversion {
                from: self.name(),
                to: "a format of real numbers",
            }),
        }
    }

    /// Packs components into registers. Of the returned registers, the first [`RegisterFormat::registers`] are used.
    #[must_use]
    pub fn pack(self, values: [u32; 4]) -> [u32; 4] {
        if self.is_half() {
            let [a, b, c, d] = values.map(|v| v & 0xffff);
            [a | b << 16, c | d << 16, 0, 0]
        } else {
            values
        }
    }

    /// Unpacks registers, the inverse of [`RegisterFormat::pack`].
    #[must_use]
    pub fn unpack(self, registers: [u32; 4]) -> [u32; 4] {
        if self.is_half() {
            let [a, b, ..] = registers;
            [a & 0xffff, a >> 16, b & 0xffff, b >> 16]
        } else {
            registers
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [RegisterFormat; 6] = [
        RegisterFormat::F16,
        RegisterFormat::F32,
        RegisterFormat::S32,
        RegisterFormat::U32,
        RegisterFormat::S16,
        RegisterFormat::U16,
    ];

    #[test]
    fn register_format_numbers_and_packing_round_trip() {
        for (n, f) in ALL.into_iter().enumerate() {
            assert_eq!(f.number() as usize, n);
            assert_eq!(RegisterFormat::from_number(n as u32), Ok(f));
            let v = [1, 2, 0xfffe, 4];
            assert_eq!(f.unpack(f.pack(v)), v);
        }
        assert!(RegisterFormat::from_number(6).is_err());
        assert_eq!(RegisterFormat::F16.registers(3), 2);
    }

    #[test]
    fn integers_are_saturated_and_become_floats_by_value() {
        let s = Texel {
            class: Class::Sint,
            bits: [-1i32 as u32, 70_000, -70_000i32 as u32, 5],
        };
        assert_eq!(RegisterFormat::U32.convert(&s), Ok([0, 70_000, 0, 5]));
        assert_eq!(RegisterFormat::S16.convert(&s), Ok([0xffff, 0x7fff, 0x8000, 5]));
        assert_eq!(RegisterFormat::U16.convert(&s), Ok([0, 0xffff, 0, 5]));
        let f = RegisterFormat::F32.convert(&s).unwrap().map(f32::from_bits);
        assert_eq!(f, [-1.0, 70_000.0, -70_000.0, 5.0]);
        let h = RegisterFormat::F16.convert(&s).unwrap();
        assert_eq!(h, [0xbc00, 0x7c00, 0xfc00, 0x4500]);
        let u = Texel {
            class: Class::Uint,
            bits: [u32::MAX, 0, 1, 2],
        };
        assert_eq!(RegisterFormat::S32.convert(&u), Ok([i32::MAX as u32, 0, 1, 2]));
    }

    #[test]
    fn floats_are_never_converted_to_integers() {
        let t = Texel::floats([1.0; 4]);
        for f in [
            RegisterFormat::S32,
            RegisterFormat::U32,
            RegisterFormat::S16,
            RegisterFormat::U16,
        ] {
            assert!(f.convert(&t).is_err());
            assert!(f.convert_back([0; 4], Class::Float).is_err());
        }
        assert!(RegisterFormat::F16.convert_back([0; 4], Class::Uint).is_err());
        let back = RegisterFormat::S16
            .convert_back([0xffff, 1, 2, 3], Class::Uint)
            .unwrap();
        assert_eq!(back.bits, [0, 1, 2, 3]);
    }
}
