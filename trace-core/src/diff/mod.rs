//! Two recordings compared: events by job, registers by field, what the CPU wrote by byte, mappings by run, pages by
//! digest.
//!
//! The comparison is symmetric: `diff(b, a)` is `diff(a, b)` with the sides swapped.

mod align;
mod anchors;
mod buffers;
mod calls;
mod causes;
mod descriptors;
mod elements;
mod event_alignment;
mod events;
mod host_writes;
mod images;
mod mapping_changes;
mod mappings;
mod memory_comparison;
mod moved_events;
mod not_computed;
mod pages;
mod recorded_ranges;
mod relocation;
mod rules;
mod spaces;
mod stream;
mod summary;
#[cfg(test)]
mod tests;

pub(crate) use align::{Step, align};
pub use calls::{CallDiff, CallDifference, CallPart, CodeDifference, ContentDiff, TypeFrom};
pub use causes::{Cause, Effect, Link, Step as CauseStep, find_cause, find_causes, first_byte_effect, mapping_effect};
pub use elements::{Decade, ElementDiff, ElementPair, Errors, NumericValue, Tolerance, numeric_value};
pub use event_alignment::{Block, ChangeKind, DiffSide, EventAlignment, JobInterval};
pub use images::{ImageDiff, ImageError, ImageRange, compare_images};
pub use memory_comparison::{BytePair, MemoryComparison, byte_differs};
pub use not_computed::NotComputed;
pub use rules::{Pattern, Rule, RuleError, Rules, kind_name};
pub use summary::{Part, Summary, group_digits, summarize};

use crate::mmu::{PAGE_BYTES, Rights};
use crate::progress::{Cancelled, Progress};
use crate::recording::{EventKind, GpuVa, Recording};
use serde::{Deserialize, Serialize};

/// Maximum number of differences that are listed; all are counted.
pub const MAX_LISTED_DIFFERENCES: usize = 1000;

/// Where two recordings differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Diff {
    /// Accesses.
    pub events: EventDiff,
    /// Registers whose values differ at least once, by name.
    pub registers: Vec<RegisterDiff>,
    /// What the CPU wrote between other events.
    #[serde(default)]
    pub host_writes: HostWriteDiff,
    /// What jobs were told to do.
    #[serde(default)]
    pub descriptors: DescriptorDiff,
    /// What the page tables map at the end.
    pub mappings: MappingDiff,
    /// Memory at the end.
    pub pages: PageDiff,
    /// Named buffers at the end, by name.
    #[serde(default)]
    pub buffers: Vec<BufferDiff>,
    /// Calls of a driver that go together.
    #[serde(default)]
    pub calls: CallDiff,
    /// Number of jobs on each side.
    pub jobs: (u64, u64),
    /// Jobs that were not computed. Where there is any, outputs are not compared.
    #[serde(default)]
    pub not_computed: NotComputed,
}

/// Events of two recordings, aligned job by job: accesses, interrupts, submits, accesses without a value, memory that
/// was given. Marks are notes and not compared; what the CPU wrote is compared by byte, see [`HostWriteDiff`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventDiff {
    /// Events that are the same on both sides.
    pub equal: u64,
    /// The same accesses with different values.
    pub changed: u64,
    /// Events that only the second has.
    pub inserted: u64,
    /// Events that only the first has.
    pub deleted: u64,
    /// Events of blocks that both have, in different places.
    pub moved: u64,
    /// Writes whose values differ only by where things were put, and by nothing else: page-table roots of address
    /// spaces that go together, addresses in ranges that go together. They count as neither equal nor changed.
    pub relocated: u64,
    /// Accesses whose values every run has for itself, by the register map's replay class: counters that run free, the
    /// bits that a mask leaves out, flush ids, and reads that show what ran before the recording. They count as neither
    /// equal nor changed.
    pub uncompared: u64,
    /// Reads of a status that was read again and again, in the first and in the second, for which the last one of the
    /// wait stands. Only that one is aligned and counted.
    pub folded: (u64, u64),
    /// Pairs of jobs, of which each side may miss one, whose events differ by so much that the search for the
    /// shortest alignment was cut short: there may be an alignment with fewer differences.
    pub cut_short: Vec<JobPair>,
    /// Kinds of events of which one side has none at all. They are not compared, for not every recorder sees them, and
    /// a replay makes none of them.
    pub one_sided: Vec<OneSided>,
    /// Accesses, in the first and in the second, to spaces that are not the device's (memory of the machine,
    /// configuration space) and that the other side does not have. They are not compared: a replay leaves them out.
    #[serde(default)]
    pub foreign: (u64, u64),
    /// Calls, of the first and of the second, that no replay makes: failed ones, those that change nothing, snapshots
    /// that were not taken again. They are not compared where one side is a replay.
    #[serde(default)]
    pub not_played: (u64, u64),
    /// The first differences, at most [`MAX_LISTED_DIFFERENCES`], in the order of the events.
    pub list: Vec<EventDifference>,
}

