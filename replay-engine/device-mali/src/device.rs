//! Simulated device as a whole: it routes accesses to units, advances virtual time, completes due work and runs chains.

mod mmio;

use crate::address_space::AddressSpace;
use crate::anomalies::Anomalies;
use crate::budget::Budget;
use crate::chain::{ChainContext, ChainResult};
use crate::compute::stop::Stats;
use crate::counters::timestamp;
use crate::fault::Fault;
use crate::gpu_control::GpuControl;
use crate::interrupts::IrqBlock;
use crate::job_slot::{self, JobSlot};
use crate::job_trace::JobTrace;
use crate::job_trace::writers::JobLocation;
use crate::memory::{ArenaMemory, MemoryError};
use crate::model::{Model, ModelData};
use crate::power::{Domain, Power};
use crate::registers::{WINDOW, exception, gpu};
use mmio::MmioResult;
use replay_core::{Device, DeviceError, WaitResult};
use replay_engine::device::{
    Arena, Containment, DeviceInfo, DeviceInterface, JobReport, RegisterTarget, ReplayDeviceError, Target, space,
};
use trace_core::PhysAddr;
use trace_core::progress::Progress;
use trace_core::recording::{InterruptLine, Page};

/// Virtual time of a register access, ns.
const ACCESS_NS: u64 = 250;
/// Maximum number of job reports kept until they are fetched.
const MAX_REPORTS: usize = 1 << 20;
/// Number of units of each kind for which the MMIO region has room.
const UNITS: usize = 16;
/// Arena of a device that was created by name: 4 GiB, starting at the 4 GiB line.
const ARENA: Arena = Arena {
    base: PhysAddr::new(0x1_0000_0000),
    pages: 1 << 20,
};

/// Unit with work that ends at a known time. The order breaks ties, so that equal times always end in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Gpu,
    Power,
    AddressSpace(usize),
    Slot(usize),
}

/// Statistics of shaders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkStats {
    /// Executed clauses, counted once for each wave of 32 threads.
    pub clauses: u64,
    /// Executed operations, counted once for each active lane.
    pub lane_ops: u64,
}

impl WorkStats {
    fn add(&mut self, stats: Stats) {
        self.clauses = self.clauses.saturating_add(stats.clauses);
        self.lane_ops = self.lane_ops.saturating_add(stats.lane_ops);
    }
}

/// Simulator of a job-manager GPU.
#[derive(Debug)]
pub struct SoftwareMali {
    pub(crate) model: &'static ModelData,
    pub(crate) now: u64,
    pub(crate) memory: ArenaMemory,
    pub(crate) gpu: GpuControl,
    pub(crate) power: Power,
    pub(crate) job_irq: IrqBlock,
    pub(crate) mmu_irq: IrqBlock,
    /// Slots that were active or waiting when the job interrupts were last cleared.
    pub(crate) js_state: u32,
    pub(crate) throttle: u32,
    pub(crate) slots: [JobSlot; UNITS],
    pub(crate) spaces: [AddressSpace; UNITS],
    pub(crate) reports: Vec<JobReport>,
    pub(crate) anomalies: Anomalies,
    budget: Budget,
    /// Progress of the running work.
    progress: Option<Progress>,
    work: WorkStats,
    /// What is traced of the device's jobs.
    pub(crate) job_trace: JobTrace,
}

/// Creates the simulator with this name (`mali-g71`), or returns `None`.
#[must_use]
pub fn factory(name: &str) -> Option<Box<dyn RegisterTarget>> {
    Model::from_name(name).map(|m| Box::new(SoftwareMali::new(m)) as Box<dyn RegisterTarget>)
}

impl SoftwareMali {
    /// Creates a device in its power-on state, with 4 GiB of memory at 4 GiB.
    #[must_use]
    pub fn new(model: Model) -> Self {
        Self::with_arena(model, ARENA)
    }

    /// Creates a device in its power-on state, with memory that the caller chooses.
    #[must_use]
    pub fn with_arena(model: Model, arena: Arena) -> Self {
        let model = model.data();
        Self {
            model,
            now: 0,
            memory: ArenaMemory::new(arena),
            gpu: GpuControl::new(model),
            power: Power::new(model),
            job_irq: IrqBlock::default(),
            mmu_irq: IrqBlock::default(),
            js_state: 0,
            throttle: 0,
            slots: [JobSlot::default(); UNITS],
            spaces: [AddressSpace::default(); UNITS],
            reports: Vec::new(),
            anomalies: Anomalies::default(),
            budget: model.budget,
            progress: None,
            work: WorkStats::default(),
            job_trace: JobTrace::default(),
        }
    }

    /// Returns the device with another budget for its jobs.
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Returns the statistics of shaders since power-on.
    #[must_use]
    pub fn work(&self) -> WorkStats {
        self.work
    }

