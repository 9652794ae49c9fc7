//! Memory that columns and pages are lent from: a mapped file, or a buffer in memory.
#![allow(
    unsafe_code,
    reason = "mapping a file is unsafe by nature; the comment at the call says why it is sound enough here"
)]

use super::mapped_recordings::MapRegistration;
use crate::recording::SharedBytes;
use memmap2::{Mmap, MmapOptions};
use std::fs::File;
use std::io;
use std::ops::Range;

/// The first bytes of a file, mapped read-only.
pub(super) struct MappedFile {
    // Unregister before the unmap: fields are dropped in this order.
    _known: MapRegistration,
    map: Mmap,
}

impl MappedFile {
    /// Maps the first `bytes` bytes, which the caller knows to be committed. `place` is the file's name.
    pub fn new(file: &File, bytes: u64, place: &str) -> io::Result<Self> {
        let len = usize::try_from(bytes).map_err(|e| io::Error::new(io::ErrorKind::FileTooLarge, e))?;
        if file.metadata()?.len() < bytes {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file became shorter while it was opened",
            ));
        }
        // SAFETY: the map is read-only and private to this process. Undefined behaviour would need another process to
        // change committed bytes while they are borrowed. This project's writer only appends after them and never
        // truncates. A foreign program that shortens the file ends this process with SIGBUS. The message then names
        // the file, because the map is registered.
        let map = unsafe { MmapOptions::new().len(len).map(file)? };
        Ok(Self {
            _known: MapRegistration::new(place, &map),
            map,
        })
    }
}

impl SharedBytes for MappedFile {
    fn len(&self) -> usize {
        self.map.len()
    }

    fn slice(&self, range: Range<usize>) -> Option<&[u8]> {
        self.map.get(range)
    }
}

/// A memory buffer whose first byte is aligned to eight.
pub(super) enum Buffer {
    /// The input was already aligned.
    Aligned(Vec<u8>),
    /// The input was copied to align it.
    Copied { words: Vec<u64>, len: usize },
}

impl Buffer {
    pub fn new(bytes: Vec<u8>) -> Self {
        if bytes.as_ptr().addr().is_multiple_of(align_of::<u64>()) {
            return Self::Aligned(bytes);
        }
        Self::copy(&bytes)
    }

    fn copy(bytes: &[u8]) -> Self {
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        if let Some(target) = bytemuck::cast_slice_mut::<u64, u8>(&mut words).get_mut(..bytes.len()) {
            target.copy_from_slice(bytes);
        }
        Self::Copied {
            words,
            len: bytes.len(),
        }
    }
}

impl Buffer {
    /// Returns all bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Aligned(v) => v,
            Self::Copied { words, len } => bytemuck::cast_slice::<u64, u8>(words).get(..*len).unwrap_or_default(),
        }
    }
}

impl SharedBytes for Buffer {
    fn len(&self) -> usize {
        self.bytes().len()
    }

    fn slice(&self, range: Range<usize>) -> Option<&[u8]> {
        self.bytes().get(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_buffer_is_aligned_and_the_same() {
        let all: Vec<u8> = (0..100).collect();
        for (from, to) in [(0, 0), (1, 1), (1, 2), (3, 11), (7, 100)] {
            let b = Buffer::copy(&all[from..to]);
            assert_eq!(b.bytes(), &all[from..to]);
            assert_eq!(b.bytes().as_ptr().addr() % 8, 0);
        }
        assert_eq!(Buffer::new(all.clone()).bytes(), all);
    }
}
