//! Mali GPUs with a command stream front end, from the trace events of panthor and of the scheduler. Jobs belong to the
//! queues of firmware groups. Interrupts of the firmware tell that groups need service, and end no job by themselves: the
//! fence of a job does.

use super::driver_events;
use super::family::{Family, JobForm};
use super::work::{JobTracker, ScannedEvents};
use crate::recording::{MmuFormat, Recording};
use crate::registers::RegisterMap;

/// Kernel drivers of these GPUs.
const DRIVERS: &[&str] = &["panthor"];

/// The family.
pub(super) struct MaliCsf;

impl Family for MaliCsf {
    fn name(&self) -> &'static str {
        "mali-csf"
    }

    fn title(&self) -> &'static str {
        "Arm Mali (command stream front end)"
    }

    fn drivers(&self) -> &'static [&'static str] {
        DRIVERS
    }

    fn has_recording(&self, recording: &Recording, _map: Option<&RegisterMap>) -> bool {
        driver_events::is_recording_of_driver(recording, DRIVERS)
    }

    fn page_table_formats(&self) -> &'static [MmuFormat] {
        &[]
    }

    fn job_form(&self) -> JobForm {
        JobForm::DriverJobs
    }

    fn queue_job_type(&self, _queue: &str) -> &'static str {
        "command stream"
    }

    fn track_jobs<'a>(&self, scanned: ScannedEvents<'a>) -> Box<dyn JobTracker + 'a> {
        driver_events::track_jobs(scanned)
    }
}
