//! Connections of known clients: their number, in total and per key, and the ones to end because their key was removed.

use crate::wire::{PublicKey, Sender};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections of a server's known clients.
#[derive(Debug)]
pub(super) struct Sessions {
    max: usize,
    share: usize,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    next: u64,
    open: Vec<OpenSession>,
    /// Keys of sessions that found their own key removed, until `keep_only` counts them.
    ended: Vec<PublicKey>,
}

#[derive(Debug)]
struct OpenSession {
    id: u64,
    key: PublicKey,
    /// Whether the client is in the key store and can be removed. A client in this process is not.
    pinned: bool,
    forgotten: Arc<AtomicBool>,
    /// Used to end the connection if its session does not end by itself.
    sender: Sender,
}

/// The reason why a known client gets no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionLimit {
    /// The maximum number of connections is reached.
    Full,
    /// The maximum number of connections of one key is reached.
    Share,
}

/// A known client's place, for the lifetime of this value.
#[derive(Debug)]
pub(super) struct SessionSlot {
    of: Arc<Sessions>,
    id: u64,
    /// Whether the client's key is in the key store.
    pub pinned: bool,
    forgotten: Arc<AtomicBool>,
}

impl SessionSlot {
    /// Returns whether the client's key was removed meanwhile: the session has to end.
    pub fn is_forgotten(&self) -> bool {
        self.forgotten.load(Ordering::SeqCst)
    }

    /// Notes that the session itself found its client's key removed. `keep_only` counts it, even if the session has
    /// ended by then.
    pub fn note_forgotten(&self) {
        if !self.forgotten.swap(true, Ordering::SeqCst) {
            let mut list = self.of.list();
            let key = list.open.iter().find(|o| o.id == self.id).map(|o| o.key);
            list.ended.extend(key);
        }
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        self.of.list().open.retain(|o| o.id != self.id);
    }
}

