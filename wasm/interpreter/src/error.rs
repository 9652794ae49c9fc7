//! Errors of texts, and faults of running threads.

use crate::memory::GlobalAddress;
use thiserror::Error;

/// Why a text is refused, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {kind}")]
pub struct ParseError {
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
    /// Reason.
    pub kind: ParseErrorKind,
}

/// Why a text is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The text does not continue with what its grammar needs.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What the grammar needs.
        expected: &'static str,
        /// What the text has.
        found: String,
    },
    /// The interpreter does not have this directive.
    #[error("directive {0} is outside the subset")]
    UnknownDirective(String),
    /// The interpreter does not have this instruction, or not with this type.
    #[error("instruction {0} is outside the subset")]
    UnknownInstruction(String),
    /// No declaration of this name precedes its use.
    #[error("{0} is not declared")]
    UnknownName(String),
    /// A name is declared twice.
    #[error("{0} is declared twice")]
    DuplicateName(String),
    /// The type of an operand does not fit its instruction.
    #[error("operand {operand} has a type that the instruction does not accept")]
    TypeMismatch {
        /// The operand in the text.
        operand: String,
    },
    /// A number does not fit its place.
    #[error("number {0} is out of range")]
    NumberOutOfRange(String),
    /// Arguments of a call differ in number or size from the parameters of the function.
    #[error("arguments of the call do not match the parameters of {0}")]
    ArgumentMismatch(String),
    /// A function is declared, but has no body.
    #[error("function {0} has no body")]
    NoBody(String),
    /// An access of a parameter is misaligned, or outside the parameter.
    #[error("access of parameter {0} is outside it or misaligned")]
    ParameterAccess(String),
    /// The text is larger than a limit.
    #[error("too many {0}")]
    Limit(&'static str),
}

/// Why a thread cannot go on, and where. The launch ends with it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("thread {thread} of block {block}, {function}, line {line}: {kind}")]
pub struct Fault {
    /// Index of the block.
    pub block: u32,
    /// Index of the thread in its block.
    pub thread: u32,
    /// Name of the function.
    pub function: String,
    /// Line of the instruction, from 1.
    pub line: u32,
    /// Address of the access, if the fault is one of an access.
    pub address: Option<GlobalAddress>,
    /// Reason.
    pub kind: FaultKind,
}

/// Why a thread cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// No memory is at the address, or it is read only.
    #[error("illegal address {0}")]
    IllegalAddress(GlobalAddress),
    /// The address is not a multiple of the size of the access.
    #[error("misaligned address {0}")]
    MisalignedAddress(GlobalAddress),
    /// PTX does not specify the result.
    #[error("division by zero: PTX does not specify its result")]
    DivisionByZero,
    /// The index of `brx.idx` is outside its list of targets.
    #[error("branch index {0} is outside the list of targets")]
    BranchIndex(u32),
    /// The address of an indirect call is not that of a function with the prototype of the call.
    #[error("indirect call of {0}, which is no function with this prototype")]
    IndirectCall(GlobalAddress),
    /// Calls are deeper than the limit of the launch.
    #[error("call stack is larger than its limit")]
    StackOverflow,
    /// The launch took more instructions than its limit.
    #[error("launch exceeds its limit of instructions")]
    StepLimit,
    /// The program has no entry with this name.
    #[error("there is no entry with this name")]
    NoEntry,
    /// The number of parameters differs from that of the entry.
    #[error("number of parameters differs from that of the entry")]
    ParameterCount,
    /// A block has more threads than the entry permits, or none, or the grid is empty.
    #[error("shape of the launch is outside the entry's limits")]
    Shape,
}
