//! Moves page tables and memory of a recording into the agent's arena, as they are at its start and as the CPU changes
//! them later.

mod changes;
mod cpu;
mod edits;
mod tables;

pub(super) use changes::Change;
pub(super) use edits::Edit;

use super::memory::{PlanGpuMemory, PlanPages};
use super::{CompileError, PlanPage, PlanSpace};
use crate::device::Arena;
use changes::Patch;
pub(super) use cpu::CpuMemory;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use tables::Table;
use trace_core::mmu::{for_each_table, root_register, translate};
use trace_core::progress::Progress;
use trace_core::recording::{AddressSpace, Digest, FrameRole, HostWriteRow, Page, PageId, ZERO_PAGE, zero_digest};
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr, Recording};

/// Bits of a physical address that an entry can hold.
const PHYSICAL_BITS: u32 = 48;

/// Maximum number of mapped pages that are looked at, all translations together, a block counting as all its pages, and
/// a page again whenever it is mapped anew: 64 GiB of addresses. Tables can map one piece of memory any number of
/// times, so neither the recording's size nor the arena's bounds this.
pub const MAX_VISITED_PAGES: u64 = 1 << 24;

/// Mapped pages between two looks at whether the work was cancelled.
const CHECK_EVERY: u64 = 1 << 16;

/// What a new frame holds.
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

