//! The code of shaders: which of a job's descriptors names one, its clauses from the first to the last, and where its
//! branches lead.

use super::{GpuMemory, Job, JobType, Payload};
use crate::recording::GpuVa;
use bifrost::{
    Clause, ClauseError, Constant, Flow, Instruction, Op, Source, Tuple, Uniform, Unit, WORD_BYTES, uniform,
};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of bytes of a shader that are read: 1 MiB.
pub const MAX_CODE: u64 = 1 << 20;

/// What a shader works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Whatever it likes.
    Compute,
    /// Vertices.
    Vertex,
    /// Geometry.
    Geometry,
    /// Pixels.
    Fragment,
}

impl Stage {
    /// Its name in JSON and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Vertex => "vertex",
            Self::Geometry => "geometry",
            Self::Fragment => "fragment",
        }
    }
}

/// The shaders that a job's descriptors name, each with where its code begins.
#[must_use]
pub fn find_shaders(job: &Job) -> Vec<(Stage, GpuVa)> {
    let named = |stage, c: &super::Compute| {
        let state = c.renderer.filter(|s| s.shader.0 != 0)?;
        Some((stage, state.shader))
    };
    let all = match (&job.payload, job.kind()) {
        (Payload::Compute(c), Some(JobType::Compute)) => [named(Stage::Compute, c), None],
        (Payload::Compute(c), Some(JobType::Vertex)) => [named(Stage::Vertex, c), None],
        // The renderer state of a tiler job is that of the pixels which its primitives will cover.
        (Payload::Compute(c), Some(JobType::Tiler)) => [named(Stage::Fragment, c), None],
        (Payload::IndexedVertex { vertex, fragment }, _) => {
            [named(Stage::Vertex, vertex), named(Stage::Fragment, fragment)]
        }
        _ => [None, None],
    };
    all.into_iter().flatten().collect()
}

/// A clause of a shader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeClause {
    /// The clause; its address is the GPU's.
    pub clause: Clause,
    /// Where its branches lead, as far as the code itself tells.
    pub targets: Vec<GpuVa>,
    /// Whether a branch leads where a register says.
    pub indirect: bool,
    /// Whether the shader's start leads here, by branches or from clause to clause.
    pub reachable: bool,
}

/// What stands behind the last clause of a shader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeEnd {
    /// Padding of zeros.
    Padding,
    /// Something else: its last clause ends the thread, and no branch leads further.
    Last,
    /// Memory that the recording does not hold, at this address.
    Unreadable(GpuVa),
    /// Words that are no clause.
    Broken(ClauseError),
    /// More code than was to be read, at most [`MAX_CODE`].
    Limit,
}

impl CodeEnd {
    /// Whether the code is whole.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Padding | Self::Last)
    }

    /// In words.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Padding => "padding".into(),
            Self::Last => "the last clause ends the thread".into(),
            Self::Unreadable(at) => format!("the recording does not hold {at}"),
            Self::Broken(e) => e.to_string(),
            Self::Limit => "it is longer than what is read".into(),
        }
    }
}

/// Bits that are no operation of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnknownOperation {
    /// Whether ADD would execute it, else FMA.
    pub add: bool,
    /// The bits: 23 of FMA, 20 of ADD.
    pub bits: u32,
}

impl UnknownOperation {
    /// The unit.
    #[must_use]
    pub fn unit(self) -> Unit {
        if self.add { Unit::Add } else { Unit::Fma }
    }
}

/// The code of a shader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Where it begins.
    pub entry: GpuVa,
    /// Its clauses, by address.
    pub clauses: Vec<CodeClause>,
    /// What stands behind them.
    pub end: CodeEnd,
}

impl Code {
    /// Bytes from the entry to the end of the last clause.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        // The distance first: the last clause may end where the address space does.
        let from_entry = |c: &CodeClause| c.clause.address.saturating_sub(self.entry.0);
        let all = |c: &CodeClause| from_entry(c).saturating_add(c.clause.bytes());
        self.clauses.last().map_or(0, all)
    }

    /// Operations, those of both units.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.clauses.iter().map(|c| 2 * c.clause.tuples.len() as u64).sum()
    }

    /// Bits that no operation has, each with how often it stands there.
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

    /// The number of the clause at an address.
    #[must_use]
    pub fn at(&self, va: u64) -> Option<usize> {
        self.clauses.binary_search_by_key(&va, |c| c.clause.address).ok()
    }
}

