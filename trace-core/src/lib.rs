//! What a recording is and everything that can be asked of one.
//!
//! This crate knows no device, no window and no socket.
//! A [`recording::Recording`] holds what happened; the other modules read it, write it or ask it questions.

pub mod addresses;
pub mod calls;
pub mod check;
pub mod container;
pub mod diff;
pub mod edit;
pub mod encode;
pub mod export;
pub mod filter;
pub mod import;
pub mod jobs;
pub mod memory;
pub mod mmu;
pub mod progress;
pub mod ranges;
pub mod recording;
pub mod registers;
pub mod screen;
pub mod timeline;
pub mod trim;
pub mod unfinished_files;
pub mod values;

#[cfg(test)]
mod test_recordings;

pub use recording::{GpuVa, PhysAddr, Recording, RegOffset};

/// Bytes in a page. Every page table format that this crate knows uses it, and page images are stored in it.
pub const PAGE_SIZE: usize = 4096;
