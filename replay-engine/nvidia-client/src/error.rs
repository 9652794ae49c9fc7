//! Why a client cannot do something.

use crate::SystemError;
use core::fmt;

/// What a client asked the driver for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Open a device file.
    Open,
    /// List the GPUs.
    CardInfo,
    /// Bind a device file to a control file.
    RegisterFile,
    /// Allocate an object of this class.
    Allocate(u32),
    /// Make a control call of this command.
    Control(u32),
    /// Free an object.
    Free,
    /// Map memory for the CPU.
    MapForCpu,
    /// Map memory into the GPU's address space at this address.
    MapForGpu(u64),
    /// Remove memory from the GPU's address space.
    UnmapFromGpu(u64),
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open the device file"),
            Self::CardInfo => f.write_str("list the GPUs"),
            Self::RegisterFile => f.write_str("register the device file"),
            Self::Allocate(class) => write!(f, "allocate an object of class {class:#06x}"),
            Self::Control(command) => write!(f, "make the control call {command:#010x}"),
            Self::Free => f.write_str("free an object"),
            Self::MapForCpu => f.write_str("map memory for the CPU"),
            Self::MapForGpu(va) => write!(f, "map memory for the GPU at {va:#x}"),
            Self::UnmapFromGpu(va) => write!(f, "unmap the GPU's memory at {va:#x}"),
        }
    }
}

/// Why a client cannot do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// The operating system refused.
    System {
        /// What was asked.
        operation: Operation,
        /// The error.
        error: SystemError,
    },
    /// The driver refused.
    Refused {
        /// What was asked.
        operation: Operation,
        /// The driver's status code (`NV_ERR_…`).
        status: u32,
    },
    /// The machine has no GPU of this number.
    NoGpu {
        /// The number.
        number: u32,
        /// Number of GPUs.
        count: u32,
    },
    /// The GPU has no channel, compute, copy or user-mode class that the client knows.
    UnknownGpu {
        /// Number of classes that the GPU has.
        classes: u32,
    },
    /// The driver returned another GPU address.
    OtherAddress {
        /// The address that was asked for.
        asked: u64,
        /// The address that was returned.
        returned: u64,
    },
    /// Memory is not mapped for the CPU, or an access leaves it.
    NotMapped {
        /// GPU address of the access.
        va: u64,
    },
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System { operation, error } => {
                write!(f, "the system refused to {operation}: error {}", error.0)
            }
            Self::Refused { operation, status } => {
                write!(f, "the driver refused to {operation}: status {status:#x}")
            }
            Self::NoGpu { number, count } => write!(f, "there is no GPU {number}: the driver lists {count}"),
            Self::UnknownGpu { classes } => write!(
                f,
                "none of the {classes} classes of the GPU is a channel, compute or copy class that is supported"
            ),
            Self::OtherAddress { asked, returned } => write!(
                f,
                "the driver mapped memory at {returned:#x} instead of the address {asked:#x} that was asked for"
            ),
            Self::NotMapped { va } => write!(f, "the memory at {va:#x} is not mapped"),
        }
    }
}

impl core::error::Error for ClientError {}
