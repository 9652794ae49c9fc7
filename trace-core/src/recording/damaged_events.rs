//! The events of a recording that a damaged block of its file affects.

use super::{CallEvent, DamagedBlock, EventKind, Recording, SectionKind};
use crate::progress::{Cancelled, Progress};
use std::ops::Range;

impl Recording {
    /// Verifies every event, page image and attached byte against its digest, and returns the first damaged block.
    /// Verified data is not verified again; a recording built in memory has no digests.
    ///
    /// # Errors
    ///
    /// When the work was cancelled.
    pub fn find_damage(&self, progress: &Progress) -> Result<Option<DamagedBlock>, Cancelled> {
        self.events.check_all(progress)?;
        self.memory.pages.damaged(progress)?;
        Ok(self.damage.first())
    }

    /// Returns the events that a damaged block affects, first and one past the last, or `None` if it affects none.
    /// Scans all events if rows of another table are damaged.
    #[must_use]
    pub fn damaged_events(&self, block: &DamagedBlock) -> Option<Range<u64>> {
        use EventKind as E;
        use SectionKind as K;
        let kinds: &[E] = match block.kind {
            K::EventKind | K::EventSpace | K::EventTime | K::EventThread | K::EventPayload => {
                let end = block.rows.end.min(self.events.len() as u64);
                return (block.rows.start < end).then_some(block.rows.start..end);
            }
            K::AccessOffset | K::AccessWidth | K::AccessValue => &[E::Read, E::Write],
            K::Interrupts => &[E::Interrupt],
            K::Submits => &[E::Submit],
            K::HostWrites => &[E::HostWrite],
            K::Undecoded => &[E::Undecoded],
            K::DmaMaps => &[E::DmaMap],
            K::Launches => &[E::Launch],
            K::Copies => &[E::Copy],
            K::Fills => &[E::Fill],
            K::Orders => &[E::Order],
            K::Allocations => &[E::Allocation],
            K::Calls => &[E::Call],
            K::Objects => &[E::Object],
            K::RingEntries => &[E::RingEntry],
            K::SavedMemory => &[E::SavedMemory],
            K::Marks => &[E::Mark],
            K::CallBytes => {
                let names = |event| {
                    self.events
                        .call(event)
                        .is_some_and(|call| call.names_bytes(&block.rows))
                };
                return self.find_event_range(names);
            }
            K::CallPages => {
                let rows = |event| self.events.stored_content(event)?.rows();
                let names = |r: Range<u64>| r.start < block.rows.end && r.end > block.rows.start;
                return self.find_event_range(|event| rows(event).is_some_and(names));
            }
            K::PageDigests | K::PageImages | K::Facts | K::Snapshots | K::Metadata | K::Extra | K::Derived => {
                return None;
            }
        };
        let events = &self.events;
        let mut found: Option<Range<u64>> = None;
        let rows = events.kind.iter().zip(events.payload.iter()).enumerate();
        for (event, (kind, row)) in rows {
            if block.rows.contains(&u64::from(row)) && E::from_raw(kind).is_some_and(|k| kinds.contains(&k)) {
                let end = event as u64 + 1;
                found = Some(found.map_or(event as u64, |f| f.start)..end);
            }
        }
        found
    }

    /// Returns the first, and one past the last, of the events for which `holds` returns true.
    fn find_event_range(&self, holds: impl Fn(usize) -> bool) -> Option<Range<u64>> {
        let mut found: Option<Range<u64>> = None;
        for event in 0..self.events.len() {
            if holds(event) {
                found = Some(found.map_or(event as u64, |f| f.start)..event as u64 + 1);
            }
        }
        found
    }
}

impl CallEvent {
    fn names_bytes(&self, rows: &Range<u64>) -> bool {
        let (at, bytes) = match self {
            Self::Launch(l) => (l.arguments_at, l.arguments),
            Self::Call(c) => (c.arguments_at, c.arguments),
            _ => return false,
        };
        at < rows.end && at.saturating_add(u64::from(bytes)) > rows.start
    }
}
