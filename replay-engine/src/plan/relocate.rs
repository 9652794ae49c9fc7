//! Relocation of page tables and memory of a recording into the agent's arena: the state at its start, and the later
//! changes by the CPU.

mod changes;
mod cpu;
mod edits;
mod tables;

pub(crate) use changes::Change;
pub use edits::EDIT_END;
pub(crate) use edits::Edit;

use super::memory::{PlanGpuMemory, PlanPages};
use super::{CompileError, PageImages, PlanPage, PlanSpace};
use crate::device::Arena;
pub(crate) use cpu::CpuMemory;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use trace_core::mmu::{VA_BITS, for_each_table, root_register, translate};
use trace_core::progress::Progress;
use trace_core::recording::{
    AddressSpace, Digest, FrameRole, HostWriteRow, MmuFormat, Page, PageId, ZERO_PAGE, zero_digest,
};
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr, Recording};

/// Number of bits of a physical address in an entry.
const PHYSICAL_BITS: u32 = 48;

/// Maximum number of checked mapped pages, for all translations together: 64 GiB of addresses. A block counts as all
/// its pages, and a page counts again whenever it is mapped again. Tables can map one piece of memory any number of
/// times, so neither the recording's size nor the arena's limits this.
pub const MAX_VISITED_PAGES: u64 = 1 << 24;

/// Number of mapped pages between two checks for cancellation.
const CHECK_EVERY: u64 = 1 << 16;

/// The contents of a new frame.
enum Content<'a> {
    Stored(&'a Page, Digest),
    Made(Box<Page>),
}

impl Content<'_> {
    fn page(&self) -> &Page {
        match self {
            Self::Stored(page, _) => page,
            Self::Made(page) => page,
        }
    }
}

/// A table of one translation. It keeps its frame in the arena for the whole plan, even without references.
struct Table {
    pub space: usize,
    /// Its recorded frame, and its frame in the arena.
    pub old: u64,
    pub new: u64,
    pub level: u8,
    /// First address that it translates.
    pub va: GpuVa,
    /// Number of entries that point at it. An existing root counts as one.
    pub refs: u32,
    /// Whether it ever existed: its contents in the arena are `made`.
    pub filled: bool,
    /// Its entries as recorded and as in the arena, at the last update.
    pub raw: Box<Page>,
    pub made: Box<Page>,
}

impl Table {
    pub fn new(space: usize, old: u64, new: u64, level: u8, va: GpuVa) -> Self {
        Self {
            space,
            old,
            new,
            level,
            va,
            refs: 0,
            filled: false,
            raw: Box::new(ZERO_PAGE),
            made: Box::new(ZERO_PAGE),
        }
    }
}

/// Changed bytes of one frame.
struct Patch {
    page: Box<Page>,
    touched: Box<[bool; PAGE_SIZE]>,
    /// The page of the recording that has all these bytes, if there is one.
    stored: Option<PageId>,
    /// Whether all bytes are from that page.
    plain: bool,
}

impl Patch {
    fn new() -> Self {
        Self {
            page: Box::new(ZERO_PAGE),
            touched: Box::new([false; PAGE_SIZE]),
            stored: None,
            plain: true,
        }
    }

    fn set(&mut self, from: usize, bytes: &[u8]) {
        let end = from.saturating_add(bytes.len());
        if let (Some(to), Some(touched)) = (self.page.get_mut(from..end), self.touched.get_mut(from..end)) {
            to.copy_from_slice(bytes);
            touched.fill(true);
        }
    }

    fn runs(&self) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        let mut at = 0;
        for same in self.touched.chunk_by(|a, b| a == b) {
            if same.first() == Some(&true) {
                runs.push(at..at + same.len());
            }
            at += same.len();
        }
        runs
    }

    /// Writes the bytes over a page.
    fn over(&self, page: &mut Page) {
        for r in self.runs() {
            if let (Some(to), Some(from)) = (page.get_mut(r.clone()), self.page.get(r)) {
                to.copy_from_slice(from);
            }
        }
    }
}

