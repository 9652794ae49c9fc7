//! Mali driver: boot, address spaces, job submission, interrupts and shutdown.

use crate::error::DriverError;
use crate::layout::{AddressSpace, FrameAllocator, SpaceId};
use crate::offsets::{self as reg, js, mmu as as_reg};
use crate::recorder::Recorder;
use replay_engine::device::{DeviceInfo, RegisterTarget};
use trace_core::mmu;
use trace_core::recording::{Buffer, InterruptLine, MmuFormat, Region};
use trace_core::registers::RegisterMap;
use trace_core::{GpuVa, Recording};

/// Timeout of a wait for an interrupt, ns.
const INTERRUPT_NS: u64 = 5_000_000_000;
/// Time between two reads of a polled status register, ns.
const POLL_NS: u64 = 1_000;
/// Maximum number of reads of a polled status register.
const POLL_READS: u32 = 100_000;
/// First address that [`Driver::alloc`] returns.
const FIRST_VA: u64 = 0x1_0000_0000;

/// Enabled interrupts of the GPU block: faults, reset, power, counter sample, caches.
const GPU_IRQS: u32 = 0x0003_0581;
const RESET_COMPLETED: u32 = 1 << 8;
const POWER_CHANGED_ALL: u32 = 1 << 10;
const CLEAN_COMPLETED: u32 = 1 << 17;

/// GPU commands.
const SOFT_RESET: u32 = 1;
const CYCLE_COUNT_START: u32 = 5;
const CYCLE_COUNT_STOP: u32 = 6;
const CLEAN_INV_CACHES: u32 = 8;

/// Address-space commands.
const AS_UPDATE: u32 = 1;
const AS_LOCK: u32 = 2;
const AS_FLUSH_PT: u32 = 4;
const AS_FLUSH_MEM: u32 = 5;

/// Job slot command: end the chain immediately.
const HARD_STOP: u32 = 3;

/// Binary logarithm of the smallest range that can be locked, in bytes.
const MIN_LOCK_LOG2: u32 = 15;

/// No coherency with the rest of the system.
const COHERENCY_NONE: u32 = 31;

/// Translation configuration: AArch64 tables, table reads through the write-back cache, reads allocate.
pub(crate) const TRANSCFG_TABLES: u32 = 0x4200_0006;
/// Translation configuration in which every access faults.
const TRANSCFG_UNMAPPED: u32 = 0x4200_0001;

/// Returns the memory attributes by index: for AArch64 tables as Arm's driver sets them, for the older format as Linux
/// sets them.
pub(crate) fn memattr(format: MmuFormat) -> u64 {
    match format {
        MmuFormat::Aarch64_4k => 0x4c8d_888d_8f88,
        MmuFormat::MaliLpae | MmuFormat::Described(_) => 0x0088_8d88,
    }
}

/// Returns a job slot configuration: address space in bits 3 to 0, both caches flushed before and after, flush
/// reduction, priority 8.
fn config(space: u8, flag: bool) -> u32 {
    0x0008_7300 | u32::from(space & 0xf) | u32::from(flag) << 11
}

/// Returns the lock register value of a range: the smallest aligned power of two around it, with its binary logarithm
/// minus one in the low bits.
fn lock_region(va: GpuVa, bytes: u64) -> u64 {
    let last = va.get().saturating_add(bytes.saturating_sub(1));
    let log2 = (u64::BITS - (va.get() ^ last).leading_zeros()).max(MIN_LOCK_LOG2);
    va.get() & (u64::MAX.checked_shl(log2).unwrap_or(0)) | u64::from(log2 - 1)
}

/// Chain submitted to the GPU.
#[derive(Clone, Copy, Debug)]
pub struct Submission {
    /// Event of the write that started the chain.
    pub event: u64,
    slot: u8,
    space: SpaceId,
    head: GpuVa,
}

/// Result of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobEnd {
    /// Exception code: 1 means done.
    pub status: u8,
    /// Address of the failed translation, if one failed.
    pub fault_address: Option<GpuVa>,
}

