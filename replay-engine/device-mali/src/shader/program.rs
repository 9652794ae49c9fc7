//! Translated shader program: every clause that a shader can reach, with the paths between them.
//!
//! All clauses are read before the first thread runs. So a job never depends on code that it writes itself. A shader
//! with any reachable unknown part does not run at all.

use super::block::{Block, Message, ShaderInputs, Target, UnknownOperation};
use super::translate::Translator;
use crate::compute::descriptors::ComputeJob;
use bifrost::{Clause, ClauseError, Flow, Instruction, Op, Source, Tuple, Uniform, WORD_BYTES, uniform};
use std::collections::{BTreeMap, HashMap};
use trace_core::GpuVa;

/// Maximum number of clauses of a program. Compilers emit some thousand at most.
const MAX_CLAUSES: usize = 1 << 16;

/// Successor of a clause for a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Successor {
    /// The lane ends.
    End,
    /// The clause with this number.
    To(u32),
}

/// Clause with the successors of its lanes.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub block: Block,
    /// Successor of lanes that take no branch.
    pub fallthrough: Successor,
    /// Successor of lanes that take the branch, if there is one.
    pub branch: Successor,
}

/// Translated shader. Its clauses are sorted by address.
#[derive(Debug)]
pub(crate) struct Program {
    pub nodes: Vec<Node>,
    /// Number of the clause at which threads start.
    pub entry: u32,
    /// Words of constants and uniforms, starting at the first constant location.
    pub constants: Vec<u32>,
}

/// Context of a shader, shared by all its runs.
pub(crate) struct ShaderContext<'j> {
    pub program: &'j Program,
    pub job: &'j ComputeJob,
    /// Number of lanes of a warp of this GPU.
    pub warp: u32,
    /// Counters that a shader can read: nanoseconds and cycles.
    pub clock: [u64; 2],
}

/// Reason why a shader cannot run.
#[derive(Debug)]
pub(crate) enum ProgramLoadError<E> {
    /// The code cannot be fetched, but all code that can be fetched is known; or no more clauses may be read.
    Fetch(E),
    /// The shader contains unknown operations. Every reachable clause was examined.
    Unknown(Vec<UnknownOperation>),
}

/// Reason why a clause cannot be unpacked.
enum ClauseReadError<E> {
    Fetch(E),
    Clause(ClauseError),
}

impl<E> From<ClauseError> for ClauseReadError<E> {
    fn from(e: ClauseError) -> Self {
        Self::Clause(e)
    }
}

impl Program {
    /// Reads and translates the shader that starts at `entry`.
    ///
    /// `pay` is called before each clause. An error that it returns ends the reading at once. A clause that cannot be
    /// fetched ends only its own path, so that all unknown operations are found. A shader with an unknown operation may
    /// seem to lead to addresses without code.
    pub(crate) fn load<E>(
        entry: GpuVa,
        given: &ShaderInputs,
        mut pay: impl FnMut() -> Result<(), E>,
        mut fetch: impl FnMut(GpuVa) -> Result<[u8; WORD_BYTES], E>,
    ) -> Result<Self, ProgramLoadError<E>> {
        let mut translator = Translator::new(given);
        let mut blocks: BTreeMap<GpuVa, Block> = BTreeMap::new();
        let mut unknown = Vec::new();
        let mut gone = None;
        let mut seen: std::collections::HashSet<GpuVa> = [entry].into();
        let mut open = vec![entry];
        while let Some(at) = open.pop() {
            if seen.len() > MAX_CLAUSES {
                unknown.push(UnknownOperation {
                    clause: at,
                    operation: format!("more than {MAX_CLAUSES} clauses"),
                });
                break;
            }
            pay().map_err(ProgramLoadError::Fetch)?;
            let word = |n: usize| fetch(at.wrapping_add((n * WORD_BYTES) as u64)).map_err(ClauseReadError::Fetch);
            let clause = match Clause::decode(at.get(), word) {
                Ok(clause) => clause,
                Err(ClauseReadError::Fetch(e)) => {
                    gone.get_or_insert(e);
                    continue;
                }
                Err(ClauseReadError::Clause(e)) => {
                    unknown.push(UnknownOperation {
                        clause: at,
                        operation: e.to_string(),
                    });
                    continue;
                }
            };
            let mut go = |to: GpuVa| {
                if seen.insert(to) {
                    open.push(to);
                }
            };
            match translator.clause(&clause) {
                Ok(block) => {
                    let (through, branch) = find_successors(&block);
                    through.into_iter().chain(branch).for_each(&mut go);
                    blocks.insert(at, block);
                }
                Err(found) => {
                    unknown.extend(found);
                    // Later clauses may contain more unknown operations.
                    find_unknown_successors(&clause).into_iter().for_each(&mut go);
                }
            }
        }
        if !unknown.is_empty() {
            unknown.sort();
            return Err(ProgramLoadError::Unknown(unknown));
        }
        if let Some(e) = gone {
            return Err(ProgramLoadError::Fetch(e));
        }
        Ok(Self::link(entry, blocks, translator.pool.words().to_vec()))
    }

