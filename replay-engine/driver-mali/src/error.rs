//! Errors of the Mali driver.

use replay_core::DeviceError;
use replay_engine::device::ReplayDeviceError;
use trace_core::GpuVa;
use trace_core::progress::Cancelled;
use trace_import::ImportError;

/// Error that ends the work of the driver.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// A register access failed.
    #[error("the {what} at {offset:#x} failed: {error:?}")]
    Access {
        /// `read` or `write`.
        what: &'static str,
        /// Offset of the register.
        offset: u32,
        /// Error of the device.
        error: DeviceError,
    },
    /// A word of the device's memory could not be accessed.
    #[error("the {what} of memory at {offset:#x} failed: {error:?}")]
    MemoryAccess {
        /// `read` or `write`.
        what: &'static str,
        /// Offset from the start of the arena.
        offset: u64,
        /// Error of the device.
        error: DeviceError,
    },
    /// The device's memory could not be accessed.
    #[error(transparent)]
    Device(#[from] ReplayDeviceError),
    /// An interrupt did not arrive.
    #[error("no interrupt for {what} within {limit_ns} ns")]
    NoInterrupt {
        /// What was waited for.
        what: &'static str,
        /// Timeout of the wait.
        limit_ns: u64,
    },
    /// An interrupt arrived with another status than expected.
    #[error("the interrupt for {what} has status {status:#x}")]
    WrongInterrupt {
        /// What was waited for.
        what: &'static str,
        /// Status that was read.
        status: u32,
    },
    /// An address space stayed busy.
    #[error("address space {number} stayed active for {reads} reads of its status")]
    SpaceBusy {
        /// Number of the address space.
        number: u8,
        /// Number of reads.
        reads: u32,
    },
    /// This driver does not know the device's GPU.
    #[error("GPU id {gpu_id:#x} is not a Mali job-manager GPU that this driver knows")]
    UnknownGpu {
        /// The id register.
        gpu_id: u32,
    },
    /// No address space is free, or the number is invalid.
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
        /// First byte of the range.
        va: GpuVa,
        /// Size, bytes.
        bytes: u64,
        /// Reason.
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
    /// A job failed that was expected to succeed.
    #[error("the chain at {head} failed with status {status:#x}")]
    JobFailed {
        /// Address of the chain's first job.
        head: GpuVa,
        /// Exception code.
        status: u8,
    },
    /// Job chains are for another GPU than the device.
    #[error("{place}: its job chains are for {made_for}, but the device is {device}")]
    OtherGpu {
        /// The folder.
        place: String,
        /// The GPU that the chains are for: `a Mali-G52 (0x72120000)`.
        made_for: String,
        /// The GPU of the device.
        device: String,
    },
    /// A folder of job chains cannot be read.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}
