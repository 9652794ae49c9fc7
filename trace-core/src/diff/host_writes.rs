//! Comparison of CPU writes between other events, byte by byte in the interval of the same job.
//!
//! A recorder stores the changed bytes of a page, so one write may be split differently on each side. Therefore bytes
//! are compared, not rows.

use super::event_alignment::JobInterval;
use super::event_diff::{JobPair, MAX_LISTED_DIFFERENCES};
use super::recorded_ranges::{RecordedAddresses, is_same_word, word};
use super::rules::Rules;
use super::spaces;
use crate::json_forms;
use crate::mmu;
use crate::progress::{Cancelled, Progress};
use crate::recording::{EventKind, FrameRole, HostWriteRow, MemoryView, Page, Recording};
use crate::{GpuVa, PAGE_SIZE, PhysAddr};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum number of bytes of a difference that are shown, from its start.
pub(super) const MAX_SHOWN_BYTES: usize = 16;

/// CPU writes, compared byte by byte in the interval of the same job. Bytes are identified by address space and GPU
/// address at the submit of the next job if both sides have page tables, or else by physical address. Counts are of
/// bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostWriteDiff {
    /// Bytes that both sides wrote with the same value.
    pub same: u64,
    /// Bytes that one side wrote and the other already had when the job was submitted. They count as no difference.
    pub already: u64,
    /// Bytes that both sides wrote with different values.
    pub changed: u64,
    /// Bytes that only the first recording wrote.
    pub only_a: u64,
    /// Bytes that only the second recording wrote.
    pub only_b: u64,
    /// Bytes of either side that are not compared: those in page tables, which are compared as mappings, those that a
    /// rule leaves out, and those of `unmapped`.
    pub uncompared: u64,
    /// Bytes of either side in pages that are not mapped at the submit of the next job, so that no job sees them there.
    pub unmapped: u64,
    /// Whether the addresses are physical, because not both sides have page tables. In JSON, `physical address` or
    /// `GPU address`.
    #[serde(rename = "by", serialize_with = "serialize_address_kind")]
    pub physical: bool,
    /// The first differing ranges, at most 1000 ([`MAX_LISTED_DIFFERENCES`]), in the order of the jobs, then by
    /// address. No range crosses a page.
    pub list: Vec<HostWriteDifference>,
}

/// Returns how bytes and pages are matched: by `physical address` or by `GPU address`.
#[must_use]
pub fn address_kind(physical: bool) -> &'static str {
    if physical { "physical address" } else { "GPU address" }
}

fn serialize_address_kind<S: Serializer>(physical: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(address_kind(*physical))
}

/// A range of bytes that the CPU wrote differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostWriteDifference {
    /// The jobs in whose interval the writes are.
    pub job: JobPair,
    /// The event of the first recording that wrote the first of the bytes; `None` if only the second wrote them.
    pub a: Option<u64>,
    /// The event of the second recording; `None` if only the first wrote them.
    pub b: Option<u64>,
    /// Number of the address space; 0 if addresses are physical.
    pub address_space: u8,
    /// Address of the first byte.
    #[serde(serialize_with = "json_forms::text")]
    pub va: GpuVa,
    /// Number of bytes.
    pub bytes: u64,
    /// Bytes that the first recording wrote, at most 16; empty if it wrote none.
    #[serde(serialize_with = "json_forms::digits")]
    pub bytes_a: Vec<u8>,
    /// Bytes that the second recording wrote, at most 16.
    #[serde(serialize_with = "json_forms::digits")]
    pub bytes_b: Vec<u8>,
}

/// The page that a frame is mapped at: number of the address space, and address.
type PageLocation = (u8, u64);

/// Mappings of frames when a job is submitted, in both directions. A frame that was unmapped since its write may hold
/// another page by then: its write is at no location.
struct FrameLocations {
    /// Index of the snapshot whose page tables these are.
    snapshot: Option<usize>,
    /// By first frame: number of frames, and the location of the first.
    mapped: BTreeMap<u64, (u64, PageLocation)>,
    /// The reverse map: number of frames, and the first frame, by location.
    frames: BTreeMap<PageLocation, (u64, u64)>,
    /// Numbers of the compared address spaces, and their indices in the recording's list.
    spaces: Vec<(u8, usize)>,
    physical: bool,
    addresses: RecordedAddresses,
}

impl FrameLocations {
    fn new(r: &Recording, spaces: impl Iterator<Item = (u8, usize)>, physical: bool) -> Self {
        Self {
            snapshot: None,
            mapped: BTreeMap::new(),
            frames: BTreeMap::new(),
            spaces: spaces.collect(),
            physical,
            addresses: RecordedAddresses::new(r),
        }
    }

