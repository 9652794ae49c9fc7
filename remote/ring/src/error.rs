//! Errors of the region, its rings and its staging area.

use crate::ring_name::RingName;
use rustix::io::Errno;

/// The reason why an operation on a region, a ring or the staging area failed.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// A layout is out of bounds.
    #[error("region layout: {field} is {value}, expected {expected}")]
    Layout {
        /// The field of the layout.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The valid values.
        expected: &'static str,
    },
    /// A file is not a region, or it is not safe to map.
    #[error("received file: {field} is {found:#x}, expected {expected:#x}; it is not mapped")]
    InvalidFile {
        /// The property of the file.
        field: &'static str,
        /// Its value.
        found: u64,
        /// The valid value.
        expected: u64,
    },
    /// The operating system refused an operation.
    #[error("{action}: {source}")]
    System {
        /// The operation.
        action: &'static str,
        /// The reason.
        source: std::io::Error,
    },
    /// The ends of one side were already taken from this region.
    #[error("region: the {side} ends are already in use; a region gives them once")]
    EndsTaken {
        /// `client` or `worker`.
        side: &'static str,
    },
    /// The peer wrote an invalid position or length. The ring cannot be used any more.
    #[error("{ring} ring: {field} is {value:#x}, expected {expected}; close the connection")]
    Corrupt {
        /// The ring.
        ring: RingName,
        /// The field that the peer wrote.
        field: &'static str,
        /// Its value.
        value: u32,
        /// The valid values.
        expected: &'static str,
    },
    /// The peer ended while this side waited for it.
    #[error("{ring} ring: the peer ended during a wait for {awaited}; connect again")]
    PeerGone {
        /// The ring.
        ring: RingName,
        /// What the peer did not provide.
        awaited: &'static str,
    },
    /// A message does not fit into the ring. Nothing was written.
    #[error("{ring} ring: a message is longer than the maximum of {max} bytes; use the staging area")]
    MessageTooLong {
        /// The ring.
        ring: RingName,
        /// Maximum length, bytes.
        max: u32,
    },
    /// A range reaches past the end of its area. Nothing was copied.
    #[error("{area}: a range of {bytes} bytes at offset {offset:#x} reaches past the end at {limit:#x}")]
    OutOfRange {
        /// The area of the region.
        area: &'static str,
        /// Offset of the range in the area, bytes.
        offset: u64,
        /// Length of the range, bytes.
        bytes: u64,
        /// Length of the area, bytes.
        limit: u64,
    },
    /// The message that passes a region is invalid.
    #[error("passing a region: {0}")]
    Greeting(&'static str),
}

impl RingError {
    /// Returns a function that adds the failed operation to an error of the operating system.
    pub(crate) fn at(action: &'static str) -> impl FnOnce(Errno) -> Self {
        move |source| Self::System {
            action,
            source: source.into(),
        }
    }
}
