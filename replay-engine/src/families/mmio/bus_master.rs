//! Rules for a bus-mastering device: its addresses are in the plan's own pages, and memory in use does not change.

use crate::plan::{
    Bus, BusError, DeviceMemory, Effect, PageSource, PlanMemory, PlannedAccesses, PollEnd, RegisterAccess, is_within,
};
use crate::rules::{MAX_CHANGED, Reason, Refusal, Work, budget_exceeded, check_images, hex, refuse};
use replay_core::Action;
use trace_core::recording::Page;
use trace_core::registers::RegisterMap;
use trace_core::{BusAddr, PAGE_SIZE, RegOffset};

/// Number of changed bytes that count as one step of the check.
const STEP_BYTES: u64 = 64;

/// The state of a device and the plan's memory along the body.
pub(super) struct BusMasterCheck<'a> {
    plan: PlannedAccesses<'a>,
    bus: Bus<'a>,
    memory: PlanMemory<'a>,
    images: Vec<&'a Page>,
    work: &'a Work<'a>,
}

/// The plan's used pages, as accessible to the device.
struct ReachableMemory<'w, 'a> {
    plan: PlannedAccesses<'a>,
    memory: &'w PlanMemory<'a>,
    work: &'a Work<'a>,
}

impl DeviceMemory for ReachableMemory<'_, '_> {
    fn page(&self, frame: u64) -> Option<&Page> {
        self.memory.page(frame)
    }

    fn holds(&self, at: BusAddr, bytes: u64) -> bool {
        let base = self.plan.accesses.arena.bus_base();
        let size = self.plan.accesses.used_pages.saturating_mul(PAGE_SIZE as u64);
        is_within(&(base..base.saturating_add(size)), at, bytes)
    }

    fn spend(&self, steps: u64) -> bool {
        self.work.spend(steps).is_ok()
    }
}

fn to_reason(BusError(why): BusError) -> Reason {
    Reason::BusMastering { why }
}

impl<'a> BusMasterCheck<'a> {
    /// Checks that the inputs of such a plan exist: images, an engine in the map, outputs and effects in its own pages.
    pub fn new(
        plan: PlannedAccesses<'a>,
        pages: &'a dyn PageSource,
        map: &'a RegisterMap,
        work: &'a Work<'a>,
    ) -> Result<Self, Refusal> {
        let bus = Bus::new(map).or_else(|t| refuse(2, "envelope", to_reason(t)))?;
        if !plan.accesses.allowed.is_empty() {
            let why = "ranges of unknown registers are allowed, and an unknown register may hold an address";
            return refuse(2, "envelope", to_reason(BusError(why.to_owned())));
        }
        check_images(plan, pages, work)?;
        let memory = PlanMemory::from_plan(plan.accesses, pages).map_err(|m| Refusal {
            rule: 2,
            place: format!("page {:#x}", m.frame),
            reason: Reason::PageMissing { digest: hex(&m.digest) },
        })?;
        let images = plan.envelope.change_images(pages).map_err(|(number, digest)| Refusal {
            rule: 2,
            place: format!("image {number}"),
            reason: Reason::PageMissing { digest: hex(&digest) },
        })?;
        let new = Self {
            plan,
            bus,
            memory,
            images,
            work,
        };
        new.outputs()?;
        Ok(new)
    }

    fn reachable_memory(&self) -> ReachableMemory<'_, 'a> {
        ReachableMemory {
            plan: self.plan,
            memory: &self.memory,
            work: self.work,
        }
    }

