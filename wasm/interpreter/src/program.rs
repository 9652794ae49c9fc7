//! A parsed program: flat list of operations over numbered slots of a call's frame.

use crate::arithmetic::{Binary, Division, Quaternary, Ternary, Unary};
use crate::memory::Width;
use crate::types::Space;
use crate::variables::Variables;

/// Index of a slot in the frame of a call. Slot 0 is always zero.
pub type Slot = u32;

/// Slot that is always zero: base of absolute addresses.
pub const ZERO: Slot = 0;

/// Maximum size of a vector access, elements.
pub const MAX_VECTOR: usize = 4;

/// Special register that differs between threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    Thread,
    Block,
    BlockThreads,
    Blocks,
    Lane,
    ActiveMask,
}

/// An operation of a thread. Targets are indices of operations.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    Constant {
        to: Slot,
        value: u64,
    },
    Copy {
        to: Slot,
        from: Slot,
    },
    /// Copies `mask` of `from`, shifted right: a part of a parameter, or half of a register.
    Extract {
        to: Slot,
        from: Slot,
        shift: u8,
        mask: u64,
    },
    /// The same with extension of the sign from `bits` bits.
    ExtractSigned {
        to: Slot,
        from: Slot,
        shift: u8,
        bits: u8,
    },
    /// Replaces the bits of `mask`, shifted left, in `to`.
    Insert {
        to: Slot,
        from: Slot,
        shift: u8,
        mask: u64,
    },
    Special {
        to: Slot,
        special: Special,
    },
    LocalAddress {
        to: Slot,
        offset: u32,
    },
    Unary {
        function: Unary,
        to: Slot,
        a: Slot,
    },
    Add {
        to: Slot,
        a: Slot,
        b: Slot,
    },
    AddConstant {
        to: Slot,
        a: Slot,
        b: u64,
    },
    Binary {
        function: Binary,
        to: Slot,
        a: Slot,
        b: Slot,
    },
    BinaryConstant {
        function: Binary,
        to: Slot,
        a: Slot,
        b: u64,
    },
    Division {
        function: Division,
        to: Slot,
        a: Slot,
        b: Slot,
    },
    Ternary {
        function: Ternary,
        to: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Quaternary {
        function: Quaternary,
        to: Slot,
        operands: [Slot; 4],
    },
    Logic {
        to: Slot,
        a: Slot,
        b: Slot,
        c: Slot,
        table: u8,
    },
    Select {
        to: Slot,
        a: Slot,
        b: Slot,
        predicate: Slot,
    },
    SelectConstant {
        to: Slot,
        a: u32,
        b: u32,
        predicate: Slot,
    },
    Load {
        space: Space,
        width: Width,
        to: Slot,
        base: Slot,
        offset: i64,
    },
    LoadSigned {
        space: Space,
        width: Width,
        to: Slot,
        base: Slot,
        offset: i64,
    },
    Store {
        space: Space,
        width: Width,
        from: Slot,
        base: Slot,
        offset: i64,
    },
    /// Faults if an address is not a multiple of `bytes`: precedes the parts of a vector access.
    CheckAlignment {
        bytes: u32,
        base: Slot,
        offset: i64,
    },
    AtomicAdd {
        width: Width,
        from: Slot,
        base: Slot,
        offset: i64,
    },
    Branch {
        target: u32,
    },
    BranchIf {
        predicate: Slot,
        target: u32,
    },
    BranchIfNot {
        predicate: Slot,
        target: u32,
    },
    /// Compares, keeps the predicate, and branches if it is `expected`.
    CompareBranch {
        function: Binary,
        to: Slot,
        a: Slot,
        b: Slot,
        target: u32,
        expected: bool,
    },
    CompareConstantBranch {
        function: Binary,
        to: Slot,
        a: Slot,
        b: u64,
        target: u32,
        expected: bool,
    },
    BranchIndexed {
        index: Slot,
        table: u32,
    },
    Call {
        site: u32,
    },
    CallIndirect {
        address: Slot,
        site: u32,
    },
    Return,
    Exit,
    Nothing,
}

/// Parameter or result of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formal {
    /// Whether it is in the parameter space. A register else.
    pub in_memory: bool,
    /// Size, bytes.
    pub bytes: u32,
    /// Alignment, bytes.
    pub alignment: u32,
}

impl Formal {
    /// Returns the number of slots.
    pub fn slots(&self) -> u32 {
        self.bytes.div_ceil(8).max(1)
    }
}

/// Parameters and results of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    pub results: Vec<Formal>,
    pub parameters: Vec<Formal>,
}

impl Signature {
    /// Returns the first slots of the parameters, and that behind them all. Results lie before parameters.
    pub fn first_slots(&self) -> (Vec<Slot>, Vec<Slot>, Slot) {
        let mut next = ZERO + 1;
        let mut place = |formals: &[Formal]| {
            let slots = formals.iter().map(|f| {
                let slot = next;
                next = next.saturating_add(f.slots());
                slot
            });
            slots.collect::<Vec<_>>()
        };
        let (results, parameters) = (place(&self.results), place(&self.parameters));
        (results, parameters, next)
    }
}

/// A function or an entry.
#[derive(Clone, Debug)]
pub struct Function {
    pub name: String,
    pub signature: Signature,
    pub is_entry: bool,
    /// Maximum number of threads of a block; 0 if the text gives none.
    pub max_threads: u32,
    /// First operation, or none before the body is read.
    pub start: Option<u32>,
    /// Number of slots of a frame.
    pub slots: u32,
    /// Size of the local arrays of a call, bytes.
    pub local_bytes: u32,
}

/// A call: where its arguments and results are.
#[derive(Clone, Debug, Default)]
pub struct CallSite {
    /// Callee, or none for an indirect call.
    pub function: Option<u32>,
    /// Signature of an indirect call.
    pub prototype: Signature,
    /// Slots that are copied to the callee: from, to.
    pub arguments: Vec<(Slot, Slot)>,
    /// Slots that are copied back: from, to.
    pub results: Vec<(Slot, Slot)>,
}

/// A parsed program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub(crate) operations: Vec<Operation>,
    /// Line of each operation.
    pub(crate) lines: Vec<u32>,
    pub(crate) functions: Vec<Function>,
    pub(crate) sites: Vec<CallSite>,
    pub(crate) tables: Vec<Vec<u32>>,
    pub(crate) variables: Variables,
}

/// What a launch of an entry needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryDescription {
    /// Name.
    pub name: String,
    /// Size of each parameter, bytes: at most 8.
    pub parameters: Vec<u32>,
    /// Maximum number of threads of a block; 0 if the text gives none.
    pub max_threads: u32,
}

impl Program {
    /// Returns the entries in their order in the text.
    #[must_use]
    pub fn entries(&self) -> Vec<EntryDescription> {
        let entries = self.functions.iter().filter(|f| f.is_entry);
        let describe = |f: &Function| EntryDescription {
            name: f.name.clone(),
            parameters: f.signature.parameters.iter().map(|p| p.bytes).collect(),
            max_threads: f.max_threads,
        };
        entries.map(describe).collect()
    }

    /// Returns the number of operations.
    #[must_use]
    pub fn operation_count(&self) -> usize {
        self.operations.len()
    }

    /// Returns the function that holds an operation.
    pub(crate) fn function_at(&self, operation: usize) -> Option<&Function> {
        let before = |f: &&Function| f.start.is_some_and(|start| start as usize <= operation);
        self.functions.iter().filter(before).max_by_key(|f| f.start)
    }
}
