//! Values of the operand stack: registers, constants, locals and predicates, with what is known of their NaN bits.

use crate::values::ValueType;

/// What the bits of a float may be when it is a NaN. The order is that of joining.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NanBits {
    /// No NaN, or the canonical one: canonicalization changes nothing.
    Plain,
    /// 32-bit arithmetic of the hardware made it: a NaN is 0x7fffffff.
    Positive,
    /// Arithmetic made it: a NaN has any bits.
    Arithmetic,
    /// The program made the bits: they must stay.
    Exact,
}

impl NanBits {
    /// Returns true if a NaN may have bits that differ from those of the specification.
    pub fn needs_canonical(self) -> bool {
        matches!(self, Self::Positive | Self::Arithmetic)
    }
}

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// A register that is written once, or belongs to a label.
    Register(u32),
    /// The register of a local, as long as nothing writes the local.
    Local(u32),
    /// A constant.
    Constant(u64),
    /// A predicate register: 0 or 1 as i32, or its negation.
    Predicate { register: u32, negated: bool },
}

/// A value of the operand stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub ty: ValueType,
    pub operand: Operand,
    pub bits: NanBits,
}

impl Value {
    /// Returns a value in a register.
    pub fn register(ty: ValueType, register: u32, bits: NanBits) -> Self {
        Self {
            ty,
            operand: Operand::Register(register),
            bits,
        }
    }

    /// Returns a constant.
    pub fn constant(ty: ValueType, value: u64) -> Self {
        let nan = match ty {
            ValueType::F32 => value & 0x7fff_ffff > 0x7f80_0000 && value != u64::from(CANONICAL_F32),
            ValueType::F64 => value & (u64::MAX >> 1) > 0x7ff0_0000_0000_0000 && value != CANONICAL_F64,
            ValueType::I32 | ValueType::I64 => false,
        };
        let bits = if nan { NanBits::Exact } else { NanBits::Plain };
        Self {
            ty,
            operand: Operand::Constant(value),
            bits,
        }
    }

    /// Returns the value of an i32 constant.
    pub fn word_constant(&self) -> Option<u32> {
        match self.operand {
            Operand::Constant(value) if !self.ty.is_wide() => u32::try_from(value).ok(),
            _ => None,
        }
    }
}

/// The canonical NaN of 32 bits.
pub(crate) const CANONICAL_F32: u32 = 0x7fc0_0000;
/// The canonical NaN of 64 bits.
pub(crate) const CANONICAL_F64: u64 = 0x7ff8_0000_0000_0000;
