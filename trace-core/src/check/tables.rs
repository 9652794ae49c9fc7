//! Checks of what the page tables allow: memory that is writable and executable, pages cached in two ways, page
//! tables that the GPU may write, and unused mappings.

use super::capped_findings::{CappedFindings, REPORT_EVERY};
use crate::addresses::{MapRun, MappedRuns};
use crate::finding::{Finding, FindingKind};
use crate::progress::{Cancelled, Progress};
use crate::recording::{FrameRole, Page, PageId, PageRun, Recording};
use crate::{GpuVa, PhysAddr};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Checks what the page tables allow at the end of the recording. Page tables that the importer created have no
/// access rights from a driver, so findings about rights are skipped for them.
pub(super) fn check_page_tables(
    recording: &Recording,
    progress: &Progress,
    findings: &mut Vec<Finding>,
) -> Result<(), Cancelled> {
    let view = recording.memory.last();
    let mut room = MappedRuns::MAX_RUNS;
    let mut spaces = Vec::new();
    for space in &recording.metadata.address_spaces {
        spaces.push((space.number, MappedRuns::build(space, &view, &mut room, progress)?));
    }
    if !recording.has_generated_tables() {
        for (number, runs) in &spaces {
            executable(*number, runs, findings);
        }
        writable_tables(&spaces, findings);
        aliases(&spaces, progress, findings)?;
    }
    check_unused(recording, &spaces, progress, findings)
}

fn pages(n: u64) -> String {
    match n {
        1 => "1 page".to_owned(),
        n => format!("{n} pages"),
    }
}

fn them(n: u64) -> &'static str {
    if n == 1 { "it" } else { "them" }
}

/// Joins runs with consecutive addresses, wherever they are in physical memory.
fn by_address(runs: impl Iterator<Item = MapRun>) -> Vec<(u64, u64)> {
    let mut out: Vec<(u64, u64)> = Vec::new();
    for r in runs {
        match out.last_mut() {
            Some(last) if last.0.saturating_add(last.1.saturating_mul(4096)) == r.va.get() => {
                last.1 = last.1.saturating_add(r.pages);
            }
            _ => out.push((r.va.get(), r.pages)),
        }
    }
    out
}

fn executable(number: u8, runs: &MappedRuns, findings: &mut Vec<Finding>) {
    let mut few = CappedFindings::new(FindingKind::WritableAndExecutable);
    let both = runs.list.iter().filter(|r| r.rights.write && r.rights.execute);
    for (va, n) in by_address(both.copied()) {
        few.add(|| {
            let message = format!(
                "the GPU may write and execute {} of address space {number}: a job that writes past its buffers can \
                 change the code of other jobs",
                pages(n)
            );
            Finding::at_address(FindingKind::WritableAndExecutable, GpuVa::new(va), message)
        });
    }
    few.append_to(findings);
}

/// Finds page tables of any address space that are in memory which one of them lets the GPU write.
fn writable_tables(spaces: &[(u8, MappedRuns)], findings: &mut Vec<Finding>) {
    let mut frames: Vec<(u64, u8, u8)> = Vec::new();
    for (number, runs) in spaces {
        frames.extend(runs.tables.iter().map(|t| (t.at.frame(), *number, t.level)));
    }
    frames.sort_unstable();
    let mut few = CappedFindings::new(FindingKind::WritablePageTable);
    for (number, runs) in spaces {
        for r in runs.list.iter().filter(|r| r.rights.write) {
            let first = r.pa.frame();
            let end = first.saturating_add(r.pages);
            let from = frames.partition_point(|f| f.0 < first);
            let to = frames.partition_point(|f| f.0 < end);
            let Some((frame, of, level)) = frames.get(from).filter(|_| from < to) else {
                continue;
            };
            let va = r.va.get().saturating_add((frame - first).saturating_mul(4096));
            let more = match to - from {
                1 => String::new(),
                n => format!(", and {} more page tables after it", n - 1),
            };
            few.add(|| {
                let message = format!(
                    "the GPU may write the level {level} page table of address space {of} through address space \
                     {number}{more}: a job can map any memory"
                );
                Finding::at_address(FindingKind::WritablePageTable, GpuVa::new(va), message)
            });
        }
    }
    few.append_to(findings);
}

