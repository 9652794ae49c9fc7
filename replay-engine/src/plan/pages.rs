//! Sources of a plan's page images.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use trace_core::recording::{Digest, Page, SharedPage, ZERO_PAGE, zero_digest};

/// Page images of a plan by digest. They share memory with the recording that they come from.
pub type PageImages = BTreeMap<Digest, SharedPage>;

/// Page images by digest.
pub trait PageSource {
    /// Returns the image with this digest, or `None` if it is missing. The page of zeros need not be stored.
    fn page(&self, digest: &Digest) -> Option<&Page>;

    /// Returns the image for longer than the source. By default it is copied.
    fn shared_page(&self, digest: &Digest) -> Option<SharedPage> {
        self.page(digest).map(|page| (*page).into())
    }

    /// Whether each image was compared with its digest when it was added. A verification need not do it again.
    fn is_checked(&self) -> bool {
        false
    }
}

fn zero(digest: &Digest) -> Option<&'static Page> {
    (*digest == zero_digest()).then_some(&ZERO_PAGE)
}

impl PageSource for PageImages {
    fn page(&self, digest: &Digest) -> Option<&Page> {
        self.get(digest).map(|p| &**p).or_else(|| zero(digest))
    }

    fn shared_page(&self, digest: &Digest) -> Option<SharedPage> {
        match self.get(digest) {
            Some(page) => Some(page.clone()),
            None => zero(digest).map(|page| (*page).into()),
        }
    }
}

/// Images of a plan whose digests this process computed from them, or compared with them: those that a compiler or
/// [`super::Compiled::from_bytes`] made.
#[derive(Clone, Copy, Debug)]
pub struct ComputedImages<'a>(pub &'a PageImages);

impl PageSource for ComputedImages<'_> {
    fn page(&self, digest: &Digest) -> Option<&Page> {
        self.0.page(digest)
    }

    fn shared_page(&self, digest: &Digest) -> Option<SharedPage> {
        self.0.shared_page(digest)
    }

    fn is_checked(&self) -> bool {
        true
    }
}

impl<S: BuildHasher> PageSource for HashMap<Digest, Box<Page>, S> {
    fn page(&self, digest: &Digest) -> Option<&Page> {
        self.get(digest).map(|p| &**p).or_else(|| zero(digest))
    }
}
