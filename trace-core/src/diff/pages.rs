//! Comparison of the memory of two recordings at their ends, by digest and address.

use super::buffers::count_differing;
use super::event_diff::MAX_LISTED_DIFFERENCES;
use super::mappings::MovedRun;
use super::recorded_ranges::{RecordedAddresses, align_words};
use super::rules::{IgnoredMemory, Rules};
use super::spaces;
use crate::json_forms;
use crate::mmu::{self, PAGE_BYTES};
use crate::progress::{Cancelled, Progress};
use crate::recording::{Digest, FrameRole, MemoryView, Page, PageId, Recording};
use crate::{GpuVa, PAGE_SIZE, PhysAddr};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Memory of both sides at the end. Pages are identified by address space and GPU address if both have page tables,
/// or else by frame. Memory without contents starts as zero, so a page of zeros on one side alone is the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageDiff {
    /// Number of pages with the same contents.
    pub same: u64,
    /// Number of pages with different contents.
    pub changed: u64,
    /// Number of pages with contents in the first recording only.
    pub only_a: u64,
    /// Number of pages with contents in the second recording only.
    pub only_b: u64,
    /// Number of pages that differ only in bytes that the rules exclude.
    pub ignored: u64,
    /// Number of bytes that differ, in all pages; missing contents count as zero.
    pub bytes_differ: u64,
    /// Whether the addresses are physical, because not both sides have page tables.
    pub physical: bool,
    /// Whether the first, and whether the second recording does not hold its memory at the end: it has no page
    /// tables, and its last snapshot is older than a CPU write. Pages are not compared then.
    pub not_held: (bool, bool),
    /// Addresses of the first pages that differ, at most [`MAX_LISTED_DIFFERENCES`].
    pub list: Vec<PageDifference>,
}

/// A page that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PageDifference {
    /// Number of the address space; 0 if addresses are physical.
    pub address_space: u8,
    /// Address of the page.
    #[serde(serialize_with = "json_forms::text")]
    pub va: GpuVa,
    /// Whether the first recording has contents for it.
    pub in_a: bool,
    /// Whether the second recording has contents for it.
    pub in_b: bool,
    /// Offset of the first byte that differs, if both sides have contents.
    #[serde(serialize_with = "json_forms::hex_or_null")]
    pub first_byte: Option<u32>,
}

/// Pages with contents by address.
type ByAddress = BTreeMap<u64, PageId>;

/// Returns the pages with contents by the physical address that they have in the recording that was replayed.
fn by_frame(view: &MemoryView<'_>, addresses: &RecordedAddresses) -> ByAddress {
    let mut pages = BTreeMap::new();
    for run in view.runs().iter().filter(|r| r.role == FrameRole::Data) {
        for frame in run.first_frame..run.end_frame() {
            pages.extend(
                run.page(frame)
                    .map(|p| (addresses.to_recorded(PhysAddr::new(frame << 12)).get(), p)),
            );
        }
    }
    pages
}

/// Returns whether a recording without page tables holds memory at its end: no CPU write is newer than the last
/// snapshot.
fn holds_end(r: &Recording) -> bool {
    let last = r.memory.snapshots.last().map_or(0, |s| s.event);
    let from = usize::try_from(last).unwrap_or(usize::MAX).min(r.events.len());
    let writes = !r.events.host_writes.is_empty();
    !writes || !(from..r.events.len()).any(|event| r.events.host_write(event).is_some())
}

/// Returns the pages with contents of one address space, by address.
fn by_address(recording: &Recording, space: Option<usize>) -> ByAddress {
    let mut pages = BTreeMap::new();
    let Some(space) = space.and_then(|i| recording.metadata.address_spaces.get(i)) else {
        return pages;
    };
    let view = recording.memory.last();
    let runs = view.runs();
    for leaf in mmu::scan(space.format, space.root, &view).leaves {
        let (first, end) = (leaf.pa.frame(), leaf.pa.frame().saturating_add(leaf.bytes >> 12));
        let from = runs.partition_point(|r| r.end_frame() <= first);
        for run in runs.iter().skip(from).take_while(|r| r.first_frame < end) {
            for frame in run.first_frame.max(first)..run.end_frame().min(end) {
                let va = leaf.va.get().saturating_add((frame - first) << 12);
                pages.extend(run.page(frame).map(|p| (va, p)));
            }
        }
    }
    pages
}