/// How memory is mapped: the attributes that two mappings of one page should share.
type MappingAttributes = (u8, u8, usize);

fn manner(r: &MapRun) -> MappingAttributes {
    (r.attributes, r.shared, crate::addresses::RightsSummary::index(r.rights))
}

/// Maximum number of pairs of one kind that are counted beyond those listed.
const MAX_COUNTED: u64 = 1 << 16;

/// A run that is open in the sweep, with its address space.
type OpenRun<'a> = (u8, &'a MapRun);

/// Sweeps all runs by physical address. For each combination of attributes, only the run with the highest end is
/// kept. This makes the cost independent of the number of mappings of a page.
fn aliases(spaces: &[(u8, MappedRuns)], progress: &Progress, findings: &mut Vec<Finding>) -> Result<(), Cancelled> {
    let mut all: Vec<OpenRun<'_>> = spaces
        .iter()
        .flat_map(|(n, runs)| runs.list.iter().map(|r| (*n, r)))
        .collect();
    all.par_sort_unstable_by_key(|(n, r)| (r.pa, r.va, *n));
    progress.check()?;
    let end = |r: &MapRun| r.pa.get().saturating_add(r.bytes());
    let mut open: BTreeMap<MappingAttributes, OpenRun<'_>> = BTreeMap::new();
    let mut attributes = CappedFindings::new(FindingKind::AliasedAttributes);
    let mut rights = CappedFindings::new(FindingKind::AliasedRights);
    // Adjacent pairs are reported once. The key is the attributes and the distances from physical to virtual
    // addresses.
    let mut by_key: BTreeMap<(MappingAttributes, MappingAttributes, i128, i128), u64> = BTreeMap::new();
    for (i, this) in all.into_iter().enumerate() {
        if i % REPORT_EVERY == 0 {
            progress.check()?;
        }
        // A file can map a page in hundreds of ways, a million times over.
        if attributes.more.saturating_add(rights.more) > MAX_COUNTED {
            break;
        }
        let (_, run) = this;
        open.retain(|_, (_, r)| end(r) > run.pa.get());
        for other in open.values().filter(|(_, r)| manner(r) != manner(run)) {
            let to = end(other.1).min(end(run));
            let distance = |r: &MapRun| i128::from(r.va.get()) - i128::from(r.pa.get());
            let key = (manner(other.1), manner(run), distance(other.1), distance(run));
            let goes_on = by_key.insert(key, to) == Some(run.pa.get());
            if by_key.len() > CappedFindings::MAX_FINDINGS {
                by_key.retain(|_, until| *until >= run.pa.get());
            }
            if goes_on {
                continue;
            }
            let cached = (run.attributes, run.shared) != (other.1.attributes, other.1.shared);
            let few = if cached { &mut attributes } else { &mut rights };
            few.add(|| alias(*other, this, to, cached));
        }
        let furthest = open.get(&manner(run)).is_none_or(|(_, r)| end(r) < end(run));
        if furthest {
            open.insert(manner(run), this);
        }
    }
    attributes.append_to(findings);
    rights.append_to(findings);
    Ok(())
}

