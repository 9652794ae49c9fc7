//! Addresses for memory that the recording does not have: code, push buffers, descriptors, local memory.

use replay_engine::channel::{MemoryRanges, RING_REACH};
use trace_core::GpuVa;

/// Bytes of the area.
const AREA_BYTES: u64 = 8 << 30;

/// Addresses that are given out one after the other.
#[derive(Debug)]
pub(super) struct Area {
    start: u64,
    next: u64,
}

impl Area {
    /// Finds an area without memory in `ranges`, in reach of launch descriptors and ring entries, or returns `None` if there is none.
    pub fn find(ranges: &MemoryRanges) -> Option<Self> {
        // The last part stays free for the player.
        let candidates = (1..RING_REACH / AREA_BYTES - 1).rev().map(|n| n * AREA_BYTES);
        let mut free = candidates.filter(|va| !ranges.overlap(GpuVa::new(*va), AREA_BYTES));
        free.next().map(|start| Self { start, next: start })
    }

    /// Returns the address of `bytes` bytes with an alignment, which is a power of two, or `None` if no more are left.
    pub fn allocate(&mut self, bytes: u64, alignment: u64) -> Option<GpuVa> {
        let va = self.next.checked_next_multiple_of(alignment.max(1))?;
        let end = va.checked_add(bytes)?;
        if end > self.start + AREA_BYTES {
            return None;
        }
        self.next = end;
        Some(GpuVa::new(va))
    }

    /// Returns the first address and the number of bytes that were given out.
    pub fn used(&self) -> (GpuVa, u64) {
        (GpuVa::new(self.start), self.next - self.start)
    }

    /// Returns a range behind the area that stays without memory: first address and bytes.
    pub fn window(&self, number: u64) -> (u64, u64) {
        /// Bytes of the window of shared or of local memory.
        const WINDOW_BYTES: u64 = 1 << 32;
        // Windows are beyond the reach of rings, where no memory of a plan needs to be.
        (RING_REACH * 64 + number * WINDOW_BYTES, WINDOW_BYTES)
    }
}
