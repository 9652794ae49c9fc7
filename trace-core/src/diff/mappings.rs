//! Comparison of the page tables of two recordings at their ends, by runs of pages.
//!
//! The physical location of a page is not compared: every run has its own memory, and the content at an address is
//! compared with the pages.

use super::event_diff::MAX_LISTED_DIFFERENCES;
use super::rules::Rules;
use super::spaces;
use crate::GpuVa;
use crate::memory::GpuMemoryView;
use crate::mmu::{self, Leaf, PAGE_BYTES, Rights, Scan, TableItem};
use crate::progress::{Cancelled, Progress};
use crate::recording::{MmuFormat, Recording};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// Number of tables and leaf entries between two checks for cancellation.
const CHECK_EVERY: u64 = 1 << 12;

/// Page table mappings of both sides at the end, per address space, as far as the tables can be followed. Counts are
/// of 4 KiB pages. The physical location of a page is no difference: a replay has other memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MappingDiff {
    /// Pages that both sides map in the same way.
    pub same: u64,
    /// Pages that both sides map, with other rights or attributes.
    pub changed: u64,
    /// Pages that only the first recording maps.
    pub only_a: u64,
    /// Pages that only the second recording maps.
    pub only_b: u64,
    /// Pages that both sides map in the same way, with the same contents, at different addresses.
    pub moved: u64,
    /// The first runs of pages that differ, at most [`MAX_LISTED_DIFFERENCES`], by address space and address.
    pub list: Vec<MappingDifference>,
}

/// How a page is mapped, without its physical address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MappedAs {
    /// Access rights of the GPU.
    pub rights: Rights,
    /// Index into the memory attributes of the address space, 0 to 7.
    pub attr_index: u8,
    /// All bits of the entry except its address and type, see [`crate::mmu::other_bits`]; 0 if the tables of the two
    /// recordings have different formats.
    pub bits: u64,
}

/// A run of pages with different mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MappingDifference {
    /// Number of the address space.
    pub address_space: u8,
    /// First address.
    pub va: GpuVa,
    /// Number of 4 KiB pages.
    pub pages: u64,
    /// The mapping in the first recording; `None` if it has none.
    pub a: Option<MappedAs>,
    /// The mapping in the second recording; `None` if it has none.
    pub b: Option<MappedAs>,
    /// Address in the second recording of the pages that the first has at `va`.
    pub moved_to: Option<GpuVa>,
}

impl MappingDifference {
    /// Returns the address one past the last byte.
    #[must_use]
    pub fn end(&self) -> GpuVa {
        self.va.saturating_add(self.pages.saturating_mul(PAGE_BYTES))
    }
}

/// A run of consecutive pages that are mapped in the same way.
#[derive(Clone, Copy)]
struct Run {
    va: u64,
    end: u64,
    to: MappedAs,
}

