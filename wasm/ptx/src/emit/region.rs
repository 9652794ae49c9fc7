//! What is known in a region of straight code: tested addresses, and the ways into its second copy.

use wasmparser::Operator;

use super::value::{Operand, Value};
use crate::values::MemoryId;

/// An address that was tested in the current region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    pub operand: Operand,
    pub memory: MemoryId,
    /// The address is a multiple of it.
    pub align: u32,
    /// So many bytes from the address on are inside.
    pub need: u64,
    /// Register with the address of the byte in the area, if a constant distance leads from it to each byte.
    pub address: Option<u32>,
}

/// A way into the second copy of the region.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Index of the instruction that is done there.
    pub index: usize,
    pub label: u32,
    /// The stack before the instruction.
    pub stack: Vec<Value>,
}

/// The current region.
#[derive(Clone, Debug, Default)]
pub(crate) struct Region {
    pub entries: Vec<Entry>,
    pub guards: Vec<Guard>,
    /// The second copy is written: accesses take any address.
    pub is_second: bool,
}

/// Returns whether an instruction has one successor and keeps the sizes of memories.
pub(crate) fn is_straight(operator: &Operator<'_>) -> bool {
    !matches!(
        operator,
        Operator::Unreachable
            | Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::Else
            | Operator::End
            | Operator::Br { .. }
            | Operator::BrIf { .. }
            | Operator::BrTable { .. }
            | Operator::Return
            | Operator::Call { .. }
            | Operator::CallIndirect { .. }
            | Operator::MemoryGrow { .. }
            | Operator::MemoryFill { .. }
            | Operator::MemoryCopy { .. }
            | Operator::MemoryInit { .. }
            | Operator::DataDrop { .. }
            | Operator::TableInit { .. }
            | Operator::TableCopy { .. }
            | Operator::ElemDrop { .. }
    )
}
