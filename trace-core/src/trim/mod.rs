//! A recording cut down to some of its jobs, or to a range of its events, so that what is left replays.
//!
//! What a job cannot do without stays: power, reset, address spaces and interrupt masks, the page tables as they change,
//! and the memory that the kept jobs reach. Nothing is made up: every event that is kept is as it was recorded, and only
//! its number changes.

mod facts;
mod memory;
mod parts;
#[cfg(test)]
mod tests;

pub use facts::{CUTS, Cut};
pub use parts::JobParts;

use crate::progress::{Cancelled, Progress};
use crate::recording::{DamagedBlock, EventKind, EventsBuilder, HostWriteRow, Page, PhysAddr, Recording};
use crate::registers::RegisterMap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Events between two looks at whether the work was cancelled.
const CHECK_EVERY: usize = 4096;

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Jobs by their numbers, with what they need of the rest.
    Jobs(BTreeSet<u32>),
    /// These events and no others; memory as it stood before the first.
    Events(RangeInclusive<u64>),
}

/// Bytes that a job which is left out had written and that a kept one reads, where they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuppliedBytes {
    /// Number of the job that wrote them.
    pub job: u32,
    /// Physical address of the first; they lie in one page.
    pub at: PhysAddr,
    /// How many, at least 1.
    pub bytes: u32,
    /// An image of the page with them in place; pieces of one page share it.
    pub page: Arc<Page>,
}

/// How a recording is cut.
#[derive(Clone, Debug)]
pub struct TrimRequest {
    /// What is kept.
    pub part: Part,
    /// Events that are left out besides.
    pub without: BTreeSet<u64>,
    /// The only frames of data (address / 4096) whose contents are kept; `None`: all that the kept jobs reach.
    pub frames: Option<BTreeSet<u64>>,
    /// What jobs that are left out had written, put where they ended.
    pub supplied: Vec<SuppliedBytes>,
    /// What the cut calls the recording that it was made from: the name of its file.
    pub source: String,
}

impl TrimRequest {
    /// A cut to a part, with nothing special about it.
    #[must_use]
    pub fn new(part: Part, source: impl Into<String>) -> Self {
        Self {
            part,
            without: BTreeSet::new(),
            frames: None,
            supplied: Vec::new(),
            source: source.into(),
        }
    }
}

/// Why a recording cannot be cut.
#[derive(Debug, thiserror::Error)]
pub enum TrimError {
    /// The recording has no jobs.
    #[error(
        "the recording has no jobs that could be chosen; choose events instead (--events A..=B; it has {events}, counted from 0)"
    )]
    NoJobs {
        /// Events that it has.
        events: u64,
    },
    /// Nothing is chosen.
    #[error("nothing is chosen: a range is FIRST..LAST, both included, the first not behind the last")]
    Nothing,
    /// A job does not exist.
    #[error("job {job} does not exist (the recording has {jobs}, counted from 0)")]
    NoSuchJob {
        /// Its number.
        job: u32,
        /// Jobs that there are.
        jobs: u64,
    },
    /// An event does not exist.
    #[error("event {event} does not exist (the recording has {events}, counted from 0)")]
    NoSuchEvent {
        /// Its number.
        event: u64,
        /// Events that there are.
        events: u64,
    },
    /// Some of it does not have its digest: it would be written with a new one that is right.
    #[error("{block}, so the recording is not cut; `kinescope verify` lists all that is damaged")]
    Damaged {
        /// The first damaged block.
        block: Box<DamagedBlock>,
    },
    /// Snapshots of the part stand on ones before it, and each would have to tell all of memory.
    #[error(
        "the snapshots of the part stand on ones before it, and told whole they have more than {most} runs of frames; choose a shorter part, or one from the first event on"
    )]
    Snapshots {
        /// The most that is made.
        most: u64,
    },
    /// What jobs that are left out wrote is too much to be put in.
    #[error(
        "what jobs that are left out wrote and kept ones read lies in {pages} pages, and {most} are supplied at most; keep the jobs (without --needs bytes) or choose fewer"
    )]
    TooMuchSupplied {
        /// Pages that it lies in.
        pages: u64,
        /// The most.
        most: u64,
    },
    /// Nobody wants it any more.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// What became of a recording, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrimSummary {
    /// Jobs that the recording had.
    pub jobs: u64,
    /// Jobs that stayed, by their old numbers.
    pub jobs_kept: Vec<u32>,
    /// Events before and after.
    pub events: [u64; 2],
    /// Of the events that went, those of submits, their interrupts and what is read meanwhile.
    pub job_events_out: u64,
    /// Of the events that went, pieces of memory that the CPU wrote.
    pub host_writes_out: u64,
    /// Pieces of memory that stand for what jobs that are left out had written.
    pub supplied: u64,
    /// Frames with contents in all snapshots together, before and after.
    pub frames: [u64; 2],
    /// Page images before and after, that of zeros not counted.
    pub pages: [u64; 2],
    /// Extras that do not hold for the part, by name.
    pub extras_out: Vec<String>,
}

