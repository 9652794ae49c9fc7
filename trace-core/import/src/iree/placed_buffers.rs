//! The addresses of buffers. Files of HAL replays have numbers of buffers alone, so each buffer gets an address.

use super::commands::BufferReference;
use std::collections::BTreeMap;
use trace_core::recording::CallWindow;
use trace_core::{GpuVa, PAGE_SIZE};

/// Address of the first buffer, and the end of addresses.
const FIRST_ADDRESS: u64 = 1 << 32;
const END_ADDRESS: u64 = 1 << 46;
/// Maximum number of buffers.
const MAX_BUFFERS: usize = 1 << 18;

/// A buffer with its made-up address.
#[derive(Clone, Copy)]
pub(super) struct PlacedBuffer {
    pub(super) at: u64,
    pub(super) bytes: u64,
}

/// The buffers of a recording by their numbers.
pub(super) struct PlacedBuffers {
    buffers: BTreeMap<u64, PlacedBuffer>,
    next: u64,
}

impl PlacedBuffers {
    pub(super) fn new() -> Self {
        Self {
            buffers: BTreeMap::new(),
            next: FIRST_ADDRESS,
        }
    }

    /// Returns the buffer of a number, or `None` if it has no address.
    pub(super) fn get(&self, buffer: u64) -> Option<PlacedBuffer> {
        self.buffers.get(&buffer).copied()
    }

    /// Returns the buffer of a number, and gives it an address if it has none.
    pub(super) fn place(&mut self, buffer: u64, bytes: u64) -> Option<PlacedBuffer> {
        if let Some(known) = self.get(buffer) {
            return Some(known);
        }
        let end = self
            .next
            .checked_add(bytes)?
            .checked_next_multiple_of(PAGE_SIZE as u64)?;
        if buffer == 0 || end > END_ADDRESS || self.buffers.len() >= MAX_BUFFERS {
            return None;
        }
        let placed = PlacedBuffer { at: self.next, bytes };
        self.buffers.insert(buffer, placed);
        // A page between two buffers belongs to none.
        self.next = end + PAGE_SIZE as u64;
        Some(placed)
    }

    /// Returns the address of a range and the number of its bytes in the buffer, or `None` if no buffer holds it.
    pub(super) fn range(&self, reference: BufferReference) -> Option<(GpuVa, u64)> {
        let buffer = self.get(reference.buffer)?;
        let left = buffer.bytes.checked_sub(reference.offset)?;
        Some((GpuVa::new(buffer.at + reference.offset), reference.bytes.min(left)))
    }

    /// Returns the range of all addresses.
    pub(super) fn window(&self) -> CallWindow {
        CallWindow {
            base: GpuVa::new(FIRST_ADDRESS),
            bytes: self.next - FIRST_ADDRESS,
        }
    }
}
