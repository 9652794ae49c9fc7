//! The register window: which unit answers at which offset, and what an access to it does.

use crate::address_space::CommandResult;
use crate::device::{SoftwareMali, UNITS};
use crate::gpu_control::Effect;
use crate::interrupts::{IrqBlock, IrqRegister};
use crate::job_slot::{JobSlot, SlotAccess};
use crate::power::{self, Domain, PowerRegister};
use crate::registers::{gpu, job, mmu};

/// What an access met.
pub(crate) enum Met {
    Value(u32),
    WriteOnly,
    ReadOnly,
    Hole,
    Done,
}

impl SoftwareMali {
    fn irq_register(offset: u32) -> Option<IrqRegister> {
        Some(match offset {
            gpu::IRQ_RAWSTAT => IrqRegister::RawStat,
            gpu::IRQ_CLEAR => IrqRegister::Clear,
            gpu::IRQ_MASK => IrqRegister::Mask,
            gpu::IRQ_STATUS => IrqRegister::Status,
            _ => return None,
        })
    }

    /// The interrupt register at an offset of the job or MMU block, whose interrupt registers come first.
    fn irq_register_from_0(offset: u32) -> Option<IrqRegister> {
        Self::irq_register(offset.checked_add(gpu::IRQ_RAWSTAT)?)
    }

    /// Splits an offset behind a block of equal units into number and rest, for a unit that is there.
    fn unit(offset: u32, base: u32, stride: u32, present: u32) -> Option<(usize, u32)> {
        let at = offset.checked_sub(base)?;
        let n = at / stride;
        (n < UNITS as u32 && present >> n & 1 != 0).then_some((n as usize, at % stride))
    }

    fn powered_work(&self, domain: Domain) -> u64 {
        let at_work = |n: usize| self.slots.get(n).is_some_and(JobSlot::is_active);
        let any = (0..UNITS).any(at_work);
        match domain {
            Domain::Tiler if at_work(1) => self.power.ready(domain),
            Domain::L2 if any => self.power.ready(domain),
            Domain::Shader => {
                let cores = self
                    .slots
                    .iter()
                    .filter(|s| s.is_active())
                    .fold(0, |c, s| c | s.current.affinity);
                cores & self.power.ready(domain)
            }
            _ => 0,
        }
    }

    fn read_gpu(&self, offset: u32) -> Met {
        let of_irq = |v: Option<u32>| v.map_or(Met::WriteOnly, Met::Value);
        if let Some(r) = Self::irq_register(offset) {
            return of_irq(self.gpu.irq.read(r));
        }
        if offset == gpu::COMMAND {
            return Met::WriteOnly;
        }
        if offset == gpu::STATUS {
            let jobs = self.slots.iter().any(JobSlot::is_active);
            return Met::Value(self.gpu.status(jobs, self.power.in_transition()));
        }
        if let Some((domain, row, high)) = power::decode(offset) {
            let value = match row {
                PowerRegister::On | PowerRegister::Off => return Met::WriteOnly,
                PowerRegister::Active => self.powered_work(domain),
                _ => self.power.value(domain, row).unwrap_or(0),
            };
            return Met::Value(if high { (value >> 32) as u32 } else { value as u32 });
        }
        self.gpu.read(offset, self.now).map_or(Met::Hole, Met::Value)
    }

    pub(crate) fn read_met(&self, offset: u32) -> Met {
        let of_irq = |v: Option<u32>| v.map_or(Met::WriteOnly, Met::Value);
        if offset < job::BASE {
            return self.read_gpu(offset);
        }
        if let Some((n, at)) = Self::unit(offset, mmu::AS_BASE, mmu::AS_STRIDE, self.model.as_present) {
            let value = self.spaces.get(n).and_then(|s| s.read(at));
            return value.map_or(if at == 0x18 { Met::WriteOnly } else { Met::Hole }, Met::Value);
        }
        if offset >= mmu::BASE {
            let r = Self::irq_register_from_0(offset - mmu::BASE);
            return r.map_or(Met::Hole, |r| of_irq(self.mmu_irq.read(r)));
        }
        if let Some((n, at)) = Self::unit(offset, job::SLOT_BASE, job::SLOT_STRIDE, self.model.js_present) {
            return match self.slots.get(n).map(|s| s.read(at)) {
                Some(Ok(v)) => Met::Value(v),
                Some(Err(true)) => Met::WriteOnly,
                Some(Err(false)) | None => Met::Hole,
            };
        }
        match offset - job::BASE {
            job::JS_STATE => Met::Value(self.js_state),
            job::THROTTLE => Met::Value(self.throttle),
            at => Self::irq_register_from_0(at).map_or(Met::Hole, |r| of_irq(self.job_irq.read(r))),
        }
    }

