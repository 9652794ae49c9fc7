//! The kinds of sections of a recording in its file: columns, records and named bytes.

use num_enum::TryFromPrimitive;

/// The kind of a section. The numbers are frozen; sections with a number that this version does not know are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, TryFromPrimitive)]
#[repr(u32)]
pub enum SectionKind {
    /// Host writes: physical address (eight bytes), number of bytes, page (four each). Never constant.
    HostWrites = 0x001,
    /// Events: the kind, one byte. Never constant, so that the number of events is bounded by the file's size.
    EventKind = 0x101,
    /// Events: space, one byte.
    EventSpace = 0x102,
    /// Events: time in nanoseconds, eight bytes.
    EventTime = 0x103,
    /// Events: thread, four bytes.
    EventThread = 0x104,
    /// Events: row in the columns or the side table of the kind, four bytes.
    EventPayload = 0x105,
    /// Accesses: byte offset in the space, four bytes. Never constant.
    AccessOffset = 0x201,
    /// Accesses: width in bytes, one byte.
    AccessWidth = 0x202,
    /// Accesses: value, eight bytes.
    AccessValue = 0x203,
    /// Interrupts: line and status, four bytes each. Never constant.
    Interrupts = 0x301,
    /// Submits: head address (eight bytes), address space, slot (four each). Never constant.
    Submits = 0x401,
    /// BLAKE3 digests of page images, 32 bytes. Never constant.
    PageDigests = 0x501,
    /// Page images, 4096 bytes. Never constant.
    PageImages = 0x502,
    /// Record: identity, spaces, address spaces, buffers, regions, findings. The last one takes effect.
    Facts = 0x601,
    /// Record: snapshots; each adds to those before.
    Snapshots = 0x602,
    /// Record: texts of marks; each adds to those before.
    Marks = 0x603,
    /// Metadata records besides [`SectionKind::Facts`]: tag, version, size, body. The last section takes effect.
    Metadata = 0x604,
    /// Named bytes that another part of the program attached. The last one of a name takes effect.
    Extra = 0x701,
    /// Named bytes computed from the recording, which may be ignored or recomputed. The last one of a name takes
    /// effect.
    Derived = 0x801,
    /// Accesses whose value is not known: offset in the space, the known part, four bytes each. Never constant.
    Undecoded = 0x901,
    /// DMA maps, memory given to the device: address, bytes (eight each), kind, reserved (four each). Never constant.
    DmaMaps = 0xa01,
    /// Launches: `LaunchRow`, 72 bytes. Never constant.
    Launches = 0xb01,
    /// Copies by calls: `CopyRow`, 80 bytes. Never constant.
    Copies = 0xc01,
    /// Memory filled by calls: `FillRow`, 64 bytes. Never constant.
    Fills = 0xd01,
    /// Orders between streams, events and the host: `OrderRow`, 24 bytes. Never constant.
    Orders = 0xe01,
    /// Memory allocated and freed by calls: `AllocationRow`, 32 bytes. Never constant.
    Allocations = 0xf01,
    /// Other calls: `CallRow`, 32 bytes. Never constant.
    Calls = 0x1001,
    /// Bytes that launches and calls refer to. Never constant.
    CallBytes = 0x1101,
    /// Pages that copies, ring entries and saved memory refer to, four bytes. Never constant.
    CallPages = 0x1201,
    /// Objects of the kernel driver: `ObjectRow`, 64 bytes. Never constant.
    Objects = 0x1301,
    /// Entries of the rings of channels: `RingEntryRow`, 48 bytes. Never constant.
    RingEntries = 0x1401,
    /// Memory that a recorder saved: `SavedMemoryRow`, 32 bytes. Never constant.
    SavedMemory = 0x1501,
}

impl SectionKind {
    /// Every kind, in the order of the numbers.
    pub const ALL: [Self; 32] = [
        Self::HostWrites,
        Self::EventKind,
        Self::EventSpace,
        Self::EventTime,
        Self::EventThread,
        Self::EventPayload,
        Self::AccessOffset,
        Self::AccessWidth,
        Self::AccessValue,
        Self::Interrupts,
        Self::Submits,
        Self::PageDigests,
        Self::PageImages,
        Self::Facts,
        Self::Snapshots,
        Self::Marks,
        Self::Metadata,
        Self::Extra,
        Self::Derived,
        Self::Undecoded,
        Self::DmaMaps,
        Self::Launches,
        Self::Copies,
        Self::Fills,
        Self::Orders,
        Self::Allocations,
        Self::Calls,
        Self::CallBytes,
        Self::CallPages,
        Self::Objects,
        Self::RingEntries,
        Self::SavedMemory,
    ];

    /// Returns the kind with this number.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::try_from(raw).ok()
    }

    /// Returns the name in listings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HostWrites => "host-writes",
            Self::EventKind => "event-kind",
            Self::EventSpace => "event-space",
            Self::EventTime => "event-time",
            Self::EventThread => "event-thread",
            Self::EventPayload => "event-payload",
            Self::AccessOffset => "access-offset",
            Self::AccessWidth => "access-width",
            Self::AccessValue => "access-value",
            Self::Interrupts => "interrupts",
            Self::Submits => "submits",
            Self::PageDigests => "page-digests",
            Self::PageImages => "page-images",
            Self::Facts => "facts",
            Self::Snapshots => "snapshots",
            Self::Marks => "marks",
            Self::Metadata => "metadata",
            Self::Extra => "extra",
            Self::Derived => "derived",
            Self::Undecoded => "undecoded",
            Self::DmaMaps => "dma-maps",
            Self::Launches => "launches",
            Self::Copies => "copies",
            Self::Fills => "fills",
            Self::Orders => "orders",
            Self::Allocations => "allocations",
            Self::Calls => "calls",
            Self::CallBytes => "call-bytes",
            Self::CallPages => "call-pages",
            Self::Objects => "objects",
            Self::RingEntries => "ring-entries",
            Self::SavedMemory => "saved-memory",
        }
    }

    /// Returns the size of a row for columns, bytes; `None` for records and named sections.
    #[must_use]
    pub fn row_bytes(self) -> Option<u32> {
        Some(match self {
            Self::EventKind | Self::EventSpace | Self::AccessWidth | Self::CallBytes => 1,
            Self::EventThread | Self::EventPayload | Self::AccessOffset | Self::CallPages => 4,
            Self::EventTime | Self::AccessValue | Self::Interrupts | Self::Undecoded => 8,
            Self::Submits | Self::HostWrites => 16,
            Self::DmaMaps | Self::Orders => 24,
            Self::PageDigests | Self::Allocations | Self::Calls | Self::SavedMemory => 32,
            Self::RingEntries => 48,
            Self::Fills | Self::Objects => 64,
            Self::Launches => 72,
            Self::Copies => 80,
            Self::PageImages => 4096,
            Self::Facts | Self::Snapshots | Self::Marks | Self::Metadata | Self::Extra | Self::Derived => return None,
        })
    }

    /// Returns whether a chunk may be stored as one value and a count.
    #[must_use]
    pub fn may_be_constant(self) -> bool {
        matches!(
            self,
            Self::EventSpace
                | Self::EventTime
                | Self::EventThread
                | Self::EventPayload
                | Self::AccessWidth
                | Self::AccessValue
        )
    }

    /// Returns the table that a column belongs to: columns of one table have the same number of rows.
    pub(crate) fn group(self) -> u32 {
        (self as u32) >> 8
    }

    /// Returns whether sections of this kind are part of the recording itself, not additional data.
    pub(crate) fn is_content(self) -> bool {
        !matches!(self, Self::Extra | Self::Derived)
    }
}