    /// Takes the mappings at the end of the interval of a job: from the last snapshot in it, or the first one after it.
    fn advance(&mut self, r: &Recording, course: &Range<u64>) {
        let snapshots = &r.memory.snapshots;
        let in_or_after = snapshots.partition_point(|s| s.event <= course.start);
        let after = snapshots.partition_point(|s| s.event <= course.end);
        let next = in_or_after
            .max(after.saturating_sub(1))
            .min(snapshots.len().saturating_sub(1));
        let changed = match self.snapshot {
            Some(before) => {
                let between = snapshots.iter().take(next + 1).skip(before + 1);
                between.flat_map(|s| &s.runs).any(|run| run.role == FrameRole::Table)
            }
            None => true,
        };
        self.snapshot = Some(next);
        if self.physical || !changed {
            return;
        }
        self.mapped.clear();
        let view = r.memory.at(snapshots.get(next).map_or(0, |s| s.event));
        for (number, index) in &self.spaces {
            let Some(space) = r.metadata.address_spaces.get(*index) else {
                continue;
            };
            for leaf in mmu::scan(space.format, space.root, &view).leaves {
                let pages = leaf.bytes >> 12;
                // A frame that is mapped twice is reported at the first location found.
                self.mapped
                    .entry(leaf.pa.frame())
                    .or_insert((pages, (*number, leaf.va.get())));
            }
        }
        let turned = self.mapped.iter().map(|(frame, (pages, at))| (*at, (*pages, *frame)));
        self.frames = turned.collect();
    }

    fn at(&self, frame: u64) -> Option<PageLocation> {
        if self.physical {
            return Some((0, self.addresses.to_recorded(PhysAddr::new(frame << 12)).get()));
        }
        let (first, (pages, (number, va))) = self.mapped.range(..=frame).next_back()?;
        let by = frame.checked_sub(*first).filter(|by| by < pages)?;
        Some((*number, va.checked_add(by << 12)?))
    }

    /// Returns the frame that is mapped at a page.
    fn frame_at(&self, at: PageLocation) -> Option<u64> {
        if self.physical {
            return Some(self.addresses.to_local(PhysAddr::new(at.1)).get() >> 12);
        }
        let ((number, va), (pages, frame)) = self.frames.range(..=at).next_back()?;
        let by = at.1.checked_sub(*va)? >> 12;
        (*number == at.0 && by < *pages).then(|| frame.saturating_add(by))
    }
}

/// The CPU writes to a page in the interval of one job.
struct PageWrites {
    bytes: Box<Page>,
    /// By byte: the event that wrote it last, counted from 1; 0 if none did.
    by: Box<[u32; PAGE_SIZE]>,
}

impl PageWrites {
    fn new() -> Self {
        Self {
            bytes: Box::new([0; PAGE_SIZE]),
            by: Box::new([0; PAGE_SIZE]),
        }
    }

    fn take(&mut self, row: &HostWriteRow, image: &Page, event: u32) {
        let Some(piece) = row.piece() else { return };
        if let (Some(to), Some(from)) = (self.bytes.get_mut(piece.clone()), image.get(piece.clone())) {
            to.copy_from_slice(from);
        }
        if let Some(by) = self.by.get_mut(piece) {
            by.fill(event.saturating_add(1));
        }
    }

    fn at(&self, n: usize) -> Option<(u8, u32)> {
        let by = self.by.get(n).and_then(|e| e.checked_sub(1))?;
        Some((*self.bytes.get(n)?, by))
    }

    /// Returns the word with this index, if all of it was written.
    fn word(&self, index: usize) -> Option<u64> {
        let all = (index * 8..index * 8 + 8).all(|n| self.at(n).is_some());
        word(&self.bytes, index).filter(|_| all)
    }
}

/// One side of the comparison.
struct Side<'a> {
    recording: &'a Recording,
    places: FrameLocations,
    /// Frames that hold page tables at some time.
    tables: Vec<Range<u64>>,
    /// Host writes by event.
    events: Vec<u64>,
}

/// The writes of a side in the interval of a job.
#[derive(Default)]
struct JobWrites {
    pages: BTreeMap<PageLocation, PageWrites>,
    /// Number of bytes in page tables.
    in_tables: u64,
    /// Number of bytes in pages that are not mapped at the job's submit.
    unmapped: u64,
}

