//! A channel, its engine, and a submission to one.

use crate::GpuVa;

/// A channel of the kernel driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverChannel {
    /// Index of its object in [`super::DriverTrace::objects`].
    pub object: usize,
    /// Number of ring entries.
    pub submits: u64,
    /// Number of doorbells: stores that made the GPU read its ring.
    pub doorbells: u64,
}

/// The engine that runs the commands of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelEngine {
    /// Graphics and compute.
    Graphics,
    /// A copy engine, with its number if the recording states it.
    Copy(Option<u32>),
}

impl ChannelEngine {
    /// Describes the engine: `copy engine 2`.
    #[must_use]
    pub fn describe(self) -> String {
        match self {
            Self::Graphics => "graphics and compute".to_owned(),
            Self::Copy(Some(number)) => format!("copy engine {number}"),
            Self::Copy(None) => "copy engine".to_owned(),
        }
    }
}

/// What the commands of a channel do, by the classes of its engine objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChannelKind {
    /// They draw, and may compute and copy too.
    Graphics,
    /// They compute, and may copy too.
    Compute,
    /// They only copy.
    Copy,
    /// Unknown: the recording states neither the engine nor its objects.
    Unknown,
}

impl ChannelKind {
    /// Returns the word for a channel of this kind: `compute`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Graphics => "graphics",
            Self::Compute => "compute",
            Self::Copy => "copy",
            Self::Unknown => "channel",
        }
    }
}

/// A submission: commands that a ring entry names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Number, from 0 in event order.
    pub index: u32,
    /// Its event.
    pub event: u64,
    /// Index of the channel in [`super::DriverTrace::channels`].
    pub channel: usize,
    /// GPU address of the first command.
    pub va: GpuVa,
    /// Size of the commands, bytes.
    pub bytes: u64,
    /// The doorbell that announced it: the first store to a doorbell after it. `None` if the recording has none.
    pub doorbell: Option<u64>,
}
