//! Memory at the end of two recordings, compared by digest and told by address.

use super::{MOST, PageDiff, PageDifference, spaces};
use crate::mmu;
use crate::progress::{Cancelled, Progress};
use crate::recording::{Digest, FrameRole, GpuVa, MemoryView, PageId, Recording};
use std::collections::{BTreeMap, BTreeSet};

/// Pages with contents by address.
type ByAddress = BTreeMap<u64, PageId>;

/// The pages with contents by frame.
fn by_frame(view: &MemoryView<'_>) -> ByAddress {
    let mut pages = BTreeMap::new();
    for run in view.runs().iter().filter(|r| r.role == FrameRole::Data) {
        for frame in run.first_frame..run.end_frame() {
            pages.extend(run.page(frame).map(|p| (frame << 12, p)));
        }
    }
    pages
}

/// The pages with contents of one address space, by address.
fn by_address(recording: &Recording, space: Option<usize>) -> ByAddress {
    let mut pages = BTreeMap::new();
    let Some(space) = space.and_then(|i| recording.facts.address_spaces.get(i)) else {
        return pages;
    };
    let view = recording.memory.last();
    let runs = view.runs();
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
    pages
}

/// Compares memory, one pair of address spaces after another.
pub(super) fn diff(a: &Recording, b: &Recording, progress: &Progress) -> Result<PageDiff, Cancelled> {
    let physical = a.facts.address_spaces.is_empty() || b.facts.address_spaces.is_empty();
    let mut out = PageDiff {
        physical,
        ..PageDiff::default()
    };
    if physical {
        compare(
            a,
            b,
            &by_frame(&a.memory.last()),
            &by_frame(&b.memory.last()),
            0,
            &mut out,
        );
        return Ok(out);
    }
    let pairs = spaces::pairs(a, b);
    progress.set_total(pairs.len() as u64);
    for pair in pairs {
        let (pages_a, pages_b) = (by_address(a, pair.a), by_address(b, pair.b));
        compare(a, b, &pages_a, &pages_b, pair.number, &mut out);
        progress.advance(1)?;
    }
    Ok(out)
}

fn compare(
    a: &Recording,
    b: &Recording,
    pages_a: &ByAddress,
    pages_b: &ByAddress,
    address_space: u8,
    out: &mut PageDiff,
) {
    let digest = |r: &Recording, p: PageId| -> Option<Digest> { r.memory.pages.digest(p) };
    let all: BTreeSet<u64> = pages_a.keys().chain(pages_b.keys()).copied().collect();
    for at in all {
        let (in_a, in_b) = (pages_a.get(&at), pages_b.get(&at));
        let mut first_byte = None;
        match (in_a, in_b) {
            (Some(x), Some(y)) if digest(a, *x) == digest(b, *y) => {
                out.same += 1;
                continue;
            }
            (Some(x), Some(y)) => {
                out.changed += 1;
                first_byte = match (a.memory.pages.page(*x), b.memory.pages.page(*y)) {
                    (Some(x), Some(y)) => x.iter().zip(y).position(|(v, w)| v != w),
                    _ => None,
                };
            }
            // What has no contents starts as zero.
            (Some(&PageId::ZERO), None) | (None, Some(&PageId::ZERO)) => {
                out.same += 1;
                continue;
            }
            (Some(_), None) => out.only_a += 1,
            _ => out.only_b += 1,
        }
        if out.list.len() < MOST {
            out.list.push(PageDifference {
                address_space,
                va: GpuVa(at),
                in_a: in_a.is_some(),
                in_b: in_b.is_some(),
                first_byte: first_byte.and_then(|at| u32::try_from(at).ok()),
            });
        }
    }
}
