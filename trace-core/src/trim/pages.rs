//! Page images of a part, with new ids.

use crate::recording::{Memory, MemoryBuilder, Page, PageId, Recording, ZERO_PAGE};
use std::collections::HashMap;

/// Page images to keep, in the order of discovery.
pub(super) struct Pages<'a> {
    recording: &'a Recording,
    builder: MemoryBuilder,
    new: HashMap<PageId, PageId>,
}

impl<'a> Pages<'a> {
    pub(super) fn new(recording: &'a Recording) -> Self {
        Self {
            recording,
            builder: MemoryBuilder::new(),
            new: HashMap::new(),
        }
    }

    /// Returns the new id of a page.
    pub(super) fn renumber(&mut self, old: PageId) -> PageId {
        if old == PageId::ZERO {
            return old;
        }
        if let Some(new) = self.new.get(&old) {
            return *new;
        }
        let image = self.recording.memory.pages.page(old).unwrap_or(&ZERO_PAGE);
        let new = self.builder.add_page(image);
        self.new.insert(old, new);
        new
    }

    /// Returns the new id of a page, or `None` if the recording does not hold its image.
    pub(super) fn renumber_stored(&mut self, old: PageId) -> Option<PageId> {
        self.recording.memory.pages.page(old)?;
        Some(self.renumber(old))
    }

    /// Adds a page that the recording does not have, and returns its id.
    pub(super) fn add(&mut self, page: &Page) -> PageId {
        self.builder.add_page(page)
    }

    /// Returns the kept pages.
    pub(super) fn finish(self) -> Memory {
        self.builder.finish()
    }
}
