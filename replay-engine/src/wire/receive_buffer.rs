//! The memory of a receiver: messages are read in large parts and decrypted in place, so that the text of a frame is in
//! one piece.

use super::error::WireError;
use super::stream::Stream;
use std::io::{self, Read as _};
use std::ops::Range;
use std::time::Instant;

/// A stream, the text of the frame that is arriving, and bytes behind it that were read and not decrypted.
#[derive(Debug)]
pub struct ReceiveBuffer {
    stream: Stream,
    bytes: Vec<u8>,
    /// The text of the frame.
    frame: Range<usize>,
    /// What was not decrypted: behind the frame, with at least the lengths and tags of its messages between them.
    unread: Range<usize>,
}

impl ReceiveBuffer {
    /// Creates an empty buffer of `bytes` bytes.
    pub fn new(stream: Stream, bytes: usize) -> Self {
        Self {
            stream,
            bytes: vec![0; bytes],
            frame: 0..0,
            unread: 0..0,
        }
    }

    /// Returns the stream.
    pub const fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Returns whether nothing is left of what was read.
    pub const fn is_empty(&self) -> bool {
        self.unread.start == self.unread.end
    }

    /// Returns the text of the frame.
    pub fn frame(&self) -> &[u8] {
        self.bytes.get(self.frame.clone()).unwrap_or_default()
    }

    /// Makes the buffer at least `bytes` bytes large.
    pub fn grow(&mut self, bytes: usize) {
        if self.bytes.len() < bytes {
            self.bytes.resize(bytes, 0);
        }
    }

    /// Begins a frame, and forgets the text before it.
    pub fn begin_frame(&mut self) {
        if self.is_empty() {
            self.unread = 0..0;
        }
        self.frame = self.unread.start..self.unread.start;
    }

    /// Takes the length of the next message. At most `wanted` bytes are read for it and what follows, or as many as are
    /// needed.
    ///
    /// # Errors
    /// Same as [`ReceiveBuffer::take_piece`].
    pub fn take_length(&mut self, wanted: usize, by: Option<Instant>) -> io::Result<[u8; 2]> {
        self.fill(2, wanted, by)?;
        let bytes = self
            .bytes
            .get(self.unread.start..)
            .and_then(|bytes| bytes.first_chunk());
        self.unread.start += 2;
        bytes.copied().ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Takes the next message, of `count` bytes. `open` gets it with the free bytes before it, and the number of these,
    /// writes its text to their start, and returns the size of the text. The text is the next of the frame.
    ///
    /// # Errors
    /// If the stream ends or fails before, or the time is over, or the error of `open`.
    pub fn take_piece(
        &mut self,
        count: usize,
        wanted: usize,
        by: Option<Instant>,
        open: impl FnOnce(&mut [u8], usize) -> Result<usize, WireError>,
    ) -> Result<&[u8], WireError> {
        self.fill(count, wanted, by)?;
        let (start, end) = (self.frame.end, self.unread.start + count);
        let message = self.bytes.get_mut(start..end).unwrap_or_default();
        let size = open(message, self.unread.start - start)?;
        self.unread.start = end;
        self.frame.end = start + size.min(end - start);
        Ok(self.bytes.get(start..self.frame.end).unwrap_or_default())
    }

    /// Reads until `count` bytes are there, no later than `by`, and at most `wanted` bytes or as many as are needed.
    fn fill(&mut self, count: usize, wanted: usize, by: Option<Instant>) -> io::Result<()> {
        if self.bytes.len() - self.unread.start < count {
            self.make_room(count);
        }
        while self.unread.len() < count {
            if let Some(by) = by {
                self.stream.set_read_deadline(by)?;
            }
            let most = wanted.max(count) - self.unread.len();
            let free = self.bytes.get_mut(self.unread.end..).unwrap_or_default();
            let most = free.len().min(most);
            match self.stream.read(free.get_mut(..most).unwrap_or_default()) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.unread.end += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && by.is_some() => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Moves everything to the front, and grows if `count` bytes have no room then: to twice what has arrived, at most.
    fn make_room(&mut self, count: usize) {
        let frame = self.frame.len();
        self.bytes.copy_within(self.frame.clone(), 0);
        self.bytes.copy_within(self.unread.clone(), frame);
        self.frame = 0..frame;
        self.unread = frame..frame + self.unread.len();
        if self.bytes.len() - frame < count {
            self.grow((frame + count).max(2 * frame));
        }
    }
}