impl<'a> Side<'a> {
    fn new(recording: &'a Recording, places: FrameLocations, progress: &Progress) -> Result<Self, Cancelled> {
        let mut tables: Vec<Range<u64>> = Vec::new();
        for s in recording.memory.snapshots.iter() {
            let of_tables = s.runs.iter().filter(|r| r.role == FrameRole::Table);
            tables.extend(of_tables.map(|r| r.first_frame..r.end_frame()));
        }
        progress.check()?;
        tables.sort_unstable_by_key(|r| (r.start, r.end));
        tables.dedup();
        let all = 0..recording.events.len();
        let events = all.filter(|e| recording.events.host_write(*e).is_some());
        Ok(Self {
            places,
            tables,
            events: events.map(|e| e as u64).collect(),
            recording,
        })
    }

    fn is_table(&self, frame: u64) -> bool {
        let n = self.tables.partition_point(|r| r.start <= frame);
        self.tables.iter().take(n).rev().take(8).any(|r| r.contains(&frame))
    }

    fn collect_writes(&mut self, course: Option<&Range<u64>>) -> JobWrites {
        let mut out = JobWrites::default();
        let Some(course) = course else { return out };
        self.places.advance(self.recording, course);
        let from = self.events.partition_point(|e| *e < course.start);
        let mut pages: BTreeMap<PageLocation, PageWrites> = BTreeMap::new();
        for event in self.events.iter().skip(from).take_while(|e| **e < course.end) {
            let found = usize::try_from(*event).ok();
            let Some(row) = found.and_then(|e| self.recording.events.host_write(e)) else {
                continue;
            };
            let image = self.recording.memory.pages.page(crate::recording::PageId(row.page));
            if self.is_table(row.frame()) {
                out.in_tables += u64::from(row.bytes);
                continue;
            }
            match self.places.at(row.frame()).zip(image) {
                Some((at, image)) => {
                    let event = u32::try_from(*event).unwrap_or(u32::MAX - 1);
                    pages.entry(at).or_insert_with(PageWrites::new).take(&row, image, event);
                }
                None => out.unmapped += u64::from(row.bytes),
            }
        }
        out.pages = pages;
        out
    }

    /// Returns the memory after the interval of a job.
    fn memory_after(&self, course: Option<&Range<u64>>) -> MemoryView<'a> {
        self.recording.memory.at(course.map_or(u64::MAX, |c| c.end))
    }

    fn page(&self, view: &MemoryView<'a>, at: PageLocation) -> Option<&'a Page> {
        view.frame(self.places.frame_at(at)?)
    }
}

/// The result for a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Byte {
    /// No difference.
    Same,
    /// Both sides wrote it, with different values.
    Changed,
    OnlyA,
    OnlyB,
}

/// Compares the CPU writes, one pair of jobs after another.
pub(super) fn diff(
    a: &Recording,
    b: &Recording,
    courses: &[JobInterval],
    rules: &Rules,
    progress: &Progress,
) -> Result<HostWriteDiff, Cancelled> {
    let physical = a.metadata.address_spaces.is_empty() || b.metadata.address_spaces.is_empty();
    let mut out = HostWriteDiff {
        physical,
        ..HostWriteDiff::default()
    };
    let none = a.events.host_writes.is_empty() && b.events.host_writes.is_empty();
    if none || !rules.compares(EventKind::HostWrite) {
        return Ok(out);
    }
    let ignored = rules
        .memory_compared_by_element(a)
        .merge(rules.memory_compared_by_element(b));
    let pairs = spaces::pairs(a, b);
    let of_a = pairs.iter().filter_map(|p| Some((p.number, p.a?)));
    let of_b = pairs.iter().filter_map(|p| Some((p.number, p.b?)));
    let mut one = Side::new(a, FrameLocations::new(a, of_a, physical), progress)?;
    let mut two = Side::new(b, FrameLocations::new(b, of_b, physical), progress)?;
    for c in courses {
        progress.check()?;
        let (x, y) = (one.collect_writes(c.a.as_ref()), two.collect_writes(c.b.as_ref()));
        out.unmapped += x.unmapped + y.unmapped;
        out.uncompared += x.in_tables + y.in_tables + x.unmapped + y.unmapped;
        let (view_a, view_b) = (one.memory_after(c.a.as_ref()), two.memory_after(c.b.as_ref()));
        let mut all: Vec<PageLocation> = x.pages.keys().chain(y.pages.keys()).copied().collect();
        all.sort_unstable();
        all.dedup();
        for at in all {
            let (p, q) = (x.pages.get(&at), y.pages.get(&at));
            let had = (one.page(&view_a, at), two.page(&view_b, at));
            let left_out = ignored.ignored_within(at.0, GpuVa::new(at.1), PAGE_SIZE as u64);
            let moved = moved_words((&one.places.addresses, &two.places.addresses), (p, q), had);
            page(
                &mut out,
                c.job,
                at,
                (left_out.as_slice(), moved.as_slice()),
                (p, q),
                had,
            );
        }
    }
    Ok(out)
}

