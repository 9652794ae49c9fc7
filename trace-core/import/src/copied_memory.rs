//! Memory and code of API traces as pages of a recording.

use trace_core::recording::{EventsBuilder, MemoryBuilder, Page};
use trace_core::{GpuVa, PAGE_SIZE};

/// Stores the content of a copy at a device address, and returns its first page number for the copy's row.
pub(crate) fn store_content(store: &mut MemoryBuilder, events: &mut EventsBuilder, at: GpuVa, content: &[u8]) -> u64 {
    let mut ids = Vec::new();
    let (mut rest, mut phase) = (content, at.in_page());
    while !rest.is_empty() {
        let count = rest.len().min(PAGE_SIZE - phase);
        let (part, next) = rest.split_at(count);
        let mut image: Page = [0; PAGE_SIZE];
        if let Some(to) = image.get_mut(phase..phase + count) {
            to.copy_from_slice(part);
        }
        ids.push(store.add_page(&image).0);
        (rest, phase) = (next, 0);
    }
    events.call_pages(&ids)
}

/// Stores code, and returns its pages as runs of a first page and a number of pages.
pub(crate) fn store_code(store: &mut MemoryBuilder, code: &[u8]) -> Vec<[u32; 2]> {
    let mut runs: Vec<[u32; 2]> = Vec::new();
    for part in code.chunks(PAGE_SIZE) {
        let mut image: Page = [0; PAGE_SIZE];
        if let Some(to) = image.get_mut(..part.len()) {
            to.copy_from_slice(part);
        }
        let id = store.add_page(&image).0;
        match runs.last_mut() {
            Some([first, count]) if *first + *count == id => *count += 1,
            _ => runs.push([id, 1]),
        }
    }
    runs
}
