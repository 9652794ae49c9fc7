//! A fault of the GPU that the requests or the memory of a driver trace show.

use crate::GpuVa;

/// A fault that a driver trace shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverFault {
    /// Event that shows it.
    pub event: u64,
    /// Indices in [`super::DriverTrace::channels`] of the channels that it may be of; empty if unknown.
    pub channels: Vec<usize>,
    /// Address of the access, if known.
    pub address: Option<GpuVa>,
    /// What happened, in words.
    pub message: String,
}
