//! An answer of the worker.

use remote_calls::{ANSWER_HEADER_BYTES, Decoder};

/// An answer to a call that succeeded.
pub struct Answer {
    message: Vec<u8>,
}

impl Answer {
    /// Returns a decoder of what follows the header.
    #[must_use]
    pub fn decoder(&self) -> Decoder<'_> {
        Decoder::new(self.results())
    }

    /// Returns what follows the header.
    #[must_use]
    pub fn results(&self) -> &[u8] {
        self.message.get(ANSWER_HEADER_BYTES..).unwrap_or_default()
    }

    /// Takes a message with a header that was checked.
    pub const fn new(message: Vec<u8>) -> Self {
        Self { message }
    }
}
