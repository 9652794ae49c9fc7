//! The stored position of the user in a recording: current event, selection and shown panels.

use serde::{Deserialize, Serialize};
use trace_core::{GpuVa, RegOffset};

pub use trace_core::timeline::AxisKind;

/// A current event, selection and set of shown panels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scene {
    /// Current event.
    pub event: u64,
    /// The selection.
    #[serde(default)]
    pub selection: Selection,
    /// Ids of the panels that are shown.
    #[serde(default)]
    pub panels: Vec<String>,
}

/// The selected item. Every panel highlights it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
    /// Only the current event.
    #[default]
    Event,
    /// A register, by offset.
    Register(RegOffset),
    /// A job, by index.
    Job(u32),
    /// A buffer, by name.
    Buffer(String),
    /// Bytes of GPU memory.
    Memory {
        /// Index of the address space.
        space: u32,
        /// First byte.
        va: GpuVa,
        /// Number of bytes.
        bytes: u64,
    },
    /// A page table entry: the one of this level on the walk of an address, wherever its table is stored.
    Entry {
        /// Index of the address space.
        space: u32,
        /// An address that it translates.
        va: GpuVa,
        /// Level, 0 (top) to 3.
        level: u8,
    },
    /// Bytes of a space that accesses refer to, for example those of a framebuffer pixel.
    Framebuffer {
        /// Number of the space.
        space: u8,
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// A finding, by index.
    Finding(u32),
    /// A note, by event.
    Note(u64),
    /// A divergence of the last replay, by index.
    Divergence(u32),
    /// A fault of the last replay, by index.
    Fault(u32),
}
