//! Limits of a traversal of page tables.

/// Maximum number of tables in a traversal.
pub const MAX_TABLES: usize = 1 << 16;
/// Maximum number of entries with content in a traversal.
pub const MAX_ENTRIES: u64 = 1 << 27;
/// Maximum number of pages and blocks in a traversal: 32 GiB if all are 4 KiB pages. One page image can be in any
/// number of frames, so the file size is no limit.
pub const MAX_LEAVES: u64 = 1 << 23;
