//! Page tables: one generic walker and a table of formats.
//!
//! Both formats of Mali job-manager GPUs have four levels of 512 entries of eight bytes. They differ in the type bits
//! of a leaf and in the encoding of rights. All functions work on any memory that can return an aligned 64-bit word: a
//! recording, a plan's pages, a software GPU's memory.

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

/// Memory with page tables.
pub trait PhysMemory {
    /// Returns the little-endian 64-bit word at `at`, a multiple of 8, or `None` without content.
    fn read_u64(&self, at: PhysAddr) -> Option<u64>;

    /// Returns the whole image of a frame (address / 4096), if the memory can lend it: a faster way to 512 entries.
    /// `None` has no meaning: the caller then reads single words.
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

/// Access rights of the GPU to a mapped page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rights {
    /// Readable.
    pub read: bool,
    /// Writable.
    pub write: bool,
    /// Executable as shader code.
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
    /// Writes three letters, for example `rw-`.
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
    /// Its physical address.
    pub pa: PhysAddr,
    /// Size in bytes: 4 KiB, 2 MiB or 1 GiB.
    pub bytes: u64,
    /// Access rights of the GPU.
    pub rights: Rights,
    /// Index into the memory attributes of the address space, 0 to 7.
    pub attr_index: u8,
    /// The raw entry in the table.
    pub raw: u64,
    /// Level of the entry, 0 (top) to 3.
    pub level: u8,
}

impl Leaf {
    /// Returns the physical address of an address in this leaf, or `None` if it is outside.
    #[must_use]
    pub fn target(&self, va: GpuVa) -> Option<PhysAddr> {
        let at = va.0.checked_sub(self.va.0).filter(|d| *d < self.bytes)?;
        self.pa.checked_add(at)
    }
}
