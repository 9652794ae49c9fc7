//! Memory of the device: which frames are taken, page tables in either format, what is mapped where.

use crate::error::DriverError;
use replay_engine::device::{Arena, Board};
use std::collections::BTreeMap;
use trace_core::mmu::{self, EntryKind, INVALID, Rights};
use trace_core::recording::{FrameRole, MmuFormat, Page, ZERO_PAGE};
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr};

const PAGE: u64 = PAGE_SIZE as u64;

/// An address space of a [`crate::Driver`], by its hardware number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpaceId(pub(crate) u8);

impl SpaceId {
    /// Number of the address space in hardware.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }
}

/// Frames of the arena, given out one after another.
#[derive(Debug)]
pub(crate) struct Frames {
    arena: Arena,
    next: u64,
    /// Every frame given out, by what it is for.
    taken: BTreeMap<u64, FrameRole>,
}

impl Frames {
    pub(crate) fn new(arena: Arena) -> Self {
        Self {
            arena,
            next: arena.base.frame(),
            taken: BTreeMap::new(),
        }
    }

    fn take(&mut self, role: FrameRole) -> Result<u64, DriverError> {
        let frame = self.next;
        if frame >= self.arena.end() / PAGE {
            return Err(DriverError::OutOfMemory {
                pages: self.arena.pages,
            });
        }
        self.next += 1;
        self.taken.insert(frame, role);
        Ok(frame)
    }

    /// Frames given out so far, with what they are for, in rising order.
    pub(crate) fn taken(&self) -> impl Iterator<Item = (u64, FrameRole)> + '_ {
        self.taken.iter().map(|(f, r)| (*f, *r))
    }
}

/// A run of pages with one kind of rights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapped {
    pub frame: u64,
    pub rights: Rights,
}

/// One address space.
#[derive(Debug)]
pub(crate) struct AddressSpace {
    pub format: MmuFormat,
    pub root: PhysAddr,
    /// What is mapped, by page number.
    pub pages: BTreeMap<u64, Mapped>,
    /// Whether the hardware was told of it.
    pub programmed: bool,
}

fn entry(page: &Page, index: u16) -> u64 {
    let at = usize::from(index) * 8;
    page.get(at..at + 8)
        .and_then(|b| b.try_into().ok())
        .map_or(INVALID, u64::from_le_bytes)
}

fn set_entry(page: &mut Page, index: u16, value: u64) {
    let at = usize::from(index) * 8;
    if let Some(to) = page.get_mut(at..at + 8) {
        to.copy_from_slice(&value.to_le_bytes());
    }
}

impl AddressSpace {
    fn new_table(frames: &mut Frames, board: &mut dyn Board) -> Result<u64, DriverError> {
        let frame = frames.take(FrameRole::Table)?;
        let mut page = ZERO_PAGE;
        for index in 0..512 {
            set_entry(&mut page, index, INVALID);
        }
        board.store_page(frame, &page)?;
        Ok(frame)
    }

    pub(crate) fn new(format: MmuFormat, frames: &mut Frames, board: &mut dyn Board) -> Result<Self, DriverError> {
        let root = PhysAddr(Self::new_table(frames, board)? * PAGE);
        Ok(Self {
            format,
            root,
            pages: BTreeMap::new(),
            programmed: false,
        })
    }

    /// Puts one page into the tables, making those that are missing.
    fn insert(&mut self, va: u64, to: Mapped, frames: &mut Frames, board: &mut dyn Board) -> Result<(), DriverError> {
        let mut table = self.root.frame();
        let mut page = ZERO_PAGE;
        for level in 0..3 {
            board.load_page(table, &mut page)?;
            let index = mmu::index_at(level, va);
            table = match mmu::entry_kind(self.format, level, entry(&page, index)) {
                EntryKind::Table(at) => at.frame(),
                _ => {
                    let below = Self::new_table(frames, board)?;
                    set_entry(&mut page, index, mmu::encode_table(self.format, PhysAddr(below * PAGE)));
                    board.store_page(table, &page)?;
                    below
                }
            };
        }
        board.load_page(table, &mut page)?;
        let leaf = mmu::encode_leaf(self.format, PhysAddr(to.frame * PAGE), to.rights, 0);
        set_entry(&mut page, mmu::index_at(3, va), leaf);
        board.store_page(table, &page)?;
        self.pages.insert(va / PAGE, to);
        Ok(())
    }

    /// Checks that a range can be mapped and gives its page numbers.
    pub(crate) fn free_range(&self, va: GpuVa, bytes: u64) -> Result<std::ops::Range<u64>, DriverError> {
        let bad = |reason| DriverError::BadRange { va, bytes, reason };
        if bytes == 0 || va.in_page() != 0 {
            return Err(bad("it is empty or does not begin at a page"));
        }
        let end =
            va.0.checked_add(bytes)
                .filter(|e| *e <= 1 << mmu::VA_BITS)
                .ok_or(bad("it is out of reach"))?;
        let pages = va.page()..end.div_ceil(PAGE);
        if self.pages.range(pages.clone()).next().is_some() {
            return Err(bad("it is mapped already"));
        }
        Ok(pages)
    }

    /// Maps fresh frames of zeros.
    pub(crate) fn map(
        &mut self,
        va: GpuVa,
        bytes: u64,
        rights: Rights,
        frames: &mut Frames,
        board: &mut dyn Board,
    ) -> Result<(), DriverError> {
        for page in self.free_range(va, bytes)? {
            let frame = frames.take(FrameRole::Data)?;
            self.insert(page * PAGE, Mapped { frame, rights }, frames, board)?;
        }
        Ok(())
    }

    /// Maps the frames that another address space has at the same addresses.
    pub(crate) fn share(
        &mut self,
        from: &Self,
        va: GpuVa,
        bytes: u64,
        frames: &mut Frames,
        board: &mut dyn Board,
    ) -> Result<(), DriverError> {
        for page in self.free_range(va, bytes)? {
            let to = *from.pages.get(&page).ok_or(DriverError::BadRange {
                va,
                bytes,
                reason: "it is not mapped in the address space that it is shared from",
            })?;
            self.insert(page * PAGE, to, frames, board)?;
        }
        Ok(())
    }
}
