//! Why a cubin or a kernel cannot be loaded.

use nvidia_channel::GpuVa;

use super::requirement::{RuntimeRequirement, list};
use crate::Error;

/// Architecture whose rules the loader knows.
pub(super) const ARCHITECTURE: u32 = 90;

/// A cubin or a kernel that cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The file is damaged.
    #[error(transparent)]
    Damaged(#[from] Error),
    /// The code is for another architecture.
    #[error("the cubin is for architecture {number}: only {ARCHITECTURE} can be loaded")]
    Architecture {
        /// Number of the architecture.
        number: u32,
    },
    /// A linker has not finished the file.
    #[error("the cubin is an object file: link it first")]
    Unlinked,
    /// There is no memory for a segment.
    #[error("no memory for {bytes} bytes of section {section}")]
    NoMemory {
        /// Name of the section.
        section: String,
        /// Size of the segment, bytes.
        bytes: u64,
    },
    /// An address that the caller chose is not aligned, or the segment reaches beyond the address space.
    #[error("section {section} cannot be at {address}: {bytes} bytes with alignment {alignment} do not fit there")]
    BadAddress {
        /// Name of the section.
        section: String,
        /// The address.
        address: GpuVa,
        /// Size of the segment, bytes.
        bytes: u64,
        /// Alignment, bytes.
        alignment: u64,
    },
    /// A relocation does not fit its section, or its symbol has no address.
    #[error("section {section}, offset {offset:#x}: relocation {name} of symbol {symbol} is broken")]
    BrokenRelocation {
        /// Name of the type.
        name: String,
        /// Name of the section.
        section: String,
        /// Offset in the section.
        offset: u64,
        /// Number of the symbol.
        symbol: u32,
    },
    /// The module has no kernel of this name.
    #[error("the cubin has no kernel \"{name}\"")]
    NoKernel {
        /// The name.
        name: String,
    },
    /// The kernel needs more than memory and a launch.
    #[error("kernel \"{kernel}\" needs {}", list(.requirements))]
    RuntimeRequired {
        /// Name of the kernel.
        kernel: String,
        /// What it needs.
        requirements: Vec<RuntimeRequirement>,
    },
    /// Metadata of a kernel that a launch needs is missing.
    #[error("kernel \"{kernel}\" has no {what}")]
    MissingMetadata {
        /// Name of the kernel.
        kernel: String,
        /// What is missing.
        what: &'static str,
    },
}
