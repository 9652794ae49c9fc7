//! What a buffer holds: as recorded, and as the person left it. Reads any part without the whole, on any thread.

use crate::changes::{Piece, Recorded};
use crate::edited::{Edited, differences};
use std::sync::Arc;
use trace_core::memory::GpuMemoryView;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{Buffer, Recording};

/// Bytes that are worked on between two looks at whether somebody still wants the result.
pub const CHUNK: u64 = 1 << 18;

impl Recorded for Recording {
    fn extent(&self, buffer: &str) -> Option<(u64, u64)> {
        let b = self.buffer(buffer)?;
        self.facts.address_spaces.get(b.address_space as usize)?;
        Some((b.va.0, b.bytes))
    }

    fn read(&self, buffer: &str, offset: u64, out: &mut [u8]) {
        if let Some(b) = self.buffer(buffer) {
            read_recorded(self, b, offset, out);
        }
    }
}

/// Fills `out` with the buffer's bytes as recorded and gives how many of them the recording does not hold; those are 0.
fn read_recorded(recording: &Recording, b: &Buffer, offset: u64, out: &mut [u8]) -> u64 {
    out.fill(0);
    let unknown = out.len() as u64;
    let Some(va) = b.va.checked_add(offset) else {
        return unknown;
    };
    let Some(space) = recording.facts.address_spaces.get(b.address_space as usize) else {
        return unknown;
    };
    let view = GpuMemoryView::new(recording.memory.at(0), space);
    let read = view.read_range(va, unknown);
    if let Some(to) = out.get_mut(..read.bytes.len()) {
        to.copy_from_slice(&read.bytes);
    }
    read.holes.iter().map(|(r, _)| r.end - r.start).sum()
}

/// A buffer with what was edited of it. Cheap to clone and to send to another thread.
#[derive(Clone, Debug)]
pub struct Contents {
    recording: Arc<Recording>,
    buffer: Buffer,
    edited: Option<Edited>,
}

impl Contents {
    /// The buffer of this name with these edits. `None`: there is no such buffer, or its address space is not in the
    /// recording.
    #[must_use]
    pub fn new(recording: Arc<Recording>, name: &str, edited: Option<Edited>) -> Option<Self> {
        recording.extent(name)?;
        let buffer = recording.buffer(name)?.clone();
        Some(Self {
            recording,
            buffer,
            edited,
        })
    }

    /// The buffer.
    #[must_use]
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Whether it differs from the recording.
    #[must_use]
    pub fn edited(&self) -> Option<&Edited> {
        self.edited.as_ref()
    }

    /// Fills `out` from `offset` on as recorded, and gives how many of the bytes the recording does not hold.
    pub fn recorded(&self, offset: u64, out: &mut [u8]) -> u64 {
        read_recorded(&self.recording, &self.buffer, offset, out)
    }

    /// Fills `out` from `offset` on as the person left it.
    pub fn now(&self, offset: u64, out: &mut [u8]) {
        self.recorded(offset, out);
        if let Some(e) = &self.edited {
            e.overlay(offset, out);
        }
    }

    /// A part as the person left it, cut at the buffer's end.
    #[must_use]
    pub fn part(&self, offset: u64, len: usize) -> Vec<u8> {
        let most = self.buffer.bytes.saturating_sub(offset);
        let mut out = vec![0; len.min(usize::try_from(most).unwrap_or(usize::MAX))];
        self.now(offset, &mut out);
        out
    }

    /// All bytes as the person left them.
    #[must_use]
    pub fn whole(&self) -> Vec<u8> {
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
