//! The device's memory: pieces of the process's own, under addresses that the program cannot reach by itself.

pub mod allocation;
mod arena;
pub mod host;
mod mapping;
mod places;
mod process;
pub mod ranges;
mod spots;
mod table;
mod view;
pub mod virtual_memory;

pub use process::is_readable;
pub use spots::{Want, copy, fill, is_pinned, of_driver, read_now, spots};
pub use view::View;

use crate::Answer;
use crate::codes::OUT_OF_MEMORY;
use crate::device::MEMORY;
use std::sync::atomic::{AtomicU64, Ordering};

/// What physical memory comes in.
pub const GRANULE: u64 = 2 << 20;

/// Bytes of the device's memory that are in use.
static USED: AtomicU64 = AtomicU64::new(0);

/// A part of the device's memory, in use until it is dropped.
pub struct Charge(u64);

impl Charge {
    /// Takes so many bytes, if the device has them.
    pub fn take(bytes: u64) -> Answer<Self> {
        let take = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= MEMORY);
        USED.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).map_err(|_| OUT_OF_MEMORY)?;
        Ok(Self(bytes))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        USED.fetch_sub(self.0, Ordering::AcqRel);
    }
}

/// Bytes that are free.
pub fn free_bytes() -> u64 {
    MEMORY.saturating_sub(USED.load(Ordering::Acquire))
}

/// Forgets all memory that belongs to the context that ends.
pub fn forget() {
    table::forget_all_but_mapped();
    arena::forget();
}
