//! MMIO region of the GPU: the unit at each offset, and the effect of an access.

use super::{SoftwareMali, UNITS};
use crate::address_space::CommandResult;
use crate::gpu_control::Effect;
use crate::interrupts::{IrqBlock, IrqRegister};
use crate::job_slot::{JobSlot, SlotAccess};
use crate::power::{self, Domain, PowerRegister};
use crate::registers::{gpu, job, mmu};

/// Result of an MMIO access.
pub(crate) enum MmioResult {
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

    /// Returns the interrupt register at an offset of the job or MMU block, which start with their interrupt registers.
    fn irq_register_from_0(offset: u32) -> Option<IrqRegister> {
        Self::irq_register(offset.checked_add(gpu::IRQ_RAWSTAT)?)
    }

    /// Splits an offset in a block of equal units into the unit's number and the offset in the unit, if the unit
    /// exists.
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

    fn read_gpu(&self, offset: u32) -> MmioResult {
        let of_irq = |v: Option<u32>| v.map_or(MmioResult::WriteOnly, MmioResult::Value);
        if let Some(r) = Self::irq_register(offset) {
            return of_irq(self.gpu.irq.read(r));
        }
        if offset == gpu::COMMAND {
            return MmioResult::WriteOnly;
        }
        if offset == gpu::STATUS {
            let jobs = self.slots.iter().any(JobSlot::is_active);
            return MmioResult::Value(self.gpu.status(jobs, self.power.in_transition()));
        }
        if let Some((domain, row, high)) = power::decode(offset) {
            let value = match row {
                PowerRegister::On | PowerRegister::Off => return MmioResult::WriteOnly,
                PowerRegister::Active => self.powered_work(domain),
                _ => self.power.value(domain, row).unwrap_or(0),
            };
            return MmioResult::Value(if high { (value >> 32) as u32 } else { value as u32 });
        }
        self.gpu
            .read(offset, self.now)
            .map_or(MmioResult::Hole, MmioResult::Value)
    }

    pub(crate) fn read_register(&self, offset: u32) -> MmioResult {
        let of_irq = |v: Option<u32>| v.map_or(MmioResult::WriteOnly, MmioResult::Value);
        if offset < job::BASE {
            return self.read_gpu(offset);
        }
        if let Some((n, at)) = Self::unit(offset, mmu::AS_BASE, mmu::AS_STRIDE, self.model.as_present) {
            let value = self.spaces.get(n).and_then(|s| s.read(at));
            return value.map_or(
                if at == 0x18 {
                    MmioResult::WriteOnly
                } else {
                    MmioResult::Hole
                },
                MmioResult::Value,
            );
        }
        if offset >= mmu::BASE {
            let r = Self::irq_register_from_0(offset - mmu::BASE);
            return r.map_or(MmioResult::Hole, |r| of_irq(self.mmu_irq.read(r)));
        }
        if let Some((n, at)) = Self::unit(offset, job::SLOT_BASE, job::SLOT_STRIDE, self.model.js_present) {
            return match self.slots.get(n).map(|s| s.read(at)) {
                Some(Ok(v)) => MmioResult::Value(v),
                Some(Err(true)) => MmioResult::WriteOnly,
                Some(Err(false)) | None => MmioResult::Hole,
            };
        }
        match offset - job::BASE {
            job::JS_STATE => MmioResult::Value(self.js_state),
            job::THROTTLE => MmioResult::Value(self.throttle),
            at => Self::irq_register_from_0(at).map_or(MmioResult::Hole, |r| of_irq(self.job_irq.read(r))),
        }
    }

    fn write_gpu(&mut self, offset: u32, value: u32) -> MmioResult {
        match Self::irq_register(offset) {
            Some(IrqRegister::RawStat) => self.gpu.irq.raise(value),
            Some(IrqRegister::Clear) => self.gpu.clear_irq(value),
            Some(IrqRegister::Mask) => self.gpu.irq.mask = value,
            Some(IrqRegister::Status) => return MmioResult::ReadOnly,
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
                        _ => return MmioResult::ReadOnly,
                    }
                } else if !self.gpu.write_register(offset, value) {
                    // A register that can be read but is none of these is read-only.
                    return if matches!(self.read_gpu(offset), MmioResult::Hole) {
                        MmioResult::Hole
                    } else {
                        MmioResult::ReadOnly
                    };
                }
            }
        }
        MmioResult::Done
    }

    fn write_block(block: &mut IrqBlock, register: Option<IrqRegister>, value: u32) -> MmioResult {
        match register {
            // A driver's self-test of the line raises bits by hand.
            Some(IrqRegister::RawStat) => block.raise(value),
            Some(IrqRegister::Clear) => block.clear(value),
            Some(IrqRegister::Mask) => block.mask = value,
            Some(IrqRegister::Status) => return MmioResult::ReadOnly,
            None => return MmioResult::Hole,
        }
        MmioResult::Done
    }

    fn write_space(&mut self, n: usize, at: u32, value: u32) -> MmioResult {
        let Some(space) = self.spaces.get_mut(n) else {
            return MmioResult::Hole;
        };
        if at != 0x18 {
            let known = space.read(at).is_some();
            return match space.write(at, value) {
                true => MmioResult::Done,
                false if known => MmioResult::ReadOnly,
                false => MmioResult::Hole,
            };
        }
        match space.command(value, self.now) {
            CommandResult::Done => {}
            CommandResult::Flushed => self.gpu.count_flush(),
            CommandResult::Refused => self.anomalies.bad_commands += 1,
        }
        MmioResult::Done
    }

    fn write_slot(&mut self, n: usize, at: u32, value: u32) -> MmioResult {
        let Some(slot) = self.slots.get_mut(n) else {
            return MmioResult::Hole;
        };
        match slot.write(at, value, self.now) {
            SlotAccess::Done => {}
            SlotAccess::Start => self.begin_slot(n, self.now),
            SlotAccess::ReadOnly => return MmioResult::ReadOnly,
            SlotAccess::Hole => return MmioResult::Hole,
            SlotAccess::BadCommand => self.anomalies.bad_commands += 1,
        }
        MmioResult::Done
    }

    pub(crate) fn write_register(&mut self, offset: u32, value: u32) -> MmioResult {
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
            job::JS_STATE => return MmioResult::ReadOnly,
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
        MmioResult::Done
    }
}
