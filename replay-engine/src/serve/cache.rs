//! Cache of client data: page images and parts of plans, up to a number of bytes. The least recently used entries are
//! removed first.

use crate::plan::PageSource;
use crate::wire::PublicKey;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use trace_core::PAGE_SIZE;
use trace_core::recording::{Digest, Page, SharedPage, ZERO_PAGE, zero_digest};

/// Each client has its own entries: a client that knows a digest does not get another client's data.
type Key = (PublicKey, Digest);

/// The kind of a plan part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartKind {
    /// The record with an empty body.
    Head,
    /// The actions.
    Body,
}

/// A part of a plan.
#[derive(Debug)]
struct CachedPart {
    side: PartKind,
    /// Digest of the plan's body. Plans of one recording with different inputs share it.
    body: Digest,
    bytes: Arc<Vec<u8>>,
    stamp: u64,
}

#[derive(Clone, Copy, Debug)]
enum Entry {
    Page(Key),
    Part(Key),
}

/// Page images and parts of plans, by client and digest.
#[derive(Debug)]
pub(crate) struct Cache {
    limit: usize,
    held: usize,
    pages: HashMap<Key, (SharedPage, u64)>,
    parts: HashMap<Key, CachedPart>,
    by_age: BTreeMap<u64, Entry>,
    clock: u64,
}

impl Cache {
    /// Creates a cache of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            held: 0,
            pages: HashMap::new(),
            parts: HashMap::new(),
            by_age: BTreeMap::new(),
            clock: 0,
        }
    }

    fn now(&mut self, entry: Entry, before: Option<u64>) -> u64 {
        if let Some(before) = before {
            self.by_age.remove(&before);
        }
        self.clock += 1;
        self.by_age.insert(self.clock, entry);
        self.clock
    }

    /// Returns the image, and marks it as used.
    pub fn page(&mut self, client: PublicKey, digest: &Digest) -> Option<SharedPage> {
        let key = (client, *digest);
        let (page, stamp) = self.pages.get(&key).map(|(p, s)| (p.clone(), *s))?;
        self.put_page(client, *digest, &page, Some(stamp));
        Some(page)
    }

    /// Stores an image whose digest was checked.
    pub fn keep_page(&mut self, client: PublicKey, digest: Digest, page: &SharedPage) {
        let before = self.pages.get(&(client, digest)).map(|(_, s)| *s);
        if before.is_none() {
            self.held += PAGE_SIZE;
        }
        self.put_page(client, digest, page, before);
        self.shrink();
    }

    fn put_page(&mut self, client: PublicKey, digest: Digest, page: &SharedPage, before: Option<u64>) {
        let key = (client, digest);
        let stamp = self.now(Entry::Page(key), before);
        self.pages.insert(key, (page.clone(), stamp));
    }

    /// Returns a part of a plan, and marks it as used.
    pub fn part(&mut self, client: PublicKey, side: PartKind, digest: &Digest) -> Option<Arc<Vec<u8>>> {
        let key = (client, *digest);
        let kept = self.parts.get(&key).filter(|k| k.side == side)?;
        let (bytes, before) = (Arc::clone(&kept.bytes), kept.stamp);
        let stamp = self.now(Entry::Part(key), Some(before));
        if let Some(kept) = self.parts.get_mut(&key) {
            kept.stamp = stamp;
        }
        Some(bytes)
    }

    /// Returns the part of this client's plans that is probably most similar: the most recent part with the same body
    /// digest, or else the most recent part.
    pub fn find_similar(&self, client: PublicKey, side: PartKind, body: &Digest) -> Option<Arc<Vec<u8>>> {
        self.parts
            .iter()
            .filter(|((of, _), k)| *of == client && k.side == side)
            .max_by_key(|(_, k)| (k.body == *body, k.stamp))
            .map(|(_, k)| Arc::clone(&k.bytes))
    }

    /// Stores a part whose digest was checked.
    pub fn keep_part(&mut self, client: PublicKey, side: PartKind, digest: Digest, body: Digest, bytes: &Arc<Vec<u8>>) {
        let key = (client, digest);
        let before = self.parts.get(&key).map(|k| k.stamp);
        if before.is_none() {
            self.held = self.held.saturating_add(bytes.len());
        }
        let stamp = self.now(Entry::Part(key), before);
        let bytes = Arc::clone(bytes);
        self.parts.insert(
            key,
            CachedPart {
                side,
                body,
                bytes,
                stamp,
            },
        );
        self.shrink();
    }

    /// Removes a part, because a reconstruction from it failed.
    pub fn forget_part(&mut self, client: PublicKey, digest: &Digest) {
        if let Some(kept) = self.parts.remove(&(client, *digest)) {
            self.by_age.remove(&kept.stamp);
            self.held = self.held.saturating_sub(kept.bytes.len());
        }
    }

    fn shrink(&mut self) {
        while self.held > self.limit {
            let bytes = match self.by_age.pop_first() {
                Some((_, Entry::Page(key))) => self.pages.remove(&key).map_or(0, |_| PAGE_SIZE),
                Some((_, Entry::Part(key))) => self.parts.remove(&key).map_or(0, |k| k.bytes.len()),
                None => break,
            };
            self.held = self.held.saturating_sub(bytes);
        }
    }

    /// Returns the number of stored bytes.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.held
    }
}

