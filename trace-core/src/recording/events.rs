//! The event table: one narrow row per event, accesses in separate columns, every other kind in a side table.

use super::api_trace::{AllocationRow, CallRow, CopyRow, FillRow, LaunchRow, OrderRow};
use super::column::Column;
use super::driver_trace::{ObjectRow, RingEntryRow, SavedMemoryRow};
use super::stored_content::StoredContent;
use crate::progress::{Cancelled, Progress};
use crate::{BusAddr, GpuVa, PhysAddr, RegOffset};
use bytemuck::{Pod, Zeroable};
use num_enum::TryFromPrimitive;
use serde::{Deserialize, Serialize};

/// Kind of an event. The numbers are part of the `.kine` format and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, TryFromPrimitive)]
#[repr(u8)]
pub enum EventKind {
    /// A read of a space; the payload is a row of the access columns.
    Read = 1,
    /// A write to a space; the payload is a row of the access columns.
    Write = 2,
    /// An interrupt that a recorder or a replay saw; the payload is a row of [`Events::interrupts`].
    Interrupt = 3,
    /// A note of the recorder or a user; the payload is an index into [`Events::marks`].
    Mark = 4,
    /// Work submitted to the GPU, in a recording without register accesses; a row of [`Events::submits`].
    Submit = 5,
    /// A CPU write to memory, within one page; a row of [`Events::host_writes`].
    HostWrite = 6,
    /// An access to a space with a known address and an unknown value; a row of [`Events::undecoded`].
    Undecoded = 7,
    /// The driver gave the device access to memory; a row of [`Events::dma_maps`].
    DmaMap = 8,
    /// A kernel launch on the device; a row of [`Events::launches`].
    Launch = 9,
    /// A copy of memory by a call; a row of [`Events::copies`].
    Copy = 10,
    /// Device memory set to a value by a call; a row of [`Events::fills`].
    Fill = 11,
    /// A call that orders streams, events and the host; a row of [`Events::orders`].
    Order = 12,
    /// A call that allocates or frees memory; a row of [`Events::allocations`].
    Allocation = 13,
    /// Any other driver call; a row of [`Events::calls`].
    Call = 14,
    /// An object of the kernel driver was created, freed, mapped or unmapped; a row of [`Events::objects`].
    Object = 15,
    /// An entry of a channel's ring; a row of [`Events::ring_entries`].
    RingEntry = 16,
    /// Memory that the recorder saved; a row of [`Events::saved_memory`].
    SavedMemory = 17,
}

impl EventKind {
    /// Returns the kind with this number in a file.
    #[must_use]
    pub fn from_raw(raw: u8) -> Option<Self> {
        Self::try_from(raw).ok()
    }
}

/// A row of the interrupt table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct InterruptRow {
    /// Interrupt line of the device: see [`super::InterruptLine`].
    pub line: u32,
    /// The interrupt's status bits when it was taken.
    pub status: u32,
}

/// A row of the submit table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct SubmitRow {
    /// GPU address of the first job of the chain.
    pub head_va: GpuVa,
    /// Address space, an index into the recording's list.
    pub address_space: u32,
    /// Job slot.
    pub slot: u32,
}

/// A row of the table of host writes: bytes of one page that the CPU wrote between two other events. The CPU did not
/// write the other bytes of the page: a job may have written them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct HostWriteRow {
    /// Physical address of the first byte.
    pub at: PhysAddr,
    /// Number of bytes, at least 1; the last one lies in the same 4 KiB page as the first.
    pub bytes: u32,
    /// [`super::PageId`] of an image of the page after the write; the bytes have their page offset in it.
    pub page: u32,
}

impl HostWriteRow {
    /// Returns the byte range in the page, or `None` if it is empty or leaves the page.
    #[must_use]
    pub fn piece(&self) -> Option<std::ops::Range<usize>> {
        let from = self.at.in_page();
        let to = from.checked_add(usize::try_from(self.bytes).ok()?)?;
        (from < to && to <= crate::PAGE_SIZE).then_some(from..to)
    }

    /// Returns the number of its page frame.
    #[must_use]
    pub fn frame(&self) -> u64 {
        self.at.frame()
    }
}

