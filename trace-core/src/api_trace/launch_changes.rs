//! What a launch changed in memory, and the snapshots around it that show it.

use crate::GpuVa;
use std::ops::Range;

/// The bytes that a launch changed in one buffer, or outside all buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferChange {
    /// The buffer; `None` if the bytes are in no buffer known from the recording.
    pub buffer: Option<u32>,
    /// Number of bytes that changed.
    pub bytes: u64,
    /// Addresses from the first changed byte to one past the last.
    pub span: Range<GpuVa>,
}

/// The bytes that a launch changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchChanges {
    /// Whether all memory was traced; otherwise there may be more changes.
    pub complete: bool,
    /// Changes by buffer, in address order; changes outside all buffers are one entry.
    pub list: Vec<BufferChange>,
}

/// A launch with snapshots before and after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LaunchSnapshots {
    /// The call that starts the snapshot before the launch.
    pub before: u64,
    /// The event of the launch.
    pub launch: u64,
    /// Events of the snapshot after the launch, from the call that starts it. `None` if there is none, because the
    /// launch failed or the recording ends.
    pub after: Option<Range<u64>>,
}
