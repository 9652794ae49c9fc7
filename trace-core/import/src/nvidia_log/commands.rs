//! Ring entries with their push buffers, and saved memory.

use super::events::Import;
use super::problems::Problem;
use super::records::Header;
use nvidia_channel::gpfifo::GpfifoEntry;
use std::collections::HashMap;
use trace_core::recording::{NO_CONTENT, Page, RingEntryRow, SaveReason, SavedMemoryRow};
use trace_core::{GpuVa, PAGE_SIZE};

/// Bits of an address in a ring entry.
const ENTRY_ADDRESS: u64 = (1 << 40) - 1;

/// A ring entry whose push buffer is the next record.
#[derive(Debug)]
struct PendingEntry {
    header: Header,
    row: RingEntryRow,
}

/// The rings of all channels.
#[derive(Debug, Default)]
pub(super) struct Rings {
    pending: Option<PendingEntry>,
    /// Upper bits of the addresses of the following entries, by channel: control entries set them.
    bases: HashMap<u32, u64>,
    /// A ring had an entry.
    has_entries: bool,
}

impl Import {
    /// Begins a ring entry. It becomes an event with the next record, which may be its push buffer.
    pub(super) fn begin_ring_entry(
        &mut self,
        header: &Header,
        channel: u32,
        index: u32,
        entry: u64,
        has_commands: bool,
    ) {
        let (va, bytes) = match GpfifoEntry::decode(entry) {
            GpfifoEntry::Segment(segment) => {
                let base = self.rings.bases.get(&channel).copied().unwrap_or(0);
                (base | segment.address.0, u64::from(segment.words) * 4)
            }
            GpfifoEntry::Control(control) => {
                if let Some(base) = control.extended_base() {
                    self.rings.bases.insert(channel, base.0);
                }
                (0, 0)
            }
        };
        let row = RingEntryRow {
            entry,
            va: GpuVa::new(va),
            bytes,
            pages_at: NO_CONTENT,
            client: self.objects.client_of(channel).unwrap_or(0),
            channel,
            index,
            reserved: 0,
        };
        self.rings.has_entries = true;
        self.rings.pending = Some(PendingEntry { header: *header, row });
        if !has_commands {
            self.end_ring_entry();
        }
    }

    /// Adds the pending ring entry, if there is one. Its push buffer is missing.
    pub(super) fn end_ring_entry(&mut self) {
        let Some(PendingEntry { header, row }) = self.rings.pending.take() else {
            return;
        };
        if row.bytes != 0 {
            self.problems.add(Problem::MissingCommands, header.at);
        }
        self.events.ring_entry(header.time, header.thread, row);
    }

    /// Adds the pending ring entry with its push buffer.
    pub(super) fn take_push_buffer(&mut self, header: &Header, va: u64, words: &[u8]) {
        let is_of = |p: &PendingEntry| (p.row.va.get() ^ va) & ENTRY_ADDRESS == 0 && p.row.bytes != 0;
        if !self.rings.pending.as_ref().is_some_and(is_of) {
            self.end_ring_entry();
            self.problems.add(Problem::StrayCommands, header.at);
            return;
        }
        let Some(PendingEntry { header, mut row }) = self.rings.pending.take() else {
            return;
        };
        let wanted = usize::try_from(row.bytes).unwrap_or(usize::MAX);
        let stored = words.get(..wanted).unwrap_or(words);
        if stored.len() < wanted {
            self.problems.add(Problem::CutCommands, header.at);
            row.bytes = stored.len() as u64;
        }
        row.pages_at = self.store(row.va, stored);
        self.events.ring_entry(header.time, header.thread, row);
    }

    /// Adds memory that the next ring entry copies.
    pub(super) fn save_memory(&mut self, header: &Header, va: GpuVa, bytes: &[u8]) {
        self.add_saved_memory(header, va, bytes, SaveReason::CopySource);
    }

    /// Adds a saved page: memory at the start before the first ring entry, a result after it.
    pub(super) fn save_page(&mut self, header: &Header, handle: u32, offset: u64, page: &Page) {
        let Some(va) = self.mappings.address_of(handle, offset) else {
            self.problems.add(Problem::UnmappedPage, header.at);
            return;
        };
        let reason = match self.rings.has_entries {
            true => SaveReason::Result,
            false => SaveReason::Start,
        };
        self.add_saved_memory(header, va, page, reason);
    }

    fn add_saved_memory(&mut self, header: &Header, va: GpuVa, bytes: &[u8], reason: SaveReason) {
        let row = SavedMemoryRow {
            va,
            bytes: bytes.len() as u64,
            pages_at: self.store(va, bytes),
            reason: reason as u32,
            reserved: 0,
        };
        self.events.saved_memory(header.time, header.thread, row);
    }

    /// Stores bytes in pages, from the page offset of their address on, and returns the row of the first page.
    fn store(&mut self, va: GpuVa, bytes: &[u8]) -> u64 {
        if bytes.is_empty() {
            return NO_CONTENT;
        }
        let mut offset = va.in_page();
        let mut rest = bytes;
        let mut pages = Vec::with_capacity(bytes.len() / PAGE_SIZE + 2);
        while !rest.is_empty() {
            let (part, after) = rest.split_at(rest.len().min(PAGE_SIZE - offset));
            let mut page = [0; PAGE_SIZE];
            if let Some(target) = page.get_mut(offset..offset + part.len()) {
                target.copy_from_slice(part);
            }
            pages.push(self.memory.add_page(&page).0);
            (offset, rest) = (0, after);
        }
        self.stored_bytes += 4 * pages.len() as u64;
        self.events.call_pages(&pages)
    }
}
