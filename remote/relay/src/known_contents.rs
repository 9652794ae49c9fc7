//! Contents that the worker's end has from earlier programs, as the program's end knows them.

use crate::lock;
use crate::record::{Content, ContentDigest, DIGEST_BYTES};
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Minimum size of a content, bytes: the bytes of smaller ones cost less than their digest.
pub const MIN_CONTENT_BYTES: usize = 16 << 10;
/// Total size of the contents of a program that are hashed, bytes: constant data come first, and later ones are new.
const MAX_HASHED_BYTES: u64 = 4 << 30;

/// Contents that the worker's end has.
#[derive(Debug)]
pub struct KnownContents {
    known: Mutex<HashSet<ContentDigest>>,
    /// Bytes that may still be hashed.
    left: AtomicU64,
}

impl KnownContents {
    /// Creates the set from the digests that the worker's end sent. `is_used` is `false` where hashing costs more than
    /// sending.
    pub fn new(digests: &[u8], is_used: bool) -> Self {
        let (digests, _) = digests.as_chunks::<DIGEST_BYTES>();
        Self {
            known: Mutex::new(digests.iter().copied().collect()),
            left: AtomicU64::new(if is_used { MAX_HASHED_BYTES } else { 0 }),
        }
    }

    /// Returns bytes as a content for a record: by their digest if the worker's end has them.
    pub fn content<'b>(&self, bytes: &'b [u8]) -> Content<'b> {
        let size = bytes.len() as u64;
        let take = |left: u64| left.checked_sub(size);
        let is_hashed = bytes.len() >= MIN_CONTENT_BYTES
            && self
                .left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                .is_ok();
        if !is_hashed {
            return Content::Plain(bytes);
        }
        let digest = *blake3::hash(bytes).as_bytes();
        match (lock(&self.known).contains(&digest), u32::try_from(size)) {
            (true, Ok(bytes)) => Content::Known { digest, bytes },
            // The worker's end keeps it, and lists it to the next program.
            _ => Content::Kept { digest, bytes },
        }
    }
}
