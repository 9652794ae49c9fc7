//! The table of GPU families, and the search for the family of a recording.
//!
//! A family is a folder or file of `families/` and one line of [`FAMILIES`]. The analyses ask it how submits and
//! completions appear among the accesses, how its jobs decode, and how its registers are named on the timeline. All
//! reads go through [`crate::memory::GpuMemory`], so they work on a recording, on a plan and inside a simulator.

mod adreno;
pub mod amdgpu;
mod chain;
mod command_streams;
mod driver_events;
mod family;
pub mod intel;
pub mod mali_csf;
pub mod mali_jm;
mod mmio;
mod nvidia;
mod shared_chains;
mod stream_tracker;
mod submit_tracker;
mod submits;
mod v3d;
pub mod vivante;
mod work;

pub use chain::{ChainEnd, ChainJob, Dispatch, JobChain, JobWork, ShaderStage};
pub use command_streams::{BufferContents, CommandSink, StreamSummary, words_at};
pub use family::{EventRelation, Family, JobForm, TableCommand};
pub use mali_jm::models::ModelMismatch;
pub use shared_chains::read_shared_chains;
pub use submits::{address_spaces, memory_at_submits};
pub use work::{
    InferredInterrupt, JobSpan, JobTracker, Mark, MarkKind, Phase, PhaseName, RegisterClass, ScannedEvents, TrackedWork,
};

use crate::GpuVa;
use crate::driver_trace::{ChannelEngine, ChannelKind, DriverTrace, DriverWork, SubmissionDecoder};
use crate::progress::{Cancelled, Progress};
use crate::recording::{MmuFormat, Recording};
use crate::registers::{Layout, RegisterMap};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// The families, one line each. The first that has a recording is its family, so a new one comes before those that
/// would take its recordings: Mali's has every recording with submits, and the last has every recording. The trace
/// events of a kernel driver have the family of that driver.
pub static FAMILIES: &[&dyn Family] = &[
    &adreno::Adreno,
    &vivante::FAMILY,
    &amdgpu::FAMILY,
    &intel::FAMILY,
    &mali_csf::FAMILY,
    &driver_events::DriverEvents,
    &v3d::V3d,
    &nvidia::Nvidia,
    &mali_jm::MaliJm,
    &mmio::Mmio,
];

/// Checks whether recordings of one GPU compile for another one with the same register map, by the values of their id
/// registers. `None`: recordings of GPUs with this map compile only for their own model.
#[must_use]
pub fn check_models(map: &RegisterMap, recorded: u32, target: u32) -> Option<Result<(), ModelMismatch>> {
    let has_map = |f: &&dyn Family| f.register_map().is_some_and(|m| m.name() == map.name());
    let family = FAMILIES.iter().copied().find(has_map)?;
    family.check_models(recorded, target)
}

/// Returns the layout of an entry of page tables, from the first family whose register map has it.
#[must_use]
pub fn find_entry_layout(format: MmuFormat) -> Option<&'static Layout> {
    let layout = format.description().entry_layout();
    FAMILIES.iter().find_map(|f| f.register_map()?.layout(layout))
}

/// Returns the family of a recording's device.
#[must_use]
pub fn find_family(recording: &Recording) -> &'static dyn Family {
    find_family_with(recording, RegisterMap::built_in_for(recording))
}

/// Returns the family of a recording's device, as [`find_family`] does, for a caller that has its register map.
#[must_use]
pub fn find_family_with(recording: &Recording, map: Option<&RegisterMap>) -> &'static dyn Family {
    let mut families = FAMILIES.iter().copied();
    let of_driver = |f: &&dyn Family| driver_events::is_recording_of_driver(recording, f.drivers());
    families
        .clone()
        .find(of_driver)
        .or_else(|| families.find(|f| f.has_recording(recording, map)))
        .unwrap_or(&mmio::Mmio)
}

/// Returns the form of a recording's jobs: that of its family, unless they are trace events of a kernel driver.
#[must_use]
pub fn job_form(recording: &Recording) -> JobForm {
    let form = find_family(recording).job_form();
    match driver_events::is_recording_of_events(recording) {
        true if form != JobForm::None => JobForm::DriverJobs,
        _ => form,
    }
}

/// Returns the type of a job that is no chain of descriptors, in tables and JSON, by the slot that it was submitted to.
#[must_use]
pub fn job_type(recording: &Recording, slot: u8) -> &'static str {
    let family = find_family(recording);
    match job_form(recording) {
        JobForm::DriverJobs => family.queue_job_type(recording.job_queue(slot).unwrap_or_default()),
        _ => family.job_type(slot),
    }
}

