//! Where a person is in a recording, as it is kept: what is selected, and which axis the timeline has.

use serde::{Deserialize, Serialize};

pub use trace_core::timeline::AxisKind;

/// What a person looked at: the moment, the selection, and what was in front of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scene {
    /// Event at which time stands.
    pub event: u64,
    /// What is selected.
    #[serde(default)]
    pub selection: Selection,
    /// Ids of the panels that are shown.
    #[serde(default)]
    pub panels: Vec<String>,
}

/// The one thing selected. Every panel highlights it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
    /// Nothing but the event at the moment.
    #[default]
    Event,
    /// A register, by its offset.
    Register(u32),
    /// A job, by its index.
    Job(u32),
    /// A buffer, by its name.
    Buffer(String),
    /// Bytes of GPU memory.
    Memory {
        /// Index of the address space.
        space: u32,
        /// First byte.
        va: u64,
        /// How many.
        bytes: u64,
    },
    /// An entry of a page table: that of this level on the walk of an address, wherever its table stands.
    Entry {
        /// Index of the address space.
        space: u32,
        /// An address that it translates.
        va: u64,
        /// Level, 0 (top) to 3.
        level: u8,
    },
    /// Bytes of a space that accesses reach: those of a pixel in a framebuffer.
    Framebuffer {
        /// Number of the space.
        space: u8,
        /// Offset of the first byte.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// A finding, by its index.
    Finding(u32),
    /// A note, by its event.
    Note(u64),
    /// A divergence of the last replay, by its index.
    Divergence(u32),
    /// A fault of the last replay, by its index.
    Fault(u32),
}