/// Whether an operation is a branch, which may be left or taken; `JUMP` is always taken.
fn branches(op: Op) -> bool {
    op.name().starts_with("BRANCH") || jumps(op)
}

fn jumps(op: Op) -> bool {
    matches!(op, Op::Jump | Op::JumpEx)
}

/// Where a branch leads from the clause at `address`: the operand of it that is a place in the code.
fn target(t: &Tuple, add: &Instruction, constants: &[Constant; 6], address: u64) -> Option<GpuVa> {
    (0..add.source_count()).find_map(|n| {
        let Some(Source::Uniform { high }) = add.source(n) else {
            return None;
        };
        let Uniform::Constant { index, low } = uniform(t.registers.uniform) else {
            return None;
        };
        let by = constants.get(usize::from(index))?.offset(low, high)?;
        Some(GpuVa(address.wrapping_add_signed(by)))
    })
}

/// Whether a branch leads to address 0, which ends the thread.
fn to_zero(t: &Tuple, add: &Instruction) -> bool {
    let zero =
        |n| matches!(add.source(n), Some(Source::Uniform { .. })) && uniform(t.registers.uniform) == Uniform::Zero;
    add.source_count().checked_sub(1).is_some_and(zero)
}

/// Reads a shader: clause after clause from its entry to the padding of zeros behind it, or to a clause that ends the
/// thread and that nothing which is understood leads beyond.
#[must_use]
pub fn decode_code(mem: &(impl GpuMemory + ?Sized), entry: GpuVa) -> Code {
    decode_code_within(mem, entry, MAX_CODE)
}

/// As [`code`], of at most this many bytes; more than [`MAX_CODE`] are never read.
#[must_use]
pub fn decode_code_within(mem: &(impl GpuMemory + ?Sized), entry: GpuVa, most: u64) -> Code {
    let most = most.min(MAX_CODE);
    let mut clauses: Vec<CodeClause> = Vec::new();
    let mut at = entry.0;
    // The furthest place that a branch leads to, and whether there may be branches that are not understood.
    let (mut furthest, mut guessed) = (0u64, false);
    let end = loop {
        if at.saturating_sub(entry.0) >= most {
            break CodeEnd::Limit;
        }
        let word = |n: usize| {
            let va = at.checked_add((n * WORD_BYTES) as u64).map(GpuVa);
            let mut word = [0; WORD_BYTES];
            match va {
                Some(va) if mem.read(va, &mut word) => Ok(word),
                _ => Err(CodeEnd::Unreadable(va.unwrap_or(GpuVa(u64::MAX)))),
            }
        };
        match word(0) {
            Ok([0, 0, 0, 0, ..]) => break CodeEnd::Padding,
            Ok(_) => {}
            Err(end) => break end,
        }
        /// So that the decoder hands on what the memory says.
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
        furthest = targets.iter().fold(furthest, |f, t| f.max(t.0));
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
            let padded = mem.read(GpuVa(at), &mut word) && word == [0; 4];
            break if padded { CodeEnd::Padding } else { CodeEnd::Last };
        }
    };
    reach(entry, &mut clauses);
    Code { entry, clauses, end }
}

/// Whether a clause always goes elsewhere than to the one behind it.
fn always(c: &Clause) -> bool {
    c.tuples.iter().any(|t| t.add.is_some_and(|a| jumps(a.op())))
}

/// Marks what the entry leads to.
fn reach(entry: GpuVa, clauses: &mut [CodeClause]) {
    let mut todo = vec![entry.0];
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
        todo.extend(c.targets.iter().map(|t| t.0));
        if c.clause.header.flow() != Flow::End && !always(&c.clause) {
            todo.push(at.saturating_add(c.clause.bytes()));
        }
    }
}
