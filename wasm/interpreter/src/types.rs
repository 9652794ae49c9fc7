//! Types of registers and instructions, and state spaces.

/// A PTX type of at most 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A predicate.
    Pred,
    /// Untyped bits.
    Bits(u8),
    /// Unsigned integer.
    Unsigned(u8),
    /// Signed integer.
    Signed(u8),
    /// Floating-point number.
    Float(u8),
}

pub const B32: Type = Type::Bits(4);
pub const B64: Type = Type::Bits(8);
pub const U32: Type = Type::Unsigned(4);
pub const U64: Type = Type::Unsigned(8);
pub const S32: Type = Type::Signed(4);
pub const S64: Type = Type::Signed(8);
pub const F32: Type = Type::Float(4);
pub const F64: Type = Type::Float(8);

impl Type {
    /// Returns the type with a name without its point, such as `u32`.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "pred" => Self::Pred,
            "b8" => Self::Bits(1),
            "b16" => Self::Bits(2),
            "b32" => B32,
            "b64" => B64,
            "u8" => Self::Unsigned(1),
            "u16" => Self::Unsigned(2),
            "u32" => U32,
            "u64" => U64,
            "s8" => Self::Signed(1),
            "s16" => Self::Signed(2),
            "s32" => S32,
            "s64" => S64,
            "f32" => F32,
            "f64" => F64,
            _ => return None,
        })
    }

    /// Returns the size, bytes. A predicate counts as one byte.
    pub fn bytes(self) -> u8 {
        match self {
            Self::Pred => 1,
            Self::Bits(n) | Self::Unsigned(n) | Self::Signed(n) | Self::Float(n) => n,
        }
    }

    /// Returns the size, bits.
    pub fn bits(self) -> u32 {
        u32::from(self.bytes()) * 8
    }

    pub fn is_signed(self) -> bool {
        matches!(self, Self::Signed(_))
    }

    pub fn is_float(self) -> bool {
        matches!(self, Self::Float(_))
    }

    /// Returns whether an operand of an instruction of this type may be a register of type `register`: same size, and
    /// not a float where the other is an integer.
    pub fn accepts(self, register: Self) -> bool {
        self.bytes() == register.bytes() && self.is_compatible(register)
    }

    /// Returns whether a register of type `register` may hold a value of this type: conversions, loads and stores allow
    /// registers that are wider than the value. A float needs a register of its own size.
    pub fn fits_into(self, register: Self) -> bool {
        let size = if self.is_float() {
            register.bytes() == self.bytes()
        } else {
            register.bytes() >= self.bytes()
        };
        size && self.is_compatible(register)
    }

    fn is_compatible(self, other: Self) -> bool {
        let pred = (self == Self::Pred) == (other == Self::Pred);
        let bits = matches!(self, Self::Bits(_)) || matches!(other, Self::Bits(_));
        pred && (bits || self.is_float() == other.is_float())
    }
}

/// State space of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Memory of the device.
    Global,
    /// Constant variables of the module.
    Const,
    /// Arrays of a call of a function.
    Local,
}
