//! Connections whose other end has not shown yet who it is: few at a time, the oldest make room for new ones.

use crate::wire::Stream;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The strangers of a server.
#[derive(Debug)]
pub(crate) struct Strangers {
    most: usize,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    next: u64,
    /// By age, with a handle to hang up.
    waiting: VecDeque<(u64, Stream)>,
    /// Those waiting, and those that were hung up on and are on their way out.
    alive: usize,
}

impl Strangers {
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

    /// Takes a new connection in. Where there is no room the oldest stranger is hung up on: a client takes moments to
    /// show its key, whoever is still a stranger after so many others came is none. `None`: too many are on their way
    /// out, or the connection is gone already.
    pub fn admit(self: &Arc<Self>, stream: &Stream) -> Option<Stranger> {
        let handle = stream.try_clone().ok()?;
        let mut list = self.list();
        if list.alive >= self.most.saturating_mul(2) {
            return None;
        }
        while list.waiting.len() >= self.most
            && let Some((_, oldest)) = list.waiting.pop_front()
        {
            oldest.close();
        }
        list.alive += 1;
        list.next += 1;
        let id = list.next;
        list.waiting.push_back((id, handle));
        Some(Stranger {
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
pub(crate) struct Stranger {
    of: Arc<Strangers>,
    id: u64,
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut list = self.of.list();
        list.alive = list.alive.saturating_sub(1);
        list.waiting.retain(|(id, _)| *id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_oldest_stranger_makes_room_and_leaving_makes_room_too() {
        let strangers = Strangers::new(2);
        let mut kept = Vec::new();
        for _ in 0..4 {
            let (here, there) = UnixStream::pair().unwrap();
            let there = Stream::Unix(there);
            kept.push((here, strangers.admit(&there).unwrap(), there));
        }
        assert_eq!(strangers.waiting(), 2);
        let (_, there) = UnixStream::pair().unwrap();
        assert!(strangers.admit(&Stream::Unix(there)).is_none(), "four are alive");
        for (n, (here, ..)) in kept.iter_mut().enumerate() {
            here.set_nonblocking(true).unwrap();
            let hung_up = matches!(here.read(&mut [0; 1]), Ok(0));
            assert_eq!(hung_up, n < 2, "stranger {n}");
        }
        kept.truncate(1);
        assert_eq!(strangers.waiting(), 0);
        let (_here, there) = UnixStream::pair().unwrap();
        let there = Stream::Unix(there);
        assert!(strangers.admit(&there).is_some());
    }
}
