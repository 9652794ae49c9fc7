//! The contents of an API trace: code of modules, and the bytes that copies moved.

use super::{CallModule, CopyRow};
use crate::recording::{PageId, Recording};
use std::ops::Range;

/// Maximum size of a module that is assembled, bytes. The largest modules of NVIDIA's libraries have some 200 MB.
const MAX_CODE_BYTES: u64 = 1 << 30;

impl Recording {
    /// Returns the bytes of a module, assembled from its pages, or `None` if pages are missing.
    #[must_use]
    pub fn module_code(&self, module: &CallModule) -> Option<Vec<u8>> {
        let pages: u64 = module.pages.iter().map(|[_, n]| u64::from(*n)).sum();
        let page = crate::PAGE_SIZE as u64;
        // Pages are stored once by content: a module may name the same page very often, and more pages than there are.
        if module.bytes == 0 || module.bytes > MAX_CODE_BYTES || module.bytes.div_ceil(page) != pages {
            return None;
        }
        let mut code = Vec::new();
        code.try_reserve_exact(usize::try_from(pages.checked_mul(page)?).ok()?)
            .ok()?;
        for [first, count] in &module.pages {
            for id in *first..first.checked_add(*count)? {
                code.extend_from_slice(self.memory.pages.page(PageId(id))?);
            }
        }
        code.truncate(usize::try_from(module.bytes).ok()?);
        Some(code)
    }

    /// Returns whether the recording names a page for each byte that a copy moved.
    #[must_use]
    pub fn has_copy_content(&self, row: &CopyRow) -> bool {
        self.copy_pages(row).is_some()
    }

    /// Returns the bytes that a copy moved, its rows one after another, or `None` if the recording does not hold them.
    #[must_use]
    pub fn copy_content(&self, row: &CopyRow) -> Option<Vec<u8>> {
        self.content(&row.stored()?)
    }

    /// Fills `out` with bytes that a copy moved, from byte `offset` on, like [`Recording::read_content`].
    #[must_use]
    pub fn read_copy_content(&self, row: &CopyRow, offset: u64, out: &mut [u8]) -> bool {
        row.stored()
            .is_some_and(|stored| self.read_content(&stored, offset, out))
    }

    /// Returns the range of [`crate::recording::Events::call_pages`] with the bytes that a copy moved, or `None` if
    /// there are not enough pages.
    pub(crate) fn copy_pages(&self, row: &CopyRow) -> Option<Range<usize>> {
        self.find_content_pages(&row.stored()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGE_SIZE;
    use crate::recording::MemoryBuilder;

    /// The recording of a small program has fewer distinct pages than its code, because zeros and padding repeat.
    #[test]
    fn code_with_repeated_pages_is_read_completely() {
        let mut memory = MemoryBuilder::new();
        let page = memory.add_page(&[7; PAGE_SIZE]);
        assert_eq!(page, PageId(1));
        let recording = Recording {
            memory: memory.finish(),
            ..Recording::default()
        };
        let module = |bytes: u64, pages: &[[u32; 2]]| CallModule {
            bytes,
            pages: pages.to_vec(),
            ..CallModule::default()
        };
        let page = PAGE_SIZE as u64;
        let complete = module(5 * page - 1, &[[1, 1], [0, 1], [1, 1], [0, 2]]);
        let code = recording.module_code(&complete);
        let code = code.unwrap_or_default();
        assert_eq!(code.len() as u64, 5 * page - 1);
        assert_eq!((code.first(), code.get(PAGE_SIZE)), (Some(&7), Some(&0)));
        for invalid in [
            module(2 * page, &[[1, 2]]),
            module(2 * page, &[[1, 1]]),
            module(u64::MAX, &[[0, u32::MAX]]),
            module(u64::from(u32::MAX) * page, &[[0, u32::MAX]]),
        ] {
            assert_eq!(recording.module_code(&invalid), None);
        }
    }
}