/// Returns the indices of the words of a page that are the same address of the recorded machine on both sides,
/// ascending.
fn moved_words(
    both: (&RecordedAddresses, &RecordedAddresses),
    (a, b): (Option<&PageWrites>, Option<&PageWrites>),
    had: (Option<&Page>, Option<&Page>),
) -> Vec<usize> {
    let moved = |n: &usize| {
        let (x, y) = (a.and_then(|w| w.word(*n)), b.and_then(|w| w.word(*n)));
        // The other side may already have had a word that only one side wrote.
        let (x, y) = (
            x.or_else(|| word(had.0.filter(|_| y.is_some())?, *n)),
            y.or_else(|| word(had.1.filter(|_| x.is_some())?, *n)),
        );
        x.zip(y).is_some_and(|(x, y)| is_same_word(both, x, y))
    };
    match both.0.is_empty() && both.1.is_empty() {
        true => Vec::new(),
        false => (0..PAGE_SIZE / 8).filter(moved).collect(),
    }
}

/// Compares the writes of both sides to a page. `left_out` holds the offsets of bytes that are not compared; `moved`
/// the indices of words that differ only by relocation; `had` the page after the interval of the job.
fn page(
    out: &mut HostWriteDiff,
    job: JobPair,
    at: PageLocation,
    (left_out, moved): (&[Range<u64>], &[usize]),
    (a, b): (Option<&PageWrites>, Option<&PageWrites>),
    had: (Option<&Page>, Option<&Page>),
) {
    let holds = |page: Option<&Page>, n: usize, byte: u8| page.and_then(|p| p.get(n)) == Some(&byte);
    let mut open: Option<(Byte, HostWriteDifference)> = None;
    for n in 0..=PAGE_SIZE {
        let (x, y) = (a.and_then(|w| w.at(n)), b.and_then(|w| w.at(n)));
        let what = match (x, y) {
            (None, None) => Byte::Same,
            _ if left_out.iter().any(|r| r.contains(&(n as u64))) => {
                out.uncompared += u64::from(x.is_some()) + u64::from(y.is_some());
                Byte::Same
            }
            (Some((v, _)), Some((w, _))) if v == w => {
                out.same += 1;
                Byte::Same
            }
            _ if moved.binary_search(&(n / 8)).is_ok() => {
                out.same += u64::from(x.is_some() && y.is_some());
                out.already += u64::from(x.is_some() != y.is_some());
                Byte::Same
            }
            // The other side need not write what it already had.
            (Some((v, _)), None) if holds(had.1, n, v) => {
                out.already += 1;
                Byte::Same
            }
            (None, Some((w, _))) if holds(had.0, n, w) => {
                out.already += 1;
                Byte::Same
            }
            (Some(_), Some(_)) => {
                out.changed += 1;
                Byte::Changed
            }
            (Some(_), None) => {
                out.only_a += 1;
                Byte::OnlyA
            }
            (None, Some(_)) => {
                out.only_b += 1;
                Byte::OnlyB
            }
        };
        if let Some((kind, d)) = open.take() {
            if kind == what {
                open = Some((kind, extend_difference(d, x, y)));
            } else if out.list.len() < MAX_LISTED_DIFFERENCES {
                out.list.push(d);
            }
        }
        if open.is_none() && what != Byte::Same {
            let d = HostWriteDifference {
                job,
                a: x.map(|x| u64::from(x.1)),
                b: y.map(|y| u64::from(y.1)),
                address_space: at.0,
                va: GpuVa::new(at.1.saturating_add(n as u64)),
                bytes: 0,
                bytes_a: Vec::new(),
                bytes_b: Vec::new(),
            };
            open = Some((what, extend_difference(d, x, y)));
        }
    }
}

/// Returns the difference extended by one byte.
fn extend_difference(mut d: HostWriteDifference, x: Option<(u8, u32)>, y: Option<(u8, u32)>) -> HostWriteDifference {
    d.bytes += 1;
    for (list, byte) in [(&mut d.bytes_a, x), (&mut d.bytes_b, y)] {
        if list.len() < MAX_SHOWN_BYTES {
            list.extend(byte.map(|b| b.0));
        }
    }
    d
}
