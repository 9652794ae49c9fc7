//! Sources of a plan's page images.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use trace_core::recording::{Digest, Page, ZERO_PAGE, zero_digest};

/// Page images by digest.
pub trait PageSource {
    /// Returns the image with this digest, or `None` if it is missing. The page of zeros need not be stored.
    fn page(&self, digest: &Digest) -> Option<&Page>;
}

fn zero(digest: &Digest) -> Option<&'static Page> {
    (*digest == zero_digest()).then_some(&ZERO_PAGE)
}

impl PageSource for BTreeMap<Digest, Box<Page>> {
    fn page(&self, digest: &Digest) -> Option<&Page> {
        self.get(digest).map(|p| &**p).or_else(|| zero(digest))
    }
}

impl<S: BuildHasher> PageSource for HashMap<Digest, Box<Page>, S> {
    fn page(&self, digest: &Digest) -> Option<&Page> {
        self.get(digest).map(|p| &**p).or_else(|| zero(digest))
    }
}
