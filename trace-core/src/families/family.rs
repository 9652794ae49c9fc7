//! The interface of a GPU family: what the analyses of recordings ask about its devices.

use super::chain::JobChain;
use super::mali_jm::models::ModelMismatch;
use super::work::{JobSpan, JobTracker, RegisterClass, ScannedEvents};
use crate::GpuVa;
use crate::driver_trace::{ChannelEngine, ChannelKind, DriverFault, DriverTrace, SubmissionDecoder};
use crate::memory::GpuMemory;
use crate::progress::{Cancelled, Progress};
use crate::recording::MmuFormat;
use crate::recording::{EventKind, Recording};
use crate::registers::{Register, RegisterMap};
use crate::shader_code::Code;
use std::collections::HashMap;
use std::ops::Range;

/// The form of a family's jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobForm {
    /// The devices have no jobs that recordings show.
    None,
    /// Chains of descriptors in GPU memory.
    DescriptorChains,
    /// Command streams, whose register writes follow the submit as events.
    CommandStreams,
    /// Control lists in GPU memory, and compute dispatches from registers. Recordings do not hold their content.
    ControlLists,
    /// Commands in GPU memory that entries of channel rings name.
    RingEntries,
    /// Jobs that the trace events of a kernel driver name. Recordings do not hold their content.
    DriverJobs,
}

/// The relation of an event to jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventRelation {
    /// None: it stays when jobs are removed.
    Unrelated,
    /// A write to the registers of a slot.
    SlotWrite {
        /// Number of the slot.
        slot: u8,
        /// Whether the register keeps the value for the next job.
        is_kept: bool,
    },
    /// A read of the registers of a slot, by its number.
    SlotRead(u8),
    /// A value that depends on a running or just ended job: its interrupt, faults, the state of the device.
    OfJob,
    /// A counter that the next submission passes on.
    SubmitInput,
    /// A command that ends every job. It stays when jobs are removed.
    Reset,
}

/// A command to an address space about its page tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableCommand {
    /// Walks begin at a root.
    Update,
    /// Walks wait until the unlock.
    Lock,
    /// Walks go on.
    Unlock,
    /// Walks read the tables again.
    FlushTables,
    /// Walks read the tables again, and caches of memory are flushed.
    FlushMemory,
}

/// A GPU family. The default of each function is the answer of a family without jobs.
pub trait Family: Sync {
    /// Returns the name of the family in lower case.
    fn name(&self) -> &'static str;

