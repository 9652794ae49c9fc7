//! Questions about a whole address space: what is mapped twice, executable and writable, mapped without content.

use super::format::PAGE_BYTES;
use super::walk::{Mapping, MmuError, TableItem, TableRef, fold, visit_all};
use super::{Leaf, PhysMemory};
use crate::recording::{GpuVa, MemoryView, MmuFormat, PhysAddr};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::{ControlFlow, Range};

/// Everything that a traversal can find in an address space, problems included.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Runs of pages, addresses rising.
    pub mappings: Vec<Mapping>,
    /// Every leaf, addresses rising.
    pub leaves: Vec<Leaf>,
    /// Tables entered, each before those that it points at.
    pub tables: Vec<TableRef>,
    /// Tables and entries that could not be followed, at most [`Scan::MAX_PROBLEMS`] of them.
    pub problems: Vec<MmuError>,
}

impl Scan {
    /// A scan stops after this many problems.
    pub const MAX_PROBLEMS: usize = 1000;
}

/// Goes through an address space and past what cannot be followed.
#[must_use]
pub fn scan(format: MmuFormat, root: PhysAddr, mem: &(impl PhysMemory + ?Sized)) -> Scan {
    let mut s = Scan::default();
    let _ = visit_all(format, root, mem, &mut |found| {
        match found {
            TableItem::Table(t) => s.tables.push(t),
            TableItem::Leaf(l) => {
                fold(&mut s.mappings, &l);
                s.leaves.push(l);
            }
            TableItem::Problem(e) => {
                s.problems.push(e);
                if s.problems.len() >= Scan::MAX_PROBLEMS {
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    });
    s
}

/// How much of an address space can be reached through its tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappedPages {
    /// Mapped 4 KiB pages; a block counts as all that it covers.
    pub pages: u64,
    /// Tables and entries that could not be followed: what they would map is not known. The traversal ends at
    /// [`Scan::MAX_PROBLEMS`] of them.
    pub problems: u64,
    /// The first of these.
    pub first: Option<MmuError>,
}

/// Counts what an address space maps, past what cannot be followed. Keeps nothing of it.
#[must_use]
pub fn count_mapped_pages(format: MmuFormat, root: PhysAddr, mem: &(impl PhysMemory + ?Sized)) -> MappedPages {
    let mut r = MappedPages::default();
    let _ = visit_all(format, root, mem, &mut |found| {
        match found {
            TableItem::Table(_) => {}
            TableItem::Leaf(l) => r.pages = r.pages.saturating_add(l.bytes / PAGE_BYTES),
            TableItem::Problem(e) => {
                r.first = r.first.or(Some(e));
                r.problems += 1;
                if r.problems >= Scan::MAX_PROBLEMS as u64 {
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    });
    r
}

/// Physical memory that two runs of addresses reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoubleMapping {
    /// First byte in physical memory.
    pub pa: PhysAddr,
    /// Number of 4 KiB pages.
    pub pages: u64,
    /// The lower of the two addresses of the first page.
    pub first: GpuVa,
    /// The higher of the two.
    pub second: GpuVa,
}

/// Physical pages that more than one address reaches, as runs in rising order of physical address. Memory that three
/// addresses reach is told as two pairs: each address with the next higher one.
#[must_use]
pub fn find_double_mappings(leaves: &[Leaf]) -> Vec<DoubleMapping> {
    // A sweep over physical begins. `open` holds the leaves that cover the place, by the distance from physical to
    // virtual address: two leaves that cover one byte differ in it, and its order is that of their addresses there.
    let mut by_pa: Vec<&Leaf> = leaves.iter().collect();
    by_pa.sort_unstable_by_key(|l| (l.pa, l.va));
    let distance = |l: &Leaf| i128::from(l.va.0) - i128::from(l.pa.0);
    let end = |l: &Leaf| l.pa.0.saturating_add(l.bytes);
    let mut open: BTreeMap<i128, u64> = BTreeMap::new();
    let mut ends: BinaryHeap<Reverse<(u64, i128)>> = BinaryHeap::new();
    let mut runs: Vec<DoubleMapping> = Vec::new();
    for leaf in by_pa {
        while let Some(Reverse((_, d))) = ends.peek().filter(|Reverse((e, _))| *e <= leaf.pa.0).copied() {
            ends.pop();
            open.remove(&d);
        }
        let here = distance(leaf);
        let nearest = open
            .range(..here)
            .next_back()
            .or_else(|| open.range(here..).find(|(d, _)| **d != here));
        if let Some((d, other_end)) = nearest
            && let Ok(other) = u64::try_from(d + i128::from(leaf.pa.0))
        {
            let pages = end(leaf).min(*other_end).saturating_sub(leaf.pa.0) / PAGE_BYTES;
            let (first, second) = (GpuVa(other.min(leaf.va.0)), GpuVa(other.max(leaf.va.0)));
            push_double(
                &mut runs,
                DoubleMapping {
                    pa: leaf.pa,
                    pages,
                    first,
                    second,
                },
            );
        }
        open.insert(here, end(leaf));
        ends.push(Reverse((end(leaf), here)));
    }
    runs
}

fn push_double(runs: &mut Vec<DoubleMapping>, next: DoubleMapping) {
    if let Some(last) = runs.last_mut() {
        let bytes = last.pages.saturating_mul(PAGE_BYTES);
        let follows = |a: u64, b: u64| a.checked_add(bytes) == Some(b);
        if follows(last.pa.0, next.pa.0) && follows(last.first.0, next.first.0) && follows(last.second.0, next.second.0)
        {
            last.pages += next.pages;
            return;
        }
    }
    runs.push(next);
}

/// The mappings that the GPU may both write and fetch code from.
#[must_use]
pub fn find_writable_code(mappings: &[Mapping]) -> Vec<Mapping> {
    mappings
        .iter()
        .filter(|m| m.rights.execute && m.rights.write)
        .copied()
        .collect()
}

/// A run of pages by address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSpan {
    /// First address.
    pub va: GpuVa,
    /// Number of 4 KiB pages.
    pub pages: u64,
}

/// The mapped pages that no content stands behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PagesWithoutContent {
    /// The first runs of them, by address.
    pub spans: Vec<PageSpan>,
    /// Pages in the runs that follow, which are counted and not listed.
    pub more_pages: u64,
}

/// Collects the mapped pages whose frames (address / 4096) have no content, leaf by leaf.
///
/// Leaves may map the same frames any number of times, and content may be scattered over every second of them: two
/// megabytes of tables can stand for billions of runs. So only so many are listed; what follows is counted, which takes
/// a look-up a leaf, however large the leaf is.
pub struct ContentHoleFinder<'a> {
    content: &'a [Range<u64>],
    /// Frames of the ranges before each.
    held: Vec<u64>,
    most: usize,
    found: PagesWithoutContent,
}

impl<'a> ContentHoleFinder<'a> {
    /// Begins. `content` is the frames that have it, as ranges in rising order that do not overlap, as
    /// [`content_frames`] gives them; at most `most` runs are listed.
    #[must_use]
    pub fn new(content: &'a [Range<u64>], most: usize) -> Self {
        let mut sum = 0u64;
        let held = content
            .iter()
            .map(|r| {
                let before = sum;
                sum = sum.saturating_add(r.end.saturating_sub(r.start));
                before
            })
            .collect();
        Self {
            content,
            held,
            most,
            found: PagesWithoutContent::default(),
        }
    }

    /// Frames with content among those below `frame`.
    fn held_below(&self, frame: u64) -> u64 {
        let n = self.content.partition_point(|r| r.start < frame);
        let Some(last) = n.checked_sub(1) else { return 0 };
        let (Some(r), Some(before)) = (self.content.get(last), self.held.get(last)) else {
            return 0;
        };
        before.saturating_add(r.end.min(frame).saturating_sub(r.start))
    }

    /// How many of these frames have no content.
    #[must_use]
    pub fn without(&self, frames: Range<u64>) -> u64 {
        let held = self
            .held_below(frames.end)
            .saturating_sub(self.held_below(frames.start));
        frames.end.saturating_sub(frames.start).saturating_sub(held)
    }

    /// Adds a leaf; leaves come by rising address.
    pub fn add(&mut self, leaf: &Leaf) {
        let first = leaf.pa.frame();
        let end = first.saturating_add(leaf.bytes / PAGE_BYTES);
        let mut at = first;
        let mut next = self.content.partition_point(|r| r.end <= first);
        while at < end {
            let hole_end = self.content.get(next).map_or(end, |r| r.start.min(end));
            if hole_end > at {
                let va = leaf.va.0.saturating_add((at - first).saturating_mul(PAGE_BYTES));
                let pages = hole_end - at;
                let full = self.found.spans.len() >= self.most;
                match self.found.spans.last_mut() {
                    Some(r) if r.va.0.saturating_add(r.pages.saturating_mul(PAGE_BYTES)) == va => r.pages += pages,
                    _ if full => {
                        let rest = self.without(at..end);
                        self.found.more_pages = self.found.more_pages.saturating_add(rest);
                        return;
                    }
                    _ => self.found.spans.push(PageSpan { va: GpuVa(va), pages }),
                }
            }
            at = self.content.get(next).map_or(end, |r| r.end.max(hole_end));
            next += 1;
        }
    }

    /// What was found.
    #[must_use]
    pub fn finish(self) -> PagesWithoutContent {
        self.found
    }
}

/// The mapped pages of all leaves whose frames have no content; see [`ContentHoleFinder`].
#[must_use]
pub fn find_pages_without_content(leaves: &[Leaf], content: &[Range<u64>], most: usize) -> PagesWithoutContent {
    let mut holes = ContentHoleFinder::new(content, most);
    leaves.iter().for_each(|l| holes.add(l));
    holes.finish()
}

/// The frames whose contents a recording holds, as ranges in rising order, neighbours joined.
#[must_use]
pub fn content_frames(view: &MemoryView<'_>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for run in view.runs() {
        match ranges.last_mut() {
            Some(r) if r.end >= run.first_frame => r.end = r.end.max(run.end_frame()),
            _ => ranges.push(run.first_frame..run.end_frame()),
        }
    }
    ranges
}