/// A kind of events of which one side has none at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneSided {
    /// The kind.
    pub kind: EventKind,
    /// How many the first has.
    pub a: u64,
    /// How many the second has.
    pub b: u64,
}

/// Jobs that were compared: how many submits come before them on either side. 0 is what comes before any job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobPair {
    /// In the first; `None` where only the second has the job.
    pub a: Option<u32>,
    /// In the second; `None` where only the first has the job.
    pub b: Option<u32>,
}

impl JobPair {
    fn swapped(self) -> Self {
        Self { a: self.b, b: self.a }
    }
}

/// A place where the events differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventDifference {
    /// Jobs in whose course it is.
    pub job: JobPair,
    /// What became of the events; what was moved is told where the first has it.
    pub what: ChangeKind,
    /// The first event of the first recording, `None` where only the second has it.
    pub a: Option<u64>,
    /// The first event of the second recording, `None` where only the first has it.
    pub b: Option<u64>,
    /// How many events one after another: more than one where one side has them alone, or elsewhere.
    pub events: u64,
    /// What the first of them is.
    pub kind: EventKind,
    /// What it accesses: byte offset in its space; of an interrupt the line, of a submit the slot.
    pub offset: u32,
    /// Value in the first; of an interrupt its status, of a submit the head of its chain.
    pub value_a: Option<u64>,
    /// Value in the second.
    pub value_b: Option<u64>,
}

/// What the CPU wrote, byte by byte in the course of the same job, by address space and GPU address as the tables stand
/// in the end where both have page tables, and by physical address where not. Counts are of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostWriteDiff {
    /// Bytes that both wrote alike.
    pub same: u64,
    /// Bytes that one wrote and the other had already when the job was submitted. They count as no difference.
    pub already: u64,
    /// Bytes that both wrote, differently.
    pub changed: u64,
    /// Bytes that only the first wrote.
    pub only_a: u64,
    /// Bytes that only the second wrote.
    pub only_b: u64,
    /// Bytes of either side in page tables, which are compared by what they map, and in memory that nothing maps in the
    /// end. They are not compared.
    pub uncompared: u64,
    /// Whether the addresses are physical, for want of page tables on both sides.
    pub physical: bool,
    /// The first ranges that differ, at most [`MAX_LISTED_DIFFERENCES`], in the order of the jobs, then by address.
    /// None crosses a page.
    pub list: Vec<HostWriteDifference>,
}

/// A range of bytes that the CPU wrote otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostWriteDifference {
    /// Jobs in whose course it is.
    pub job: JobPair,
    /// The event of the first recording that wrote the first of the bytes; `None` where only the second wrote them.
    pub a: Option<u64>,
    /// The event of the second.
    pub b: Option<u64>,
    /// Number of the address space; 0 where addresses are physical.
    pub address_space: u8,
    /// Address of the first byte.
    pub va: GpuVa,
    /// Number of bytes.
    pub bytes: u64,
    /// What the first wrote, 16 bytes at most; none where it wrote nothing.
    pub bytes_a: Vec<u8>,
    /// What the second wrote.
    pub bytes_b: Vec<u8>,
}