fn alias(a: OpenRun<'_>, b: OpenRun<'_>, to: u64, cached: bool) -> Finding {
    let at = b.1.pa.get();
    let va = |r: &MapRun| r.va.saturating_add(at.saturating_sub(r.pa.get()));
    let mut both = [(va(a.1), a), (va(b.1), b)];
    both.sort_by_key(|(va, (n, _))| (*n, *va));
    let [(first, one), (second, two)] = both;
    let said = |(n, r): OpenRun<'_>, va: GpuVa| {
        if cached {
            format!(
                "at {va} of address space {n} with attributes {:#04x}, shared {}",
                r.attributes, r.shared
            )
        } else {
            format!("at {va} of address space {n} as {}", r.rights)
        }
    };
    let why = if cached {
        "a write through one mapping may stay in a cache that the other mapping does not use"
    } else {
        "one mapping allows what the other forbids"
    };
    let message = format!(
        "{} at physical {} are mapped {} and {}: {why}",
        pages(to.saturating_sub(at) / 4096),
        PhysAddr::new(at),
        said(one, first),
        said(two, second)
    )
    .replacen("1 page at physical", "the page at physical", 1)
    .replacen(
        " are mapped",
        if to.saturating_sub(at) == 4096 {
            " is mapped"
        } else {
            " are mapped"
        },
        1,
    );
    let kind = if cached {
        FindingKind::AliasedAttributes
    } else {
        FindingKind::AliasedRights
    };
    Finding::at_address(kind, first, message)
}

/// Returns the frames that hold nonzero data in any snapshot, or that the CPU wrote, as ascending ranges.
fn used_frames(recording: &Recording, progress: &Progress) -> Result<Vec<Range<u64>>, Cancelled> {
    let mut used: Vec<Range<u64>> = Vec::new();
    let zero = |r: &PageRun| r.first_page == PageId::ZERO && (r.repeat || r.count == 1);
    for s in recording.memory.snapshots.iter() {
        progress.check()?;
        let runs = s.runs.iter().filter(|r| !zero(r));
        used.extend(runs.map(|r| r.first_frame..r.end_frame()));
    }
    let rows = &recording.events.host_writes;
    for part in rows.slices(0..rows.len()) {
        progress.check()?;
        used.extend(part.iter().map(|w| w.frame()..w.frame().saturating_add(1)));
    }
    used.par_sort_unstable_by_key(|r| r.start);
    used.dedup_by(|next, last| {
        let joined = next.start <= last.end;
        if joined {
            last.end = last.end.max(next.end);
        }
        joined
    });
    Ok(used)
}

fn has_overlap(ranges: &[Range<u64>], range: &Range<u64>) -> bool {
    let n = ranges.partition_point(|r| r.end <= range.start);
    ranges.get(n).is_some_and(|r| r.start < range.end)
}

/// Finds mappings without content that contain no buffer and that no word of memory points into.
fn check_unused(
    recording: &Recording,
    spaces: &[(u8, MappedRuns)],
    progress: &Progress,
    findings: &mut Vec<Finding>,
) -> Result<(), Cancelled> {
    let used = used_frames(recording, progress)?;
    let mut idle: Vec<(u8, Vec<Range<u64>>)> = Vec::new();
    for (i, (number, runs)) in spaces.iter().enumerate() {
        let mut mappings: Vec<(u64, u64, bool, &MapRun)> = Vec::new();
        for r in &runs.list {
            let frames = r.pa.frame()..r.pa.frame().saturating_add(r.pages);
            let holds = has_overlap(&used, &frames);
            match mappings.last_mut() {
                Some((_, end, all, last)) if *end == r.va.get() && manner(last) == manner(r) => {
                    (*end, *all) = (r.end().get(), *all || holds);
                }
                _ => mappings.push((r.va.get(), r.end().get(), holds, r)),
            }
        }
        let buffers = recording
            .metadata
            .buffers
            .iter()
            .filter(|b| b.address_space as usize == i);
        let mut owned: Vec<Range<u64>> = buffers
            .map(|b| b.va.get()..b.va.get().saturating_add(b.bytes))
            .collect();
        owned.sort_unstable_by_key(|r| r.start);
        owned.dedup_by(|next, last| {
            let joined = next.start <= last.end;
            if joined {
                last.end = last.end.max(next.end);
            }
            joined
        });
        let free = mappings.iter().filter(|m| !m.2 && !has_overlap(&owned, &(m.0..m.1)));
        idle.push((*number, free.map(|m| m.0..m.1).collect()));
    }
    let ranges: Vec<&[Range<u64>]> = idle.iter().map(|(_, r)| r.as_slice()).collect();
    let named = find_named_ranges(recording, &ranges, progress)?;
    let mut few = CappedFindings::new(FindingKind::MappedUnused);
    let each = idle.iter().zip(&named).flat_map(|((number, ranges), named)| {
        let bare = ranges.iter().zip(named).filter(|(_, named)| !**named);
        bare.map(move |(range, _)| (*number, range.clone()))
    });
    for (number, range) in each {
        few.add(|| {
            let (va, n) = (range.start, range.end.saturating_sub(range.start) / 4096);
            let message = format!(
                "{} of address space {number} {} mapped here, but the recording shows no use of {}: no nonzero \
                 content, no buffer, no CPU write and no pointer to it",
                pages(n),
                if n == 1 { "is" } else { "are" },
                them(n)
            );
            Finding::at_address(FindingKind::MappedUnused, GpuVa::new(va), message)
        });
    }
    few.append_to(findings);
    Ok(())
}

