//! Finds out what the window wants to know of a recording, stage by stage, apart from the interface thread.

use super::facts::{Facts, Fold, Interrupt, Part, PhaseFact, RegisterFact, Stage, TimelinePart};
use super::jobs::{self, JobFact};
use super::lookup::{map_of, names_of};
use super::spaces;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use trace_core::check::{Finding, FindingKind};
use trace_core::container::ContainerError;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::Recording;
use trace_core::registers::{RecordedRegisters, history, register_space};
use trace_core::timeline::{KeptTimeline, Pyramid, Timeline};
use trace_core::{check, timeline};

/// Bytes of a kept timeline that are read before the first frame; a longer one is a piece of work of its own.
const AT_ONCE: usize = 1 << 20;

/// What is known at once: where events lie and how many there are where. `kept` is what the recording's file keeps of
/// earlier analyses; what it does not keep is made, or is still pending.
///
/// # Errors
/// [`Cancelled`] when nobody wants it any more.
pub fn first(
    recording: &Recording,
    kept: (Option<Pyramid>, Option<KeptTimeline>),
    progress: &Progress,
) -> Result<Facts, Cancelled> {
    let map = map_of(recording);
    let pyramid = match kept.0 {
        Some(p) => p,
        None => Pyramid::build(recording, map, progress)?,
    };
    let mut facts = Facts {
        axis: pyramid.axis().clone(),
        lane_totals: pyramid.count(&recording.events, 0..recording.events.len() as u64),
        pyramid,
        map,
        device: RecordedRegisters::new(recording),
        register_space: register_space(recording, map.or_else(|| names_of(recording))),
        pending: Stage::ALL.to_vec(),
        ..Default::default()
    };
    facts.shapes = recording.buffer_shapes();
    facts.rank_buffers(recording);
    if map.is_none() && !recording.events.is_empty() {
        let gap = if facts.device.is_some() {
            "No embedded register map knows this device: registers have the names of your own map, and polls, interrupts \
             and jobs are not found."
        } else {
            "This device has no register map: registers have no names, and polls, interrupts and jobs are not found. \
             `kinescope maps import` makes one of an SVD, rules-ng-ng or genxml file."
        };
        facts.gaps_in_knowledge.push(gap.into());
    }
    match kept.1 {
        Some(t) if t.bytes() <= AT_ONCE => {
            if let Some(t) = t.read() {
                facts.take(timeline_part(t));
            }
        }
        later => facts.kept_timeline = later,
    }
    Ok(facts)
}

/// Everything that the window knows of a recording.
///
/// # Errors
/// [`Cancelled`] when nobody wants it any more.
pub fn derive(recording: &Recording, progress: &Progress) -> Result<Facts, Cancelled> {
    let mut facts = first(recording, (None, None), progress)?;
    while let Some(stage) = facts.pending.first().copied() {
        let part = find_out(stage, recording, None, &facts, progress)?;
        facts.take(part);
    }
    Ok(facts)
}

/// Events that begin a job, rising; none where the device has no register map, or nobody wants them any more.
#[must_use]
pub fn submits(recording: &Recording, progress: &Progress) -> Vec<u64> {
    let found = map_of(recording).and_then(|map| timeline::derive(recording, map, progress).ok());
    found.map_or_else(Vec::new, |t| t.jobs.iter().map(|j| j.submit_event).collect())
}

/// Finds out what one stage tells. `facts` holds what those before it told, `source` is where the recording was read
/// from, where it was.
///
/// # Errors
/// [`Cancelled`] when nobody wants it any more.
pub fn find_out(
    stage: Stage,
    recording: &Recording,
    source: Option<&Path>,
    facts: &Facts,
    progress: &Progress,
) -> Result<Part, Cancelled> {
    progress.check()?;
    Ok(match stage {
        Stage::Timeline => {
            let kept = facts.kept_timeline.as_ref().and_then(KeptTimeline::read);
            match (kept, map_of(recording)) {
                (Some(t), _) => timeline_part(t),
                (None, Some(map)) => timeline_part(timeline::derive(recording, map, progress)?),
                (None, None) => Part::Timeline(Box::default()),
            }
        }
        Stage::Registers => Part::Registers(by_register(recording, progress)?),
        Stage::Chains => Part::Chains(
            jobs::chains(recording, &facts.jobs, progress)?,
            recording.chain_reports(),
        ),
        Stage::Spaces => Part::Spaces(spaces::spaces(recording, progress)?),
        Stage::Findings => Part::Findings(check::check_with(recording, progress)?),
        Stage::File => Part::File(damage(source, progress)?),
    })
}

/// What of the file that a recording was read from is damaged. A file that cannot be read any more is.
fn damage(source: Option<&Path>, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    let Some(source) = source else { return Ok(Vec::new()) };
    match check::file(source, progress) {
        Ok(findings) => Ok(findings),
        Err(ContainerError::Cancelled(c)) => Err(c),
        Err(e) => {
            let place = source.display().to_string();
            Ok(vec![Finding::new(FindingKind::DamagedSection, place, e.to_string())])
        }
    }
}

/// The accesses of each register, and its name.
fn by_register(recording: &Recording, progress: &Progress) -> Result<BTreeMap<u32, RegisterFact>, Cancelled> {
    let map = map_of(recording);
    let named = |(offset, accesses)| {
        let r = map.and_then(|m| m.at(offset));
        let fact = RegisterFact {
            name: r.map_or_else(|| format!("{offset:#06x}"), |r| r.name.clone()),
            block: r.map_or_else(|| "unknown".into(), |r| r.block.clone()),
            accesses,
        };
        (offset, fact)
    };
    let sorted = history::by_register(recording, map, progress)?;
    Ok(sorted.into_iter().map(named).collect())
}

fn timeline_part(t: Timeline) -> Part {
    let mut part = TimelinePart {
        polls: t
            .polls
            .iter()
            .map(|p| Fold {
                first: p.first,
                last: p.last,
                reads: p.reads,
                offset: p.offset,
            })
            .collect(),
        interrupts: t
            .interrupts
            .iter()
            .map(|i| Interrupt {
                event: i.event,
                line: i.line.name(),
                status: i.status,
            })
            .collect(),
        jobs: t
            .jobs
            .iter()
            .map(|j| JobFact {
                index: j.index,
                slot: j.slot,
                submit: j.submit_event,
                done: j.done_event,
                head_va: j.head_va.0,
                duration_ns: j.done_ns.map(|d| d.saturating_sub(j.submit_ns)),
                failed: j.failed,
                chain: Arc::default(),
                end: None,
                space: None,
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
    };
    part.interrupts.sort_by_key(|i| i.event);
    Part::Timeline(Box::new(part))
}
