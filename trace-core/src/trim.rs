//! Cuts of a recording to some of its jobs, or to a range of its events, so that the rest replays.
//!
//! The requirements of a job stay: power, reset, address spaces and interrupt masks, page table changes, and the memory
//! that the kept jobs access. Nothing is invented: every kept event is as recorded, and only its number changes.

mod calls;
mod memory;
mod metadata;
mod pages;
mod parts;
#[cfg(test)]
mod tests;

pub use parts::JobParts;

use crate::PhysAddr;
use crate::progress::{Cancelled, Progress};
use crate::recording::{
    Api, DamagedBlock, EventKind, EventsBuilder, HostWriteRow, Page, Recording, RingEntryRow, SavedMemoryRow, TraceKind,
};
use crate::registers::RegisterMap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Number of events between two checks for cancellation.
const CHECK_EVERY: usize = 4096;

/// The part to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Jobs by number, with everything that they need.
    Jobs(BTreeSet<u32>),
    /// These events only, with memory as it was before the first.
    Events(RangeInclusive<u64>),
}

/// Known bytes that a removed job wrote and that a kept job reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuppliedBytes {
    /// Number of the job that wrote them.
    pub job: u32,
    /// Physical address of the first byte; all bytes are in one page.
    pub at: PhysAddr,
    /// Number of bytes, at least 1.
    pub bytes: u32,
    /// An image of the page that contains them; pieces of one page share it.
    pub page: Arc<Page>,
}

/// The parameters of a cut.
#[derive(Clone, Debug)]
pub struct TrimRequest {
    /// The part to keep.
    pub part: Part,
    /// Additional events to remove.
    pub without: BTreeSet<u64>,
    /// The only data frames (address / 4096) whose contents are kept; `None`: all that the kept jobs access.
    pub frames: Option<BTreeSet<u64>>,
    /// Output of removed jobs, inserted where they ended.
    pub supplied: Vec<SuppliedBytes>,
    /// Name of the source recording in the cut's record: its file name.
    pub source: String,
}

impl TrimRequest {
    /// Creates a cut to a part with default options.
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

/// The reason why a recording cannot be cut.
#[derive(Debug, thiserror::Error)]
pub enum TrimError {
    /// The recording has no jobs.
    #[error("the recording has no jobs; choose events instead (--events A..=B; it has {events}, counted from 0)")]
    NoJobs {
        /// Number of its events.
        events: u64,
    },
    /// The recording is a run of a WebAssembly program.
    #[error(
        "a part of a run of a WebAssembly program can be neither replayed nor compared; `kinescope wasm run --record` \
         with fewer inputs makes a smaller recording, and `kinescope events --where 'input = \"NAME\"'` lists a part of this one"
    )]
    WasmRun,
    /// Nothing is chosen.
    #[error("nothing is chosen: a range is FIRST..LAST, both included, and FIRST is not after LAST")]
    Nothing,
    /// A job does not exist.
    #[error("job {job} does not exist (the recording has {jobs}, counted from 0)")]
    NoSuchJob {
        /// Its number.
        job: u32,
        /// Number of existing jobs.
        jobs: u64,
    },
    /// An event does not exist.
    #[error("event {event} does not exist (the recording has {events}, counted from 0)")]
    NoSuchEvent {
        /// Its number.
        event: u64,
        /// Number of existing events.
        events: u64,
    },
    /// Some of it does not match its digest: writing it would give it a new, matching digest.
    #[error("{block}, so the recording cannot be cut; `kinescope verify` lists all damage")]
    Damaged {
        /// The first damaged block.
        block: Box<DamagedBlock>,
    },
    /// Snapshots of the part depend on earlier ones, and each would have to describe all memory.
    #[error(
        "the snapshots of the part depend on earlier ones; stored in full, they have more than {max} runs of frames. \
         Choose a shorter part, or one from the first event on"
    )]
    Snapshots {
        /// The maximum.
        max: u64,
    },
    /// The output of removed jobs is too large to insert.
    #[error(
        "the kept jobs read {pages} pages that removed jobs wrote, but at most {max} can be supplied; keep the jobs \
         (without --needs bytes) or choose fewer"
    )]
    TooMuchSupplied {
        /// Number of its pages.
        pages: u64,
        /// The maximum.
        max: u64,
    },
    /// The work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Statistics of a cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrimSummary {
    /// Number of jobs in the recording.
    pub jobs: u64,
    /// Kept jobs by their old numbers.
    pub jobs_kept: Vec<u32>,
    /// Number of events before and after.
    pub events: [u64; 2],
    /// Number of removed events of submits, their interrupts and related reads.
    pub job_events_out: u64,
    /// Number of removed CPU writes to memory.
    pub host_writes_out: u64,
    /// Number of pieces of memory that replace the output of removed jobs.
    pub supplied: u64,
    /// Number of frames with contents in all snapshots together, before and after.
    pub frames: [u64; 2],
    /// Number of page images before and after, without the page of zeros.
    pub pages: [u64; 2],
    /// Names of extras that do not apply to the part.
    pub extras_out: Vec<String>,
}