    fn link(entry: GpuVa, blocks: BTreeMap<GpuVa, Block>, constants: Vec<u32>) -> Self {
        let numbers: HashMap<GpuVa, u32> = (0u32..).zip(blocks.keys()).map(|(n, at)| (*at, n)).collect();
        let way = |to: Option<GpuVa>| {
            to.and_then(|at| numbers.get(&at))
                .map_or(Successor::End, |n| Successor::To(*n))
        };
        let entry = numbers.get(&entry).copied().unwrap_or(0);
        let node = |block: Block| {
            let (through, branch) = find_successors(&block);
            Node {
                fallthrough: way(through),
                branch: way(branch),
                block,
            }
        };
        Self {
            nodes: blocks.into_values().map(node).collect(),
            entry,
            constants,
        }
    }
}

/// Returns the next addresses of lanes that take no branch, and of lanes that take the branch.
fn find_successors(block: &Block) -> (Option<GpuVa>, Option<GpuVa>) {
    let mut through = (!block.ends).then_some(block.next);
    let mut branch = None;
    for s in &block.segments {
        if let Some(Message::Branch { condition, to }) = &s.message {
            if let Target::Clause(at) = to {
                branch = Some(*at);
            }
            if condition.is_none() {
                through = None;
            }
        }
    }
    (through, branch)
}

/// Returns the addresses that lanes may reach from a clause that was not translated, as far as its branches are known.
/// Bits that encode no known operation may be a branch, but are not treated as one.
fn find_unknown_successors(clause: &Clause) -> Vec<GpuVa> {
    let mut to = Vec::new();
    let mut through = clause.header.flow() != Flow::End;
    for t in &clause.tuples {
        let Some(add) = &t.add else { continue };
        let jumps = matches!(add.op(), Op::Jump | Op::JumpEx);
        if jumps || add.op().name().starts_with("BRANCH") {
            to.extend(branch_target(clause, t, add));
            through &= !jumps;
        }
    }
    to.extend(through.then(|| GpuVa::new(clause.address.wrapping_add(clause.bytes()))));
    to
}

/// Returns the target of a branch: its last operand, if it is relative to the clause.
fn branch_target(clause: &Clause, t: &Tuple, branch: &Instruction) -> Option<GpuVa> {
    let Some(Source::Uniform { high }) = branch.source(branch.source_count().checked_sub(1)?) else {
        return None;
    };
    let Uniform::Constant { index, low } = uniform(t.registers.uniform) else {
        return None;
    };
    let by = clause.constants.get(usize::from(index))?.offset(low, high)?;
    Some(GpuVa::new(clause.address.wrapping_add_signed(by)))
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
