//! The table of what the device can reach: ranges of addresses, what they are, and where the driver reaches their bytes.

use super::arena::{Bytes, next_number};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What a range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of `cuMemAlloc`.
    Plain,
    /// Of `cuMemAllocAsync`.
    Pool,
    /// Of `cuMemAllocManaged`.
    Managed,
    /// Of `cuMemMap`.
    Mapped,
    /// A variable of a module.
    Variable,
    /// Of `cuMemAllocHost`.
    Pinned,
    /// The program's own memory, told to the driver.
    Registered,
}

impl Kind {
    /// Whether it is host memory.
    pub fn is_host(self) -> bool {
        matches!(self, Self::Pinned | Self::Registered)
    }
}

/// Nobody reaches it.
pub const NOBODY: u32 = 0;
/// It is read.
pub const READ: u32 = 1;
/// It is read and written.
pub const READ_WRITE: u32 = 3;

/// A range of addresses that the device can reach.
#[derive(Clone)]
pub struct Range {
    pub at: u64,
    pub bytes: u64,
    pub kind: Kind,
    /// Where the driver reaches the first byte.
    pub host: u64,
    /// What keeps the bytes; none for the program's own.
    pub memory: Option<Arc<Bytes>>,
    /// [`NOBODY`], [`READ`] or [`READ_WRITE`].
    pub access: u32,
    /// It was freed in a stream whose turn has not come: calls do not find it any more, what was begun before does.
    pub going: bool,
    /// Tells it from every other.
    pub number: u64,
    /// Address and bytes of the mapping that it is a part of.
    pub whole: (u64, u64),
}

impl Range {
    /// A range of the program's own memory.
    pub fn of_program(at: u64, bytes: u64) -> Self {
        Self::new(Kind::Registered, at, bytes, at, None, (at, bytes))
    }

    /// A range that may be read and written.
    pub fn new(kind: Kind, at: u64, bytes: u64, host: u64, memory: Option<Arc<Bytes>>, whole: (u64, u64)) -> Self {
        Self { at, bytes, kind, host, memory, access: READ_WRITE, going: false, number: next_number(), whole }
    }

    /// Behind its last address.
    pub fn end(&self) -> u64 {
        self.at + self.bytes
    }
}

/// All ranges by where they begin; none overlaps another.
pub type Ranges = BTreeMap<u64, Range>;

static RANGES: RwLock<Ranges> = RwLock::new(BTreeMap::new());

/// To look at.
pub fn ranges() -> RwLockReadGuard<'static, Ranges> {
    RANGES.read().unwrap_or_else(PoisonError::into_inner)
}

/// To change.
pub fn ranges_mut() -> RwLockWriteGuard<'static, Ranges> {
    RANGES.write().unwrap_or_else(PoisonError::into_inner)
}

/// The range that an address is in, those that go included.
pub fn around(ranges: &Ranges, at: u64) -> Option<&Range> {
    ranges.range(..=at).next_back().map(|(_, range)| range).filter(|range| at < range.end())
}

/// The range that an address is in, as calls find it.
pub fn find(at: u64) -> Option<Range> {
    around(&ranges(), at).filter(|range| !range.going).cloned()
}

/// Whether any of these addresses is in a range.
pub fn overlaps(ranges: &Ranges, at: u64, bytes: u64) -> bool {
    let end = at.saturating_add(bytes);
    ranges.range(..end).next_back().is_some_and(|(_, range)| range.end() > at)
}

/// Adds a range.
pub fn insert(range: Range) {
    ranges_mut().insert(range.at, range);
}

/// Removes a range, and gives it for its end.
pub fn forget_range(at: u64) -> Option<Range> {
    ranges_mut().remove(&at)
}

/// Removes all but what `cuMemMap` made, which belongs to no context.
pub fn forget_all_but_mapped() {
    let mut gone = Vec::new();
    ranges_mut().retain(|_, range| {
        let stays = range.kind == Kind::Mapped;
        if !stays {
            gone.push(range.clone());
        }
        stays
    });
    drop(gone);
}
