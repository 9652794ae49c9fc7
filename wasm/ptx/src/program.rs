//! The result of a translation: PTX text, layout, constants, names and positions.

use crate::layout::Layout;
use crate::values::{FunctionId, GlobalId, InstanceId, MemoryId, TableId, ValueType};

/// Parameter and result types of a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Signature {
    /// Types of the parameters.
    pub params: Vec<ValueType>,
    /// Types of the results.
    pub results: Vec<ValueType>,
}

/// Rights of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModuleRole {
    /// A program of the user: the features of the feature gate.
    User,
    /// A module of the host, such as the system calls: several memories are allowed, and its exports are no entries.
    System,
}

/// Why a copy trapped. The numbers stand in [`crate::Word::TrapKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum TrapKind {
    /// Integer divide by zero.
    DivideByZero = 1,
    /// Integer overflow.
    IntegerOverflow = 2,
    /// Invalid conversion to integer.
    InvalidConversion = 3,
    /// Out of bounds memory access.
    MemoryOutOfBounds = 4,
    /// Undefined element: the index of an indirect call is outside of its table.
    UndefinedElement = 5,
    /// Uninitialized element: an indirect call of a null reference.
    UninitializedElement = 6,
    /// Indirect call type mismatch.
    TypeMismatch = 7,
    /// The instruction `unreachable`.
    Unreachable = 8,
    /// Call stack exhausted: depth limit or continuation stack.
    StackExhausted = 9,
    /// Time limit: the copy has no fuel left.
    TimeLimit = 10,
    /// Out of bounds table access.
    TableOutOfBounds = 11,
    /// Output limit. The host sets it.
    OutputLimit = 12,
    /// The memory grows beyond the reserve that the host chose. The host runs the copy again with a larger one.
    MemoryReserve = 13,
}

impl TrapKind {
    /// Returns the kind with number `code`, or `None` if there is none.
    pub const fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            1 => Self::DivideByZero,
            2 => Self::IntegerOverflow,
            3 => Self::InvalidConversion,
            4 => Self::MemoryOutOfBounds,
            5 => Self::UndefinedElement,
            6 => Self::UninitializedElement,
            7 => Self::TypeMismatch,
            8 => Self::Unreachable,
            9 => Self::StackExhausted,
            10 => Self::TimeLimit,
            11 => Self::TableOutOfBounds,
            12 => Self::OutputLimit,
            13 => Self::MemoryReserve,
            _ => return None,
        })
    }

    /// Returns the number of the kind.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// Returns the message of the specification's test-suite.
    pub const fn message(self) -> &'static str {
        match self {
            Self::DivideByZero => "integer divide by zero",
            Self::IntegerOverflow => "integer overflow",
            Self::InvalidConversion => "invalid conversion to integer",
            Self::MemoryOutOfBounds => "out of bounds memory access",
            Self::UndefinedElement => "undefined element",
            Self::UninitializedElement => "uninitialized element",
            Self::TypeMismatch => "indirect call type mismatch",
            Self::Unreachable => "unreachable",
            Self::StackExhausted => "call stack exhausted",
            Self::TimeLimit => "time limit",
            Self::TableOutOfBounds => "out of bounds table access",
            Self::OutputLimit => "output limit",
            Self::MemoryReserve => "memory reserve",
        }
    }
}

/// What the host may call in a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPoint {
    /// Number for [`crate::Word::Function`].
    pub number: u32,
    /// Instance that exports the function.
    pub instance: InstanceId,
    /// Name of the export.
    pub name: String,
    /// The function.
    pub function: FunctionId,
    /// Types of arguments and results.
    pub signature: Signature,
}

/// An item that an instance exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportedItem {
    /// A function.
    Function(FunctionId),
    /// A memory.
    Memory(MemoryId),
    /// A table.
    Table(TableId),
    /// A global.
    Global(GlobalId),
}

/// An export of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The exporting instance.
    pub instance: InstanceId,
    /// Name of the export.
    pub name: String,
    /// What is exported.
    pub item: ExportedItem,
}

/// A function of the program, for messages and pictures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its instance, or `None` for a host function.
    pub instance: Option<InstanceId>,
    /// Index in its module, imports included.
    pub index: u32,
    /// Name from the name section, or `module.name` of a host function.
    pub name: Option<String>,
    /// Byte offset of the body in the module's file; 0 for a host function.
    pub code_offset: u64,
    /// Bytes of the body; 0 for a host function.
    pub code_bytes: u32,
    /// A copy can suspend in it.
    pub resumable: bool,
    /// The text contains the function: it is reachable from an entry point.
    pub emitted: bool,
}

/// A host function: a call of it stops the copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFunction {
    /// Module name of the import.
    pub module: String,
    /// Name of the import.
    pub name: String,
    /// Types of arguments and results.
    pub signature: Signature,
    /// The copy never resumes: state [`crate::CopyState::Exited`].
    pub terminal: bool,
    /// Its number among all functions.
    pub function: FunctionId,
}

/// A block that the counters count, in the order of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The function.
    pub function: FunctionId,
    /// Byte offset of the block's first instruction in the module's file.
    pub code_offset: u64,
}

/// A global of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Global {
    /// Type of the value.
    pub ty: ValueType,
    /// Its value if it never changes; otherwise [`Layout::global`] says where it is.
    pub constant: Option<u64>,
}

/// A translated program.
#[derive(Clone, Debug)]
pub struct Program {
    /// PTX text. Its entry is [`crate::ENTRY_NAME`].
    pub text: String,
    /// Where everything stands in the area of a warp.
    pub layout: Layout,
    /// Data segments, element segments and shared tables: one read-only block for all copies.
    pub constants: Vec<u8>,
    /// What the host may call.
    pub entries: Vec<EntryPoint>,
    /// Exports of all instances.
    pub exports: Vec<Export>,
    /// All functions, by [`FunctionId`].
    pub functions: Vec<Function>,
    /// Host functions, by the number in [`crate::Word::HostFunction`].
    pub host_functions: Vec<HostFunction>,
    /// Globals, by [`GlobalId`].
    pub globals: Vec<Global>,
    /// Counted blocks, empty without [`crate::Options::counters`].
    pub blocks: Vec<Block>,
    /// First value of [`crate::Word::Step`] that instantiates each instance.
    pub first_steps: Vec<u32>,
    /// Largest number of frames below the entry that are not counted by the depth limit.
    ///
    /// The hardware stack holds at most this number of frames plus the depth limit.
    pub uncounted_frames: u32,
    /// A function that the text contains can call itself: then the depth limit bounds its frames.
    pub recursive: bool,
}

impl Program {
    /// Returns the entry point of the last instance that exports a function as `name`.
    pub fn entry(&self, name: &str) -> Option<&EntryPoint> {
        self.entries.iter().rev().find(|entry| entry.name == name)
    }

    /// Returns the item that `instance` exports as `name`.
    pub fn export(&self, instance: InstanceId, name: &str) -> Option<ExportedItem> {
        self.exports
            .iter()
            .find(|export| export.instance == instance && export.name == name)
            .map(|export| export.item)
    }

    /// Returns the size of the counters in bytes: two 64-bit numbers for each block, executions and active lanes.
    pub fn counter_bytes(&self) -> usize {
        self.blocks.len() * 16
    }
}
