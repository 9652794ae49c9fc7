//! Memory of the recorded machine as seen by its CPU: the first snapshot, and the later CPU writes.

use std::collections::HashMap;
use trace_core::mmu::PhysMemory;
use trace_core::recording::{HostWriteRow, Memory, MemoryView, Page, PageId, ZERO_PAGE};
use trace_core::{PAGE_SIZE, PhysAddr, Recording};

/// The CPU's contents of a frame.
enum Image {
    /// A complete page of the recording.
    Stored(PageId),
    Made(Box<Page>),
}

/// Recorded memory without the writes of jobs since the start of the recording.
pub(crate) struct CpuMemory<'a> {
    memory: &'a Memory,
    start: MemoryView<'a>,
    written: HashMap<u64, Image>,
}

impl<'a> CpuMemory<'a> {
    pub fn new(recording: &'a Recording) -> Self {
        Self {
            memory: &recording.memory,
            start: recording.memory.at(0),
            written: HashMap::new(),
        }
    }

    /// Returns the page in a frame, or `None` if the recording does not have it.
    pub fn frame(&self, frame: u64) -> Option<&Page> {
        match self.written.get(&frame) {
            Some(Image::Made(page)) => Some(page),
            Some(Image::Stored(id)) => self.memory.pages.page(*id),
            None => self.start.frame(frame),
        }
    }

    /// Returns the recorded page in a frame, if the frame holds one unchanged.
    pub fn page_id(&self, frame: u64) -> Option<PageId> {
        match self.written.get(&frame) {
            Some(Image::Made(_)) => None,
            Some(Image::Stored(id)) => Some(*id),
            None => self.start.page_id(frame),
        }
    }

    /// Applies a CPU write. Returns the bytes, or `None` if the row is not a piece of a page, or the page is missing.
    pub fn write(&mut self, row: &HostWriteRow) -> Option<&'a [u8]> {
        let piece = row.piece()?;
        let bytes = self.memory.pages.page(PageId(row.page))?.get(piece.clone())?;
        if bytes.len() == PAGE_SIZE {
            self.written.insert(row.frame(), Image::Stored(PageId(row.page)));
            return Some(bytes);
        }
        if !matches!(self.written.get(&row.frame()), Some(Image::Made(_))) {
            let page = Box::new(*self.frame(row.frame()).unwrap_or(&ZERO_PAGE));
            self.written.insert(row.frame(), Image::Made(page));
        }
        if let Some(Image::Made(page)) = self.written.get_mut(&row.frame())
            && let Some(to) = page.get_mut(piece)
        {
            to.copy_from_slice(bytes);
        }
        Some(bytes)
    }
}

impl PhysMemory for CpuMemory<'_> {
    fn read_u64(&self, at: PhysAddr) -> Option<u64> {
        let bytes = self.frame(at.frame())?.get(at.in_page()..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*bytes))
    }

    fn table(&self, frame: u64) -> Option<&Page> {
        self.frame(frame)
    }
}
