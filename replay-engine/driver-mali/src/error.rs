//! What can go wrong while driving a GPU.

use replay_core::DeviceError;
use replay_engine::device::BoardError;
use trace_core::GpuVa;
use trace_core::import::ImportError;
use trace_core::progress::Cancelled;

/// The driver could not go on.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// A register access failed.
    #[error("the {what} at {offset:#x} failed: {error:?}")]
    Access {
        /// `read` or `write`.
        what: &'static str,
        /// Offset of the register.
        offset: u32,
        /// What the device said.
        error: DeviceError,
    },
    /// A word of the device's memory could not be reached.
    #[error("the {what} of memory at {offset:#x} failed: {error:?}")]
    MemoryAccess {
        /// `read` or `write`.
        what: &'static str,
        /// Offset from the start of the arena.
        offset: u64,
        /// What the device said.
        error: DeviceError,
    },
    /// Memory of the device could not be reached.
    #[error(transparent)]
    Board(#[from] BoardError),
    /// An interrupt did not come.
    #[error("no interrupt for {what} within {limit_ns} ns")]
    NoInterrupt {
        /// What was waited for.
        what: &'static str,
        /// Limit of the wait.
        limit_ns: u64,
    },
    /// An interrupt came with another status than the one waited for.
    #[error("the interrupt for {what} has status {status:#x}")]
    WrongInterrupt {
        /// What was waited for.
        what: &'static str,
        /// Status read.
        status: u32,
    },
    /// An address space stayed busy.
    #[error("address space {number} stayed active for {reads} reads of its status")]
    SpaceBusy {
        /// Number of the address space.
        number: u8,
        /// Reads made.
        reads: u32,
    },
    /// The device is of a kind that this driver does not know.
    #[error("GPU id {gpu_id:#x} is not a Mali job-manager GPU that this driver knows")]
    UnknownGpu {
        /// The id register.
        gpu_id: u32,
    },
    /// No address space is free, or the number is not one.
    #[error("there is no address space {number}")]
    NoSpace {
        /// The number.
        number: usize,
    },
    /// No job slot has this number.
    #[error("there is no job slot {slot}")]
    NoSlot {
        /// The number.
        slot: u8,
    },
    /// The arena is used up.
    #[error("the device's {pages} pages of memory are used up")]
    OutOfMemory {
        /// Pages of the arena.
        pages: u64,
    },
    /// A range is empty, misaligned, too large, or mapped already.
    #[error("{bytes:#x} bytes at {va} cannot be mapped: {reason}")]
    BadRange {
        /// First byte.
        va: GpuVa,
        /// Size.
        bytes: u64,
        /// Why.
        reason: &'static str,
    },
    /// The address is not mapped.
    #[error("{va} is not mapped in address space {number}")]
    NotMapped {
        /// The address.
        va: GpuVa,
        /// Number of the address space.
        number: u8,
    },
    /// A job failed where it was to succeed.
    #[error("the chain at {head} failed with status {status:#x}")]
    JobFailed {
        /// Head of the chain.
        head: GpuVa,
        /// Exception code.
        status: u8,
    },
    /// Job chains were made for another GPU than the device is.
    #[error("{place}: its job chains are for {made_for}, the device is {device}")]
    OtherGpu {
        /// The folder.
        place: String,
        /// The GPU that they are for: `a Mali-G52 (0x72120000)`.
        made_for: String,
        /// The GPU that the device is.
        device: String,
    },
    /// A folder of job chains cannot be read.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// Nobody wants the result any more.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}
