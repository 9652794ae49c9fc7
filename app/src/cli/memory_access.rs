//! A memory access of a shader thread as JSON, which `shader --thread` and `last-writer` print.

use super::format_hex;
use device_mali::debug::MemoryAccess;
use kinescope_session::debug;
use serde::Serialize;

/// An access of a thread: a [`MemoryAccess`] with its value and operation as text.
#[derive(Serialize)]
pub struct AccessRow {
    /// Address of the first byte.
    va: String,
    /// Number of bytes.
    bytes: u32,
    /// One number, little-endian like memory: the byte at `va` is the last one. So of 16 bytes that are four words, the
    /// word at `va` is the last eight digits. Of more than 16 bytes, it is the first 16, then `…`.
    value: String,
    /// Text of the operation.
    instruction: String,
}

impl AccessRow {
    /// Creates a row; `instruction` is the text of the operation.
    pub fn new(a: &MemoryAccess, instruction: String) -> Self {
        Self {
            va: format_hex(a.va.get()),
            bytes: a.bytes,
            value: debug::value(a),
            instruction,
        }
    }
}
