//! Translation cache of a chunk of workgroups, and the table walk through memory as the chunk sees it.

use super::overlay::Slot;
use crate::frame_map::FrameMap;
use crate::memory::ArenaMemory;
use std::cell::Cell;
use trace_core::PhysAddr;
use trace_core::mmu::{LEVELS, PhysMemory};
use trace_core::recording::{Page, ZERO_PAGE};

/// Number of entries. A page's number determines its entry.
const ENTRIES: usize = 256;
/// Number that no page has, because addresses have 64 bits.
const NONE: u64 = u64::MAX;

/// Cached translation of a page.
#[derive(Clone, Copy)]
pub(crate) struct TlbEntry<'m> {
    /// Number of the page (address / 4096) if loads may use the entry, otherwise [`NONE`].
    pub load: u64,
    /// The same for stores, once the chunk has a copy of the page. It is [`NONE`] for a page that holds tables, because
    /// a write to it invalidates translations.
    pub store: u64,
    /// The page as it was before the chunk.
    pub image: &'m Page,
    /// Index of the page among the touched pages.
    pub slot: u32,
}

/// Translation cache of a chunk.
pub(crate) struct Tlb<'m>([TlbEntry<'m>; ENTRIES]);

impl<'m> Tlb<'m> {
    pub fn new() -> Self {
        Self(
            [TlbEntry {
                load: NONE,
                store: NONE,
                image: &ZERO_PAGE,
                slot: u32::MAX,
            }; ENTRIES],
        )
    }

    /// Returns the entry of a page, whether or not it currently holds that page.
    #[inline(always)]
    pub fn at(&self, page: u64) -> &TlbEntry<'m> {
        &self.0[page as usize % ENTRIES]
    }

    pub fn put(&mut self, page: u64, entry: TlbEntry<'m>) {
        self.0[page as usize % ENTRIES] = entry;
    }

    /// Invalidates all entries.
    pub fn flush(&mut self) {
        *self = Self::new();
    }
}

/// Memory as a chunk sees it, for a table walk. It remembers which entries the walk read.
pub(crate) struct WalkMemory<'a> {
    pub memory: &'a ArenaMemory,
    pub slots: &'a [Slot],
    pub by_frame: &'a FrameMap<u32>,
    read: [Cell<Option<PhysAddr>>; LEVELS as usize],
    count: Cell<usize>,
}

impl<'a> WalkMemory<'a> {
    pub fn new(memory: &'a ArenaMemory, slots: &'a [Slot], by_frame: &'a FrameMap<u32>) -> Self {
        Self {
            memory,
            slots,
            by_frame,
            read: Default::default(),
            count: Cell::new(0),
        }
    }

    /// Returns the entries that the walk read.
    pub fn entries(self) -> [Option<PhysAddr>; LEVELS as usize] {
        self.read.map(Cell::into_inner)
    }
}

impl PhysMemory for WalkMemory<'_> {
    fn read_u64(&self, at: PhysAddr) -> Option<u64> {
        let base = self.memory.frame(at.frame())?;
        if let Some(place) = self.read.get(self.count.get()) {
            place.set(Some(at));
            self.count.set(self.count.get() + 1);
        }
        let own = self
            .by_frame
            .get(&at.frame())
            .and_then(|n| self.slots.get(*n as usize))
            .and_then(|s| s.copy.as_ref());
        let page = own.map_or(base, |c| &c.bytes);
        let bytes = page.get(at.in_page()..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*bytes))
    }
}
