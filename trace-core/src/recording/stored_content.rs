//! Bytes of device memory that a recording stores in pages: of copies, ring entries and saved memory.

use super::{CopyRow, NO_CONTENT, PageId, Recording, RingEntryRow, SavedMemoryRow};
use crate::{GpuVa, PAGE_SIZE};
use std::ops::Range;

/// Where a recording stores contiguous bytes of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredContent {
    /// Device address of the first byte: the bytes start in the first page at its page offset.
    pub va: GpuVa,
    /// Number of bytes.
    pub bytes: u64,
    /// First page, a row of [`super::Events::call_pages`], or [`NO_CONTENT`].
    pub pages_at: u64,
}

impl StoredContent {
    /// Returns the number of pages, or `None` on overflow.
    #[must_use]
    pub fn pages(&self) -> Option<u64> {
        let bytes = (self.va.in_page() as u64).checked_add(self.bytes)?;
        Some(bytes.div_ceil(PAGE_SIZE as u64))
    }

    /// Returns the rows of [`super::Events::call_pages`] that it names, or `None` if the recording does not hold it.
    #[must_use]
    pub fn rows(&self) -> Option<Range<u64>> {
        let first = Some(self.pages_at).filter(|at| *at != NO_CONTENT)?;
        Some(first..first.checked_add(self.pages()?)?)
    }
}

impl CopyRow {
    /// Returns where the copied bytes are stored, its rows one after another, or `None` on overflow.
    #[must_use]
    pub fn stored(&self) -> Option<StoredContent> {
        Some(StoredContent {
            va: self.device(),
            bytes: self.total()?,
            pages_at: self.pages_at,
        })
    }
}

impl RingEntryRow {
    /// Returns where its commands are stored.
    #[must_use]
    pub fn stored(&self) -> StoredContent {
        StoredContent {
            va: self.va,
            bytes: self.bytes,
            pages_at: self.pages_at,
        }
    }
}

impl SavedMemoryRow {
    /// Returns where its bytes are stored.
    #[must_use]
    pub fn stored(&self) -> StoredContent {
        StoredContent {
            va: self.va,
            bytes: self.bytes,
            pages_at: self.pages_at,
        }
    }
}

impl Recording {
    /// Returns the rows of [`super::Events::call_pages`] with stored bytes, or `None` if there are not enough.
    pub(crate) fn find_content_pages(&self, stored: &StoredContent) -> Option<Range<usize>> {
        let rows = stored.rows()?;
        let (first, end) = (usize::try_from(rows.start).ok()?, usize::try_from(rows.end).ok()?);
        (end <= self.events.call_pages.len()).then_some(first..end)
    }

    /// Returns the numbers of the pages with stored bytes, or `None` if the recording does not name all of them.
    #[must_use]
    pub fn content_pages(&self, stored: &StoredContent) -> Option<Vec<u32>> {
        let rows = self.find_content_pages(stored)?;
        Some(self.events.call_pages.iter_range(rows).collect())
    }

    /// Returns stored bytes, or `None` if the recording does not hold all of them.
    #[must_use]
    pub fn content(&self, stored: &StoredContent) -> Option<Vec<u8>> {
        // The memory is limited by the pages that the file can name.
        self.find_content_pages(stored)?;
        let mut bytes = vec![0; usize::try_from(stored.bytes).ok()?];
        self.read_content(stored, 0, &mut bytes).then_some(bytes)
    }

    /// Fills `out` with stored bytes from byte `offset` on. The time depends on the size of `out`, not on the number of
    /// stored bytes. Returns `false` if the recording does not hold all of it, or it ends before; the content of `out` is
    /// then unspecified.
    #[must_use]
    pub fn read_content(&self, stored: &StoredContent, offset: u64, out: &mut [u8]) -> bool {
        const PAGE: u64 = PAGE_SIZE as u64;
        let fill = || {
            let pages = self.find_content_pages(stored)?;
            if offset.checked_add(out.len() as u64)? > stored.bytes {
                return None;
            }
            let begin = (stored.va.in_page() as u64).checked_add(offset)?;
            let first = pages.start.checked_add(usize::try_from(begin / PAGE).ok()?)?;
            let mut skip = (begin % PAGE) as usize;
            let mut left = out;
            for id in self.events.call_pages.iter_range(first..pages.end) {
                if left.is_empty() {
                    break;
                }
                let from = self.memory.pages.page(PageId(id))?.get(skip..)?;
                let (now, rest) = left.split_at_mut(from.len().min(left.len()));
                now.copy_from_slice(from.get(..now.len())?);
                (left, skip) = (rest, 0);
            }
            left.is_empty().then_some(())
        };
        fill().is_some()
    }
}
