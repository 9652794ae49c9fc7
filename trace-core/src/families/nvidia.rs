//! NVIDIA GPUs, from driver traces: a job is a ring entry of a channel, with the methods and launches of its commands.

mod submissions;
#[cfg(test)]
mod tests;

use super::family::{EventRelation, Family, JobForm};
use super::submit_tracker::SubmitTracker;
use super::work::{JobTracker, Mark, MarkKind, ScannedEvents, TrackedWork};
use crate::driver_trace::{DriverTrace, SubmissionDecoder};
use crate::mmu::PageTableFormat;
use crate::recording::{EventKind, Events, Recording, TraceKind};
use crate::registers::RegisterMap;
use std::collections::HashMap;

/// The family.
pub(super) struct Nvidia;

impl Family for Nvidia {
    fn name(&self) -> &'static str {
        "nvidia"
    }

    fn has_recording(&self, recording: &Recording, _map: Option<&RegisterMap>) -> bool {
        matches!(recording.metadata.kind, TraceKind::Driver(_))
    }

    fn page_table_formats(&self) -> &'static [&'static PageTableFormat] {
        // The kernel driver writes the page tables; recordings hold mappings.
        &[]
    }

    fn job_form(&self) -> JobForm {
        JobForm::RingEntries
    }

    fn job_type(&self, _slot: u8) -> &'static str {
        "push buffer"
    }

    fn track_jobs<'a>(&self, scanned: ScannedEvents<'a>) -> Box<dyn JobTracker + 'a> {
        Box::new(RingTracker {
            submits: SubmitTracker::default(),
            events: scanned.events,
            slots: HashMap::new(),
        })
    }

    fn relate_events(&self, recording: &Recording, _map: &RegisterMap) -> Vec<EventRelation> {
        let relate = |event| match recording.events.kind(event) {
            Some(EventKind::RingEntry | EventKind::SavedMemory | EventKind::Write) => EventRelation::OfJob,
            _ => EventRelation::Unrelated,
        };
        (0..recording.events.len()).map(relate).collect()
    }

    fn submission_decoder<'a>(
        &self,
        recording: &'a Recording,
        trace: &'a DriverTrace,
    ) -> Option<Box<dyn SubmissionDecoder + 'a>> {
        Some(Box::new(submissions::Decoder::new(recording, trace)))
    }
}

/// Finds one job for each ring entry. The slot of a job is the number of its channel, in the order of first use.
struct RingTracker<'a> {
    submits: SubmitTracker,
    events: &'a Events,
    slots: HashMap<(u32, u32), u8>,
}

impl JobTracker for RingTracker<'_> {
    fn take(&mut self, mark: &Mark) {
        let MarkKind::Submit { head, .. } = mark.kind else {
            return;
        };
        let entry = usize::try_from(mark.event).ok().and_then(|e| self.events.ring_entry(e));
        let next = u8::try_from(self.slots.len()).unwrap_or(u8::MAX);
        let slot = entry.map_or(next, |r| *self.slots.entry((r.client, r.channel)).or_insert(next));
        self.submits.submit(mark, slot, head);
    }

    // Completions are semaphores in memory, which the recording does not show.
    fn finish(self: Box<Self>) -> TrackedWork {
        self.submits.into_work()
    }
}
