//! What the agent needs of a device beyond registers: identity, containment, memory, reset.

pub mod cuda;
pub mod guard;
pub mod host;
mod mapping;
mod memory;
pub mod pci;
pub mod platform;
pub mod qemu;
mod ticks;
pub mod vfio;
mod windows;

pub use memory::free as free_memory;

use crate::plan::{PageSource, Plan};
use crate::run::Outcome;
use serde::{Deserialize, Serialize};
use trace_core::PhysAddr;
use trace_core::progress::Progress;
use trace_core::recording::{Hardware, Page, SpaceKind, ZERO_PAGE};
use trace_core::screen::Picture;

/// Space numbers that plans use. Windows beside the registers have the numbers that the device gives them, from
/// [`space::FIRST_OTHER`] on.
pub mod space {
    /// Device registers: the window that the register map describes.
    pub const REGISTERS: u8 = 0;
    /// The agent's own memory for this plan: offset = physical address - start of the arena.
    pub const ARENA: u8 = 1;
    /// The first number of a window beside the registers: framebuffer memory, another block of registers.
    pub const FIRST_OTHER: u8 = 2;
}

/// A window of a device that a plan's accesses may go to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Space number in plans; never [`space::ARENA`].
    pub number: u8,
    /// Name of the space in recordings: `gpu`, `bar2`.
    pub name: String,
    /// What it is.
    pub kind: SpaceKind,
    /// Size in bytes.
    pub bytes: u64,
}

impl Window {
    /// The register window of a device that has no other, as recordings of job-manager GPUs call it.
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

/// What keeps a device from reaching memory that is not the agent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Containment {
    /// A software device: it has no memory but the agent's.
    Software,
    /// An IOMMU.
    Iommu,
    /// The GPU's own page tables, which the plan's verification proves.
    PageTables,
    /// Nothing.
    None,
    /// The device's driver, which gives a process what is the process's own: a CUDA device.
    Driver,
}

/// Physical memory that the agent gives a plan to use, in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arena {
    /// First byte, page-aligned.
    pub base: PhysAddr,
    /// Number of 4 KiB pages.
    pub pages: u64,
}

impl Arena {
    /// One past the last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.base
            .0
            .saturating_add(self.pages.saturating_mul(trace_core::PAGE_SIZE as u64))
    }

    /// Whether the page that holds `at` is in the arena.
    #[must_use]
    pub fn contains(&self, at: PhysAddr) -> bool {
        at.0 >= self.base.0 && at.0 < self.end()
    }
}

/// What a device says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Name on its agent: `mali-g71`.
    pub name: String,
    /// What it is, for a person.
    pub description: String,
    /// Raw GPU id register.
    pub gpu_id: u32,
    /// GPU in the field's words: `Mali-G71`.
    pub gpu_name: String,
    /// Name of the register map that describes it.
    pub register_map: String,
    /// What keeps it from foreign memory.
    pub containment: Containment,
    /// What it is on its bus, where it is on one: a recording of another device is refused.
    #[serde(with = "hardware_json")]
    pub hardware: Option<Hardware>,
    /// Its windows, by rising number. The first one is that of its registers.
    pub windows: Vec<Window>,
    /// Memory for plans.
    pub arena: Arena,
    /// Whether its time is virtual (a software device) or real.
    pub virtual_time: bool,
    /// Whether it can run shaders.
    pub computes: bool,
}

/// Hardware among fixed-width fields: the JSON text of its extra in recordings, so that one description has one form.
pub(crate) mod hardware_json {
    use super::Hardware;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de, ser};

    pub fn serialize<S: Serializer>(hardware: &Option<Hardware>, to: S) -> Result<S::Ok, S::Error> {
        let json = hardware.as_ref().map(serde_json::to_string).transpose();
        json.map_err(ser::Error::custom)?.serialize(to)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Hardware>, D::Error> {
        let json = Option::<String>::deserialize(from)?;
        let read = json.map(|text| serde_json::from_str(&text)).transpose();
        read.map_err(de::Error::custom)
    }
}

impl DeviceInfo {
    /// Whether it is given calls of its driver, and no accesses to registers.
    #[must_use]
    pub fn takes_calls(&self) -> bool {
        self.containment == Containment::Driver
    }

    /// Bytes of the register window; 0 where there is none.
    #[must_use]
    pub fn register_bytes(&self) -> u64 {
        let registers = self.windows.iter().find(|w| w.number == space::REGISTERS);
        registers.map_or(0, |w| w.bytes)
    }
}