/// Returns which of the ranges, ascending in each address space, a word of memory points into. A pointer is 48 bits
/// at any multiple of four bytes, in every page image that is not a page table. More words look like pointers than
/// are pointers; all of them count.
fn find_named_ranges(
    recording: &Recording,
    spaces: &[&[Range<u64>]],
    progress: &Progress,
) -> Result<Vec<Vec<bool>>, Cancelled> {
    /// Number of images between two checks for cancellation.
    const AT_ONCE: usize = 256;
    let flags = |ranges: &&[Range<u64>]| ranges.iter().map(|_| AtomicBool::new(false)).collect::<Vec<_>>();
    let found: Vec<Vec<AtomicBool>> = spaces.iter().map(flags).collect();
    let all = || spaces.iter().copied().flatten();
    let (min, max) = (
        all().map(|r| r.start).min().unwrap_or(u64::MAX),
        all().map(|r| r.end).max().unwrap_or(0),
    );
    let pages = &recording.memory.pages;
    let count = if min < max { pages.len() } else { 0 };
    let mut table = vec![false; count + 1];
    for r in recording.memory.snapshots.iter().flat_map(|s| &s.runs) {
        if r.role == FrameRole::Table {
            let first = (r.first_page.0 as usize).min(table.len());
            let images = if r.repeat { 1 } else { r.count as usize };
            let end = first.saturating_add(images).min(table.len());
            table.get_mut(first..end).unwrap_or_default().fill(true);
        }
    }
    progress.set_total(count as u64);
    let look = |page: &Page| {
        let mut low = None;
        for four in page.as_chunks::<4>().0 {
            let this = u64::from(u32::from_le_bytes(*four));
            let Some(below) = low.replace(this) else { continue };
            let word = (this << 32 | below) & ((1 << 48) - 1);
            if word < min || word >= max {
                continue;
            }
            for (ranges, found) in spaces.iter().zip(&found) {
                let n = ranges.partition_point(|r| r.end <= word);
                if ranges.get(n).is_some_and(|r| r.start <= word)
                    && let Some(f) = found.get(n)
                {
                    f.store(true, Ordering::Relaxed);
                }
            }
        }
    };
    (0..count.div_ceil(AT_ONCE)).into_par_iter().try_for_each(|part| {
        let ids = part * AT_ONCE + 1..((part + 1) * AT_ONCE + 1).min(table.len());
        progress.advance(ids.len() as u64)?;
        for (id, _) in ids
            .clone()
            .zip(table.get(ids).unwrap_or_default())
            .filter(|(_, t)| !**t)
        {
            if let Some(page) = u32::try_from(id).ok().and_then(|id| pages.page(PageId(id))) {
                look(page);
            }
        }
        Ok(())
    })?;
    Ok(found
        .into_iter()
        .map(|f| f.into_iter().map(AtomicBool::into_inner).collect())
        .collect())
}