/// Compares memory, one pair of address spaces after another. A moved page with the same contents is compared at its
/// address in the first recording.
pub(super) fn diff(
    a: &Recording,
    b: &Recording,
    moved: &[MovedRun],
    rules: &Rules,
    progress: &Progress,
) -> Result<PageDiff, Cancelled> {
    let physical = a.metadata.address_spaces.is_empty() || b.metadata.address_spaces.is_empty();
    let mut work = Work {
        a,
        b,
        ignored: rules
            .memory_compared_by_element(a)
            .merge(rules.memory_compared_by_element(b)),
        addresses: (RecordedAddresses::new(a), RecordedAddresses::new(b)),
        out: PageDiff {
            physical,
            ..PageDiff::default()
        },
    };
    if physical {
        work.out.not_held = (!holds_end(a), !holds_end(b));
        if work.out.not_held == (false, false) {
            let (of_a, of_b) = (
                by_frame(&a.memory.last(), &work.addresses.0),
                by_frame(&b.memory.last(), &work.addresses.1),
            );
            work.compare(&of_a, &of_b, 0, progress)?;
        }
        return Ok(work.out);
    }
    let pairs = spaces::pairs(a, b);
    progress.set_total(pairs.len() as u64);
    for pair in pairs {
        let (pages_a, mut pages_b) = (by_address(a, pair.a), by_address(b, pair.b));
        let here = moved.iter().filter(|m| m.number == pair.number);
        let mut there = BTreeMap::new();
        for m in here {
            for page in 0..m.pages {
                let by = page.saturating_mul(PAGE_BYTES);
                if let Some(id) = pages_b.remove(&m.b.saturating_add(by)) {
                    there.insert(m.a.saturating_add(by), id);
                }
            }
        }
        pages_b.extend(there);
        work.compare(&pages_a, &pages_b, pair.number, progress)?;
        progress.advance(1)?;
    }
    Ok(work.out)
}

/// Number of pages between two checks for cancellation.
const CHECK_EVERY: usize = 1 << 12;

struct Work<'a> {
    a: &'a Recording,
    b: &'a Recording,
    ignored: IgnoredMemory,
    addresses: (RecordedAddresses, RecordedAddresses),
    out: PageDiff,
}

impl Work<'_> {
    fn compare(
        &mut self,
        pages_a: &ByAddress,
        pages_b: &ByAddress,
        address_space: u8,
        progress: &Progress,
    ) -> Result<(), Cancelled> {
        let digest = |r: &Recording, p: PageId| -> Option<Digest> { r.memory.pages.digest(p) };
        let all: BTreeSet<u64> = pages_a.keys().chain(pages_b.keys()).copied().collect();
        for (n, at) in all.into_iter().enumerate() {
            if n.is_multiple_of(CHECK_EVERY) {
                progress.check()?;
            }
            let (in_a, in_b) = (pages_a.get(&at), pages_b.get(&at));
            let same = match (in_a, in_b) {
                (Some(x), Some(y)) => digest(self.a, *x) == digest(self.b, *y),
                // Memory without contents starts as zero.
                (Some(&PageId::ZERO), None) | (None, Some(&PageId::ZERO)) => true,
                _ => false,
            };
            if same {
                self.out.same += 1;
            } else {
                self.differs(address_space, at, in_a.copied(), in_b.copied());
            }
        }
        Ok(())
    }

    /// Counts and lists a page whose digest differs, or that only one side has.
    fn differs(&mut self, address_space: u8, at: u64, in_a: Option<PageId>, in_b: Option<PageId>) {
        // An owned copy, so that the excluded bytes can be made equal.
        let image = |r: &Recording, p: Option<PageId>| -> Option<Box<Page>> {
            let page = p.map_or(Some(&[0; PAGE_SIZE]), |p| r.memory.pages.page(p));
            page.copied().map(Box::new)
        };
        let mut found = image(self.a, in_a).zip(image(self.b, in_b));
        if let Some((x, y)) = &mut found {
            if self.out.physical {
                align_words((&self.addresses.0, &self.addresses.1), x, y);
                if x == y {
                    self.out.same += 1;
                    return;
                }
            }
            for left_out in self.ignored.ignored_within(address_space, GpuVa::new(at), PAGE_BYTES) {
                let range = left_out.start as usize..left_out.end as usize;
                for page in [&mut *x, &mut *y] {
                    page.get_mut(range.clone()).unwrap_or_default().fill(0);
                }
            }
            if x == y {
                self.out.ignored += 1;
                return;
            }
            self.out.bytes_differ += count_differing(&**x, &**y);
        }
        let count = match (in_a, in_b) {
            (Some(_), Some(_)) => &mut self.out.changed,
            (Some(_), None) => &mut self.out.only_a,
            _ => &mut self.out.only_b,
        };
        *count += 1;
        if self.out.list.len() < MAX_LISTED_DIFFERENCES {
            let first_byte = found.filter(|_| in_a.is_some() && in_b.is_some());
            let first_byte = first_byte.and_then(|(x, y)| x.iter().zip(y.iter()).position(|(v, w)| v != w));
            self.out.list.push(PageDifference {
                address_space,
                va: GpuVa::new(at),
                in_a: in_a.is_some(),
                in_b: in_b.is_some(),
                first_byte: first_byte.and_then(|at| u32::try_from(at).ok()),
            });
        }
    }
}