    /// Returns the counts of anomalies since power-on.
    #[must_use]
    pub fn anomalies(&self) -> Anomalies {
        self.anomalies
    }

    /// Returns the device's memory.
    #[must_use]
    pub fn memory(&self) -> &ArenaMemory {
        &self.memory
    }

    /// Returns the raised interrupt lines, bit `n` for line `n` of [`InterruptLine`].
    #[must_use]
    pub fn raised_lines(&self) -> u32 {
        let line = |block: IrqBlock, line: InterruptLine| u32::from(block.status() != 0) << line as u32;
        line(self.job_irq, InterruptLine::Job)
            | line(self.mmu_irq, InterruptLine::Mmu)
            | line(self.gpu.irq, InterruptLine::Gpu)
    }

    // Time.

    fn next(&self) -> Option<(u64, Unit)> {
        let gpu = self.gpu.next_at().map(|t| (t, Unit::Gpu));
        let power = self.power.settles_at.map(|t| (t, Unit::Power));
        let space = |(n, s): (usize, &AddressSpace)| s.next_at().map(|t| (t, Unit::AddressSpace(n)));
        let slot = |(n, s): (usize, &JobSlot)| s.next_at().map(|t| (t, Unit::Slot(n)));
        let spaces = self.spaces.iter().enumerate().filter_map(space);
        let slots = self.slots.iter().enumerate().filter_map(slot);
        gpu.into_iter().chain(power).chain(spaces).chain(slots).min()
    }

    /// Completes all work that is due. This terminates: each step removes a piece of work, and only a queued chain
    /// starts a new one. A slot has at most one queued chain.
    fn complete_due(&mut self) {
        while let Some((at, unit)) = self.next().filter(|(at, _)| *at <= self.now) {
            match unit {
                Unit::Gpu => self.gpu.complete(at),
                Unit::Power => {
                    self.power.settle();
                    self.gpu
                        .irq
                        .raise(gpu::IRQ_POWER_CHANGED_SINGLE | gpu::IRQ_POWER_CHANGED_ALL);
                }
                Unit::AddressSpace(n) => {
                    if let Some(s) = self.spaces.get_mut(n) {
                        s.complete();
                    }
                }
                Unit::Slot(n) => self.end_slot(n, at),
            }
        }
    }

    // Jobs.

    pub(crate) fn begin_slot(&mut self, n: usize, now: u64) {
        let Some(slot) = self.slots.get_mut(n) else { return };
        if slot.begin(now) && slot.current.flushes_at_start(self.gpu.latest_flush()) {
            self.gpu.count_flush();
        }
    }

    fn end_slot(&mut self, n: usize, at: u64) {
        let Some(slot) = self.slots.get(n).copied() else { return };
        let (work, status, failed) = match slot.work {
            job_slot::Work::Stopping(_, code) => {
                let report = JobReport {
                    va: slot.head,
                    job_type: 0,
                    status: code,
                    computed: None,
                    reason: None,
                };
                self.report(vec![report]);
                (job_slot::Work::Idle, code, true)
            }
            job_slot::Work::Chain(_) => match self.run_chain(n, &slot, at) {
                ChainResult::Done => (job_slot::Work::Idle, exception::DONE, false),
                ChainResult::Hang => (job_slot::Work::Hung, exception::ACTIVE, false),
                ChainResult::Failed(fault) => {
                    self.raise_fault(&slot, &fault);
                    (job_slot::Work::Idle, fault.code(), true)
                }
            },
            job_slot::Work::Idle | job_slot::Work::Hung => return,
        };
        if let Some(slot) = self.slots.get_mut(n) {
            slot.work = work;
            slot.status = u32::from(status);
        }
        if work == job_slot::Work::Idle {
            self.job_irq.raise(if failed { 1 << (16 + n) } else { 1 << n });
            self.begin_slot(n, at);
        }
    }

    fn run_chain(&mut self, n: usize, slot: &JobSlot, at: u64) -> ChainResult {
        // The requested data is complete, so the run need not continue.
        if self.job_trace.is_complete() {
            return ChainResult::Hang;
        }
        let end = self.run_traced(n, slot, at);
        self.job_trace.chain_ended(&self.memory);
        end
    }

