//! Mali GPUs with a job manager: slots and interrupts, job descriptors (headers, chains, payloads), and page tables.

mod chain;
mod event_relations;
mod header;
pub mod models;
mod page_tables;
mod payload;
mod registers;
mod slot_tracker;
mod space;
#[cfg(test)]
mod tests;

pub use chain::{Chain, Job, MAX_JOBS, find_shaders, read_chain, read_job};
pub use header::{HEADER_BYTES, HeaderError, JobHeader, JobType, Soundness, exception_name};
pub use payload::{CacheFlush, Compute, Payload, RendererState, WriteKind, WriteValue, decode_payload};
pub use registers::{AS_UPDATE, COMMAND_START, CONFIG_AS, MODE, MODE_AARCH64_4K, MODE_LEGACY, MODE_UNMAPPED, RESETS};

use super::chain::{ChainJob, JobChain};
use super::family::{EventRelation, Family, JobForm, TableCommand};
use super::work::{JobTracker, RegisterClass, ScannedEvents};
use crate::GpuVa;
use crate::memory::GpuMemory;
use crate::recording::{MmuFormat, Recording};
use crate::registers::{Register, RegisterMap};
use crate::shader_code::{self, Code};

/// The family.
pub(super) struct MaliJm;

impl Family for MaliJm {
    fn name(&self) -> &'static str {
        "mali-jm"
    }

    fn title(&self) -> &'static str {
        "Arm Mali (job manager)"
    }

    fn drivers(&self) -> &'static [&'static str] {
        &["panfrost"]
    }

    /// The driver names the queues after the slots of the job manager.
    fn queue_job_type(&self, queue: &str) -> &'static str {
        match queue {
            "pan_js0" => "fragment job chain",
            "pan_js1" => "vertex, tiler or compute job chain",
            "pan_js2" => "compute job chain",
            _ => "job chain",
        }
    }

    /// A submit without registers is a job chain, whatever is known about the device.
    fn has_recording(&self, recording: &Recording, map: Option<&RegisterMap>) -> bool {
        !recording.events.submits.is_empty() || map.is_some_and(registers::has_job_manager)
    }

    fn job_form(&self) -> JobForm {
        JobForm::DescriptorChains
    }

    fn class_of(&self, register: &Register) -> RegisterClass {
        registers::class_of(register)
    }

    fn track_jobs<'a>(&self, events: ScannedEvents<'a>) -> Box<dyn JobTracker + 'a> {
        Box::new(slot_tracker::SlotTracker::new(events))
    }

    fn lane_of(&self, register: &Register) -> Option<(u8, String)> {
        registers::lane_of(register)
    }

    fn address_spaces(&self, recording: &Recording, map: &RegisterMap, submits: &[u64]) -> Vec<Option<u32>> {
        space::address_spaces(recording, map, submits)
    }

    fn read_chain(&self, memory: &dyn GpuMemory, head: GpuVa) -> Option<JobChain> {
        let Chain { jobs, end } = read_chain(memory, head);
        let jobs = jobs.into_iter().map(|j| Box::new(j) as Box<dyn ChainJob>).collect();
        Some(JobChain { jobs, end })
    }

    fn decode_code(&self, memory: &dyn GpuMemory, entry: GpuVa, max: u64) -> Option<Code> {
        Some(shader_code::decode_code_within(memory, entry, max))
    }

    fn status_name(&self, status: u8) -> &'static str {
        exception_name(status)
    }

    fn filter_example(&self) -> Option<&'static str> {
        Some("reg =~ \"JS1_\" and write and job in 4..=9")
    }

    fn register_map(&self) -> Option<&'static RegisterMap> {
        RegisterMap::by_name(header::MAP)
    }

    fn check_models(&self, recorded: u32, target: u32) -> Option<Result<(), models::ModelMismatch>> {
        Some(models::check_models(recorded, target).map(|_| ()))
    }

    fn page_table_formats(&self) -> &'static [MmuFormat] {
        page_tables::FORMATS
    }

    fn header_layout(&self) -> Option<&'static str> {
        Some(header::HEADER_LAYOUT)
    }

    fn relate_events(&self, recording: &Recording, map: &RegisterMap) -> Vec<EventRelation> {
        event_relations::relate_events(recording, map)
    }

    fn is_job_start(&self, value: u64) -> bool {
        value == COMMAND_START
    }

    fn is_reset(&self, value: u64) -> bool {
        RESETS.contains(&value)
    }

    fn table_command(&self, value: u64) -> Option<TableCommand> {
        registers::table_command(value)
    }
}
