//! The connection under a relay, as the relay sees it.

use crate::error::RelayError;

/// Maximum size of a frame, bytes.
pub const MAX_FRAME_BYTES: usize = 2 << 20;
/// Number of bytes before a frame that [`FrameSender::send_in_place`] may use.
pub const MARGIN_BYTES: usize = 16;

/// A connection that carries frames to the other end, in order.
pub trait FrameSender: Send + Sync {
    /// Sends a frame.
    ///
    /// # Errors
    /// If the connection is lost.
    fn send(&self, frame: &[u8]) -> Result<(), RelayError> {
        self.send_parts(&[frame])
    }

    /// Sends several parts as one frame.
    ///
    /// # Errors
    /// If the connection is lost.
    fn send_parts(&self, parts: &[&[u8]]) -> Result<(), RelayError>;

    /// Sends a frame from memory that holds [`MARGIN_BYTES`] bytes for the connection and then the frame. The memory has no
    /// meaning afterwards, so that a connection can encrypt in place.
    ///
    /// # Errors
    /// If the connection is lost.
    fn send_in_place(&self, buffer: &mut [u8]) -> Result<(), RelayError> {
        self.send(buffer.get(MARGIN_BYTES..).unwrap_or_default())
    }

    /// Ends the connection. Only lanes are ended so.
    fn close(&self);
}
