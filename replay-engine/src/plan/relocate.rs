//! Moves page tables and memory of a recording into the agent's arena.

use super::{CompileError, PlanPage, PlanSpace};
use crate::device::Arena;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;
use trace_core::mmu::{EntryKind, entry_address, entry_kind, for_each_leaf, for_each_table, root_register, translate};
use trace_core::progress::Progress;
use trace_core::recording::{
    AddressSpace, Digest, FrameRole, Memory, MemoryView, Page, PageId, ZERO_PAGE, zero_digest,
};
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr, Recording};

/// Bits of a physical address that an entry can hold.
const PHYSICAL_BITS: u32 = 48;

/// Most mapped pages that are looked at, all translations together, a block counting as all its pages: 64 GiB of
/// addresses. Tables can map one piece of memory any number of times, so neither the recording's size nor the arena's
/// bounds this.
pub const MAX_VISITED_PAGES: u64 = 1 << 24;

/// Mapped pages between two looks at whether the work was cancelled.
const CHECK_EVERY: u64 = 1 << 16;

/// What a new frame holds.
enum Content<'a> {
    Stored(&'a Page, Digest),
    Made(Box<Page>),
}

/// Page tables and memory, moved.
pub struct Relocated<'a> {
    memory: &'a Memory,
    view: MemoryView<'a>,
    spaces: &'a [AddressSpace],
    /// New frames of data, by recorded frame.
    data: HashMap<u64, u64>,
    content: BTreeMap<u64, (FrameRole, Content<'a>)>,
    next: u64,
    arena: Arena,
    /// Mapped pages looked at so far.
    visited: u64,
    /// The translations.
    pub moved: Vec<MovedSpace>,
}

/// A translation that was moved.
#[derive(Clone, Copy, Debug)]
pub struct MovedSpace {
    /// What the plan says of it.
    pub space: PlanSpace,
    /// Tables moved.
    pub tables: u64,
    /// Pages and blocks moved.
    pub leaves: u64,
}

struct Table {
    old: u64,
    new: u64,
    level: u8,
}

