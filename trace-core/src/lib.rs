//! The core of Kinescope: recordings, and everything that can be computed from them.
//!
//! This crate has no code for devices, windows or sockets. A [`recording::Recording`] holds what happened; the other
//! modules read it, write it or analyze it.

pub mod addresses;
pub mod api_trace;
pub mod channel_names;
pub mod check;
pub mod container;
pub mod diff;
pub mod driver_trace;
pub mod edit;
pub mod encode;
pub mod families;
pub mod filter;
pub mod finding;
mod ids;
pub mod json_forms;
pub mod memory;
pub mod mmu;
pub mod page_table_format;
pub mod progress;
pub mod ranges;
pub mod recording;
pub mod registers;
pub mod screen;
pub mod shader_code;
pub mod timeline;
pub mod trim;
pub mod unfinished_files;
pub mod values;
pub mod xref;

#[cfg(test)]
mod test_recordings;

pub use ids::{BusAddr, GpuVa, PhysAddr, RegOffset};
pub use recording::Recording;

/// Size of a page image, bytes, and of the smallest page of any page-table format.
pub const PAGE_SIZE: usize = 4096;
