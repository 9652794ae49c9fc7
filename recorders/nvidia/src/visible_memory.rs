//! Memory as the program sees it, and the lookups that find it.

use crate::address::HostAddr;
use nvidia_channel::GpuVa;

/// An object of the resource manager: handle of its client, and its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ObjectKey {
    pub client: u32,
    pub handle: u32,
}

/// What a mapping of the program shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MappedMemory {
    /// Memory of the host.
    Host,
    /// Memory of the GPU, through a BAR.
    Video,
    /// A page of doorbells.
    Doorbells,
}

/// A part of GPU memory that the program sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VisibleMemory {
    pub at: HostAddr,
    /// Bytes up to the end of the mapping.
    pub bytes: u64,
    pub memory: MappedMemory,
}

impl VisibleMemory {
    /// Returns the part after the first bytes, or `None` if nothing is left.
    pub fn skip(&self, bytes: u64) -> Option<Self> {
        Some(Self {
            at: self.at.checked_add(bytes)?,
            bytes: self.bytes.checked_sub(bytes).filter(|n| *n > 0)?,
            memory: self.memory,
        })
    }
}

/// Finds where the program sees memory, without allocation.
pub(crate) trait MemoryLookup {
    /// Returns the version of the mappings: it changes when what [`Self::find_visible`] returns may change.
    fn version(&self) -> u64;

    /// Returns where the program sees a byte of an object.
    fn find_in_object(&self, object: ObjectKey, offset: u64) -> Option<VisibleMemory>;

    /// Returns where the program sees GPU memory, without allocation. libcuda uses the same address on both sides for
    /// memory that both see.
    fn find_visible(&self, va: GpuVa) -> Option<VisibleMemory>;

    /// Returns where the program sees GPU memory, as far as one mapping shows it: [`Self::find_visible`] finds every
    /// address of this range in it.
    fn find_extent(&self, va: GpuVa) -> Option<VisibleMemory>;
}