/// Relocated page tables and memory.
pub struct RelocatedMemory<'a> {
    recording: &'a Recording,
    spaces: &'a [AddressSpace],
    progress: &'a Progress,
    /// Recorded memory, with the CPU writes so far.
    cpu: CpuMemory<'a>,
    /// Frames that the CPU writes at any time of the recording.
    written: HashSet<u64>,
    /// New data frames, by recorded frame.
    data: HashMap<u64, u64>,
    /// Number of current mappings of each recorded frame.
    mapped: HashMap<u64, u32>,
    tables: Vec<Table>,
    /// Tables by translation and recorded frame, and by recorded frame.
    table_at: HashMap<(usize, u64), usize>,
    tables_of: HashMap<u64, Vec<usize>>,
    /// The initial contents of the plan.
    content: BTreeMap<u64, (FrameRole, Content<'a>)>,
    /// Current contents of changed frames, for CPU changes while the plan runs.
    now: HashMap<u64, Box<Page>>,
    /// Pending changes, by new frame.
    patches: BTreeMap<u64, Patch>,
    /// The CPU writes since the last submit, and the translations whose tables they changed.
    given: Vec<(HostWriteRow, &'a [u8])>,
    changed_spaces: BTreeSet<usize>,
    /// Whether no chain has been submitted yet; and the new frames that were first used since the last submit.
    untouched: bool,
    fresh: HashSet<u64>,
    /// Images that changes take bytes from, by number.
    images: Vec<Digest>,
    image_numbers: HashMap<Digest, u32>,
    image_pages: PageImages,
    /// Whether the initial contents are still under construction.
    starting: bool,
    next: u64,
    arena: Arena,
    target: TableTarget,
    /// Number of checked mapped pages so far.
    visited: u64,
    leaves: u64,
    /// The translations.
    pub moved: Vec<RelocatedSpace>,
}

/// How relocated page tables differ from the recorded ones besides their addresses.
#[derive(Clone, Copy, Debug)]
pub struct TableTarget {
    /// Their format; `None`: the recorded one.
    pub format: Option<MmuFormat>,
    /// Number of bits of an address of the target's GPU. A mapping beyond it is refused.
    pub va_bits: u32,
}

impl Default for TableTarget {
    fn default() -> Self {
        Self {
            format: None,
            va_bits: VA_BITS,
        }
    }
}

/// A relocated translation.
#[derive(Clone, Copy, Debug)]
pub struct RelocatedSpace {
    /// Its entry in the plan.
    pub space: PlanSpace,
    /// Number of relocated tables at the start.
    pub tables: u64,
    /// Number of relocated pages and blocks at the start.
    pub leaves: u64,
}

/// The pages that a plan needs of relocated memory: the initial pages, the images of later changes, and all of them by
/// digest.
pub(crate) struct RelocatedPages {
    pub pages: Vec<PlanPage>,
    pub images: Vec<Digest>,
    pub by_digest: PageImages,
}

impl<'a> RelocatedMemory<'a> {
    /// Relocates everything that the recording's translations map at its start: first the tables, then data by
    /// ascending address. Later mappings are relocated when they occur.
    ///
    /// # Errors
    /// If tables cannot be walked, are mapped for the GPU, map more than [`MAX_VISITED_PAGES`] or an address that the
    /// target does not have, have an entry that the target's format cannot express, the arena is too small, or the work
    /// was cancelled.
    pub fn new(
        recording: &'a Recording,
        arena: Arena,
        target: TableTarget,
        progress: &'a Progress,
    ) -> Result<Self, CompileError> {
        if arena.base.in_page() != 0 || arena.end().get() >> PHYSICAL_BITS != 0 {
            return Err(CompileError::ArenaOutOfReach);
        }
        let spaces = &recording.metadata.address_spaces;
        if let Some(space) = spaces.iter().find(|s| !MmuFormat::WRITTEN.contains(&s.format)) {
            return Err(CompileError::TableFormat {
                number: space.number,
                format: space.format.name(),
            });
        }
        let mut this = Self {
            recording,
            spaces,
            progress,
            cpu: CpuMemory::new(recording),
            written: recording.events.host_writes.iter().map(|w| w.frame()).collect(),
            data: HashMap::new(),
            mapped: HashMap::new(),
            tables: Vec::new(),
            table_at: HashMap::new(),
            tables_of: HashMap::new(),
            content: BTreeMap::new(),
            now: HashMap::new(),
            patches: BTreeMap::new(),
            given: Vec::new(),
            changed_spaces: BTreeSet::new(),
            untouched: true,
            fresh: HashSet::new(),
            images: Vec::new(),
            image_numbers: HashMap::new(),
            image_pages: PageImages::new(),
            starting: true,
            next: arena.base.frame(),
            arena,
            target,
            visited: 0,
            leaves: 0,
            moved: Vec::new(),
        };
        let mut roots = Vec::new();
        for (index, space) in this.spaces.iter().enumerate() {
            progress.check()?;
            roots.push(this.place_tables(index, space)?);
        }
        for (space, (root, tables)) in this.spaces.iter().zip(roots) {
            this.leaves = 0;
            if tables > 0 {
                if let Some(t) = this.tables.get_mut(root) {
                    t.refs = 1;
                }
                this.fill(root)?;
            }
            let root = PhysAddr::new(this.tables.get(root).map_or(0, |t| t.new) << 12);
            let format = target.format.unwrap_or(space.format);
            this.moved.push(RelocatedSpace {
                space: PlanSpace {
                    number: space.number,
                    format,
                    root,
                    root_register: root_register(format, root),
                },
                tables,
                leaves: this.leaves,
            });
        }
        this.starting = false;
        this.fresh.clear();
        Ok(this)
    }

    /// Allocates `count` frames, the first a multiple of `align`.
    fn take(&mut self, count: u64, align: u64) -> Result<u64, CompileError> {
        let small = CompileError::ArenaTooSmall {
            pages: self.arena.pages,
        };
        let end = self.arena.end().get() >> 12;
        let first = self.next.checked_next_multiple_of(align.max(1));
        match first.and_then(|f| Some((f, f.checked_add(count)?))) {
            Some((first, after)) if after <= end => {
                self.next = after;
                Ok(first)
            }
            _ => Err(small),
        }
    }

    /// Allocates a frame for every table of a translation, the root first. Returns the root's number and the number of
    /// tables: none if the CPU creates the root only later.
    fn place_tables(&mut self, index: usize, space: &AddressSpace) -> Result<(usize, u64), CompileError> {
        let root = space.root.frame();
        if self.cpu.frame(root).is_none() && self.written.contains(&root) {
            let new = self.take(1, 1)?;
            let number = self.add_table(Table::new(index, root, new, 0, GpuVa::ZERO));
            return Ok((number, 0));
        }
        let mut found = Vec::new();
        for_each_table(space.format, space.root, &self.cpu, &mut |t| found.push(t)).map_err(|source| {
            CompileError::Tables {
                number: space.number,
                source,
            }
        })?;
        let first = self.tables.len();
        for t in &found {
            let new = self.take(1, 1)?;
            self.add_table(Table::new(index, t.at.frame(), new, t.level, t.va));
        }
        Ok((first, found.len() as u64))
    }

    /// Counts mapped pages before they are checked.
    fn visit(&mut self, pages: u64) -> Result<(), CompileError> {
        let before = self.visited / CHECK_EVERY;
        self.visited = self.visited.saturating_add(pages);
        if self.visited > MAX_VISITED_PAGES {
            return Err(CompileError::TooManyMapped {
                limit: MAX_VISITED_PAGES,
            });
        }
        if self.visited / CHECK_EVERY > before {
            self.progress.check()?;
        }
        Ok(())
    }

    fn place_leaf(&mut self, va: GpuVa, old: u64, count: u64) -> Result<(), CompileError> {
        // One recorded frame stays one frame, however often it is mapped.
        let first = match self.data.get(&old) {
            Some(new) => *new,
            None => self.take(count, count)?,
        };
        for i in 0..count {
            let frame = old.saturating_add(i);
            let new = first.saturating_add(i);
            let known = self.data.get(&frame).copied();
            if known.is_some_and(|k| k != new) || !first.is_multiple_of(count) {
                return Err(CompileError::BlockOverlaps { va });
            }
            if known.is_none() {
                self.data.insert(frame, new);
                self.place_page(frame, new)?;
                self.fresh.insert(new);
            }
        }
        Ok(())
    }

    /// Puts the CPU's contents of a recorded frame into a new, unused one.
    fn place_page(&mut self, old: u64, new: u64) -> Result<(), CompileError> {
        let content = match self.cpu.page_id(old) {
            Some(PageId::ZERO) => return Ok(()),
            Some(id) => {
                let pages = &self.recording.memory.pages;
                let missing = CompileError::PageMissing { frame: old };
                let (Some(page), Some(digest)) = (pages.page(id), pages.digest(id)) else {
                    return Err(missing);
                };
                Content::Stored(page, digest)
            }
            None => match self.cpu.frame(old) {
                Some(page) => Content::Made(Box::new(*page)),
                None => return Ok(()),
            },
        };
        self.content.insert(new, (FrameRole::Data, content));
        Ok(())
    }

    /// Checks that a range is currently mapped.
    ///
    /// # Errors
    /// If the address space does not exist or a byte is not mapped.
    pub fn check(&self, what: &str, space: u32, va: GpuVa, bytes: u64) -> Result<(), CompileError> {
        let mut done = 0u64;
        while done < bytes {
            let not = || CompileError::NotMapped {
                what: what.to_owned(),
                va: va.saturating_add(done),
            };
            let at = va.checked_add(done).ok_or_else(not)?;
            self.old_frame(what, space, at)?.ok_or_else(not)?;
            done += (bytes - done).min((PAGE_SIZE - at.in_page()) as u64);
        }
        Ok(())
    }

    /// Returns the recorded frame of an address, if it is currently mapped.
    ///
    /// # Errors
    /// If the address space does not exist.
    fn old_frame(&self, what: &str, space: u32, va: GpuVa) -> Result<Option<u64>, CompileError> {
        let index = space as usize;
        let a = self.spaces.get(index).ok_or_else(|| CompileError::NoAddressSpace {
            what: what.to_owned(),
            index: space,
        })?;
        let leaf = translate(a.format, a.root, va, &self.cpu);
        let frame = leaf.ok().and_then(|l| l.target(va)).map(PhysAddr::frame);
        Ok(frame.filter(|f| self.data.contains_key(f)))
    }

    /// Notes the submit of a chain: from here on jobs may have written all mapped memory.
    pub fn note_submit(&mut self) {
        self.untouched = false;
        self.fresh.clear();
    }

    /// Returns the GPU's current view through a translation.
    pub fn gpu(&self, space: &PlanSpace) -> PlanGpuMemory<'_, Self> {
        PlanGpuMemory::new(self, space)
    }

    /// Returns the number of used frames from the start of the arena.
    #[must_use]
    pub fn used_pages(&self) -> u64 {
        self.next - self.arena.base.frame()
    }

    /// Returns the data frames: new and recorded frame numbers.
    #[must_use]
    pub(crate) fn frames(&self) -> HashMap<u64, u64> {
        self.data.iter().map(|(old, new)| (*new, *old)).collect()
    }

    /// Returns the initial pages, sorted by frame, and the images of changes.
    #[must_use]
    pub(crate) fn into_pages(self) -> RelocatedPages {
        let mut by_digest = self.image_pages;
        let mut list = Vec::with_capacity(self.content.len());
        for (frame, (role, content)) in self.content {
            let digest = match content {
                Content::Stored(page, digest) => {
                    by_digest.entry(digest).or_insert_with(|| (*page).into());
                    digest
                }
                Content::Made(page) => {
                    let digest = *blake3::hash(&*page).as_bytes();
                    by_digest.entry(digest).or_insert_with(|| page.into());
                    digest
                }
            };
            if digest != zero_digest() {
                list.push(PlanPage { frame, digest, role });
            }
        }
        by_digest.remove(&zero_digest());
        RelocatedPages {
            pages: list,
            images: self.images,
            by_digest,
        }
    }
}