    /// Returns the name of its GPUs for people, or an empty text for devices that are no GPUs.
    fn title(&self) -> &'static str {
        ""
    }

    /// Returns the kernel drivers of its GPUs. A recording of their trace events is of this family.
    fn drivers(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns whether a recording is of this family, by its identity or its register map.
    fn has_recording(&self, recording: &Recording, map: Option<&RegisterMap>) -> bool;

    /// Returns the register map that describes its structures in memory, whatever map a recording has.
    fn register_map(&self) -> Option<&'static RegisterMap> {
        None
    }

    /// Checks whether recordings of one of its GPUs compile for another one, by the values of their id registers. `None`:
    /// the family has no rules for other models, and recordings compile only for their own.
    fn check_models(&self, _recorded: u32, _target: u32) -> Option<Result<(), ModelMismatch>> {
        None
    }

    /// Returns the formats of the page tables that its recordings hold.
    fn page_table_formats(&self) -> &'static [MmuFormat] {
        &[MmuFormat::Aarch64_4k]
    }

    /// Returns the form of its jobs.
    fn job_form(&self) -> JobForm {
        JobForm::None
    }

    /// Returns the type of a job that is no chain of descriptors, in tables and JSON, by the slot that it was submitted
    /// to.
    fn job_type(&self, _slot: u8) -> &'static str {
        "command stream"
    }

    /// Returns the type of a job that trace events name, by the name of its queue.
    fn queue_job_type(&self, _queue: &str) -> &'static str {
        "job of the driver"
    }

    /// Returns the address of a job that a value of a 32-bit register names, or `None` if the register names no job.
    fn read_job_address(&self, _register: &Register, _value: u64) -> Option<GpuVa> {
        None
    }

    /// Returns the class of a register for the scan of the timeline.
    fn class_of(&self, _register: &Register) -> RegisterClass {
        RegisterClass::Plain
    }

    /// Returns the analysis that finds jobs, interrupts and phases among the marks of a scan.
    fn track_jobs<'a>(&self, events: ScannedEvents<'a>) -> Box<dyn JobTracker + 'a>;

    /// Returns the lane of a register on the timeline: its rank among the lanes, lower first, and its name. Returns
    /// `None` for the lane of the register's block.
    fn lane_of(&self, _register: &Register) -> Option<(u8, String)> {
        None
    }

    /// Returns the index of the address space of each submit, as [`address_spaces`](super::address_spaces) does.
    fn address_spaces(&self, recording: &Recording, _map: &RegisterMap, submits: &[u64]) -> Vec<Option<u32>> {
        let space = |submit: &u64| find_recorded_space(recording, *submit).flatten();
        submits.iter().map(space).collect()
    }

    /// Reads the chain of descriptors from its head, or returns `None` if jobs are not such chains.
    fn read_chain(&self, _memory: &dyn GpuMemory, _head: GpuVa) -> Option<JobChain> {
        None
    }

    /// Decodes the code of a shader from its entry, at most `max` bytes, or returns `None` if its instruction set is
    /// unknown.
    fn decode_code(&self, _memory: &dyn GpuMemory, _entry: GpuVa, _max: u64) -> Option<Code> {
        None
    }

    /// Returns the decoder of the submissions of a driver trace, or `None` if the family has no channels.
    fn submission_decoder<'a>(
        &self,
        _recording: &'a Recording,
        _trace: &'a DriverTrace,
    ) -> Option<Box<dyn SubmissionDecoder + 'a>> {
        None
    }

    /// Returns the engine of each channel of a driver trace, by client and handle. Channels of unknown engines are absent.
    fn channel_engines(&self, _recording: &Recording) -> HashMap<(u32, u32), ChannelEngine> {
        HashMap::new()
    }

    /// Returns the kind of each channel of a driver trace, by client and handle, and its engine if known. Channels of unknown
    /// kinds are absent.
    fn channel_kinds(&self, _recording: &Recording) -> HashMap<(u32, u32), (ChannelKind, Option<ChannelEngine>)> {
        HashMap::new()
    }

    /// Returns the hardware number of each channel of a driver trace, by its index in the trace: error messages of the
    /// driver name channels by it.
    fn channel_numbers(&self, _recording: &Recording, _trace: &DriverTrace) -> HashMap<usize, u32> {
        HashMap::new()
    }

    /// Returns the faults that requests and saved memory of a driver trace show, in event order.
    fn find_driver_faults(&self, _recording: &Recording, _trace: &DriverTrace) -> Vec<DriverFault> {
        Vec::new()
    }

    /// Returns ranges of GPU addresses that a driver trace shows in use, and that are no mappings of its buffers.
    fn find_driver_ranges(&self, _recording: &Recording) -> Vec<Range<GpuVa>> {
        Vec::new()
    }

    /// Returns the pages of compute schedulers that a driver trace maps: a store of a kernel there starts a launch.
    fn find_scheduler_pages(&self, _recording: &Recording) -> Vec<GpuVa> {
        Vec::new()
    }

    /// Sets the ends of jobs that their marks do not show.
    ///
    /// # Errors
    /// [`Cancelled`] if the operation was cancelled.
    fn end_jobs(&self, _recording: &Recording, _jobs: &mut [JobSpan], _progress: &Progress) -> Result<(), Cancelled> {
        Ok(())
    }

    /// Returns the name of a class of driver objects, or `None` if it is unknown.
    fn class_name(&self, _class: u32) -> Option<&'static str> {
        None
    }

    /// Returns the fields of a ring entry by name, with formatted values. The list is empty if the form of entries is
    /// unknown.
    fn ring_entry_fields(&self, _entry: u64) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Returns the name of the status with which a job ended, or `unknown`.
    fn status_name(&self, _status: u8) -> &'static str {
        "unknown"
    }

    /// Returns an example of a filter that selects events of a job, or `None` for the general example.
    fn filter_example(&self) -> Option<&'static str> {
        None
    }

    /// Returns the name of the layout of a descriptor's header, or `None` if there are no descriptors.
    fn header_layout(&self) -> Option<&'static str> {
        None
    }

    /// Returns the relation of each event to the jobs of the recording.
    fn relate_events(&self, recording: &Recording, _map: &RegisterMap) -> Vec<EventRelation> {
        let relate = |event| match recording.events.kind(event) {
            Some(EventKind::Submit) => EventRelation::OfJob,
            _ => EventRelation::Unrelated,
        };
        (0..recording.events.len()).map(relate).collect()
    }

    /// Returns whether a value, written to a command register of jobs, starts a job.
    fn is_job_start(&self, _value: u64) -> bool {
        false
    }

    /// Returns whether a value, written to the command register of the device, resets every register.
    fn is_reset(&self, _value: u64) -> bool {
        false
    }

    /// Returns the meaning of a value that is written to an address space's command register, or `None` if it is no
    /// command about page tables.
    fn table_command(&self, _value: u64) -> Option<TableCommand> {
        None
    }

    /// Explains why registers have no names if no register map fits a recording, and what to do. `file` is the path of
    /// the recording. Returns `None` if the general explanation holds.
    fn explain_missing_map(&self, _recording: &Recording, _file: &str) -> Option<String> {
        None
    }
}

/// Returns the index of the address space that a submit without registers carries, or `None` if the event is not such a
/// submit. The index is `None` if the recording holds no such space.
pub(super) fn find_recorded_space(recording: &Recording, event: u64) -> Option<Option<u32>> {
    let row = recording.events.submit(usize::try_from(event).ok()?)?;
    let count = recording.metadata.address_spaces.len();
    Some(Some(row.address_space).filter(|n| (*n as usize) < count))
}