    fn run_traced(&mut self, n: usize, slot: &JobSlot, at: u64) -> ChainResult {
        let setup = slot.current;
        let number = setup.address_space();
        let Some(space) = self
            .spaces
            .get(number)
            .filter(|_| self.model.as_present >> number & 1 != 0)
        else {
            return ChainResult::Failed(Fault::Job(exception::CONFIG));
        };
        if self.power.ready(Domain::L2) == 0 {
            return ChainResult::Failed(Fault::Job(exception::POWER));
        }
        let affinity = setup.affinity & self.model.shader_present;
        let context = ChainContext {
            translation: space.translation().within(self.model.va_bits),
            memory: &mut self.memory,
            anomalies: &mut self.anomalies,
            head: setup.head,
            types: self.model.js_features.get(n).copied().unwrap_or(0),
            affinity,
            cores: affinity & self.power.ready(Domain::Shader),
            write_back: setup.write_back(),
            cycles: self.gpu.cycle_count(at),
            timestamp: timestamp(at),
            model: self.model,
            budget: self.budget,
            progress: self.progress.as_ref(),
            location: JobLocation {
                chain: self.job_trace.chains(),
                position: 0,
                va: setup.head,
            },
            job_trace: &mut self.job_trace,
            writes_status: false,
        };
        let run = context.run();
        if let Some(slot) = self.slots.get_mut(n) {
            slot.head = run.head;
            slot.tail = run.tail;
        }
        for _ in 0..run.flushes + u32::from(run.end == ChainResult::Done && setup.flushes_at_end()) {
            self.gpu.count_flush();
        }
        self.work.add(run.stats);
        self.report(run.reports);
        run.end
    }

    fn raise_fault(&mut self, slot: &JobSlot, fault: &Fault) {
        match fault {
            Fault::Job(_) => {}
            Fault::Mmu(f) => {
                let n = slot.current.address_space();
                if let Some(space) = self.spaces.get_mut(n) {
                    space.report(f);
                }
                self.mmu_irq.raise(if f.bus { 1 << (16 + n) } else { 1 << n });
            }
            Fault::Bus { address, access, .. } => self.gpu.bus_fault(*address, *access as u32),
        }
    }

    fn report(&mut self, reports: Vec<JobReport>) {
        let room = MAX_REPORTS.saturating_sub(self.reports.len());
        self.anomalies.reports_dropped += reports.len().saturating_sub(room) as u64;
        self.reports.extend(reports.into_iter().take(room));
    }

    /// Resets the units other than the GPU control block after a reset command. Running work is dropped.
    pub(crate) fn reset_units(&mut self) {
        self.power = Power::new(self.model);
        self.job_irq = IrqBlock::default();
        self.mmu_irq = IrqBlock::default();
        self.js_state = 0;
        self.throttle = 0;
        self.slots = [JobSlot::default(); UNITS];
        self.spaces = [AddressSpace::default(); UNITS];
    }

    // Address spaces.

    fn check(space: u8, offset: u64, width: u8, bytes: u64) -> Result<(), DeviceError> {
        let width = match (space, width) {
            (space::REGISTERS, 4) | (space::ARENA, 1 | 2 | 4 | 8) => u64::from(width),
            (space::REGISTERS | space::ARENA, _) => return Err(DeviceError::OutOfRange),
            _ => return Err(DeviceError::NoSpace),
        };
        if offset.checked_add(width).is_none_or(|end| end > bytes) {
            return Err(DeviceError::OutOfRange);
        }
        if !offset.is_multiple_of(width) {
            return Err(DeviceError::Misaligned);
        }
        Ok(())
    }

    fn size(&self, space: u8) -> u64 {
        if space == space::REGISTERS {
            WINDOW
        } else {
            self.arena_bytes()
        }
    }

    fn arena_bytes(&self) -> u64 {
        let arena = self.memory.arena();
        arena.end().saturating_sub(arena.base.get()).get()
    }

    fn arena_address(&self, offset: u64) -> PhysAddr {
        self.memory.arena().base.saturating_add(offset)
    }
}

impl Device for SoftwareMali {
    fn read(&mut self, space: u8, offset: u64, width: u8) -> Result<u64, DeviceError> {
        Self::check(space, offset, width, self.size(space))?;
        if space == space::ARENA {
            let mut bytes = [0; 8];
            let part = bytes.get_mut(..usize::from(width)).ok_or(DeviceError::OutOfRange)?;
            self.memory
                .read(self.arena_address(offset), part)
                .map_err(|_| DeviceError::OutOfRange)?;
            return Ok(u64::from_le_bytes(bytes));
        }
        self.now = self.now.saturating_add(ACCESS_NS);
        Ok(u64::from(match self.read_register(offset as u32) {
            MmioResult::Value(v) => v,
            MmioResult::WriteOnly => {
                self.anomalies.write_only_reads += 1;
                0
            }
            MmioResult::Hole | MmioResult::ReadOnly | MmioResult::Done => {
                self.anomalies.hole_reads += 1;
                0
            }
        }))
    }