/// What jobs were told to do, field by field: the descriptors of the chains of jobs that go together, each as its
/// submit found it on either side. Jobs that run the same chains again, with the same snapshots, are compared once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescriptorDiff {
    /// Descriptors that tell the same on both sides.
    pub same: u64,
    /// Descriptors with a field that differs.
    pub changed: u64,
    /// Jobs of chains that only the first has.
    pub only_a: u64,
    /// Jobs of chains that only the second has.
    pub only_b: u64,
    /// Address fields that differ only by where things were put. They count as no difference.
    pub relocated: u64,
    /// Descriptors, and jobs, that a side does not hold, or that rules leave out.
    pub unknown: u64,
    /// Descriptors whose status fields differ, which the device writes. They count as no difference.
    #[serde(default)]
    pub status: u64,
    /// Names of these fields.
    #[serde(default)]
    pub status_fields: Vec<String>,
    /// The first that differ, at most [`MAX_LISTED_DIFFERENCES`], in the order of the jobs.
    pub list: Vec<DescriptorDifference>,
}

/// A descriptor that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescriptorDifference {
    /// Jobs whose chain it is of.
    pub job: JobPair,
    /// The submits of these jobs, as which it was read: the event of the first recording, and of the second.
    pub events: (u64, u64),
    /// Its job's place in the chain, from 0.
    pub in_chain: u32,
    /// What it is: a layout of the register map, `draw`.
    pub layout: String,
    /// Numbers of the address spaces that it lies in.
    pub spaces: (u8, u8),
    /// Its address in the first; `None` where the chain has no such job.
    pub a: Option<GpuVa>,
    /// Its address in the second.
    pub b: Option<GpuVa>,
    /// Its bytes.
    pub bytes: u32,
    /// Offset of the byte in which the first field that differs begins.
    pub first_byte: u32,
    /// Fields that differ: name, what it means on each side, empty where a side has none.
    pub fields: Vec<(String, String, String)>,
}

impl DescriptorDiff {
    /// How many differ.
    #[must_use]
    pub fn count_differing(&self) -> u64 {
        self.changed + self.only_a + self.only_b
    }

    /// The same with the sides swapped.
    fn swapped(mut self) -> Self {
        std::mem::swap(&mut self.only_a, &mut self.only_b);
        for d in &mut self.list {
            d.job = d.job.swapped();
            d.spaces = (d.spaces.1, d.spaces.0);
            d.events = (d.events.1, d.events.0);
            std::mem::swap(&mut d.a, &mut d.b);
            for f in &mut d.fields {
                std::mem::swap(&mut f.1, &mut f.2);
            }
        }
        self
    }
}

/// A register whose histories differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterDiff {
    /// Its name, or its offset where the map has none.
    pub name: String,
    /// Byte offset.
    pub offset: u32,
    /// How many accesses of it differ, or are on one side alone.
    pub count: u64,
    /// The first of them, where the histories part: the event of the first recording, and of the second. `None` where
    /// that side has no such access.
    pub first: (Option<u64>, Option<u64>),
    /// Fields that differ in the first: name, then the decoded value on each side, empty where it has none. Where a
    /// side has no such access, or no field is known, the whole value.
    pub fields: Vec<(String, String, String)>,
}

impl RegisterDiff {
    /// The same with the sides swapped.
    fn swapped(mut self) -> Self {
        self.first = (self.first.1, self.first.0);
        for f in &mut self.fields {
            std::mem::swap(&mut f.1, &mut f.2);
        }
        self
    }
}

impl EventDiff {
    /// How many events differ.
    #[must_use]
    pub fn count_differing(&self) -> u64 {
        self.changed + self.inserted + self.deleted + self.moved
    }

    /// The same with the sides swapped.
    fn swapped(mut self) -> Self {
        std::mem::swap(&mut self.inserted, &mut self.deleted);
        self.folded = (self.folded.1, self.folded.0);
        self.foreign = (self.foreign.1, self.foreign.0);
        self.not_played = (self.not_played.1, self.not_played.0);
        for kind in &mut self.one_sided {
            std::mem::swap(&mut kind.a, &mut kind.b);
        }
        for j in &mut self.cut_short {
            *j = j.swapped();
        }
        for d in &mut self.list {
            d.job = d.job.swapped();
            // What was moved is told once for both sides.
            if d.what != ChangeKind::MovedFrom {
                d.what = d.what.swapped();
            }
            std::mem::swap(&mut d.a, &mut d.b);
            std::mem::swap(&mut d.value_a, &mut d.value_b);
        }
        self
    }
}