/// A recording that was cut.
#[derive(Clone, Debug)]
pub struct TrimResult {
    /// What is left.
    pub recording: Recording,
    /// For each event that is left its old number; those that stand for what jobs wrote have that of the event behind
    /// them.
    pub events: Vec<u64>,
    /// What became of it.
    pub summary: TrimSummary,
}

/// Cuts a recording. One of which nothing goes is given back as it is.
///
/// # Errors
/// When what is chosen does not exist, some of it is damaged, or the work was cancelled.
pub fn trim(recording: &Recording, wanted: &TrimRequest, progress: &Progress) -> Result<TrimResult, TrimError> {
    let events = recording.events.len();
    let wanted = &extend_to_whole_writes(recording, wanted);
    let mut trim_summary = TrimSummary {
        events: [events as u64; 2],
        ..TrimSummary::default()
    };
    let parts = match RegisterMap::for_jobs_of(recording) {
        Some(map) => JobParts::new(recording, map, progress)?,
        None => JobParts::default(),
    };
    trim_summary.jobs = parts.len() as u64;
    let mut gone = match &wanted.part {
        Part::Jobs(jobs) => mark_dropped_for_jobs(jobs, &parts, events)?,
        Part::Events(range) => mark_dropped_for_range(range, events)?,
    };
    trim_summary.job_events_out = match &wanted.part {
        Part::Jobs(_) => gone.iter().filter(|g| **g).count() as u64,
        Part::Events(_) => 0,
    };
    for event in &wanted.without {
        let there = usize::try_from(*event).ok().and_then(|e| gone.get_mut(e));
        *there.ok_or(TrimError::NoSuchEvent {
            event: *event,
            events: events as u64,
        })? = true;
    }
    trim_summary.jobs_kept = match &wanted.part {
        Part::Jobs(jobs) => jobs.iter().copied().collect(),
        Part::Events(_) => parts.list_kept_jobs(&gone),
    };
    if !gone.contains(&true) && wanted.frames.is_none() && wanted.supplied.is_empty() {
        trim_summary.frames = [memory::frames(recording); 2];
        trim_summary.pages = [recording.memory.pages.len() as u64; 2];
        return Ok(TrimResult {
            recording: recording.clone(),
            events: (0..events as u64).collect(),
            summary: trim_summary,
        });
    }
    if let Some(block) = recording.find_damage(progress)? {
        return Err(TrimError::Damaged { block: Box::new(block) });
    }
    let plan = memory::Plan::new(recording, wanted, &parts, &trim_summary.jobs_kept, progress)?;
    for (event, gone) in gone.iter_mut().enumerate() {
        if let Some(row) = recording.events.host_write(event)
            && !*gone
            && !plan.is_write_kept(event as u64, &row)
        {
            *gone = true;
            trim_summary.host_writes_out += 1;
        }
    }
    build(recording, wanted, &parts, &plan, &gone, trim_summary, progress)
}

/// What the CPU wrote at once stays together: memory is known again only behind all of it.
fn extend_to_whole_writes(recording: &Recording, wanted: &TrimRequest) -> TrimRequest {
    let mut wanted = wanted.clone();
    if let Part::Events(range) = &mut wanted.part {
        let is_write = |e: u64| usize::try_from(e).is_ok_and(|e| recording.events.host_write(e).is_some());
        let mut first = *range.start();
        while !range.is_empty() && first > 0 && is_write(first) && is_write(first - 1) {
            first -= 1;
        }
        *range = first..=*range.end();
    }
    wanted
}

/// Which events go when these jobs stay.
fn mark_dropped_for_jobs(jobs: &BTreeSet<u32>, parts: &JobParts, events: usize) -> Result<Vec<bool>, TrimError> {
    if parts.is_empty() {
        return Err(TrimError::NoJobs { events: events as u64 });
    }
    if jobs.is_empty() {
        return Err(TrimError::Nothing);
    }
    if let Some(job) = jobs.iter().find(|j| **j as usize >= parts.len()) {
        return Err(TrimError::NoSuchJob {
            job: *job,
            jobs: parts.len() as u64,
        });
    }
    Ok(parts.mark_dropped_events(jobs))
}

