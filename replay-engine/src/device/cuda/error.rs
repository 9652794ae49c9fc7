//! Why a recording of calls cannot be replayed, or stopped on the way.

use cuda_driver::{CuResult, CudaError, LoadError, result_name};

/// Why a recording of calls is not replayed to its end.
#[derive(Debug, thiserror::Error)]
pub enum CudaReplayError {
    /// There is no driver.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The driver refused something before the first event.
    #[error("the device cannot be made ready: {0}")]
    Driver(#[from] CudaError),
    /// The recording is of something else.
    #[error("it is no recording of CUDA calls")]
    NotCalls,
    /// There is no such device.
    #[error("there is no CUDA device {wanted} here, there are {count}")]
    NoDevice {
        /// Its number.
        wanted: u32,
        /// How many there are.
        count: u32,
    },
    /// Recorded addresses are taken here.
    #[error(
        "the addresses {at:#x} to {end:#x}, which the recording uses, are not free in this process (the driver gave {given:#x})"
    )]
    Taken {
        /// First address.
        at: u64,
        /// One past the last.
        end: u64,
        /// What the driver gave instead.
        given: u64,
    },
    /// A function's code is not in the recording, or does not load here.
    #[error("{function}: {why}")]
    Code {
        /// The function.
        function: String,
        /// Why.
        why: String,
    },
    /// The recording names what it does not hold, or what cannot be.
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
        /// The driver's function that told.
        call: &'static str,
        /// What the driver answered.
        result: CuResult,
    },
    /// An input does not fit.
    #[error("input {name}: it has {given} bytes, the buffer has {wanted}")]
    Input {
        /// The buffer.
        name: String,
        /// Bytes of it.
        wanted: u64,
        /// Bytes that were given.
        given: u64,
    },
    /// There is no buffer of the name.
    #[error("there is no input '{name}' in the recording (there are {known})")]
    NoInput {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// Nobody wants it any more.
    #[error("it was stopped")]
    Cancelled,
    /// The range cannot be made a graph.
    #[error("the range cannot be made one graph: event {event}: {why}")]
    NoGraph {
        /// The event that stands in the way.
        event: u64,
        /// Why.
        why: String,
    },
}

fn format_result(result: CuResult) -> String {
    match result_name(result) {
        Some(name) => format!("{name} ({result})"),
        None => format!("error {result}"),
    }
}
