//! Reasons why a relay ends.

use crate::record::MAX_LANES;
use remote_calls::MessageError;
use remote_ring::RingError;

/// Reasons why a relay ends before its program does.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The shared memory failed.
    #[error("{0}")]
    Ring(#[from] RingError),
    /// A frame or a message in it is invalid.
    #[error("a frame is invalid: {0}")]
    Message(#[from] MessageError),
    /// The program's library is of another version.
    #[error("the program greets with '{0}': its libcuda.so.1 is of another version")]
    Greeting(String),
    /// A frame is not allowed now.
    #[error("{0} is not allowed now")]
    Unexpected(&'static str),
    /// The connection is lost.
    #[error("the connection is lost: {0}")]
    Connection(String),
    /// The other end names contents that this end does not have.
    #[error("the peer names contents that are not here: {0}")]
    Content(String),
    /// The program asks for more than this end allows.
    #[error("{what} is {value} (at most {limit})")]
    Limit {
        /// What is limited.
        what: &'static str,
        /// What was asked for.
        value: u64,
        /// The limit.
        limit: u64,
    },
    /// A lane has no number of this connection.
    #[error("the connection has no lane {0} (at most {MAX_LANES})")]
    Lane(u32),
    /// The operating system refused a thread or a socket.
    #[error("{0}")]
    System(#[from] std::io::Error),
    /// The relay has ended.
    #[error("the relay has ended")]
    Over,
}