    /// Rule 6: checks that outputs and effects are in used pages.
    fn outputs(&self) -> Result<(), Refusal> {
        let plan = self.plan;
        for o in &plan.envelope.outputs {
            if o.bytes == 0 || !self.reachable_memory().holds(BusAddr::new(o.va.get()), o.bytes) {
                let reason = Reason::OutputUnmapped {
                    name: o.name.clone(),
                    va: o.va,
                };
                return refuse(6, format!("output `{}`", o.name), reason);
            }
            self.work
                .spend(o.bytes.div_ceil(PAGE_SIZE as u64))
                .or_else(|e| refuse(4, "outputs", e))?;
        }
        for (i, e) in plan.accesses.expectations.iter().enumerate() {
            if let Effect::Memory { offset, bytes, .. } = e.effect {
                let at = plan.accesses.arena.bus_base().checked_add(offset);
                if bytes == 0 || !at.is_some_and(|at| self.reachable_memory().holds(at, bytes)) {
                    let reason = Reason::MemoryOutside { offset, bytes };
                    return refuse(6, format!("expectation {i}"), reason);
                }
            }
        }
        Ok(())
    }

    /// Processes a register write.
    pub fn write(&mut self, touch: &RegisterAccess<'_>, value: u64) -> Result<(), Reason> {
        let own = ReachableMemory {
            plan: self.plan,
            memory: &self.memory,
            work: self.work,
        };
        self.bus.write(touch, value, &own).map(|_| ()).map_err(to_reason)
    }

    /// Processes a change of memory by the CPU.
    pub fn change(&mut self, action: &Action) -> Result<(), Reason> {
        let (offset, bytes, width) = match *action {
            Action::Put { offset, width, .. } => (offset, u32::from(width), u64::from(width)),
            Action::Copy {
                offset, bytes, image, ..
            } => {
                if self.images.get(image as usize).is_none() {
                    let images = self.images.len() as u64;
                    return Err(Reason::NoImage { image, images });
                }
                (offset, bytes, 1)
            }
            _ => return Ok(()),
        };
        let outside = Reason::ChangeOutside { offset, bytes };
        let end = (offset % PAGE_SIZE as u64).saturating_add(bytes.into());
        let at = self.plan.accesses.arena.bus_base().checked_add(offset);
        let Some(at) = at.filter(|at| self.reachable_memory().holds(*at, bytes.into())) else {
            return Err(outside);
        };
        if bytes == 0 || end > PAGE_SIZE as u64 || !offset.is_multiple_of(width.max(1)) {
            return Err(outside);
        }
        self.work.spend(self.bus.steps() + u64::from(bytes) / STEP_BYTES)?;
        self.bus.may_change(at, bytes.into()).map_err(to_reason)?;
        if !self.memory.apply(action, &self.images) {
            return Err(outside);
        }
        let changed = self.memory.changed_frames() as u64;
        if changed > MAX_CHANGED {
            return Err(budget_exceeded("frames that are changed in part", changed, MAX_CHANGED));
        }
        let own = ReachableMemory {
            plan: self.plan,
            memory: &self.memory,
            work: self.work,
        };
        self.bus.changed(at, bytes.into(), &own).map(|_| ()).map_err(to_reason)
    }

    /// Processes a register poll, which ends on a value or ends the run.
    pub fn observe_poll(&mut self, offset: u64, mask: u64, expected: u64) {
        if let Ok(offset) = u32::try_from(offset) {
            self.bus.observe_poll(PollEnd::Register {
                offset: RegOffset::new(offset),
                mask,
                expected,
            });
        }
    }

    /// Processes a poll of the plan's memory, which may only be a completion check of the device.
    pub fn observe_memory_poll(&mut self, offset: u64, width: u8, mask: u64, expected: u64) -> Result<(), Reason> {
        let at = self.plan.accesses.arena.bus_base().saturating_add(offset);
        let polled = PollEnd::Memory {
            at,
            width,
            mask,
            expected,
        };
        if self.bus.observe_poll(polled) {
            return Ok(());
        }
        Err(to_reason(BusError(format!(
            "the plan waits for {expected:#x} at {offset:#x} of the arena, which does not show that the device is done"
        ))))
    }

    /// Checks that the device has finished its work at the end: the pages are then removed, and another plan follows.
    pub fn finish(self, actions: u64) -> Result<(), Refusal> {
        if !self.bus.is_busy() {
            return Ok(());
        }
        let why = "the device may still be at work when the plan ends; the plan must wait until it is known to be done";
        refuse(
            2,
            format!("after action {actions}"),
            to_reason(BusError(why.to_owned())),
        )
    }
}
