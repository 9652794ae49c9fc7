//! Identity of a recording: GPU, driver, board, tool, clock, spaces, address spaces, buffers, lost events.

use crate::page_table_format::{self, DescribedFormat, PageTableFormat};
use crate::{GpuVa, PhysAddr};
use num_enum::TryFromPrimitive;
use serde::{Deserialize, Serialize};

/// The origin of a recording. Empty strings are unknown values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Raw GPU id register, 0 if unknown.
    pub gpu_id: u32,
    /// GPU name, `Mali-G71`.
    pub gpu_name: String,
    /// Driver and its version.
    pub driver: String,
    /// Board or machine.
    pub board: String,
    /// Tool that made the recording, with its version.
    pub tool: String,
    /// Form of the source: `gpureplay`, `raw-memory`, `outcome`, `driver-mali`, …
    pub source: String,
    /// Time of recording: RFC 3339, or empty.
    pub when: String,
    /// Meaning of the event times.
    pub clock: Clock,
}

impl Identity {
    /// Value of [`Self::source`] if the jobs are command streams, whose register writes follow their submit as events.
    pub const COMMAND_STREAMS: &'static str = "freedreno-rd";
    /// Value of [`Self::source`] if the accesses and jobs are trace events of a kernel driver. An interrupt of the job line
    /// then ends the job whose number, counted from 0 in event order, is its status.
    pub const DRIVER_EVENTS: &'static str = "driver-events";
    /// Start of a note about a reset of the GPU, in such a recording. It ends every running job.
    pub const RESET_NOTE: &'static str = "reset: ";
    /// Start of a note about a job that hangs, in such a recording. The number of the job and a colon follow; the note
    /// ends this job.
    pub const HANG_NOTE: &'static str = "hang of job ";
    /// Value of [`Self::source`] for a device core dump of the Linux driver msm. Its jobs are command streams too.
    pub const MSM_CORE_DUMP: &'static str = "msm-devcoredump";
    /// Value of [`Self::source`] for a device core dump of the Linux driver etnaviv. It does not identify the GPU, and the
    /// driver fixes the layout of the registers.
    pub const ETNAVIV_CORE_DUMP: &'static str = "etnaviv-devcoredump";
    /// Value of [`Self::source`] if the page images of the source include the page tables.
    pub const RAW_MEMORY: &'static str = "raw-memory";
}

/// Meaning of the time column of the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Clock {
    /// Nanoseconds since the first event.
    #[default]
    SinceStart,
    /// Nanoseconds on the recorded machine's monotonic clock.
    Monotonic,
    /// Virtual nanoseconds of a software device.
    Virtual,
    /// Ticks of a counter whose frequency is unknown.
    Ticks,
}

impl Clock {
    /// Whether times are ticks, not nanoseconds.
    #[must_use]
    pub fn counts_ticks(self) -> bool {
        self == Self::Ticks
    }
}

/// A target of accesses, such as a register window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// Name, unique in the recording: `gpu`, `bar0`, …
    pub name: String,
    /// Its kind.
    pub kind: SpaceKind,
    /// Size in bytes; accesses beyond it are findings.
    pub bytes: u64,
}

/// The kind of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpaceKind {
    /// Device registers.
    Registers,
    /// Framebuffer memory.
    Framebuffer,
    /// x86 port I/O.
    Ports,
    /// PCI configuration space.
    Config,
    /// Machine memory that the driver reads besides the device: the shadow of an expansion ROM, a BIOS table.
    Memory,
}

/// Format of a page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MmuFormat {
    /// Armv8 stage-1 tables with a 4 KiB granule, as Arm's own driver uses them on Bifrost.
    Aarch64_4k,
    /// The Mali LPAE-derived format, as mainline Linux uses it.
    MaliLpae,
    /// A format of a description, which the recording holds.
    Described(DescribedFormat),
}

impl MmuFormat {
    /// The formats that the program also writes, those of Mali GPUs.
    pub const WRITTEN: [Self; 2] = [Self::Aarch64_4k, Self::MaliLpae];

