//! Analyses of a whole address space: aliased pages, executable and writable pages, mapped pages without content.

use super::fault::MmuError;
use super::leaf::Leaf;
use super::mali::PAGE_BYTES;
use super::mapping::{Mapping, fold};
use super::visit::{TableItem, TableRef, visit_all};
use super::walk::PhysMemory;
use crate::recording::{MemoryView, MmuFormat};
use crate::{GpuVa, PhysAddr};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::{ControlFlow, Range};

/// The result of a full traversal of an address space, problems included.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Runs of pages by ascending address.
    pub mappings: Vec<Mapping>,
    /// All leaves by ascending address, without those in a memory that the recording does not hold.
    pub leaves: Vec<Leaf>,
    /// Tables entered, each before those that it points to.
    pub tables: Vec<TableRef>,
    /// Invalid tables and entries, at most [`Scan::MAX_PROBLEMS`].
    pub problems: Vec<MmuError>,
}

impl Scan {
    /// Number of problems after which a scan stops.
    pub const MAX_PROBLEMS: usize = 1000;
}

/// Traverses an address space and skips invalid tables and entries.
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
            TableItem::LeafElsewhere(l) => fold(&mut s.mappings, &l),
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

/// The size of an address space that its tables reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappedPages {
    /// Number of mapped 4 KiB pages; a block counts as all pages that it covers.
    pub pages: u64,
    /// Number of invalid tables and entries, whose mappings are unknown. The traversal ends at [`Scan::MAX_PROBLEMS`]
    /// of them.
    pub problems: u64,
    /// The first of them.
    pub first: Option<MmuError>,
}