    fn write(&mut self, space: u8, offset: u64, width: u8, value: u64) -> Result<(), DeviceError> {
        Self::check(space, offset, width, self.size(space))?;
        if space == space::ARENA {
            let bytes = value.to_le_bytes();
            let part = bytes.get(..usize::from(width)).ok_or(DeviceError::OutOfRange)?;
            match self.memory.write(self.arena_address(offset), part) {
                Ok(()) => self.job_trace.cpu_write(self.arena_address(offset), part.len()),
                Err(MemoryError::Full) => self.anomalies.memory_refused += 1,
                Err(MemoryError::Outside) => return Err(DeviceError::OutOfRange),
            }
            return Ok(());
        }
        self.now = self.now.saturating_add(ACCESS_NS);
        match self.write_register(offset as u32, value as u32) {
            MmioResult::Done | MmioResult::Value(_) => {}
            MmioResult::ReadOnly => self.anomalies.read_only_writes += 1,
            MmioResult::Hole | MmioResult::WriteOnly => self.anomalies.hole_writes += 1,
        }
        Ok(())
    }

    fn wait_interrupt(&mut self, lines: u32, limit_ns: u64) -> Result<WaitResult, DeviceError> {
        let deadline = self.now.saturating_add(limit_ns);
        loop {
            self.complete_due();
            let raised = self.raised_lines();
            if raised & lines != 0 {
                return Ok(WaitResult::Raised { lines: raised });
            }
            match self.next() {
                Some((at, _)) if at <= deadline => self.now = at,
                _ => {
                    self.now = deadline;
                    return Ok(WaitResult::TimedOut);
                }
            }
        }
    }

    fn pause(&mut self, ns: u64) -> Result<(), DeviceError> {
        let deadline = self.now.saturating_add(ns);
        // Time advances step by step, so that early work completes before work that depends on it.
        while let Some((at, _)) = self.next().filter(|(at, _)| *at <= deadline) {
            self.now = self.now.max(at);
            self.complete_due();
        }
        self.now = deadline;
        Ok(())
    }

    fn now_ns(&mut self) -> u64 {
        self.now
    }
}

fn memory_error(e: &MemoryError, frame: u64) -> ReplayDeviceError {
    match e {
        MemoryError::Outside => ReplayDeviceError::OutsideArena { frame },
        MemoryError::Full => {
            ReplayDeviceError::Failed("the plan needs more memory than the device may keep".to_owned())
        }
    }
}

impl Target for SoftwareMali {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            name: self.model.name.to_owned(),
            description: self.model.description.to_owned(),
            gpu_id: self.model.gpu_id,
            gpu_name: self.model.gpu_name.to_owned(),
            register_map: "mali-jm".to_owned(),
            containment: Containment::Software,
            hardware: None,
            windows: replay_engine::device::Window::registers(WINDOW),
            arena: self.memory.arena(),
            interface: DeviceInterface::Registers,
            virtual_time: true,
            computes: true,
        }
    }

    fn reset(&mut self) -> Result<(), ReplayDeviceError> {
        self.memory.clear();
        self.now = 0;
        self.gpu = GpuControl::new(self.model);
        self.reset_units();
        self.reports.clear();
        self.anomalies = Anomalies::default();
        self.work = WorkStats::default();
        Ok(())
    }
}

impl RegisterTarget for SoftwareMali {
    fn is_idle(&self) -> bool {
        let is_idle = |slot: &JobSlot| !slot.queued && slot.work == job_slot::Work::Idle;
        self.slots.iter().all(is_idle) && self.gpu.is_idle()
    }

    fn clear_memory(&mut self) -> Result<(), ReplayDeviceError> {
        self.memory.clear();
        self.reports.clear();
        self.anomalies = Anomalies::default();
        self.work = WorkStats::default();
        Ok(())
    }

    fn store_page(&mut self, frame: u64, page: &Page) -> Result<(), ReplayDeviceError> {
        self.memory.store(frame, page).map_err(|e| memory_error(&e, frame))
    }

    fn store_bytes(&mut self, at: PhysAddr, bytes: &[u8]) -> Result<(), ReplayDeviceError> {
        let stored = match <&Page>::try_from(bytes) {
            Ok(page) if at.in_page() == 0 => self.memory.store(at.frame(), page),
            _ => self.memory.write(at, bytes),
        };
        stored.map_err(|e| memory_error(&e, at.frame()))?;
        self.job_trace.cpu_write(at, bytes.len());
        Ok(())
    }

    fn load_page(&mut self, frame: u64, page: &mut Page) -> Result<(), ReplayDeviceError> {
        *page = *self
            .memory
            .frame(frame)
            .ok_or(ReplayDeviceError::OutsideArena { frame })?;
        Ok(())
    }

    fn content_frames(&mut self) -> Option<Vec<u64>> {
        Some(self.memory.backed_frames())
    }

    fn watch(&mut self, progress: &Progress) {
        self.progress = Some(progress.clone());
    }

    fn take_job_reports(&mut self) -> Vec<JobReport> {
        std::mem::take(&mut self.reports)
    }
}
