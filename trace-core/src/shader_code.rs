//! The code of a shader: its clauses in order, and its branch targets.
//!
//! There is one instruction set, Bifrost, which the crate `bifrost` decodes. A GPU family says whether its shaders have
//! it; see [`Family::decode_code`](crate::families::Family::decode_code).

use crate::GpuVa;
use crate::memory::GpuMemory;
use bifrost::{
    Clause, ClauseError, Constant, Flow, Instruction, Op, Source, Tuple, Uniform, Unit, WORD_BYTES, uniform,
};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of shader bytes that are read: 1 MiB.
pub const MAX_CODE: u64 = 1 << 20;

/// A clause of a shader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeClause {
    /// The clause; its address is a GPU address.
    pub clause: Clause,
    /// Branch targets, as far as the code itself determines them.
    pub targets: Vec<GpuVa>,
    /// Whether a branch target comes from a register.
    pub indirect: bool,
    /// Whether the clause is reachable from the shader's entry, by branches or sequentially.
    pub reachable: bool,
}

/// Why decoding stopped after the last clause of a shader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeEnd {
    /// Zero padding follows.
    Padding,
    /// Other data follows: the last clause ends the thread, and no branch leads further.
    Last,
    /// The recording does not hold the memory at this address.
    Unreadable(GpuVa),
    /// The words are not a valid clause.
    Broken(ClauseError),
    /// The code exceeds the requested limit, at most [`MAX_CODE`].
    Limit,
}

impl CodeEnd {
    /// Returns whether the code is complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Padding | Self::Last)
    }

    /// Returns a description.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Padding => "padding".into(),
            Self::Last => "the last clause ends the thread".into(),
            Self::Unreadable(at) => format!("the recording does not hold {at}"),
            Self::Broken(e) => e.to_string(),
            Self::Limit => "it is longer than the maximum that is read".into(),
        }
    }
}

/// Opcode bits that are not in the operation table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnknownOperation {
    /// Whether the ADD unit would execute it; otherwise the FMA unit.
    pub add: bool,
    /// The bits: 23 for FMA, 20 for ADD.
    pub bits: u32,
}

impl UnknownOperation {
    /// Returns the unit.
    #[must_use]
    pub fn unit(self) -> Unit {
        if self.add { Unit::Add } else { Unit::Fma }
    }
}

/// The code of a shader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Address of the first clause.
    pub entry: GpuVa,
    /// The clauses, by address.
    pub clauses: Vec<CodeClause>,
    /// Why decoding stopped after the clauses.
    pub end: CodeEnd,
}

impl Code {
    /// Returns the size from the entry to the end of the last clause, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        // Compute the distance first: the last clause may end at the end of the address space.
        let from_entry = |c: &CodeClause| c.clause.address.saturating_sub(self.entry.get());
        let all = |c: &CodeClause| from_entry(c).saturating_add(c.clause.bytes());
        self.clauses.last().map_or(0, all)
    }

    /// Returns the number of operations of both units.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.clauses.iter().map(|c| 2 * c.clause.tuples.len() as u64).sum()
    }

    /// Returns the unknown opcode bits, each with its number of occurrences.
    #[must_use]
    pub fn unknown_operations(&self) -> BTreeMap<UnknownOperation, u64> {
        let mut all = BTreeMap::new();
        for t in self.clauses.iter().flat_map(|c| &c.clause.tuples) {
            for (add, bits, found) in [(false, t.fma_bits, t.fma), (true, t.add_bits, t.add)] {
                if found.is_none() {
                    *all.entry(UnknownOperation { add, bits }).or_insert(0) += 1;
                }
            }
        }
        all
    }

    /// Returns the index of the clause at an address.
    #[must_use]
    pub fn at(&self, va: GpuVa) -> Option<usize> {
        self.clauses
            .binary_search_by_key(&va, |c| GpuVa::new(c.clause.address))
            .ok()
    }
}

/// Returns whether an operation is a branch that may be taken or not; `JUMP` is always taken.
fn branches(op: Op) -> bool {
    op.name().starts_with("BRANCH") || jumps(op)
}

fn jumps(op: Op) -> bool {
    matches!(op, Op::Jump | Op::JumpEx)
}

/// Returns the target of a branch in the clause at `address`: the operand that is a code address.
fn target(t: &Tuple, add: &Instruction, constants: &[Constant; 6], address: u64) -> Option<GpuVa> {
    (0..add.source_count()).find_map(|n| {
        let Some(Source::Uniform { high }) = add.source(n) else {
            return None;
        };
        let Uniform::Constant { index, low } = uniform(t.registers.uniform) else {
            return None;
        };
        let by = constants.get(usize::from(index))?.offset(low, high)?;
        Some(GpuVa::new(address.wrapping_add_signed(by)))
    })
}