/// A device went wrong.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BoardError {
    /// A page outside the arena was named.
    #[error("page frame {frame:#x} is outside the device's memory")]
    OutsideArena {
        /// The frame.
        frame: u64,
    },
    /// The device or the way to it failed.
    #[error("the device failed: {0}")]
    Failed(String),
}

/// How a job ended, as the device itself tells it (a real board tells nothing and returns none).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobReport {
    /// GPU address of the job's header.
    pub va: u64,
    /// Job type, raw.
    pub job_type: u8,
    /// Exception code that the slot reported: 1 is done.
    pub status: u8,
    /// `Some(true)`: the job ran its shader to the end. `Some(false)`: it completed without running it. `None`: it
    /// runs no shader, or did not complete.
    pub computed: Option<bool>,
    /// Why the shader did not run, or what stopped it, in words for a person; `None` where there is nothing to say.
    pub reason: Option<Box<str>>,
}

/// A device with what the agent needs around it. [`replay_core::Device`] is its register and arena side.
pub trait Board: replay_core::Device + Send {
    /// What it is.
    fn info(&self) -> DeviceInfo;

    /// Brings the device to its power-on state, with an empty arena (all zero).
    ///
    /// # Errors
    /// When the device fails.
    fn reset(&mut self) -> Result<(), BoardError>;

    /// Puts a page image into a frame of the arena.
    ///
    /// # Errors
    /// When the frame is outside the arena.
    fn store_page(&mut self, frame: u64, page: &Page) -> Result<(), BoardError>;

    /// Puts bytes into the arena, within a frame, as a CPU does while a plan runs.
    ///
    /// # Errors
    /// When they are not within one frame, or the frame is outside the arena.
    fn store_bytes(&mut self, at: PhysAddr, bytes: &[u8]) -> Result<(), BoardError> {
        let frame = at.frame();
        let mut page = ZERO_PAGE;
        self.load_page(frame, &mut page)?;
        let to = page.get_mut(at.in_page()..at.in_page().saturating_add(bytes.len()));
        to.ok_or(BoardError::OutsideArena { frame })?.copy_from_slice(bytes);
        self.store_page(frame, &page)
    }

    /// The image in a frame of the arena. Memory without content reads as zero.
    ///
    /// # Errors
    /// When the frame is outside the arena.
    fn load_page(&mut self, frame: u64, page: &mut Page) -> Result<(), BoardError>;

    /// Frames of the arena whose content may differ from zero, rising; `None` when the device cannot tell.
    fn content_frames(&mut self) -> Option<Vec<u64>> {
        None
    }

    /// Gives the device the progress of what it does from now on, until the next call. A device that computes looks
    /// whether it was cancelled, and then ends its work soon, in whatever state.
    fn watch(&mut self, _progress: &Progress) {}

    /// Reads bytes of a window that reading does not change, framebuffer memory for one. By default word by word.
    ///
    /// # Errors
    /// When the window or a part of it is not the device's, or the device fails.
    fn load_window(&mut self, number: u8, offset: u64, to: &mut [u8]) -> Result<(), BoardError> {
        let mut at = offset;
        let failed = |at: u64, e| BoardError::Failed(format!("window {number}, offset {at:#x}: {e:?}"));
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

    /// The picture that the device shows now; `None` for one that has no screen.
    ///
    /// # Errors
    /// When the device or the way to it failed.
    fn screen(&mut self) -> Result<Option<Picture>, BoardError> {
        Ok(None)
    }

    /// Lets the device read and write memory by itself (bus mastering), or stops it. It is off after
    /// [`Board::reset`], and goes on only for a plan whose every address was proved; a device that has no such switch
    /// does nothing.
    ///
    /// # Errors
    /// When the device or the way to it failed.
    fn set_bus_mastering(&mut self, _on: bool) -> Result<(), BoardError> {
        Ok(())
    }

    /// Accesses of the device to memory that is not the plan's, which an IOMMU kept from it while it last mastered the
    /// bus, in words for a person. A plan that was proved makes none.
    fn refused_accesses(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Why the device's interrupts cannot be had here, in words for a person: a plan that waits for one is not run then.
    fn no_interrupts(&self) -> Option<String> {
        None
    }

    /// Why the last access ended with [`replay_core::DeviceError::Gone`], in words for a person; `None` where there is
    /// no more to say.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Plays a plan of calls, `repeat` times, in the place of a run of actions: the outcome without its recording. `None`:
    /// the device takes accesses to registers.
    fn play_calls(
        &mut self,
        _plan: &Plan,
        _pages: &dyn PageSource,
        _repeat: u32,
        _progress: &Progress,
    ) -> Option<Outcome> {
        None
    }

    /// Jobs that ended since the last call, in order.
    fn take_job_reports(&mut self) -> Vec<JobReport>;
}
