//! NVIDIA GPUs, from driver traces: a job is a ring entry of a channel, with the methods and launches of its commands.

mod completions;
mod engines;
mod faults;
mod requests;
mod submissions;
#[cfg(test)]
mod tests;

use super::family::{EventRelation, Family, JobForm};
use super::submit_tracker::SubmitTracker;
use super::work::{JobSpan, JobTracker, Mark, MarkKind, ScannedEvents, TrackedWork};
use crate::GpuVa;
use crate::driver_trace::{ChannelEngine, ChannelKind, DriverFault, DriverTrace, SubmissionDecoder};
use crate::progress::{Cancelled, Progress};
use crate::recording::{EventKind, Events, MmuFormat, Recording};
use crate::registers::RegisterMap;
use nvidia_channel::gpfifo::GpfifoEntry;
use std::collections::HashMap;
use std::ops::Range;

/// The family.
pub(super) struct Nvidia;

impl Family for Nvidia {
    fn name(&self) -> &'static str {
        "nvidia"
    }

    fn title(&self) -> &'static str {
        "NVIDIA GPU"
    }

    fn has_recording(&self, recording: &Recording, _map: Option<&RegisterMap>) -> bool {
        recording.driver_trace().is_some()
    }

    fn page_table_formats(&self) -> &'static [MmuFormat] {
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

    fn class_name(&self, class: u32) -> Option<&'static str> {
        nvidia_channel::rm::class_name(class)
    }

    fn ring_entry_fields(&self, entry: u64) -> Vec<(&'static str, String)> {
        describe_ring_entry(entry)
    }

    fn submission_decoder<'a>(
        &self,
        recording: &'a Recording,
        trace: &'a DriverTrace,
    ) -> Option<Box<dyn SubmissionDecoder + 'a>> {
        Some(Box::new(submissions::Decoder::new(recording, trace)))
    }

    fn channel_engines(&self, recording: &Recording) -> HashMap<(u32, u32), ChannelEngine> {
        engines::find_engines(recording)
    }

    fn channel_kinds(&self, recording: &Recording) -> HashMap<(u32, u32), (ChannelKind, Option<ChannelEngine>)> {
        engines::find_kinds(recording)
    }

    fn channel_numbers(&self, recording: &Recording, trace: &DriverTrace) -> HashMap<usize, u32> {
        faults::find_channel_numbers(recording, trace)
    }

    fn find_driver_faults(&self, recording: &Recording, trace: &DriverTrace) -> Vec<DriverFault> {
        faults::find_faults(recording, trace)
    }

    fn find_driver_ranges(&self, recording: &Recording) -> Vec<Range<GpuVa>> {
        requests::find_unified_ranges(recording)
    }

    fn find_scheduler_pages(&self, recording: &Recording) -> Vec<GpuVa> {
        requests::find_scheduler_pages(recording)
    }

    fn end_jobs(&self, recording: &Recording, jobs: &mut [JobSpan], progress: &Progress) -> Result<(), Cancelled> {
        completions::end_jobs(recording, jobs, progress)
    }
}

/// Returns the fields of a ring entry by name. Flags that are not set have no field.
fn describe_ring_entry(entry: u64) -> Vec<(&'static str, String)> {
    let segment = match GpfifoEntry::decode(entry) {
        GpfifoEntry::Segment(segment) => segment,
        GpfifoEntry::Control(c) => {
            return vec![
                ("operation", format!("{:?}", c.operation)),
                ("operand", format!("{:#x}", c.operand)),
            ];
        }
    };
    let mut fields = vec![
        ("address", format!("{:#x}", segment.address.0)),
        ("words", segment.words.to_string()),
    ];
    let flags = [
        (segment.conditional, "fetch", "only if its condition is true"),
        (segment.privileged, "rights", "of the kernel"),
        (segment.subroutine, "level", "subroutine"),
        (segment.wait, "wait", "until the earlier segments are processed"),
    ];
    fields.extend(flags.iter().filter(|f| f.0).map(|f| (f.1, f.2.to_owned())));
    fields
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

    // Completions are semaphores in memory; `end_jobs` finds those that the recording shows.
    fn finish(self: Box<Self>) -> TrackedWork {
        self.submits.into_work()
    }
}
