//! Loads and stores of a program.

use wasmparser::{MemArg, MemArgTarget, Operator};

use crate::values::ValueType;

/// A load or a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// Index in the module.
    pub memory: u32,
    pub offset: u32,
    pub ty: ValueType,
    pub bytes: u32,
    pub signed: bool,
    pub store: bool,
}

impl Access {
    /// Returns the access of a load or store instruction.
    pub fn decode(operator: &Operator<'_>) -> Option<Self> {
        use ValueType::{F32, F64, I32, I64};
        let load = |memarg: &MemArg, ty, bytes, signed| Self {
            // Validation refuses arrays.
            memory: match memarg.target {
                MemArgTarget::Memory(memory) => memory,
                MemArgTarget::Array(_) => 0,
            },
            offset: memarg.offset as u32,
            ty,
            bytes,
            signed,
            store: false,
        };
        let store = |memarg: &MemArg, ty, bytes| Self {
            store: true,
            ..load(memarg, ty, bytes, false)
        };
        Some(match operator {
            Operator::I32Load { memarg } => load(memarg, I32, 4, false),
            Operator::I64Load { memarg } => load(memarg, I64, 8, false),
            Operator::F32Load { memarg } => load(memarg, F32, 4, false),
            Operator::F64Load { memarg } => load(memarg, F64, 8, false),
            Operator::I32Load8S { memarg } => load(memarg, I32, 1, true),
            Operator::I32Load8U { memarg } => load(memarg, I32, 1, false),
            Operator::I32Load16S { memarg } => load(memarg, I32, 2, true),
            Operator::I32Load16U { memarg } => load(memarg, I32, 2, false),
            Operator::I64Load8S { memarg } => load(memarg, I64, 1, true),
            Operator::I64Load8U { memarg } => load(memarg, I64, 1, false),
            Operator::I64Load16S { memarg } => load(memarg, I64, 2, true),
            Operator::I64Load16U { memarg } => load(memarg, I64, 2, false),
            Operator::I64Load32S { memarg } => load(memarg, I64, 4, true),
            Operator::I64Load32U { memarg } => load(memarg, I64, 4, false),
            Operator::I32Store { memarg } => store(memarg, I32, 4),
            Operator::I64Store { memarg } => store(memarg, I64, 8),
            Operator::F32Store { memarg } => store(memarg, F32, 4),
            Operator::F64Store { memarg } => store(memarg, F64, 8),
            Operator::I32Store8 { memarg } => store(memarg, I32, 1),
            Operator::I32Store16 { memarg } => store(memarg, I32, 2),
            Operator::I64Store8 { memarg } => store(memarg, I64, 1),
            Operator::I64Store16 { memarg } => store(memarg, I64, 2),
            Operator::I64Store32 { memarg } => store(memarg, I64, 4),
            _ => return None,
        })
    }
}
