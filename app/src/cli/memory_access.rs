//! A memory access of a shader thread as JSON, which `shader --thread` and `last-writer` print.

use super::format_hex;
use crate::document::debug;
use device_mali::debug::MemoryAccess;
use serde::Serialize;

/// An access as JSON output.
#[derive(Serialize)]
pub struct AccessRow {
    va: String,
    bytes: u32,
    value: String,
    instruction: String,
}

impl AccessRow {
    /// Creates a row; `instruction` is the text of the operation.
    pub fn new(a: &MemoryAccess, instruction: String) -> Self {
        Self {
            va: format_hex(a.va),
            bytes: a.bytes,
            value: debug::value(a),
            instruction,
        }
    }
}
