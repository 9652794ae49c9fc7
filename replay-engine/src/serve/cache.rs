//! Page images that clients sent before, by digest, up to a number of bytes; the least recently used go first.

use crate::plan::PageSource;
use crate::wire::PublicKey;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use trace_core::PAGE_SIZE;
use trace_core::recording::{Digest, Page, ZERO_PAGE, zero_digest};

/// Each client has its own pages: knowing a digest does not give a client what another one sent.
type Key = (PublicKey, Digest);

/// Page images by client and digest.
#[derive(Debug)]
pub(crate) struct PageCache {
    limit: usize,
    pages: HashMap<Key, (Arc<Page>, u64)>,
    by_age: BTreeMap<u64, Key>,
    clock: u64,
}

impl PageCache {
    /// A cache that holds at most `limit` bytes of images.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            pages: HashMap::new(),
            by_age: BTreeMap::new(),
            clock: 0,
        }
    }

    /// The image, which now counts as used.
    pub fn get(&mut self, client: PublicKey, digest: &Digest) -> Option<Arc<Page>> {
        let (page, stamp) = self.pages.get_mut(&(client, *digest))?;
        self.clock += 1;
        self.by_age.remove(stamp);
        *stamp = self.clock;
        self.by_age.insert(self.clock, (client, *digest));
        Some(Arc::clone(page))
    }

    /// Keeps an image whose digest was checked.
    pub fn put(&mut self, client: PublicKey, digest: Digest, page: &Arc<Page>) {
        self.clock += 1;
        if let Some((_, old)) = self.pages.insert((client, digest), (Arc::clone(page), self.clock)) {
            self.by_age.remove(&old);
        }
        self.by_age.insert(self.clock, (client, digest));
        while self.bytes() > self.limit {
            let Some((_, oldest)) = self.by_age.pop_first() else {
                break;
            };
            self.pages.remove(&oldest);
        }
    }

    /// Bytes of images held.
    pub fn bytes(&self) -> usize {
        self.pages.len() * PAGE_SIZE
    }
}

/// The images of one plan. They stay while the plan does, whatever the cache drops.
#[derive(Debug, Default)]
pub(crate) struct Held(pub HashMap<Digest, Arc<Page>>);

impl PageSource for Held {
    fn page(&self, digest: &Digest) -> Option<&Page> {
        match self.0.get(digest) {
            Some(page) => Some(page),
            None => (*digest == zero_digest()).then_some(&ZERO_PAGE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first_and_clients_do_not_share() {
        let (a, b) = (PublicKey([1; 32]), PublicKey([2; 32]));
        let page = |v: u8| (*blake3::hash(&[v; PAGE_SIZE]).as_bytes(), Arc::new([v; PAGE_SIZE]));
        let mut cache = PageCache::new(3 * PAGE_SIZE);
        let all: Vec<_> = (1..=4).map(page).collect();
        for (d, p) in &all[..3] {
            cache.put(a, *d, p);
        }
        assert!(cache.get(b, &all[0].0).is_none(), "another client's page");
        assert_eq!(*cache.get(a, &all[0].0).unwrap(), *all[0].1);
        cache.put(a, all[3].0, &all[3].1);
        assert_eq!(cache.bytes(), 3 * PAGE_SIZE);
        assert!(cache.get(a, &all[1].0).is_none(), "page 2 was the oldest");
        assert!(cache.get(a, &all[0].0).is_some() && cache.get(a, &all[3].0).is_some());
        cache.put(a, all[3].0, &all[3].1);
        assert_eq!((cache.pages.len(), cache.by_age.len()), (3, 3));
    }
}
