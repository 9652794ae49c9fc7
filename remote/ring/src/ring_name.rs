//! Names of the two rings of a region.

use std::fmt;

/// A ring of the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingName {
    /// Messages from the client to the worker.
    Request,
    /// Messages from the worker to the client.
    Answer,
}

impl RingName {
    /// Returns the name of the ring's bytes in error messages.
    pub(crate) fn area_name(self) -> &'static str {
        match self {
            Self::Request => "request ring",
            Self::Answer => "answer ring",
        }
    }
}

impl fmt::Display for RingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "request",
            Self::Answer => "answer",
        })
    }
}
