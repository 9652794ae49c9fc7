//! Memory layout of the device: used frames, page tables in either format, and mappings.

use crate::error::DriverError;
use crate::recorder::Recorder;
use replay_engine::device::{Arena, RegisterTarget, space};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use trace_core::mmu::{self, EntryKind, INVALID, Rights};
use trace_core::recording::{FrameRole, MmuFormat, ZERO_PAGE};
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr};

const PAGE: u64 = PAGE_SIZE as u64;

/// Address space of a [`crate::Driver`], by its hardware number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpaceId(pub(crate) u8);

impl SpaceId {
    /// Returns the hardware number of the address space.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }
}

/// Allocator of arena frames. Frames are reused after nothing maps them any more.
#[derive(Debug)]
pub(crate) struct FrameAllocator {
    arena: Arena,
    next: u64,
    /// Every frame that was ever allocated, with its role, which never changes.
    taken: BTreeMap<u64, FrameRole>,
    /// Data frames that nothing maps any more. They keep their old contents.
    free: Vec<u64>,
    /// Number of mappings of a data frame beyond the first.
    shared: HashMap<u64, u32>,
}

impl FrameAllocator {
    pub(crate) fn new(arena: Arena) -> Self {
        Self {
            arena,
            next: arena.base.frame(),
            taken: BTreeMap::new(),
            free: Vec::new(),
            shared: HashMap::new(),
        }
    }

    /// Returns an error if `pages` more data frames cannot be allocated.
    fn check_free_pages(&self, pages: u64) -> Result<(), DriverError> {
        let left = (self.arena.end().get() / PAGE).saturating_sub(self.next);
        if pages > left.saturating_add(self.free.len() as u64) {
            return Err(DriverError::OutOfMemory {
                pages: self.arena.pages,
            });
        }
        Ok(())
    }

    fn take(&mut self, role: FrameRole) -> Result<u64, DriverError> {
        let frame = self.next;
        if frame >= self.arena.end().get() / PAGE {
            return Err(DriverError::OutOfMemory {
                pages: self.arena.pages,
            });
        }
        self.next += 1;
        self.taken.insert(frame, role);
        Ok(frame)
    }

    fn share(&mut self, frame: u64) {
        *self.shared.entry(frame).or_insert(0) += 1;
    }

    fn give_back(&mut self, frame: u64) {
        match self.shared.get_mut(&frame) {
            Some(more) if *more > 1 => *more -= 1,
            Some(_) => {
                self.shared.remove(&frame);
            }
            None => self.free.push(frame),
        }
    }

    /// Returns the allocated frames with their roles, in ascending order.
    pub(crate) fn used_frames(&self) -> impl Iterator<Item = (u64, FrameRole)> + '_ {
        self.taken.iter().map(|(f, r)| (*f, *r))
    }
}

/// The CPU's access to memory. The recorder sees its writes.
pub(crate) struct Host<'a> {
    pub device: &'a mut dyn RegisterTarget,
    pub recorder: &'a mut Recorder,
    pub frames: &'a mut FrameAllocator,
}

impl Host<'_> {
    /// Reads an entry of the table in a frame.
    fn entry(&mut self, table: u64, index: u16) -> Result<u64, DriverError> {
        let offset = self.offset(table, usize::from(index) * 8);
        self.device
            .read(space::ARENA, offset, 8)
            .map_err(|error| memory_access("read", offset, error))
    }

    fn set_entry(&mut self, table: u64, index: u16, value: u64) -> Result<(), DriverError> {
        let at = usize::from(index) * 8;
        let offset = self.offset(table, at);
        self.device
            .write(space::ARENA, offset, 8, value)
            .map_err(|error| memory_access("write", offset, error))?;
        self.recorder.add_host_write(table, FrameRole::Table, at..at + 8);
        Ok(())
    }

    /// Returns the offset of a byte from the start of the arena.
    fn offset(&self, frame: u64, at: usize) -> u64 {
        (frame.saturating_mul(PAGE) | at as u64).saturating_sub(self.frames.arena.base.get())
    }

    fn new_table(&mut self) -> Result<u64, DriverError> {
        let frame = self.frames.take(FrameRole::Table)?;
        let mut page = ZERO_PAGE;
        for entry in page.as_chunks_mut::<8>().0 {
            *entry = INVALID.to_le_bytes();
        }
        self.device.store_page(frame, &page)?;
        self.recorder.add_host_write(frame, FrameRole::Table, 0..PAGE_SIZE);
        Ok(frame)
    }

    /// Allocates a frame of zeros.
    fn new_data(&mut self) -> Result<u64, DriverError> {
        let Some(frame) = self.frames.free.pop() else {
            let frame = self.frames.take(FrameRole::Data)?;
            self.recorder.add_host_write(frame, FrameRole::Data, 0..0);
            return Ok(frame);
        };
        // A job must not see what an earlier job left in the frame.
        self.device.store_page(frame, &ZERO_PAGE)?;
        self.recorder.add_host_write(frame, FrameRole::Data, 0..PAGE_SIZE);
        Ok(frame)
    }

    /// Writes bytes to a part of a data frame. A whole page is not read first.
    pub(crate) fn patch(&mut self, frame: u64, part: Range<usize>, bytes: &[u8]) -> Result<(), DriverError> {
        let mut page = ZERO_PAGE;
        if part.len() < PAGE_SIZE {
            self.device.load_page(frame, &mut page)?;
        }
        if let Some(to) = page.get_mut(part.clone()).filter(|to| to.len() == bytes.len()) {
            to.copy_from_slice(bytes);
        }
        self.device.store_page(frame, &page)?;
        self.recorder.add_host_write(frame, FrameRole::Data, part);
        Ok(())
    }
}

