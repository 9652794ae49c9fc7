//! Frames of a relay on a connection of the engine.

use remote_relay::{FrameSender, RelayError};
use replay_engine::live::LiveSender;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trace_core::container::TransferBytes;

/// Bytes of frames on all connections of a program.
#[derive(Debug, Default)]
pub struct FrameBytes {
    /// Bytes to the other end.
    pub sent: AtomicU64,
    /// Bytes from the other end.
    pub received: AtomicU64,
}

impl FrameBytes {
    /// Returns the numbers so far.
    pub fn total(&self) -> TransferBytes {
        TransferBytes {
            sent: self.sent.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
        }
    }

    /// Counts an arrived frame.
    pub fn note_received(&self, frame: &[u8]) {
        self.received.fetch_add(frame.len() as u64, Ordering::Relaxed);
    }
}

/// Sends the frames of a relay.
pub struct LiveFrames {
    sender: LiveSender,
    bytes: Arc<FrameBytes>,
}

impl LiveFrames {
    /// Creates the sender. Its bytes are counted in `bytes`.
    pub fn new(sender: LiveSender, bytes: &Arc<FrameBytes>) -> Arc<Self> {
        Arc::new(Self {
            sender,
            bytes: Arc::clone(bytes),
        })
    }
}

impl FrameSender for LiveFrames {
    fn send_parts(&self, parts: &[&[u8]]) -> Result<(), RelayError> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        self.bytes.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        self.sender
            .send_parts(parts)
            .map_err(|e| RelayError::Connection(e.to_string()))
    }

    fn close(&self) {
        self.sender.close();
    }
}
