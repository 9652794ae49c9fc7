//! Reasons why an API trace cannot be replayed, or why its replay stopped.

use cuda_driver::{CuResult, CudaError, LoadError, format_result};
use trace_core::GpuVa;

/// The reason why an API trace is not replayed to its end.
#[derive(Debug, thiserror::Error)]
pub enum CudaReplayError {
    /// There is no driver.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The driver returned an error before the first event.
    #[error("the device cannot be initialized: {0}")]
    Driver(#[from] CudaError),
    /// The recording is not an API trace.
    #[error("the recording is not an API trace of CUDA")]
    NotApiTrace,
    /// There is no such device.
    #[error("there is no CUDA device {requested} here, there are {count}")]
    NoDevice {
        /// The requested device number.
        requested: u32,
        /// The number of devices.
        count: u32,
    },
    /// The recorded addresses are already in use in this process.
    #[error(
        "the addresses {at:#x} to {end:#x}, which the recording uses, are not free in this process (the driver gave {given:#x})"
    )]
    Taken {
        /// First address.
        at: GpuVa,
        /// One past the last.
        end: GpuVa,
        /// The address that the driver returned instead.
        given: u64,
    },
    /// The code of a function is not in the recording, or cannot be loaded here.
    #[error("{function}: {why}")]
    Code {
        /// The function.
        function: String,
        /// The reason.
        why: String,
    },
    /// The recording refers to data that it does not hold, or to something invalid.
    #[error("event {event}: {what}")]
    Damaged {
        /// The event.
        event: u64,
        /// What is wrong.
        what: String,
    },
    /// The device or the driver stopped at an event.
    #[error("event {event}: {call}: {}", format_result(*result))]
    Stopped {
        /// The event.
        event: u64,
        /// The driver function that returned the error.
        call: &'static str,
        /// The error code of the driver.
        result: CuResult,
    },
    /// An input has the wrong length.
    #[error("input {name}: it has {given} bytes, the buffer has {expected}")]
    Input {
        /// The buffer.
        name: String,
        /// Expected length, bytes.
        expected: u64,
        /// Given length, bytes.
        given: u64,
    },
    /// There is no buffer of this name.
    #[error("there is no input '{name}' in the recording (there are {known})")]
    NoInput {
        /// The name.
        name: String,
        /// The known names.
        known: String,
    },
    /// The replay was cancelled.
    #[error("it was cancelled")]
    Cancelled,
    /// The range cannot be captured as a graph.
    #[error("the range cannot run as one graph: event {event}: {why}")]
    NoGraph {
        /// The event that prevents it.
        event: u64,
        /// The reason.
        why: String,
    },
}
