//! Frames of a relay on a connection of the engine.

use remote_relay::{FrameSender, MARGIN_BYTES, RelayError};
use replay_engine::live::LiveSender;
use replay_engine::wire::MARGIN;
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

const _: () = assert!(MARGIN <= MARGIN_BYTES);

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

    fn count(&self, bytes: usize) {
        self.bytes.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl FrameSender for LiveFrames {
    fn send_parts(&self, parts: &[&[u8]]) -> Result<(), RelayError> {
        self.count(parts.iter().map(|part| part.len()).sum());
        self.sender
            .send_parts(parts)
            .map_err(|e| RelayError::Connection(e.to_string()))
    }

    fn send_in_place(&self, buffer: &mut [u8]) -> Result<(), RelayError> {
        let own = buffer.get_mut(MARGIN_BYTES - MARGIN..).unwrap_or_default();
        self.count(own.len().saturating_sub(MARGIN));
        let sent = self.sender.send_in_place(own);
        sent.map_err(|e| RelayError::Connection(e.to_string()))
    }

    fn close(&self) {
        self.sender.close();
    }
}
