//! A channel, and a submission to one.

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
