//! Broadcom's V3D, from accesses to the registers of its core. It can be viewed, not replayed: a job is a control list
//! or a compute dispatch, whose content recordings do not hold.

use super::family::{EventRelation, Family, JobForm};
use super::submit_tracker::SubmitTracker;
use super::work::{InferredInterrupt, JobTracker, Mark, MarkKind, RegisterClass, ScannedEvents, TrackedWork};
use crate::GpuVa;
use crate::recording::{InterruptLine, MmuFormat, Recording};
use crate::registers::{Register, RegisterMap, register_space};
use std::collections::VecDeque;

/// Name of the register map.
const MAP: &str = "v3d";
/// The queues, by slot. The lowest bits of the address of a shader are flags; control lists may start at any byte.
const QUEUES: [Queue; 3] = [
    Queue::new("binning control list", ("CLE_CT0QBA", 0), "CLE_CT0QEA", 1),
    Queue::new("rendering control list", ("CLE_CT1QBA", 0), "CLE_CT1QEA", 0),
    Queue::new("compute dispatch", ("CSD_QUEUED_CFG5", 7), "CSD_QUEUED_CFG0", 7),
];
/// Registers of the interrupts: status and clear.
const INTERRUPTS: [&str; 2] = ["CTL_INT_STS", "CTL_INT_CLR"];
/// The core has one interrupt line.
const LINE: InterruptLine = InterruptLine::Job;

/// A queue of the core.
struct Queue {
    job_type: &'static str,
    /// Register of the address.
    head: &'static str,
    /// Bits of that register that are no part of the address.
    flags: u64,
    /// Register whose write starts the work.
    start: &'static str,
    /// Bit of the interrupt status for the end of the work.
    done_bit: u32,
}

impl Queue {
    const fn new(
        job_type: &'static str,
        (head, flags): (&'static str, u64),
        start: &'static str,
        done_bit: u32,
    ) -> Self {
        Self {
            job_type,
            head,
            flags,
            start,
            done_bit,
        }
    }

    /// Returns the address in a value of the register of the address.
    fn read_address(&self, value: u64) -> GpuVa {
        GpuVa::new(value & 0xffff_ffff & !self.flags)
    }
}

/// The family.
pub(super) struct V3d;

impl Family for V3d {
    fn name(&self) -> &'static str {
        "v3d"
    }

    fn title(&self) -> &'static str {
        "Broadcom V3D"
    }

    fn drivers(&self) -> &'static [&'static str] {
        &["v3d"]
    }

    /// The driver names its queues in its own events and in those of the scheduler.
    fn queue_job_type(&self, queue: &str) -> &'static str {
        match queue {
            "BCL" | "v3d_bin" => "binning control list",
            "RCL" | "v3d_render" => "rendering control list",
            "CSD" | "v3d_csd" => "compute dispatch",
            "TFU" | "v3d_tfu" => "texture conversion",
            "v3d_cache_clean" => "cache flush",
            "v3d_cpu" => "job of the CPU",
            _ => "job of the driver",
        }
    }

    fn has_recording(&self, _recording: &Recording, map: Option<&RegisterMap>) -> bool {
        map.is_some_and(|m| m.name() == MAP)
    }

    fn page_table_formats(&self) -> &'static [MmuFormat] {
        // Its page tables have one level (Linux: drivers/gpu/drm/v3d/v3d_mmu.c), which the walkers do not read.
        &[]
    }

    fn job_form(&self) -> JobForm {
        JobForm::ControlLists
    }

    fn job_type(&self, slot: u8) -> &'static str {
        QUEUES.get(usize::from(slot)).map_or("control list", |q| q.job_type)
    }

    fn read_job_address(&self, register: &Register, value: u64) -> Option<GpuVa> {
        let queue = QUEUES.iter().find(|q| q.head == register.name)?;
        Some(queue.read_address(value))
    }

    fn class_of(&self, register: &Register) -> RegisterClass {
        let name = register.name.as_str();
        match INTERRUPTS {
            [status, _] if name == status => return RegisterClass::Status(LINE),
            [_, clear] if name == clear => return RegisterClass::Handler(LINE),
            _ => {}
        }
        for (slot, queue) in (0u8..).zip(&QUEUES) {
            if name == queue.head {
                return RegisterClass::HeadLow(slot);
            }
            if name == queue.start {
                return RegisterClass::Command(slot);
            }
        }
        RegisterClass::Plain
    }

    fn track_jobs<'a>(&self, _scanned: ScannedEvents<'a>) -> Box<dyn JobTracker + 'a> {
        Box::new(QueueTracker::default())
    }

    fn relate_events(&self, recording: &Recording, map: &RegisterMap) -> Vec<EventRelation> {
        let space = register_space(recording, Some(map));
        let relate = |event| {
            let access = recording.events.access(event).filter(|a| a.space == space);
            let register = access.and_then(|a| Some((a.write, map.at(a.offset)?)));
            match register.map(|(write, r)| (write, self.class_of(r))) {
                Some((true, RegisterClass::HeadLow(slot))) => EventRelation::SlotWrite { slot, is_kept: true },
                Some((true, RegisterClass::Command(slot))) => EventRelation::SlotWrite { slot, is_kept: false },
                Some((false, RegisterClass::HeadLow(slot) | RegisterClass::Command(slot))) => {
                    EventRelation::SlotRead(slot)
                }
                Some((_, RegisterClass::Status(_) | RegisterClass::Handler(_))) => EventRelation::OfJob,
                _ => EventRelation::Unrelated,
            }
        };
        (0..recording.events.len()).map(relate).collect()
    }
}