/// A row of the table of accesses with an unknown value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct UndecodedRow {
    /// Byte offset in the space.
    pub offset: RegOffset,
    /// Known properties of the access. Bits 0 to 23: the first three bytes of the instruction, the first of them
    /// highest, or 0. Bits 24 to 27: width in bytes, or 0. Bits 28 and 29: 1 for a read, 2 for a write, otherwise 0.
    pub code: u32,
}

impl UndecodedRow {
    /// Creates the row of an access by an x86 instruction that starts with these bytes, the first of them in bits 16 to
    /// 23.
    #[must_use]
    pub fn from_instruction(offset: RegOffset, bytes: u32) -> Self {
        Self {
            offset,
            code: bytes & 0xff_ffff,
        }
    }

    /// Creates the row of an access with known direction and width in bytes.
    #[must_use]
    pub fn from_access(offset: RegOffset, write: bool, width: u8) -> Self {
        let way = if write { 2 } else { 1 };
        Self {
            offset,
            code: way << 28 | u32::from(width & 0xf) << 24,
        }
    }

    /// Whether it writes, if known.
    #[must_use]
    pub fn write(&self) -> Option<bool> {
        match self.code >> 28 & 3 {
            1 => Some(false),
            2 => Some(true),
            _ => None,
        }
    }

    /// Returns its width in bytes, if it is stored or the instruction is an x86 string move.
    #[must_use]
    pub fn width(&self) -> Option<u8> {
        match (
            self.code >> 24 & 0xf,
            self.code >> 16 & 0xff,
            self.code >> 8 & 0xff,
            self.code & 0xff,
        ) {
            (reported @ (1 | 2 | 4 | 8), ..) => Some(reported as u8),
            // A repeated move (prefix f3): of bytes, of words with the prefix 66, of eight bytes with the prefix 48.
            (0, 0xf3, 0xa4, _) => Some(1),
            (0, 0xf3, 0x66, 0xa5) | (0, 0x66, 0xf3, 0xa5) => Some(2),
            (0, 0xf3, 0xa5, _) => Some(4),
            (0, 0xf3, 0x48, 0xa5) => Some(8),
            _ => None,
        }
    }

    /// Whether it is one step of a repeated x86 move (`rep movs`), which copies many bytes in one instruction.
    #[must_use]
    pub fn is_repeated_move(&self) -> bool {
        self.code >> 24 == 0 && self.width().is_some()
    }

    /// Describes the access: `undecoded write of 4 bytes`.
    #[must_use]
    pub fn describe(&self) -> String {
        let way = self.write().map_or("access", |w| if w { "write" } else { "read" });
        let of = match self.width() {
            Some(1) => " of a byte".to_owned(),
            Some(n) => format!(" of {n} bytes"),
            None => String::new(),
        };
        let by = match self.code & 0xff_ffff {
            0 => String::new(),
            c => format!(
                " by the instruction {:02x} {:02x} {:02x} …",
                c >> 16,
                c >> 8 & 0xff,
                c & 0xff
            ),
        };
        format!("undecoded {way}{of}{by}")
    }
}

/// How memory was given to the device. The numbers are part of the `.kine` format and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, TryFromPrimitive)]
#[repr(u32)]
pub enum DmaKind {
    /// Memory that driver and device share as long as the driver runs.
    Allocated = 1,
    /// Memory that belongs to the device for a time.
    Mapped = 2,
}

impl DmaKind {
    /// Returns the kind with this number in a file.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::try_from(raw).ok()
    }
}

/// A row of the table of DMA mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct DmaMapRow {
    /// Bus address for the device; [`DmaMapRow::UNKNOWN`] if the recorder did not see it.
    pub bus: BusAddr,
    /// Number of bytes.
    pub bytes: u64,
    /// [`DmaKind`] as its number.
    pub kind: u32,
    /// Not used: 0.
    pub reserved: u32,
}

impl DmaMapRow {
    /// The address of memory with an unknown address.
    pub const UNKNOWN: BusAddr = BusAddr::MAX;

