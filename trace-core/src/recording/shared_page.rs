//! A page image that lives longer than the store that has it, without a copy of what a file holds.

use super::memory::{Page, ZERO_PAGE};
use super::shared_bytes::SharedBytes;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A page image whose memory is shared: with other owners, or with the file that has it.
///
/// The image of a file is as the file is: it was compared with its digest once, and a program that writes to the file
/// afterwards changes it.
#[derive(Clone)]
pub struct SharedPage(Source);

#[derive(Clone)]
enum Source {
    Owned(Arc<Page>),
    /// The page begins at this byte, and ends before the end of the bytes.
    InBytes(Arc<dyn SharedBytes>, usize),
}

impl SharedPage {
    /// Returns the page that begins at byte `start`, or `None` if it reaches past the end.
    pub(crate) fn in_bytes(bytes: &Arc<dyn SharedBytes>, start: usize) -> Option<Self> {
        bytes.slice(start..start.checked_add(crate::PAGE_SIZE)?)?;
        Some(Self(Source::InBytes(Arc::clone(bytes), start)))
    }
}

impl Deref for SharedPage {
    type Target = Page;

    fn deref(&self) -> &Page {
        match &self.0 {
            Source::Owned(page) => page,
            // The bytes are the same slice at every call, so that the page is always there.
            Source::InBytes(bytes, start) => {
                let page = bytes.slice(*start..start.saturating_add(crate::PAGE_SIZE));
                page.and_then(|page| page.try_into().ok()).unwrap_or(&ZERO_PAGE)
            }
        }
    }
}

impl AsRef<Page> for SharedPage {
    fn as_ref(&self) -> &Page {
        self
    }
}

impl From<Arc<Page>> for SharedPage {
    fn from(page: Arc<Page>) -> Self {
        Self(Source::Owned(page))
    }
}

impl From<Box<Page>> for SharedPage {
    fn from(page: Box<Page>) -> Self {
        Arc::<Page>::from(page).into()
    }
}

impl From<Page> for SharedPage {
    fn from(page: Page) -> Self {
        Arc::new(page).into()
    }
}

impl fmt::Debug for SharedPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedPage")
    }
}

impl PartialEq for SharedPage {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for SharedPage {}
