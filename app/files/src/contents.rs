//! Recorded and edited contents of a buffer. Any part can be read on any thread without reading the whole.

use crate::buffer_index::Buffers;
use crate::edited_buffer::{EditedBuffer, Piece, differences};
use std::sync::Arc;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::Buffer;

/// Number of bytes processed between two checks for cancellation.
pub const CHUNK: u64 = 1 << 18;

/// A buffer with its edits. It is cheap to clone and to send to another thread.
#[derive(Clone, Debug)]
pub struct BufferContents {
    all: Arc<Buffers>,
    buffer: Buffer,
    edited: Option<EditedBuffer>,
}

impl BufferContents {
    /// Returns the buffer of this name with these edits. Returns `None` if there is no such buffer, or its address
    /// space is not in the recording.
    #[must_use]
    pub fn new(all: Arc<Buffers>, name: &str, edited: Option<EditedBuffer>) -> Option<Self> {
        let buffer = all.get(name).filter(|_| all.has_contents(name))?.clone();
        Some(Self { all, buffer, edited })
    }

    /// Returns the buffer.
    #[must_use]
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Whether the user may edit the buffer.
    #[must_use]
    pub fn is_editable(&self) -> bool {
        self.all.is_editable(&self.buffer.name)
    }

    /// Returns the address of a byte of the buffer.
    #[must_use]
    pub fn address_of(&self, offset: u64) -> Option<trace_core::GpuVa> {
        self.all.address_of(&self.buffer.name, offset)
    }

    /// Returns the edits, or `None` if the buffer equals the recording.
    #[must_use]
    pub fn edited(&self) -> Option<&EditedBuffer> {
        self.edited.as_ref()
    }

    /// Fills `out` with the recorded bytes, starting at `offset`. Returns the number of bytes that the recording does
    /// not hold.
    pub fn read_recorded(&self, offset: u64, out: &mut [u8]) -> u64 {
        self.all.read(&self.buffer.name, offset, out)
    }

    /// Fills `out` with the edited bytes, starting at `offset`.
    pub fn read_current(&self, offset: u64, out: &mut [u8]) {
        self.read_recorded(offset, out);
        if let Some(e) = &self.edited {
            e.overlay(offset, out);
        }
    }

    /// Returns a part of the edited bytes, cut at the end of the buffer.
    #[must_use]
    pub fn part(&self, offset: u64, len: usize) -> Vec<u8> {
        let max = self.buffer.bytes.saturating_sub(offset);
        let mut out = vec![0; len.min(usize::try_from(max).unwrap_or(usize::MAX))];
        self.read_current(offset, &mut out);
        out
    }

    /// Returns all edited bytes.
    #[must_use]
    pub fn read_all(&self) -> Vec<u8> {
        self.part(0, usize::try_from(self.buffer.bytes).unwrap_or(0))
    }

    /// Returns the differences between `new`, the complete contents, and the edited contents.
    ///
    /// # Errors
    /// [`Cancelled`] if the operation was cancelled.
    pub fn differences(&self, new: &[u8], progress: &Progress) -> Result<Vec<Piece>, Cancelled> {
        let mut pieces = Vec::new();
        progress.set_total(new.len() as u64);
        for (n, part) in new.chunks(CHUNK as usize).enumerate() {
            let offset = n as u64 * CHUNK;
            differences(offset, &self.part(offset, part.len()), part, &mut pieces);
            progress.advance(part.len() as u64)?;
        }
        Ok(pieces)
    }
}