/// Which events go when a range of them stays.
fn mark_dropped_for_range(range: &RangeInclusive<u64>, events: usize) -> Result<Vec<bool>, TrimError> {
    if range.is_empty() {
        return Err(TrimError::Nothing);
    }
    if let Some(event) = [*range.start(), *range.end()].into_iter().find(|e| *e >= events as u64) {
        return Err(TrimError::NoSuchEvent {
            event,
            events: events as u64,
        });
    }
    Ok((0..events as u64).map(|e| !range.contains(&e)).collect())
}

/// Puts the rest together.
fn build(
    recording: &Recording,
    wanted: &TrimRequest,
    parts: &JobParts,
    plan: &memory::Plan,
    gone: &[bool],
    mut told: TrimSummary,
    progress: &Progress,
) -> Result<TrimResult, TrimError> {
    progress.set_total(gone.len() as u64);
    let from = &recording.events;
    let mut pages = memory::Pages::new(recording);
    let mut to = EventsBuilder::new();
    let mut old = Vec::new();
    // New number of the first event at or behind each.
    let mut numbers = Vec::with_capacity(gone.len() + 1);
    let mut supplied: BTreeMap<u64, Vec<&SuppliedBytes>> = BTreeMap::new();
    for s in &wanted.supplied {
        supplied.entry(parts.end_event(s.job)).or_default().push(s);
    }
    for (event, gone) in gone.iter().enumerate() {
        if event % CHECK_EVERY == 0 {
            progress.advance(if event == 0 { 0 } else { CHECK_EVERY as u64 })?;
        }
        numbers.push(to.len() as u64);
        let time = from.time.get(event).unwrap_or(0);
        let thread = from.thread.get(event).unwrap_or(0);
        for s in supplied.remove(&(event as u64)).unwrap_or_default() {
            to.host_write(time, thread, pages.supplied(s));
            old.push(event as u64);
            told.supplied += 1;
        }
        if *gone {
            continue;
        }
        let row = from.payload.get(event).unwrap_or(0) as usize;
        let before = to.len();
        match from.kind(event) {
            Some(EventKind::Read | EventKind::Write) => {
                if let Some(a) = from.access(event) {
                    to.access(time, thread, a);
                }
            }
            Some(EventKind::Interrupt) => from.interrupts.get(row).into_iter().for_each(|r| to.interrupt(time, r)),
            Some(EventKind::Mark) => from.marks.get(row).into_iter().for_each(|m| to.mark(time, m.clone())),
            Some(EventKind::Submit) => from.submits.get(row).into_iter().for_each(|r| to.submit(time, r)),
            Some(EventKind::HostWrite) => {
                if let Some(r) = from.host_writes.get(row) {
                    let page = pages.of(crate::recording::PageId(r.page)).0;
                    to.host_write(time, thread, HostWriteRow { page, ..r });
                }
            }
            Some(EventKind::Undecoded) => {
                let space = from.space.get(event).unwrap_or(0);
                from.undecoded
                    .get(row)
                    .into_iter()
                    .for_each(|r| to.undecoded(time, thread, space, r));
            }
            Some(EventKind::DmaMap) => from
                .dma_maps
                .get(row)
                .into_iter()
                .for_each(|r| to.dma_map(time, thread, r)),
            // A part of a recording of calls is chosen by its launches, not by jobs: what it names is kept whole.
            Some(_) => from.call(event).into_iter().for_each(|c| to.push_call(time, thread, c)),
            // A kind that this version does not know cannot be written anew.
            None => {}
        }
        if to.len() > before {
            old.push(event as u64);
        }
    }
    for s in supplied.into_values().flatten() {
        to.host_write(from.time.iter().last().unwrap_or(0), 0, pages.supplied(s));
        old.push(gone.len() as u64);
        told.supplied += 1;
    }
    numbers.push(to.len() as u64);
    let (memory, frames) = plan.build(recording, &numbers, pages, progress)?;
    told.frames = frames;
    told.pages = [recording.memory.pages.len() as u64, memory.pages.len() as u64];
    told.events = [gone.len() as u64, to.len() as u64];
    let mut out = Recording {
        facts: recording.facts.clone(),
        events: to.finish(),
        memory,
        extras: recording.extras.clone(),
        opened_from: recording.opened_from.clone(),
        damage: recording.damage.clone(),
    };
    facts::remap(&mut out, recording, wanted, &numbers, gone, &mut told);
    Ok(TrimResult {
        recording: out,
        events: old,
        summary: told,
    })
}