impl JobEnd {
    /// Returns whether every job of the chain is done.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.status == 1
    }
}

/// Booted GPU with the contents of its memory.
///
/// The CPU may change memory at any time, and mappings while no running chain uses them. CPU writes between two submits
/// are recorded as host writes, including page tables. The cost grows with the number of pages touched. Writes by jobs
/// are not recorded.
pub struct Driver<'d> {
    pub(crate) device: &'d mut dyn RegisterTarget,
    pub(crate) recorder: Recorder,
    pub(crate) info: DeviceInfo,
    pub(crate) frames: FrameAllocator,
    pub(crate) spaces: Vec<AddressSpace>,
    pub(crate) next_va: u64,
    pub(crate) as_present: u32,
    pub(crate) js_present: u32,
    pub(crate) shader_present: u64,
    pub(crate) tiler_present: u32,
    pub(crate) l2_present: u32,
    /// Alternates from chain to chain, so that a stop command can name the chain that it stops.
    pub(crate) chain_flag: bool,
    pub(crate) counting: bool,
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) regions: Vec<Region>,
    pub(crate) source_pages: u64,
    pub(crate) source_zero_pages: u64,
    /// Number of address spaces in the recording, if the recording ended before the work.
    pub(crate) recorded_spaces: Option<usize>,
}

impl<'d> Driver<'d> {
    /// Resets the GPU and powers everything on.
    ///
    /// # Errors
    /// When the device fails, is an unknown GPU, or does not respond like one of its kind.
    pub fn boot(device: &'d mut dyn RegisterTarget, recorder: Recorder) -> Result<Self, DriverError> {
        let info = device.info();
        let mut this = Self {
            frames: FrameAllocator::new(info.arena),
            device,
            recorder,
            info,
            spaces: Vec::new(),
            next_va: FIRST_VA,
            as_present: 0,
            js_present: 0,
            shader_present: 0,
            tiler_present: 0,
            l2_present: 0,
            chain_flag: true,
            counting: false,
            buffers: Vec::new(),
            regions: Vec::new(),
            source_pages: 0,
            source_zero_pages: 0,
            recorded_spaces: None,
        };
        this.identify()?;
        this.reset()?;
        this.enable_interrupts(GPU_IRQS, u32::MAX)?;
        this.switch_on()?;
        Ok(this)
    }

    fn read_reg(&mut self, offset: u32) -> Result<u32, DriverError> {
        self.recorder.read(self.device, offset)
    }

    fn write_reg(&mut self, offset: u32, value: u32) -> Result<(), DriverError> {
        self.recorder.write(self.device, offset, value)
    }

    /// Writes both halves of a 64-bit register, the low half first.
    fn write_pair(&mut self, offset: u32, value: u64) -> Result<(), DriverError> {
        self.write_reg(offset, value as u32)?;
        self.write_reg(offset + 4, (value >> 32) as u32)
    }

    fn read_pair(&mut self, offset: u32) -> Result<u64, DriverError> {
        let low = self.read_reg(offset)?;
        Ok(u64::from(low) | u64::from(self.read_reg(offset + 4)?) << 32)
    }

    fn identify(&mut self) -> Result<(), DriverError> {
        for offset in reg::IDENTITY {
            let value = self.read_reg(*offset)?;
            match *offset {
                reg::GPU_ID if RegisterMap::for_gpu(value).is_none() => {
                    return Err(DriverError::UnknownGpu { gpu_id: value });
                }
                reg::GPU_ID => self.recorder.identity_mut().gpu_id = value,
                reg::AS_PRESENT => self.as_present = value,
                reg::JS_PRESENT => self.js_present = value,
                reg::SHADER_PRESENT_LO => self.shader_present |= u64::from(value),
                reg::SHADER_PRESENT_HI => self.shader_present |= u64::from(value) << 32,
                reg::TILER_PRESENT_LO => self.tiler_present = value,
                reg::L2_PRESENT_LO => self.l2_present = value,
                _ => {}
            }
        }
        self.read_reg(reg::COHERENCY_FEATURES)?;
        Ok(())
    }

