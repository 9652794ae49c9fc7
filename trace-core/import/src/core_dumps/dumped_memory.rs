//! The GPU memory of a dump: buffers at their addresses, in one or several address spaces. A dump has no page tables and
//! no physical addresses, so the import generates both.

use crate::generated_tables::{self, EVERY_RIGHT, PagePlacement};
use std::collections::{BTreeMap, BTreeSet};
use trace_core::finding::{Finding, FindingKind};
use trace_core::mmu::VA_BITS;
use trace_core::recording::{
    AddressSpace, Buffer, BufferRole, ElementType, FrameRole, GENERATED_TABLES, Memory, MemoryBuilder, Metadata,
    MmuFormat, PageId, Region, ZERO_PAGE,
};
use trace_core::{GpuVa, PAGE_SIZE};

/// Number of the first frame for pages of buffers; tables are below it.
const FIRST_FRAME: u64 = 0x10_0000;
/// Maximum number of pages of GPU memory: 8 GiB.
const MAX_PAGES: u64 = 1 << 21;
/// Maximum number of pages that are zero because a driver leaves zeros at the end of buffers out: 1 GiB.
const MAX_ZERO_PAGES: u64 = 1 << 18;
/// Maximum number of regions that are listed.
const MAX_REGIONS: usize = 1 << 16;

/// A range of GPU memory in a dump.
pub(super) struct DumpedRange<'c> {
    /// Index of the address space.
    pub space: u32,
    /// Name of the buffer; an address is added to a name that is taken.
    pub name: String,
    /// Role of the buffer.
    pub role: BufferRole,
    /// First address.
    pub va: GpuVa,
    /// Size in bytes.
    pub bytes: u64,
    /// The content from the first address on, if the dump holds it. A driver leaves out zeros at the end, so what is
    /// missing up to the size is zero if `has_zero_end` is set.
    pub content: Option<&'c [u8]>,
    /// Whether the rest of the range is zero.
    pub has_zero_end: bool,
    /// Flags of the driver.
    pub flags: u64,
    /// Physical addresses of the pages, as far as the dump has them.
    pub page_addresses: &'c [u64],
}

/// Why a range was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RangeError {
    /// It ends beyond the addresses that a recording has.
    #[error("{bytes:#x} bytes at {va:#x} end beyond addresses of {VA_BITS} bits")]
    BeyondAddresses {
        /// First address.
        va: u64,
        /// Size in bytes.
        bytes: u64,
    },
    /// There are too many ranges.
    #[error("there are more than {MAX_REGIONS} buffers")]
    TooMany,
}

/// The GPU memory of a dump.
#[derive(Default)]
pub(super) struct DumpedMemory {
    builder: MemoryBuilder,
    /// By address space: the page and the frame of each GPU page number.
    pages: Vec<BTreeMap<u64, (PageId, u64)>>,
    page_count: u64,
    /// Frames of pages, and how many pages did not get the address that the dump gives.
    frames: BTreeSet<u64>,
    moved: u64,
    left_out: u64,
    zero_ends: u64,
    source_pages: u64,
    source_zero_pages: u64,
    buffers: Vec<Buffer>,
    regions: Vec<Region>,
    names: BTreeSet<String>,
}

impl DumpedMemory {
    /// Adds a range.
    ///
    /// # Errors
    ///
    /// If the range is beyond the addresses of a recording, or there are too many.
    pub(super) fn add(&mut self, range: DumpedRange<'_>) -> Result<(), RangeError> {
        let (va, bytes) = (range.va, range.bytes);
        let end = va.checked_add(bytes).filter(|end| end.get() <= 1 << VA_BITS);
        let Some(end) = end else {
            return Err(RangeError::BeyondAddresses { va: va.get(), bytes });
        };
        if self.regions.len() >= MAX_REGIONS {
            return Err(RangeError::TooMany);
        }
        let space = range.space as usize;
        if self.pages.len() <= space {
            self.pages.resize_with(space + 1, BTreeMap::new);
        }
        let content = range.content.map(|c| {
            let size = usize::try_from(bytes).unwrap_or(usize::MAX).min(c.len());
            c.get(..size).unwrap_or_default()
        });
        let there = match content {
            Some(_) if range.has_zero_end => bytes,
            Some(content) => content.len() as u64,
            None => 0,
        };
        if content.is_some() {
            self.place_pages(space, va, range.page_addresses);
        }
        if let Some(content) = content {
            self.fill(space, va, content, there);
        }
        self.regions.push(Region {
            address_space: range.space,
            start: va,
            end,
            committed_pages: there.div_ceil(PAGE_SIZE as u64),
            flags: range.flags,
            has_content: there > 0,
        });
        if there > 0 {
            let mut name = range.name;
            if self.names.contains(&name) {
                name = format!("{name} {va:#x}");
            }
            while !self.names.insert(name.clone()) {
                name.push('\'');
            }
            self.buffers.push(Buffer {
                name,
                role: range.role,
                address_space: range.space,
                va,
                bytes: there,
                element: ElementType::U32,
            });
        }
        Ok(())
    }

    /// Gives pages from `va` on their physical addresses. A page whose address another one has gets a generated one.
    fn place_pages(&mut self, space: usize, va: GpuVa, addresses: &[u64]) {
        let is_frame = |at: u64| at.is_multiple_of(PAGE_SIZE as u64) && at >> VA_BITS == 0 && at != 0;
        for (page, at) in (va.page()..).zip(addresses) {
            let Some(pages) = self.pages.get_mut(space) else { return };
            if self.page_count >= MAX_PAGES || pages.contains_key(&page) {
                continue;
            }
            let frame = at / PAGE_SIZE as u64;
            if is_frame(*at) && self.frames.insert(frame) {
                pages.insert(page, (PageId::ZERO, frame));
                self.page_count += 1;
            } else {
                self.moved += 1;
            }
        }
    }

