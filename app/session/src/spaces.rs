//! The address spaces of a recording: mappings with their content, found by page table walks.

use crate::page_runs::{MappedRun, PageContent};
use crate::page_table_marks::Marks;
use std::ops::ControlFlow;
use trace_core::mmu::{self, Scan, TableItem};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{PageId, Recording};
use trace_core::{GpuVa, PhysAddr};

/// Maximum number of pages and blocks that are compared to find pages mapped twice.
const MAX_LEAVES: usize = 1 << 20;
/// Address bits of a GiB, the step of progress through an address space.
const GIB_BITS: u32 = 30;
/// Maximum number of page runs, over all address spaces. More runs cannot be displayed in a useful way, and a file can
/// claim billions.
const MAX_RUNS: usize = 3 << 20;

/// The derived data of an address space.
#[derive(Clone, Debug, Default)]
pub struct SpaceFact {
    /// Hardware number.
    pub number: u8,
    /// Name of the page table format.
    pub format: String,
    /// Physical address of the root table.
    pub root: PhysAddr,
    /// Mappings in ascending order. Adjacent pages with the same rights are one mapping.
    pub mappings: Vec<MappedRun>,
    /// The mappings, split where the content changes.
    pub runs: Vec<MappedRun>,
    /// Why the page tables could not be read completely.
    pub problem: Option<String>,
    pages: u64,
    /// Number of pages in a memory that the recording does not hold.
    pub elsewhere: u64,
    /// Number of pages and runs, by content.
    with: [(u64, usize); 4],
    /// Marks and page table locations.
    pub marks: Marks,
}

impl SpaceFact {
    /// Returns the same with its pages counted.
    #[must_use]
    pub fn with_page_counts(mut self) -> Self {
        self.pages = self.mappings.iter().map(|m| m.pages).sum();
        self.with = Default::default();
        for r in &self.runs {
            if let Some(w) = self.with.get_mut(r.content as usize) {
                *w = (w.0 + r.pages, w.1 + 1);
            }
        }
        self
    }

    /// Returns the number of mapped pages.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Returns the number of pages with this content.
    #[must_use]
    pub fn pages_with(&self, content: PageContent) -> u64 {
        self.with.get(content as usize).map_or(0, |w| w.0)
    }

    /// Returns the number of runs with this content.
    #[must_use]
    pub fn runs_with(&self, content: PageContent) -> usize {
        self.with.get(content as usize).map_or(0, |w| w.1)
    }

    /// Returns the mapping that contains an address.
    #[must_use]
    pub fn mapping_at(&self, va: GpuVa) -> Option<&MappedRun> {
        let n = self.mappings.partition_point(|m| m.va <= va);
        self.mappings.get(n.checked_sub(1)?).filter(|m| va < m.end())
    }
}

/// Derives every address space of a recording.
///
/// # Errors
/// [`Cancelled`] if the operation was cancelled.
pub fn spaces(recording: &Recording, progress: &Progress) -> Result<Vec<SpaceFact>, Cancelled> {
    let mut room = MAX_RUNS;
    let n = recording.metadata.address_spaces.len();
    (0..n).map(|i| space(recording, i, &mut room, progress)).collect()
}

