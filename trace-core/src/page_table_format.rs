//! Descriptions of page-table formats: levels, bits of entries, rights, attributes. A description is data, read from a
//! TOML file; the walker in [`crate::mmu`] takes any of them.
//!
//! The program embeds descriptions of several GPUs and CPUs, and reads those of users. The form of the files is
//! described in `docs/page-table-formats.md`.

mod compile;
mod described;
mod embedded;
mod error;
mod format;
mod raw;
mod table;
#[cfg(test)]
mod tests;

pub use described::DescribedFormat;
pub use embedded::{EmbeddedFormat, embedded_formats, find_embedded};
pub(crate) use embedded::{aarch64_4k, mali_lpae};
pub use error::FormatError;
pub use format::{AddressExtension, MAX_FORMAT_BYTES, MAX_INDEX_BITS, MAX_LEVELS, MemoryName, PageTableFormat};
pub use table::{BitPlacement, EntryField, EntryPart, EntryRule, RuleTarget, TableKind};
