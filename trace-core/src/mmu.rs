//! Page tables: one generic walker, and the entries of the formats that GPU families have.
//!
//! Each format has four levels of 512 entries of eight bytes. The formats differ in the type bits of a leaf and in the
//! encoding of rights; see [`PageTableFormat`]. All functions work on any memory that can return an aligned 64-bit word: a
//! recording, a plan's pages, a software GPU's memory.

mod analysis;
mod format;
mod leaf;
mod tally;
#[cfg(test)]
mod tests;
mod walk;

pub use analysis::{
    ContentHoleFinder, DoubleMapping, MappedPages, PageSpan, PagesWithoutContent, Scan, content_frames,
    count_mapped_pages, find_double_mappings, find_pages_without_content, scan,
};
pub use format::{
    AARCH64_4K, EntryKind, INVALID, LEVELS, MALI_LPAE, PAGE_BYTES, PageTableFormat, VA_BITS, encode_leaf, encode_table,
    entry_address, entry_attr_index, entry_bits, entry_kind, entry_rights, has_access_flag, index_at,
    page_table_format, root_from_register, root_register, span_bytes,
};
pub use leaf::{Leaf, Rights};
pub use tally::{Alias, MappingTally, tally};
pub use walk::{
    MAX_LEAVES, MAX_TABLES, Mapping, MmuError, PhysMemory, TableItem, TableRef, Walk, WalkFault, WalkStep,
    for_each_leaf, for_each_table, mappings, translate, visit_all, walk,
};