    fn write_gpu(&mut self, offset: u32, value: u32) -> Met {
        match Self::irq_register(offset) {
            Some(IrqRegister::RawStat) => self.gpu.irq.raise(value),
            Some(IrqRegister::Clear) => self.gpu.clear_irq(value),
            Some(IrqRegister::Mask) => self.gpu.irq.mask = value,
            Some(IrqRegister::Status) => return Met::ReadOnly,
            None if offset == gpu::COMMAND => match self.gpu.command(value, self.now) {
                Effect::None => {}
                Effect::Reset => self.reset_units(),
                Effect::Refused => self.anomalies.bad_commands += 1,
            },
            None => {
                if let Some((domain, row, high)) = power::decode(offset) {
                    let cores = u64::from(value) << if high { 32 } else { 0 };
                    match row {
                        PowerRegister::On => self.power.switch_on(domain, cores, self.now),
                        PowerRegister::Off => self.power.switch_off(domain, cores, self.now),
                        _ => return Met::ReadOnly,
                    }
                } else if !self.gpu.keep(offset, value) {
                    // What can be read but is none of these cannot be written.
                    return if matches!(self.read_gpu(offset), Met::Hole) {
                        Met::Hole
                    } else {
                        Met::ReadOnly
                    };
                }
            }
        }
        Met::Done
    }

    fn write_block(block: &mut IrqBlock, register: Option<IrqRegister>, value: u32) -> Met {
        match register {
            // A driver's self-test of the line raises bits by hand.
            Some(IrqRegister::RawStat) => block.raise(value),
            Some(IrqRegister::Clear) => block.clear(value),
            Some(IrqRegister::Mask) => block.mask = value,
            Some(IrqRegister::Status) => return Met::ReadOnly,
            None => return Met::Hole,
        }
        Met::Done
    }

    fn write_space(&mut self, n: usize, at: u32, value: u32) -> Met {
        let Some(space) = self.spaces.get_mut(n) else {
            return Met::Hole;
        };
        if at != 0x18 {
            let known = space.read(at).is_some();
            return match space.write(at, value) {
                true => Met::Done,
                false if known => Met::ReadOnly,
                false => Met::Hole,
            };
        }
        match space.command(value, self.now) {
            CommandResult::Done => {}
            CommandResult::Flushed => self.gpu.count_flush(),
            CommandResult::Refused => self.anomalies.bad_commands += 1,
        }
        Met::Done
    }

    fn write_slot(&mut self, n: usize, at: u32, value: u32) -> Met {
        let Some(slot) = self.slots.get_mut(n) else {
            return Met::Hole;
        };
        match slot.write(at, value, self.now) {
            SlotAccess::Done => {}
            SlotAccess::Start => self.begin_slot(n, self.now),
            SlotAccess::ReadOnly => return Met::ReadOnly,
            SlotAccess::Hole => return Met::Hole,
            SlotAccess::BadCommand => self.anomalies.bad_commands += 1,
        }
        Met::Done
    }

    pub(crate) fn write_met(&mut self, offset: u32, value: u32) -> Met {
        if offset < job::BASE {
            return self.write_gpu(offset, value);
        }
        if let Some((n, at)) = Self::unit(offset, mmu::AS_BASE, mmu::AS_STRIDE, self.model.as_present) {
            return self.write_space(n, at, value);
        }
        if offset >= mmu::BASE {
            let r = Self::irq_register_from_0(offset - mmu::BASE);
            return Self::write_block(&mut self.mmu_irq, r, value);
        }
        if let Some((n, at)) = Self::unit(offset, job::SLOT_BASE, job::SLOT_STRIDE, self.model.js_present) {
            return self.write_slot(n, at, value);
        }
        match offset - job::BASE {
            job::JS_STATE => return Met::ReadOnly,
            job::THROTTLE => self.throttle = value,
            at => {
                let r = Self::irq_register_from_0(at);
                if r == Some(IrqRegister::Clear) {
                    let bit =
                        |(n, s): (usize, &JobSlot)| u32::from(s.is_active()) << n | u32::from(s.queued) << (16 + n);
                    self.js_state = self.slots.iter().enumerate().map(bit).fold(0, |a, b| a | b);
                }
                return Self::write_block(&mut self.job_irq, r, value);
            }
        }
        Met::Done
    }
}
