//! The table of ranges that the device can access.

use crate::Answer;
use crate::memory::piece::{Piece, pointer};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Kind of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Memory of `cuMemAlloc`.
    Plain,
    /// Memory of `cuMemAllocAsync`.
    Pool,
    /// Memory of `cuMemAllocManaged`.
    Managed,
    /// Memory of `cuMemMap`.
    Mapped,
    /// A variable of a module.
    Variable,
    /// Memory of `cuMemAllocHost`.
    Pinned,
    /// The program's own memory, registered with the driver.
    Registered,
}

impl Kind {
    /// Returns whether it is host memory.
    pub fn is_host(self) -> bool {
        matches!(self, Self::Pinned | Self::Registered)
    }
}

/// Access right: none.
pub const NO_ACCESS: u32 = 0;
/// Access right: read.
pub const READ: u32 = 1;
/// Access right: read and write.
pub const READ_WRITE: u32 = 3;

/// A range of addresses that the device can access.
#[derive(Clone, Debug)]
pub struct Range {
    pub at: u64,
    pub bytes: u64,
    pub kind: Kind,
    /// First address in this process.
    pub host: u64,
    /// Owner of the bytes, or `None` for the program's own memory.
    pub memory: Option<Arc<Piece>>,
    /// [`NO_ACCESS`], [`READ`] or [`READ_WRITE`].
    pub access: u32,
    /// Handle of the context whose end removes the range; 0 for none.
    pub context: usize,
    /// Whether the range was freed in a stream that has not executed the free yet. Calls no longer find the range, but
    /// earlier work does.
    pub is_freed_in_stream: bool,
}

impl Range {
    /// Returns one past its last address.
    pub fn end(&self) -> u64 {
        self.at + self.bytes
    }
}

/// All ranges by their start address; none overlaps another.
pub type Ranges = BTreeMap<u64, Range>;

static RANGES: RwLock<Ranges> = RwLock::new(BTreeMap::new());

/// Locks the table for reads. Copies hold the lock, so that no memory is freed meanwhile.
pub fn ranges() -> RwLockReadGuard<'static, Ranges> {
    RANGES.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks the table for changes.
pub fn ranges_mut() -> RwLockWriteGuard<'static, Ranges> {
    RANGES.write().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the range that contains an address, including freed ranges.
pub fn find_containing(ranges: &Ranges, at: u64) -> Option<&Range> {
    let (_, range) = ranges.range(..=at).next_back()?;
    (at < range.end()).then_some(range)
}

/// Returns the range that contains an address, without freed ranges.
pub fn find(at: u64) -> Option<Range> {
    find_containing(&ranges(), at)
        .filter(|range| !range.is_freed_in_stream)
        .cloned()
}

/// Returns whether any of these addresses is in a range.
pub fn overlaps(ranges: &Ranges, at: u64, bytes: u64) -> bool {
    let end = at.saturating_add(bytes);
    ranges
        .range(..end)
        .next_back()
        .is_some_and(|(_, range)| range.end() > at)
}

/// Adds a range.
pub fn insert(range: Range) {
    ranges_mut().insert(range.at, range);
}

/// Consecutive bytes in this process.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    host: u64,
    pub bytes: u64,
}

impl Span {
    /// Returns a span of this process's own bytes.
    pub fn of_process(at: u64, bytes: u64) -> Self {
        Self { host: at, bytes }
    }

    /// Returns the rest of the span after its first bytes.
    pub fn skip(self, bytes: u64) -> Self {
        Self {
            host: self.host + bytes,
            bytes: self.bytes - bytes,
        }
    }

    /// Returns a pointer to its first byte.
    pub fn pointer(self) -> *mut u8 {
        pointer(self.host)
    }
}

/// Returns the location of device addresses in this process; `Err` with `otherwise` if some of them are not accessible.
pub fn spans(ranges: &Ranges, at: u64, bytes: u64, write: bool, otherwise: u32) -> Answer<Vec<Span>> {
    let mut all = Vec::with_capacity(1);
    let (mut at, mut left) = (at, bytes);
    let needed = if write { READ_WRITE } else { READ };
    while left > 0 {
        let range = find_containing(ranges, at)
            .filter(|r| r.access & needed == needed)
            .ok_or(otherwise)?;
        let here = left.min(range.end() - at);
        all.push(Span {
            host: range.host + (at - range.at),
            bytes: here,
        });
        (at, left) = (at + here, left - here);
    }
    Ok(all)
}