    /// Describes the mapping: `allocated 4096 bytes at 0x1000`.
    #[must_use]
    pub fn describe(&self) -> String {
        let how = match DmaKind::from_raw(self.kind) {
            Some(DmaKind::Allocated) => "allocated",
            Some(DmaKind::Mapped) => "mapped",
            None => "given",
        };
        match self.bus {
            Self::UNKNOWN => format!("{how} {} bytes at an unknown address", self.bytes),
            bus => format!("{how} {} bytes at {bus:#x}", self.bytes),
        }
    }
}

/// An access, assembled from its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Space, an index into the recording's list.
    pub space: u8,
    /// Whether it is a write.
    pub write: bool,
    /// Byte offset in the space.
    pub offset: RegOffset,
    /// Width in bytes: 1, 2, 4 or 8.
    pub width: u8,
    /// Value read or written, zero-extended.
    pub value: u64,
}

/// The rows of a recording's events. The index gives the order, never the time.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// [`EventKind`] as its number.
    pub kind: Column<u8>,
    /// Space, an index into the recording's list; 0 for kinds without one.
    pub space: Column<u8>,
    /// Nanoseconds on the recorder's clock; see [`super::Identity::clock`]. May repeat or run backwards.
    pub time: Column<u64>,
    /// Thread id on the recorded machine, 0 when unknown.
    pub thread: Column<u32>,
    /// Row in the columns or the side table of the kind.
    pub payload: Column<u32>,
    /// Accesses: byte offset in the space.
    pub offset: Column<u32>,
    /// Accesses: width in bytes.
    pub width: Column<u8>,
    /// Accesses: value, zero-extended.
    pub value: Column<u64>,
    /// Interrupts.
    pub interrupts: Column<InterruptRow>,
    /// Submits of recordings without register accesses.
    pub submits: Column<SubmitRow>,
    /// CPU writes to memory.
    pub host_writes: Column<HostWriteRow>,
    /// Accesses with an unknown value.
    pub undecoded: Column<UndecodedRow>,
    /// DMA mappings.
    pub dma_maps: Column<DmaMapRow>,
    /// Launches of functions.
    pub launches: Column<LaunchRow>,
    /// Copies of memory.
    pub copies: Column<CopyRow>,
    /// Memory set to a value.
    pub fills: Column<FillRow>,
    /// Orders between streams, events and the host.
    pub orders: Column<OrderRow>,
    /// Allocations and releases of memory.
    pub allocations: Column<AllocationRow>,
    /// Other calls.
    pub calls: Column<CallRow>,
    /// Objects of the kernel driver.
    pub objects: Column<ObjectRow>,
    /// Entries of the rings of channels.
    pub ring_entries: Column<RingEntryRow>,
    /// Memory that the recorder saved.
    pub saved_memory: Column<SavedMemoryRow>,
    /// Bytes that launches and calls refer to.
    pub call_bytes: Column<u8>,
    /// Pages that copies, ring entries and saved memory refer to, by [`super::PageId`].
    pub call_pages: Column<u32>,
    /// Texts of marks.
    pub marks: Vec<String>,
}