fn memory_access(what: &'static str, offset: u64, error: replay_core::DeviceError) -> DriverError {
    DriverError::MemoryAccess { what, offset, error }
}

/// A mapped page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MappedPage {
    pub frame: u64,
    pub rights: Rights,
}

/// One address space.
#[derive(Debug)]
pub(crate) struct AddressSpace {
    pub format: MmuFormat,
    pub root: PhysAddr,
    /// Mapped pages by page number.
    pub pages: BTreeMap<u64, MappedPage>,
    /// Whether the hardware has the address space programmed.
    pub programmed: bool,
}

impl AddressSpace {
    pub(crate) fn new(format: MmuFormat, host: &mut Host<'_>) -> Result<Self, DriverError> {
        let root = PhysAddr::new(host.new_table()? * PAGE);
        Ok(Self {
            format,
            root,
            pages: BTreeMap::new(),
            programmed: false,
        })
    }

    /// Adds one page to the tables, and creates missing tables.
    fn insert(&mut self, va: u64, to: MappedPage, host: &mut Host<'_>) -> Result<(), DriverError> {
        let mut table = self.root.frame();
        for level in 0..3 {
            let index = mmu::index_at(level, GpuVa::new(va));
            table = match mmu::entry_kind(self.format, level, host.entry(table, index)?) {
                EntryKind::Table(at) => at.frame(),
                _ => {
                    let below = host.new_table()?;
                    host.set_entry(
                        table,
                        index,
                        mmu::encode_table(self.format, PhysAddr::new(below * PAGE)),
                    )?;
                    below
                }
            };
        }
        let leaf = mmu::encode_leaf(self.format, PhysAddr::new(to.frame * PAGE), to.rights, 0);
        host.set_entry(table, mmu::index_at(3, GpuVa::new(va)), leaf)?;
        self.pages.insert(va / PAGE, to);
        Ok(())
    }

    /// Removes one page from the tables. The tables stay.
    fn remove(&mut self, va: u64, host: &mut Host<'_>) -> Result<(), DriverError> {
        let mut table = self.root.frame();
        for level in 0..3 {
            let raw = host.entry(table, mmu::index_at(level, GpuVa::new(va)))?;
            match mmu::entry_kind(self.format, level, raw) {
                EntryKind::Table(at) => table = at.frame(),
                _ => return Ok(()),
            }
        }
        host.set_entry(table, mmu::index_at(3, GpuVa::new(va)), INVALID)
    }

    fn range(va: GpuVa, bytes: u64) -> Result<Range<u64>, DriverError> {
        let bad = |reason| DriverError::BadRange { va, bytes, reason };
        if bytes == 0 || va.in_page() != 0 {
            return Err(bad("it is empty or does not begin at a page"));
        }
        let end = va
            .get()
            .checked_add(bytes)
            .filter(|e| *e <= 1 << mmu::VA_BITS)
            .ok_or(bad("it is outside the address range"))?;
        Ok(va.page()..end.div_ceil(PAGE))
    }

    /// Checks that a range can be mapped and returns its page numbers.
    pub(crate) fn free_range(&self, va: GpuVa, bytes: u64) -> Result<Range<u64>, DriverError> {
        let pages = Self::range(va, bytes)?;
        if self.pages.range(pages.clone()).next().is_some() {
            return Err(DriverError::BadRange {
                va,
                bytes,
                reason: "it is mapped already",
            });
        }
        Ok(pages)
    }

    /// Maps new frames of zeros.
    pub(crate) fn map(
        &mut self,
        va: GpuVa,
        bytes: u64,
        rights: Rights,
        host: &mut Host<'_>,
    ) -> Result<(), DriverError> {
        let pages = self.free_range(va, bytes)?;
        host.frames.check_free_pages(pages.end - pages.start)?;
        for page in pages {
            let frame = host.new_data()?;
            self.insert(page * PAGE, MappedPage { frame, rights }, host)?;
        }
        Ok(())
    }

    /// Maps the frames that another address space maps at the same addresses.
    pub(crate) fn share(&mut self, from: &Self, va: GpuVa, bytes: u64, host: &mut Host<'_>) -> Result<(), DriverError> {
        let pages = self.free_range(va, bytes)?;
        if from.pages.range(pages.clone()).count() as u64 != pages.end - pages.start {
            return Err(DriverError::BadRange {
                va,
                bytes,
                reason: "it is not mapped in the address space that it is shared from",
            });
        }
        for (page, to) in from.pages.range(pages) {
            self.insert(page * PAGE, *to, host)?;
            host.frames.share(to.frame);
        }
        Ok(())
    }

    /// Unmaps a range, all of which must be mapped.
    pub(crate) fn unmap(&mut self, va: GpuVa, bytes: u64, host: &mut Host<'_>) -> Result<(), DriverError> {
        let pages = Self::range(va, bytes)?;
        if self.pages.range(pages.clone()).count() as u64 != pages.end - pages.start {
            return Err(DriverError::BadRange {
                va,
                bytes,
                reason: "not all of it is mapped",
            });
        }
        for page in pages {
            self.remove(page * PAGE, host)?;
            if let Some(was) = self.pages.remove(&page) {
                host.frames.give_back(was.frame);
            }
        }
        Ok(())
    }
}
