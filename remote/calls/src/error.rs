//! Errors of messages that cannot be decoded.

/// Reasons why a message is refused. Positions are byte offsets in the message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The message ends inside a value.
    #[error("the message ends at byte {at}, inside a value of {needed} bytes")]
    Truncated {
        /// Offset of the value.
        at: usize,
        /// Size of the value, bytes.
        needed: usize,
    },
    /// The message continues after its last value.
    #[error("the message has {extra} bytes after its last value, at byte {at}")]
    Excess {
        /// Offset of the first surplus byte.
        at: usize,
        /// Number of surplus bytes.
        extra: usize,
    },
    /// A number stands for nothing in this version.
    #[error("{what} {value} at byte {at} is unknown")]
    Unknown {
        /// What the number should select.
        what: &'static str,
        /// The number.
        value: u64,
        /// Its offset.
        at: usize,
    },
    /// A list has more elements than allowed.
    #[error("{what} has {count} elements at byte {at} (at most {limit})")]
    TooLong {
        /// The list.
        what: &'static str,
        /// Number of elements.
        count: u64,
        /// Maximum number of elements.
        limit: u64,
        /// Offset of the count.
        at: usize,
    },
    /// A text is not UTF-8 or contains a zero.
    #[error("the text at byte {at} is not valid")]
    Text {
        /// Its offset.
        at: usize,
    },
}
