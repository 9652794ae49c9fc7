//! Derivation of the data that the window shows of a recording, stage by stage, off the interface thread.

use crate::derived_data::{
    ChainsPart, DerivedData, Fold, Interrupt, Part, PhaseFact, RegisterFact, Stage, TimelinePart,
};
use crate::driver_data::DriverData;
use crate::job_index::{JobIndex, index_addresses};
use crate::jobs::{self, Chain, JobFact};
use crate::lookup::{find_names_map, find_register_map};
use crate::wasm_run::{RunCopies, is_wasm_run};
use crate::{spaces, transfers};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use trace_core::api_trace::{ApiTrace, buffer_shapes};
use trace_core::container::ContainerError;
use trace_core::families::{JobForm, job_form};
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::Recording;
use trace_core::registers::{RecordedRegisters, RegisterMap, history, register_space};
use trace_core::timeline::{Pyramid, StoredTimeline, Timeline};
use trace_core::{RegOffset, check, timeline};

/// Message for a device that only the user's own register map names.
const OWN_NAMES: &str = "No embedded register map knows this device: registers have the names of your own map, and \
                         polls, interrupts and jobs are not found.";
/// Message for a device without a register map.
const NO_NAMES: &str = "This device has no register map: registers have no names, and polls, interrupts and jobs are \
                        not found. \"Name…\" in Register names one; `kinescope regmaps import` makes a map of an SVD, \
                        rules-ng-ng, genxml or csbgen file.";

/// Message for command streams without a register map.
const NO_STREAM_NAMES: &str = "This GPU has no register map: registers have no names. Findings shows the command that \
                               imports one.";

/// Maximum size of a stored timeline that is read before the first frame, bytes. A longer one is read in its own stage.
const AT_ONCE: usize = 1 << 20;

/// Derives what is needed at once: the positions of events and their counts. `kept` is what the file stores of earlier
/// analyses. Anything not stored is computed here or stays pending.
///
/// # Errors
/// [`Cancelled`] if the operation was cancelled.
pub fn first(
    recording: &Recording,
    kept: (Option<Pyramid>, Option<StoredTimeline>),
    progress: &Progress,
) -> Result<DerivedData, Cancelled> {
    let map = find_register_map(recording);
    let pyramid = match kept.0 {
        Some(p) => p,
        None => Pyramid::build(recording, map, progress)?,
    };
    let mut derived = DerivedData {
        axis: pyramid.axis().clone(),
        lane_totals: pyramid.count(&recording.events, 0..recording.events.len() as u64),
        pyramid,
        map: find_names_map(recording),
        device: RecordedRegisters::new(recording),
        register_space: register_space(recording, map.or_else(|| find_names_map(recording))),
        pending: Stage::ALL.to_vec(),
        ..Default::default()
    };
    derived.shapes = buffer_shapes(recording);
    if recording.api().is_none() {
        derived.pending.retain(|stage| *stage != Stage::Buffers);
    }
    if recording.driver_trace().is_none() {
        derived.pending.retain(|stage| *stage != Stage::Driver);
    }
    if !is_wasm_run(recording) {
        derived.pending.retain(|stage| *stage != Stage::Run);
    }
    derived.rank_buffers(recording);
    // Only register traces need the map of a device.
    if map.is_none() && !recording.events.is_empty() && recording.register_trace().is_some() {
        derived
            .gaps_in_knowledge
            .extend(gap(recording, derived.device).map(str::to_owned));
    }
    match kept.1 {
        Some(t) if t.bytes() <= AT_ONCE => {
            if let Some(t) = t.read() {
                derived.take(timeline_part(t, recording));
            }
        }
        later => derived.kept_timeline = later,
    }
    Ok(derived)
}

/// Whether the jobs of a recording are command streams.
fn has_command_streams(recording: &Recording) -> bool {
    job_form(recording) == JobForm::CommandStreams
}

/// Returns what is unknown for a recording whose device no embedded map knows.
fn gap(recording: &Recording, device: Option<RecordedRegisters>) -> Option<&'static str> {
    match (device, has_command_streams(recording)) {
        // Jobs of command streams need no map.
        (Some(_), true) => None,
        (None, true) => Some(NO_STREAM_NAMES),
        (Some(_), false) => Some(OWN_NAMES),
        (None, false) => Some(NO_NAMES),
    }
}