    /// Returns the description of the format.
    #[inline]
    #[must_use]
    pub fn description(self) -> &'static PageTableFormat {
        match self {
            Self::Aarch64_4k => page_table_format::aarch64_4k(),
            Self::MaliLpae => page_table_format::mali_lpae(),
            Self::Described(described) => described.description(),
        }
    }

    /// Returns the name of the format in JSON, arguments and plans.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.description().name()
    }

    /// Returns the embedded format of this name, or `None` if there is none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let written = Self::WRITTEN.into_iter().find(|format| format.name() == name);
        written.or_else(|| page_table_format::find_embedded(name).map(Self::Described))
    }
}

/// A page-table root and its format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressSpace {
    /// Hardware address-space number.
    pub number: u8,
    /// Format of the tables.
    pub format: MmuFormat,
    /// Physical address of the top table.
    pub root: PhysAddr,
    /// Memory attributes that entries index, one byte each.
    pub memattr: u64,
    /// The translation-configuration register, as the source gives it.
    pub transcfg: u64,
}

/// The role of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BufferRole {
    /// Input of the work.
    Input,
    /// Output of the work.
    Output,
    /// Shared between CPU and GPU, role unknown.
    Shared,
    /// Constant parameters of the work.
    Weights,
    /// Shader code.
    Shader,
    /// Job descriptors.
    Descriptor,
}

impl BufferRole {
    /// All roles.
    pub const ALL: [Self; 6] = [
        Self::Input,
        Self::Output,
        Self::Shared,
        Self::Weights,
        Self::Shader,
        Self::Descriptor,
    ];

    /// Returns the role of this name, or `None` if there is none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    /// Returns the role's name in JSON, tables and the window.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
            Self::Shared => "shared",
            Self::Weights => "weights",
            Self::Shader => "shader",
            Self::Descriptor => "descriptor",
        }
    }
}

/// Type of a buffer's elements, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ElementType {
    /// Unsigned 8 bits: raw bytes.
    U8,
    /// Signed 8 bits.
    I8,
    /// Unsigned 16 bits.
    U16,
    /// Signed 16 bits.
    I16,
    /// Unsigned 32 bits.
    U32,
    /// Signed 32 bits.
    I32,
    /// Unsigned 64 bits.
    U64,
    /// Signed 64 bits.
    I64,
    /// IEEE binary16.
    F16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// Brain floating point: the upper 16 bits of a binary32.
    BF16,
}

impl ElementType {
    /// All types, in the order of the user interface.
    pub const ALL: [Self; 12] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::U64,
        Self::I64,
        Self::F16,
        Self::F32,
        Self::F64,
        Self::BF16,
    ];

    /// Returns the size of an element, bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::BF16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Whether it is a floating-point type.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::BF16 | Self::F32 | Self::F64)
    }

    /// Returns the short name: `f32`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::BF16 => "bf16",
        }
    }
}

/// A named range of GPU memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffer {
    /// Name, unique in the recording.
    pub name: String,
    /// Its role.
    pub role: BufferRole,
    /// Address space, an index into the recording's list.
    pub address_space: u32,
    /// First byte.
    pub va: GpuVa,
    /// Size in bytes.
    pub bytes: u64,
    /// Type of the elements, as far as it is known; users may view it as another.
    pub element: ElementType,
}

/// A range that the driver allocated, as the source gives it. Regions may overlap: sources do not always record when
/// one was freed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// Address space, an index into the recording's list.
    pub address_space: u32,
    /// First byte.
    pub start: GpuVa,
    /// One past the last byte.
    pub end: GpuVa,
    /// Number of pages with memory, from the start on.
    pub committed_pages: u64,
    /// The driver's flags, raw.
    pub flags: u64,
    /// Whether the source holds the contents.
    pub has_content: bool,
}

/// Events that a recorder knows are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostEvents {
    /// The event before which they are missing.
    pub before_event: u64,
    /// Number of events; `None` if only the fact of a loss is known.
    pub count: Option<u64>,
    /// Message of the recorder.
    pub reason: String,
}

/// Interrupt lines of a Mali job-manager GPU; other devices number their own from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, TryFromPrimitive)]
#[repr(u32)]
pub enum InterruptLine {
    /// Job slots.
    Job = 0,
    /// Address-space faults.
    Mmu = 1,
    /// Reset, power, caches, counters.
    Gpu = 2,
}

impl InterruptLine {
    /// Returns the line with this number.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::try_from(raw).ok()
    }

    /// Returns the line's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Mmu => "mmu",
            Self::Gpu => "gpu",
        }
    }
}