impl Sessions {
    /// Creates the list with room for `max` connections, and for `share` per key.
    pub fn new(max: usize, share: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            share,
            list: Mutex::default(),
        })
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the maximum number of connections is reached.
    pub fn is_full(&self) -> bool {
        self.list().open.len() >= self.max
    }

    /// Gives a connection a place. One key never takes all of them: the share applies to pinned keys, and a client in
    /// this process may have any number of free places.
    pub fn enter(self: &Arc<Self>, key: PublicKey, sender: &Sender, pinned: bool) -> Result<SessionSlot, SessionLimit> {
        let mut list = self.list();
        if list.open.len() >= self.max {
            return Err(SessionLimit::Full);
        }
        if pinned && list.open.iter().filter(|o| o.pinned && o.key == key).count() >= self.share {
            return Err(SessionLimit::Share);
        }
        list.next += 1;
        let (id, forgotten) = (list.next, Arc::new(AtomicBool::new(false)));
        list.open.push(OpenSession {
            id,
            key,
            pinned,
            forgotten: Arc::clone(&forgotten),
            sender: sender.clone(),
        });
        Ok(SessionSlot {
            of: Arc::clone(self),
            id,
            pinned,
            forgotten,
        })
    }

    /// Ends the sessions of pinned keys that are not among `keys`. Returns the key of each session that this call
    /// ended, and of each that ended by itself since the last call.
    pub fn keep_only(&self, keys: &[PublicKey]) -> Vec<PublicKey> {
        let mut list = self.list();
        let mut ended = std::mem::take(&mut list.ended);
        let gone = list.open.iter().filter(|o| o.pinned && !keys.contains(&o.key));
        let new = gone.filter(|o| !o.forgotten.swap(true, Ordering::SeqCst));
        ended.extend(new.map(|o| o.key));
        ended
    }

    /// Ends the connections of sessions that were asked to end but still exist: a session may be blocked on a
    /// connection that accepts nothing more.
    pub fn close_all(&self) {
        let list = self.list();
        for open in list.open.iter().filter(|o| o.forgotten.load(Ordering::SeqCst)) {
            open.sender.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Channel, KeyPair, Limits, Stream, WireError};
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    /// Creates both ends of a connection, first the client's and then the agent's.
    fn connection(client: &KeyPair) -> (Channel, Channel) {
        let agent = KeyPair::generate().unwrap();
        let (here, far_end) = UnixStream::pair().unwrap();
        let by = Instant::now() + Duration::from_secs(10);
        let respond =
            std::thread::spawn(move || Channel::respond(Stream::Unix(far_end), &agent, &[], Limits::FromClient, by));
        let here = Channel::initiate::<WireError>(Stream::Unix(here), client, &[], Limits::FromAgent, by, |_| Ok(()));
        (here.unwrap(), respond.join().unwrap().unwrap())
    }

    #[test]
    fn session_limits_apply_per_key_and_in_total() {
        let keys = [(); 3].map(|()| KeyPair::generate().unwrap());
        let (_client, agent) = connection(&keys[0]);
        let sessions = Sessions::new(4, 2);
        let enter = |n: usize, pinned| sessions.enter(keys[n].public(), &agent.sender, pinned);
        let mut slots = vec![enter(0, true).unwrap(), enter(0, true).unwrap()];
        assert_eq!(enter(0, true).unwrap_err(), SessionLimit::Share);
        slots.push(enter(1, true).unwrap());
        // Clients in this process are limited only by the total.
        slots.push(enter(0, false).unwrap());
        assert!(sessions.is_full());
        assert_eq!(enter(2, true).unwrap_err(), SessionLimit::Full);
        slots.remove(0);
        assert!(!sessions.is_full());
        enter(0, true).unwrap();
    }

    #[test]
    fn sessions_of_removed_keys_are_notified_and_closed() {
        let keys = [(); 2].map(|()| KeyPair::generate().unwrap());
        let sessions = Sessions::new(8, 8);
        let mut ends: Vec<(Channel, Channel)> = keys.iter().map(connection).collect();
        let slots: Vec<SessionSlot> = keys
            .iter()
            .zip(&ends)
            .map(|(key, (_, agent))| sessions.enter(key.public(), &agent.sender, true).unwrap())
            .collect();
        let local = sessions.enter(keys[0].public(), &ends[1].1.sender, false).unwrap();
        assert_eq!(sessions.keep_only(&[keys[1].public()]), [keys[0].public()]);
        assert_eq!(
            sessions.keep_only(&[keys[1].public()]),
            [],
            "each session is counted once"
        );
        let describe = |p: &SessionSlot| p.is_forgotten();
        assert_eq!(
            (describe(&slots[0]), describe(&slots[1]), describe(&local)),
            (true, false, false)
        );
        sessions.close_all();
        assert!(matches!(ends[0].0.receiver.receive(), Err(WireError::Closed)));
        ends[1].0.receiver.set_silence(Duration::from_millis(200)).unwrap();
        assert!(
            matches!(ends[1].0.receiver.receive(), Err(WireError::Silent)),
            "the session of the other key stays open"
        );
    }

    /// A session looks up its key at each request. It may end before the agent checks the key store.
    #[test]
    fn ended_session_with_a_removed_key_is_counted() {
        let key = KeyPair::generate().unwrap();
        let sessions = Sessions::new(8, 8);
        let (_client, agent) = connection(&key);
        let enter = || sessions.enter(key.public(), &agent.sender, true).unwrap();
        let (by_itself, by_the_agent) = (enter(), enter());
        by_itself.note_forgotten();
        by_itself.note_forgotten();
        drop(by_itself);
        assert_eq!(sessions.keep_only(&[]), [key.public(), key.public()]);
        by_the_agent.note_forgotten();
        drop(by_the_agent);
        assert_eq!(sessions.keep_only(&[]), [], "each session is counted once");
    }
}
