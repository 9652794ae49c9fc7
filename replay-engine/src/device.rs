//! Devices and simulators that take register accesses ([`RegisterTarget`]): registers, identity, containment, memory,
//! reset. The folder has one file for each kind of device.

pub mod guard;
pub(crate) mod hardware_record;
pub mod host;
pub(crate) mod mapping;
mod memory;
pub mod pci;
pub mod platform;
pub mod qemu;
mod ticks;
pub mod vfio;
mod windows;

pub use memory::free as free_memory;

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use trace_core::progress::Progress;
use trace_core::recording::{Hardware, Page, SpaceKind, ZERO_PAGE};
use trace_core::screen::Picture;
use trace_core::{BusAddr, GpuVa, PhysAddr};

/// Space numbers in plans. Windows other than the registers have numbers that the device assigns, from
/// [`space::FIRST_OTHER`] on.
pub mod space {
    /// Device registers: the window that the register map describes.
    pub const REGISTERS: u8 = 0;
    /// The agent's memory for this plan: offset = physical address - start of the arena.
    pub const ARENA: u8 = 1;
    /// The first number of a window other than the registers: framebuffer memory, another register block.
    pub const FIRST_OTHER: u8 = 2;
}

/// A window of a device that a plan can access.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Space number in plans; never [`space::ARENA`].
    pub number: u8,
    /// Name of the space in recordings: `gpu`, `bar2`.
    pub name: String,
    /// Kind of the space.
    pub kind: SpaceKind,
    /// Size in bytes.
    pub bytes: u64,
}

impl Window {
    /// Returns the register window of a device with no other window, named as in recordings of job-manager GPUs.
    #[must_use]
    pub fn registers(bytes: u64) -> Vec<Self> {
        vec![Self {
            number: space::REGISTERS,
            name: "gpu".to_owned(),
            kind: SpaceKind::Registers,
            bytes,
        }]
    }
}

/// What prevents a device from accessing memory that does not belong to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Containment {
    /// A simulator: it has only the agent's memory.
    Software,
    /// An IOMMU.
    Iommu,
    /// The GPU's own page tables, which the verification of the plan checks.
    PageTables,
    /// Nothing.
    None,
    /// The device's driver, which isolates processes: a CUDA device.
    Driver,
}

/// The plans that a device takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceInterface {
    /// Plans of register accesses.
    Registers,
    /// Plans of API traces.
    Api,
    /// Plans of submissions to channels.
    Channel,
}

/// Physical memory that a plan may use, one contiguous range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arena {
    /// First byte, page-aligned.
    pub base: PhysAddr,
    /// Number of 4 KiB pages.
    pub pages: u64,
}

impl Arena {
    /// Returns the address one past the last byte.
    #[must_use]
    pub fn end(&self) -> PhysAddr {
        self.base
            .saturating_add(self.pages.saturating_mul(trace_core::PAGE_SIZE as u64))
    }

    /// Returns the address of the first byte for a device without page tables of its own.
    #[must_use]
    pub fn bus_base(&self) -> BusAddr {
        BusAddr::new(self.base.get())
    }

    /// Returns whether the page that holds `at` is in the arena.
    #[must_use]
    pub fn contains(&self, at: PhysAddr) -> bool {
        at >= self.base && at < self.end()
    }
}

/// The description of a device by its agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Name on its agent: `mali-g71`.
    pub name: String,
    /// A description for the user.
    pub description: String,
    /// Raw GPU id register.
    pub gpu_id: u32,
    /// Name of the GPU: `Mali-G71`.
    pub gpu_name: String,
    /// Name of the register map that describes it.
    pub register_map: String,
    /// What contains its memory accesses.
    pub containment: Containment,
    /// The plans that it takes.
    pub interface: DeviceInterface,
    /// Its identity on a bus, if it is on one. A recording of another device is refused.
    #[serde(with = "hardware_record::optional")]
    pub hardware: Option<Hardware>,
    /// Its windows, by ascending number. The first one holds its registers.
    pub windows: Vec<Window>,
    /// Memory for plans.
    pub arena: Arena,
    /// Whether its time is virtual (a simulator) or real.
    pub virtual_time: bool,
    /// Whether it can run shaders.
    pub computes: bool,
}

impl DeviceInfo {
    /// Returns whether the device takes API traces and not register accesses.
    #[must_use]
    pub fn takes_api_traces(&self) -> bool {
        self.interface == DeviceInterface::Api
    }

    /// Returns whether the device takes submissions to channels.
    #[must_use]
    pub fn takes_submissions(&self) -> bool {
        self.interface == DeviceInterface::Channel
    }

    /// Returns what the device takes, in words.
    #[must_use]
    pub fn taken_plans(&self) -> &'static str {
        match self.interface {
            DeviceInterface::Registers => "register accesses",
            DeviceInterface::Api => "driver calls",
            DeviceInterface::Channel => "submissions to channels",
        }
    }

    /// Returns the length of the register window, bytes, or 0 if there is none.
    #[must_use]
    pub fn register_bytes(&self) -> u64 {
        let registers = self.windows.iter().find(|w| w.number == space::REGISTERS);
        registers.map_or(0, |w| w.bytes)
    }
}

/// An error of a device.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReplayDeviceError {
    /// A page outside the arena was used.
    #[error("page frame {frame:#x} is outside the device's memory")]
    OutsideArena {
        /// The frame.
        frame: u64,
    },
    /// The device or the connection to it failed.
    #[error("the device failed: {0}")]
    Failed(String),
}

