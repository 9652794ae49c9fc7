//! What the page tables of two recordings map at the end, compared by runs of pages.
//!
//! Where a page lies in physical memory is not compared: every run has its own memory, and what lies at an address is
//! compared with the pages.

use super::{MOST, MappedAs, MappingDiff, MappingDifference, spaces};
use crate::mmu::{self, Found, Leaf, PAGE_BYTES, Scan};
use crate::progress::{Cancelled, Progress};
use crate::recording::{GpuVa, Recording};
use std::ops::ControlFlow;

/// Tables and leaves passed between two looks at whether the work was cancelled.
const CHECK_EVERY: u64 = 1 << 12;

/// Pages one after another by address that are mapped alike.
#[derive(Clone, Copy)]
struct Run {
    va: u64,
    end: u64,
    to: MappedAs,
}

/// The runs of an address space, addresses rising, as far as its tables can be followed.
fn runs(recording: &Recording, space: Option<usize>, progress: &Progress) -> Result<Vec<Run>, Cancelled> {
    let mut runs: Vec<Run> = Vec::new();
    let Some(space) = space.and_then(|i| recording.facts.address_spaces.get(i)) else {
        return Ok(runs);
    };
    let (mut passed, mut problems) = (0u64, 0);
    let _ = mmu::visit_all(space.format, space.root, &recording.memory.last(), &mut |found| {
        passed += 1;
        if passed.is_multiple_of(CHECK_EVERY) && progress.check().is_err() {
            return ControlFlow::Break(());
        }
        match found {
            Found::Table(_) => {}
            Found::Leaf(l) => add(&mut runs, &l),
            Found::Problem(_) => {
                problems += 1;
                if problems >= Scan::MAX_PROBLEMS {
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    });
    progress.check()?;
    Ok(runs)
}

fn add(runs: &mut Vec<Run>, leaf: &Leaf) {
    let to = MappedAs {
        rights: leaf.rights,
        attr_index: leaf.attr_index,
        bits: mmu::entry_bits(leaf.raw),
    };
    let end = leaf.va.0.saturating_add(leaf.bytes);
    match runs.last_mut() {
        Some(last) if last.end == leaf.va.0 && last.to == to => last.end = end,
        _ => runs.push(Run { va: leaf.va.0, end, to }),
    }
}

/// Compares what is mapped, one pair of address spaces after another.
pub(super) fn diff(a: &Recording, b: &Recording, progress: &Progress) -> Result<MappingDiff, Cancelled> {
    let mut out = MappingDiff::default();
    for pair in spaces::pairs(a, b) {
        let (mut in_a, mut in_b) = (runs(a, pair.a, progress)?, runs(b, pair.b, progress)?);
        let format = |r: &Recording, i: Option<usize>| Some(r.facts.address_spaces.get(i?)?.format);
        if format(a, pair.a) != format(b, pair.b) {
            // What the other bits of an entry mean differs by format; rights and attributes do not.
            for run in in_a.iter_mut().chain(&mut in_b) {
                run.to.bits = 0;
            }
        }
        compare(pair.number, &in_a, &in_b, &mut out);
    }
    Ok(out)
}

/// Goes along both lists at once, from border to border of their runs.
fn compare(address_space: u8, a: &[Run], b: &[Run], out: &mut MappingDiff) {
    let own = out.list.len();
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut at = 0;
    loop {
        let (x, y) = (a.peek().copied().copied(), b.peek().copied().copied());
        let Some(start) = [x, y].into_iter().flatten().map(|r| r.va.max(at)).min() else {
            return;
        };
        // The next border: where a run that is here ends, or one that is not here begins.
        let border = |r: &Run| if r.va <= start { r.end } else { r.va };
        let end = [x, y].iter().flatten().map(border).min().unwrap_or(start);
        let here = |r: Option<Run>| r.filter(|r| r.va <= start).map(|r| r.to);
        let difference = MappingDifference {
            address_space,
            va: GpuVa(start),
            pages: end.saturating_sub(start) / PAGE_BYTES,
            a: here(x),
            b: here(y),
        };
        note(difference, own, out);
        at = end;
        a.next_if(|r| r.end <= at);
        b.next_if(|r| r.end <= at);
    }
}

/// Counts a piece, and lists it where the sides differ: with the one before it where it goes on with that. Those
/// before `own` in the list are of other address spaces.
fn note(d: MappingDifference, own: usize, out: &mut MappingDiff) {
    let count = match (d.a, d.b) {
        (Some(x), Some(y)) if x == y => {
            out.same += d.pages;
            return;
        }
        (Some(_), Some(_)) => &mut out.changed,
        (Some(_), None) => &mut out.only_a,
        _ => &mut out.only_b,
    };
    *count += d.pages;
    let listed = out.list.len();
    match out.list.last_mut().filter(|_| listed > own) {
        Some(last) if last.end() == d.va && (last.a, last.b) == (d.a, d.b) => last.pages += d.pages,
        _ if listed < MOST => out.list.push(d),
        _ => {}
    }
}
