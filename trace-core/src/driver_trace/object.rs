//! An object of a kernel driver, and a mapping of a buffer.

use crate::GpuVa;
use crate::recording::{ObjectKind, ObjectRow};

/// An object of a kernel driver. A number that the recording does not state is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverObject {
    /// What it is, or `None` for a kind that this version does not know.
    pub kind: Option<ObjectKind>,
    /// Handle of the client.
    pub client: Option<u32>,
    /// Index of the parent in [`super::DriverTrace::objects`].
    pub parent: Option<usize>,
    /// Handle.
    pub handle: Option<u32>,
    /// Class number.
    pub class: Option<u32>,
    /// Size in bytes; for a channel, that of its push buffer.
    pub bytes: Option<u64>,
    /// GPU address; for a channel, that of its push buffer. For a buffer that is mapped, its first mapping.
    pub address: Option<GpuVa>,
    /// For a channel, the GPU address of its ring.
    pub ring: Option<GpuVa>,
    /// The function that asked for it, an index into the names of the recording.
    pub caller: Option<u32>,
    /// Bits of [`ObjectRow::VIDEO_MEMORY`] and [`ObjectRow::HOST_MEMORY`].
    pub flags: u32,
    /// Event that created it; `None` if it existed before, or if the recording only names it.
    pub alloc_event: Option<u64>,
    /// Event that freed it, or an object above it; `None` if it still exists at the end.
    pub free_event: Option<u64>,
}

impl DriverObject {
    /// Whether it exists just before an event.
    #[must_use]
    pub fn exists_at(&self, event: u64) -> bool {
        self.alloc_event.is_none_or(|e| e < event) && self.free_event.is_none_or(|e| e >= event)
    }

    pub(super) fn new(row: &ObjectRow, parent: Option<usize>, event: Option<u64>) -> Self {
        let known = |n: u32| (n != 0).then_some(n);
        let kind = ObjectKind::from_raw(row.kind);
        let is_channel = kind == Some(ObjectKind::Channel);
        Self {
            kind,
            client: known(row.client),
            parent,
            handle: known(row.handle),
            class: known(row.class),
            bytes: row.known_bytes(),
            address: row.known_address(),
            ring: row.known_second().filter(|_| is_channel).map(GpuVa::new),
            caller: (row.caller != ObjectRow::NO_NAME).then_some(row.caller),
            flags: row.flags,
            alloc_event: event,
            free_event: None,
        }
    }
}

/// A buffer at a GPU address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Index of the buffer in [`super::DriverTrace::objects`].
    pub object: usize,
    /// Handle of the address space, if known.
    pub space: Option<u32>,
    /// First address.
    pub va: GpuVa,
    /// Number of bytes.
    pub bytes: u64,
    /// Offset of the first byte in the buffer.
    pub offset: u64,
    /// Event that mapped it.
    pub map_event: u64,
    /// Event that ended it; `None` if it still exists at the end.
    pub unmap_event: Option<u64>,
}

impl Mapping {
    /// Whether it exists just before an event.
    #[must_use]
    pub fn exists_at(&self, event: u64) -> bool {
        self.map_event < event && self.unmap_event.is_none_or(|e| e >= event)
    }
}
