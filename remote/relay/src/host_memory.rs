//! The program's host memory as both ends know it from its requests: allocations, captures, and exposed memory.

use remote_calls::{HandleNumber, MessageError};
use std::collections::{BTreeMap, HashSet};

/// Maximum number of allocations. Each takes memory here.
const MAX_ALLOCATIONS: usize = 1 << 20;

/// An allocation in the window.
#[derive(Clone, Copy, Debug)]
struct Allocation {
    bytes: u64,
    /// Kernels use it by its address.
    is_exposed: bool,
    /// A copy transferred bytes of it.
    is_transferred: bool,
}

/// The program's host memory.
#[derive(Debug)]
pub struct HostMemory {
    window_address: u64,
    window_bytes: u64,
    allocations: BTreeMap<u64, Allocation>,
    /// Streams that are being captured; default streams of threads with their thread.
    captures: HashSet<(u32, HandleNumber)>,
}

impl HostMemory {
    /// Creates the state for a window at an address of the program.
    pub fn new(window_address: u64, window_bytes: u64) -> Self {
        Self {
            window_address,
            window_bytes,
            allocations: BTreeMap::new(),
            captures: HashSet::new(),
        }
    }

    /// Returns whether there is no allocation.
    pub fn is_empty(&self) -> bool {
        self.allocations.is_empty()
    }

    /// Returns the offset in the window of a range of addresses, if all of it is in the window.
    pub fn offset_of(&self, at: u64, bytes: u64) -> Option<u64> {
        let offset = at.checked_sub(self.window_address)?;
        (offset.checked_add(bytes)? <= self.window_bytes).then_some(offset)
    }

    /// Returns the allocation that an offset in the window is in, by its first offset.
    pub fn allocation_of(&self, offset: u64) -> Option<u64> {
        let (first, allocation) = self.allocations.range(..=offset).next_back()?;
        (offset - first < allocation.bytes).then_some(*first)
    }

    /// Returns the allocation that an address is in, by its first offset.
    pub fn allocation_at(&self, at: u64) -> Option<u64> {
        self.allocation_of(self.offset_of(at, 0)?)
    }

    /// Returns the size of an allocation, bytes, and whether a copy transferred bytes of it.
    pub fn allocation(&self, first: u64) -> Option<(u64, bool)> {
        let allocation = self.allocations.get(&first)?;
        Some((allocation.bytes, allocation.is_transferred))
    }

    /// Notes an allocation.
    ///
    /// # Errors
    /// If it is not in the window, or there are too many.
    pub fn allocate(&mut self, offset: u64, bytes: u64) -> Result<(), MessageError> {
        let is_inside = offset.checked_add(bytes).is_some_and(|end| end <= self.window_bytes);
        if !is_inside || self.allocations.len() >= MAX_ALLOCATIONS {
            return Err(MessageError::Unknown {
                what: "the range of host memory",
                value: offset,
                at: 0,
            });
        }
        let allocation = Allocation {
            bytes,
            is_exposed: false,
            is_transferred: false,
        };
        self.allocations.insert(offset, allocation);
        Ok(())
    }

    /// Forgets an allocation. Returns its size, bytes.
    pub fn free(&mut self, offset: u64) -> Option<u64> {
        self.allocations.remove(&offset).map(|allocation| allocation.bytes)
    }

    /// Notes that a copy transfers bytes at an offset.
    pub fn note_transfer(&mut self, offset: u64) {
        if let Some(first) = self.allocation_of(offset)
            && let Some(allocation) = self.allocations.get_mut(&first)
        {
            allocation.is_transferred = true;
        }
    }

    /// Notes that kernels use an allocation. Returns whether that is new.
    pub fn expose(&mut self, first: u64) -> bool {
        self.allocations
            .get_mut(&first)
            .is_some_and(|allocation| !std::mem::replace(&mut allocation.is_exposed, true))
    }

    /// Returns whether an offset is in an allocation that kernels use.
    pub fn is_exposed(&self, offset: u64) -> bool {
        let first = self.allocation_of(offset);
        first
            .and_then(|first| self.allocations.get(&first))
            .is_some_and(|allocation| allocation.is_exposed)
    }

    fn capture_key(thread: u32, stream: HandleNumber) -> (u32, HandleNumber) {
        match stream == HandleNumber::STREAM_PER_THREAD {
            true => (thread, stream),
            false => (0, stream),
        }
    }

    /// Notes that a stream is being captured.
    pub fn begin_capture(&mut self, thread: u32, stream: HandleNumber) {
        if self.captures.len() < MAX_ALLOCATIONS {
            self.captures.insert(Self::capture_key(thread, stream));
        }
    }

    /// Notes the end of a capture.
    pub fn end_capture(&mut self, thread: u32, stream: HandleNumber) {
        self.captures.remove(&Self::capture_key(thread, stream));
    }

    /// Returns whether a stream is being captured.
    pub fn is_capturing(&self) -> bool {
        !self.captures.is_empty()
    }
}
