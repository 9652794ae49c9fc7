//! AMD GPUs, from the trace events of amdgpu: register accesses with the number of a 32-bit register, and jobs of rings.
//! The driver's own event starts a job, and the fence of the scheduler ends it. No map names the registers: their
//! numbers depend on the generation.

use super::driver_events;
use super::family::{Family, JobForm};
use super::work::{JobTracker, ScannedEvents};
use crate::recording::{MmuFormat, Recording};
use crate::registers::RegisterMap;

/// Kernel drivers of these GPUs.
const DRIVERS: &[&str] = &["amdgpu"];

/// The family.
pub(super) struct Amdgpu;

impl Family for Amdgpu {
    fn name(&self) -> &'static str {
        "amdgpu"
    }

    fn title(&self) -> &'static str {
        "AMD GPU"
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
        // Ring names are those of the hardware blocks: `gfx_0.0.0`, `comp_1.0.0`, `sdma0`, `vcn_dec_0`.
        let is_of = |blocks: &[&str]| blocks.iter().any(|b| queue.starts_with(b));
        match () {
            () if is_of(&["gfx"]) => "graphics commands",
            () if is_of(&["comp"]) => "compute commands",
            () if is_of(&["sdma"]) => "copy commands",
            () if is_of(&["vcn", "uvd", "vce", "jpeg"]) => "video commands",
            () => "job of the driver",
        }
    }

    fn track_jobs<'a>(&self, scanned: ScannedEvents<'a>) -> Box<dyn JobTracker + 'a> {
        driver_events::track_jobs(scanned)
    }
}
