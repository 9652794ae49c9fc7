//! Executable form of clauses: arithmetic steps, and the messages between them.

use super::descriptor_op::DescriptorOp;
use super::lanes::{CONSTANTS, PLACES, Step};
use super::mods::LaneOp;
use std::collections::HashMap;
use trace_core::GpuVa;

/// Part of a clause that this model does not execute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UnknownOperation {
    /// Address of the clause.
    pub clause: GpuVa,
    /// Name of the operation, or the bits that encode no known operation.
    pub operation: String,
}

/// Memory space of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// GPU addresses.
    Global,
    /// The workgroup's own memory, addressed by offset.
    Shared,
    /// The thread's own memory, addressed by offset.
    Local,
    /// A uniform buffer, whose number is the second word of the address.
    Uniform,
}

/// Load or store of less than a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NarrowAccess {
    /// Number of bytes, 1 to 3, or 2 bytes in addition to whole words.
    pub bytes: u8,
    /// Whether the loaded value is sign-extended.
    pub signed: bool,
    /// First destination bit.
    pub shift: u8,
    /// Register bits that are replaced.
    pub replaced: u32,
    /// Whether a second register receives the extension.
    pub double: bool,
}

/// Operation of an atomic on memory and its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicOp {
    Add,
    SMin,
    SMax,
    UMin,
    UMax,
    And,
    Or,
    Xor,
}

/// Step that is not arithmetic.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Load {
        space: Space,
        words: u8,
        narrow: Option<NarrowAccess>,
        address: [u16; 2],
        staging: u8,
    },
    Store {
        space: Space,
        words: u8,
        narrow: Option<NarrowAccess>,
        address: [u16; 2],
        staging: u8,
    },
    /// `operand` is a fixed operand that replaces the staging register.
    Atomic {
        op: AtomicOp,
        operand: Option<u64>,
        returns: bool,
        wide: bool,
        address: [u16; 2],
        staging: u8,
    },
    Exchange {
        space: Space,
        compare: bool,
        returns: bool,
        wide: bool,
        address: [u16; 2],
        staging: u8,
    },
    /// Reads the value of another lane.
    Permute {
        value: u16,
        lane: u16,
        op: LaneOp,
        width: u8,
        inactive: u32,
        to: u16,
    },
    /// Returns one bit for each lane of the subgroup whose word is not 0.
    Ballot {
        value: u16,
        width: u8,
        to: u16,
    },
    /// Reads a counter into two staging registers.
    Clock {
        cycles: bool,
        staging: u8,
    },
    /// Accesses a texture, an image or an attribute.
    DescriptorOp {
        op: DescriptorOp,
        from: [u16; 3],
        staging: u8,
    },
    Barrier,
    /// `condition` is the location of a word that is not 0 if a lane takes the branch.
    Branch {
        condition: Option<u16>,
        to: Target,
    },
}

/// Target of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The end of the thread.
    End,
    /// A clause.
    Clause(GpuVa),
}

/// Arithmetic, followed by at most one message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segment {
    pub steps: Vec<Step>,
    pub message: Option<Message>,
    /// Tuple of the clause that contains the message.
    pub tuple: u8,
}

/// Clause in executable form.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub address: GpuVa,
    /// Address after the clause.
    pub next: GpuVa,
    pub segments: Vec<Segment>,
    /// Number of operations other than NOP.
    pub operations: u32,
    /// Whether threads that take no branch end after this clause.
    pub ends: bool,
}

/// Uniforms and constants of a program by location.
#[derive(Debug, Default)]
pub(crate) struct ConstantPool {
    places: HashMap<u32, u16>,
    words: Vec<u32>,
}

impl ConstantPool {
    /// Returns the location of a word, or `None` if there is no room.
    pub(crate) fn intern(&mut self, word: u32) -> Option<u16> {
        if let Some(p) = self.places.get(&word) {
            return Some(*p);
        }
        let place = u16::try_from(self.words.len()).ok()?.checked_add(CONSTANTS)?;
        if usize::from(place) >= PLACES {
            return None;
        }
        self.words.push(word);
        self.places.insert(word, place);
        Some(place)
    }

    /// Returns the words, starting at the first constant location.
    pub(crate) fn words(&self) -> &[u32] {
        &self.words
    }
}

/// Inputs of a shader other than registers.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShaderInputs {
    /// Push uniforms, 64 bits each.
    pub push: Vec<u64>,
    /// GPU address of the workgroup's memory.
    pub shared_base: GpuVa,
}
