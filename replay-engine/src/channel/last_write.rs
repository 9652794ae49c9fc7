//! The last write of a channel plan: the push buffer of the submission behind it, if their ranges are equal.

use crate::plan::PageSource;
use std::borrow::Cow;
use trace_core::PAGE_SIZE;
use trace_core::recording::{Digest, Page, ZERO_PAGE, zero_digest};

/// The page images of a plan, by number.
#[derive(Clone, Copy)]
pub(super) struct PlanImages<'a> {
    pub digests: &'a [Digest],
    pub pages: &'a dyn PageSource,
}

impl<'a> PlanImages<'a> {
    /// Returns the digest of the image of a number, or `None` if the plan has none. Number 0 is the page of zeros.
    pub fn digest(&self, number: [u8; 4]) -> Option<Digest> {
        match u32::from_le_bytes(number).checked_sub(1) {
            None => Some(zero_digest()),
            Some(index) => self.digests.get(index as usize).copied(),
        }
    }

    /// Returns the image of a number, or `None` if it is missing.
    pub fn page(&self, number: [u8; 4]) -> Option<&'a Page> {
        match u32::from_le_bytes(number) {
            0 => Some(&ZERO_PAGE),
            _ => self.pages.page(&self.digest(number)?),
        }
    }
}

/// A write that the next submission may name.
#[derive(Clone, Copy)]
pub(super) enum LastWrite<'a> {
    /// Bytes of the step.
    Bytes { va: u64, data: &'a [u8] },
    /// Bytes of page images.
    Pages {
        va: u64,
        bytes: u64,
        numbers: &'a [[u8; 4]],
    },
}

impl<'a> LastWrite<'a> {
    /// Returns the first address and the number of bytes.
    pub fn range(&self) -> (u64, u64) {
        match *self {
            Self::Bytes { va, data } => (va, data.len() as u64),
            Self::Pages { va, bytes, .. } => (va, bytes),
        }
    }

    /// Returns the bytes, or `None` if a page image is missing. The caller limits their number.
    pub fn content(&self, images: PlanImages<'a>) -> Option<Cow<'a, [u8]>> {
        let (va, bytes, numbers) = match *self {
            Self::Bytes { data, .. } => return Some(Cow::Borrowed(data)),
            Self::Pages { va, bytes, numbers } => (va, usize::try_from(bytes).ok()?, numbers),
        };
        let mut content = Vec::with_capacity(bytes);
        let mut from = (va % PAGE_SIZE as u64) as usize;
        for number in numbers {
            let end = PAGE_SIZE.min(from + (bytes - content.len()));
            content.extend_from_slice(images.page(*number)?.get(from..end)?);
            from = 0;
        }
        Some(Cow::Owned(content))
    }
}
