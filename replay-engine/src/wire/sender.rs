//! The sending half of an encrypted channel.

use super::error::WireError;
use super::frame::{FrameError, HEAD, PIECE, Topic, frame_head};
use super::stream::Stream;
use super::transport_key::{TAG, TransportKey};
use serde::Serialize;
use std::io::{IoSlice, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use trace_core::encode;

/// Size of the length in front of a message, bytes.
const LENGTH: usize = 2;
/// Number of pieces that are written with one call to the system. A piece alone is a little longer than a segment of the
/// loopback device, which would send its rest as a packet of its own.
const PIECES_PER_WRITE: usize = 4;
/// Number of bytes at the start of a frame for [`Sender::send_in_place`] that belong to the sender.
pub const MARGIN: usize = HEAD;

/// What a write needs.
#[derive(Debug)]
struct Out {
    stream: Stream,
    key: TransportKey,
    /// Encrypted pieces that are written together, then the piece that is being filled. It grows with the first long frame.
    buffer: Vec<u8>,
    /// Bytes of the encrypted pieces.
    filled: usize,
    /// Bytes of the piece that is being filled.
    open: usize,
}

impl Out {
    /// Adds bytes to the frame. Full pieces are encrypted.
    fn add(&mut self, part: &[u8], sent: &AtomicU64) -> Result<(), WireError> {
        let mut rest = part;
        while !rest.is_empty() {
            if self.open == PIECE {
                self.close_piece(sent)?;
            }
            let (now, after) = rest.split_at(rest.len().min(PIECE - self.open));
            let start = self.filled + LENGTH + self.open;
            let to = self.buffer.get_mut(start..start + now.len()).ok_or(FrameError::Cut)?;
            to.copy_from_slice(now);
            self.open += now.len();
            rest = after;
        }
        Ok(())
    }

    /// Encrypts the piece that was filled, and writes what is encrypted if another piece has no room behind it.
    fn close_piece(&mut self, sent: &AtomicU64) -> Result<(), WireError> {
        let bytes = std::mem::take(&mut self.open);
        let piece = self.buffer.get_mut(self.filled..).unwrap_or_default();
        let (length, rest) = piece.split_at_mut_checked(LENGTH).ok_or(FrameError::Cut)?;
        let (text, rest) = rest.split_at_mut_checked(bytes).ok_or(FrameError::Cut)?;
        let tag = rest.get_mut(..TAG).ok_or(FrameError::Cut)?;
        tag.copy_from_slice(&self.key.seal(text)?);
        length.copy_from_slice(&length_of(bytes));
        self.filled += LENGTH + bytes + TAG;
        if self.buffer.len() - self.filled < LENGTH + PIECE + TAG {
            self.flush(sent)?;
        }
        Ok(())
    }

    /// Writes the encrypted pieces.
    fn flush(&mut self, sent: &AtomicU64) -> Result<(), WireError> {
        let bytes = self.buffer.get(..std::mem::take(&mut self.filled)).unwrap_or_default();
        sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(self.stream.write_all(bytes)?)
    }

    /// Encrypts a frame in place and writes it.
    fn write_in_place(&mut self, frame: &mut [u8], sent: &AtomicU64) -> Result<(), WireError> {
        for group in frame.chunks_mut(PIECES_PER_WRITE * PIECE) {
            // What comes before each piece: the tag of the one before it, and its length.
            let mut between = [[0; TAG + LENGTH]; PIECES_PER_WRITE + 1];
            let mut at = 0;
            for piece in group.chunks_mut(PIECE) {
                if let Some([.., l0, l1]) = between.get_mut(at) {
                    [*l0, *l1] = length_of(piece.len());
                }
                at += 1;
                let tag = self.key.seal(piece)?;
                if let Some(first) = between.get_mut(at).and_then(|bytes| bytes.get_mut(..TAG)) {
                    first.copy_from_slice(&tag);
                }
            }
            let mut slices = [IoSlice::new(&[]); 2 * PIECES_PER_WRITE + 1];
            let mut parts = slices.iter_mut();
            let mut bytes = 0;
            for (i, before) in between.iter().take(at + 1).enumerate() {
                let start = if i == 0 { TAG } else { 0 };
                let end = if i == at { TAG } else { TAG + LENGTH };
                let piece = group.get(i * PIECE..group.len().min((i + 1) * PIECE));
                for part in [before.get(start..end), piece].into_iter().flatten() {
                    bytes += part.len() as u64;
                    if let Some(slice) = parts.next() {
                        *slice = IoSlice::new(part);
                    }
                }
            }
            sent.fetch_add(bytes, Ordering::Relaxed);
            self.stream.write_all_vectored(&mut slices)?;
        }
        Ok(())
    }
}

/// Returns the length of a message with a text of `bytes`, as it is written.
fn length_of(bytes: usize) -> [u8; LENGTH] {
    u16::try_from(bytes + TAG).unwrap_or(u16::MAX).to_le_bytes()
}

/// The sending half; clones share it.
#[derive(Clone, Debug)]
pub struct Sender {
    out: Arc<Mutex<Out>>,
    closer: Arc<Stream>,
    sent: Arc<AtomicU64>,
}

impl Sender {
    /// Creates the sending half of a connection.
    ///
    /// # Errors
    /// If the operating system gives no further handle to the socket.
    pub(super) fn new(key: TransportKey, stream: &Stream) -> Result<Self, WireError> {
        let out = Out {
            stream: stream.try_clone()?,
            key,
            buffer: vec![0; LENGTH + PIECE + TAG],
            filled: 0,
            open: 0,
        };
        Ok(Self {
            out: Arc::new(Mutex::new(out)),
            closer: Arc::new(stream.try_clone()?),
            sent: Arc::new(AtomicU64::new(0)),
        })
    }

    /// Sends a message as one frame.
    ///
    /// # Errors
    /// If it cannot be encoded or the connection fails.
    pub fn send<T: Serialize>(&self, concern: Topic, message: &T) -> Result<(), WireError> {
        self.send_bytes(concern, &encode::to_bytes(message)?)
    }

    /// Sends bytes as one frame.
    ///
    /// # Errors
    /// If there are too many or the connection fails.
    pub fn send_bytes(&self, concern: Topic, payload: &[u8]) -> Result<(), WireError> {
        self.send_parts(concern, &[payload])
    }

    /// Sends the parts of a payload as one frame, without a copy of the whole payload.
    ///
    /// # Errors
    /// Same as [`Sender::send_bytes`].
    pub fn send_parts(&self, concern: Topic, parts: &[&[u8]]) -> Result<(), WireError> {
        let bytes = parts.iter().fold(0usize, |sum, part| sum.saturating_add(part.len()));
        let head = frame_head(concern, bytes)?;
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // A frame that could not be written ends the connection; nothing of it may come before the next one.
        (out.filled, out.open) = (0, 0);
        if bytes > PIECE && out.buffer.len() < PIECES_PER_WRITE * (LENGTH + PIECE + TAG) {
            out.buffer.resize(PIECES_PER_WRITE * (LENGTH + PIECE + TAG), 0);
        }
        out.add(&head, &self.sent)?;
        for part in parts {
            out.add(part, &self.sent)?;
        }
        out.close_piece(&self.sent)?;
        out.flush(&self.sent)
    }

    /// Sends a frame from memory that holds [`MARGIN`] bytes for the sender and then the payload. No byte is copied, and
    /// the memory has no meaning afterwards.
    ///
    /// # Errors
    /// Same as [`Sender::send_bytes`].
    pub fn send_in_place(&self, concern: Topic, frame: &mut [u8]) -> Result<(), WireError> {
        let payload = frame.len().checked_sub(MARGIN).ok_or(FrameError::ShortHead)?;
        let head = frame_head(concern, payload)?;
        frame
            .get_mut(..HEAD)
            .ok_or(FrameError::ShortHead)?
            .copy_from_slice(&head);
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_in_place(frame, &self.sent)
    }

    /// Returns the number of bytes written so far, including envelopes.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Ends the connection in both directions.
    pub fn close(&self) {
        self.closer.close();
    }

    /// Returns whether the connection has ended, even if received data is still unread.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.closer.has_ended()
    }
}
