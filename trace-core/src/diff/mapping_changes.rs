//! Since when a page is mapped otherwise: the course of a job behind which it differs first and stays so, and the CPU's
//! stores of its table entries in it.

use super::MappedAs;
use super::causes::{Link, Step};
use super::event_alignment::JobInterval;
use crate::mmu;
use crate::progress::{Cancelled, Progress};
use crate::recording::{AddressSpace, GpuVa, Recording};
use std::ops::Range;

/// Maximum number of events of a course that are gone through in search of a store.
const MAX_EVENTS_BACK: u64 = 1 << 20;

/// A page of one side.
#[derive(Clone, Copy)]
pub(super) struct MappingQuery<'r> {
    pub recording: &'r Recording,
    pub space: &'r AddressSpace,
    pub va: GpuVa,
}

impl MappingQuery<'_> {
    /// How it is mapped at an event; `None`: it is not.
    fn mapped(&self, event: u64) -> Option<MappedAs> {
        let view = self.recording.memory.at(event);
        let leaf = mmu::translate(self.space.format, self.space.root, self.va, &view).ok()?;
        Some(MappedAs {
            rights: leaf.rights,
            attr_index: leaf.attr_index,
            bits: mmu::entry_bits(leaf.raw),
        })
    }

    /// The last store of the CPU to an entry of its walk among these events.
    fn stored(&self, events: &Range<u64>, progress: &Progress) -> Result<Option<u64>, Cancelled> {
        let all = &self.recording.events;
        if all.host_writes.is_empty() {
            return Ok(None);
        }
        let end = events.end.min(all.len() as u64);
        let view = self.recording.memory.at(end);
        let walk = mmu::walk(self.space.format, self.space.root, self.va, &view);
        let entries: Vec<u64> = walk.steps.iter().map(|s| s.entry_at.0).collect();
        for event in (events.start.max(end.saturating_sub(MAX_EVENTS_BACK))..end).rev() {
            if event.is_multiple_of(1 << 16) {
                progress.check()?;
            }
            let row = usize::try_from(event).ok().and_then(|e| all.host_write(e));
            let hit = row.is_some_and(|w| {
                let to = w.at.saturating_add(u64::from(w.bytes));
                entries.iter().any(|e| *e < to && w.at < e.saturating_add(8))
            });
            if hit {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }
}

/// The step that made two places be mapped otherwise; `None`: they are so from the beginning on, or are alike.
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