/// Returns the runs of an address space in address order, as far as its tables can be followed.
fn runs(recording: &Recording, space: Option<usize>, progress: &Progress) -> Result<Vec<Run>, Cancelled> {
    let mut runs: Vec<Run> = Vec::new();
    let Some(space) = space.and_then(|i| recording.metadata.address_spaces.get(i)) else {
        return Ok(runs);
    };
    let (mut passed, mut problems) = (0u64, 0);
    let _ = mmu::visit_all(space.format, space.root, &recording.memory.last(), &mut |found| {
        passed += 1;
        if passed.is_multiple_of(CHECK_EVERY) && progress.check().is_err() {
            return ControlFlow::Break(());
        }
        match found {
            TableItem::Table(_) => {}
            TableItem::Leaf(l) | TableItem::LeafElsewhere(l) => add(&mut runs, space.format, &l),
            TableItem::Problem(_) => {
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

fn add(runs: &mut Vec<Run>, format: MmuFormat, leaf: &Leaf) {
    let to = MappedAs {
        rights: leaf.rights,
        attr_index: leaf.attr_index,
        bits: mmu::other_bits(format, leaf),
    };
    let end = leaf.va.get().saturating_add(leaf.bytes);
    match runs.last_mut() {
        Some(last) if last.end == leaf.va.get() && last.to == to => last.end = end,
        _ => runs.push(Run {
            va: leaf.va.get(),
            end,
            to,
        }),
    }
}

/// Pages that are at one address in the first recording and at another in the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MovedRun {
    /// Number of the address space.
    pub number: u8,
    pub a: u64,
    pub b: u64,
    pub pages: u64,
}

/// Compares the mappings, one pair of address spaces after another. Also returns the moved runs.
pub(super) fn diff(
    a: &Recording,
    b: &Recording,
    rules: &Rules,
    progress: &Progress,
) -> Result<(MappingDiff, Vec<MovedRun>), Cancelled> {
    let mut out = MappingDiff::default();
    let mut all_moved = Vec::new();
    if !rules.compares_mappings() {
        return Ok((out, all_moved));
    }
    let ignored = rules.memory(a).merge(rules.memory(b));
    for pair in spaces::pairs(a, b) {
        let (mut in_a, mut in_b) = (runs(a, pair.a, progress)?, runs(b, pair.b, progress)?);
        let format = |r: &Recording, i: Option<usize>| Some(r.metadata.address_spaces.get(i?)?.format);
        if format(a, pair.a) != format(b, pair.b) {
            // The meaning of the other bits of an entry depends on the format; that of rights and attributes does
            // not.
            for run in in_a.iter_mut().chain(&mut in_b) {
                run.to.bits = 0;
            }
        }
        let (same, mut differ) = compare(pair.number, &in_a, &in_b);
        out.same += same;
        differ.retain(|d| {
            let left_out = ignored.ignored_within(d.address_space, d.va, d.pages.saturating_mul(PAGE_BYTES));
            !left_out.contains(&(0..d.pages.saturating_mul(PAGE_BYTES)))
        });
        let moved = find_moved((a, pair.a), (b, pair.b), pair.number, &differ, progress)?;
        let to: HashMap<u64, u64> = moved.iter().map(|m| (m.a, m.b)).collect();
        let from: HashSet<u64> = moved.iter().map(|m| m.b).collect();
        for d in differ {
            push_difference(d, &to, &from, &mut out);
        }
        all_moved.extend(moved);
    }
    Ok((out, all_moved))
}

/// Walks both lists from run border to run border: returns the number of equal pages, and the differing pieces, with
/// adjacent ones merged.
fn compare(address_space: u8, a: &[Run], b: &[Run]) -> (u64, Vec<MappingDifference>) {
    let (mut same, mut differ) = (0, Vec::<MappingDifference>::new());
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut at = 0;
    loop {
        let (x, y) = (a.peek().copied().copied(), b.peek().copied().copied());
        let Some(start) = [x, y].into_iter().flatten().map(|r| r.va.max(at)).min() else {
            return (same, differ);
        };
        // The next border: where a run here ends, or the next one starts.
        let border = |r: &Run| if r.va <= start { r.end } else { r.va };
        let end = [x, y].iter().flatten().map(border).min().unwrap_or(start);
        let here = |r: Option<Run>| r.filter(|r| r.va <= start).map(|r| r.to);
        let d = MappingDifference {
            address_space,
            va: GpuVa::new(start),
            pages: end.saturating_sub(start) / PAGE_BYTES,
            a: here(x),
            b: here(y),
            moved_to: None,
        };
        if d.a == d.b {
            same += d.pages;
        } else {
            match differ.last_mut() {
                Some(last) if last.end() == d.va && (last.a, last.b) == (d.a, d.b) => last.pages += d.pages,
                _ => differ.push(d),
            }
        }
        at = end;
        a.next_if(|r| r.end <= at);
        b.next_if(|r| r.end <= at);
    }
}

/// The identity of a run of pages without its location: length, mapping, and a digest of its contents.
type RunSignature = (u64, MappedKey, Option<[u8; 32]>);
type MappedKey = (String, u8, u64);

/// Finds runs that one side maps at one address and the other side maps in the same way elsewhere: the same number of
/// pages with the same rights and contents. Pages without contents, or with only zeros, match only if no other run of
/// the same size and rights is unmatched on either side.
fn find_moved(
    a: (&Recording, Option<usize>),
    b: (&Recording, Option<usize>),
    number: u8,
    differ: &[MappingDifference],
    progress: &Progress,
) -> Result<Vec<MovedRun>, Cancelled> {
    let alone = |of_a: bool| {
        differ
            .iter()
            .filter(move |d| d.a.is_some() == of_a && d.b.is_some() != of_a)
    };
    if alone(true).next().is_none() || alone(false).next().is_none() {
        return Ok(Vec::new());
    }
    let mut of_b: HashMap<RunSignature, Vec<u64>> = HashMap::new();
    for d in alone(false) {
        of_b.entry(likeness(b, d, progress)?).or_default().push(d.va.get());
    }
    let mut of_a: HashMap<RunSignature, Vec<u64>> = HashMap::new();
    for d in alone(true) {
        of_a.entry(likeness(a, d, progress)?).or_default().push(d.va.get());
    }
    let mut out = Vec::new();
    for (like, from) in of_a {
        let Some(to) = of_b.get(&like) else { continue };
        // Without distinctive contents, only a unique match is certain.
        if like.2.is_none() && (from.len() > 1 || to.len() > 1) {
            continue;
        }
        let pairs = from.iter().zip(to);
        out.extend(pairs.map(|(a, b)| MovedRun {
            number,
            a: *a,
            b: *b,
            pages: like.0,
        }));
    }
    out.sort_unstable_by_key(|m| m.a);
    Ok(out)
}

fn likeness(
    (recording, space): (&Recording, Option<usize>),
    d: &MappingDifference,
    progress: &Progress,
) -> Result<RunSignature, Cancelled> {
    let to = d.a.or(d.b);
    let key = to.map_or((String::new(), 0, 0), |t| (t.rights.to_string(), t.attr_index, t.bits));
    let mut contents = None;
    if let Some(space) = space.and_then(|i| recording.metadata.address_spaces.get(i)) {
        let memory = GpuMemoryView::new(recording.memory.last(), space);
        let (mut hasher, mut is_reported) = (blake3::Hasher::new(), false);
        for page in 0..d.pages {
            if page.is_multiple_of(CHECK_EVERY) {
                progress.check()?;
            }
            let at = d.va.saturating_add(page.saturating_mul(PAGE_BYTES));
            // Memory without contents starts as zero.
            match memory.page(at).0.filter(|p| p.iter().any(|b| *b != 0)) {
                Some(p) => {
                    is_reported = true;
                    hasher.update(p);
                }
                None => {
                    hasher.update(&[0]);
                }
            }
        }
        contents = is_reported.then(|| *hasher.finalize().as_bytes());
    }
    Ok((d.pages, key, contents))
}

/// Counts and lists a differing piece; a moved run once, at its address in the first recording.
fn push_difference(mut d: MappingDifference, to: &HashMap<u64, u64>, from: &HashSet<u64>, out: &mut MappingDiff) {
    let count = match (d.a, d.b) {
        (Some(_), Some(_)) => &mut out.changed,
        (Some(_), None) => match to.get(&d.va.get()) {
            Some(there) => {
                d.moved_to = Some(GpuVa::new(*there));
                &mut out.moved
            }
            None => &mut out.only_a,
        },
        _ if from.contains(&d.va.get()) => return,
        _ => &mut out.only_b,
    };
    *count += d.pages;
    if out.list.len() < MAX_LISTED_DIFFERENCES {
        out.list.push(d);
    }
}
