//! Data found in events and not stored in them: jobs, polls, interrupts by their handlers; indexed for fast queries.

use super::register_tests::MatchCache;
use crate::recording::Access;
use crate::registers::{RecordedRegisters, Role};
use crate::timeline::Timeline;
use crate::{GpuVa, RegOffset};

/// Maximum distance of a write that prepares a job before its submit, in events.
pub const MAX_EVENTS_BEFORE_SUBMIT: u64 = 256;

/// Maximum number of concurrent jobs that are searched for one that is not done.
const AT_ONCE: usize = 8;

/// The data found in the events of a recording. All lists are in event order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Derived {
    /// Jobs in ascending order.
    pub jobs: Vec<JobBounds>,
    /// First and last event of each poll, inclusive.
    pub polls: Vec<(u64, u64)>,
    /// Interrupts.
    pub interrupts: Vec<Interrupt>,
    /// Inputs of a WebAssembly run, in their order. Only queries that need inputs use them.
    pub inputs: Vec<InputSpan>,
}

/// The events of a copy of a WebAssembly program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputSpan {
    /// Name of the copy's input.
    pub name: String,
    /// First and last event, inclusive.
    pub events: (u64, u64),
}

/// The events of a job from its submit to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobBounds {
    /// Job slot.
    pub slot: u8,
    /// The event that submits the job to the GPU.
    pub submit: u64,
    /// First event of the job's interrupt handler; `None` if the job never ended.
    pub done: Option<u64>,
    /// GPU address of the job's chain.
    pub head_va: GpuVa,
}

/// An interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// First event of the interrupt's handler, or the interrupt event itself.
    pub event: u64,
    /// Interrupt line.
    pub line: u32,
    /// Status bits that the handler read.
    pub status: u64,
}

impl From<&Timeline> for Derived {
    fn from(t: &Timeline) -> Self {
        let job = |j: &crate::timeline::JobSpan| JobBounds {
            slot: j.slot,
            submit: j.submit_event,
            done: j.done_event,
            head_va: j.head_va,
        };
        let interrupt = |i: &crate::timeline::InferredInterrupt| Interrupt {
            event: i.event,
            line: i.line as u32,
            status: i.status,
        };
        Self {
            jobs: t.jobs.iter().map(job).collect(),
            polls: t.polls.iter().map(|p| (p.first, p.last)).collect(),
            interrupts: t.interrupts.iter().map(interrupt).collect(),
            inputs: Vec::new(),
        }
    }
}

impl Derived {
    /// Returns the job that runs at an event: submitted at or before it, and not done before it.
    #[must_use]
    pub fn job_at(&self, event: u64) -> Option<u32> {
        let n = self.jobs.partition_point(|j| j.submit <= event);
        let first = n.saturating_sub(AT_ONCE);
        let open = self
            .jobs
            .get(first..n)?
            .iter()
            .rposition(|j| j.done.is_none_or(|d| event <= d))?;
        u32::try_from(first + open).ok()
    }
}

/// Value for no job.
pub(super) const NO_JOB: u32 = u32::MAX;

/// The job of each event: the one that a write prepares, or the one that runs. This defines `job` for filters and all
/// other users.
#[derive(Debug)]
pub struct Jobs {
    /// The first event of each interval, with the job that runs in it.
    pieces: Vec<(u64, u32)>,
    /// Jobs of each slot with their submits.
    slots: Vec<Vec<(u64, u32)>>,
    device: Option<RecordedRegisters>,
    /// Cached slot of the registers that the next submit uses.
    memo: MatchCache,
}

/// Value in the [`MatchCache`] for a location that prepares no job.
const NO_SLOT: u8 = 0xfe;

impl Jobs {
    /// Creates the index from the jobs found in a recording. `device` holds its registers, which determine what
    /// prepares a job.
    #[must_use]
    pub fn new(derived: &Derived, device: Option<RecordedRegisters>) -> Self {
        let done = |d: u64| d.saturating_add(1);
        let mut bounds: Vec<u64> = derived.jobs.iter().map(|j| j.submit).collect();
        bounds.extend(derived.jobs.iter().filter_map(|j| j.done.map(done)));
        bounds.sort_unstable();
        bounds.dedup();
        let mut pieces: Vec<(u64, u32)> = Vec::with_capacity(bounds.len());
        for b in bounds {
            let job = derived.job_at(b).unwrap_or(NO_JOB);
            if pieces.last().is_none_or(|p| p.1 != job) {
                pieces.push((b, job));
            }
        }
        let mut slots: Vec<Vec<(u64, u32)>> = Vec::new();
        for (j, n) in derived.jobs.iter().zip(0u32..) {
            let slot = usize::from(j.slot);
            if slots.len() <= slot {
                slots.resize_with(slot + 1, Vec::new);
            }
            if let Some(list) = slots.get_mut(slot) {
                list.push((j.submit, n));
            }
        }
        Self {
            pieces,
            slots,
            device,
            memo: MatchCache::new(device),
        }
    }

    /// Returns the job of an event; `access` is the event's access, if it is one.
    #[must_use]
    pub fn job(&self, event: u64, access: Option<&Access>) -> Option<u32> {
        let running = || {
            let n = self.pieces.partition_point(|p| p.0 <= event).checked_sub(1)?;
            self.pieces.get(n).map(|p| p.1).filter(|job| *job != NO_JOB)
        };
        access.and_then(|a| self.prepared_job(event, a)).or_else(running)
    }

    /// Returns whether a write can prepare a job.
    pub(super) fn can_prepare(&self) -> bool {
        self.device.is_some() && !self.slots.is_empty()
    }

    /// Writes the running job of each event from `first` on to `out`.
    pub(super) fn running(&self, first: u64, out: &mut [u32]) {
        let end = first.saturating_add(out.len() as u64);
        let mut n = self.pieces.partition_point(|p| p.0 <= first);
        let mut at = first;
        let mut job = n
            .checked_sub(1)
            .and_then(|n| self.pieces.get(n))
            .map_or(NO_JOB, |p| p.1);
        while at < end {
            let next = self.pieces.get(n);
            let stop = next.map_or(end, |p| p.0.min(end));
            if let Some(part) = out.get_mut((at - first) as usize..(stop - first) as usize) {
                part.fill(job);
            }
            at = stop;
            if let Some(p) = next {
                job = p.1;
                n += 1;
            }
        }
    }

    /// Returns the job that a write prepares: the next submit of its slot uses the head, cores, configuration or
    /// flush id that it sets.
    #[inline]
    pub(super) fn prepared_job(&self, event: u64, access: &Access) -> Option<u32> {
        let device = self.device?;
        if !access.write || access.space != device.space() {
            return None;
        }
        let slot = self.memo.get(access.offset.get(), access.width, |offset, width| {
            let register = device.map().find_accessed(RegOffset::new(offset), width);
            let next = [Role::JobHead, Role::JobAffinity, Role::JobConfig, Role::FlushId];
            let slot = register
                .filter(|r| r.replay.role.as_ref().is_some_and(|role| next.contains(role)))
                .and_then(|r| r.index);
            slot.filter(|s| *s < NO_SLOT).unwrap_or(NO_SLOT)
        });
        let list = self.slots.get(usize::from(slot))?;
        let n = list.partition_point(|(submit, _)| *submit < event);
        let (submit, job) = list.get(n)?;
        (submit - event <= MAX_EVENTS_BEFORE_SUBMIT).then_some(*job)
    }
}