/// Page tables and memory, moved.
pub struct RelocatedMemory<'a> {
    recording: &'a Recording,
    spaces: &'a [AddressSpace],
    progress: &'a Progress,
    /// Recorded memory, with what the CPU wrote so far.
    cpu: CpuMemory<'a>,
    /// Frames that the CPU writes at some time of the recording.
    written: HashSet<u64>,
    /// New frames of data, by recorded frame.
    data: HashMap<u64, u64>,
    /// How often each recorded frame is mapped now.
    mapped: HashMap<u64, u32>,
    tables: Vec<Table>,
    /// Tables by translation and recorded frame, and by recorded frame.
    table_at: HashMap<(usize, u64), usize>,
    tables_of: HashMap<u64, Vec<usize>>,
    /// What the plan puts in place before it runs.
    content: BTreeMap<u64, (FrameRole, Content<'a>)>,
    /// Frames that are otherwise now, for what the CPU changed while the plan runs.
    now: HashMap<u64, Box<Page>>,
    /// Changes at hand, by new frame.
    patches: BTreeMap<u64, Patch>,
    /// What the CPU wrote since the latest submit, and the translations whose tables that changed.
    given: Vec<(HostWriteRow, &'a [u8])>,
    changed_spaces: BTreeSet<usize>,
    /// Whether no chain has been submitted yet; new frames that first came into use since the latest was.
    untouched: bool,
    fresh: HashSet<u64>,
    /// Images that changes take bytes from, in the order of their numbers.
    images: Vec<Digest>,
    image_numbers: HashMap<Digest, u32>,
    image_pages: BTreeMap<Digest, Box<Page>>,
    /// Whether the start is still being laid out.
    starting: bool,
    next: u64,
    arena: Arena,
    /// Mapped pages looked at so far.
    visited: u64,
    leaves: u64,
    /// The translations.
    pub moved: Vec<RelocatedSpace>,
}

/// A translation that was moved.
#[derive(Clone, Copy, Debug)]
pub struct RelocatedSpace {
    /// What the plan says of it.
    pub space: PlanSpace,
    /// Tables moved, of those that there are at the start.
    pub tables: u64,
    /// Pages and blocks moved, likewise.
    pub leaves: u64,
}

/// What a plan needs of moved memory: pages to put in place, images of later changes, and all of them by digest.
pub(super) struct RelocatedPages {
    pub pages: Vec<PlanPage>,
    pub images: Vec<Digest>,
    pub by_digest: BTreeMap<Digest, Box<Page>>,
}

impl<'a> RelocatedMemory<'a> {
    /// Moves everything that the recording's translations reach at its start: first the tables, then data by rising
    /// address. What they reach later follows when it is met.
    ///
    /// # Errors
    /// When tables cannot be walked, are mapped for the GPU, map more than [`MAX_VISITED_PAGES`], the arena is too
    /// small, or the work was cancelled.
    pub fn new(recording: &'a Recording, arena: Arena, progress: &'a Progress) -> Result<Self, CompileError> {
        if arena.base.in_page() != 0 || arena.end() >> PHYSICAL_BITS != 0 {
            return Err(CompileError::ArenaOutOfReach);
        }
        let mut this = Self {
            recording,
            spaces: &recording.facts.address_spaces,
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
            image_pages: BTreeMap::new(),
            starting: true,
            next: arena.base.frame(),
            arena,
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
            let root = PhysAddr(this.tables.get(root).map_or(0, |t| t.new) << 12);
            this.moved.push(RelocatedSpace {
                space: PlanSpace {
                    number: space.number,
                    format: space.format,
                    root,
                    root_register: root_register(space.format, root),
                },
                tables,
                leaves: this.leaves,
            });
        }
        this.starting = false;
        this.fresh.clear();
        Ok(this)
    }

    /// Takes `count` frames, the first a multiple of `align`.
    fn take(&mut self, count: u64, align: u64) -> Result<u64, CompileError> {
        let small = CompileError::ArenaTooSmall {
            pages: self.arena.pages,
        };
        let end = self.arena.end() >> 12;
        let first = self.next.checked_next_multiple_of(align.max(1));
        match first.and_then(|f| Some((f, f.checked_add(count)?))) {
            Some((first, after)) if after <= end => {
                self.next = after;
                Ok(first)
            }
            _ => Err(small),
        }
    }

    /// Gives every table of a translation its place, the root first. Gives the root's number and how many there are:
    /// none where the CPU makes the root only later.
    fn place_tables(&mut self, index: usize, space: &AddressSpace) -> Result<(usize, u64), CompileError> {
        let root = space.root.frame();
        if self.cpu.frame(root).is_none() && self.written.contains(&root) {
            let new = self.take(1, 1)?;
            let number = self.add_table(Table::new(index, root, new, 0, GpuVa(0)));
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

    /// Counts mapped pages that are about to be looked at.
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

    /// Puts what the CPU left in a recorded frame into a new one that nothing used before.
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

    /// Checks that a range is mapped now.
    ///
    /// # Errors
    /// When the address space is not there or a byte is not mapped.
    pub fn check(&self, what: &str, space: u32, va: GpuVa, bytes: u64) -> Result<(), CompileError> {
        let mut done = 0u64;
        while done < bytes {
            let not = || CompileError::NotMapped {
                what: what.to_owned(),
                va: GpuVa(va.0.saturating_add(done)),
            };
            let at = va.checked_add(done).ok_or_else(not)?;
            self.old_frame(what, space, at)?.ok_or_else(not)?;
            done += (bytes - done).min((PAGE_SIZE - at.in_page()) as u64);
        }
        Ok(())
    }

    /// The recorded frame that an address lies in now, where it is mapped.
    ///
    /// # Errors
    /// When the address space is not there.
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

    /// A chain is submitted: from here on jobs may have written whatever is mapped.
    pub fn note_submit(&mut self) {
        self.untouched = false;
        self.fresh.clear();
    }

    /// What the GPU sees through a translation now.
    pub fn gpu(&self, space: &PlanSpace) -> PlanGpuMemory<'_, Self> {
        PlanGpuMemory::new(self, space)
    }

    /// Frames in use from the arena's start on.
    #[must_use]
    pub fn used_pages(&self) -> u64 {
        self.next - self.arena.base.frame()
    }

    /// Frames of data: where they lie now, and where they lay.
    #[must_use]
    pub(super) fn frames(&self) -> HashMap<u64, u64> {
        self.data.iter().map(|(old, new)| (*new, *old)).collect()
    }

    /// The pages to put in place, sorted by frame, and the images of changes.
    #[must_use]
    pub(super) fn into_pages(self) -> RelocatedPages {
        let mut by_digest = self.image_pages;
        let mut list = Vec::with_capacity(self.content.len());
        for (frame, (role, content)) in self.content {
            let digest = match content {
                Content::Stored(page, digest) => {
                    by_digest.entry(digest).or_insert_with(|| Box::new(*page));
                    digest
                }
                Content::Made(page) => {
                    let digest = *blake3::hash(&*page).as_bytes();
                    by_digest.entry(digest).or_insert(page);
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

    /// 512 tables, one image in all of them, of 512 blocks of 1 GiB each that lie at one place.
    fn blocks_again_and_again() -> Recording {
        let mut m = MemoryBuilder::new();
        let page = |entry: &dyn Fn(u64) -> u64| {
            let mut p = [0u8; PAGE_SIZE];
            for (i, e) in p.chunks_exact_mut(8).enumerate() {
                e.copy_from_slice(&entry(i as u64).to_le_bytes());
            }
            p
        };
        let block = encode_leaf(F, PhysAddr(0x4000_0000), Rights::RW, 0) & !2;
        let top = m.add_page(&page(&|i| encode_table(F, PhysAddr((0x1000 + i) << 12))));
        let blocks = m.add_page(&page(&|_| block));
        let mut frames = vec![(1, top, FrameRole::Table)];
        frames.extend((0..512).map(|i| (0x1000 + i, blocks, FrameRole::Table)));
        m.add_snapshot(0, frames);
        let mut r = Recording {
            memory: m.finish(),
            ..Recording::default()
        };
        r.facts.address_spaces = vec![AddressSpace {
            number: 0,
            format: F,
            root: PhysAddr(0x1000),
            memattr: 0,
            transcfg: 6,
        }];
        r
    }

    #[test]
    fn a_small_recording_that_maps_one_gibibyte_a_quarter_million_times_is_refused_and_can_be_cancelled() {
        let r = blocks_again_and_again();
        let arena = Arena {
            base: PhysAddr(0x1_0000_0000),
            pages: 1 << 20,
        };
        let progress = Progress::new();
        let error = RelocatedMemory::new(&r, arena, &progress).err();
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
        let error = RelocatedMemory::new(&r, arena, &progress).err();
        assert!(matches!(error, Some(CompileError::Cancelled(_))), "{error:?}");
    }
}
