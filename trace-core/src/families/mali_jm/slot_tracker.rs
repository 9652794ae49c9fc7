//! Jobs, interrupts and phases of a job manager, from writes to its slots and reads of its interrupt handlers.

use super::registers::{COMMAND_START, MODE, MODE_UNMAPPED};
use crate::GpuVa;
use crate::families::work::{
    InferredInterrupt, JobSpan, JobTracker, Mark, MarkKind, Phase, PhaseName, RegisterClass, ScannedEvents, TrackedWork,
};
use crate::recording::InterruptLine;
use std::collections::VecDeque;

/// Number of job slots with bits in a status word.
const SLOTS: usize = 16;

/// The state of a job slot.
#[derive(Default)]
struct Slot {
    head_low: u64,
    head_high: u64,
    /// Event of the first head write since the last start.
    head_event: Option<u64>,
    /// Jobs submitted and not ended.
    running: VecDeque<usize>,
}

/// Finds jobs, interrupts and phases.
///
/// A *job* starts at the write that starts a slot, and ends at the next interrupt of its slot; a slot executes its jobs
/// in order. An *interrupt* is a handler's read of a nonzero status register, or an interrupt event of the recording.
/// If one follows the other on the same line, they are one interrupt.
///
/// The *phases*: boot ends with the status reads after the interrupt of the last power-up before the first job. Compute
/// starts with the first job after which the driver no longer commands the address space while no job runs. Until then
/// it still maps memory between jobs for set-up. If not more jobs come after that point than before it, the driver maps
/// memory as its program proceeds, and compute starts with the first job. The rule uses no times, so it gives the same
/// result on a recording and on its replay at any speed. Teardown starts where translation is switched off after the
/// last job.
pub(super) struct SlotTracker<'a> {
    scanned: ScannedEvents<'a>,
    slots: [Slot; SLOTS],
    jobs: Vec<JobSpan>,
    /// For each job, the first event of its submission.
    prepared: Vec<u64>,
    interrupts: Vec<InferredInterrupt>,
    /// Interrupt events whose handler has not read its status yet, by line.
    waiting: [Option<InferredInterrupt>; 3],
    running: usize,
    /// Whether an address space was commanded while no job ran, since the last submit.
    idle_command: bool,
    /// The last job for which that was so.
    last_prepared_job: usize,
    power_pending: bool,
    boot_end: Option<u64>,
    translation_on: Option<u64>,
    teardown: Option<u64>,
}

impl<'a> SlotTracker<'a> {
    pub(super) fn new(scanned: ScannedEvents<'a>) -> Self {
        Self {
            scanned,
            slots: Default::default(),
            jobs: Vec::new(),
            prepared: Vec::new(),
            interrupts: Vec::new(),
            waiting: [None; 3],
            running: 0,
            idle_command: false,
            last_prepared_job: 0,
            power_pending: false,
            boot_end: None,
            translation_on: None,
            teardown: None,
        }
    }

    fn time(&self, event: u64, otherwise: u64) -> u64 {
        usize::try_from(event)
            .ok()
            .and_then(|e| self.scanned.events.time.get(e))
            .unwrap_or(otherwise)
    }

    fn write(&mut self, mark: &Mark, class: RegisterClass, value: u64) {
        match class {
            RegisterClass::HeadLow(n) | RegisterClass::HeadHigh(n) => {
                if let Some(slot) = self.slots.get_mut(usize::from(n)) {
                    slot.head_event.get_or_insert(mark.event);
                    let half = if matches!(class, RegisterClass::HeadLow(_)) {
                        &mut slot.head_low
                    } else {
                        &mut slot.head_high
                    };
                    *half = value & 0xffff_ffff;
                }
            }
            RegisterClass::Command(n) if value == COMMAND_START => {
                let Some(slot) = self.slots.get_mut(usize::from(n)) else {
                    return;
                };
                let head = GpuVa::new(slot.head_high << 32 | slot.head_low);
                let prepared = slot.head_event.take().unwrap_or(mark.event);
                self.submit(mark, n, head, prepared);
            }
            RegisterClass::AsCommand if self.running == 0 => self.idle_command = true,
            RegisterClass::TransCfg if value & MODE == MODE_UNMAPPED => self.off(mark.event),
            RegisterClass::RootLow if value == 0 => self.off(mark.event),
            RegisterClass::TransCfg | RegisterClass::RootLow => {
                self.translation_on.get_or_insert(mark.event);
            }
            RegisterClass::PowerOn if self.jobs.is_empty() => self.power_pending = true,
            _ => {}
        }
    }

    /// Records that translation was switched off; it counts if no job follows.
    fn off(&mut self, event: u64) {
        if !self.jobs.is_empty() {
            self.teardown.get_or_insert(event);
        }
    }