    /// Returns a frame that no page has.
    fn next_frame(&mut self) -> u64 {
        let mut frame = FIRST_FRAME + self.page_count;
        while !self.frames.insert(frame) {
            frame += 1;
        }
        frame
    }

    /// Writes content from `va` on, and zeros up to `there` bytes.
    fn fill(&mut self, space: usize, va: GpuVa, content: &[u8], there: u64) {
        let mut rest = content;
        let mut to = va;
        while !rest.is_empty() {
            let from = to.in_page();
            let (piece, after) = rest.split_at(rest.len().min(PAGE_SIZE - from));
            self.write(space, to.page(), from, piece);
            rest = after;
            to = to.saturating_add(piece.len() as u64);
        }
        // The page where the content ends has its zeros already.
        let end = va.saturating_add(there);
        let (mut page, last) = (
            to.get().div_ceil(PAGE_SIZE as u64),
            end.get().div_ceil(PAGE_SIZE as u64),
        );
        while page < last {
            if self.page_count >= MAX_PAGES || self.zero_ends >= MAX_ZERO_PAGES {
                self.left_out = self.left_out.saturating_add(last - page);
                return;
            }
            self.zero_ends += 1;
            self.zero(space, page);
            page += 1;
        }
    }

    /// Makes a page zero, unless it has content.
    fn zero(&mut self, space: usize, page: u64) {
        if self.pages.get(space).is_some_and(|pages| !pages.contains_key(&page)) {
            let frame = self.next_frame();
            self.page_count += 1;
            if let Some(pages) = self.pages.get_mut(space) {
                pages.insert(page, (PageId::ZERO, frame));
            }
        }
        self.source_pages += 1;
        self.source_zero_pages += 1;
    }

    /// Describes where an address is: `in NAME`, or in no buffer.
    pub(super) fn describe_place(&self, space: u32, va: GpuVa) -> String {
        let holds = |start: GpuVa, end: GpuVa| start <= va && va < end;
        let mut regions = self.regions.iter().filter(|r| r.address_space == space);
        let Some(region) = regions.find(|r| holds(r.start, r.end)) else {
            return "in no buffer of the dump".to_owned();
        };
        let named = self
            .buffers
            .iter()
            .find(|b| b.address_space == space && b.va == region.start);
        match named {
            Some(buffer) => format!("in {}", buffer.name),
            None => format!("in the buffer at {:#x}", region.start.get()),
        }
    }

    /// Writes bytes into a page.
    fn write(&mut self, space: usize, page: u64, from: usize, bytes: &[u8]) {
        let known = self.pages.get(space).and_then(|pages| pages.get(&page)).copied();
        if known.is_none() && self.page_count >= MAX_PAGES {
            self.left_out += 1;
            return;
        }
        let (id, frame) = known.unwrap_or_else(|| (PageId::ZERO, self.next_frame()));
        self.page_count += u64::from(known.is_none());
        let mut image = *self.builder.image(id).unwrap_or(&ZERO_PAGE);
        if let Some(to) = image.get_mut(from..from + bytes.len()) {
            to.copy_from_slice(bytes);
        }
        let id = self.builder.add_page(&image);
        self.source_pages += 1;
        self.source_zero_pages += u64::from(id == PageId::ZERO);
        if let Some(pages) = self.pages.get_mut(space) {
            pages.insert(page, (id, frame));
        }
    }

    /// Generates the page tables, and stores spaces, buffers and regions in the metadata. Returns the memory.
    pub(super) fn finish(mut self, metadata: &mut Metadata) -> Memory {
        let format = MmuFormat::Aarch64_4k;
        let mut frames = Vec::new();
        let mut next = generated_tables::FIRST_FRAME;
        for (number, pages) in (0u8..).zip(&self.pages) {
            let placed = |(page, (_, frame)): (&u64, &(PageId, u64))| {
                let rights = EVERY_RIGHT;
                (*page, PagePlacement { frame: *frame, rights })
            };
            let generated = generated_tables::generate_from(format, next, &pages.iter().map(placed).collect());
            self.left_out += generated.left_out;
            let last = generated.tables.iter().map(|(frame, _)| *frame).max();
            next = last.map_or(next, |last| last + 1);
            for (frame, image) in &generated.tables {
                frames.push((*frame, self.builder.add_page(image), FrameRole::Table));
            }
            frames.extend(pages.values().map(|(id, frame)| (*frame, *id, FrameRole::Data)));
            metadata.address_spaces.push(AddressSpace {
                number,
                format,
                root: generated.root,
                memattr: 0,
                transcfg: 0,
            });
        }
        if !self.pages.is_empty() {
            let message = "the dump holds no page tables, access rights or physical addresses: all three were made for \
                           its buffers, with all rights";
            metadata
                .findings
                .push(Finding::new(FindingKind::Assumed, GENERATED_TABLES, message));
        }
        if self.moved > 0 {
            let message = format!(
                "{} pages have no address of their own in the dump; one was made",
                self.moved
            );
            metadata
                .findings
                .push(Finding::new(FindingKind::Assumed, "memory", message));
        }
        if self.left_out > 0 {
            let message = format!(
                "{} pages are missing: there are too many for a recording",
                self.left_out
            );
            metadata
                .findings
                .push(Finding::new(FindingKind::NotUsed, "memory", message));
        }
        if !frames.is_empty() {
            self.builder.add_snapshot(0, frames);
        }
        metadata.buffers = self.buffers;
        metadata.regions = self.regions;
        metadata.source_pages = self.source_pages;
        metadata.source_zero_pages = self.source_zero_pages;
        self.builder.finish()
    }
}
