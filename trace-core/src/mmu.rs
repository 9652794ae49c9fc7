//! Page tables: one walker for all formats, and the entries that the program writes.
//!
//! The walker takes the description of a format ([`crate::page_table_format`]). All functions work on any memory that can
//! return an aligned 64-bit word: a recording, a plan's pages, a software GPU's memory.

mod analysis;
mod convert;
mod fault;
mod leaf;
mod limits;
mod mali;
mod mapping;
mod tally;
#[cfg(test)]
mod tests;
mod visit;
mod walk;

pub use analysis::{
    ContentHoleFinder, DoubleMapping, MappedPages, PageSpan, PagesWithoutContent, Scan, content_frames,
    count_mapped_pages, find_double_mappings, find_pages_without_content, scan,
};
pub use convert::{ConversionError, convert_attribute, convert_attributes, convert_entry};
pub use fault::{MmuError, WalkFault};
pub use leaf::{Leaf, Rights};
pub use limits::{MAX_ENTRIES, MAX_LEAVES, MAX_TABLES};
pub use mali::{
    INVALID, LEVELS, PAGE_BYTES, VA_BITS, encode_leaf, encode_table, entry_address, entry_attr_index, entry_kind,
    entry_rights, has_access_flag, index_at, root_from_register, root_register, span_bytes,
};
pub use mapping::{Mapping, mappings};
pub use tally::{Alias, MappingTally, tally};
pub use visit::{TableItem, TableRef, for_each_leaf, for_each_table, visit_all};
pub use walk::{EntryKind, PhysMemory, Walk, WalkStep, decode_entry, entry_fields, other_bits, translate, walk};