/// Applies changed register maps of the user. Names change at once; data that depends on them (accesses by register,
/// findings) becomes pending. Returns `false` if the registers are in another space now; the recording must then be
/// read again.
#[must_use]
pub fn rename(derived: &mut DerivedData, recording: &Recording) -> bool {
    let (map, device) = (find_names_map(recording), RecordedRegisters::new(recording));
    if register_space(recording, find_register_map(recording).or(map)) != derived.register_space {
        return false;
    }
    (derived.map, derived.device) = (map, device);
    let before = derived.gaps_in_knowledge.len();
    let of_names = |gap: &String| [OWN_NAMES, NO_NAMES, NO_STREAM_NAMES].contains(&gap.as_str());
    derived.gaps_in_knowledge.retain(|gap| !of_names(gap));
    if derived.gaps_in_knowledge.len() < before
        || find_register_map(recording).is_none() && has_command_streams(recording)
    {
        derived
            .gaps_in_knowledge
            .extend(gap(recording, device).map(str::to_owned));
    }
    name_registers(derived);
    for stage in [Stage::Registers, Stage::Findings] {
        if derived.has_stage(stage) {
            derived.pending.push(stage);
        }
    }
    true
}

/// Gives the derived registers the names of the current map.
pub(crate) fn name_registers(derived: &mut DerivedData) {
    let map = derived.map;
    for (offset, fact) in &mut derived.registers {
        (fact.name, fact.block) = name_of(map, *offset);
    }
}

/// Returns name and block of the register at an offset.
fn name_of(map: Option<&'static RegisterMap>, offset: RegOffset) -> (String, String) {
    match map.and_then(|m| m.at(offset)) {
        Some(r) => (r.name.clone(), r.block.clone()),
        None => (format!("{offset:#06x}"), "unknown".to_owned()),
    }
}

/// Derives all data of a recording except the buffers of API trace copies, which a document lists itself.
///
/// # Errors
/// [`Cancelled`] if the operation was cancelled.
pub fn derive(recording: &Recording, progress: &Progress) -> Result<DerivedData, Cancelled> {
    let mut derived = first(recording, (None, None), progress)?;
    derived.pending.retain(|stage| *stage != Stage::Buffers);
    while let Some(stage) = derived.pending.first().copied() {
        let part = find_out(stage, recording, None, &derived, progress)?;
        derived.take(part);
    }
    Ok(derived)
}

/// Returns the events that submit a job, in ascending order. The list is empty if the device has no register map, or if
/// the operation was cancelled.
#[must_use]
pub fn submits(recording: &Recording, progress: &Progress) -> Vec<u64> {
    let found = RegisterMap::for_jobs_of(recording).and_then(|map| timeline::derive(recording, map, progress).ok());
    found.map_or_else(Vec::new, |t| t.jobs.iter().map(|j| j.submit_event).collect())
}

/// Derives the data of one stage. `derived` holds the results of the earlier stages. `source` is the file that the
/// recording was read from, if any.
///
/// # Errors
/// [`Cancelled`] if the operation was cancelled.
pub fn find_out(
    stage: Stage,
    recording: &Recording,
    source: Option<&Path>,
    derived: &DerivedData,
    progress: &Progress,
) -> Result<Part, Cancelled> {
    progress.check()?;
    Ok(match stage {
        Stage::Timeline => {
            let kept = derived.kept_timeline.as_ref().and_then(StoredTimeline::read);
            match (kept, RegisterMap::for_jobs_of(recording)) {
                (Some(t), _) => timeline_part(t, recording),
                (None, Some(map)) => timeline_part(timeline::derive(recording, map, progress)?, recording),
                (None, None) => Part::Timeline(Box::default()),
            }
        }
        Stage::Driver => Part::Driver(DriverData::from_recording(recording, progress)?.map(Arc::new)),
        Stage::Run if !is_wasm_run(recording) => Part::Run(None),
        Stage::Run => Part::Run(Some(RunCopies::read(recording, progress)?.map(Arc::new))),
        Stage::Buffers => Part::Buffers(Box::new(transfers::index_buffers(recording, progress)?)),
        Stage::Calls => Part::Calls(ApiTrace::from_recording(recording, progress)?.map(Arc::new)),
        Stage::Registers => Part::Registers(by_register(recording, progress)?),
        Stage::Chains => {
            let chains = jobs::read_chains(recording, &derived.jobs, progress)?;
            let named = derived.jobs.iter().zip(&chains).map(|(j, c)| (j.head_va, j.index, c));
            Part::Chains(Box::new(ChainsPart {
                places: index_addresses(named),
                reports: recording.chain_reports().to_vec(),
                chains,
            }))
        }
        Stage::Spaces => Part::Spaces(spaces::spaces(recording, progress)?),
        Stage::Findings => {
            // After the timeline stage the jobs are known and need not be found again.
            let known = derived.has_stage(Stage::Timeline);
            let submits = known.then(|| derived.jobs.iter().map(JobFact::to_submit).collect::<Vec<_>>());
            let mut findings = check::check_submits(recording, submits.as_deref(), progress)?;
            findings.extend(wasm_recording::check_run(recording, progress)?);
            Part::Findings(findings)
        }
        Stage::File => {
            let mut found = damage(source, progress)?;
            if !found.is_empty() {
                found.extend(damaged_events(recording, progress)?);
            }
            Part::File(found)
        }
    })
}