impl<'a> Relocated<'a> {
    /// Moves everything that the recording's translations reach: first the tables, then data by rising address.
    ///
    /// # Errors
    /// When tables cannot be walked, are mapped for the GPU, map more than [`MAX_VISITED_PAGES`], the arena is too
    /// small, or the work was cancelled.
    pub fn new(recording: &'a Recording, arena: Arena, progress: &Progress) -> Result<Self, CompileError> {
        if arena.base.in_page() != 0 || arena.end() >> PHYSICAL_BITS != 0 {
            return Err(CompileError::ArenaOutOfReach);
        }
        let mut this = Self {
            memory: &recording.memory,
            view: recording.memory.at(0),
            spaces: &recording.facts.address_spaces,
            data: HashMap::new(),
            content: BTreeMap::new(),
            next: arena.base.frame(),
            arena,
            visited: 0,
            moved: Vec::new(),
        };
        let mut tables = Vec::new();
        for space in this.spaces {
            progress.check()?;
            tables.push(this.place_tables(space)?);
        }
        let old_tables: HashSet<u64> = tables.iter().flatten().map(|t| t.old).collect();
        for (space, tables) in this.spaces.iter().zip(&tables) {
            let leaves = this.place_data(space, &old_tables, progress)?;
            this.write_tables(space, tables)?;
            // The root is the first table that a traversal enters.
            let root = PhysAddr(tables.first().map_or(0, |t| t.new) << 12);
            this.moved.push(MovedSpace {
                space: PlanSpace {
                    number: space.number,
                    format: space.format,
                    root,
                    root_register: root_register(space.format, root),
                },
                tables: tables.len() as u64,
                leaves,
            });
        }
        this.place_content()?;
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

    fn place_tables(&mut self, space: &AddressSpace) -> Result<Vec<Table>, CompileError> {
        let mut found = Vec::new();
        for_each_table(space.format, space.root, &self.view, &mut |t| found.push(t)).map_err(|source| {
            CompileError::Tables {
                number: space.number,
                source,
            }
        })?;
        found
            .into_iter()
            .map(|t| {
                Ok(Table {
                    old: t.at.frame(),
                    new: self.take(1, 1)?,
                    level: t.level,
                })
            })
            .collect()
    }

    fn place_data(
        &mut self,
        space: &AddressSpace,
        tables: &HashSet<u64>,
        progress: &Progress,
    ) -> Result<u64, CompileError> {
        let mut leaves = 0;
        let mut result = Ok(());
        let view = self.view;
        for_each_leaf(space.format, space.root, &view, &mut |leaf| {
            leaves += 1;
            let count = leaf.bytes / PAGE_SIZE as u64;
            result = self
                .visit(count, progress)
                .and_then(|()| self.place_leaf(leaf.va, leaf.pa.frame(), count, tables));
            if result.is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })
        .map_err(|source| CompileError::Tables {
            number: space.number,
            source,
        })?;
        result.map(|()| leaves)
    }

    /// Counts mapped pages that are about to be looked at.
    fn visit(&mut self, pages: u64, progress: &Progress) -> Result<(), CompileError> {
        let before = self.visited / CHECK_EVERY;
        self.visited = self.visited.saturating_add(pages);
        if self.visited > MAX_VISITED_PAGES {
            return Err(CompileError::TooManyMapped {
                limit: MAX_VISITED_PAGES,
            });
        }
        if self.visited / CHECK_EVERY > before {
            progress.check()?;
        }
        Ok(())
    }

    fn place_leaf(&mut self, va: GpuVa, old: u64, count: u64, tables: &HashSet<u64>) -> Result<(), CompileError> {
        // One recorded frame stays one frame, however often it is mapped.
        let first = match self.data.get(&old) {
            Some(new) => *new,
            None => self.take(count, count)?,
        };
        for i in 0..count {
            if tables.contains(&(old + i)) {
                return Err(CompileError::TableMapped { va });
            }
            if *self.data.entry(old + i).or_insert(first + i) != first + i || first % count != 0 {
                return Err(CompileError::BlockOverlaps { va });
            }
        }
        Ok(())
    }

    fn write_tables(&mut self, space: &AddressSpace, tables: &[Table]) -> Result<(), CompileError> {
        let new_table: HashMap<u64, u64> = tables.iter().map(|t| (t.old, t.new)).collect();
        for t in tables {
            let old = self
                .view
                .frame(t.old)
                .ok_or(CompileError::PageMissing { frame: t.old })?;
            let mut page = Box::new(*old);
            for entry in page.as_chunks_mut::<8>().0 {
                let raw = u64::from_le_bytes(*entry);
                let target = match entry_kind(space.format, t.level, raw) {
                    EntryKind::Table(at) => new_table.get(&at.frame()),
                    EntryKind::Page(at) | EntryKind::Block(at) => self.data.get(&at.frame()),
                    EntryKind::Invalid | EntryKind::Reserved => continue,
                };
                let target = target.ok_or(CompileError::PageMissing {
                    frame: entry_address(raw).frame(),
                })?;
                // Every bit that is not address stays as it was recorded.
                let moved = raw & !entry_address(u64::MAX).0 | target << 12;
                *entry = moved.to_le_bytes();
            }
            self.content.insert(t.new, (FrameRole::Table, Content::Made(page)));
        }
        Ok(())
    }

    fn place_content(&mut self) -> Result<(), CompileError> {
        for (old, new) in &self.data {
            let Some(id) = self.view.page_id(*old).filter(|id| *id != PageId::ZERO) else {
                continue;
            };
            let missing = CompileError::PageMissing { frame: *old };
            let (Some(page), Some(digest)) = (self.memory.pages.page(id), self.memory.pages.digest(id)) else {
                return Err(missing);
            };
            self.content
                .insert(*new, (FrameRole::Data, Content::Stored(page, digest)));
        }
        Ok(())
    }

    /// Puts bytes over memory, and gives the number of pages that changed.
    ///
    /// # Errors
    /// When the address space is not there or a byte is not mapped; pages before it are then changed already.
    pub fn write(&mut self, what: &str, space: u32, va: GpuVa, bytes: &[u8]) -> Result<u64, CompileError> {
        let mut changed = 0;
        self.each_page(what, space, va, bytes.len() as u64, |this, new, at, range| {
            let Some(from) = bytes.get(range) else { return };
            let old: &Page = match this.content.get(&new) {
                Some((_, Content::Stored(p, _))) => p,
                Some((_, Content::Made(p))) => p,
                None => &ZERO_PAGE,
            };
            let mut page = Box::new(*old);
            if let Some(to) = page.get_mut(at..at + from.len())
                && to != from
            {
                to.copy_from_slice(from);
                changed += 1;
                this.content.insert(new, (FrameRole::Data, Content::Made(page)));
            }
        })?;
        Ok(changed)
    }

    /// Checks that a range is mapped.
    ///
    /// # Errors
    /// When the address space is not there or a byte is not mapped.
    pub fn check(&mut self, what: &str, space: u32, va: GpuVa, bytes: u64) -> Result<(), CompileError> {
        self.each_page(what, space, va, bytes, |_, _, _, _| {})
    }

    /// Calls `each` with the new frame, the offset in it and the range of bytes, for every page of a range.
    fn each_page(
        &mut self,
        what: &str,
        space: u32,
        va: GpuVa,
        bytes: u64,
        mut each: impl FnMut(&mut Self, u64, usize, std::ops::Range<usize>),
    ) -> Result<(), CompileError> {
        let a = self
            .spaces
            .get(space as usize)
            .ok_or_else(|| CompileError::NoAddressSpace {
                what: what.to_owned(),
                index: space,
            })?;
        let mut done = 0u64;
        while done < bytes {
            let not = |va| CompileError::NotMapped {
                what: what.to_owned(),
                va,
            };
            let at = va.checked_add(done).ok_or_else(|| not(va))?;
            let part = (bytes - done).min((PAGE_SIZE - at.in_page()) as u64);
            let leaf = translate(a.format, a.root, at, &self.view).map_err(|_| not(at))?;
            let new = leaf
                .target(at)
                .and_then(|pa| self.data.get(&pa.frame()).copied())
                .ok_or_else(|| not(at))?;
            each(self, new, at.in_page(), done as usize..(done + part) as usize);
            done += part;
        }
        Ok(())
    }

    /// Frames in use from the arena's start on.
    #[must_use]
    pub fn used_pages(&self) -> u64 {
        self.next - self.arena.base.frame()
    }

    /// The pages to put in place, sorted by frame, and their images.
    #[must_use]
    pub fn into_pages(self) -> (Vec<PlanPage>, BTreeMap<Digest, Box<Page>>) {
        let mut images: BTreeMap<Digest, Box<Page>> = BTreeMap::new();
        let mut list = Vec::with_capacity(self.content.len());
        for (frame, (role, content)) in self.content {
            let digest = match content {
                Content::Stored(page, digest) => {
                    images.entry(digest).or_insert_with(|| Box::new(*page));
                    digest
                }
                Content::Made(page) => {
                    let digest = *blake3::hash(&*page).as_bytes();
                    images.entry(digest).or_insert(page);
                    digest
                }
            };
            if digest == zero_digest() {
                images.remove(&digest);
            } else {
                list.push(PlanPage { frame, digest, role });
            }
        }
        (list, images)
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
        let told = Relocated::new(&r, arena, &progress).err();
        assert!(
            matches!(
                told,
                Some(CompileError::TooManyMapped {
                    limit: MAX_VISITED_PAGES
                })
            ),
            "{told:?}"
        );
        progress.cancel();
        let told = Relocated::new(&r, arena, &progress).err();
        assert!(matches!(told, Some(CompileError::Cancelled(_))), "{told:?}");
    }
}
