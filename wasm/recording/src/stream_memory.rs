//! The addresses of the streams' bytes in a recording, and the pages that store them.

use crate::WasmRecordingError;
use trace_core::PAGE_SIZE;
use trace_core::recording::{EventsBuilder, MemoryBuilder};

/// Address of the first byte. The streams have no addresses in a program: these only order them.
const BASE: u64 = 0x1_0000_0000;
/// Multiple of the address of each stream.
const ALIGN: usize = 16;

/// Bytes of all streams while a recording is written. Small streams share pages.
#[derive(Debug, Default)]
pub(crate) struct StreamMemory {
    bytes: Vec<u8>,
}

impl StreamMemory {
    /// Stores parts of one stream next to each other; returns the address of the first byte and the size.
    pub fn add<'a>(&mut self, parts: impl IntoIterator<Item = &'a [u8]>) -> (u64, u64) {
        let start = self.bytes.len();
        parts.into_iter().for_each(|part| self.bytes.extend_from_slice(part));
        let bytes = self.bytes.len().saturating_sub(start) as u64;
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
        (BASE + start as u64, bytes)
    }

    /// Stores the pages, and returns their numbers in the order of their addresses.
    ///
    /// # Errors
    /// When there are more pages than numbers.
    pub fn store(self, pages: &mut MemoryBuilder) -> Result<Vec<u32>, WasmRecordingError> {
        let add = |chunk: &[u8]| {
            let mut page = [0; PAGE_SIZE];
            if let Some(to) = page.get_mut(..chunk.len()) {
                to.copy_from_slice(chunk);
            }
            pages.add_page(&page).0
        };
        if u32::try_from(self.bytes.len() / PAGE_SIZE).is_err() {
            return Err(WasmRecordingError::TooLarge("16 TiB"));
        }
        Ok(self.bytes.chunks(PAGE_SIZE).map(add).collect())
    }
}

/// Names the pages of a stream at `address` for a copy; returns the row of the first one.
pub(crate) fn name_pages(events: &mut EventsBuilder, ids: &[u32], (address, bytes): (u64, u64)) -> u64 {
    let page = PAGE_SIZE as u64;
    let first = address.saturating_sub(BASE) / page;
    let end = address.saturating_sub(BASE).saturating_add(bytes).div_ceil(page);
    let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    events.call_pages(ids.get(index(first)..index(end)).unwrap_or_default())
}
