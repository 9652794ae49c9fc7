//! Allocation of the staging area in the order of use, without access to its memory.

use std::collections::VecDeque;

/// Alignment of allocated ranges, bytes: a cache line.
pub const STAGING_ALIGNMENT: u64 = 64;

/// An allocated range of the staging area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagingRange {
    /// Number for [`StagingAllocator::release`].
    pub ticket: u64,
    /// Offset in the staging area, bytes: a multiple of [`STAGING_ALIGNMENT`].
    pub offset: u64,
    /// Length, bytes, as it was requested.
    pub bytes: u64,
}

#[derive(Debug)]
struct Allocation {
    /// Position after the range.
    end: u64,
    is_released: bool,
}

/// A first-in, first-out allocator over the offsets `0..bytes`.
///
/// It fits ranges that are used for one copy each. Space becomes free when its range and all older ranges are released.
#[derive(Debug)]
pub struct StagingAllocator {
    /// Size that is allocated from, bytes: a multiple of the alignment.
    capacity: u64,
    /// Ranges from the oldest that is in use; their tickets are consecutive.
    allocations: VecDeque<Allocation>,
    first_ticket: u64,
    /// Position before the oldest range. Positions count on over the end of the area.
    tail: u64,
    /// Position after the newest range.
    head: u64,
}

impl StagingAllocator {
    /// Returns an allocator without ranges. Bytes after the last multiple of [`STAGING_ALIGNMENT`] are not used.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self {
            capacity: bytes - bytes % STAGING_ALIGNMENT,
            allocations: VecDeque::new(),
            first_ticket: 0,
            tail: 0,
            head: 0,
        }
    }

    /// Allocates a contiguous range, or returns `None` if there is no space for it now. An empty range takes
    /// [`STAGING_ALIGNMENT`] bytes.
    pub fn allocate(&mut self, bytes: u64) -> Option<StagingRange> {
        let size = bytes.max(1).checked_next_multiple_of(STAGING_ALIGNMENT)?;
        if size > self.capacity {
            return None;
        }
        let mut start = self.head;
        let left = self.capacity - start % self.capacity;
        if size > left {
            start = start.checked_add(left)?;
        }
        let end = start.checked_add(size)?;
        if end - self.tail > self.capacity {
            return None;
        }
        let ticket = self.first_ticket.checked_add(self.allocations.len() as u64)?;
        self.allocations.push_back(Allocation {
            end,
            is_released: false,
        });
        self.head = end;
        let offset = start % self.capacity;
        Some(StagingRange { ticket, offset, bytes })
    }

    /// Releases a range. Returns whether `ticket` was in use.
    ///
    /// Ranges may be released in any order. Each takes constant time on average.
    pub fn release(&mut self, ticket: u64) -> bool {
        let number = ticket
            .checked_sub(self.first_ticket)
            .and_then(|number| usize::try_from(number).ok());
        let Some(allocation) = number.and_then(|number| self.allocations.get_mut(number)) else {
            return false;
        };
        if allocation.is_released {
            return false;
        }
        allocation.is_released = true;
        while let Some(oldest) = self.allocations.pop_front_if(|oldest| oldest.is_released) {
            self.tail = oldest.end;
            self.first_ticket += 1;
        }
        if self.allocations.is_empty() {
            // The whole area is one range again, and positions stay small.
            (self.tail, self.head) = (0, 0);
        }
        true
    }

    /// Returns the number of bytes that are not free: ranges, their padding, and the end of the area where a range did
    /// not fit.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.head - self.tail
    }
}
