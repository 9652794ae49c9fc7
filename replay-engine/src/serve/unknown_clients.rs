//! Connections whose other end has not shown yet who it is: few at a time, the oldest make room for new ones.

use crate::wire::Stream;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The strangers of a server.
#[derive(Debug)]
pub(crate) struct UnknownClients {
    most: usize,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    next: u64,
    /// By age.
    waiting: VecDeque<WaitingClient>,
    /// Those waiting, and those that had to make room and are on their way out.
    alive: usize,
}

#[derive(Debug)]
struct WaitingClient {
    id: u64,
    /// A handle to hang up.
    stream: Stream,
    /// Whether the agent's preamble was sent: no word can be said in clear any more.
    greeted: bool,
}

impl UnknownClients {
    /// Room for `most` (at least 1).
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most: most.max(1),
            list: Mutex::default(),
        })
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a new connection in. Where there is no room the oldest stranger has to go: a client takes moments to
    /// show its key, whoever is still a stranger after so many others came is none. `None`: too many are on their way
    /// out, or the connection is gone already.
    pub fn admit(self: &Arc<Self>, stream: &Stream) -> Option<UnknownClient> {
        let handle = stream.try_clone().ok()?;
        let mut list = self.list();
        if list.alive >= self.most.saturating_mul(2) {
            return None;
        }
        while list.waiting.len() >= self.most
            && let Some(oldest) = list.waiting.pop_front()
        {
            // One that has heard nothing yet can be told why, by its own thread, whose read ends now.
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

    /// Strangers that wait.
    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.list().waiting.len()
    }
}

/// A connection counted as a stranger's for as long as this lives.
#[derive(Debug)]
pub(crate) struct UnknownClient {
    of: Arc<UnknownClients>,
    id: u64,
}

impl UnknownClient {
    /// The agent's preamble is sent now. `false`: the stranger had to make room, and is to be told that instead.
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
    fn the_oldest_stranger_makes_room_and_leaving_makes_room_too() {
        let strangers = UnknownClients::new(2);
        let mut kept = Vec::new();
        for greeted in [true, false, false, false] {
            let (here, there) = UnixStream::pair().unwrap();
            let there = Stream::Unix(there);
            let stranger = strangers.admit(&there).unwrap();
            if greeted {
                assert!(stranger.greet());
            }
            kept.push((here, stranger, there));
        }
        assert_eq!(strangers.waiting(), 2);
        let (_, there) = UnixStream::pair().unwrap();
        assert!(strangers.admit(&Stream::Unix(there)).is_none(), "four are alive");
        for (n, (here, stranger, there)) in kept.iter_mut().enumerate() {
            let Stream::Unix(there) = there else { panic!() };
            for end in [&*here, there] {
                end.set_nonblocking(true).unwrap();
            }
            // One that was greeted is hung up on; one that was not hears from its own thread, whose read has ended.
            assert_eq!(matches!(here.read(&mut [0; 1]), Ok(0)), n == 0, "stranger {n}");
            assert_eq!(matches!(there.read(&mut [0; 1]), Ok(0)), n < 2, "stranger {n}");
            assert_eq!(stranger.greet(), n >= 2, "stranger {n}");
        }
        kept.truncate(1);
        assert_eq!(strangers.waiting(), 0);
        let (_here, there) = UnixStream::pair().unwrap();
        let there = Stream::Unix(there);
        assert!(strangers.admit(&there).is_some());
    }
}