/// How a job ended, as the device itself reports it. A real device reports nothing and returns none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobReport {
    /// GPU address of the job's header.
    pub va: GpuVa,
    /// Job type, raw.
    pub job_type: u8,
    /// Exception code that the slot reported: [`JobReport::DONE`], [`JobReport::ACTIVE`], or why the job ended early.
    pub status: u8,
    /// `Some(true)`: the job ran its shader to the end. `Some(false)`: the job completed without running it. `None`:
    /// the job has no shader, or did not complete.
    pub computed: Option<bool>,
    /// Why the shader did not run, or what stopped it, for the user; or `None`.
    pub reason: Option<Box<str>>,
}

impl JobReport {
    /// Status of a job that is done.
    pub const DONE: u8 = 1;
    /// Status of a job that never ended.
    pub const ACTIVE: u8 = 8;
}

/// What every target has: identity, containment, reset.
pub trait Target: Send {
    /// Returns the description of the device.
    fn info(&self) -> DeviceInfo;

    /// Brings the device to its power-on state, with an empty arena (all zero).
    ///
    /// # Errors
    /// If the device fails.
    fn reset(&mut self) -> Result<(), ReplayDeviceError>;
}

/// Creates a target of register accesses, and creates it again after a panic.
pub type RegisterFactory = Arc<dyn Fn() -> Result<Box<dyn RegisterTarget>, ReplayDeviceError> + Send + Sync>;

/// A target of register accesses. [`replay_core::Device`] covers its registers and arena.
pub trait RegisterTarget: Target + replay_core::Device {
    /// Stores a page image in a frame of the arena.
    ///
    /// # Errors
    /// If the frame is outside the arena.
    fn store_page(&mut self, frame: u64, page: &Page) -> Result<(), ReplayDeviceError>;

    /// Whether the device has no work, and a plan that resets it itself may begin after [`Self::clear_memory`] alone. The
    /// default implementation knows nothing and returns `false`.
    fn is_idle(&self) -> bool {
        false
    }

    /// Clears the arena and what was observed of earlier plans. The state of the device stays. Only an idle device can.
    ///
    /// # Errors
    /// If the device does not support it.
    fn clear_memory(&mut self) -> Result<(), ReplayDeviceError> {
        Err(ReplayDeviceError::Failed(
            "the device needs a reset before each plan".to_owned(),
        ))
    }

    /// Stores bytes in the arena, within a frame, as a CPU does while a plan runs.
    ///
    /// # Errors
    /// If they are not within one frame, or the frame is outside the arena.
    fn store_bytes(&mut self, at: PhysAddr, bytes: &[u8]) -> Result<(), ReplayDeviceError> {
        let frame = at.frame();
        let mut page = ZERO_PAGE;
        self.load_page(frame, &mut page)?;
        let to = page.get_mut(at.in_page()..at.in_page().saturating_add(bytes.len()));
        to.ok_or(ReplayDeviceError::OutsideArena { frame })?
            .copy_from_slice(bytes);
        self.store_page(frame, &page)
    }

    /// Loads the image of a frame of the arena. Memory without content reads as zero.
    ///
    /// # Errors
    /// If the frame is outside the arena.
    fn load_page(&mut self, frame: u64, page: &mut Page) -> Result<(), ReplayDeviceError>;

    /// Returns the frames of the arena whose content may differ from zero, ascending, or `None` if the device does not
    /// know.
    fn content_frames(&mut self) -> Option<Vec<u64>> {
        None
    }

    /// Sets the progress of later work, until the next call. A device that computes checks it for cancellation and then
    /// ends its work soon, in any state.
    fn watch(&mut self, _progress: &Progress) {}

    /// Reads bytes of a window without read side effects, for example framebuffer memory. The default implementation
    /// reads word by word.
    ///
    /// # Errors
    /// If the window or the range does not belong to the device, or the device fails.
    fn load_window(&mut self, number: u8, offset: u64, to: &mut [u8]) -> Result<(), ReplayDeviceError> {
        let mut at = offset;
        let failed = |at: u64, e| ReplayDeviceError::Failed(format!("MMIO region {number}, offset {at:#x}: {e:?}"));
        let mut rest = to;
        while !rest.is_empty() {
            let width = if at.is_multiple_of(4) && rest.len() >= 4 { 4 } else { 1 };
            let value = self.read(number, at, width).map_err(|e| failed(at, e))?;
            let (now, behind) = rest.split_at_mut(usize::from(width));
            now.copy_from_slice(value.to_le_bytes().get(..now.len()).unwrap_or_default());
            rest = behind;
            at = at.saturating_add(u64::from(width));
        }
        Ok(())
    }

    /// Returns the picture that the device shows now, or `None` if it has no screen.
    ///
    /// # Errors
    /// If the device or the connection to it failed.
    fn screen(&mut self) -> Result<Option<Picture>, ReplayDeviceError> {
        Ok(None)
    }

    /// Enables or disables bus mastering: reads and writes of memory by the device itself. It is off after
    /// [`Target::reset`] and is enabled only for a plan whose every address was proved. A device without such a
    /// switch does nothing.
    ///
    /// # Errors
    /// If the device or the connection to it failed.
    fn set_bus_mastering(&mut self, _on: bool) -> Result<(), ReplayDeviceError> {
        Ok(())
    }

    /// Returns the DMA accesses outside the plan's memory that an IOMMU blocked while bus mastering was last on, for
    /// the user. A proved plan causes none.
    fn refused_accesses(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Returns why the device's interrupts are not available here, for the user. A plan that waits for one is then not
    /// run.
    fn no_interrupts(&self) -> Option<String> {
        None
    }

    /// Returns why the last access ended with [`replay_core::DeviceError::Gone`], for the user, or `None` if no more is
    /// known.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Returns the jobs that ended since the last call, in order.
    fn take_job_reports(&mut self) -> Vec<JobReport>;
}
