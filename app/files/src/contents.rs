//! What a buffer holds: as recorded, and as the person left it. Reads any part without the whole, on any thread.

use crate::buffer_index::Buffers;
use crate::changes::Piece;
use crate::edited_buffer::{EditedBuffer, differences};
use std::sync::Arc;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::Buffer;

/// Bytes that are worked on between two looks at whether somebody still wants the result.
pub const CHUNK: u64 = 1 << 18;

/// A buffer with what was edited of it. Cheap to clone and to send to another thread.
#[derive(Clone, Debug)]
pub struct BufferContents {
    all: Arc<Buffers>,
    buffer: Buffer,
    edited: Option<EditedBuffer>,
}

impl BufferContents {
    /// The buffer of this name with these edits. `None`: there is no such buffer, or its address space is not in the
    /// recording.
    #[must_use]
    pub fn new(all: Arc<Buffers>, name: &str, edited: Option<EditedBuffer>) -> Option<Self> {
        let buffer = all.get(name).filter(|_| all.has_contents(name))?.clone();
        Some(Self { all, buffer, edited })
    }

    /// The buffer.
    #[must_use]
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Whether it may be edited.
    #[must_use]
    pub fn is_editable(&self) -> bool {
        self.all.is_editable(&self.buffer.name)
    }

    /// Where a byte of it lies.
    #[must_use]
    pub fn address_of(&self, offset: u64) -> Option<trace_core::GpuVa> {
        self.all.address_of(&self.buffer.name, offset)
    }

    /// Whether it differs from the recording.
    #[must_use]
    pub fn edited(&self) -> Option<&EditedBuffer> {
        self.edited.as_ref()
    }

    /// Fills `out` from `offset` on as recorded, and gives how many of the bytes the recording does not hold.
    pub fn read_recorded(&self, offset: u64, out: &mut [u8]) -> u64 {
        self.all.read(&self.buffer.name, offset, out)
    }

    /// Fills `out` from `offset` on as the person left it.
    pub fn read_current(&self, offset: u64, out: &mut [u8]) {
        self.read_recorded(offset, out);
        if let Some(e) = &self.edited {
            e.overlay(offset, out);
        }
    }

    /// A part as the person left it, cut at the buffer's end.
    #[must_use]
    pub fn part(&self, offset: u64, len: usize) -> Vec<u8> {
        let most = self.buffer.bytes.saturating_sub(offset);
        let mut out = vec![0; len.min(usize::try_from(most).unwrap_or(usize::MAX))];
        self.read_current(offset, &mut out);
        out
    }

    /// All bytes as the person left them.
    #[must_use]
    pub fn read_all(&self) -> Vec<u8> {
        self.part(0, usize::try_from(self.buffer.bytes).unwrap_or(0))
    }

    /// Where `new`, the whole content, differs from what the buffer holds now.
    ///
    /// # Errors
    /// [`Cancelled`] when nobody wants it any more.
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