/// Derives the mappings of an address space. Stores runs while there is `room` for them.
fn space(recording: &Recording, index: usize, room: &mut usize, progress: &Progress) -> Result<SpaceFact, Cancelled> {
    let Some(s) = recording.metadata.address_spaces.get(index) else {
        return Ok(SpaceFact::default());
    };
    let view = recording.memory.last();
    let contents = view.runs();
    let mut out = SpaceFact {
        number: s.number,
        format: s.format.description().title().into(),
        root: s.root,
        ..Default::default()
    };
    let description = s.format.description();
    progress.set_total(1 << description.address_bits().saturating_sub(GIB_BITS));
    let (mut steps, mut gib, mut problems) = (0u64, 0, 0);
    let (mut tables, mut leaves, mut too_many) = (Vec::new(), Vec::new(), false);
    // The number of stored leaves is limited: a small file can map millions of blocks, each with content in pieces.
    let _ = mmu::visit_all(s.format, s.root, &view, &mut |found| {
        let leaf = match found {
            TableItem::Table(t) => {
                tables.push(t);
                return ControlFlow::Continue(());
            }
            TableItem::Leaf(leaf) | TableItem::LeafElsewhere(leaf) => leaf,
            TableItem::Problem(e) => {
                out.problem.get_or_insert_with(|| e.to_string());
                problems += 1;
                return if problems < Scan::MAX_PROBLEMS {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                };
            }
        };
        let done = description
            .translated_bits(leaf.va)
            .map_or(0, |va| va.get() >> GIB_BITS);
        if progress.advance(done.saturating_sub(gib)).is_err() {
            return ControlFlow::Break(());
        }
        gib = done;
        let is_elsewhere = leaf.elsewhere.is_some();
        if is_elsewhere {
            out.elsewhere += leaf.bytes / 4096;
        } else if leaves.len() < MAX_LEAVES {
            leaves.push(leaf);
        } else {
            too_many = true;
        }
        let rights = rights_bits(leaf.rights);
        let whole = MappedRun {
            va: leaf.va,
            pages: leaf.bytes / 4096,
            rights,
            content: match is_elsewhere {
                true => PageContent::Elsewhere,
                false => PageContent::None,
            },
        };
        let mut fits = join(&mut out.mappings, whole, room);
        if is_elsewhere && fits {
            fits = join(&mut out.runs, whole, room);
        }
        let first = leaf.pa.frame();
        let end = match is_elsewhere {
            true => first,
            false => first.saturating_add(whole.pages),
        };
        let mut next = contents.partition_point(|r| r.end_frame() <= first);
        let mut at = first;
        while fits && at < end {
            let (content, to) = match contents.get(next).filter(|r| r.first_frame <= at) {
                Some(r) if r.page(at) != Some(PageId::ZERO) => (PageContent::Data, r.end_frame()),
                Some(r) if r.repeat => (PageContent::Zero, r.end_frame()),
                Some(_) => (PageContent::Zero, at + 1),
                None => (PageContent::None, contents.get(next).map_or(end, |r| r.first_frame)),
            };
            next += usize::from(contents.get(next).is_some_and(|r| r.end_frame() <= to));
            let to = to.min(end);
            let run = MappedRun {
                va: leaf.va.saturating_add((at - first) * 4096),
                pages: to - at,
                rights,
                content,
            };
            fits = join(&mut out.runs, run, room);
            at = to;
            steps += 1;
            fits &= steps % 4096 != 0 || progress.check().is_ok();
        }
        if !fits {
            out.problem.get_or_insert_with(|| {
                format!(
                    "there are more than {MAX_RUNS} runs of pages; those from {} on are not shown",
                    leaf.va
                )
            });
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    progress.check()?;
    out.marks = Marks::new(
        &out.mappings,
        &out.runs,
        (!too_many).then_some(leaves.as_slice()),
        &tables,
    );
    Ok(out.with_page_counts())
}

/// Adds a run, or extends the last run if it continues it. Returns `false` if there is no room for another run.
fn join(runs: &mut Vec<MappedRun>, add: MappedRun, room: &mut usize) -> bool {
    match runs.last_mut() {
        Some(last) if last.end() == add.va && last.rights == add.rights && last.content == add.content => {
            last.pages += add.pages;
        }
        _ if *room == 0 => return false,
        _ => {
            *room -= 1;
            runs.push(add);
        }
    }
    true
}

fn rights_bits(r: mmu::Rights) -> u8 {
    u8::from(r.read) | u8::from(r.write) << 1 | u8::from(r.execute) << 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::PhysAddr;
    use trace_core::mmu::{Rights, encode_leaf, encode_table};
    use trace_core::recording::{AddressSpace, FrameRole, MemoryBuilder, MmuFormat};

    const F: MmuFormat = MmuFormat::Aarch64_4k;

    /// Returns a recording with a table at frame 1 that points to `tables` tables of one image, whose entries are all
    /// `leaf`. Each frame of `frames` holds a zero page.
    fn recording(tables: u64, leaf: u64, frames: impl Iterator<Item = u64>) -> Recording {
        let mut m = MemoryBuilder::new();
        let page = |entry: &dyn Fn(u64) -> u64| {
            let mut p = [0u8; 4096];
            for (i, e) in p.chunks_exact_mut(8).enumerate() {
                e.copy_from_slice(&entry(i as u64).to_le_bytes());
            }
            p
        };
        let entry = |i| {
            if i < tables {
                encode_table(F, PhysAddr::new((0x1000 + i) << 12))
            } else {
                mmu::INVALID
            }
        };
        let (top, leaves) = (m.add_page(&page(&entry)), m.add_page(&page(&|_| leaf)));
        let mut all = vec![(1, top, FrameRole::Table)];
        all.extend((0..tables).map(|i| (0x1000 + i, leaves, FrameRole::Table)));
        all.extend(frames.map(|f| (f, PageId::ZERO, FrameRole::Data)));
        m.add_snapshot(0, all);
        let mut r = Recording {
            memory: m.finish(),
            ..Recording::default()
        };
        let space = AddressSpace {
            number: 0,
            format: F,
            root: PhysAddr::new(0x1000),
            memattr: 0,
            transcfg: 6,
        };
        r.metadata.address_spaces = vec![space];
        r
    }

    /// Returns a 1 GiB block at the address of the scattered content.
    fn block() -> u64 {
        encode_leaf(F, PhysAddr::new(0x4000_0000), Rights::RW, 0) & !2
    }

    #[test]
    fn content_inside_large_blocks_is_reported_per_page() {
        let r = recording(1, block(), [0x4_0003, 0x4_0004, 0x4_0100].into_iter());
        let space = &spaces(&r, &Progress::new()).unwrap()[0];
        assert_eq!(
            (space.mappings.len(), space.pages(), &space.problem),
            (1, 512 << 18, &None)
        );
        assert_eq!(space.pages_with(PageContent::Zero), 512 * 3);
        let first: Vec<_> = space
            .runs
            .iter()
            .take(4)
            .map(|r| (r.va.page(), r.pages, r.content))
            .collect();
        assert_eq!(
            first,
            [
                (0, 3, PageContent::None),
                (3, 2, PageContent::Zero),
                (5, 0xfb, PageContent::None),
                (0x100, 1, PageContent::Zero)
            ]
        );
    }

    #[test]
    fn huge_scattered_mapping_is_shown_up_to_a_limit() {
        let r = recording(512, block(), (0..131_072).map(|i| 0x4_0000 + 2 * i));
        let space = &spaces(&r, &Progress::new()).unwrap()[0];
        assert!(space.runs.len() + space.mappings.len() <= MAX_RUNS);
        assert!(
            space.problem.as_ref().is_some_and(|p| p.contains("are not shown")),
            "{:?}",
            space.problem
        );
        let progress = Progress::new();
        progress.cancel();
        assert!(spaces(&r, &progress).is_err());
    }
}
