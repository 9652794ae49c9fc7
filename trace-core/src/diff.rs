//! Comparison of two recordings: events by job, registers by field, CPU writes by byte, mappings by run, pages by
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

use crate::json_forms;
use crate::mmu::{PAGE_BYTES, Rights};
use crate::progress::{Cancelled, Progress};
use crate::recording::{EventKind, GpuVa, Recording};
use serde::{Serialize, Serializer};

/// Maximum number of differences that are listed; all are counted.
pub const MAX_LISTED_DIFFERENCES: usize = 1000;

/// The differences between two recordings.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Diff {
    /// Events.
    pub events: EventDiff,
    /// Registers whose values differ at least once, by name.
    pub registers: Vec<RegisterDiff>,
    /// CPU writes between other events.
    pub host_writes: HostWriteDiff,
    /// Job descriptors.
    pub descriptors: DescriptorDiff,
    /// Page table mappings at the end.
    pub mappings: MappingDiff,
    /// Memory at the end.
    pub pages: PageDiff,
    /// Named buffers at the end, by name.
    pub buffers: Vec<BufferDiff>,
    /// Matching driver calls.
    pub calls: CallDiff,
    /// Number of jobs on each side.
    pub jobs: (u64, u64),
    /// Jobs that were not computed. If there are any, outputs are not compared.
    pub not_computed: NotComputed,
}

/// Events of two recordings, aligned job by job: accesses, interrupts, submits, undecoded accesses, DMA maps. Marks
/// are notes and not compared; CPU writes are compared by byte, see [`HostWriteDiff`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EventDiff {
    /// Number of events that are the same on both sides.
    pub equal: u64,
    /// Number of accesses that both sides have with different values.
    pub changed: u64,
    /// Number of events that only the second recording has.
    pub inserted: u64,
    /// Number of events that only the first recording has.
    pub deleted: u64,
    /// Number of events in blocks that both sides have at different positions.
    pub moved: u64,
    /// Number of writes whose values differ only by relocation: page-table roots of matching address spaces, or
    /// addresses in matching ranges. They count as neither equal nor changed.
    pub relocated: u64,
    /// Number of accesses whose values differ between any two runs, by the register map's replay class: free-running
    /// counters, masked bits, flush ids, and reads of state from before the recording. They count as neither equal
    /// nor changed.
    pub uncompared: u64,
    /// Number of repeated status reads, in the first and in the second recording, that are represented by the last
    /// read of the wait. Only that read is aligned and counted.
    pub folded: (u64, u64),
    /// Pairs of jobs, of which each side may lack one, with so many differences that the search for the shortest
    /// alignment was cut short. There may be an alignment with fewer differences.
    pub cut_short: Vec<JobPair>,
    /// Kinds of events of which one side has none at all. They are not compared: not every recorder records them, and
    /// a replay makes none of them.
    pub one_sided: Vec<OneSided>,
    /// Number of accesses to foreign spaces, in the first and in the second recording. A foreign space is not the
    /// device's (system memory, configuration space), and the other side does not have it. The accesses are not
    /// compared: a replay omits them.
    pub foreign: (u64, u64),
    /// Number of calls, in the first and in the second recording, that no replay makes: failed calls, calls without
    /// an effect, and snapshots that were not taken again. They are not compared if one side is a replay.
    pub not_played: (u64, u64),
    /// The first differences, at most [`MAX_LISTED_DIFFERENCES`], in event order.
    pub list: Vec<EventDifference>,
}

/// A kind of events of which one side has none at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OneSided {
    /// The kind.
    #[serde(serialize_with = "serialize_kind")]
    pub kind: EventKind,
    /// Number of events in the first recording.
    pub a: u64,
    /// Number of events in the second recording.
    pub b: u64,
}

/// A pair of compared jobs, each as the number of submits up to it. 0 is everything before the first job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct JobPair {
    /// The job in the first recording; `None` if only the second has it.
    pub a: Option<u32>,
    /// The job in the second recording; `None` if only the first has it.
    pub b: Option<u32>,
}

impl JobPair {
    fn swapped(self) -> Self {
        Self { a: self.b, b: self.a }
    }
}

/// A difference between the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EventDifference {
    /// The jobs in whose interval the events are.
    pub job: JobPair,
    /// The kind of the change; moved events are reported at their position in the first recording.
    pub what: ChangeKind,
    /// The first event in the first recording, `None` if only the second has it.
    pub a: Option<u64>,
    /// The first event in the second recording, `None` if only the first has it.
    pub b: Option<u64>,
    /// Number of consecutive events: more than one if one side has them alone, or elsewhere.
    pub events: u64,
    /// The kind of the first event.
    pub kind: EventKind,
    /// Byte offset of an access in its space; the line of an interrupt; the slot of a submit.
    pub offset: u32,
    /// Value in the first recording; the status of an interrupt; the chain head of a submit.
    pub value_a: Option<u64>,
    /// Value in the second recording.
    pub value_b: Option<u64>,
}

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
    /// The first differing ranges, at most 1000 ([`MAX_LISTED_DIFFERENCES`]), in the order of the jobs, then by address. No
    /// range crosses a page.
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

fn serialize_kind<S: Serializer>(kind: &EventKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind_name(*kind))
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

