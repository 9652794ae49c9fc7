//! Device memory: a table of the ranges that the device can access, and the location of their bytes in this process.

pub mod allocation;
pub mod arrays;
pub mod host;
mod piece;
pub mod queries;
mod table;
pub mod view;
pub mod virtual_memory;

pub use table::{Kind, Ranges, Span, find_containing, forget, ranges, spans};

/// Granularity of addresses of `cuMemAddressReserve` and memory of `cuMemCreate`, bytes.
pub const GRANULE: u64 = 2 << 20;
