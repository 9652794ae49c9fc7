//! Traps: their kinds with fixed numbers, and their place in the program.

use std::fmt;

/// Reason for the end of a copy that did not finish. The numbers are fixed: generated code stores them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum TrapKind {
    /// An integer division or remainder by zero.
    DivideByZero = 1,
    /// A quotient or a conversion whose result does not fit.
    IntegerOverflow = 2,
    /// The conversion of a NaN to an integer.
    InvalidConversion = 3,
    /// A memory access outside the memory.
    MemoryOutOfBounds = 4,
    /// An indirect call with an index outside the table.
    UndefinedElement = 5,
    /// An indirect call of an empty table element.
    UninitializedElement = 6,
    /// An indirect call of a function with another signature.
    IndirectCallType = 7,
    /// An `unreachable` instruction.
    Unreachable = 8,
    /// More nested calls than the limit.
    CallStackExhausted = 9,
    /// More fuel or more seconds than the limit.
    TimeLimit = 10,
    /// A table access outside the table, other than an indirect call.
    TableOutOfBounds = 11,
    /// More output than the limit.
    OutputLimit = 12,
}

impl TrapKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::DivideByZero,
        Self::IntegerOverflow,
        Self::InvalidConversion,
        Self::MemoryOutOfBounds,
        Self::UndefinedElement,
        Self::UninitializedElement,
        Self::IndirectCallType,
        Self::Unreachable,
        Self::CallStackExhausted,
        Self::TimeLimit,
        Self::TableOutOfBounds,
        Self::OutputLimit,
    ];

    /// Returns the number that generated code stores.
    #[must_use]
    pub fn number(self) -> u32 {
        self as u32
    }

    /// Returns the kind with `number`, or `None` if there is none.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.number() == number)
    }

    /// Returns the name. The names of traps of the specification are those of its test-suite.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DivideByZero => "integer divide by zero",
            Self::IntegerOverflow => "integer overflow",
            Self::InvalidConversion => "invalid conversion to integer",
            Self::MemoryOutOfBounds => "out of bounds memory access",
            Self::UndefinedElement => "undefined element",
            Self::UninitializedElement => "uninitialized element",
            Self::IndirectCallType => "indirect call type mismatch",
            Self::Unreachable => "unreachable",
            Self::CallStackExhausted => "call stack exhausted",
            Self::TimeLimit => "time limit",
            Self::TableOutOfBounds => "out of bounds table access",
            Self::OutputLimit => "output limit",
        }
    }
}

impl fmt::Display for TrapKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Place of a trap in the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrapPlace {
    /// Name of the function in the program's name section, else `func[INDEX]`.
    pub function: String,
    /// Index of the function, imports included.
    pub function_index: u32,
    /// Byte offset of the instruction in the program's file.
    pub offset: u64,
}

/// The trap that ended a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trap {
    /// The reason.
    pub kind: TrapKind,
    /// The place; `None` if the trap has none, or if it is unknown.
    pub place: Option<TrapPlace>,
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(p) => write!(f, "{} in {} at byte {:#x}", self.kind, p.function, p.offset),
            None => write!(f, "{}", self.kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_kinds_are_their_positions() {
        for (i, kind) in TrapKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.number() as usize, i + 1);
            assert_eq!(TrapKind::from_number(kind.number()), Some(kind));
        }
        assert_eq!(TrapKind::from_number(0), None);
        assert_eq!(TrapKind::from_number(13), None);
    }

    #[test]
    fn trap_names_its_place() {
        let place = TrapPlace {
            function: "parse".into(),
            function_index: 7,
            offset: 0x123,
        };
        let trap = Trap {
            kind: TrapKind::Unreachable,
            place: Some(place),
        };
        assert_eq!(trap.to_string(), "unreachable in parse at byte 0x123");
        let trap = Trap { place: None, ..trap };
        assert_eq!(trap.to_string(), "unreachable");
    }
}
