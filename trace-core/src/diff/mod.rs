//! Two recordings compared: events by job, registers by field, what the CPU wrote by byte, mappings by run, pages by
//! digest.
//!
//! The comparison is symmetric: `diff(b, a)` is `diff(a, b)` with the sides swapped.

mod align;
mod events;
mod host_writes;
mod mappings;
mod others;
mod pages;
mod spaces;
#[cfg(test)]
mod tests;

pub(crate) use align::{Step, align};

use crate::mmu::{PAGE_BYTES, Rights};
use crate::progress::{Cancelled, Progress};
use crate::recording::{Access, GpuVa, Recording};
use serde::{Deserialize, Serialize};

/// Most differences that are listed; all are counted.
pub const MOST: usize = 1000;

/// Where two recordings differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diff {
    /// Accesses.
    pub events: EventDiff,
    /// Registers whose values differ at least once, by name.
    pub registers: Vec<RegisterDiff>,
    /// Accesses of which the recorder saw the place and not the value.
    #[serde(default)]
    pub undecoded: OtherDiff,
    /// Memory that was given to the device, wherever it lies.
    #[serde(default)]
    pub dma_maps: OtherDiff,
    /// What the CPU wrote between other events.
    #[serde(default)]
    pub host_writes: HostWriteDiff,
    /// What the page tables map at the end.
    pub mappings: MappingDiff,
    /// Memory at the end.
    pub pages: PageDiff,
    /// Number of jobs on each side.
    pub jobs: (u64, u64),
}

/// Accesses of two recordings, aligned job by job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventDiff {
    /// Accesses that are the same on both sides.
    pub same: u64,
    /// Accesses of the same register in the same direction with different values.
    pub changed: u64,
    /// Accesses that only the first has.
    pub only_a: u64,
    /// Accesses that only the second has.
    pub only_b: u64,
    /// Writes that give each side's own page tables to the same address space: they differ by where the tables lie
    /// and by nothing else, and count as neither the same nor changed.
    pub relocated: u64,
    /// Accesses whose values every run has for itself, by the register map's replay class: counters that run free, the
    /// bits that a mask leaves out, and flush ids. They count as neither the same nor changed.
    pub uncompared: u64,
    /// Reads of a status that was read again and again, in the first and in the second, for which the last one of the
    /// wait stands. Only that one is aligned and counted.
    pub folded: (u64, u64),
    /// Pairs of jobs, of which each side may miss one, whose accesses differ by so much that the search for the
    /// shortest alignment was cut short: there may be an alignment with fewer differences.
    pub cut_short: Vec<JobPair>,
    /// The first differences, at most [`MOST`], in the order of the events.
    pub list: Vec<EventDifference>,
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

/// A place where the accesses differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventDifference {
    /// Jobs in whose course it is.
    pub job: JobPair,
    /// The event of the first recording, `None` where only the second has one.
    pub a: Option<u64>,
    /// The event of the second recording, `None` where only the first has one.
    pub b: Option<u64>,
    /// What it accesses.
    pub offset: u32,
    /// Whether it writes.
    pub write: bool,
    /// Value in the first.
    pub value_a: Option<u64>,
    /// Value in the second.
    pub value_b: Option<u64>,
}

/// Events of another kind than accesses, aligned from the first to the last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherDiff {
    /// Events that are the same on both sides.
    pub same: u64,
    /// Events that only the first has.
    pub only_a: u64,
    /// Events that only the second has.
    pub only_b: u64,
    /// Events of the first and of the second where the other has none at all: then they are not compared, for not every
    /// recorder sees them, and a replay does none of them.
    pub uncompared: (u64, u64),
    /// Whether they differ by so much that the search for the shortest alignment was cut short.
    pub cut_short: bool,
    /// The first differences, at most [`MOST`], by their events.
    pub list: Vec<OtherDifference>,
}

/// An event that only one side has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherDifference {
    /// The event of the first recording.
    pub a: Option<u64>,
    /// The event of the second recording.
    pub b: Option<u64>,
    /// What it is, in words.
    pub what: String,
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
    /// The first ranges that differ, at most [`MOST`], in the order of the jobs, then by address. None crosses a page.
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

