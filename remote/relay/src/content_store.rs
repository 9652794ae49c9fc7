//! Contents that clients sent, by their digests: a second start of a program sends its code and constant data by name.
//!
//! Each client has contents of its own: a digest gives nobody the bytes of another client.

use crate::lock;
use crate::record::{ContentDigest, DIGEST_BYTES};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Contents by their digests.
type Contents = HashMap<ContentDigest, Arc<[u8]>>;

/// The contents of one client, from the oldest.
#[derive(Debug, Default)]
struct Client {
    contents: Contents,
    order: VecDeque<ContentDigest>,
}

#[derive(Debug, Default)]
struct State {
    clients: HashMap<[u8; 32], Client>,
    /// Size of all contents, bytes.
    bytes: u64,
}

/// Contents of all clients.
#[derive(Debug)]
pub struct ContentStore {
    max_bytes: u64,
    state: Mutex<State>,
}

impl ContentStore {
    /// Creates a store for contents of at most `max_bytes` bytes.
    #[must_use]
    pub fn new(max_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            max_bytes,
            state: Mutex::default(),
        })
    }

    /// Returns the contents of a client, by its key. They stay while the value exists, whatever the store forgets.
    #[must_use]
    pub fn open(self: &Arc<Self>, client: [u8; 32]) -> ClientContents {
        let state = lock(&self.state);
        let known = state.clients.get(&client).map(|client| client.contents.clone());
        ClientContents {
            store: Arc::clone(self),
            client,
            known: known.unwrap_or_default(),
        }
    }

    fn keep(&self, key: [u8; 32], digest: ContentDigest, bytes: &[u8]) {
        let size = bytes.len() as u64;
        if size > self.max_bytes {
            return;
        }
        let mut state = lock(&self.state);
        let client = state.clients.entry(key).or_default();
        if client.contents.contains_key(&digest) {
            return;
        }
        client.contents.insert(digest, bytes.into());
        client.order.push_back(digest);
        state.bytes += size;
        while state.bytes > self.max_bytes && state.evict(key) {}
    }
}

impl State {
    /// Forgets the oldest content: of the client that needs room, or of another one if it has no more. Returns `false` if
    /// there is none.
    fn evict(&mut self, key: [u8; 32]) -> bool {
        let has_some = |client: &Client| !client.order.is_empty();
        let key = match self.clients.get(&key).is_some_and(has_some) {
            true => Some(key),
            false => self
                .clients
                .iter()
                .find(|(_, client)| has_some(client))
                .map(|(key, _)| *key),
        };
        let Some(client) = key.and_then(|key| self.clients.get_mut(&key)) else {
            return false;
        };
        let removed = client
            .order
            .pop_front()
            .and_then(|digest| client.contents.remove(&digest));
        self.bytes -= removed.map_or(0, |content| content.len() as u64);
        true
    }
}

/// The contents of one client, for one program.
#[derive(Debug)]
pub struct ClientContents {
    store: Arc<ContentStore>,
    client: [u8; 32],
    known: Contents,
}

impl ClientContents {
    /// Returns the digests of all contents that a program may name, one after the other, for the program's end. At most
    /// `max_bytes` bytes.
    #[must_use]
    pub fn digests(&self, max_bytes: usize) -> Vec<u8> {
        let most = max_bytes / DIGEST_BYTES;
        self.known.keys().take(most).flatten().copied().collect()
    }

    /// Returns the content with a digest.
    #[must_use]
    pub fn get(&self, digest: &ContentDigest) -> Option<&Arc<[u8]>> {
        self.known.get(digest)
    }

    /// Keeps a content for later programs of the client, which name it by the digest.
    pub fn keep(&self, digest: ContentDigest, bytes: &[u8]) {
        self.store.keep(self.client, digest, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_belong_to_one_client_and_leave_from_the_oldest() {
        let store = ContentStore::new(100);
        let (alice, bob) = ([1; 32], [2; 32]);
        let contents: Vec<Vec<u8>> = (0..6).map(|byte| vec![byte; 30]).collect();
        let digest = |at: usize| *blake3::hash(&contents[at]).as_bytes();
        let program = store.open(alice);
        for (at, content) in contents[..3].iter().enumerate() {
            program.keep(digest(at), content);
        }
        assert!(
            program.get(&digest(0)).is_none(),
            "a program names what was there before it"
        );
        let second = store.open(alice);
        assert_eq!(second.digests(1 << 20).len(), 3 * DIGEST_BYTES);
        assert_eq!(second.digests(DIGEST_BYTES + 1).len(), DIGEST_BYTES);
        assert_eq!(second.get(&digest(1)).unwrap()[..], contents[1][..]);
        assert!(store.open(bob).get(&digest(1)).is_none());
        // The fourth takes the place of the first; the running program still has it.
        second.keep(digest(3), &contents[3]);
        assert!(store.open(alice).get(&digest(0)).is_none());
        assert!(second.get(&digest(0)).is_some());
        // Another client takes the oldest of the first.
        store.open(bob).keep(digest(4), &contents[4]);
        assert!(
            store.open(bob).get(&digest(4)).is_none(),
            "it forgets its own content first"
        );
        assert_eq!(store.open(alice).digests(1 << 20).len(), 3 * DIGEST_BYTES);
        store.open(alice).keep([9; 32], &[0; 101]);
        assert_eq!(store.open(alice).digests(1 << 20).len(), 3 * DIGEST_BYTES);
    }
}
