//! The device's memory: a table of what the device can reach, which ranges of addresses they are, and where their bytes
//! lie in this process.

pub mod allocation;
pub mod arrays;
pub mod host;
mod piece;
pub mod pools;
pub mod queries;
mod table;
pub mod view;
pub mod virtual_memory;

pub use table::{Kind, Ranges, Span, find_containing, forget, ranges, spans};

/// What addresses and memory of `cuMemAddressReserve` and `cuMemCreate` are multiples of.
pub const GRANULE: u64 = 2 << 20;
