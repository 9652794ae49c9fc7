//! Intel GPUs, from the trace events of i915 and xe: register accesses, and requests of engines. The event of the
//! retired request, or of the fence, ends a job. No map names the registers: Intel's descriptions are of commands.

use super::driver_events;
use super::family::{Family, JobForm};
use super::work::{JobTracker, ScannedEvents};
use crate::recording::{MmuFormat, Recording};
use crate::registers::RegisterMap;

/// Kernel drivers of these GPUs.
const DRIVERS: &[&str] = &["i915", "xe"];

/// The family.
pub(super) struct Intel;

impl Family for Intel {
    fn name(&self) -> &'static str {
        "intel"
    }

    fn title(&self) -> &'static str {
        "Intel GPU"
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

    fn queue_job_type(&self, queue: &str) -> &'static str {
        // Names of engines begin with their class: `rcs0`, `vecs1`.
        match queue.trim_end_matches(|c: char| c.is_ascii_digit()) {
            "rcs" => "render commands",
            "bcs" => "copy commands",
            "vcs" => "video commands",
            "vecs" => "video enhancement commands",
            "ccs" => "compute commands",
            _ => "job of the driver",
        }
    }

    fn track_jobs<'a>(&self, scanned: ScannedEvents<'a>) -> Box<dyn JobTracker + 'a> {
        driver_events::track_jobs(scanned)
    }
}
