//! Where a person is in a recording, as it is kept: what is selected, and which axis the timeline has.

use serde::{Deserialize, Serialize};

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
    /// A finding, by its index.
    Finding(u32),
    /// A note, by its event.
    Note(u64),
    /// A divergence of the last replay, by its index.
    Divergence(u32),
}

/// What the timeline's horizontal axis means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AxisKind {
    /// Every event has the same width.
    #[default]
    Order,
    /// Time, with long idle gaps pressed together.
    Compressed,
    /// Time as it was.
    Time,
}

impl AxisKind {
    /// All kinds, in the order in which a person is offered them.
    pub const ALL: [Self; 3] = [Self::Order, Self::Compressed, Self::Time];

    /// The kind's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Compressed => "gaps pressed",
            Self::Time => "true time",
        }
    }
}
