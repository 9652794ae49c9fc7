//! The receiving half of an encrypted channel.

use super::error::WireError;
use super::frame::{Frame, FrameError, FrameProgress, Limits, PIECE, Pieces, Topic};
use super::receive_buffer::ReceiveBuffer;
use super::stream::Stream;
use super::times::WRITE_LIMIT;
use super::transport_key::{TAG, TransportKey};
use std::time::{Duration, Instant};

/// How long a read for calls looks for data before it sleeps: a few times what a sleep and a wake-up cost.
const SPIN: Duration = Duration::from_micros(100);
/// Minimum number of processors for that.
const MIN_SPIN_PROCESSORS: usize = 8;
/// Bytes that are read ahead: one call to the system reads the length and the content of a small message.
const READ_AHEAD: usize = 8 << 10;
/// Bytes that are read ahead on a connection for calls: many small messages.
const CALLS_READ_AHEAD: usize = 64 << 10;
/// Size of the buffer of a connection for calls, bytes: what is read ahead, and one part of a large copy.
const CALLS_BUFFER: usize = 640 << 10;
/// Maximum size of one read, bytes: what is read stays in the caches until it is decrypted.
const MAX_READ: usize = 256 << 10;

/// A frame that has arrived.
#[derive(Debug)]
pub enum ReceivedFrame<'r> {
    /// The payload of a frame of calls, where it was decrypted.
    Calls(&'r [u8]),
    /// Another frame.
    Other(Frame),
}

/// The receiving half.
#[derive(Debug)]
pub struct Receiver {
    key: TransportKey,
    buffer: ReceiveBuffer,
    limits: Limits,
    /// Bytes that are read ahead.
    read_ahead: usize,
    /// How long a read looks for data before it sleeps.
    spin: Duration,
}

impl Receiver {
    /// Creates the receiving half of a connection.
    pub(super) fn new(key: TransportKey, stream: Stream, limits: Limits) -> Self {
        Self {
            key,
            buffer: ReceiveBuffer::new(stream, READ_AHEAD),
            limits,
            read_ahead: READ_AHEAD,
            spin: Duration::ZERO,
        }
    }

    /// Receives the next frame. Memory grows with the received bytes, never with an announced length.
    ///
    /// # Errors
    /// If the connection ends or goes silent, bytes cannot be decrypted, or a frame exceeds its limit.
    pub fn receive(&mut self) -> Result<Frame, WireError> {
        Ok(owned(self.next(None)?))
    }

    /// Receives a frame like [`Receiver::receive`], but all of it has to arrive before `by`, even if its bytes trickle
    /// in. Later reads need [`Receiver::set_silence`] again.
    ///
    /// # Errors
    /// Same as [`Receiver::receive`].
    pub fn receive_by(&mut self, by: Instant) -> Result<Frame, WireError> {
        Ok(owned(self.next(Some(by))?))
    }

    /// Receives a frame like [`Receiver::receive`], but frames of calls stay where they were decrypted.
    ///
    /// # Errors
    /// Same as [`Receiver::receive`].
    pub(super) fn receive_in_place(&mut self) -> Result<ReceivedFrame<'_>, WireError> {
        self.next(None)
    }

    fn next(&mut self, by: Option<Instant>) -> Result<ReceivedFrame<'_>, WireError> {
        self.buffer.begin_frame();
        let limits = self.limits;
        let first = self.read_piece(self.read_ahead, by)?;
        let mut progress = FrameProgress::begin(first, limits)?;
        if progress.concern() == Topic::Calls {
            while !progress.is_complete() {
                let wanted = progress.rest_bytes() + progress.rest_bytes().div_ceil(PIECE) * (2 + TAG);
                let size = self.read_piece(wanted, by)?.len();
                progress.advance(size)?;
            }
            return Ok(ReceivedFrame::Calls(progress.payload_of(self.buffer.frame())?));
        }
        let mut pieces = Pieces::new(limits);
        let mut frame = pieces.push(first)?;
        loop {
            if let Some(frame) = frame {
                return Ok(ReceivedFrame::Other(frame));
            }
            // The piece is in the frame's own memory now.
            self.buffer.begin_frame();
            frame = pieces.push(self.read_piece(MAX_READ, by)?)?;
        }
    }

    /// Reads the next piece and decrypts it behind the pieces before it. `wanted` is the number of bytes that may be read
    /// for it and what follows.
    fn read_piece(&mut self, wanted: usize, by: Option<Instant>) -> Result<&[u8], WireError> {
        if !self.spin.is_zero() && self.buffer.is_empty() {
            self.buffer.stream().spin_for_data(self.spin);
        }
        let wanted = wanted.min(MAX_READ);
        let length = u16::from_le_bytes(self.buffer.take_length(wanted, by)?);
        let bytes = usize::from(length);
        if bytes <= TAG {
            return Err(FrameError::EmptyPiece.into());
        }
        let key = &mut self.key;
        self.buffer
            .take_piece(bytes, wanted, by, |message, at| key.open(message, at))
    }

    /// Prepares for calls, which somebody waits for, and for their bytes: the next reads look for data for a while before
    /// they sleep, on a machine with processors to spare, and read more at a time.
    pub(super) fn expect_calls(&mut self) {
        self.buffer.grow(CALLS_BUFFER);
        self.read_ahead = CALLS_READ_AHEAD;
        let has_spare = std::thread::available_parallelism().is_ok_and(|n| n.get() >= MIN_SPIN_PROCESSORS);
        self.spin = if has_spare { SPIN } else { Duration::ZERO };
    }

    /// Sets the timeout of the next reads.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn set_silence(&self, limit: Duration) -> Result<(), WireError> {
        Ok(self.buffer.stream().set_limits(limit, WRITE_LIMIT)?)
    }
}

/// Returns the frame with its own memory.
fn owned(frame: ReceivedFrame<'_>) -> Frame {
    match frame {
        ReceivedFrame::Calls(payload) => Frame {
            concern: Topic::Calls,
            payload: payload.to_vec(),
        },
        ReceivedFrame::Other(frame) => frame,
    }
}