    /// Waits for the GPU block's interrupt and acknowledges it as an interrupt handler does.
    fn gpu_interrupt(&mut self, bit: u32, what: &'static str) -> Result<(), DriverError> {
        self.recorder
            .wait(self.device, 1 << InterruptLine::Gpu as u32, INTERRUPT_NS, what)?;
        let status = self.read_reg(reg::GPU_IRQ_STATUS)?;
        self.write_reg(reg::GPU_IRQ_CLEAR, status)?;
        if status & bit == 0 {
            return Err(DriverError::WrongInterrupt { what, status });
        }
        Ok(())
    }

    fn reset(&mut self) -> Result<(), DriverError> {
        self.enable_interrupts(0, 0)?;
        self.write_reg(reg::GPU_COMMAND, SOFT_RESET)?;
        self.write_reg(reg::GPU_IRQ_MASK, RESET_COMPLETED)?;
        self.gpu_interrupt(RESET_COMPLETED, "the reset")?;
        self.read_reg(reg::COHERENCY_FEATURES)?;
        self.write_reg(reg::COHERENCY_ENABLE, COHERENCY_NONE)?;
        self.read_reg(reg::GPU_STATUS)?;
        Ok(())
    }

    /// Clears pending interrupts and sets the masks of all three blocks.
    fn enable_interrupts(&mut self, gpu: u32, others: u32) -> Result<(), DriverError> {
        let order = [
            (reg::GPU_IRQ_CLEAR, GPU_IRQS),
            (reg::GPU_IRQ_MASK, gpu),
            (reg::JOB_IRQ_CLEAR, u32::MAX),
            (reg::JOB_IRQ_MASK, others),
            (reg::MMU_IRQ_CLEAR, u32::MAX),
            (reg::MMU_IRQ_MASK, others),
        ];
        order
            .into_iter()
            .try_for_each(|(offset, value)| self.write_reg(offset, value))
    }

    fn read_power(&mut self) -> Result<(), DriverError> {
        for offset in [
            reg::L2_PWRTRANS_LO,
            reg::L2_READY_LO,
            reg::TILER_PWRTRANS_LO,
            reg::TILER_READY_LO,
            reg::SHADER_PWRTRANS_LO,
            reg::SHADER_READY_LO,
        ] {
            self.read_pair(offset)?;
        }
        Ok(())
    }

    fn switch_on(&mut self) -> Result<(), DriverError> {
        self.read_power()?;
        // The L2 powers up with the tiler.
        self.write_reg(reg::TILER_PWRON_LO, self.tiler_present)?;
        self.gpu_interrupt(POWER_CHANGED_ALL, "the tiler's power")?;
        self.read_power()?;
        self.write_reg(reg::SHADER_PWRON_LO, self.shader_present as u32)?;
        self.gpu_interrupt(POWER_CHANGED_ALL, "the cores' power")?;
        self.read_power()
    }

    fn switch_off(&mut self) -> Result<(), DriverError> {
        for (offset, cores, what) in [
            (
                reg::SHADER_PWROFF_LO,
                self.shader_present as u32,
                "the cores' power-off",
            ),
            (reg::TILER_PWROFF_LO, self.tiler_present, "the tiler's power-off"),
            (reg::L2_PWROFF_LO, self.l2_present, "the L2's power-off"),
        ] {
            self.write_reg(offset, cores)?;
            self.gpu_interrupt(POWER_CHANGED_ALL, what)?;
        }
        self.read_power()
    }

    /// Starts the cycle counter, which write-value jobs can store.
    ///
    /// # Errors
    /// When the device fails.
    pub fn start_cycle_counter(&mut self) -> Result<(), DriverError> {
        self.counting = true;
        self.write_reg(reg::GPU_COMMAND, CYCLE_COUNT_START)
    }

    /// Cleans and invalidates all caches of the GPU.
    ///
    /// # Errors
    /// When the device fails or the interrupt does not come.
    pub fn clean_caches(&mut self) -> Result<(), DriverError> {
        self.write_reg(reg::GPU_COMMAND, CLEAN_INV_CACHES)?;
        self.gpu_interrupt(CLEAN_COMPLETED, "the caches")
    }

