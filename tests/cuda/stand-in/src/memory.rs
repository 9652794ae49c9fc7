//! Device memory: a table of the ranges that the device can access, and the location of their bytes in this process.

pub mod allocation;
pub mod arrays;
pub mod piece;
pub mod table;
pub mod view;

pub use allocation::forget;

/// Granularity of addresses of `cuMemAddressReserve` and memory of `cuMemCreate`, bytes.
pub const GRANULE: u64 = 2 << 20;