/// Finds the jobs of the queues, and ends each at the next interrupt of its queue.
#[derive(Default)]
struct QueueTracker {
    submits: SubmitTracker,
    interrupts: Vec<InferredInterrupt>,
    /// By slot: the address of the next job.
    heads: [GpuVa; QUEUES.len()],
    /// By slot: jobs submitted and not ended.
    running: [VecDeque<usize>; QUEUES.len()],
}

impl JobTracker for QueueTracker {
    fn take(&mut self, mark: &Mark) {
        match mark.kind {
            MarkKind::Write {
                class: RegisterClass::HeadLow(slot),
                value,
            } => {
                let at = usize::from(slot);
                if let (Some(queue), Some(head)) = (QUEUES.get(at), self.heads.get_mut(at)) {
                    *head = queue.read_address(value);
                }
            }
            MarkKind::Write {
                class: RegisterClass::Command(slot),
                ..
            } => {
                let at = usize::from(slot);
                if let (Some(head), Some(running)) = (self.heads.get(at), self.running.get_mut(at)) {
                    running.push_back(self.submits.submit(mark, slot, *head));
                }
            }
            MarkKind::Handler { line, value, last } => {
                self.interrupts.push(InferredInterrupt {
                    event: mark.event,
                    last,
                    line,
                    status: value,
                });
                for (queue, running) in QUEUES.iter().zip(&mut self.running) {
                    if value >> queue.done_bit & 1 == 1
                        && let Some(job) = running.pop_front()
                    {
                        self.submits.end(job, mark);
                    }
                }
            }
            MarkKind::Write { .. } | MarkKind::Interrupt { .. } | MarkKind::Submit { .. } => self.submits.take(mark),
        }
    }

    // The registers of the core do not show what the driver did between jobs, so there are no phases.
    fn finish(self: Box<Self>) -> TrackedWork {
        let mut work = self.submits.into_work();
        work.interrupts.extend(self.interrupts);
        work
    }
}

#[cfg(test)]
mod tests {
    use crate::families::find_family_with;
    use crate::progress::Progress;
    use crate::recording::{Access, EventsBuilder, Recording};
    use crate::registers::RegisterMap;
    use crate::timeline::derive;

    #[test]
    fn writes_of_queues_are_jobs_until_their_interrupt() {
        let map = RegisterMap::by_name("v3d").unwrap();
        let mut events = EventsBuilder::new();
        for (time, (name, write, value)) in (0u64..).zip([
            ("CLE_CT0QBA", true, 0x1000),
            ("CLE_CT0QEA", true, 0x1100),
            ("CLE_CT1QBA", true, 0x2001),
            ("CLE_CT1QEA", true, 0x2100),
            ("CTL_INT_STS", false, 0b10),
            ("CTL_INT_CLR", true, 0b10),
            ("CTL_INT_STS", false, 0b01),
            ("CSD_QUEUED_CFG5", true, 0x3005),
            ("CSD_QUEUED_CFG0", true, 0x1_0000),
        ]) {
            let offset = map.find_by_name(name).unwrap().offset;
            let access = Access {
                space: 0,
                write,
                offset,
                width: 4,
                value,
            };
            events.access(time, 0, access);
        }
        let mut recording = Recording {
            events: events.finish(),
            ..Recording::default()
        };
        recording.metadata.spaces = vec![crate::recording::Space {
            name: map.space().to_owned(),
            kind: crate::recording::SpaceKind::Registers,
            bytes: 0x4000,
        }];
        let family = find_family_with(&recording, Some(map));
        assert!(family.page_table_formats().is_empty());
        let types = [0, 1, 2].map(|slot| family.job_type(slot));
        assert_eq!(
            types,
            ["binning control list", "rendering control list", "compute dispatch"]
        );
        let timeline = derive(&recording, map, &Progress::new()).unwrap();
        let jobs = timeline.jobs.iter();
        let jobs: Vec<_> = jobs
            .map(|j| (j.slot, j.submit_event, j.head_va.get(), j.done_event))
            .collect();
        assert_eq!(
            jobs,
            [(0, 1, 0x1000, Some(4)), (1, 3, 0x2001, Some(6)), (2, 8, 0x3000, None)]
        );
        assert_eq!((timeline.interrupts.len(), timeline.phases.len()), (2, 0));
    }
}
