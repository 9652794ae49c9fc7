//! Which locals live at the stops of a resumable function: one backward pass over its instructions.

use wasmparser::Operator;

use crate::error::TranslateError;
use crate::limits::{MAX_LIVE_LOCALS, MAX_LIVE_WORK};

/// A set of locals.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct LocalSet {
    words: Vec<u64>,
}

impl LocalSet {
    fn new(locals: usize) -> Self {
        Self {
            words: vec![0; locals.div_ceil(64)],
        }
    }

    fn insert(&mut self, local: u32) {
        if let Some(word) = self.words.get_mut(local as usize / 64) {
            *word |= 1 << (local % 64);
        }
    }

    fn remove(&mut self, local: u32) {
        if let Some(word) = self.words.get_mut(local as usize / 64) {
            *word &= !(1 << (local % 64));
        }
    }

    fn union(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    fn list(&self) -> Vec<u32> {
        let mut locals = Vec::new();
        for (base, word) in (0u32..).step_by(64).zip(&self.words) {
            let mut rest = *word;
            while rest != 0 {
                locals.push(base + rest.trailing_zeros());
                rest &= rest - 1;
            }
        }
        locals
    }
}

/// A block during the backward pass.
struct Open {
    /// Live at the target of branches to the block.
    target: LocalSet,
    /// Live at the target of branches to this block or one around it.
    targets: LocalSet,
    /// Live after the block.
    after: LocalSet,
    /// Live at the start of the `else` arm, once it has been passed.
    else_start: Option<LocalSet>,
}

/// Returns the live locals at each stop: for index `i` of an instruction, those that live after it if it is a call,
/// and those that live at the first instruction inside if it is a loop. Other instructions have no entry.
///
/// `ends` has the index of the matching `end` for each block, loop and `if`.
pub(crate) fn live_locals(
    operators: &[(Operator<'_>, u64)],
    ends: &[u32],
    locals: usize,
) -> Result<Vec<Option<Vec<u32>>>, TranslateError> {
    let work = operators.len().saturating_mul(locals.div_ceil(64));
    if work > MAX_LIVE_WORK {
        return Err(TranslateError::Limit {
            what: "instructions times locals of a resumable function",
            count: work as u64,
            limit: MAX_LIVE_WORK as u64,
        });
    }
    let starts = starts(operators, ends);
    let mut headers: Vec<Option<LocalSet>> = vec![None; operators.len()];
    let mut stops = vec![None; operators.len()];
    // The first pass assumes that each local that a loop reads lives at its header; the second uses the first's sets.
    for last in [false, true] {
        let mut total = 0usize;
        let mut live = LocalSet::new(locals);
        let mut open: Vec<Open> = vec![Open {
            target: live.clone(),
            targets: live.clone(),
            after: live.clone(),
            else_start: None,
        }];
        for (index, (operator, _)) in operators.iter().enumerate().rev() {
            match operator {
                Operator::End if index + 1 < operators.len() => {
                    let start = starts[index] as usize;
                    let target = if matches!(operators[start].0, Operator::Loop { .. }) {
                        match headers[start].take() {
                            Some(header) => header,
                            None => {
                                let mut header = live.clone();
                                for (inner, _) in &operators[start..index] {
                                    if let Operator::LocalGet { local_index } = inner {
                                        header.insert(*local_index);
                                    }
                                }
                                // Branches out of the loop: what lives at their targets lives in the loop.
                                if let Some(outer) = open.last() {
                                    header.union(&outer.targets);
                                }
                                header
                            }
                        }
                    } else {
                        live.clone()
                    };
                    let mut targets = target.clone();
                    if let Some(outer) = open.last() {
                        targets.union(&outer.targets);
                    }
                    open.push(Open {
                        target,
                        targets,
                        after: live.clone(),
                        else_start: None,
                    });
                }
                Operator::Else => {
                    if let Some(block) = open.last_mut() {
                        block.else_start = Some(std::mem::replace(&mut live, block.after.clone()));
                    }
                }
                Operator::Block { .. } => {
                    open.pop();
                }
                Operator::Loop { .. } => {
                    open.pop();
                    if last {
                        stops[index] = Some(list_live(&live, &mut total)?);
                    }
                    headers[index] = Some(live.clone());
                }
                Operator::If { .. } => {
                    if let Some(block) = open.pop() {
                        live.union(block.else_start.as_ref().unwrap_or(&block.after));
                    }
                }
                Operator::Br { relative_depth } => live = target(&open, *relative_depth),
                Operator::BrIf { relative_depth } => live.union(&target(&open, *relative_depth)),
                Operator::BrTable { targets } => {
                    live = target(&open, targets.default());
                    let mut seen: Vec<u32> = targets.targets().filter_map(Result::ok).collect();
                    seen.sort_unstable();
                    seen.dedup();
                    for depth in seen {
                        live.union(&target(&open, depth));
                    }
                }
                Operator::Return | Operator::Unreachable => live = LocalSet::new(locals),
                Operator::LocalGet { local_index } => live.insert(*local_index),
                Operator::LocalSet { local_index } | Operator::LocalTee { local_index } => live.remove(*local_index),
                Operator::Call { .. } | Operator::CallIndirect { .. } if last => {
                    stops[index] = Some(list_live(&live, &mut total)?);
                }
                _ => {}
            }
        }
    }
    Ok(stops)
}

fn target(open: &[Open], depth: u32) -> LocalSet {
    let index = open.len().checked_sub(depth as usize + 1);
    index
        .and_then(|index| open.get(index))
        .map(|block| block.target.clone())
        .unwrap_or_default()
}

fn list_live(live: &LocalSet, total: &mut usize) -> Result<Vec<u32>, TranslateError> {
    let list = live.list();
    *total += list.len();
    if *total > MAX_LIVE_LOCALS {
        return Err(TranslateError::Limit {
            what: "live locals of a function's stops",
            count: *total as u64,
            limit: MAX_LIVE_LOCALS as u64,
        });
    }
    Ok(list)
}

/// Returns the index of the start of the block that each `end` closes.
fn starts(operators: &[(Operator<'_>, u64)], ends: &[u32]) -> Vec<u32> {
    let mut starts = vec![0; operators.len()];
    for (index, (operator, _)) in (0u32..).zip(operators) {
        if matches!(
            operator,
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. }
        ) && let Some(start) = ends.get(index as usize).and_then(|end| starts.get_mut(*end as usize))
        {
            *start = index;
        }
    }
    starts
}
