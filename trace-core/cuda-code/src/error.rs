//! Errors of CUDA code containers.

use crate::{Arch, Capability};

/// An error in bytes that should hold CUDA code, or a request that they cannot satisfy.
///
/// `at` is a byte offset from the start of the reader's input; within [`Error::Entry`] it counts from the start of the
/// unpacked code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Something reaches past the end of the bytes.
    #[error("byte {at:#x}: {what} needs {need} bytes, only {left} are left")]
    Short {
        /// Its offset.
        at: u64,
        /// Its name.
        what: &'static str,
        /// Bytes needed.
        need: u64,
        /// Bytes available.
        left: u64,
    },
    /// A field holds an invalid value.
    #[error("byte {at:#x}: {what} is {found:#x}, expected {expected}")]
    Field {
        /// Offset of the field.
        at: u64,
        /// Name of the field.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The valid values.
        expected: &'static str,
    },
    /// The structure of the ELF file is broken.
    #[error("byte {at:#x}: not a cubin: {reason}")]
    Elf {
        /// Offset of the broken part; 0 is the file header.
        at: u64,
        /// The reason.
        reason: String,
    },
    /// Compressed code cannot be unpacked.
    #[error("byte {at:#x}: {method} code cannot be decompressed: {reason}")]
    Unpack {
        /// Offset of the compressed bytes.
        at: u64,
        /// Compression method.
        method: &'static str,
        /// The reason.
        reason: String,
    },
    /// PTX text is not a valid declaration.
    #[error("byte {at:#x}: expected {expected}, found \"{found}\"")]
    Text {
        /// Offset in the text.
        at: u64,
        /// The expected text.
        expected: &'static str,
        /// The text found, at most 40 bytes of it.
        found: String,
    },
    /// Parts of a file overlap so much that reading all of them would cost more than any compiler's file does.
    #[error("byte {at:#x}: {what} of this file overlap; their total size exceeds the file")]
    Overlap {
        /// Offset of the part that was refused.
        at: u64,
        /// The overlapping parts.
        what: &'static str,
    },
    /// Two items have the same name.
    #[error("byte {at:#x}: a second {what} has the same name as the first")]
    Twice {
        /// Offset of the second item.
        at: u64,
        /// The kind of item.
        what: &'static str,
    },
    /// Launch bounds that are invalid for all kernels, or for this one.
    #[error("launch bounds: {0}")]
    Bounds(&'static str),
    /// The bytes are no known container.
    #[error("byte 0x0: the data is not a fatbin, a cubin or PTX text")]
    Unknown,
    /// No code in the image runs on the device.
    #[error("no code for compute capability {capability}; there is code for {}", list(.held))]
    NoCode {
        /// The device.
        capability: Capability,
        /// Architectures of the code in the image, in order.
        held: Vec<Arch>,
    },
    /// The code that runs on the device has no kernel of this name.
    #[error("the code for compute capability {capability} has no kernel \"{name}\"")]
    NoKernel {
        /// The device.
        capability: Capability,
        /// The requested name.
        name: String,
    },
    /// An entry of a fatbin was unpacked, but its code cannot be read.
    #[error("in the code of the entry at byte {entry:#x}: {error}")]
    Entry {
        /// Offset of the entry in the fatbin.
        entry: u64,
        /// The error in its code.
        #[source]
        error: Box<Error>,
    },
}

/// Formats the names of at most eight architectures.
fn list(held: &[Arch]) -> String {
    if held.is_empty() {
        return "none".into();
    }
    let mut text = held.iter().take(8).map(Arch::to_string).collect::<Vec<_>>().join(", ");
    if held.len() > 8 {
        text.push_str(", …");
    }
    text
}