impl PlanPages for RelocatedMemory<'_> {
    fn page(&self, frame: u64) -> Option<&Page> {
        let first = self.arena.base.frame();
        if frame < first || frame >= self.next {
            return None;
        }
        if let Some(page) = self.now.get(&frame) {
            return Some(page);
        }
        Some(self.content.get(&frame).map_or(&ZERO_PAGE, |(_, c)| c.page()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use trace_core::mmu::{Rights, encode_leaf, encode_table};
    use trace_core::recording::{MemoryBuilder, MmuFormat};

    const F: MmuFormat = MmuFormat::Aarch64_4k;

    /// Builds 512 tables with the same contents: 512 blocks of 1 GiB each, all at one address.
    fn repeated_blocks() -> Recording {
        let mut m = MemoryBuilder::new();
        let page = |entry: &dyn Fn(u64) -> u64| {
            let mut p = [0u8; PAGE_SIZE];
            for (i, e) in p.chunks_exact_mut(8).enumerate() {
                e.copy_from_slice(&entry(i as u64).to_le_bytes());
            }
            p
        };
        let block = encode_leaf(F, PhysAddr::new(0x4000_0000), Rights::RW, 0) & !2;
        let top = m.add_page(&page(&|i| encode_table(F, PhysAddr::new((0x1000 + i) << 12))));
        let blocks = m.add_page(&page(&|_| block));
        let mut frames = vec![(1, top, FrameRole::Table)];
        frames.extend((0..512).map(|i| (0x1000 + i, blocks, FrameRole::Table)));
        m.add_snapshot(0, frames);
        let mut r = Recording {
            memory: m.finish(),
            ..Recording::default()
        };
        r.metadata.address_spaces = vec![AddressSpace {
            number: 0,
            format: F,
            root: PhysAddr::new(0x1000),
            memattr: 0,
            transcfg: 6,
        }];
        r
    }

    #[test]
    fn huge_aliased_mapping_is_refused_and_cancellable() {
        let r = repeated_blocks();
        let arena = Arena {
            base: PhysAddr::new(0x1_0000_0000),
            pages: 1 << 20,
        };
        let progress = Progress::new();
        let error = RelocatedMemory::new(&r, arena, TableTarget::default(), &progress).err();
        assert!(
            matches!(
                error,
                Some(CompileError::TooManyMapped {
                    limit: MAX_VISITED_PAGES
                })
            ),
            "{error:?}"
        );
        progress.cancel();
        let error = RelocatedMemory::new(&r, arena, TableTarget::default(), &progress).err();
        assert!(matches!(error, Some(CompileError::Cancelled(_))), "{error:?}");
    }
}
