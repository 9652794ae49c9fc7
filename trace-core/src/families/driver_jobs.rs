//! GPUs of any kernel driver, from its trace events: a job is a submit, and an interrupt event names the job that it
//! ends. They can be viewed, not replayed: the events do not hold the commands.

use super::family::{EventRelation, Family, JobForm};
use super::submit_tracker::SubmitTracker;
use super::work::{JobTracker, Mark, MarkKind, ScannedEvents, TrackedWork};
use crate::recording::{EventKind, Events, Identity, InterruptLine, Recording};
use crate::registers::RegisterMap;

/// The family.
pub(super) struct DriverJobs;

impl Family for DriverJobs {
    fn name(&self) -> &'static str {
        "driver-events"
    }

    fn has_recording(&self, recording: &Recording, _map: Option<&RegisterMap>) -> bool {
        let has_jobs = !recording.events.submits.is_empty() || !recording.events.interrupts.is_empty();
        has_jobs && recording.metadata.identity.source == Identity::DRIVER_EVENTS
    }

    fn job_form(&self) -> JobForm {
        JobForm::ControlLists
    }

    fn job_type(&self, _slot: u8) -> &'static str {
        "job of the driver"
    }

    fn track_jobs<'a>(&self, scanned: ScannedEvents<'a>) -> Box<dyn JobTracker + 'a> {
        Box::new(EventTracker {
            submits: SubmitTracker::default(),
            events: scanned.events,
        })
    }

    fn relate_events(&self, recording: &Recording, _map: &RegisterMap) -> Vec<EventRelation> {
        let relate = |event| match recording.events.kind(event) {
            Some(EventKind::Submit | EventKind::Interrupt) => EventRelation::OfJob,
            _ => EventRelation::Unrelated,
        };
        (0..recording.events.len()).map(relate).collect()
    }
}

/// Finds the jobs, and ends each at the interrupt that names it, or at the reset that aborted it.
struct EventTracker<'a> {
    submits: SubmitTracker,
    events: &'a Events,
}

impl JobTracker for EventTracker<'_> {
    fn take(&mut self, mark: &Mark) {
        self.submits.take(mark);
        if let MarkKind::Interrupt {
            line: InterruptLine::Job,
            status,
        } = mark.kind
            && let Ok(number) = usize::try_from(status)
        {
            self.submits.end(number, mark);
        }
    }

    // The events do not show what the driver did between jobs, so there are no phases.
    fn finish(self: Box<Self>) -> TrackedWork {
        let mut work = self.submits.into_work();
        let is_reset = |event: &usize| {
            let row = self.events.payload.get(*event).map(|row| row as usize);
            let text = row.and_then(|row| self.events.marks.get(row));
            self.events.kind(*event) == Some(EventKind::Mark)
                && text.is_some_and(|t| t.starts_with(Identity::RESET_NOTE))
        };
        // Jobs come in event order, and so do resets: each reset ends the jobs before it that still run.
        let mut jobs = work.jobs.iter_mut().filter(|j| j.done_event.is_none()).peekable();
        for reset in (0..self.events.len()).filter(is_reset) {
            let time = self.events.time.get(reset);
            while let Some(job) = jobs.next_if(|j| j.submit_event < reset as u64) {
                (job.done_event, job.done_ns, job.failed) = (Some(reset as u64), time, true);
            }
        }
        work
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GpuVa;
    use crate::families::find_family;
    use crate::progress::Progress;
    use crate::recording::{EventsBuilder, InterruptRow, SubmitRow};
    use crate::timeline::derive;

    #[test]
    fn interrupts_end_the_job_that_they_name_and_resets_all_others() {
        let mut events = EventsBuilder::new();
        let submit = |slot| SubmitRow {
            head_va: GpuVa::new(0x1000),
            address_space: 0,
            slot,
        };
        let end = |status| InterruptRow {
            line: InterruptLine::Job as u32,
            status,
        };
        events.submit(10, submit(0));
        events.submit(20, submit(1));
        events.interrupt(30, end(1));
        events.mark(40, "reset: v3d_reset_begin dev=1");
        events.submit(50, submit(0));
        events.interrupt(60, end(9));
        let mut recording = Recording {
            events: events.finish(),
            ..Recording::default()
        };
        recording.metadata.identity.source = Identity::DRIVER_EVENTS.to_owned();
        assert_eq!(find_family(&recording).name(), "driver-events");
        let map = RegisterMap::for_jobs_of(&recording).unwrap();
        let timeline = derive(&recording, map, &Progress::new()).unwrap();
        let jobs = timeline.jobs.iter();
        let jobs: Vec<_> = jobs.map(|j| (j.slot, j.submit_event, j.done_event, j.failed)).collect();
        assert_eq!(
            jobs,
            [(0, 0, Some(3), true), (1, 1, Some(2), false), (0, 4, None, false)]
        );
    }
}
