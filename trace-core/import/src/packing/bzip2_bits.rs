//! The reader of single bits of a bzip2 stream, highest bit first.

use std::io::{self, BufRead};

/// Returns the error of a damaged stream.
pub(super) fn invalid(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// A reader of bits.
pub(super) struct BitReader<R> {
    from: R,
    /// Bits that are not taken yet: the lowest `count` ones.
    bits: u64,
    count: u32,
}

impl<R: BufRead> BitReader<R> {
    pub(super) fn new(from: R) -> Self {
        Self {
            from,
            bits: 0,
            count: 0,
        }
    }

    /// Reads bytes until at least `count` bits are there, 56 at most. Near the end of the file there may be fewer.
    fn fill(&mut self, count: u32) -> io::Result<()> {
        while self.count < count {
            let bytes = match self.from.fill_buf() {
                Ok(bytes) => bytes,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            let room = ((64 - self.count) / 8) as usize;
            let taken = bytes.len().min(room);
            if taken == 0 {
                return Ok(());
            }
            for byte in bytes.iter().take(taken) {
                self.bits = self.bits << 8 | u64::from(*byte);
                self.count += 8;
            }
            self.from.consume(taken);
        }
        Ok(())
    }

    /// Takes up to 48 bits.
    pub(super) fn take(&mut self, count: u32) -> io::Result<u64> {
        self.fill(count)?;
        let Some(left) = self.count.checked_sub(count) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        self.count = left;
        Ok(self.bits >> left & ((1 << count) - 1))
    }

    /// Returns the next bits without taking them; missing ones are zero.
    pub(super) fn peek(&mut self, count: u32) -> io::Result<u64> {
        self.fill(count)?;
        let mask = (1 << count) - 1;
        Ok(match self.count.checked_sub(count) {
            Some(left) => self.bits >> left & mask,
            None => self.bits << (count - self.count) & mask,
        })
    }

    /// Takes bits that were peeked at.
    pub(super) fn skip(&mut self, count: u32) -> io::Result<()> {
        match self.count.checked_sub(count) {
            Some(left) => self.count = left,
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }

    /// Skips the rest of a byte.
    pub(super) fn align(&mut self) {
        self.count -= self.count % 8;
    }

    /// Whether the file has no further bits.
    pub(super) fn is_at_end(&mut self) -> io::Result<bool> {
        self.fill(8)?;
        Ok(self.count == 0)
    }
}
