//! What the body of a function uses: one pass over its instructions.

use wasmparser::{BlockType, Operator};

use crate::error::TranslateError;
use crate::limits::{MAX_BRANCH_TARGETS, MAX_LOOP_NESTING, MAX_NESTING};
use crate::link::{Instance, SignatureId};
use crate::module::{body_reader, value_type};
use crate::values::{FunctionId, MemoryId};

/// Facts of one function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scan {
    /// Functions that it calls directly, without duplicates.
    pub callees: Vec<FunctionId>,
    /// Signatures of its indirect calls, without duplicates.
    pub indirect: Vec<SignatureId>,
    /// It has a loop.
    pub loops: bool,
    /// An instruction can trap.
    pub traps: bool,
    /// It grows a memory.
    pub grows: bool,
    /// Memories that it loads from, stores to or measures, without duplicates.
    pub memories: Vec<MemoryId>,
    /// An instruction changes a table.
    pub changes_tables: bool,
    /// Data segments of `memory.init` and `data.drop`.
    pub data_segments: Vec<u32>,
    /// Element segments of `table.init` and `elem.drop`.
    pub element_segments: Vec<u32>,
}

fn add<T: PartialEq>(list: &mut Vec<T>, item: T) {
    // Most functions call few others; a linear search of the last ones is enough, graphs remove duplicates again.
    if !list.iter().rev().take(64).any(|known| *known == item) {
        list.push(item);
    }
}

/// Scans a defined function.
pub(crate) fn scan(instance: &Instance, defined: u32) -> Result<Scan, TranslateError> {
    let invalid = |error: wasmparser::Error| TranslateError::Invalid {
        module: instance.module.name.clone(),
        offset: error.offset(),
        message: error.message().to_owned(),
    };
    let mut scan = Scan::default();
    let Some(body) = body_reader(&instance.module, defined as usize) else {
        return Ok(scan);
    };
    let mut reader = body.get_operators_reader().map_err(invalid)?;
    let mut blocks: Vec<bool> = Vec::new();
    let mut loops = 0usize;
    while !reader.eof() {
        let offset = reader.original_position();
        let operator = reader.read().map_err(invalid)?;
        if let Operator::Block { blockty } | Operator::Loop { blockty } | Operator::If { blockty } = &operator
            && let BlockType::Type(ty) = blockty
            && value_type(*ty).is_none()
        {
            return Err(TranslateError::Unsupported {
                module: instance.module.name.clone(),
                offset,
                feature: "a block with a result that is no number",
            });
        }
        match &operator {
            Operator::Block { .. } | Operator::If { .. } => blocks.push(false),
            Operator::Loop { .. } => {
                blocks.push(true);
                loops += 1;
                scan.loops = true;
            }
            Operator::End => loops -= usize::from(blocks.pop().unwrap_or(false)),
            Operator::Call { function_index } => {
                add(&mut scan.callees, instance.functions[*function_index as usize]);
            }
            Operator::CallIndirect { type_index, .. } => {
                scan.traps = true;
                add(&mut scan.indirect, instance.types[*type_index as usize]);
            }
            Operator::BrTable { targets } if targets.len() > MAX_BRANCH_TARGETS => {
                return Err(TranslateError::Limit {
                    what: "targets of a br_table",
                    count: u64::from(targets.len()),
                    limit: u64::from(MAX_BRANCH_TARGETS),
                });
            }
            Operator::MemoryGrow { mem } => {
                scan.grows = true;
                add(&mut scan.memories, instance.memories[*mem as usize]);
            }
            Operator::MemorySize { mem } | Operator::MemoryFill { mem } => {
                scan.traps = true;
                add(&mut scan.memories, instance.memories[*mem as usize]);
            }
            Operator::MemoryCopy { dst_mem, src_mem } => {
                scan.traps = true;
                add(&mut scan.memories, instance.memories[*dst_mem as usize]);
                add(&mut scan.memories, instance.memories[*src_mem as usize]);
            }
            Operator::MemoryInit { data_index, mem } => {
                scan.traps = true;
                add(&mut scan.memories, instance.memories[*mem as usize]);
                add(&mut scan.data_segments, *data_index);
            }
            Operator::DataDrop { data_index } => add(&mut scan.data_segments, *data_index),
            Operator::TableInit { elem_index, .. } => {
                scan.traps = true;
                scan.changes_tables = true;
                add(&mut scan.element_segments, *elem_index);
            }
            Operator::ElemDrop { elem_index } => add(&mut scan.element_segments, *elem_index),
            Operator::TableCopy { .. } => {
                scan.traps = true;
                scan.changes_tables = true;
            }
            Operator::Unreachable
            | Operator::I32DivS
            | Operator::I32DivU
            | Operator::I32RemS
            | Operator::I32RemU
            | Operator::I64DivS
            | Operator::I64DivU
            | Operator::I64RemS
            | Operator::I64RemU
            | Operator::I32TruncF32S
            | Operator::I32TruncF32U
            | Operator::I32TruncF64S
            | Operator::I32TruncF64U
            | Operator::I64TruncF32S
            | Operator::I64TruncF32U
            | Operator::I64TruncF64S
            | Operator::I64TruncF64U => scan.traps = true,
            other => {
                if let Some(access) = crate::access::Access::decode(other) {
                    scan.traps = true;
                    add(&mut scan.memories, instance.memories[access.memory as usize]);
                }
            }
        }
        for (what, count, limit) in [
            ("nesting of blocks", blocks.len(), MAX_NESTING),
            ("nesting of loops", loops, MAX_LOOP_NESTING),
        ] {
            if count > limit {
                return Err(TranslateError::Limit {
                    what,
                    count: count as u64,
                    limit: limit as u64,
                });
            }
        }
    }
    Ok(scan)
}
