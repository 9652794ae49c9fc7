//! Clauses in executable form: arithmetic steps, and the messages between them.

use super::descriptor_op::DescriptorOp;
use super::lanes::{CONSTANTS, PLACES, Step};
use super::mods::LaneOp;
use std::collections::HashMap;

/// Something in a clause that this model does not execute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UnknownOperation {
    /// Address of the clause.
    pub clause: u64,
    /// The operation, or the bits that are none.
    pub operation: String,
}

/// Memory that an access goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// GPU addresses.
    Global,
    /// The workgroup's own memory, by offset.
    Shared,
    /// The thread's own memory, by offset.
    Local,
    /// A uniform buffer: the second word of the address is its number.
    Uniform,
}

/// A load or store of less than a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NarrowAccess {
    /// Bytes of it, 1 to 3, or 2 more than whole words.
    pub bytes: u8,
    /// Whether what is loaded is extended with its sign.
    pub signed: bool,
    /// First bit that it is loaded to.
    pub shift: u8,
    /// Bits of the register that are replaced.
    pub replaced: u32,
    /// Whether a second register takes the extension.
    pub double: bool,
}

/// What an atomic operation does with memory and its operand.
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

/// A step that is no arithmetic.
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
    /// `operand`: a fixed one instead of the staging register.
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
    /// Takes the value of another lane.
    Permute {
        value: u16,
        lane: u16,
        op: LaneOp,
        width: u8,
        inactive: u32,
        to: u16,
    },
    /// A bit for each lane of the subgroup whose word is not 0.
    Ballot {
        value: u16,
        width: u8,
        to: u16,
    },
    /// A counter into two staging registers.
    Clock {
        cycles: bool,
        staging: u8,
    },
    /// A texture, an image or an attribute.
    DescriptorOp {
        op: DescriptorOp,
        from: [u16; 3],
        staging: u8,
    },
    Barrier,
    /// `condition`: the place of a word that is not 0 where a lane takes the branch.
    Branch {
        condition: Option<u16>,
        to: Target,
    },
}

/// Where a branch leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// To the end of the thread.
    End,
    /// To a clause.
    Clause(u64),
}

/// Arithmetic, then at most one message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segment {
    pub steps: Vec<Step>,
    pub message: Option<Message>,
    /// Tuple of the message.
    pub tuple: u8,
}

/// A clause in executable form.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub address: u64,
    /// Address behind it.
    pub next: u64,
    pub segments: Vec<Segment>,
    /// Operations other than NOP.
    pub operations: u32,
    /// Whether threads that take no branch end here.
    pub ends: bool,
}

/// Uniforms and constants of a program by place.
#[derive(Debug, Default)]
pub(crate) struct ConstantPool {
    places: HashMap<u32, u16>,
    words: Vec<u32>,
}

impl ConstantPool {
    /// The place of a word; `None` when there is room for no more.
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

    /// The words, from the first place of constants on.
    pub(crate) fn words(&self) -> &[u32] {
        &self.words
    }
}

/// What a job gives its shader besides registers.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShaderInputs {
    /// Pushed uniforms, 64 bits each.
    pub push: Vec<u64>,
    /// GPU address of the workgroup's memory.
    pub shared_base: u64,
}
