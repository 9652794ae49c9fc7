//! Recordings of WebAssembly runs: program, inputs, system calls, outputs and ends of all copies. No device, no files.
//!
//! [`to_recording`] writes a run as an API trace, and [`WasmRun`] reads it.

mod call_names;
mod check;
mod copy;
mod difference;
mod error;
mod event_reader;
mod profile;
mod reader;
mod run_metadata;
mod stream_memory;
mod writer;

pub use check::check_run;
pub use copy::RecordedCopy;
pub use difference::{CopyDifference, WasmDifference, describe_options};
pub use error::WasmRecordingError;
pub use reader::{RecordedCall, WasmRun, is_wasm_run, is_whole_run};
pub use run_metadata::{SECTION as RUN_SECTION, Target, Translation, input_names};
pub use writer::{ALL_ENDED, RunToRecord, to_recording};

use std::fmt;
use wasm_run::RunEnd;

/// Maximum number of bytes of a function's name at a trap.
pub(crate) const MAX_FUNCTION_NAME: usize = 4096;

/// Streams of a copy. The numbers are those of the recording's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum CopyStream {
    /// Standard input and requests.
    Input = 0,
    /// Standard output.
    Output = 1,
    /// Standard error.
    Error = 2,
}

impl CopyStream {
    /// All streams, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Input, Self::Output, Self::Error];

    /// Returns the name of the stream.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "standard input",
            Self::Output => "standard output",
            Self::Error => "standard error",
        }
    }

    /// Returns the name of the stream's buffer for the copy of an input: `NAME`, `NAME.stdout`, `NAME.stderr`.
    #[must_use]
    pub fn buffer_name(self, input: &str) -> String {
        match self {
            Self::Input => input.to_owned(),
            Self::Output => format!("{input}.stdout"),
            Self::Error => format!("{input}.stderr"),
        }
    }
}

/// State of a copy at the end of its recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyEnd {
    /// The copy ended.
    Ended(RunEnd),
    /// The run stopped while the copy ran. Its system calls and outputs are unknown.
    Running,
    /// The run stopped before the copy started.
    Waiting,
}

impl CopyEnd {
    /// Returns how the copy ended, or `None` if it did not.
    #[must_use]
    pub fn ended(&self) -> Option<&RunEnd> {
        match self {
            Self::Ended(end) => Some(end),
            Self::Running | Self::Waiting => None,
        }
    }
}

impl fmt::Display for CopyEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(end) => end.fmt(f),
            Self::Running => f.write_str("running"),
            Self::Waiting => f.write_str("waiting"),
        }
    }
}

/// Number of the stream of launches.
pub(crate) const LAUNCH_STREAM: u32 = 3;

#[cfg(test)]
mod tests;
