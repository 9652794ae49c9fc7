//! The reasons why a connection ends or does not start.

use super::frame::FrameError;
use super::times::SILENCE;
use std::io;
use std::time::Duration;
use trace_core::encode::EncodeError;

/// The reason why a channel ended or could not start.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The other end closed the connection.
    #[error("the other end closed the connection")]
    Closed,
    /// The other end went silent.
    #[error("the other end has been silent for {} s", SILENCE.as_secs())]
    Silent,
    /// Preamble, handshake and the first messages took too long.
    #[error("it did not authenticate itself within {} s", limit.as_secs_f32())]
    Late {
        /// The time limit.
        limit: Duration,
    },
    /// This end does not serve the other one, with the reason.
    #[error("{0}")]
    Refused(String),
    /// The operating system reported an error.
    #[error("{0}")]
    Io(String),
    /// Bytes cannot be decrypted: damage or an attack.
    #[error("a message failed its authentication: {0}")]
    Crypto(String),
    /// A frame that breaks the rules.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A message cannot be decoded or encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A message that is not allowed here.
    #[error("{0} is not allowed here")]
    Unexpected(String),
    /// This end did not take a frame of calls, with the reason.
    #[error("a frame of calls was not taken: {0}")]
    CallsRejected(String),
}

impl WireError {
    /// Converts the error for a connection that had `limit` to authenticate: silence then means that it took longer.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        match self {
            Self::Silent => Self::Late { limit },
            other => other,
        }
    }
}

impl From<io::Error> for WireError {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::NotConnected => Self::Closed,
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Self::Silent,
            _ => Self::Io(e.to_string()),
        }
    }
}

impl From<snow::Error> for WireError {
    fn from(e: snow::Error) -> Self {
        Self::Crypto(e.to_string())
    }
}
