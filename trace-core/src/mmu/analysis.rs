//! Questions about a whole address space: what is mapped twice, executable and writable, mapped without content.

use super::format::PAGE_BYTES;
use super::walk::{Found, Mapping, MmuError, TableRef, fold, traverse};
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
    let _ = traverse(format, root, mem, &mut |found| {
        match found {
            Found::Table(t) => s.tables.push(t),
            Found::Leaf(l) => {
                fold(&mut s.mappings, &l);
                s.leaves.push(l);
            }
            Found::Problem(e) => {
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
pub fn mapped_twice(leaves: &[Leaf]) -> Vec<DoubleMapping> {
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
pub fn executable_and_writable(mappings: &[Mapping]) -> Vec<Mapping> {
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

/// The mapped pages whose frames (address / 4096) have no content, as runs by address. `content` is the frames that
/// have it, as ranges in rising order that do not overlap; see [`content_frames`].
#[must_use]
pub fn mapped_without(leaves: &[Leaf], content: &[Range<u64>]) -> Vec<PageSpan> {
    let mut runs: Vec<PageSpan> = Vec::new();
    for leaf in leaves {
        let first = leaf.pa.frame();
        let end = first.saturating_add(leaf.bytes / PAGE_BYTES);
        let mut at = first;
        let mut next = content.partition_point(|r| r.end <= first);
        while at < end {
            let hole_end = content.get(next).map_or(end, |r| r.start.min(end));
            if hole_end > at {
                let va = leaf.va.0.saturating_add((at - first).saturating_mul(PAGE_BYTES));
                let pages = hole_end - at;
                match runs.last_mut() {
                    Some(r) if r.va.0.saturating_add(r.pages.saturating_mul(PAGE_BYTES)) == va => r.pages += pages,
                    _ => runs.push(PageSpan { va: GpuVa(va), pages }),
                }
            }
            at = content.get(next).map_or(end, |r| r.end.max(hole_end));
            next += 1;
        }
    }
    runs
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
