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
mod event_diff;
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

pub use align::{Alignment, Common, Step, align};
pub use buffers::BufferDiff;
pub use calls::{CallDiff, CallDifference, CallPart, CodeDifference, ContentDiff, TypeFrom};
pub use causes::{Cause, Effect, Link, Step as CauseStep, find_cause, find_causes, first_byte_effect, mapping_effect};
pub use descriptors::{DescriptorDiff, DescriptorDifference};
pub use elements::{Decade, ElementDiff, ElementPair, Errors, NumericValue, Tolerance, numeric_value};
pub use event_alignment::{Block, DiffSide, EventAlignment, JobInterval};
pub use event_diff::{ChangeKind, EventDiff, EventDifference, JobPair, MAX_LISTED_DIFFERENCES, OneSided, RegisterDiff};
pub use host_writes::{HostWriteDiff, HostWriteDifference, address_kind};
pub use images::{ImageDiff, ImageError, ImageRange, compare_images};
pub use mappings::{MappedAs, MappingDiff, MappingDifference};
pub use memory_comparison::{BytePair, MemoryComparison, byte_differs};
pub use not_computed::NotComputed;
pub use pages::{PageDiff, PageDifference};
pub use rules::{Pattern, Rule, RuleError, Rules, kind_name};
pub use summary::{Part, Summary, group_digits, summarize};

use crate::progress::{Cancelled, Progress};
use crate::recording::Recording;
use serde::Serialize;

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
