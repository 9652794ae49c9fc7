//! A register: its offset, access rule, replay rule, role and fields.

use super::{Direction, Layout, ScreenSource};
use crate::RegOffset;
use crate::recording::InterruptLine;
use std::ops::Range;
use std::sync::Arc;

/// Read and write access of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessRule {
    /// Writes have no effect.
    ReadOnly,
    /// Reads return nothing meaningful.
    WriteOnly,
    /// Both reads and writes have a meaning.
    ReadWrite,
}

impl AccessRule {
    /// Whether a write has a meaning.
    #[must_use]
    pub fn is_writable(self) -> bool {
        self != Self::ReadOnly
    }

    /// Returns the short name in tables: `RO`, `WO`, `RW`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "RO",
            Self::WriteOnly => "WO",
            Self::ReadWrite => "RW",
        }
    }
}

/// The treatment of a register in a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Whether recorded writes may be replayed.
    pub write: bool,
    /// The only values that may be written, if not every value may.
    pub values: Option<Vec<u64>>,
    /// How a recorded read is compared with the live one.
    pub read: ReadRule,
    /// Why a read before the first write depends on the state before the recording, if it does: a difference there is a
    /// finding and no divergence.
    pub before: Option<String>,
    /// The role of the register for the compiler and the verifier of plans.
    pub role: Option<Role>,
    /// Why it may not be written, or why its reads are not compared; empty if both are allowed.
    pub reason: String,
}

impl Replay {
    /// Whether a recorded write of `value` may be replayed.
    #[must_use]
    pub fn allows(&self, value: u64) -> bool {
        self.write && self.values.as_ref().is_none_or(|v| v.contains(&value))
    }
}

/// How a recorded read is compared with the live one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadRule {
    /// Must match.
    Equal,
    /// The bits set here must match.
    Masked(u64),
    /// A status that a driver polls: repeated until it matches, with a limit.
    Until,
    /// Not compared; a later rewrite uses the live value.
    Feeds,
    /// Not compared: free-running. The map gives the reason.
    Any,
}

/// The role of a register for the compiler and the verifier of plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Root of an address space's page tables.
    Root,
    /// Translation configuration of an address space.
    TransCfg,
    /// Memory attributes of an address space.
    MemAttr,
    /// Range of the next address-space command.
    LockAddr,
    /// Address-space command.
    AsCommand,
    /// Whether an address-space command is still active.
    AsStatus,
    /// Fault reason of an address space.
    FaultStatus,
    /// Fault address of an address space.
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
    /// GPU address of the running chain.
    JobCurrent,
    /// GPU address of the job that ended or failed last.
    JobTail,
    /// Stops the running chain.
    JobStop,
    /// Status of the running chain, or of the last one.
    JobStatus,
    /// Number of cache flushes so far.
    LatestFlush,
    /// Resets, caches, counters.
    GpuCommand,
    /// The busy parts of the GPU.
    GpuStatus,
    /// Fault reason of the GPU itself.
    GpuFaultStatus,
    /// Fault address of the GPU itself.
    GpuFaultAddress,
    /// Powers cores up.
    PowerOn,
    /// Powers cores down.
    PowerOff,
    /// Cores that are powered up.
    PowerReady,
    /// Cores that are powering up or down.
    PowerTransition,
    /// Raised and unmasked interrupts.
    IrqStatus(InterruptLine),
    /// Raised interrupts.
    IrqRawstat(InterruptLine),
    /// Acknowledges interrupts.
    IrqClear(InterruptLine),
    /// Interrupts that reach the CPU.
    IrqMask(InterruptLine),
    /// GPU address of the performance counter buffer.
    PerfBase,
    /// Performance-counter set-up other than the address.
    PerfConfig,
    /// Bus address of memory that the device reads or writes by itself. If the register is half of a pair,
    /// [`Register::pair`] says which.
    BusAddress,
    /// Doorbell: notifies the device of work in memory.
    Doorbell,
    /// Unmasked interrupt reason of a device with one interrupt line.
    InterruptRaw,
    /// Interrupt reason of a device with one interrupt line.
    InterruptStatus,
    /// Interrupt reason; a read acknowledges the interrupt.
    InterruptStatusClears,
    /// Interrupt reason; a write acknowledges the interrupts whose bits it sets.
    InterruptStatusAcknowledge,
    /// Acknowledges interrupts of a device with one interrupt line.
    InterruptClear,
    /// Interrupt mask of a device with one interrupt line.
    InterruptMask,
    /// Raises an interrupt by software.
    InterruptRaise,
    /// Describes the picture on the screen; [`Register::screen`] lists the facts.
    Screen,
}

/// The half of a 64-bit register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Half {
    /// Bits 31 to 0.
    Low {
        /// Offset of bits 63 to 32.
        high_offset: RegOffset,
    },
    /// Bits 63 to 32.
    High {
        /// Offset of bits 31 to 0.
        low_offset: RegOffset,
    },
}

/// A register of 1, 2, 4 or 8 bytes.
#[derive(Clone, Debug)]
pub struct Register {
    /// Name, unique in the map, with the number of its slot or address space: `JS1_HEAD_NEXT_LO`, `AS0_STATUS`.
    pub name: String,
    /// Block: `GPU_CONTROL`, `JOB_CONTROL`, `JOB_SLOT`, `MMU`, `AS`.
    pub block: String,
    /// Number of the slot or address space, in blocks that repeat.
    pub index: Option<u8>,
    /// Byte offset in the window, a multiple of the width.
    pub offset: RegOffset,
    /// Width in bytes: 1, 2, 4 or 8. Halves of a pair have 4.
    pub width: u8,
    /// Read and write access.
    pub access: AccessRule,
    /// The treatment in a replay. Members of an array share it.
    pub replay: Arc<Replay>,
    /// Its fields.
    pub layout: Layout,
    /// Description in one sentence. Members of an array share it.
    pub doc: Arc<str>,
    /// The half of a 64-bit register, if it is one.
    pub pair: Option<Half>,
    /// Fields of the whole 64-bit register, if this is a half of one.
    pub wide: Option<Arc<Layout>>,
    /// Whether it identifies the GPU: constant during a recording, and different only between GPU models.
    pub identity: bool,
    /// Screen facts that it gives; usually empty.
    pub screen: Vec<ScreenSource>,
    /// For a bus address: values that are not bus addresses, because the device's own memory is there.
    pub local: Option<Range<u64>>,
    /// Source of the knowledge.
    pub provenance: Arc<str>,
}

impl Register {
    /// Returns the offset after its last byte in the window.
    #[must_use]
    pub fn end(&self) -> RegOffset {
        self.offset.saturating_add(u32::from(self.width))
    }

    /// Describes a value in one short line: `start`, `slot 1 done`.
    #[must_use]
    pub fn describe(&self, value: u64) -> String {
        self.layout.describe(value)
    }

    /// Describes a value that was read or written.
    #[must_use]
    pub fn describe_in(&self, value: u64, direction: Direction) -> String {
        self.layout.describe_part_in(value, u64::MAX, direction)
    }
}
