//! The parts of a submission of a driver trace that refer to a target.

use crate::GpuVa;

/// The part of a submission that refers to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmittedPart {
    /// The commands contain the target.
    Commands {
        /// Address of the first command.
        va: GpuVa,
        /// Number of bytes.
        bytes: u64,
    },
    /// A copy reads the target.
    CopySource {
        /// Source.
        from: GpuVa,
        /// Destination.
        to: GpuVa,
        /// Number of bytes.
        bytes: u64,
    },
    /// A copy writes the target.
    CopyDestination {
        /// Source.
        from: GpuVa,
        /// Destination.
        to: GpuVa,
        /// Number of bytes.
        bytes: u64,
    },
    /// A fill writes the target.
    Fill {
        /// First byte.
        to: GpuVa,
        /// Number of bytes.
        bytes: u64,
    },
    /// Words of the push buffer are written to the target.
    Upload {
        /// First byte.
        to: GpuVa,
        /// Number of bytes.
        bytes: u64,
    },
    /// A semaphore is written.
    Release {
        /// Its address.
        va: GpuVa,
        /// Value to write.
        payload: u64,
    },
    /// A semaphore is waited for.
    Acquire {
        /// Its address.
        va: GpuVa,
        /// Value to wait for.
        payload: u64,
    },
    /// A launch starts at the target.
    Program(GpuVa),
    /// The descriptor of a launch contains the target.
    Descriptor(GpuVa),
    /// A constant bank of a launch contains the target.
    ConstantBank {
        /// Number of the bank.
        index: u32,
        /// Address of its first byte.
        va: GpuVa,
    },
    /// A parameter of a launch points at the target, or before it into its buffer.
    Parameter {
        /// Offset in the parameters, bytes.
        offset: u32,
        /// The pointer.
        pointer: GpuVa,
    },
    /// Methods hold an address of the target.
    Method {
        /// Class of the engine.
        class: u16,
        /// Byte address of the method.
        method: u16,
        /// Name of the method.
        name: &'static str,
        /// The address.
        va: GpuVa,
    },
}

impl SubmittedPart {
    /// Returns the name of the kind of item in JSON.
    #[must_use]
    pub fn item_name(&self) -> &'static str {
        match self {
            Self::Commands { .. } => "submission",
            Self::CopySource { .. } | Self::CopyDestination { .. } => "copy",
            Self::Fill { .. } => "fill",
            Self::Upload { .. } => "upload",
            Self::Release { .. } | Self::Acquire { .. } => "semaphore",
            Self::Program(_) | Self::Descriptor(_) | Self::ConstantBank { .. } | Self::Parameter { .. } => "launch",
            Self::Method { .. } => "method",
        }
    }

    /// Returns the name of the part in JSON.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Commands { .. } => "commands",
            Self::CopySource { .. } => "source",
            Self::CopyDestination { .. } | Self::Fill { .. } | Self::Upload { .. } => "destination",
            Self::Release { .. } => "release",
            Self::Acquire { .. } => "acquire",
            Self::Program(_) => "program",
            Self::Descriptor(_) => "descriptor",
            Self::ConstantBank { .. } => "constant-bank",
            Self::Parameter { .. } => "parameter",
            Self::Method { .. } => "method",
        }
    }

    /// Returns the address that the part names.
    #[must_use]
    pub fn va(&self) -> GpuVa {
        match *self {
            Self::CopySource { from, .. } => from,
            Self::CopyDestination { to, .. } | Self::Fill { to, .. } | Self::Upload { to, .. } => to,
            Self::Program(va) | Self::Descriptor(va) => va,
            Self::Parameter { pointer, .. } => pointer,
            Self::Commands { va, .. }
            | Self::Release { va, .. }
            | Self::Acquire { va, .. }
            | Self::ConstantBank { va, .. }
            | Self::Method { va, .. } => va,
        }
    }
}
