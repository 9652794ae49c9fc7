//! Numbers of the items of a program, and types of values.

/// Number of an instance in its program, from 0 in the order of addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceId(pub u32);

/// Number of a function in its program: host functions and functions of all instances, in the order of addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// Number of a memory in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemoryId(pub u32);

/// Number of a table in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u32);

/// Number of a global in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GlobalId(pub u32);

/// Type of a value. Arguments and results are bits in 64-bit slots: 32-bit values use the low half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// Integer of 32 bits.
    I32,
    /// Integer of 64 bits.
    I64,
    /// Float of 32 bits.
    F32,
    /// Float of 64 bits.
    F64,
}

impl ValueType {
    /// Returns true for types of 64 bits.
    pub const fn is_wide(self) -> bool {
        matches!(self, Self::I64 | Self::F64)
    }

    /// Returns true for floats.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }
}
