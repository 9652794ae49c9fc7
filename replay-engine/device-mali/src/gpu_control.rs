//! State of the GPU control block: resets, cache and counter commands, faults, and registers that keep a value.

use crate::counters::{CycleCounter, timestamp};
use crate::interrupts::IrqBlock;
use crate::model::ModelData;
use crate::registers::{exception, gpu};
use trace_core::PhysAddr;

/// Virtual time from a reset command to its interrupt, ns.
const RESET_NS: u64 = 30_000;
/// Virtual time of a clean of all caches, ns.
const CLEAN_NS: u64 = 5_000;
/// Virtual time of a sample of the performance counters, ns.
const SAMPLE_NS: u64 = 10_000;

/// Effect of a command on the rest of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// No effect.
    None,
    /// Every unit is reset.
    Reset,
    /// The command does not exist, or cannot be accepted now.
    Refused,
}

/// State of the GPU control block.
#[derive(Clone, Debug)]
pub(crate) struct GpuControl {
    model: &'static ModelData,
    pub irq: IrqBlock,
    /// Whether a reset command was issued since power-on.
    was_reset: bool,
    reset_at: Option<u64>,
    clean_at: Option<u64>,
    sample_at: Option<u64>,
    latest_flush: u32,
    protected: bool,
    fault_status: u32,
    fault_address: PhysAddr,
    cycles: CycleCounter,
    kept: [u32; gpu::KEPT.len()],
    l2_mmu_config: u32,
}

impl GpuControl {
    /// Whether no reset, cache clean or sampling goes on.
    pub fn is_idle(&self) -> bool {
        self.reset_at.is_none() && self.clean_at.is_none() && self.sample_at.is_none()
    }

    /// Creates the power-on state.
    pub(crate) fn new(model: &'static ModelData) -> Self {
        Self {
            model,
            irq: IrqBlock::default(),
            was_reset: false,
            reset_at: None,
            clean_at: None,
            sample_at: None,
            latest_flush: model.latest_flush,
            protected: false,
            fault_status: 0,
            fault_address: PhysAddr::ZERO,
            cycles: CycleCounter::default(),
            kept: [0; gpu::KEPT.len()],
            l2_mmu_config: 0,
        }
    }

    /// Returns the value of a register of this block that depends on no other unit.
    pub(crate) fn read(&self, offset: u32, now: u64) -> Option<u32> {
        let m = self.model;
        let cycles = self.cycles.value(now, m.core_mhz);
        Some(match offset {
            gpu::GPU_ID => m.gpu_id,
            gpu::AS_PRESENT => m.as_present,
            gpu::JS_PRESENT => m.js_present,
            gpu::LATEST_FLUSH => self.latest_flush,
            gpu::FAULTSTATUS => self.fault_status,
            gpu::FAULTADDRESS_LO => self.fault_address.get() as u32,
            gpu::FAULTADDRESS_HI => (self.fault_address.get() >> 32) as u32,
            gpu::CYCLE_COUNT_LO => cycles as u32,
            gpu::CYCLE_COUNT_HI => (cycles >> 32) as u32,
            gpu::TIMESTAMP_LO => timestamp(now) as u32,
            gpu::TIMESTAMP_HI => (timestamp(now) >> 32) as u32,
            gpu::COHERENCY_FEATURES if self.was_reset => m.coherency_after_reset,
            gpu::COHERENCY_FEATURES => m.coherency_at_power_on,
            gpu::L2_MMU_CONFIG => self.l2_mmu_config,
            _ => {
                if let Some(at) = gpu::KEPT.iter().position(|o| *o == offset) {
                    return self.kept.get(at).copied();
                }
                if let Some(at) = offset.checked_sub(gpu::JS_FEATURES).filter(|d| *d < 64 && d % 4 == 0) {
                    return m.js_features.get(at as usize / 4).copied();
                }
                let at = m.features.binary_search_by_key(&offset, |f| f.0).ok()?;
                return m.features.get(at).map(|f| f.1);
            }
        })
    }

    /// Stores a value if the register is one that keeps its value.
    pub(crate) fn write_register(&mut self, offset: u32, value: u32) -> bool {
        if offset == gpu::L2_MMU_CONFIG {
            self.l2_mmu_config = value;
            return true;
        }
        let slot = gpu::KEPT
            .iter()
            .position(|o| *o == offset)
            .and_then(|at| self.kept.get_mut(at));
        slot.map(|s| *s = value).is_some()
    }

    /// Returns the status register. `jobs` and `transitions` say whether the other units are active.
    pub(crate) fn status(&self, jobs: bool, transitions: bool) -> u32 {
        u32::from(jobs)
            | u32::from(transitions) << 1
            | u32::from(self.sample_at.is_some()) << 2
            | u32::from(self.cycles.is_counting()) << 6
            | u32::from(self.protected) << 7
    }