/// The images of one plan. They stay as long as the plan, even if the cache removes them.
#[derive(Debug, Default)]
pub(crate) struct PinnedPages(pub HashMap<Digest, SharedPage>);

impl PageSource for PinnedPages {
    fn page(&self, digest: &Digest) -> Option<&Page> {
        match self.0.get(digest) {
            Some(page) => Some(page),
            None => (*digest == zero_digest()).then_some(&ZERO_PAGE),
        }
    }

    fn shared_page(&self, digest: &Digest) -> Option<SharedPage> {
        match self.0.get(digest) {
            Some(page) => Some(page.clone()),
            None => (*digest == zero_digest()).then(|| ZERO_PAGE.into()),
        }
    }

    // Images are compared with their digests when they arrive, before the cache or a plan gets them.
    fn is_checked(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PublicKey = PublicKey([1; 32]);
    const B: PublicKey = PublicKey([2; 32]);

    fn page(v: u8) -> (Digest, SharedPage) {
        (*blake3::hash(&[v; PAGE_SIZE]).as_bytes(), [v; PAGE_SIZE].into())
    }

    #[test]
    fn cache_evicts_least_recently_used_and_separates_clients() {
        let mut cache = Cache::new(3 * PAGE_SIZE);
        let all: Vec<_> = (1..=4).map(page).collect();
        for (d, p) in &all[..3] {
            cache.keep_page(A, *d, p);
        }
        assert!(cache.page(B, &all[0].0).is_none(), "the page belongs to another client");
        assert_eq!(*cache.page(A, &all[0].0).unwrap(), *all[0].1);
        cache.keep_page(A, all[3].0, &all[3].1);
        assert_eq!(cache.bytes(), 3 * PAGE_SIZE);
        assert!(cache.page(A, &all[1].0).is_none(), "page 2 was the oldest");
        assert!(cache.page(A, &all[0].0).is_some() && cache.page(A, &all[3].0).is_some());
        cache.keep_page(A, all[3].0, &all[3].1);
        assert_eq!((cache.pages.len(), cache.by_age.len()), (3, 3));
    }

    #[test]
    fn cached_plan_parts_are_counted_and_matched_by_body() {
        let mut cache = Cache::new(3 * PAGE_SIZE);
        let part = |v: u8| Arc::new(vec![v; PAGE_SIZE]);
        let put =
            |c: &mut Cache, client, v: u8, body| c.keep_part(client, PartKind::Head, [v; 32], [body; 32], &part(v));
        put(&mut cache, A, 1, 7);
        put(&mut cache, A, 2, 8);
        put(&mut cache, B, 3, 7);
        let similar_part =
            |c: &Cache, client, body: u8| c.find_similar(client, PartKind::Head, &[body; 32]).map(|p| p[0]);
        assert_eq!(
            similar_part(&cache, A, 7),
            Some(1),
            "the part with the same body is found"
        );
        assert_eq!(
            similar_part(&cache, A, 9),
            Some(2),
            "without the same body, the latest part is found"
        );
        assert_eq!(similar_part(&cache, B, 8), Some(3));
        assert_eq!(cache.find_similar(A, PartKind::Body, &[7; 32]), None);
        assert!(
            cache.part(A, PartKind::Head, &[3; 32]).is_none(),
            "the part belongs to another client"
        );
        assert!(
            cache.part(A, PartKind::Body, &[1; 32]).is_none(),
            "the digest belongs to a head, not a body"
        );
        assert!(cache.part(A, PartKind::Head, &[1; 32]).is_some());
        // One more page removes the oldest entry, which is not the part that was just used.
        let (digest, image) = page(9);
        cache.keep_page(A, digest, &image);
        assert_eq!((cache.bytes(), cache.by_age.len()), (3 * PAGE_SIZE, 3));
        assert_eq!(
            (similar_part(&cache, A, 8), similar_part(&cache, B, 7)),
            (Some(1), Some(3))
        );
        cache.forget_part(A, &[1; 32]);
        assert_eq!((cache.bytes(), similar_part(&cache, A, 7)), (2 * PAGE_SIZE, None));
        // Data larger than the whole cache is not stored.
        cache.keep_part(A, PartKind::Body, [4; 32], [4; 32], &Arc::new(vec![0; 4 * PAGE_SIZE]));
        assert_eq!((cache.bytes(), cache.by_age.len()), (0, 0));
    }
}
