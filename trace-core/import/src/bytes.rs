//! Readers of little-endian fields that count the bytes used: one for a file in memory, one for a stream of any length.

use std::io::{self, Read};
use trace_core::PAGE_SIZE;
use trace_core::recording::Page;

/// A cursor over the bytes of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the number of bytes used so far.
    pub(crate) fn at(&self) -> u64 {
        self.at as u64
    }

    /// Returns the number of bytes left.
    pub(crate) fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let part = self.bytes.get(self.at..)?.first_chunk::<N>()?;
        self.at += N;
        Some(part)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(|b| u32::from_le_bytes(*b))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take().map(|b| u64::from_le_bytes(*b))
    }

    pub(crate) fn page(&mut self) -> Option<&'a Page> {
        self.take::<PAGE_SIZE>()
    }
}

/// A cursor over a file that need not fit in memory. `None`: the file ends before the field.
#[derive(Debug)]
pub(crate) struct Stream<R> {
    from: R,
    at: u64,
    bytes: u64,
}

impl<R: Read> Stream<R> {
    /// Creates a stream; `bytes` is the length of the file.
    pub(crate) fn new(from: R, bytes: u64) -> Self {
        Self { from, at: 0, bytes }
    }

    /// Returns the number of bytes used so far.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Returns the length of the file, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of bytes left.
    pub(crate) fn left(&self) -> u64 {
        self.bytes.saturating_sub(self.at)
    }

    /// Fills `out`. Returns `false` if the file ends before.
    pub(crate) fn fill(&mut self, out: &mut [u8]) -> io::Result<bool> {
        if self.left() < out.len() as u64 {
            return Ok(false);
        }
        self.from.read_exact(out)?;
        self.at += out.len() as u64;
        Ok(true)
    }

    fn take<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        let mut out = [0; N];
        Ok(self.fill(&mut out)?.then_some(out))
    }

    pub(crate) fn u8(&mut self) -> io::Result<Option<u8>> {
        Ok(self.take::<1>()?.map(|b| b[0]))
    }

    pub(crate) fn u32(&mut self) -> io::Result<Option<u32>> {
        Ok(self.take()?.map(u32::from_le_bytes))
    }

    pub(crate) fn u64(&mut self) -> io::Result<Option<u64>> {
        Ok(self.take()?.map(u64::from_le_bytes))
    }
}

/// Order of the bytes of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endian {
    Little,
    Big,
}

impl Endian {
    /// Reads a number of up to eight bytes. Returns `None` if the bytes end before it.
    pub(crate) fn read(self, bytes: &[u8], at: usize, count: usize) -> Option<u64> {
        let field = bytes.get(at..)?.get(..count)?;
        let join = |n: u64, byte: &u8| n << 8 | u64::from(*byte);
        Some(match self {
            Self::Little => field.iter().rev().fold(0, join),
            Self::Big => field.iter().fold(0, join),
        })
    }
}
