//! The staging area: its first half for copies to the device, its second half for copies to the host.
//!
//! The worker frees ranges of the first half, by their tickets, when the device has read them. The client frees those of
//! the second half itself, when it has read them.

use crate::lock;
use remote_ring::{StagingAllocator, StagingRange};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Use of a staging range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StagingUse {
    /// The device reads it.
    ToDevice,
    /// The device writes it.
    ToHost,
}

/// Ranges to the device, from the oldest.
struct ToDevice {
    allocator: StagingAllocator,
    tickets: VecDeque<u64>,
}

/// Both halves of the staging area.
pub struct StagingAreas {
    to_device: Mutex<ToDevice>,
    to_host: Mutex<StagingAllocator>,
    host_release: Condvar,
    /// Size of a half, bytes.
    half: u64,
    /// Maximum size of a part to the device, bytes.
    part: AtomicU64,
}

/// Bytes that copies use of each half if the worker is on this machine: the processor's caches hold them, so that the
/// device reads and writes them there.
const CACHED_BYTES: u64 = 8 << 20;
/// Number of parts that fit at once, so that one is filled while others are read.
const PARTS: u64 = 8;

impl StagingAreas {
    /// Divides an area of this size, bytes.
    pub fn new(bytes: u64) -> Self {
        let half = bytes / 2;
        Self {
            to_device: Mutex::new(ToDevice {
                allocator: StagingAllocator::new(half),
                tickets: VecDeque::new(),
            }),
            to_host: Mutex::new(StagingAllocator::new(half)),
            host_release: Condvar::new(),
            half,
            part: AtomicU64::new(half / PARTS),
        }
    }

    /// Makes copies use less memory, before the first of them.
    pub fn stay_in_caches(&self) {
        let bytes = self.half.min(CACHED_BYTES);
        lock(&self.to_device).allocator = StagingAllocator::new(bytes);
        *lock(&self.to_host) = StagingAllocator::new(bytes);
        self.part.store(bytes / PARTS, Ordering::Relaxed);
    }

    /// Returns the size of the range that a copy of `bytes` bytes gets at most. Several ranges fit at once, so that one is
    /// filled while others are read.
    pub fn part_bytes(&self, bytes: u64) -> u64 {
        bytes.min(self.part.load(Ordering::Relaxed))
    }

    /// Allocates a range to the device, after all ranges below `released` became free. If there is no room, it returns the
    /// ticket of the oldest range.
    pub fn allocate_to_device(&self, bytes: u64, released: u64) -> Result<StagingRange, Option<u64>> {
        let mut to_device = lock(&self.to_device);
        while let Some(ticket) = to_device.tickets.pop_front_if(|ticket| *ticket < released) {
            to_device.allocator.release(ticket);
        }
        match to_device.allocator.allocate(bytes) {
            Some(range) => {
                to_device.tickets.push_back(range.ticket);
                Ok(range)
            }
            None => Err(to_device.tickets.front().copied()),
        }
    }

    /// Allocates a range to the host. It waits for other threads while there is no room.
    pub fn allocate_to_host(&self, bytes: u64) -> StagingRange {
        let mut to_host = lock(&self.to_host);
        loop {
            if let Some(range) = to_host.allocate(bytes) {
                return self.in_host_half(range);
            }
            to_host = self.host_release.wait(to_host).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Allocates a range to the host if there is room for it.
    pub fn try_allocate_to_host(&self, bytes: u64) -> Option<StagingRange> {
        let range = lock(&self.to_host).allocate(bytes);
        range.map(|range| self.in_host_half(range))
    }

    const fn in_host_half(&self, range: StagingRange) -> StagingRange {
        StagingRange {
            offset: self.half + range.offset,
            ..range
        }
    }

    /// Frees a range to the host.
    pub fn release_to_host(&self, range: StagingRange) {
        lock(&self.to_host).release(range.ticket);
        self.host_release.notify_all();
    }
}