/// Returns whether a branch leads to address 0, which ends the thread.
fn to_zero(t: &Tuple, add: &Instruction) -> bool {
    let zero =
        |n| matches!(add.source(n), Some(Source::Uniform { .. })) && uniform(t.registers.uniform) == Uniform::Zero;
    add.source_count().checked_sub(1).is_some_and(zero)
}

/// Decodes a shader clause by clause from its entry. Stops at the zero padding, or after a clause that ends the
/// thread if no understood branch leads further.
#[must_use]
pub fn decode_code(mem: &(impl GpuMemory + ?Sized), entry: GpuVa) -> Code {
    decode_code_within(mem, entry, MAX_CODE)
}

/// Does the same as [`decode_code`], for at most `max` bytes; never reads more than [`MAX_CODE`].
#[must_use]
pub fn decode_code_within(mem: &(impl GpuMemory + ?Sized), entry: GpuVa, max: u64) -> Code {
    let max = max.min(MAX_CODE);
    let mut clauses: Vec<CodeClause> = Vec::new();
    let mut at = entry.get();
    // The furthest branch target, and whether there may be branches that are not understood.
    let (mut furthest, mut guessed) = (0u64, false);
    let end = loop {
        if at.saturating_sub(entry.get()) >= max {
            break CodeEnd::Limit;
        }
        let word = |n: usize| {
            let va = at.checked_add((n * WORD_BYTES) as u64).map(GpuVa::new);
            let mut word = [0; WORD_BYTES];
            match va {
                Some(va) if mem.read(va, &mut word) => Ok(word),
                _ => Err(CodeEnd::Unreadable(va.unwrap_or(GpuVa::MAX))),
            }
        };
        match word(0) {
            Ok([0, 0, 0, 0, ..]) => break CodeEnd::Padding,
            Ok(_) => {}
            Err(end) => break end,
        }
        /// Carries the reason from the memory reader through the decoder.
        struct Stopped(CodeEnd);
        impl From<ClauseError> for Stopped {
            fn from(e: ClauseError) -> Self {
                Self(CodeEnd::Broken(e))
            }
        }
        let clause = match Clause::decode(at, |n| word(n).map_err(Stopped)) {
            Ok(c) => c,
            Err(Stopped(end)) => break end,
        };
        let (mut targets, mut indirect) = (Vec::new(), false);
        for t in &clause.tuples {
            let Some(add) = &t.add else {
                guessed = true;
                continue;
            };
            if branches(add.op()) {
                match target(t, add, &clause.constants, at) {
                    Some(va) => targets.push(va),
                    // A jump to 0 ends the thread.
                    None => indirect |= !to_zero(t, add),
                }
            }
        }
        furthest = targets.iter().fold(furthest, |f, t| f.max(t.get()));
        guessed |= indirect;
        let ends = clause.header.flow() == Flow::End || always(&clause);
        at = at.saturating_add(clause.bytes());
        clauses.push(CodeClause {
            clause,
            targets,
            indirect,
            reachable: false,
        });
        if ends && !guessed && furthest < at {
            let mut word = [0; 4];
            let padded = mem.read(GpuVa::new(at), &mut word) && word == [0; 4];
            break if padded { CodeEnd::Padding } else { CodeEnd::Last };
        }
    };
    reach(entry, &mut clauses);
    Code { entry, clauses, end }
}

/// Returns whether control never continues from a clause to the next one.
fn always(c: &Clause) -> bool {
    c.tuples.iter().any(|t| t.add.is_some_and(|a| jumps(a.op())))
}

/// Marks the clauses that are reachable from the entry.
fn reach(entry: GpuVa, clauses: &mut [CodeClause]) {
    let mut todo = vec![entry.get()];
    let mut seen = BTreeSet::new();
    while let Some(at) = todo.pop() {
        let found = clauses.binary_search_by_key(&at, |c| c.clause.address);
        let Some(c) = found.ok().and_then(|n| clauses.get_mut(n)) else {
            continue;
        };
        if !seen.insert(at) {
            continue;
        }
        c.reachable = true;
        todo.extend(c.targets.iter().map(|t| t.get()));
        if c.clause.header.flow() != Flow::End && !always(&c.clause) {
            todo.push(at.saturating_add(c.clause.bytes()));
        }
    }
}
