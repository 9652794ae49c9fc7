//! Page tables: one generic walker and a table of formats.
//!
//! Both formats of Mali job-manager GPUs have four levels of 512 entries of eight bytes; they differ in the type bits
//! of a leaf and in how rights are written. Everything here works on any memory that can give an aligned 64-bit word:
//! a recording, a plan's pages, a software GPU's memory.

mod analysis;
mod format;
mod tally;
#[cfg(test)]
mod tests;
mod walk;

pub use analysis::{
    ContentHoleFinder, DoubleMapping, MappedPages, PageSpan, PagesWithoutContent, Scan, content_frames,
    count_mapped_pages, find_double_mappings, find_pages_without_content, find_writable_code, scan,
};
pub use format::{
    EntryKind, INVALID, LEVELS, PAGE_BYTES, VA_BITS, encode_leaf, encode_table, entry_address, entry_attr_index,
    entry_bits, entry_kind, entry_rights, has_access_flag, index_at, root_from_register, root_register, span_bytes,
};
pub use tally::{Alias, MappingTally, tally};
pub use walk::{
    MAX_LEAVES, MAX_TABLES, Mapping, MmuError, TableItem, TableRef, Walk, WalkFault, WalkStep, for_each_leaf,
    for_each_table, mappings, translate, visit_all, walk,
};

use crate::recording::{GpuVa, MemoryView, Page, PhysAddr};
use serde::{Deserialize, Serialize};

/// Memory that page tables lie in.
pub trait PhysMemory {
    /// The little-endian 64-bit word at `at`, a multiple of 8; `None` without content.
    fn read_u64(&self, at: PhysAddr) -> Option<u64>;

    /// The whole image of a frame (address / 4096), where the memory can lend it: a faster way to 512 entries.
    /// `None` says nothing: the caller then reads word by word.
    fn table(&self, _frame: u64) -> Option<&Page> {
        None
    }
}

impl PhysMemory for MemoryView<'_> {
    fn read_u64(&self, at: PhysAddr) -> Option<u64> {
        MemoryView::read_u64(self, at)
    }

    fn table(&self, frame: u64) -> Option<&Page> {
        self.frame(frame)
    }
}

/// What the GPU may do with a mapped page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rights {
    /// May be read.
    pub read: bool,
    /// May be written.
    pub write: bool,
    /// May be fetched as shader code.
    pub execute: bool,
}

impl Rights {
    /// Read and write.
    pub const RW: Self = Self {
        read: true,
        write: true,
        execute: false,
    };
    /// Read only.
    pub const RO: Self = Self {
        read: true,
        write: false,
        execute: false,
    };
    /// Read and execute.
    pub const RX: Self = Self {
        read: true,
        write: false,
        execute: true,
    };
}

impl std::fmt::Display for Rights {
    /// Three letters, `rw-` for one.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let c = |on: bool, c: char| if on { c } else { '-' };
        write!(f, "{}{}{}", c(self.read, 'r'), c(self.write, 'w'), c(self.execute, 'x'))
    }
}

/// A mapped page or block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// First address of the page or block.
    pub va: GpuVa,
    /// Where it lies.
    pub pa: PhysAddr,
    /// Size in bytes: 4 KiB, 2 MiB or 1 GiB.
    pub bytes: u64,
    /// What the GPU may do there.
    pub rights: Rights,
    /// Index into the memory attributes of the address space, 0 to 7.
    pub attr_index: u8,
    /// The entry as it stands in the table.
    pub raw: u64,
    /// Level of the entry, 0 (top) to 3.
    pub level: u8,
}

impl Leaf {
    /// Where an address of this leaf lies; `None` when it is not in the leaf.
    #[must_use]
    pub fn target(&self, va: GpuVa) -> Option<PhysAddr> {
        let at = va.0.checked_sub(self.va.0).filter(|d| *d < self.bytes)?;
        self.pa.checked_add(at)
    }
}