    /// Waits until an address space accepts a command, then issues the command.
    fn space_command(&mut self, number: u8, command: u32) -> Result<(), DriverError> {
        self.space_idle(number)?;
        self.write_reg(reg::space(number) + as_reg::COMMAND, command)
    }

    fn space_idle(&mut self, number: u8) -> Result<(), DriverError> {
        for _ in 0..POLL_READS {
            if self.read_reg(reg::space(number) + as_reg::STATUS)? & 1 == 0 {
                return Ok(());
            }
            let pause = self.device.pause(POLL_NS);
            pause.map_err(|error| DriverError::Access {
                what: "pause",
                offset: 0,
                error,
            })?;
        }
        Err(DriverError::SpaceBusy {
            number,
            reads: POLL_READS,
        })
    }

    /// Invalidates the translations of a range of an address space after its page tables changed.
    pub(crate) fn invalidate_range(&mut self, space: SpaceId, va: GpuVa, bytes: u64) -> Result<(), DriverError> {
        if !self.space(space)?.programmed {
            return Ok(());
        }
        self.write_pair(reg::space(space.0) + as_reg::LOCKADDR_LO, lock_region(va, bytes))?;
        self.space_command(space.0, AS_LOCK)?;
        self.space_command(space.0, AS_FLUSH_PT)?;
        self.space_idle(space.0)
    }

    /// Programs an address space into the hardware, or removes it.
    fn program(&mut self, number: u8, format: MmuFormat, root: Option<u64>) -> Result<(), DriverError> {
        let base = reg::space(number);
        // The older format has no configuration register: the root register selects the translation mode.
        if format == MmuFormat::Aarch64_4k {
            let config = if root.is_some() {
                TRANSCFG_TABLES
            } else {
                TRANSCFG_UNMAPPED
            };
            self.write_pair(base + as_reg::TRANSCFG_LO, u64::from(config))?;
        }
        self.write_pair(base + as_reg::TRANSTAB_LO, root.unwrap_or(0))?;
        self.write_pair(base + as_reg::MEMATTR_LO, memattr(format))?;
        self.space_command(number, AS_UPDATE)
    }

    /// Submits a chain to a slot. The slot must be free.
    ///
    /// Memory at the first submit is the initial memory of a replay. Later changes by the CPU become events of the
    /// recording and are repeated by the replay at the same point.
    ///
    /// # Errors
    /// When the slot or the address space does not exist, or the device fails.
    pub fn submit_chain(&mut self, space: SpaceId, slot: u8, head: GpuVa) -> Result<Submission, DriverError> {
        if slot >= 16 || self.js_present >> slot & 1 == 0 {
            return Err(DriverError::NoSlot { slot });
        }
        let (format, root, programmed) = {
            let s = self.space(space)?;
            (s.format, mmu::root_register(s.format, s.root), s.programmed)
        };
        if !self.recorder.has_begun() {
            // Only the CPU has written memory up to here, so a replay must set it up like this.
            self.take_snapshot()?;
        }
        if !programmed {
            self.program(space.0, format, Some(root))?;
            if let Some(s) = self.spaces.get_mut(usize::from(space.0)) {
                s.programmed = true;
            }
        }
        let flush_id = self.read_reg(reg::LATEST_FLUSH)?;
        let base = reg::slot(slot);
        self.write_pair(base + js::HEAD_NEXT_LO, head.get())?;
        self.write_pair(base + js::AFFINITY_NEXT_LO, self.shader_present)?;
        self.write_reg(base + js::CONFIG_NEXT, config(space.0, self.chain_flag))?;
        self.write_reg(base + js::FLUSH_ID_NEXT, flush_id)?;
        self.write_reg(base + js::COMMAND_NEXT, 1)?;
        self.chain_flag = !self.chain_flag;
        let event = self.recorder.events().saturating_sub(1);
        Ok(Submission {
            event,
            slot,
            space,
            head,
        })
    }