/// The result of a cut.
#[derive(Clone, Debug)]
pub struct TrimResult {
    /// The remaining recording.
    pub recording: Recording,
    /// The old number of each remaining event; events that replace the output of jobs have the number of the next
    /// event.
    pub events: Vec<u64>,
    /// Statistics.
    pub summary: TrimSummary,
}

/// Checks that a recording can be cut.
///
/// # Errors
/// [`TrimError::WasmRun`] for a run of a WebAssembly program.
pub fn check_kind(recording: &Recording) -> Result<(), TrimError> {
    match recording.api().is_some_and(|m| m.api == Api::Wasm) {
        true => Err(TrimError::WasmRun),
        false => Ok(()),
    }
}

/// Cuts a recording. A cut that removes nothing returns the recording unchanged.
///
/// # Errors
///
/// When the selection does not exist, some of it is damaged, or the work was cancelled.
pub fn trim(recording: &Recording, request: &TrimRequest, progress: &Progress) -> Result<TrimResult, TrimError> {
    check_kind(recording)?;
    let events = recording.events.len();
    let request = &extend_to_whole_writes(recording, request);
    let mut trim_summary = TrimSummary {
        events: [events as u64; 2],
        ..TrimSummary::default()
    };
    let parts = match RegisterMap::for_jobs_of(recording) {
        Some(map) => JobParts::new(recording, map, progress)?,
        None => JobParts::default(),
    };
    trim_summary.jobs = parts.len() as u64;
    let mut gone = match &request.part {
        Part::Jobs(jobs) => mark_dropped_for_jobs(jobs, &parts, events)?,
        Part::Events(range) => mark_dropped_for_range(range, events)?,
    };
    trim_summary.job_events_out = match &request.part {
        Part::Jobs(_) => gone.iter().filter(|g| **g).count() as u64,
        Part::Events(_) => 0,
    };
    for event in &request.without {
        let there = usize::try_from(*event).ok().and_then(|e| gone.get_mut(e));
        *there.ok_or(TrimError::NoSuchEvent {
            event: *event,
            events: events as u64,
        })? = true;
    }
    trim_summary.jobs_kept = match &request.part {
        Part::Jobs(jobs) => jobs.iter().copied().collect(),
        Part::Events(_) => parts.list_kept_jobs(&gone),
    };
    if !gone.contains(&true) && request.frames.is_none() && request.supplied.is_empty() {
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
    let plan = memory::Plan::new(recording, request, &parts, &trim_summary.jobs_kept, progress)?;
    for (event, gone) in gone.iter_mut().enumerate() {
        if let Some(row) = recording.events.host_write(event)
            && !*gone
            && !plan.is_write_kept(event as u64, &row)
        {
            *gone = true;
            trim_summary.host_writes_out += 1;
        }
    }
    build(recording, request, &parts, &plan, &gone, trim_summary, progress)
}

/// Keeps contiguous CPU writes together: memory is only known again after all of them.
fn extend_to_whole_writes(recording: &Recording, request: &TrimRequest) -> TrimRequest {
    let mut request = request.clone();
    if let Part::Events(range) = &mut request.part {
        let is_write = |e: u64| usize::try_from(e).is_ok_and(|e| recording.events.host_write(e).is_some());
        let mut first = *range.start();
        while !range.is_empty() && first > 0 && is_write(first) && is_write(first - 1) {
            first -= 1;
        }
        *range = first..=*range.end();
    }
    request
}

/// Marks the events to remove if these jobs stay.
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

/// Marks the events to remove if a range of them stays.
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

/// Builds the remaining recording.
fn build(
    recording: &Recording,
    request: &TrimRequest,
    parts: &JobParts,
    plan: &memory::Plan,
    gone: &[bool],
    mut summary: TrimSummary,
    progress: &Progress,
) -> Result<TrimResult, TrimError> {
    progress.set_total(gone.len() as u64);
    let from = &recording.events;
    let mut pages = pages::Pages::new(recording);
    let mut to = EventsBuilder::new();
    let mut old = Vec::new();
    // New number of the first kept event at or after each event.
    let mut numbers = Vec::with_capacity(gone.len() + 1);
    let mut supplied: BTreeMap<u64, Vec<&SuppliedBytes>> = BTreeMap::new();
    for s in &request.supplied {
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
            to.host_write(time, thread, supplied_write(s, &mut pages));
            old.push(event as u64);
            summary.supplied += 1;
        }
        if *gone {
            continue;
        }
        let before = to.len();
        copy_event(recording, event, &mut to, &mut pages);
        if to.len() > before {
            old.push(event as u64);
        }
    }
    for s in supplied.into_values().flatten() {
        to.host_write(from.time.iter().last().unwrap_or(0), 0, supplied_write(s, &mut pages));
        old.push(gone.len() as u64);
        summary.supplied += 1;
    }
    numbers.push(to.len() as u64);
    let mut metadata = recording.metadata.clone();
    if let TraceKind::Api(trace) = &mut metadata.kind {
        calls::renumber_modules(&mut trace.modules, &mut pages, progress)?;
    }
    let (memory, frames) = plan.build(recording, &numbers, pages, progress)?;
    summary.frames = frames;
    summary.pages = [recording.memory.pages.len() as u64, memory.pages.len() as u64];
    summary.events = [gone.len() as u64, to.len() as u64];
    let mut out = Recording {
        metadata,
        events: to.finish(),
        memory,
        extras: recording.extras.clone(),
        opened_from: recording.opened_from.clone(),
        damage: recording.damage.clone(),
    };
    metadata::remap(&mut out, recording, request, &numbers, gone, &mut summary);
    Ok(TrimResult {
        recording: out,
        events: old,
        summary,
    })
}

