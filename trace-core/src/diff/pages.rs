//! Memory at the end of two recordings, compared by digest and told by address.

use super::{MOST, PageDiff, PageDifference};
use crate::mmu;
use crate::recording::{Digest, FrameRole, GpuVa, MemoryView, PageId, Recording};
use std::collections::BTreeMap;

/// The pages with contents, by address.
fn by_address<'a>(recording: &'a Recording, physical: bool) -> (MemoryView<'a>, BTreeMap<u64, PageId>) {
    let view = recording.memory.last();
    let mut pages = BTreeMap::new();
    let runs = view.runs();
    if physical {
        for run in runs.iter().filter(|r| r.role == FrameRole::Data) {
            for frame in run.first_frame..run.end_frame() {
                pages.extend(run.page(frame).map(|p| (frame << 12, p)));
            }
        }
        return (view, pages);
    }
    // The first address space alone: sources that hold several differ in which page tables they dumped.
    if let Some(space) = recording.facts.address_spaces.first() {
        for leaf in mmu::scan(space.format, space.root, &view).leaves {
            let (first, end) = (leaf.pa.frame(), leaf.pa.frame().saturating_add(leaf.bytes >> 12));
            let from = runs.partition_point(|r| r.end_frame() <= first);
            for run in runs.iter().skip(from).take_while(|r| r.first_frame < end) {
                for frame in run.first_frame.max(first)..run.end_frame().min(end) {
                    let va = leaf.va.0.saturating_add((frame - first) << 12);
                    pages.extend(run.page(frame).map(|p| (va, p)));
                }
            }
        }
    }
    (view, pages)
}

pub(super) fn diff(a: &Recording, b: &Recording) -> PageDiff {
    let physical = a.facts.address_spaces.is_empty() || b.facts.address_spaces.is_empty();
    let (_, pages_a) = by_address(a, physical);
    let (_, pages_b) = by_address(b, physical);
    let digest = |r: &Recording, p: PageId| -> Option<Digest> { r.memory.pages.digest(p) };
    let mut out = PageDiff {
        physical,
        ..PageDiff::default()
    };
    let mut list = |va: u64, in_a: bool, in_b: bool, first_byte: Option<u32>| {
        if out.list.len() < MOST {
            out.list.push(PageDifference {
                va: GpuVa(va),
                in_a,
                in_b,
                first_byte,
            });
        }
    };
    let all: std::collections::BTreeSet<u64> = pages_a.keys().chain(pages_b.keys()).copied().collect();
    let (mut same, mut changed, mut only_a, mut only_b) = (0, 0, 0, 0);
    for va in all {
        match (pages_a.get(&va), pages_b.get(&va)) {
            (Some(x), Some(y)) if digest(a, *x) == digest(b, *y) => same += 1,
            (Some(x), Some(y)) => {
                changed += 1;
                let at = match (a.memory.pages.page(*x), b.memory.pages.page(*y)) {
                    (Some(x), Some(y)) => x.iter().zip(y).position(|(v, w)| v != w),
                    _ => None,
                };
                list(va, true, true, at.and_then(|at| u32::try_from(at).ok()));
            }
            (Some(_), None) => {
                only_a += 1;
                list(va, true, false, None);
            }
            _ => {
                only_b += 1;
                list(va, false, true, None);
            }
        }
    }
    (out.same, out.changed, out.only_a, out.only_b) = (same, changed, only_a, only_b);
    out
}
