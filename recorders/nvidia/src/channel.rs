//! Channels: what the recorder knows of them, where the program sees their memory, and reads of their rings.
//!
//! Rings are in video memory: a load of it is slow. So a read of a ring has few loads, and none waits for another.

use crate::address::HostAddr;
use crate::guarded_copy::{begin_reads, read_memory, read_u32_and_u64, read_u64};
use crate::method_scanner::MethodScanner;
use crate::visible_memory::{MemoryLookup, ObjectKey, VisibleMemory};
use nvidia_channel::GpuVa;
use nvidia_channel::gpfifo::ENTRY_BYTES;

/// Offset of the index after the last entry, in the control page of a channel.
const GP_PUT: u64 = 0x8c;
/// Maximum number of entries that are read at once.
const MAX_BATCH: usize = 16;
/// Maximum number of entries of a ring whose entries are remembered.
const MAX_SEEN_ENTRIES: u32 = 1 << 16;

/// A channel and the part of its ring that is logged.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    pub key: ObjectKey,
    /// Handle of its device.
    pub device: u32,
    /// The value that rings its doorbell, if the program asked for it.
    pub token: Option<u32>,
    pub ring: GpuVa,
    /// Number of entries of the ring.
    pub entries: u32,
    pub userd: ObjectKey,
    /// Offset of its control page in that object.
    pub userd_offset: u64,
    /// Index of the next entry to log.
    pub next: u32,
    /// Upper bits of the addresses of its entries.
    pub base: u64,
    /// State of its methods.
    pub methods: MethodScanner,
    /// Content of the ring at the last read. Empty for a ring that is too large.
    seen: Box<[u64]>,
    addresses: ChannelAddresses,
}

/// Where the program sees the memory of a channel.
#[derive(Clone, Copy, Debug, Default)]
struct ChannelAddresses {
    /// Version of the mappings for which the addresses are valid.
    version: Option<u64>,
    put: Option<HostAddr>,
    ring: Option<VisibleMemory>,
    /// The range of the last commands.
    commands: Option<(GpuVa, VisibleMemory)>,
}

/// Entries of a ring, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryBatch {
    entries: [u64; MAX_BATCH],
    count: usize,
}

impl EntryBatch {
    fn from_entry(entry: u64) -> Self {
        let mut entries = [0; MAX_BATCH];
        entries[0] = entry;
        Self { entries, count: 1 }
    }

    pub fn entries(&self) -> &[u64] {
        self.entries.get(..self.count).unwrap_or_default()
    }
}

impl Channel {
    /// Makes a channel with an empty ring. `entries` is the number of entries of the ring, at least 1.
    pub fn new(
        key: ObjectKey,
        device: u32,
        (ring, entries): (GpuVa, u32),
        (userd, userd_offset): (ObjectKey, u64),
    ) -> Self {
        let seen = if entries <= MAX_SEEN_ENTRIES { entries } else { 0 };
        Self {
            key,
            device,
            token: None,
            ring,
            entries,
            userd,
            userd_offset,
            next: 0,
            base: 0,
            methods: MethodScanner::default(),
            seen: vec![0; seen as usize].into(),
            addresses: ChannelAddresses::default(),
        }
    }

    /// Finds the addresses again if the mappings changed.
    fn renew_addresses(&mut self, tables: &impl MemoryLookup) {
        let version = Some(tables.version());
        if self.addresses.version == version {
            return;
        }
        let put = self.userd_offset.checked_add(GP_PUT);
        let put = put.and_then(|offset| tables.find_in_object(self.userd, offset));
        self.addresses = ChannelAddresses {
            version,
            put: put.map(|visible| visible.at),
            ring: tables.find_extent(self.ring),
            commands: None,
        };
    }

    /// Returns where the program sees the next entry, and the bytes after it.
    fn find_next_entry(&self, tables: &impl MemoryLookup) -> Option<VisibleMemory> {
        let offset = u64::from(self.next) * ENTRY_BYTES as u64;
        let in_ring = self.addresses.ring.and_then(|ring| ring.skip(offset));
        in_ring.or_else(|| tables.find_visible(GpuVa(self.ring.0.wrapping_add(offset))))
    }

    /// Returns where the program sees commands, or `None` if it does not see all of them.
    pub fn find_commands(&mut self, tables: &impl MemoryLookup, va: GpuVa, bytes: u64) -> Option<VisibleMemory> {
        self.renew_addresses(tables);
        let has_all = |visible: &VisibleMemory| visible.bytes >= bytes;
        if let Some((start, range)) = self.addresses.commands
            && let Some(visible) = va.0.checked_sub(start.0).and_then(|offset| range.skip(offset))
            && has_all(&visible)
        {
            return Some(visible);
        }
        self.addresses.commands = tables.find_extent(va).map(|range| (va, range));
        tables.find_visible(va).filter(has_all)
    }

    /// Reads the index after the last entry, and the next entry, which is new if its index is another one. Returns `None`
    /// if they are not readable.
    pub fn read_put(&mut self, tables: &impl MemoryLookup) -> Option<(u32, EntryBatch)> {
        self.renew_addresses(tables);
        let entry_at = self.find_next_entry(tables)?.at;
        let (put, mut entry) = read_u32_and_u64(self.addresses.put?, entry_at)?;
        if put >= self.entries {
            return None;
        }
        // The entry may be read before the index, and another thread may write both in between. Then the entry is that of
        // the last round.
        let is_old = self.seen.get(self.next as usize).is_none_or(|seen| *seen == entry);
        if put != self.next && is_old {
            begin_reads();
            entry = read_u64(entry_at)?;
        }
        Some((put, EntryBatch::from_entry(entry)))
    }

    /// Reads entries before the index `put`, from the next one on. Returns `None` if they are not readable.
    pub fn read_entries(&mut self, tables: &impl MemoryLookup, put: u32) -> Option<EntryBatch> {
        let visible = self.find_next_entry(tables)?;
        let end = if put > self.next { put } else { self.entries };
        let visible_count = usize::try_from(visible.bytes / ENTRY_BYTES as u64).unwrap_or(MAX_BATCH);
        let count = (end.checked_sub(self.next)? as usize).min(visible_count).min(MAX_BATCH);
        let mut bytes = [0; MAX_BATCH * ENTRY_BYTES];
        let bytes = bytes.get_mut(..count * ENTRY_BYTES).filter(|b| !b.is_empty())?;
        if !read_memory(visible.at, bytes) {
            return None;
        }
        let mut entries = [0; MAX_BATCH];
        for (entry, bytes) in entries.iter_mut().zip(bytes.chunks_exact(ENTRY_BYTES)) {
            *entry = bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
        }
        Some(EntryBatch { entries, count })
    }

    /// Goes on after the next entry, which was read as `entry`.
    pub fn advance(&mut self, entry: u64) {
        if let Some(seen) = self.seen.get_mut(self.next as usize) {
            *seen = entry;
        }
        self.next = (self.next + 1) % self.entries;
    }
}