impl Events {
    /// Returns the number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kind.len()
    }

    /// Whether there are no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kind.is_empty()
    }

    /// Returns the kind of an event, or `None` past the end, or for a kind that this version does not know.
    #[must_use]
    pub fn kind(&self, event: usize) -> Option<EventKind> {
        EventKind::from_raw(self.kind.get(event)?)
    }

    /// Returns the access of an event, if it is one.
    #[must_use]
    pub fn access(&self, event: usize) -> Option<Access> {
        let write = match self.kind(event)? {
            EventKind::Read => false,
            EventKind::Write => true,
            _ => return None,
        };
        let row = self.payload.get(event)? as usize;
        Some(Access {
            space: self.space.get(event)?,
            write,
            offset: RegOffset::new(self.offset.get(row)?),
            width: self.width.get(row)?,
            value: self.value.get(row)?,
        })
    }

    /// Returns the accesses among the events of `range` (clipped), each with its event, in order. Iterates over the
    /// columns in parallel, which costs far less than a lookup per event.
    pub fn accesses(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = (usize, Access)> + '_ {
        let mut kinds = self.kind.iter_range(range.clone());
        let mut spaces = self.space.iter_range(range.clone());
        let mut payloads = self.payload.iter_range(range.clone());
        let rows = |from: usize| {
            let all = from..self.offset.len();
            (
                self.offset.iter_range(all.clone()),
                self.width.iter_range(all.clone()),
                self.value.iter_range(all),
            )
        };
        let (mut next_row, mut columns) = (0, rows(0));
        let mut event = range.start;
        std::iter::from_fn(move || {
            loop {
                let (kind, space, payload) = (kinds.next()?, spaces.next()?, payloads.next()? as usize);
                event += 1;
                let write = match EventKind::from_raw(kind) {
                    Some(EventKind::Read) => false,
                    Some(EventKind::Write) => true,
                    _ => continue,
                };
                if payload != next_row {
                    columns = rows(payload);
                }
                next_row = payload + 1;
                let (Some(offset), Some(width), Some(value)) = (columns.0.next(), columns.1.next(), columns.2.next())
                else {
                    continue;
                };
                if self.offset.has_damage() && self.is_damaged_access(payload) {
                    continue;
                }
                return Some((
                    event - 1,
                    Access {
                        space,
                        write,
                        offset: RegOffset::new(offset),
                        width,
                        value,
                    },
                ));
            }
        })
    }

    fn is_damaged_access(&self, row: usize) -> bool {
        self.offset.is_damaged(row) || self.width.is_damaged(row) || self.value.is_damaged(row)
    }

    /// Verifies the stored data of an event against its digests, if not done before. Returns whether any of it is
    /// damaged.
    #[must_use]
    pub fn is_damaged(&self, event: usize) -> bool {
        let own = self.kind.is_damaged(event)
            || self.space.is_damaged(event)
            || self.time.is_damaged(event)
            || self.thread.is_damaged(event)
            || self.payload.is_damaged(event);
        if own {
            return true;
        }
        let (Some(kind), Some(row)) = (self.kind(event), self.payload.get(event)) else {
            return false;
        };
        let row = row as usize;
        match kind {
            EventKind::Read | EventKind::Write => self.is_damaged_access(row),
            EventKind::Interrupt => self.interrupts.is_damaged(row),
            EventKind::Submit => self.submits.is_damaged(row),
            EventKind::HostWrite => self.host_writes.is_damaged(row),
            EventKind::Undecoded => self.undecoded.is_damaged(row),
            EventKind::DmaMap => self.dma_maps.is_damaged(row),
            EventKind::Launch => self.launches.is_damaged(row),
            EventKind::Copy => self.copies.is_damaged(row),
            EventKind::Fill => self.fills.is_damaged(row),
            EventKind::Order => self.orders.is_damaged(row),
            EventKind::Allocation => self.allocations.is_damaged(row),
            EventKind::Call => self.calls.is_damaged(row),
            EventKind::Object => self.objects.is_damaged(row),
            EventKind::RingEntry => self.ring_entries.is_damaged(row),
            EventKind::SavedMemory => self.saved_memory.is_damaged(row),
            // A damaged list of marks was dropped when the file was opened.
            EventKind::Mark => self.kind.has_damage() && row >= self.marks.len(),
        }
    }

    /// Verifies all columns against their digests.
    ///
    /// # Errors
    ///
    /// When the work was cancelled.
    pub(crate) fn check_all(&self, progress: &Progress) -> Result<(), Cancelled> {
        self.kind.check_all(progress)?;
        self.space.check_all(progress)?;
        self.time.check_all(progress)?;
        self.thread.check_all(progress)?;
        self.payload.check_all(progress)?;
        self.offset.check_all(progress)?;
        self.width.check_all(progress)?;
        self.value.check_all(progress)?;
        self.interrupts.check_all(progress)?;
        self.submits.check_all(progress)?;
        self.host_writes.check_all(progress)?;
        self.undecoded.check_all(progress)?;
        self.dma_maps.check_all(progress)?;
        self.launches.check_all(progress)?;
        self.copies.check_all(progress)?;
        self.fills.check_all(progress)?;
        self.orders.check_all(progress)?;
        self.allocations.check_all(progress)?;
        self.calls.check_all(progress)?;
        self.objects.check_all(progress)?;
        self.ring_entries.check_all(progress)?;
        self.saved_memory.check_all(progress)?;
        self.call_bytes.check_all(progress)?;
        self.call_pages.check_all(progress)
    }

    /// Returns the interrupt of an event, if it is one.
    #[must_use]
    pub fn interrupt(&self, event: usize) -> Option<InterruptRow> {
        match self.kind(event)? {
            EventKind::Interrupt => self.interrupts.get(self.payload.get(event)? as usize),
            _ => None,
        }
    }

    /// Returns the submit of an event, if it is one without register accesses.
    #[must_use]
    pub fn submit(&self, event: usize) -> Option<SubmitRow> {
        match self.kind(event)? {
            EventKind::Submit => self.submits.get(self.payload.get(event)? as usize),
            _ => None,
        }
    }

    /// Returns the CPU write of an event, if it is one.
    #[must_use]
    pub fn host_write(&self, event: usize) -> Option<HostWriteRow> {
        match self.kind(event)? {
            EventKind::HostWrite => self.host_writes.get(self.payload.get(event)? as usize),
            _ => None,
        }
    }

    /// Returns the access with an unknown value of an event, if it is one.
    #[must_use]
    pub fn undecoded(&self, event: usize) -> Option<UndecodedRow> {
        match self.kind(event)? {
            EventKind::Undecoded => self.undecoded.get(self.payload.get(event)? as usize),
            _ => None,
        }
    }

    /// Returns the DMA mapping of an event, if it is one.
    #[must_use]
    pub fn dma_map(&self, event: usize) -> Option<DmaMapRow> {
        match self.kind(event)? {
            EventKind::DmaMap => self.dma_maps.get(self.payload.get(event)? as usize),
            _ => None,
        }
    }

    /// Returns the object of an event, if it is about one.
    #[must_use]
    pub fn object(&self, event: usize) -> Option<ObjectRow> {
        match self.kind(event)? {
            EventKind::Object => self.objects.get(self.payload.get(event)? as usize),
            _ => None,
        }
    }

    /// Returns the ring entry of an event, if it is one.
    #[must_use]
    pub fn ring_entry(&self, event: usize) -> Option<RingEntryRow> {
        match self.kind(event)? {
            EventKind::RingEntry => self.ring_entries.get(self.payload.get(event)? as usize),
            _ => None,
        }
    }

    /// Returns where the bytes of an event are stored: of a copy, a ring entry or saved memory.
    #[must_use]
    pub fn stored_content(&self, event: usize) -> Option<StoredContent> {
        let row = self.payload.get(event)? as usize;
        match self.kind(event)? {
            EventKind::Copy => self.copies.get(row)?.stored(),
            EventKind::RingEntry => Some(self.ring_entries.get(row)?.stored()),
            EventKind::SavedMemory => Some(self.saved_memory.get(row)?.stored()),
            _ => None,
        }
    }

    /// Returns the saved memory of an event, if it is some.
    #[must_use]
    pub fn saved_memory(&self, event: usize) -> Option<SavedMemoryRow> {
        match self.kind(event)? {
            EventKind::SavedMemory => self.saved_memory.get(self.payload.get(event)? as usize),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undecoded_access_describes_its_instruction() {
        let instruction = |code| UndecodedRow::from_instruction(RegOffset::new(8), code);
        for (code, width, words) in [
            (
                0xf3_a5f6,
                Some(4),
                "undecoded access of 4 bytes by the instruction f3 a5 f6 …",
            ),
            (
                0xf3_48a5,
                Some(8),
                "undecoded access of 8 bytes by the instruction f3 48 a5 …",
            ),
            (
                0xf3_a4c3,
                Some(1),
                "undecoded access of a byte by the instruction f3 a4 c3 …",
            ),
            (0x0f_6f07, None, "undecoded access by the instruction 0f 6f 07 …"),
            (0, None, "undecoded access"),
        ] {
            assert_eq!(
                (instruction(code).width(), instruction(code).write()),
                (width, None),
                "{code:#x}"
            );
            assert_eq!(instruction(code).describe(), words);
        }
        let read = UndecodedRow::from_access(RegOffset::new(4), false, 2);
        assert_eq!((read.width(), read.write()), (Some(2), Some(false)));
        assert_eq!(read.describe(), "undecoded read of 2 bytes");
        assert_eq!(
            UndecodedRow::from_access(RegOffset::new(4), true, 8).describe(),
            "undecoded write of 8 bytes"
        );
    }
}
