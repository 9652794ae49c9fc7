//! The errors of reading and writing recordings of runs.

/// Why a recording of a run cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WasmRecordingError {
    /// The recording is no recording of a run.
    #[error("it is not a recording of a WebAssembly run (`kinescope wasm run --record FILE` makes one)")]
    NotWasm,
    /// The description of the run is missing.
    #[error("the section `{0}` is missing: it is no whole run")]
    Missing(&'static str),
    /// The description of the run cannot be read.
    #[error("the section `{section}`: {reason}")]
    Section {
        /// Name of the section.
        section: &'static str,
        /// The reason.
        reason: String,
    },
    /// The program is missing or damaged.
    #[error("the program: {0}")]
    Program(&'static str),
    /// An event is not the one that must follow.
    #[error("event {event}: {reason}")]
    Event {
        /// Index of the event.
        event: u64,
        /// The reason.
        reason: String,
    },
    /// Numbers of inputs and results differ.
    #[error("{inputs} inputs have {results} results")]
    Results {
        /// Number of inputs.
        inputs: u64,
        /// Number of results.
        results: u64,
    },
    /// The run stopped before a copy ended.
    #[error("the run stopped before the copy of input {0} ended; only whole runs can be compared and replayed")]
    Unfinished(String),
    /// The run has more events or bytes than a recording can have.
    #[error("the run is too large for a recording: more than {0}")]
    TooLarge(&'static str),
    /// The work was cancelled.
    #[error("cancelled")]
    Cancelled,
}

impl From<trace_core::progress::Cancelled> for WasmRecordingError {
    fn from(_: trace_core::progress::Cancelled) -> Self {
        Self::Cancelled
    }
}