/// Returns the analysis that finds jobs, interrupts and phases of a recording of a family.
pub(crate) fn track_jobs<'a>(
    family: &dyn Family,
    recording: &Recording,
    events: ScannedEvents<'a>,
) -> Box<dyn JobTracker + 'a> {
    match driver_events::is_recording_of_events(recording) {
        true => driver_events::track_jobs(events),
        false => family.track_jobs(events),
    }
}

/// Returns the relation of each event to the jobs of a recording.
pub(crate) fn relate_events(recording: &Recording, map: &RegisterMap) -> Vec<EventRelation> {
    match driver_events::is_recording_of_events(recording) {
        true => driver_events::relate_events(recording),
        false => find_family_with(recording, Some(map)).relate_events(recording, map),
    }
}

/// Decodes the work of all submissions of a driver trace, or returns `None` for a recording without requests to a kernel
/// driver. Takes time proportional to the number of events and of words in push buffers.
///
/// # Errors
/// [`Cancelled`] if the operation was cancelled.
pub fn read_driver_work(recording: &Recording, progress: &Progress) -> Result<Option<DriverWork>, Cancelled> {
    let Some(trace) = DriverTrace::from_recording(recording, progress)? else {
        return Ok(None);
    };
    let decoded = match find_submission_decoder(recording, &trace) {
        Some(mut decoder) => DriverWork::decode(&trace, &mut *decoder, progress)?,
        None => Vec::new(),
    };
    Ok(Some(DriverWork::new(trace, decoded)))
}

/// Returns ranges of GPU addresses that a driver trace shows in use, and that are no mappings of its buffers. Empty for a
/// recording without requests to a kernel driver.
#[must_use]
pub fn find_driver_ranges(recording: &Recording) -> Vec<Range<GpuVa>> {
    match recording.driver_trace() {
        Some(_) => FAMILIES.iter().flat_map(|f| f.find_driver_ranges(recording)).collect(),
        None => Vec::new(),
    }
}

/// Returns the pages of compute schedulers that a driver trace maps, without repeats: they are no memory, and a store of a
/// kernel there starts a launch. Empty for a recording without requests to a kernel driver.
#[must_use]
pub fn find_scheduler_pages(recording: &Recording) -> Vec<GpuVa> {
    let found = match recording.driver_trace() {
        Some(_) => FAMILIES
            .iter()
            .flat_map(|f| f.find_scheduler_pages(recording))
            .collect(),
        None => BTreeSet::new(),
    };
    found.into_iter().collect()
}

/// Returns the kind of each channel of a driver trace, by client and handle, and its engine if known. Takes API traces too,
/// if the requests below their calls were recorded.
#[must_use]
pub fn find_channel_kinds(recording: &Recording) -> HashMap<(u32, u32), (ChannelKind, Option<ChannelEngine>)> {
    match recording.driver_trace() {
        Some(_) => FAMILIES.iter().flat_map(|f| f.channel_kinds(recording)).collect(),
        None => HashMap::new(),
    }
}

/// Returns the decoder of the submissions of a driver trace, or of an API trace that also holds the requests below its
/// calls; `None` if no family can decode them.
#[must_use]
pub fn find_submission_decoder<'a>(
    recording: &'a Recording,
    trace: &'a DriverTrace,
) -> Option<Box<dyn SubmissionDecoder + 'a>> {
    recording.driver_trace()?;
    FAMILIES.iter().find_map(|f| f.submission_decoder(recording, trace))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Identity;
    use std::collections::BTreeSet;

    #[test]
    fn recordings_have_the_family_of_their_register_map_or_identity() {
        let mut recording = Recording::default();
        let family = |r: &Recording| find_family(r).name();
        assert_eq!(family(&recording), "mmio");
        recording.metadata.identity.gpu_id = 0x6000_0000;
        assert_eq!(family(&recording), "mali-jm");
        recording.metadata.identity.source = Identity::COMMAND_STREAMS.into();
        assert_eq!(family(&recording), "adreno");
    }

    #[test]
    fn written_page_table_formats_have_a_layout_of_entries() {
        assert_eq!(MmuFormat::WRITTEN.map(MmuFormat::name), ["aarch64-4k", "mali-lpae"]);
        for format in MmuFormat::WRITTEN {
            let layout = find_entry_layout(format).unwrap();
            assert_eq!(layout.name, format.description().entry_layout());
        }
    }

    #[test]
    fn families_have_different_names() {
        let names: BTreeSet<&str> = FAMILIES.iter().map(|f| f.name()).collect();
        assert_eq!(names.len(), FAMILIES.len());
    }
}
