//! A place in a binary source file: reads little-endian fields and knows how many bytes it has used.

use crate::PAGE_SIZE;
use crate::recording::Page;

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

    /// Bytes used so far.
    pub(crate) fn at(&self) -> u64 {
        self.at as u64
    }

    /// Bytes not used yet.
    pub(crate) fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let part = self.bytes.get(self.at..)?.first_chunk::<N>()?;
        self.at += N;
        Some(part)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|b| b[0])
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
