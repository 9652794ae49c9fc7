//! Jobs that are command streams, whose register writes follow their submit as events.

use super::family::EventRelation;
use super::submit_tracker::SubmitTracker;
use super::work::{JobSpan, JobTracker, Mark, TrackedWork};
use crate::recording::{EventKind, Events, Recording};

/// Finds the jobs, and ends each at its last recorded command.
pub(super) struct StreamTracker<'a> {
    submits: SubmitTracker,
    events: &'a Events,
}

impl<'a> StreamTracker<'a> {
    /// Creates a tracker of the jobs among events.
    pub(super) fn new(events: &'a Events) -> Self {
        Self {
            submits: SubmitTracker::default(),
            events,
        }
    }
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

/// Ends each job at the last write before the next submit: its commands' writes follow the submit. Reads are those of
/// a driver that looks at a GPU. The recording does not show when the GPU was done.
fn end_jobs(events: &Events, jobs: &mut [JobSpan]) {
    let mut next = events.len() as u64;
    for job in jobs.iter_mut().rev() {
        let is_write = |e: &u64| usize::try_from(*e).is_ok_and(|e| events.kind(e) == Some(EventKind::Write));
        let last = (job.submit_event + 1..next).rev().find(is_write);
        job.done_event = Some(last.unwrap_or(job.submit_event));
        next = job.submit_event;
    }
}

/// Returns the relation of each event to jobs: the writes of a command stream are the job.
pub(super) fn relate_stream_events(recording: &Recording) -> Vec<EventRelation> {
    let relate = |event| match recording.events.kind(event) {
        Some(EventKind::Submit | EventKind::Write) => EventRelation::OfJob,
        _ => EventRelation::Unrelated,
    };
    (0..recording.events.len()).map(relate).collect()
}