    /// Waits for the end of a chain and acknowledges its interrupt.
    ///
    /// # Errors
    /// When the interrupt does not arrive or is for another slot, or the device fails. A failed chain is not an error
    /// here: see [`JobEnd`].
    pub fn wait(&mut self, submitted: Submission) -> Result<JobEnd, DriverError> {
        let (job, mmu) = (1 << InterruptLine::Job as u32, 1 << InterruptLine::Mmu as u32);
        let lines = self.recorder.wait(self.device, job, INTERRUPT_NS, "a job")?;
        let status = self.read_reg(reg::JOB_IRQ_STATUS)?;
        self.write_reg(reg::JOB_IRQ_CLEAR, status)?;
        self.read_reg(reg::JOB_IRQ_JS_STATE)?;
        self.read_reg(reg::JOB_IRQ_RAWSTAT)?;
        if status & 1 << submitted.slot != 0 {
            return Ok(JobEnd {
                status: 1,
                fault_address: None,
            });
        }
        if status & 1 << (16 + submitted.slot) == 0 {
            return Err(DriverError::WrongInterrupt { what: "a job", status });
        }
        let base = reg::slot(submitted.slot);
        let code = self.read_reg(base + js::STATUS)?;
        self.read_pair(base + js::HEAD_LO)?;
        self.read_pair(base + js::TAIL_LO)?;
        let mut fault_address = None;
        if lines & mmu != 0 {
            let bits = self.read_reg(reg::MMU_IRQ_STATUS)?;
            let base = reg::space(submitted.space.0);
            self.read_reg(base + as_reg::FAULTSTATUS)?;
            fault_address = Some(GpuVa::new(self.read_pair(base + as_reg::FAULTADDRESS_LO)?));
            self.write_reg(reg::MMU_IRQ_CLEAR, bits)?;
        }
        Ok(JobEnd {
            status: code as u8,
            fault_address,
        })
    }

    /// Stops a running chain immediately and acknowledges its interrupt. The slot is then free again.
    ///
    /// # Errors
    /// Returns the errors of [`Driver::wait`].
    pub fn stop(&mut self, submitted: Submission) -> Result<JobEnd, DriverError> {
        self.write_reg(reg::slot(submitted.slot) + js::COMMAND, HARD_STOP)?;
        self.wait(submitted)
    }

    /// Submits a chain and waits until all of it is done.
    ///
    /// # Errors
    /// Returns the errors of [`Driver::submit_chain`] and [`Driver::wait`], and [`DriverError::JobFailed`] when a job
    /// fails.
    pub fn run_chain(&mut self, space: SpaceId, slot: u8, head: GpuVa) -> Result<(), DriverError> {
        let submitted = self.submit_chain(space, slot, head)?;
        let end = self.wait(submitted)?;
        if end.is_done() {
            Ok(())
        } else {
            Err(DriverError::JobFailed {
                head: submitted.head,
                status: end.status,
            })
        }
    }

    /// Flushes the caches, removes the address spaces, powers everything off and returns the recording.
    ///
    /// # Errors
    /// When the device fails.
    pub fn finish(mut self) -> Result<Recording, DriverError> {
        if !self.recorder.has_begun() {
            self.take_snapshot()?;
        }
        if self.counting {
            self.write_reg(reg::GPU_COMMAND, CYCLE_COUNT_STOP)?;
        }
        for number in 0..self.spaces.len() as u8 {
            let Some(format) = self
                .spaces
                .get(usize::from(number))
                .filter(|s| s.programmed)
                .map(|s| s.format)
            else {
                continue;
            };
            // Locks all 48 bits of addresses: the low bits of the register hold the exponent minus one.
            self.write_pair(reg::space(number) + as_reg::LOCKADDR_LO, 47)?;
            self.space_command(number, AS_LOCK)?;
            self.space_command(number, AS_FLUSH_MEM)?;
            self.space_idle(number)?;
            self.program(number, format, None)?;
        }
        self.switch_off()?;
        self.enable_interrupts(0, 0)?;
        self.take_snapshot()?;
        Ok(self.into_recording())
    }
}