/// Counts the mapped pages of an address space, skips invalid parts, and allocates nothing per page.
#[must_use]
pub fn count_mapped_pages(format: MmuFormat, root: PhysAddr, mem: &(impl PhysMemory + ?Sized)) -> MappedPages {
    let mut r = MappedPages::default();
    let _ = visit_all(format, root, mem, &mut |found| {
        match found {
            TableItem::Table(_) => {}
            TableItem::Leaf(l) | TableItem::LeafElsewhere(l) => r.pages = r.pages.saturating_add(l.bytes / PAGE_BYTES),
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

/// Physical memory that two address ranges map.
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

/// Returns physical pages that more than one address maps, as runs by ascending physical address. Memory that three
/// addresses map gives two pairs: each address with the next higher one.
#[must_use]
pub fn find_double_mappings(leaves: &[Leaf]) -> Vec<DoubleMapping> {
    // A sweep over the physical starts. `open` holds the leaves that cover the position, by the difference of physical
    // and virtual address. Two leaves that cover one byte have different differences, whose order is that of their
    // addresses there.
    let mut by_pa: Vec<&Leaf> = leaves.iter().collect();
    by_pa.sort_unstable_by_key(|l| (l.pa, l.va));
    let distance = |l: &Leaf| i128::from(l.va.get()) - i128::from(l.pa.get());
    let end = |l: &Leaf| l.pa.get().saturating_add(l.bytes);
    let mut open: BTreeMap<i128, u64> = BTreeMap::new();
    let mut ends: BinaryHeap<Reverse<(u64, i128)>> = BinaryHeap::new();
    let mut runs: Vec<DoubleMapping> = Vec::new();
    for leaf in by_pa {
        while let Some(Reverse((_, d))) = ends.peek().filter(|Reverse((e, _))| *e <= leaf.pa.get()).copied() {
            ends.pop();
            open.remove(&d);
        }
        let here = distance(leaf);
        let nearest = open
            .range(..here)
            .next_back()
            .or_else(|| open.range(here..).find(|(d, _)| **d != here));
        if let Some((d, other_end)) = nearest
            && let Ok(other) = u64::try_from(d + i128::from(leaf.pa.get()))
        {
            let pages = end(leaf).min(*other_end).saturating_sub(leaf.pa.get()) / PAGE_BYTES;
            let (first, second) = (
                GpuVa::new(other.min(leaf.va.get())),
                GpuVa::new(other.max(leaf.va.get())),
            );
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
        if follows(last.pa.get(), next.pa.get())
            && follows(last.first.get(), next.first.get())
            && follows(last.second.get(), next.second.get())
        {
            last.pages += next.pages;
            return;
        }
    }
    runs.push(next);
}

/// A run of pages by address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSpan {
    /// First address.
    pub va: GpuVa,
    /// Number of 4 KiB pages.
    pub pages: u64,
}

/// The mapped pages without content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PagesWithoutContent {
    /// The first runs of them, by address.
    pub spans: Vec<PageSpan>,
    /// Number of pages in further runs, which are only counted.
    pub more_pages: u64,
}

/// Collects the mapped pages whose frames (address / 4096) have no content, leaf by leaf.
///
/// Leaves may map the same frames any number of times, and content may cover every second frame: two megabytes of
/// tables can stand for billions of runs. So the number of listed runs is limited. Further runs are counted with one
/// lookup per leaf, however large the leaf is.
pub struct ContentHoleFinder<'a> {
    content: &'a [Range<u64>],
    /// Number of frames in the ranges before each range.
    held: Vec<u64>,
    max: usize,
    found: PagesWithoutContent,
}

impl<'a> ContentHoleFinder<'a> {
    /// Creates a finder. `content` are the frames with content, as ascending ranges that do not overlap, in the form of
    /// [`content_frames`]; at most `max` runs are listed.
    #[must_use]
    pub fn new(content: &'a [Range<u64>], max: usize) -> Self {
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
            max,
            found: PagesWithoutContent::default(),
        }
    }

    /// Returns the number of frames with content below `frame`.
    fn held_below(&self, frame: u64) -> u64 {
        let n = self.content.partition_point(|r| r.start < frame);
        let Some(last) = n.checked_sub(1) else { return 0 };
        let (Some(r), Some(before)) = (self.content.get(last), self.held.get(last)) else {
            return 0;
        };
        before.saturating_add(r.end.min(frame).saturating_sub(r.start))
    }

    /// Returns the number of these frames without content.
    #[must_use]
    pub fn without(&self, frames: Range<u64>) -> u64 {
        let held = self
            .held_below(frames.end)
            .saturating_sub(self.held_below(frames.start));
        frames.end.saturating_sub(frames.start).saturating_sub(held)
    }

    /// Adds a leaf; leaves must come by ascending address.
    pub fn add(&mut self, leaf: &Leaf) {
        let first = leaf.pa.frame();
        let end = first.saturating_add(leaf.bytes / PAGE_BYTES);
        let mut at = first;
        let mut next = self.content.partition_point(|r| r.end <= first);
        while at < end {
            let hole_end = self.content.get(next).map_or(end, |r| r.start.min(end));
            if hole_end > at {
                let va = leaf.va.get().saturating_add((at - first).saturating_mul(PAGE_BYTES));
                let pages = hole_end - at;
                let full = self.found.spans.len() >= self.max;
                match self.found.spans.last_mut() {
                    Some(r) if r.va.get().saturating_add(r.pages.saturating_mul(PAGE_BYTES)) == va => r.pages += pages,
                    _ if full => {
                        let rest = self.without(at..end);
                        self.found.more_pages = self.found.more_pages.saturating_add(rest);
                        return;
                    }
                    _ => self.found.spans.push(PageSpan {
                        va: GpuVa::new(va),
                        pages,
                    }),
                }
            }
            at = self.content.get(next).map_or(end, |r| r.end.max(hole_end));
            next += 1;
        }
    }

    /// Returns the result.
    #[must_use]
    pub fn finish(self) -> PagesWithoutContent {
        self.found
    }
}

/// Returns the mapped pages of all leaves whose frames have no content; see [`ContentHoleFinder`].
#[must_use]
pub fn find_pages_without_content(leaves: &[Leaf], content: &[Range<u64>], max: usize) -> PagesWithoutContent {
    let mut holes = ContentHoleFinder::new(content, max);
    leaves.iter().for_each(|l| holes.add(l));
    holes.finish()
}

/// Returns the frames with recorded contents, as ascending ranges; neighbours are joined.
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