/// Returns findings about damage of the source file. A file that can no longer be read is damaged.
fn damage(source: Option<&Path>, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    let Some(source) = source else { return Ok(Vec::new()) };
    match check::check_file(source, progress) {
        Ok(findings) => Ok(findings),
        Err(ContainerError::Cancelled(c)) => Err(c),
        Err(e) => {
            let place = source.display().to_string();
            Ok(vec![Finding::new(FindingKind::DamagedSection, place, e.to_string())])
        }
    }
}

/// Returns findings about damaged events. Lists of events show these grey afterwards.
fn damaged_events(recording: &Recording, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    /// Maximum number of blocks whose events are searched: each may require a full scan.
    const MAX_BLOCKS: usize = 50;
    recording.find_damage(progress)?;
    let mut found = Vec::new();
    for block in recording
        .damage
        .blocks()
        .iter()
        .filter(|b| b.is_content())
        .take(MAX_BLOCKS)
    {
        progress.check()?;
        if let Some(events) = recording.damaged_events(block) {
            let place = format!("events {} to {}", events.start, events.end - 1);
            let what = format!("{block}: these events are grey, and nothing is replayed or written from the recording");
            found.push(Finding::new(FindingKind::DamagedSection, place, what).at_event(events.start));
        }
    }
    Ok(found)
}

/// Returns the name and accesses of each register.
fn by_register(recording: &Recording, progress: &Progress) -> Result<BTreeMap<RegOffset, RegisterFact>, Cancelled> {
    let map = find_names_map(recording);
    let named = |(offset, accesses)| {
        let (name, block) = name_of(map, offset);
        let fact = RegisterFact { name, block, accesses };
        (offset, fact)
    };
    let space = register_space(recording, find_register_map(recording).or(map));
    let sorted = history::by_register(recording, map, space, progress)?;
    Ok(sorted.into_iter().map(named).collect())
}

/// Converts a timeline to what the window keeps. Each list is freed after its conversion, because lists of a long
/// recording are large.
fn timeline_part(t: Timeline, recording: &Recording) -> Part {
    let is_end_unknown = job_form(recording) == JobForm::RingEntries;
    // All jobs share this chain until the chains are read.
    let unknown = Arc::<Chain>::default();
    let mut part = TimelinePart {
        polls: t
            .polls
            .into_iter()
            .map(|p| Fold {
                first: p.first,
                last: p.last,
                reads: p.reads,
                offset: p.offset,
            })
            .collect(),
        interrupts: t
            .interrupts
            .into_iter()
            .map(|i| Interrupt {
                event: i.event,
                line: i.line,
                status: i.status,
            })
            .collect(),
        jobs: t
            .jobs
            .into_iter()
            .map(|j| JobFact {
                index: j.index,
                slot: j.slot,
                submit: j.submit_event,
                done: j.done_event,
                is_end_unknown,
                next_submit: None,
                head_va: j.head_va,
                duration_ns: j.done_ns.map(|d| d.saturating_sub(j.submit_ns)),
                failed: j.failed,
                chain: Arc::clone(&unknown),
                report: None,
            })
            .collect(),
        gaps: t.gaps.iter().map(|g| (g.after_event, g.ns)).collect(),
        phases: t
            .phases
            .iter()
            .map(|p| PhaseFact {
                name: p.name.name().to_owned(),
                first: p.first,
                last: p.last,
            })
            .collect(),
        index: JobIndex::default(),
    };
    if is_end_unknown {
        let mut next: BTreeMap<u8, u64> = BTreeMap::new();
        for job in part.jobs.iter_mut().rev() {
            job.next_submit = next.insert(job.slot, job.submit);
        }
    }
    part.index = JobIndex::new(&part.jobs);
    part.interrupts.sort_by_key(|i| i.event);
    Part::Timeline(Box::new(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::recording::{DriverTraceMetadata, EventsBuilder, TraceKind};

    #[test]
    fn only_register_traces_need_a_register_map() {
        let mut events = EventsBuilder::new();
        events.mark(0, "a line of a log");
        let mut recording = Recording {
            events: events.finish(),
            ..Recording::default()
        };
        let gaps = |r: &Recording| first(r, (None, None), &Progress::new()).unwrap().gaps_in_knowledge;
        assert_eq!(gaps(&recording), [NO_NAMES]);
        recording.metadata.kind = TraceKind::Driver(DriverTraceMetadata::default());
        assert!(gaps(&recording).is_empty());
    }
}
