//! Reads of a stream in large parts: messages are decrypted where they arrive.

use super::stream::Stream;
use std::io::{self, Read as _};
use std::time::Instant;

/// A stream, and bytes of it that nobody has taken yet.
#[derive(Debug)]
pub struct ReadAhead {
    stream: Stream,
    buffer: Vec<u8>,
    /// First byte that was not taken.
    start: usize,
    /// End of the bytes that were read.
    end: usize,
}

impl ReadAhead {
    /// Creates an empty one that reads at most `bytes` bytes at a time.
    pub fn new(stream: Stream, bytes: usize) -> Self {
        Self {
            stream,
            buffer: vec![0; bytes],
            start: 0,
            end: 0,
        }
    }

    /// Returns the stream.
    pub const fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Returns whether all bytes were taken that were read.
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Makes later reads as large as `bytes` bytes.
    pub fn grow(&mut self, bytes: usize) {
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
    }

    /// Takes the next `count` bytes, at most 64 KiB, no later than `by`.
    ///
    /// # Errors
    /// If the stream ends or fails before, or the time is over ([`io::ErrorKind::TimedOut`]).
    pub fn take(&mut self, count: usize, by: Option<Instant>) -> io::Result<&[u8]> {
        if self.buffer.len() - self.start < count {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            self.grow(count);
        }
        while self.end - self.start < count {
            if let Some(by) = by {
                self.stream.set_read_deadline(by)?;
            }
            let free = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.stream.read(free) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.end += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && by.is_some() => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Err(e) => return Err(e),
            }
        }
        let taken = self.start..self.start + count;
        self.start += count;
        if self.start == self.end {
            // Further bytes start at the front again. What was taken stays there.
            (self.start, self.end) = (0, 0);
        }
        Ok(self.buffer.get(taken).unwrap_or_default())
    }
}
