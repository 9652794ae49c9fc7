//! Recordings of the trace events of a kernel driver, whatever the GPU: a job is a submit, and an interrupt event names
//! the job that it ends. They can be viewed, not replayed: the events do not hold the commands.

use super::family::{EventRelation, Family, JobForm};
use super::submit_tracker::SubmitTracker;
use super::work::{JobTracker, Mark, MarkKind, ScannedEvents, TrackedWork};
use crate::recording::{EventKind, Events, Identity, InterruptLine, MmuFormat, Recording};
use crate::registers::RegisterMap;

/// The family of GPUs whose drivers have no family.
pub(super) struct DriverEvents;

impl Family for DriverEvents {
    fn name(&self) -> &'static str {
        "driver-events"
    }

    fn title(&self) -> &'static str {
        "GPU of a kernel driver"
    }

    fn has_recording(&self, recording: &Recording, _map: Option<&RegisterMap>) -> bool {
        let has_jobs = !recording.events.submits.is_empty() || !recording.events.interrupts.is_empty();
        has_jobs && is_recording_of_events(recording)
    }

    fn page_table_formats(&self) -> &'static [MmuFormat] {
        &[]
    }

    fn job_form(&self) -> JobForm {
        JobForm::DriverJobs
    }

    fn track_jobs<'a>(&self, scanned: ScannedEvents<'a>) -> Box<dyn JobTracker + 'a> {
        track_jobs(scanned)
    }

    fn relate_events(&self, recording: &Recording, _map: &RegisterMap) -> Vec<EventRelation> {
        relate_events(recording)
    }
}

/// Whether the jobs of a recording are the trace events of a kernel driver.
pub(super) fn is_recording_of_events(recording: &Recording) -> bool {
    recording.metadata.identity.source == Identity::DRIVER_EVENTS
}

/// Whether the events of a recording are those of one of these drivers.
pub(super) fn is_recording_of_driver(recording: &Recording, drivers: &[&str]) -> bool {
    let driver = &recording.metadata.identity.driver;
    let name = driver.split(' ').next().unwrap_or_default();
    is_recording_of_events(recording) && drivers.contains(&name)
}

/// Returns the analysis of such a recording, for every family.
pub(super) fn track_jobs<'a>(scanned: ScannedEvents<'a>) -> Box<dyn JobTracker + 'a> {
    Box::new(EventTracker {
        submits: SubmitTracker::default(),
        events: scanned.events,
    })
}

/// Returns the relation of each event of such a recording to its jobs, for every family.
pub(super) fn relate_events(recording: &Recording) -> Vec<EventRelation> {
    let relate = |event| match recording.events.kind(event) {
        Some(EventKind::Submit | EventKind::Interrupt) => EventRelation::OfJob,
        _ => EventRelation::Unrelated,
    };
    (0..recording.events.len()).map(relate).collect()
}

/// Finds the jobs, and ends each at the interrupt that names it, at the note that it hangs, or at the reset that aborted
/// it.
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
        let note = |event: usize| {
            let row = self.events.payload.get(event).map(|row| row as usize);
            let text = row.and_then(|row| self.events.marks.get(row));
            text.filter(|_| self.events.kind(event) == Some(EventKind::Mark))
        };
        let mut resets = Vec::new();
        for (event, text) in (0..self.events.len()).filter_map(|e| Some((e, note(e)?))) {
            if text.starts_with(Identity::RESET_NOTE) {
                resets.push(event);
            } else if let Some(job) = hung_job(text).and_then(|n| work.jobs.get_mut(n))
                && job.done_event.is_none()
            {
                let time = self.events.time.get(event);
                (job.done_event, job.done_ns, job.failed) = (Some(event as u64), time, true);
            }
        }
        // Jobs come in event order, and so do resets: each reset ends the jobs before it that still run.
        let mut jobs = work.jobs.iter_mut().filter(|j| j.done_event.is_none()).peekable();
        for reset in resets {
            let time = self.events.time.get(reset);
            while let Some(job) = jobs.next_if(|j| j.submit_event < reset as u64) {
                (job.done_event, job.done_ns, job.failed) = (Some(reset as u64), time, true);
            }
        }
        work
    }
}

/// Returns the number of the job in a note about a hang.
fn hung_job(text: &str) -> Option<usize> {
    let number = text.strip_prefix(Identity::HANG_NOTE)?.split(':').next()?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GpuVa;
    use crate::families::{find_family, job_form, job_type};
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
        events.submit(70, submit(1));
        events.mark(80, "hang of job 3: xe_sched_job_timedout fence=1");
        events.mark(90, "hang of job 99: none");
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
            [
                (0, 0, Some(3), true),
                (1, 1, Some(2), false),
                (0, 4, None, false),
                (1, 6, Some(7), true)
            ]
        );
    }

    #[test]
    fn events_of_a_driver_have_the_family_of_its_gpus() {
        for (driver, family, queue, kind) in [
            ("v3d", "v3d", "RCL", "rendering control list"),
            ("v3d", "v3d", "v3d_csd", "compute dispatch"),
            ("msm", "adreno", "ring 0", "command stream"),
            ("panfrost", "mali-jm", "pan_js0", "fragment job chain"),
            ("panthor", "mali-csf", "CSG 1", "command stream"),
            ("amdgpu", "amdgpu", "sdma0", "copy commands"),
            ("i915", "intel", "bcs0", "copy commands"),
            ("xe 1.1.0", "intel", "ccs1", "compute commands"),
            ("vc4", "driver-events", "BCL", "job of the driver"),
            ("", "driver-events", "ring", "job of the driver"),
        ] {
            let mut events = EventsBuilder::new();
            events.submit(
                10,
                SubmitRow {
                    head_va: GpuVa::new(0),
                    address_space: 0,
                    slot: 0,
                },
            );
            let mut recording = Recording {
                events: events.finish(),
                ..Recording::default()
            };
            let identity = &mut recording.metadata.identity;
            identity.source = Identity::DRIVER_EVENTS.to_owned();
            driver.clone_into(&mut identity.driver);
            recording.register_trace_mut().unwrap().job_queues = vec![queue.to_owned()];
            assert_eq!(find_family(&recording).name(), family, "{driver}");
            assert_eq!(job_form(&recording), JobForm::DriverJobs, "{driver}");
            assert_eq!(job_type(&recording, 0), kind, "{driver} {queue}");
            assert!(!find_family(&recording).title().is_empty());
            // The same driver without events of its own has the family of its registers.
            recording.metadata.identity.source = "rwmmio".to_owned();
            assert_ne!(job_form(&recording), JobForm::DriverJobs, "{driver}");
        }
    }
}
