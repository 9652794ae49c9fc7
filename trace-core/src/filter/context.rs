//! What is found in events and not stored in them: jobs, polls, interrupts by their handlers; made fast to ask.

use super::register_tests::MatchCache;
use crate::recording::Access;
use crate::registers::{RecordedRegisters, Role};
use crate::timeline::Timeline;

/// A write that makes a job ready stands at most this many events before its submit.
pub const MAX_EVENTS_BEFORE_SUBMIT: u64 = 256;

/// Jobs that may run at once, as far as it is looked for one that is not done.
const AT_ONCE: usize = 8;

/// What was found in the events of a recording. All lists are in the order of the events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Derived {
    /// Jobs, by rising number.
    pub jobs: Vec<JobBounds>,
    /// First and last event of each poll, both included.
    pub polls: Vec<(u64, u64)>,
    /// Interrupts.
    pub interrupts: Vec<Interrupt>,
}

/// A job, from its submit to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobBounds {
    /// Job slot.
    pub slot: u8,
    /// The event that hands it to the GPU.
    pub submit: u64,
    /// First event of its interrupt's handler; `None` when it never ended.
    pub done: Option<u64>,
    /// GPU address of its chain.
    pub head_va: u64,
}

/// An interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// First event of its handler, or the interrupt event itself.
    pub event: u64,
    /// Line.
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
            head_va: j.head_va.0,
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
        }
    }
}

impl Derived {
    /// The job that runs at an event: submitted at or before it, not yet done before it.
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

/// Stands for no job.
pub(super) const NO_JOB: u32 = u32::MAX;

/// Which job events belong to: the one that a write makes ready, or the one that runs. What a filter calls `job`, for
/// all that ask.
#[derive(Debug)]
pub struct Jobs {
    /// From which event on which job runs.
    pieces: Vec<(u64, u32)>,
    /// Jobs of each slot with their submits.
    slots: Vec<Vec<(u64, u32)>>,
    device: Option<RecordedRegisters>,
    /// Slot of the registers that the next submit takes up.
    memo: MatchCache,
}

/// What [`MatchCache`] keeps of a place that makes no job ready.
const NO_SLOT: u8 = 0xfe;

impl Jobs {
    /// The jobs that were found in a recording; `device`: its registers, which tell what makes a job ready.
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

    /// The job that an event belongs to; `access`: what the event is, where it is an access.
    #[must_use]
    pub fn job(&self, event: u64, access: Option<&Access>) -> Option<u32> {
        let running = || {
            let n = self.pieces.partition_point(|p| p.0 <= event).checked_sub(1)?;
            self.pieces.get(n).map(|p| p.1).filter(|job| *job != NO_JOB)
        };
        access.and_then(|a| self.prepared_job(event, a)).or_else(running)
    }

    /// Whether a write can make a job ready.
    pub(super) fn can_prepare(&self) -> bool {
        self.device.is_some() && !self.slots.is_empty()
    }

    /// Writes the job that runs at each event from `first` on.
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

    /// The job that a write makes ready: its slot's next submit takes up what the write says of head, cores,
    /// configuration or flush id.
    pub(super) fn prepared_job(&self, event: u64, access: &Access) -> Option<u32> {
        let device = self.device?;
        if !access.write || access.space != device.space() {
            return None;
        }
        let slot = self.memo.get(access.offset, access.width, |offset, width| {
            let register = device.map().find_accessed(offset, width);
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
