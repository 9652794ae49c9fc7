//! Page store: bytes as pages, each stored once by content.

use std::collections::HashMap;
use trace_core::PAGE_SIZE;
use trace_core::recording::{Digest, Page, PageId, ZERO_PAGE};

/// Known pages by digest, and pages that are not yet in the file.
#[derive(Debug, Default)]
pub(crate) struct Content {
    known: HashMap<Digest, u32>,
    /// Number of pages that are in the file or wait for it.
    pages: u32,
    /// Digests of the waiting pages.
    pub digests: Vec<Digest>,
    /// Images of the waiting pages.
    pub images: Vec<Box<Page>>,
}

impl Content {
    /// Stores bytes that start `phase` bytes into the first page, with zeros around them, and returns the page ids.
    /// Returns `None` if the ids run out.
    pub fn store(&mut self, phase: usize, bytes: &[u8]) -> Option<Vec<u32>> {
        let phase = phase % PAGE_SIZE;
        let mut ids = Vec::with_capacity((phase + bytes.len()).div_ceil(PAGE_SIZE));
        let (first, rest) = bytes.split_at(bytes.len().min(PAGE_SIZE - phase));
        if !first.is_empty() {
            ids.push(self.padded(phase, first)?);
        }
        let (whole, last) = rest.as_chunks::<PAGE_SIZE>();
        for page in whole {
            ids.push(self.page(page)?);
        }
        if !last.is_empty() {
            ids.push(self.padded(0, last)?);
        }
        Some(ids)
    }

    fn padded(&mut self, at: usize, bytes: &[u8]) -> Option<u32> {
        let mut page = [0; PAGE_SIZE];
        page.get_mut(at..at.checked_add(bytes.len())?)?.copy_from_slice(bytes);
        self.page(&page)
    }

    fn page(&mut self, page: &Page) -> Option<u32> {
        if *page == ZERO_PAGE {
            return Some(PageId::ZERO.0);
        }
        let digest = *blake3::hash(page).as_bytes();
        if let Some(id) = self.known.get(&digest) {
            return Some(*id);
        }
        let id = self.pages.checked_add(1)?;
        self.pages = id;
        self.known.insert(digest, id);
        self.digests.push(digest);
        self.images.push(Box::new(*page));
        Some(id)
    }

    /// Returns the size of the pages that wait for the file, bytes.
    pub fn waiting(&self) -> usize {
        self.images.len() * PAGE_SIZE
    }
}

/// Returns ids as runs of first id and count.
pub(crate) fn runs(ids: &[u32]) -> Vec<[u32; 2]> {
    let mut runs: Vec<[u32; 2]> = Vec::new();
    for id in ids {
        match runs.last_mut() {
            Some([first, count]) if first.checked_add(*count) == Some(*id) => *count += 1,
            _ => runs.push([*id, 1]),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_at_the_same_phase_are_stored_once() {
        let mut c = Content::default();
        let bytes: Vec<u8> = (0..3 * PAGE_SIZE as u32).map(|n| (n / 5) as u8).collect();
        let a = c.store(100, &bytes).unwrap();
        assert_eq!(a.len(), 4);
        assert_eq!(c.store(100 + PAGE_SIZE, &bytes).unwrap(), a);
        assert_eq!(c.images.len(), 4);
        assert_ne!(c.store(101, &bytes).unwrap(), a);
        assert_eq!(c.store(0, &[0; 2 * PAGE_SIZE]).unwrap(), [0, 0]);
        assert_eq!(c.store(7, &[]).unwrap(), Vec::<u32>::new());
        assert_eq!(c.store(PAGE_SIZE - 1, &[1, 2]).unwrap().len(), 2);
        assert_eq!(runs(&[1, 2, 3, 0, 0, 7]), [[1, 3], [0, 1], [0, 1], [7, 1]]);
    }
}