/// What the page tables of both map at the end, address space by address space, as far as they can be followed. Counts
/// are of 4 KiB pages. Where a page lies in physical memory is no difference: a replay has other memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappingDiff {
    /// Pages that both map alike.
    pub same: u64,
    /// Pages that both map, with other rights or attributes.
    pub changed: u64,
    /// Pages that only the first maps.
    pub only_a: u64,
    /// Pages that only the second maps.
    pub only_b: u64,
    /// Pages that both map alike, with the same contents, at different addresses.
    #[serde(default)]
    pub moved: u64,
    /// The first runs of pages that differ, at most [`MAX_LISTED_DIFFERENCES`], by address space and address.
    pub list: Vec<MappingDifference>,
}

/// How a page is mapped, apart from where to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedAs {
    /// What the GPU may do there.
    pub rights: Rights,
    /// Index into the memory attributes of the address space, 0 to 7.
    pub attr_index: u8,
    /// All bits of the entry but its address and type, see [`crate::mmu::entry_bits`]; 0 where the tables of the two
    /// recordings have different formats.
    pub bits: u64,
}

/// A run of pages that is mapped otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappingDifference {
    /// Number of the address space.
    pub address_space: u8,
    /// First address.
    pub va: GpuVa,
    /// Number of 4 KiB pages.
    pub pages: u64,
    /// How the first maps it; `None` where it does not.
    pub a: Option<MappedAs>,
    /// How the second maps it; `None` where it does not.
    pub b: Option<MappedAs>,
    /// Where the second has these pages, which the first has at `va`.
    #[serde(default)]
    pub moved_to: Option<GpuVa>,
}

impl MappingDifference {
    /// One past the last address.
    #[must_use]
    pub fn end(&self) -> GpuVa {
        GpuVa(self.va.0.saturating_add(self.pages.saturating_mul(PAGE_BYTES)))
    }
}

/// Memory at the end of both, by address space and GPU address where both have page tables and by frame where not.
/// Memory without contents starts as zero, so a page of zeros on one side alone is the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageDiff {
    /// Pages with the same contents.
    pub same: u64,
    /// Pages with different contents.
    pub changed: u64,
    /// Pages with contents in the first only.
    pub only_a: u64,
    /// Pages with contents in the second only.
    pub only_b: u64,
    /// Pages that differ only in what the rules leave out.
    #[serde(default)]
    pub ignored: u64,
    /// Bytes that differ, in all pages; without contents they are zero.
    #[serde(default)]
    pub bytes_differ: u64,
    /// Whether the addresses are physical, for want of page tables on both sides.
    pub physical: bool,
    /// Whether the first, and whether the second, does not hold its memory at the end: there are no page tables, and
    /// its last snapshot is older than what the CPU wrote. Pages are not compared then.
    #[serde(default)]
    pub not_held: (bool, bool),
    /// Addresses of the first pages that differ, at most [`MAX_LISTED_DIFFERENCES`].
    pub list: Vec<PageDifference>,
}

/// A page that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageDifference {
    /// Number of the address space; 0 where addresses are physical.
    pub address_space: u8,
    /// Address of the page.
    pub va: GpuVa,
    /// Whether the first has contents for it.
    pub in_a: bool,
    /// Whether the second has contents for it.
    pub in_b: bool,
    /// Offset of the first byte that differs, where both have contents.
    pub first_byte: Option<u32>,
}

/// A named buffer at the end of both, compared in the type of its elements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BufferDiff {
    /// Its name.
    pub name: String,
    /// Address and bytes in the first; `None` where it has no buffer of this name.
    pub a: Option<(GpuVa, u64)>,
    /// Address and bytes in the second.
    pub b: Option<(GpuVa, u64)>,
    /// Bytes that differ, of those that both have.
    pub bytes_differ: u64,
    /// Bytes that one of them does not have: of another size, not mapped, or without contents. They are not compared.
    pub unknown: u64,
    /// Its elements, bytes where the two recordings name different types; `None` where one has no such buffer.
    pub elements: Option<ElementDiff>,
    /// By how much elements may differ.
    pub tolerance: Option<Tolerance>,
}

impl BufferDiff {
    /// Whether its elements differ by more than is allowed, or one side has no such buffer or another size.
    #[must_use]
    pub fn differs(&self) -> bool {
        let bytes = |side: Option<(GpuVa, u64)>| side.map(|s| s.1);
        bytes(self.a) != bytes(self.b) || self.elements.as_ref().is_some_and(|e| e.differ > 0)
    }
}

