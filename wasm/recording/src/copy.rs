//! A copy of the program in a recording: its events, its streams and its end.

use crate::CopyEnd;
use std::ops::Range;
use trace_core::recording::CopyRow;

/// A copy of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedCopy {
    /// Name of its input.
    pub name: String,
    /// All events of the copy.
    pub events: Range<u64>,
    /// Events of its system calls.
    pub call_events: Range<u64>,
    /// Number of system calls after them, which the log did not keep.
    pub lost_calls: u64,
    /// Number of bytes of its input, standard output and standard error.
    pub stream_bytes: [u64; 3],
    /// How it ended, if it did.
    pub end: CopyEnd,
    /// The rows with the bytes of the streams.
    pub(crate) rows: [Option<CopyRow>; 3],
    /// Events of these rows.
    pub(crate) row_events: [u64; 3],
}
