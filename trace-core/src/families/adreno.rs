//! Adreno GPUs, from recordings of their command streams. They can be viewed, not replayed: a job is a submit, whose
//! register writes follow it as events.

use super::family::{EventRelation, Family, JobForm};
use super::submit_tracker::SubmitTracker;
use super::work::{JobSpan, JobTracker, Mark, ScannedEvents, TrackedWork};
use crate::recording::{EventKind, Events, Identity, Recording};
use crate::registers::RegisterMap;

/// The family.
pub(super) struct Adreno;

impl Family for Adreno {
    fn name(&self) -> &'static str {
        "adreno"
    }

    fn title(&self) -> &'static str {
        "Qualcomm Adreno"
    }

    fn drivers(&self) -> &'static [&'static str] {
        &["msm"]
    }

    fn queue_job_type(&self, _queue: &str) -> &'static str {
        "command stream"
    }

    fn has_recording(&self, recording: &Recording, _map: Option<&RegisterMap>) -> bool {
        recording.metadata.identity.source == Identity::COMMAND_STREAMS
    }

    fn job_form(&self) -> JobForm {
        JobForm::CommandStreams
    }

    fn track_jobs<'a>(&self, scanned: ScannedEvents<'a>) -> Box<dyn JobTracker + 'a> {
        Box::new(StreamTracker {
            submits: SubmitTracker::default(),
            events: scanned.events,
        })
    }

    fn relate_events(&self, recording: &Recording, _map: &RegisterMap) -> Vec<EventRelation> {
        let relate = |event| match recording.events.kind(event) {
            // The writes of a command stream are the job.
            Some(EventKind::Submit | EventKind::Write) => EventRelation::OfJob,
            _ => EventRelation::Unrelated,
        };
        (0..recording.events.len()).map(relate).collect()
    }

    fn explain_missing_map(&self, recording: &Recording, file: &str) -> Option<String> {
        let identity = &recording.metadata.identity;
        let id = identity.gpu_id;
        let generation = match id >> 24 {
            0x43 => 7,
            0x44 => 8,
            n => n,
        };
        if !(2..10).contains(&generation) {
            return Some(format!(
                "no register map fits: the recording does not name its GPU. Import the .rd file again if an earlier \
                 version imported it. If you know the generation: `kinescope regmaps import a6xx.xml --variant A6XX \
                 --block A6XX --next-to {file}`, with the file from Mesa's src/freedreno/registers/adreno"
            ));
        }
        // One file describes all generations from the sixth on.
        let source = generation.min(6);
        let name = &identity.gpu_name;
        Some(format!(
            "no register map knows {name} (chip id {id:#010x}), so no register has a name. Import one from a \
             version of Mesa that describes it, in src/freedreno/registers/adreno: `kinescope regmaps import \
             a{source}xx.xml --variant A{generation}XX --block A{source}XX --next-to {file}`"
        ))
    }
}

/// Finds the jobs, and ends each at its last recorded command.
struct StreamTracker<'a> {
    submits: SubmitTracker,
    events: &'a Events,
}

impl JobTracker for StreamTracker<'_> {
    fn take(&mut self, mark: &Mark) {
        self.submits.take(mark);
    }

    // Command streams do not show what their driver did between them, so there are no phases.
    fn finish(self: Box<Self>) -> TrackedWork {
        let mut work = self.submits.into_work();
        end_jobs(self.events, &mut work.jobs);
        work
    }
}

/// Ends each job at the last access before the next submit: its commands' writes follow the submit. The recording does
/// not show when the GPU was done.
fn end_jobs(events: &Events, jobs: &mut [JobSpan]) {
    let mut next = events.len() as u64;
    for job in jobs.iter_mut().rev() {
        let is_access = |e: &u64| usize::try_from(*e).is_ok_and(|e| events.access(e).is_some());
        let last = (job.submit_event + 1..next).rev().find(is_access);
        job.done_event = Some(last.unwrap_or(job.submit_event));
        next = job.submit_event;
    }
}