    /// Executes a command.
    pub(crate) fn command(&mut self, command: u32, now: u64) -> Effect {
        match command {
            0 | 3 => Effect::None,
            1 | 2 => {
                let mut fresh = Self::new(self.model);
                fresh.was_reset = true;
                fresh.reset_at = Some(now.saturating_add(RESET_NS));
                *self = fresh;
                Effect::Reset
            }
            // During a reset the block accepts no other command.
            _ if self.reset_at.is_some() => Effect::Refused,
            4 => {
                self.sample_at = Some(now.saturating_add(SAMPLE_NS));
                Effect::None
            }
            5 => {
                self.cycles.start(now);
                Effect::None
            }
            6 => {
                self.cycles.stop(now, self.model.core_mhz);
                Effect::None
            }
            7 | 8 => {
                self.clean_at = Some(now.saturating_add(CLEAN_NS));
                Effect::None
            }
            9 => {
                self.protected = true;
                Effect::None
            }
            _ => Effect::Refused,
        }
    }

    /// Returns the earliest time at which work of this block ends.
    pub(crate) fn next_at(&self) -> Option<u64> {
        [self.reset_at, self.clean_at, self.sample_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// Completes work that is due.
    pub(crate) fn complete(&mut self, now: u64) {
        let due = |at: &mut Option<u64>| at.is_some_and(|t| t <= now).then(|| *at = None).is_some();
        if due(&mut self.reset_at) {
            self.irq.raise(gpu::IRQ_RESET_COMPLETED);
        }
        if due(&mut self.clean_at) {
            self.count_flush();
            self.irq.raise(gpu::IRQ_CLEAN_COMPLETED);
        }
        if due(&mut self.sample_at) {
            self.irq.raise(gpu::IRQ_SAMPLE_COMPLETED);
        }
    }

    /// Returns the number of the last flush. Jobs specify it to avoid a flush.
    pub(crate) fn latest_flush(&self) -> u32 {
        self.latest_flush
    }

    /// Counts a flush of the L2. The number has 24 bits and wraps.
    pub(crate) fn count_flush(&mut self) {
        self.latest_flush = self.latest_flush.wrapping_add(1) & 0x00ff_ffff;
    }

    /// Returns the number of cycles so far.
    pub(crate) fn cycle_count(&self, now: u64) -> u64 {
        self.cycles.value(now, self.model.core_mhz)
    }

    /// Reports an access outside the device's memory.
    pub(crate) fn bus_fault(&mut self, address: PhysAddr, access: u32) {
        if self.fault_status == 0 {
            self.fault_status = u32::from(exception::DELAYED_BUS) | access << 8;
            self.fault_address = address;
            self.irq.raise(gpu::IRQ_FAULT);
        } else {
            self.irq.raise(gpu::IRQ_FAULT | gpu::IRQ_MULTIPLE_FAULTS);
        }
    }

    /// Clears interrupt bits. A cleared fault makes room for the next fault.
    pub(crate) fn clear_irq(&mut self, bits: u32) {
        self.irq.clear(bits);
        if bits & gpu::IRQ_FAULT != 0 {
            self.fault_status = 0;
            self.fault_address = PhysAddr::ZERO;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Model;

    #[test]
    fn a_reset_clears_state_at_once_and_reports_later() {
        let mut g = GpuControl::new(Model::G71.data());
        assert_eq!(g.read(gpu::COHERENCY_FEATURES, 0), Some(3));
        assert!(g.write_register(0xf00, 4));
        g.irq.mask = 0x10581;
        assert_eq!(g.command(1, 1000), Effect::Reset);
        assert_eq!(g.read(0xf00, 1000), Some(0));
        assert_eq!(g.read(gpu::COHERENCY_FEATURES, 1000), Some(2));
        g.irq.mask = 0x100;
        g.complete(1000);
        assert_eq!(g.irq.status(), 0);
        assert_eq!(g.command(8, 1000), Effect::Refused);
        g.complete(1000 + RESET_NS);
        assert_eq!(g.irq.status(), 0x100);
        assert_eq!(g.next_at(), None);
    }

    #[test]
    fn cache_clean_raises_irq_bit_17_and_counts() {
        let mut g = GpuControl::new(Model::G71.data());
        g.command(8, 0);
        assert_eq!(g.next_at(), Some(CLEAN_NS));
        g.complete(CLEAN_NS);
        assert_eq!((g.irq.raw, g.latest_flush()), (1 << 17, 0x00ff_ffe1));
        for _ in 0..0x1f {
            g.count_flush();
        }
        assert_eq!(g.latest_flush(), 0);
    }

    #[test]
    fn a_second_fault_sets_the_multiple_bit_and_keeps_the_first_address() {
        let mut g = GpuControl::new(Model::G71.data());
        g.bus_fault(PhysAddr::new(0x1_2345_6000), 3);
        g.bus_fault(PhysAddr::new(0x7000), 2);
        assert_eq!(g.irq.raw, gpu::IRQ_FAULT | gpu::IRQ_MULTIPLE_FAULTS);
        assert_eq!(g.read(gpu::FAULTSTATUS, 0), Some(0x380));
        assert_eq!(g.read(gpu::FAULTADDRESS_LO, 0), Some(0x2345_6000));
        assert_eq!(g.read(gpu::FAULTADDRESS_HI, 0), Some(1));
        g.clear_irq(gpu::IRQ_FAULT);
        assert_eq!(g.read(gpu::FAULTSTATUS, 0), Some(0));
    }
}