impl Diff {
    /// Whether the recordings do not differ in anything that is compared. Where page tables and pages lie in physical
    /// memory is not, nor what every run has for itself.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let (e, m, p, h) = (&self.events, &self.mappings, &self.pages, &self.host_writes);
        e.count_differing() + p.changed + p.only_a + p.only_b == 0
            && h.changed + h.only_a + h.only_b == 0
            && m.changed + m.only_a + m.only_b + m.moved == 0
            && self.jobs.0 == self.jobs.1
            && !self.buffers.iter().any(BufferDiff::differs)
            && self.calls.count_differing() == 0
            && self.descriptors.count_differing() == 0
    }

    /// The same comparison with the sides swapped.
    #[must_use]
    pub fn swapped(mut self) -> Self {
        self.events = self.events.swapped();
        self.calls = self.calls.swapped();
        self.descriptors = self.descriptors.swapped();
        self.registers = self.registers.into_iter().map(RegisterDiff::swapped).collect();
        std::mem::swap(&mut self.pages.only_a, &mut self.pages.only_b);
        self.pages.not_held = (self.pages.not_held.1, self.pages.not_held.0);
        std::mem::swap(&mut self.mappings.only_a, &mut self.mappings.only_b);
        std::mem::swap(&mut self.jobs.0, &mut self.jobs.1);
        self.not_computed = self.not_computed.swapped();
        std::mem::swap(&mut self.host_writes.only_a, &mut self.host_writes.only_b);
        for h in &mut self.host_writes.list {
            h.job = h.job.swapped();
            std::mem::swap(&mut h.a, &mut h.b);
            std::mem::swap(&mut h.bytes_a, &mut h.bytes_b);
        }
        for m in &mut self.mappings.list {
            match &mut m.moved_to {
                // What was moved is told where the first has it.
                Some(there) => std::mem::swap(there, &mut m.va),
                None => std::mem::swap(&mut m.a, &mut m.b),
            }
        }
        if self.mappings.moved > 0 {
            self.mappings.list.sort_by_key(|m| (m.address_space, m.va));
        }
        for b in &mut self.buffers {
            std::mem::swap(&mut b.a, &mut b.b);
            b.elements = b.elements.take().map(ElementDiff::swapped);
        }
        for p in &mut self.pages.list {
            std::mem::swap(&mut p.in_a, &mut p.in_b);
        }
        self
    }
}

/// Compares two recordings.
#[must_use]
pub fn diff(a: &Recording, b: &Recording) -> Diff {
    // Nobody can cancel: the progress is this function's own.
    diff_with(a, b, &Rules::default(), &Progress::new()).unwrap_or_default()
}

/// Compares two recordings by rules, with progress by pairs of jobs, then by address spaces.
///
/// # Errors
/// When the work was cancelled.
pub fn diff_with(a: &Recording, b: &Recording, rules: &Rules, progress: &Progress) -> Result<Diff, Cancelled> {
    Ok(compare(a, b, rules, progress)?.0)
}

/// Compares two recordings by rules, and tells which event of one goes with which of the other.
///
/// # Errors
/// When the work was cancelled.
pub fn compare(
    a: &Recording,
    b: &Recording,
    rules: &Rules,
    progress: &Progress,
) -> Result<(Diff, EventAlignment), Cancelled> {
    let not_computed = NotComputed::from_recordings(a, b);
    let without_outputs = not_computed
        .is_any()
        .then(|| not_computed::without_outputs(rules, a, b));
    let rules = without_outputs.as_ref().unwrap_or(rules);
    let found = events::diff(a, b, rules, progress)?;
    let host_writes = host_writes::diff(a, b, &found.aligned.courses, rules, progress)?;
    let descriptors = descriptors::diff(a, b, &found.aligned.courses, rules, progress)?;
    let (mappings, moved) = mappings::diff(a, b, rules, progress)?;
    let pages = pages::diff(a, b, &moved, rules, progress)?;
    let buffers = buffers::diff(a, b, rules, progress)?;
    let diff = Diff {
        events: found.events,
        registers: found.registers,
        host_writes,
        descriptors,
        mappings,
        pages,
        buffers,
        calls: found.calls,
        jobs: found.jobs,
        not_computed,
    };
    Ok((diff, found.aligned))
}
