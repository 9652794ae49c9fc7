//! The connection under a relay, as the relay sees it.

use crate::error::RelayError;

/// Maximum size of a frame, bytes.
pub const MAX_FRAME_BYTES: usize = 2 << 20;
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

    /// Ends the connection. Only lanes are ended so.
    fn close(&self);
}
