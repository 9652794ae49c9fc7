//! A program: every clause that a shader can reach, translated, with the ways between them.
//!
//! All of it is read before the first thread runs. So what a job does depends on no code that it writes itself, and a
//! shader of which any reachable part is unknown does not run at all.

use super::block::{Block, Message, ShaderInputs, Target, UnknownOperation};
use super::translate::Translator;
use bifrost::{Clause, ClauseError, Flow, Instruction, Op, Source, Tuple, Uniform, WORD_BYTES, uniform};
use std::collections::{BTreeMap, HashMap};

/// Maximum number of clauses of a program. Compilers make some thousand at most.
const MAX_CLAUSES: usize = 1 << 16;

/// Where a lane goes after a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Successor {
    /// It ends.
    End,
    /// To the clause with this number.
    To(u32),
}

/// A clause with where its lanes go.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub block: Block,
    /// Lanes that take no branch.
    pub fallthrough: Successor,
    /// Lanes that take the branch, if there is one.
    pub branch: Successor,
}

/// A translated shader. Clauses stand in the order of their addresses.
#[derive(Debug)]
pub(crate) struct Program {
    pub nodes: Vec<Node>,
    /// The clause at which threads begin.
    pub entry: u32,
    /// Words of constants and uniforms, from the first place of constants on.
    pub constants: Vec<u32>,
}

/// Why a shader cannot run.
#[derive(Debug)]
pub(crate) enum ProgramLoadError<E> {
    /// Its code cannot be fetched, and all of it that can be is known; or it may not be read any further.
    Fetch(E),
    /// Something in it is unknown: every clause that can be reached was looked at.
    Unknown(Vec<UnknownOperation>),
}

/// Why a clause could not be unpacked.
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
    /// Reads and translates the shader that begins at `entry`.
    ///
    /// `pay` is asked before each clause; what it answers ends the reading at once. A clause that cannot be fetched
    /// ends only its way, so that all that is unknown is found: a shader that holds such a thing may lead, as far as it
    /// is understood, to where no code is.
    pub(crate) fn load<E>(
        entry: u64,
        given: &ShaderInputs,
        mut pay: impl FnMut() -> Result<(), E>,
        mut fetch: impl FnMut(u64) -> Result<[u8; WORD_BYTES], E>,
    ) -> Result<Self, ProgramLoadError<E>> {
        let mut translator = Translator::new(given);
        let mut blocks: BTreeMap<u64, Block> = BTreeMap::new();
        let mut unknown = Vec::new();
        let mut gone = None;
        let mut seen: std::collections::HashSet<u64> = [entry].into();
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
            let clause = match Clause::decode(at, word) {
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
            let mut go = |to: u64| {
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
                    // What comes after may hold more that is unknown.
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

    fn link(entry: u64, blocks: BTreeMap<u64, Block>, constants: Vec<u32>) -> Self {
        let numbers: HashMap<u64, u32> = (0u32..).zip(blocks.keys()).map(|(n, at)| (*at, n)).collect();
        let way = |to: Option<u64>| {
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

/// Addresses that lanes go to when they take no branch, and when they do.
fn find_successors(block: &Block) -> (Option<u64>, Option<u64>) {
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

/// Addresses that lanes may go to from a clause that was not translated, as far as its branches are understood. Bits
/// that are no operation may be a branch; they are taken for none.
fn find_unknown_successors(clause: &Clause) -> Vec<u64> {
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
    to.extend(through.then(|| clause.address.wrapping_add(clause.bytes())));
    to
}

/// Where a branch leads: its last operand, when that is relative to the clause.
fn branch_target(clause: &Clause, t: &Tuple, branch: &Instruction) -> Option<u64> {
    let Some(Source::Uniform { high }) = branch.source(branch.source_count().checked_sub(1)?) else {
        return None;
    };
    let Uniform::Constant { index, low } = uniform(t.registers.uniform) else {
        return None;
    };
    let by = clause.constants.get(usize::from(index))?.offset(low, high)?;
    Some(clause.address.wrapping_add_signed(by))
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
