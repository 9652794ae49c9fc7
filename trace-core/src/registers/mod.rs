//! Register maps: data under `assets/registers/`, and the codec that reads registers, entries and descriptors.
//!
//! A map is made of TOML files, one block a file, as `docs/register-map.md` specifies. The maps that the project knows
//! are embedded; [`RegisterMap::parse`] reads others.

mod access;
mod accesses;
mod bus;
mod device;
mod embedded;
mod guess;
pub mod history;
mod layout;
mod map;
mod map_selection;
mod memory;
mod overlay;
mod parse;
mod raw;
mod recorded;
mod rules;
mod screen;
#[cfg(test)]
mod tests;
mod weight;

pub use access::{CoveredRegisters, Part};
pub(crate) use accesses::gallop;
pub use accesses::{AccessList, Accesses, Cursor, RegisterAccess};
pub use bus::{AddressRegister, BusCommand, BusEngine, BusEntries, BusMaster, CopyEngine, QueueEngine};
pub use device::{device_name, recorded_name};
pub use embedded::gpu_name;
pub use guess::{Follower, Guess, Hint, guess};
pub use layout::{Decoded, Field, FieldKind, FieldValue, Layout, Unknown};
pub use map::RegisterMap;
pub use map_selection::{MapScope, choose};
pub use memory::NamedMemory;
pub use parse::RegisterMapError;
pub use recorded::{NO_SPACE, RecordedRegisters, format_location, has_several_spaces, register_space};
pub use screen::{ScreenFact, ScreenSource};

use crate::recording::InterruptLine;
use std::ops::Range;
use std::sync::Arc;

/// Who may do what with a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessRule {
    /// Writes have no effect.
    ReadOnly,
    /// Reads give nothing that means something.
    WriteOnly,
    /// Both.
    ReadWrite,
}

impl AccessRule {
    /// Whether a write means something.
    #[must_use]
    pub fn is_writable(self) -> bool {
        self != Self::ReadOnly
    }

    /// The short name in tables: `RO`, `WO`, `RW`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "RO",
            Self::WriteOnly => "WO",
            Self::ReadWrite => "RW",
        }
    }
}

/// What a replay does with a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Whether recorded writes may be replayed.
    pub write: bool,
    /// The only values that may be written, where not every value may.
    pub values: Option<Vec<u64>>,
    /// How a recorded read is held against the live one.
    pub read: ReadRule,
    /// Why a read before anything wrote the register depends on what ran before the recording, where it does: a
    /// disagreement there is a finding and no divergence.
    pub before: Option<String>,
    /// What the compiler and the verifier of plans must know the register as.
    pub role: Option<Role>,
    /// Why it may not be written, or why its reads are not compared; empty where both are.
    pub reason: String,
}

impl Replay {
    /// Whether a recorded write of `value` may be replayed.
    #[must_use]
    pub fn allows(&self, value: u64) -> bool {
        self.write && self.values.as_ref().is_none_or(|v| v.contains(&value))
    }
}

/// How a recorded read is held against the live one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadRule {
    /// Must match.
    Equal,
    /// The bits set here must match.
    Masked(u64),
    /// A status that a driver polls: repeat until it matches, with a limit.
    Until,
    /// Not compared; the live value is used by a later rewrite.
    Feeds,
    /// Not compared: free-running. The map gives the reason.
    Any,
}

