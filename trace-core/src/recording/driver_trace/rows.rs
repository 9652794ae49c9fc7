//! Rows of the tables of driver traces, as the container stores them, and their kinds.

use crate::GpuVa;
use bytemuck::{Pod, Zeroable};
use num_enum::TryFromPrimitive;

/// What happened to an object. The numbers are part of the `.kine` format and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, TryFromPrimitive)]
#[repr(u32)]
pub enum ObjectAction {
    /// It was created.
    Create = 1,
    /// It was freed, and all objects below it.
    Free = 2,
    /// A buffer got a GPU address.
    Map = 3,
    /// A buffer lost a GPU address.
    Unmap = 4,
}

impl ObjectAction {
    /// Returns the action with this number in a file.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::try_from(raw).ok()
    }

    /// Returns the name in JSON and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Free => "free",
            Self::Map => "map",
            Self::Unmap => "unmap",
        }
    }
}

/// The kind of an object. The numbers are part of the `.kine` format and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, TryFromPrimitive)]
#[repr(u32)]
pub enum ObjectKind {
    /// A client of the kernel driver: the root of its objects.
    Client = 1,
    /// A GPU.
    Device = 2,
    /// A part of a GPU.
    Subdevice = 3,
    /// A GPU address space.
    AddressSpace = 4,
    /// A group of channels that are scheduled together.
    ChannelGroup = 5,
    /// A GPU context: the state that channels share.
    Context = 6,
    /// A channel: a ring of commands.
    Channel = 7,
    /// An engine object of a channel, such as one of the compute class.
    Engine = 8,
    /// Memory: a buffer object.
    Buffer = 9,
    /// A page of registers that a program can map, such as that of doorbells.
    Registers = 10,
    /// An event that a program can wait for.
    Event = 11,
    /// Any other object.
    Other = 12,
}

impl ObjectKind {
    /// Returns the kind with this number in a file.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::try_from(raw).ok()
    }

    /// Returns the name in JSON and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Device => "device",
            Self::Subdevice => "subdevice",
            Self::AddressSpace => "address-space",
            Self::ChannelGroup => "channel-group",
            Self::Context => "context",
            Self::Channel => "channel",
            Self::Engine => "engine",
            Self::Buffer => "buffer",
            Self::Registers => "registers",
            Self::Event => "event",
            Self::Other => "other",
        }
    }
}

/// An object that was created, freed, mapped or unmapped. 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct ObjectRow {
    /// Size in bytes: of a buffer, of an address space, of a mapping, of the push buffer of a channel.
    /// [`ObjectRow::UNKNOWN`] if the source does not state it.
    pub bytes: u64,
    /// GPU address of a buffer or a mapping, first address of an address space, GPU address of the push buffer of a
    /// channel. [`ObjectRow::UNKNOWN_ADDRESS`] if the source does not state it.
    pub address: GpuVa,
    /// For a channel, the GPU address of its ring; for a mapping, the offset in the buffer. [`ObjectRow::UNKNOWN`] if
    /// the source does not state it.
    pub second: u64,
    /// Handle of the client, 0 if unknown.
    pub client: u32,
    /// Handle of the parent, 0 if unknown.
    pub parent: u32,
    /// Handle of the object, 0 if unknown. It is unique among the current objects of the client.
    pub handle: u32,
    /// Class number, 0 if unknown.
    pub class: u32,
    /// Handle of the address space of the address, 0 if unknown.
    pub space: u32,
    /// [`ObjectAction`] as its number.
    pub action: u32,
    /// [`ObjectKind`] as its number.
    pub kind: u32,
    /// The function that asked for it, an index into [`super::DriverTraceMetadata::names`]; [`ObjectRow::NO_NAME`] if
    /// unknown.
    pub caller: u32,
    /// Bits of [`ObjectRow::VIDEO_MEMORY`] and [`ObjectRow::HOST_MEMORY`].
    pub flags: u32,
    /// Result code of the driver: 0 is success.
    pub result: u32,
}

impl Default for ObjectRow {
    /// A row whose numbers are all unknown.
    fn default() -> Self {
        Self {
            bytes: Self::UNKNOWN,
            address: Self::UNKNOWN_ADDRESS,
            second: Self::UNKNOWN,
            caller: Self::NO_NAME,
            ..Self::zeroed()
        }
    }
}

