//! The shared helpers of a text, by name: emitted only if a function calls them.

use crate::values::{MemoryId, TableId};

/// A helper function of the text. Their order is that of emission: none calls a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Helper {
    /// Zeros of a range of pages.
    Zero(MemoryId),
    /// `memory.grow`.
    Grow(MemoryId),
    /// `memory.fill`.
    Fill(MemoryId),
    /// `memory.copy`, to the first memory from the second.
    Copy(MemoryId, MemoryId),
    /// `memory.init` and active data segments.
    Init(MemoryId),
    /// `table.copy`, to the first table from the second.
    TableCopy(TableId, TableId),
    /// `table.init` and active element segments.
    TableInit(TableId),
}

impl Helper {
    /// Returns the name in the text.
    pub fn name(&self) -> String {
        match self {
            Self::Zero(memory) => format!("k_zero_{}", memory.0),
            Self::Grow(memory) => format!("k_grow_{}", memory.0),
            Self::Fill(memory) => format!("k_fill_{}", memory.0),
            Self::Copy(to, from) => format!("k_copy_{}_{}", to.0, from.0),
            Self::Init(memory) => format!("k_init_{}", memory.0),
            Self::TableCopy(to, from) => format!("k_table_copy_{}_{}", to.0, from.0),
            Self::TableInit(table) => format!("k_table_init_{}", table.0),
        }
    }
}
