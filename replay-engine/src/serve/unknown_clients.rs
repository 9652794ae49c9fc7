//! Connections of clients that are not authenticated yet: a limited number at a time, where new ones replace the
//! oldest.

use crate::wire::Stream;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The unauthenticated clients of a server.
#[derive(Debug)]
pub(crate) struct UnknownClients {
    max: usize,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    next: u64,
    /// By age.
    waiting: VecDeque<WaitingClient>,
    /// Number of waiting clients, and of replaced ones that are still closing.
    alive: usize,
}

#[derive(Debug)]
struct WaitingClient {
    id: u64,
    /// A handle to close the connection.
    stream: Stream,
    /// Whether the agent's preamble was sent: after that no plain text can be sent.
    greeted: bool,
}

impl UnknownClients {
    /// Creates the list with room for `max` clients (at least 1).
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max: max.max(1),
            list: Mutex::default(),
        })
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a new connection. If there is no room, the oldest unauthenticated client is dropped: a real client shows
    /// its key at once. Returns `None` if too many are still closing, or the connection is already gone.
    pub fn admit(self: &Arc<Self>, stream: &Stream) -> Option<UnknownClient> {
        let handle = stream.try_clone().ok()?;
        let mut list = self.list();
        if list.alive >= self.max.saturating_mul(2) {
            return None;
        }
        while list.waiting.len() >= self.max
            && let Some(oldest) = list.waiting.pop_front()
        {
            // A client without preamble can get the reason from its own thread, whose read ends now.
            if oldest.greeted {
                oldest.stream.close();
            } else {
                oldest.stream.close_reading();
            }
        }
        list.alive += 1;
        list.next += 1;
        let id = list.next;
        list.waiting.push_back(WaitingClient {
            id,
            stream: handle,
            greeted: false,
        });
        Some(UnknownClient {
            of: Arc::clone(self),
            id,
        })
    }

    /// Returns the number of waiting clients.
    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.list().waiting.len()
    }
}

/// A connection that counts as unauthenticated for the lifetime of this value.
#[derive(Debug)]
pub(crate) struct UnknownClient {
    of: Arc<UnknownClients>,
    id: u64,
}

impl UnknownClient {
    /// Notes that the agent's preamble is sent now. Returns `false` if the client was dropped and must get that message
    /// instead.
    pub fn greet(&self) -> bool {
        let mut list = self.of.list();
        let own = list.waiting.iter_mut().find(|w| w.id == self.id);
        own.map(|w| w.greeted = true).is_some()
    }
}

impl Drop for UnknownClient {
    fn drop(&mut self) {
        let mut list = self.of.list();
        list.alive = list.alive.saturating_sub(1);
        list.waiting.retain(|w| w.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn oldest_unpaired_connection_is_evicted_for_a_new_one() {
        let strangers = UnknownClients::new(2);
        let mut connections = Vec::new();
        for greeted in [true, false, false, false] {
            let (here, far_end) = UnixStream::pair().unwrap();
            let far_end = Stream::Unix(far_end);
            let stranger = strangers.admit(&far_end).unwrap();
            if greeted {
                assert!(stranger.greet());
            }
            connections.push((here, stranger, far_end));
        }
        assert_eq!(strangers.waiting(), 2);
        let (_, far_end) = UnixStream::pair().unwrap();
        assert!(
            strangers.admit(&Stream::Unix(far_end)).is_none(),
            "four clients are alive"
        );
        for (n, (here, stranger, far_end)) in connections.iter_mut().enumerate() {
            let Stream::Unix(far_end) = far_end else { panic!() };
            for end in [&*here, far_end] {
                end.set_nonblocking(true).unwrap();
            }
            // A greeted connection is closed. The thread of a connection without a greeting sends the message itself,
            // after its read has ended.
            assert_eq!(matches!(here.read(&mut [0; 1]), Ok(0)), n == 0, "stranger {n}");
            assert_eq!(matches!(far_end.read(&mut [0; 1]), Ok(0)), n < 2, "stranger {n}");
            assert_eq!(stranger.greet(), n >= 2, "stranger {n}");
        }
        connections.truncate(1);
        assert_eq!(strangers.waiting(), 0);
        let (_here, far_end) = UnixStream::pair().unwrap();
        let far_end = Stream::Unix(far_end);
        assert!(strangers.admit(&far_end).is_some());
    }
}