/// Appends an event of a recording. An event kind that this version does not know cannot be written again.
fn copy_event(recording: &Recording, event: usize, to: &mut EventsBuilder, pages: &mut pages::Pages<'_>) {
    let from = &recording.events;
    let time = from.time.get(event).unwrap_or(0);
    let thread = from.thread.get(event).unwrap_or(0);
    let row = from.payload.get(event).unwrap_or(0) as usize;
    let Some(kind) = from.kind(event) else { return };
    match kind {
        EventKind::Read | EventKind::Write => {
            if let Some(a) = from.access(event) {
                to.access(time, thread, a);
            }
        }
        EventKind::Interrupt => from.interrupts.get(row).into_iter().for_each(|r| to.interrupt(time, r)),
        EventKind::Mark => from.marks.get(row).into_iter().for_each(|m| to.mark(time, m.clone())),
        EventKind::Submit => from.submits.get(row).into_iter().for_each(|r| to.submit(time, r)),
        EventKind::HostWrite => {
            if let Some(r) = from.host_writes.get(row) {
                let page = pages.renumber(crate::recording::PageId(r.page)).0;
                to.host_write(time, thread, HostWriteRow { page, ..r });
            }
        }
        EventKind::Undecoded => {
            let space = from.space.get(event).unwrap_or(0);
            let rows = from.undecoded.get(row).into_iter();
            rows.for_each(|r| to.undecoded(time, thread, space, r));
        }
        EventKind::DmaMap => {
            let rows = from.dma_maps.get(row).into_iter();
            rows.for_each(|r| to.dma_map(time, thread, r));
        }
        EventKind::Object => from
            .objects
            .get(row)
            .into_iter()
            .for_each(|r| to.object(time, thread, r)),
        EventKind::RingEntry => {
            if let Some(r) = from.ring_entries.get(row) {
                let pages_at = calls::copy_content(recording, &r.stored(), to, pages);
                to.ring_entry(time, thread, RingEntryRow { pages_at, ..r });
            }
        }
        EventKind::SavedMemory => {
            if let Some(r) = from.saved_memory.get(row) {
                let pages_at = calls::copy_content(recording, &r.stored(), to, pages);
                to.saved_memory(time, thread, SavedMemoryRow { pages_at, ..r });
            }
        }
        _ => {
            if let Some(call) = from.call(event) {
                let call = calls::copy_call(recording, call, to, pages);
                to.push_call(time, thread, call);
            }
        }
    }
}

/// Returns the CPU write that supplies the bytes of a removed job.
fn supplied_write(s: &SuppliedBytes, pages: &mut pages::Pages<'_>) -> HostWriteRow {
    HostWriteRow {
        at: s.at,
        bytes: s.bytes,
        page: pages.add(&s.page).0,
    }
}