/// What a register is to the compiler and the verifier of plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Root of an address space's page tables.
    Root,
    /// How an address space translates.
    TransCfg,
    /// Memory attributes of an address space.
    MemAttr,
    /// Range that the next address-space command works on.
    LockAddr,
    /// Address-space command.
    AsCommand,
    /// Whether an address-space command is still being worked on.
    AsStatus,
    /// Why an address space faulted.
    FaultStatus,
    /// Where an address space faulted.
    FaultAddress,
    /// GPU address of the next job chain.
    JobHead,
    /// Cores that the next chain may use.
    JobAffinity,
    /// Address space and cache maintenance of the next chain.
    JobConfig,
    /// Starts the next chain.
    JobCommand,
    /// Flush id of the next chain.
    FlushId,
    /// GPU address of the chain that runs.
    JobCurrent,
    /// GPU address of the job that ended or failed last.
    JobTail,
    /// Stops the chain that runs.
    JobStop,
    /// How the chain that runs, or ended last, stands.
    JobStatus,
    /// Number of cache flushes so far.
    LatestFlush,
    /// Resets, caches, counters.
    GpuCommand,
    /// What of the GPU is busy.
    GpuStatus,
    /// Why the GPU itself faulted.
    GpuFaultStatus,
    /// Where the GPU itself faulted.
    GpuFaultAddress,
    /// Powers cores up.
    PowerOn,
    /// Powers cores down.
    PowerOff,
    /// Cores that are up.
    PowerReady,
    /// Cores on the way up or down.
    PowerTransition,
    /// Interrupts that are raised and not masked.
    IrqStatus(InterruptLine),
    /// Interrupts that are raised.
    IrqRawstat(InterruptLine),
    /// Takes interrupts back.
    IrqClear(InterruptLine),
    /// Interrupts that reach the CPU.
    IrqMask(InterruptLine),
    /// GPU address that performance counters are written to.
    PerfBase,
    /// Performance-counter set-up other than the address.
    PerfConfig,
    /// Address on the bus: of memory that the device reads or writes by itself. Where the register is half of a pair,
    /// [`Register::pair`] tells which.
    BusAddress,
    /// Tells the device that work waits in memory.
    Doorbell,
    /// Why a device with one interrupt line raises it, before any mask.
    InterruptRaw,
    /// Why a device with one interrupt line raises it.
    InterruptStatus,
    /// The same; a read takes the interrupt back.
    InterruptStatusClears,
    /// The same; a write takes back the interrupts whose bits it sets.
    InterruptStatusAcknowledge,
    /// Takes interrupts of a device with one line back.
    InterruptClear,
    /// Which interrupts of a device with one line reach the CPU.
    InterruptMask,
    /// Raises an interrupt by hand.
    InterruptRaise,
    /// Tells what is on the screen; [`Register::screen`] says what and how.
    Screen,
}

/// Which half of a 64-bit register this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Half {
    /// Bits 31 to 0.
    Low {
        /// Where bits 63 to 32 are.
        high_offset: u32,
    },
    /// Bits 63 to 32.
    High {
        /// Where bits 31 to 0 are.
        low_offset: u32,
    },
}

/// A register of 1, 2, 4 or 8 bytes.
#[derive(Clone, Debug)]
pub struct Register {
    /// Name, unique in the map; of a slot or address space with its number: `JS1_HEAD_NEXT_LO`, `AS0_STATUS`.
    pub name: String,
    /// Block: `GPU_CONTROL`, `JOB_CONTROL`, `JOB_SLOT`, `MMU`, `AS`.
    pub block: String,
    /// Number of the slot or address space, in blocks that repeat.
    pub index: Option<u8>,
    /// Byte offset in the window, a multiple of the width.
    pub offset: u32,
    /// Width in bytes: 1, 2, 4 or 8. Halves of a pair have 4.
    pub width: u8,
    /// Who may do what with it.
    pub access: AccessRule,
    /// What a replay does with it.
    pub replay: Replay,
    /// Its fields.
    pub layout: Layout,
    /// What it is, in a sentence.
    pub doc: String,
    /// Which half of a 64-bit register it is, if it is one.
    pub pair: Option<Half>,
    /// Fields of the whole 64-bit register, where this is a half of one.
    pub wide: Option<Arc<Layout>>,
    /// Whether it tells what the GPU is: does not change while a recording is made, save by the model of the GPU.
    pub identity: bool,
    /// What it tells of the picture on the screen; empty for most.
    pub screen: Vec<ScreenSource>,
    /// Of a bus address: values that are no address on the bus, because the device's own memory lies there.
    pub local: Option<Range<u64>>,
    /// Where the knowledge comes from.
    pub provenance: String,
}

impl Register {
    /// One past its last byte in the window.
    #[must_use]
    pub fn end(&self) -> u32 {
        self.offset.saturating_add(u32::from(self.width))
    }

    /// A short line that says what a value means: `start`, `slot 1 done`.
    #[must_use]
    pub fn describe(&self, value: u64) -> String {
        self.layout.describe(value)
    }
}