/// Job descriptors, compared field by field: the descriptors of the chains of matching jobs, each as its submit found
/// it. Jobs that run the same chains again, with the same snapshots, are compared once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DescriptorDiff {
    /// Number of descriptors that are the same on both sides.
    pub same: u64,
    /// Number of descriptors with a field that differs.
    pub changed: u64,
    /// Number of jobs of chains that only the first recording has.
    pub only_a: u64,
    /// Number of jobs of chains that only the second recording has.
    pub only_b: u64,
    /// Number of address fields that differ only by relocation. They count as no difference.
    pub relocated: u64,
    /// Number of descriptors and jobs that a side does not hold, or that rules exclude.
    pub unknown: u64,
    /// Number of descriptors whose status fields, which the device writes, differ. They count as no difference.
    pub status: u64,
    /// Names of those status fields.
    pub status_fields: Vec<String>,
    /// The first descriptors that differ, at most [`MAX_LISTED_DIFFERENCES`], in the order of the jobs.
    pub list: Vec<DescriptorDifference>,
}

/// A descriptor that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DescriptorDifference {
    /// The jobs whose chain it belongs to.
    pub job: JobPair,
    /// The submits of these jobs, at which it was read: the event of the first recording, and of the second.
    pub events: (u64, u64),
    /// Index of its job in the chain, from 0.
    pub in_chain: u32,
    /// The name of its layout in the register map, for example `draw`.
    pub layout: String,
    /// Numbers of the address spaces that contain it.
    pub spaces: (u8, u8),
    /// Its address in the first recording; `None` if the chain has no such job.
    pub a: Option<GpuVa>,
    /// Its address in the second recording; `None` if the chain has no such job.
    pub b: Option<GpuVa>,
    /// Its size, bytes.
    pub bytes: u32,
    /// Offset of the byte in which the first differing field starts.
    pub first_byte: u32,
    /// Fields that differ: name, and decoded value on each side, empty if a side has none.
    pub fields: Vec<(String, String, String)>,
}

impl DescriptorDiff {
    /// Returns the number of differences.
    #[must_use]
    pub fn count_differing(&self) -> u64 {
        self.changed + self.only_a + self.only_b
    }

    /// Returns the same with the sides swapped.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegisterDiff {
    /// Name of the register, or its offset if the map has no name.
    pub name: String,
    /// Byte offset.
    pub offset: u32,
    /// Number of its accesses that differ, or that only one side has.
    pub count: u64,
    /// The first of them, where the histories diverge: the event of the first recording, and of the second. `None` if
    /// that side has no such access.
    pub first: (Option<u64>, Option<u64>),
    /// Fields that differ in the first such access: name, then the decoded value on each side, empty if it has none.
    /// Contains the whole value if a side has no such access, or no field is known.
    pub fields: Vec<(String, String, String)>,
}

impl RegisterDiff {
    /// Returns the same with the sides swapped.
    fn swapped(mut self) -> Self {
        self.first = (self.first.1, self.first.0);
        for f in &mut self.fields {
            std::mem::swap(&mut f.1, &mut f.2);
        }
        self
    }
}

impl EventDiff {
    /// Returns the number of events that differ.
    #[must_use]
    pub fn count_differing(&self) -> u64 {
        self.changed + self.inserted + self.deleted + self.moved
    }

    /// Returns the same with the sides swapped.
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
            // Moved events are reported once for both sides.
            if d.what != ChangeKind::MovedFrom {
                d.what = d.what.swapped();
            }
            std::mem::swap(&mut d.a, &mut d.b);
            std::mem::swap(&mut d.value_a, &mut d.value_b);
        }
        self
    }
}

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
    /// All bits of the entry except its address and type, see [`crate::mmu::entry_bits`]; 0 if the tables of the two
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
        GpuVa(self.va.0.saturating_add(self.pages.saturating_mul(PAGE_BYTES)))
    }
}

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

/// A named buffer of both sides at the end, compared by the type of its elements.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BufferDiff {
    /// Its name.
    pub name: String,
    /// Address and size in bytes in the first recording; `None` if it has no buffer of this name.
    pub a: Option<(GpuVa, u64)>,
    /// Address and size in bytes in the second recording; `None` if it has no buffer of this name.
    pub b: Option<(GpuVa, u64)>,
    /// Number of bytes that differ, of those that both sides have.
    pub bytes_differ: u64,
    /// Number of bytes that one side does not have: different size, not mapped, or without contents. They are not
    /// compared.
    pub unknown: u64,
    /// The comparison of its elements, or of bytes if the two recordings name different types; `None` if one side has
    /// no such buffer.
    pub elements: Option<ElementDiff>,
    /// The tolerance for its elements.
    pub tolerance: Option<Tolerance>,
}

impl BufferDiff {
    /// Returns whether its elements differ beyond the tolerance, or one side has no such buffer or another size.
    #[must_use]
    pub fn differs(&self) -> bool {
        let bytes = |side: Option<(GpuVa, u64)>| side.map(|s| s.1);
        bytes(self.a) != bytes(self.b) || self.elements.as_ref().is_some_and(|e| e.differ > 0)
    }
}

impl Diff {
    /// Returns whether nothing that is compared differs. Not compared are physical locations of page tables and
    /// pages, and values that differ between any two runs.
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

    /// Returns the same comparison with the sides swapped.
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
                // A moved run is reported at its address in the first recording.
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
    // This cannot be cancelled: the progress belongs to this function.
    diff_with(a, b, &Rules::default(), &Progress::new()).unwrap_or_default()
}

/// Compares two recordings by rules. Progress counts pairs of jobs, then address spaces.
///
/// # Errors
/// If the work was cancelled.
pub fn diff_with(a: &Recording, b: &Recording, rules: &Rules, progress: &Progress) -> Result<Diff, Cancelled> {
    Ok(compare(a, b, rules, progress)?.0)
}

/// Compares two recordings by rules, and returns the alignment of their events.
///
/// # Errors
/// If the work was cancelled.
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
