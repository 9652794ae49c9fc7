//! The GPU of a recording or a target as JSON output.

use super::format_hex;
use serde::Serialize;

/// A GPU with its id as text. Recordings and devices have it among other values.
#[derive(Serialize)]
pub struct Gpu {
    /// Id register; for an Adreno its chip id.
    pub id: String,
    /// Name of the GPU.
    pub name: String,
}

impl Gpu {
    /// Creates the GPU with an id register.
    pub fn new(id: u32, name: impl Into<String>) -> Self {
        Self {
            id: format_hex(u64::from(id)),
            name: name.into(),
        }
    }
}