/// A register whose values differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterDiff {
    /// Its name, or its offset where the map has none.
    pub name: String,
    /// Byte offset.
    pub offset: u32,
    /// How many aligned accesses of it differ.
    pub count: u64,
    /// The first of them, as events of both sides.
    pub first: (u64, u64),
    /// Fields that differ in the first: name, then the decoded value on each side.
    pub fields: Vec<(String, String, String)>,
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
    /// The first runs of pages that differ, at most [`MOST`], by address space and address.
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
    /// Whether the addresses are physical, for want of page tables on both sides.
    pub physical: bool,
    /// Addresses of the first pages that differ, at most [`MOST`].
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

impl Diff {
    /// Whether the recordings do not differ in anything that is compared. Where page tables and pages lie in physical
    /// memory is not, nor what every run has for itself.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let (e, m, p, h) = (&self.events, &self.mappings, &self.pages, &self.host_writes);
        e.changed + e.only_a + e.only_b + p.changed + p.only_a + p.only_b == 0
            && h.changed + h.only_a + h.only_b == 0
            && m.changed + m.only_a + m.only_b == 0
            && [&self.undecoded, &self.dma_maps]
                .iter()
                .all(|o| o.only_a + o.only_b == 0)
            && self.jobs.0 == self.jobs.1
    }

    /// The same comparison with the sides swapped.
    #[must_use]
    pub fn swapped(mut self) -> Self {
        std::mem::swap(&mut self.events.only_a, &mut self.events.only_b);
        std::mem::swap(&mut self.pages.only_a, &mut self.pages.only_b);
        std::mem::swap(&mut self.mappings.only_a, &mut self.mappings.only_b);
        std::mem::swap(&mut self.jobs.0, &mut self.jobs.1);
        std::mem::swap(&mut self.events.folded.0, &mut self.events.folded.1);
        for j in &mut self.events.cut_short {
            *j = j.swapped();
        }
        for d in &mut self.events.list {
            d.job = d.job.swapped();
            std::mem::swap(&mut d.a, &mut d.b);
            std::mem::swap(&mut d.value_a, &mut d.value_b);
        }
        for r in &mut self.registers {
            r.first = (r.first.1, r.first.0);
            for f in &mut r.fields {
                std::mem::swap(&mut f.1, &mut f.2);
            }
        }
        for other in [&mut self.undecoded, &mut self.dma_maps] {
            std::mem::swap(&mut other.only_a, &mut other.only_b);
            other.uncompared = (other.uncompared.1, other.uncompared.0);
            for d in &mut other.list {
                std::mem::swap(&mut d.a, &mut d.b);
            }
        }
        std::mem::swap(&mut self.host_writes.only_a, &mut self.host_writes.only_b);
        for h in &mut self.host_writes.list {
            h.job = h.job.swapped();
            std::mem::swap(&mut h.a, &mut h.b);
            std::mem::swap(&mut h.bytes_a, &mut h.bytes_b);
        }
        for m in &mut self.mappings.list {
            std::mem::swap(&mut m.a, &mut m.b);
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
    diff_with(a, b, &Progress::new()).unwrap_or_default()
}

/// Compares two recordings, with progress by pairs of jobs, then by address spaces.
///
/// # Errors
/// When the work was cancelled.
pub fn diff_with(a: &Recording, b: &Recording, progress: &Progress) -> Result<Diff, Cancelled> {
    let (events, registers, jobs, courses) = events::diff(a, b, progress)?;
    let undecoded = others::undecoded(a, b, progress)?;
    let dma_maps = others::dma_maps(a, b, progress)?;
    let host_writes = host_writes::diff(a, b, &courses, progress)?;
    let mappings = mappings::diff(a, b, progress)?;
    let pages = pages::diff(a, b, progress)?;
    Ok(Diff {
        events,
        registers,
        undecoded,
        dma_maps,
        host_writes,
        mappings,
        pages,
        jobs,
    })
}

/// An access without its value: what is aligned.
fn key(a: &Access) -> (u8, bool, u32, u8) {
    (a.space, a.write, a.offset, a.width)
}
