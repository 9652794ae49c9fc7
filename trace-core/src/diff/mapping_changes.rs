//! Search for the change of a page's mapping: the job after which it first differs and stays different, and the CPU's
//! stores to its table entries in that job's interval.

use super::MappedAs;
use super::causes::{Link, Step};
use super::event_alignment::JobInterval;
use crate::mmu::WalkFault;
use crate::progress::{Cancelled, Progress};
use crate::recording::{AddressSpace, Recording};
use crate::{GpuVa, PhysAddr, mmu};
use std::ops::Range;

/// Maximum number of events of a job interval that are searched for a store.
const MAX_EVENTS_BACK: u64 = 1 << 20;

/// A page on one side.
#[derive(Clone, Copy)]
pub(super) struct MappingQuery<'r> {
    pub recording: &'r Recording,
    pub space: &'r AddressSpace,
    pub va: GpuVa,
}

impl MappingQuery<'_> {
    /// Returns how the page is mapped at an event; `None` if it is not.
    fn mapped(&self, event: u64) -> Option<MappedAs> {
        let view = self.recording.memory.at(event);
        let leaf = match mmu::translate(self.space.format, self.space.root, self.va, &view) {
            Ok(leaf) | Err(WalkFault::PageElsewhere { leaf, .. }) => leaf,
            Err(_) => return None,
        };
        Some(MappedAs {
            rights: leaf.rights,
            attr_index: leaf.attr_index,
            bits: mmu::other_bits(self.space.format, &leaf),
        })
    }

    /// Returns the CPU's last store to an entry of the page's walk among these events.
    fn stored(&self, events: &Range<u64>, progress: &Progress) -> Result<Option<u64>, Cancelled> {
        let all = &self.recording.events;
        if all.host_writes.is_empty() {
            return Ok(None);
        }
        let end = events.end.min(all.len() as u64);
        let view = self.recording.memory.at(end);
        let walk = mmu::walk(self.space.format, self.space.root, self.va, &view);
        let entries: Vec<(u64, u64)> = walk
            .steps
            .iter()
            .map(|s| (s.entry_at.get(), u64::from(s.entry_bytes)))
            .collect();
        for event in (events.start.max(end.saturating_sub(MAX_EVENTS_BACK))..end).rev() {
            if event.is_multiple_of(1 << 16) {
                progress.check()?;
            }
            let row = usize::try_from(event).ok().and_then(|e| all.host_write(e));
            let hit = row.is_some_and(|w| {
                let to = w.at.saturating_add(u64::from(w.bytes));
                entries
                    .iter()
                    .any(|(e, bytes)| *e < to.get() && w.at < PhysAddr::new(e.saturating_add(*bytes)))
            });
            if hit {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }
}

/// Returns the step that changed the mapping at two locations; `None` if they differ from the start, or do not
/// differ.
pub(super) fn find_mapping_change(
    a: MappingQuery<'_>,
    b: MappingQuery<'_>,
    courses: &[JobInterval],
    progress: &Progress,
) -> Result<Option<Step>, Cancelled> {
    let alike_formats = a.space.format == b.space.format;
    let differs = |x: u64, y: u64| {
        let known = |m: Option<MappedAs>| {
            m.map(|m| MappedAs {
                bits: if alike_formats { m.bits } else { 0 },
                ..m
            })
        };
        known(a.mapped(x)) != known(b.mapped(y))
    };
    let mut found = None;
    for course in courses.iter().rev() {
        let (Some(x), Some(y)) = (course.a.as_ref(), course.b.as_ref()) else {
            continue;
        };
        progress.check()?;
        if !differs(x.end, y.end) {
            break;
        }
        found = Some((course, x, y));
    }
    let Some((course, x, y)) = found else { return Ok(None) };
    let step = |(a, b): (Option<u64>, Option<u64>), link| Step {
        a,
        b,
        link,
        buffer: None,
    };
    let stored = (a.stored(x, progress)?, b.stored(y, progress)?);
    if stored != (None, None) {
        return Ok(Some(step(stored, Link::Stored)));
    }
    let submits = course.submits();
    Ok((submits != (None, None)).then(|| step(submits, Link::Since)))
}