impl ObjectRow {
    /// A size or an address that the source does not state.
    pub const UNKNOWN: u64 = u64::MAX;
    /// A GPU address that the source does not state.
    pub const UNKNOWN_ADDRESS: GpuVa = GpuVa::MAX;
    /// No name.
    pub const NO_NAME: u32 = u32::MAX;
    /// Flag: a buffer in the memory of the GPU.
    pub const VIDEO_MEMORY: u32 = 1;
    /// Flag: a buffer in the memory of the host.
    pub const HOST_MEMORY: u32 = 2;

    /// Returns the row of an object that a client created.
    #[must_use]
    pub fn create(client: u32, kind: ObjectKind, handle: u32, parent: u32, class: u32) -> Self {
        Self {
            action: ObjectAction::Create as u32,
            kind: kind as u32,
            client,
            handle,
            parent,
            class,
            ..Self::default()
        }
    }

    /// Returns the row that maps this object, from its first byte on, at an address of an address space.
    #[must_use]
    pub fn mapped_at(self, va: GpuVa, space: u32) -> Self {
        Self {
            action: ObjectAction::Map as u32,
            address: va,
            second: 0,
            space,
            ..self
        }
    }

    /// Returns the size, if known.
    #[must_use]
    pub fn known_bytes(&self) -> Option<u64> {
        (self.bytes != Self::UNKNOWN).then_some(self.bytes)
    }

    /// Returns the address, if known.
    #[must_use]
    pub fn known_address(&self) -> Option<GpuVa> {
        (self.address != Self::UNKNOWN_ADDRESS).then_some(self.address)
    }

    /// Returns the second number, if known: see [`ObjectRow::second`].
    #[must_use]
    pub fn known_second(&self) -> Option<u64> {
        (self.second != Self::UNKNOWN).then_some(self.second)
    }
}

/// An entry of a channel's ring: commands for the GPU, before it reads them. 48 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct RingEntryRow {
    /// The entry as the ring holds it; 0 if the source does not state it.
    pub entry: u64,
    /// GPU address of the first command.
    pub va: GpuVa,
    /// Size of the commands, bytes.
    pub bytes: u64,
    /// First page of the commands in [`crate::recording::Events::call_pages`]; [`crate::recording::NO_CONTENT`] if the
    /// recording does not hold them. They start in the first page at the page offset of the address.
    pub pages_at: u64,
    /// Handle of the client, 0 if unknown.
    pub client: u32,
    /// Handle of the channel; for a source without handles, its number.
    pub channel: u32,
    /// Index in the ring.
    pub index: u32,
    /// Not used: 0.
    pub reserved: u32,
}

/// Why a recorder saved memory. The numbers are part of the `.kine` format and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, TryFromPrimitive)]
#[repr(u32)]
pub enum SaveReason {
    /// The next ring entry copies from it.
    CopySource = 1,
    /// The memory at the start.
    Start = 2,
    /// The memory after work, for comparison.
    Result = 3,
}

impl SaveReason {
    /// Returns the reason with this number in a file.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::try_from(raw).ok()
    }

    /// Returns the name in JSON and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CopySource => "copy source",
            Self::Start => "memory at the start",
            Self::Result => "memory after work",
        }
    }
}

/// Memory of the GPU's address space that a recorder saved. 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct SavedMemoryRow {
    /// First byte.
    pub va: GpuVa,
    /// Number of bytes.
    pub bytes: u64,
    /// First page of the content in [`crate::recording::Events::call_pages`], as in [`RingEntryRow::pages_at`].
    pub pages_at: u64,
    /// [`SaveReason`] as its number.
    pub reason: u32,
    /// Not used: 0.
    pub reserved: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_sizes_match_the_file_format() {
        assert_eq!(size_of::<ObjectRow>(), 64);
        assert_eq!(size_of::<RingEntryRow>(), 48);
        assert_eq!(size_of::<SavedMemoryRow>(), 32);
    }

    #[test]
    fn new_row_knows_nothing() {
        let row = ObjectRow::default();
        assert_eq!(
            (row.known_bytes(), row.known_address(), row.known_second()),
            (None, None, None)
        );
        assert_eq!((row.handle, row.class, row.caller), (0, 0, ObjectRow::NO_NAME));
    }
}