    fn submit(&mut self, mark: &Mark, slot: u8, head: GpuVa, prepared: u64) {
        let index = self.jobs.len();
        self.jobs.push(JobSpan {
            index: u32::try_from(index).unwrap_or(u32::MAX),
            slot,
            submit_event: mark.event,
            done_event: None,
            head_va: head,
            submit_ns: mark.time,
            done_ns: None,
            failed: false,
        });
        self.prepared.push(prepared);
        if std::mem::take(&mut self.idle_command) {
            self.last_prepared_job = index;
        }
        self.teardown = None;
        if let Some(s) = self.slots.get_mut(usize::from(slot)) {
            s.running.push_back(index);
            self.running += 1;
        }
    }

    fn interrupt(&mut self, interrupt: InferredInterrupt, new: u64, time: u64) {
        self.interrupts.push(interrupt);
        self.end_jobs(interrupt.line, new, interrupt.event, time);
        if interrupt.line == InterruptLine::Gpu && self.power_pending && self.jobs.is_empty() {
            self.boot_end = Some((self.scanned.group_end)(interrupt.last));
        }
    }

    fn end_jobs(&mut self, line: InterruptLine, status: u64, event: u64, time: u64) {
        if line != InterruptLine::Job {
            return;
        }
        for (n, slot) in self.slots.iter_mut().enumerate() {
            let failed = status >> (16 + n) & 1 == 1;
            if status >> n & 1 == 0 && !failed {
                continue;
            }
            if let Some(job) = slot.running.pop_front().and_then(|i| self.jobs.get_mut(i)) {
                self.running = self.running.saturating_sub(1);
                (job.done_event, job.done_ns, job.failed) = (Some(event), Some(time), failed);
            }
        }
    }

    fn phases(&self, events: u64) -> Vec<Phase> {
        let Some(end) = events.checked_sub(1) else {
            return Vec::new();
        };
        let first_job = self.prepared.first().copied();
        let after_boot = match (self.boot_end, self.translation_on, first_job) {
            (Some(last), _, _) => last + 1,
            (None, Some(on), Some(job)) => on.min(job),
            (None, None, Some(job)) => job,
            (None, _, None) => events,
        };
        let set_up = self.last_prepared_job;
        let first_computing = if self.jobs.len().saturating_sub(set_up) > set_up {
            set_up
        } else {
            0
        };
        let compute = self.prepared.get(first_computing).copied().unwrap_or(events);
        let teardown = self.teardown.unwrap_or(events);
        let starts = [
            (PhaseName::Boot, 0),
            (PhaseName::Setup, after_boot),
            (PhaseName::Compute, compute),
            (PhaseName::Teardown, teardown),
        ];
        let mut phases = Vec::new();
        for (i, (name, first)) in starts.iter().enumerate() {
            let next = starts
                .get(i + 1..)
                .into_iter()
                .flatten()
                .map(|s| s.1)
                .min()
                .unwrap_or(events);
            if *first < next && *first <= end {
                phases.push(Phase {
                    name: *name,
                    first: *first,
                    last: next.min(events) - 1,
                });
            }
        }
        phases
    }
}

impl JobTracker for SlotTracker<'_> {
    fn take(&mut self, mark: &Mark) {
        match mark.kind {
            MarkKind::Handler { line, value, last } => {
                // The handler repeats an interrupt event.
                let inferred_interrupt = self.waiting.get_mut(line as usize).and_then(Option::take);
                let event = inferred_interrupt.map_or(mark.event, |w| w.event);
                let time = if inferred_interrupt.is_some() {
                    self.time(event, mark.time)
                } else {
                    mark.time
                };
                let new = value & !inferred_interrupt.map_or(0, |w| w.status);
                self.interrupt(
                    InferredInterrupt {
                        event,
                        last,
                        line,
                        status: value,
                    },
                    new,
                    time,
                );
            }
            MarkKind::Interrupt { line, status } => {
                let new = InferredInterrupt {
                    event: mark.event,
                    last: mark.event,
                    line,
                    status,
                };
                let before = self.waiting.get_mut(line as usize).and_then(|w| w.replace(new));
                self.interrupts.extend(before);
                // The job has ended here, whether or not a handler reads the status.
                self.end_jobs(line, status, mark.event, mark.time);
            }
            MarkKind::Submit { head, slot } => self.submit(mark, slot, head, mark.event),
            MarkKind::Write { class, value } => self.write(mark, class, value),
        }
    }

    fn finish(self: Box<Self>) -> TrackedWork {
        let phases = self.phases(self.scanned.events.len() as u64);
        let mut interrupts = self.interrupts;
        interrupts.extend(self.waiting.into_iter().flatten());
        TrackedWork {
            interrupts,
            jobs: self.jobs,
            phases,
        }
    }
}
