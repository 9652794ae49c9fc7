//! What may be wrong with bytes that should hold CUDA code.

use crate::{Arch, Capability};

/// Bytes could not be read as CUDA code, or do not hold what was asked for.
///
/// `at` is an offset in bytes from the start of what was given to the reader; within [`Error::Entry`] it counts from
/// the start of the unpacked code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Something reaches past the end of the bytes.
    #[error("byte {at:#x}: {what} needs {need} bytes, {left} are there")]
    Short {
        /// Where it begins.
        at: u64,
        /// What it is.
        what: &'static str,
        /// Bytes that it needs.
        need: u64,
        /// Bytes that are there.
        left: u64,
    },
    /// A field holds a value that it may not have.
    #[error("byte {at:#x}: {what} is {found:#x}, expected {expected}")]
    Field {
        /// Where the field is.
        at: u64,
        /// What it is.
        what: &'static str,
        /// What it holds.
        found: u64,
        /// What it may hold.
        expected: &'static str,
    },
    /// The structure of the ELF file is broken.
    #[error("byte {at:#x}: not a cubin: {reason}")]
    Elf {
        /// Where the broken part begins; 0 is the file header.
        at: u64,
        /// What is broken.
        reason: String,
    },
    /// Compressed code does not unpack.
    #[error("byte {at:#x}: {method} code does not unpack: {reason}")]
    Unpack {
        /// Where the compressed bytes begin.
        at: u64,
        /// How they are compressed.
        method: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// PTX text is not as a declaration has to be.
    #[error("byte {at:#x}: expected {expected}, found \"{found}\"")]
    Text {
        /// Where in the text.
        at: u64,
        /// What has to stand there.
        expected: &'static str,
        /// What stands there, at most 40 bytes of it.
        found: String,
    },
    /// Parts of a file overlap so much that reading all of them costs more than any compiler's file does.
    #[error("byte {at:#x}: {what} of this file overlap; together they are larger than the file itself")]
    Overlap {
        /// Where the part is whose reading was refused.
        at: u64,
        /// What overlaps.
        what: &'static str,
    },
    /// Two of something have one name.
    #[error("byte {at:#x}: a second {what} has the name of the first")]
    Twice {
        /// Where the second is.
        at: u64,
        /// What it is.
        what: &'static str,
    },
    /// Launch bounds that no kernel can have, or that this one cannot.
    #[error("launch bounds: {0}")]
    Bounds(&'static str),
    /// The bytes are none of the containers.
    #[error("byte 0x0: neither a fatbin, a cubin nor PTX text")]
    Unknown,
    /// Nothing in the image runs on the device.
    #[error("no code for compute capability {capability}; there is code for {}", list(.held))]
    NoCode {
        /// The device.
        capability: Capability,
        /// What there is code for, in the order of the image.
        held: Vec<Arch>,
    },
    /// The code that runs on the device has no kernel of the name.
    #[error("the code for compute capability {capability} has no kernel \"{name}\"")]
    NoKernel {
        /// The device.
        capability: Capability,
        /// The name that was asked for.
        name: String,
    },
    /// An entry of a fatbin could be unpacked, and its code could not be read.
    #[error("in the code of the entry at byte {entry:#x}: {error}")]
    Entry {
        /// Where the entry begins in the fatbin.
        entry: u64,
        /// What is wrong with its code.
        #[source]
        error: Box<Error>,
    },
}

/// Names of architectures for a message: at most eight of them.
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
