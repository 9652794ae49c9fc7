//! How far each stream has come, as far as the host knows: which work is done when the host has waited for something.

use crate::recorder::ByHandle;
use cuda_driver::STREAM_LEGACY;
use std::collections::{HashMap, HashSet};

/// How far streams have come: for each the number of its last piece of work that is done.
pub(crate) type StreamPositions = HashMap<u64, u64, ByHandle>;

/// The default stream of all threads.
const LEGACY: u64 = STREAM_LEGACY as u64;

/// Functions of the host in a stream: the numbers of the first and the last one, and the context that they were given in.
#[derive(Clone, Copy, Debug)]
struct HostWork {
    first: u64,
    last: u64,
    context: usize,
}

/// Numbers of work in streams, and what events stand behind.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Pieces of work that each stream was given.
    given: StreamPositions,
    /// What is done before the next piece of work of a stream begins.
    behind: HashMap<u64, StreamPositions, ByHandle>,
    /// What is done when an event is.
    events: HashMap<usize, StreamPositions, ByHandle>,
    /// Functions of the host that streams may not have done yet.
    host: HashMap<u64, HostWork, ByHandle>,
    /// Streams that the default stream does not wait for, and that do not wait for it.
    apart: HashSet<u64, ByHandle>,
}

fn join(to: &mut StreamPositions, from: &StreamPositions) {
    for (stream, n) in from {
        let at = to.entry(*stream).or_default();
        *at = (*at).max(*n);
    }
}

impl Progress {
    /// A stream was made; `apart`: it and the default stream do not wait for each other.
    pub fn add_stream(&mut self, stream: u64, apart: bool) {
        if apart {
            self.apart.insert(stream);
        } else {
            self.apart.remove(&stream);
        }
    }

    /// What a stream's next piece of work waits for without being told: the default stream waits for all that are not
    /// apart from it, and these wait for it.
    fn imply(&mut self, stream: u64) {
        let of = |reached: &StreamPositions, stream: u64| reached.get(&stream).copied().unwrap_or(0);
        if stream == LEGACY {
            let waited = self.behind.get(&LEGACY);
            let others = self
                .given
                .iter()
                .filter(|(s, n)| **s != LEGACY && !self.apart.contains(s) && waited.is_none_or(|w| of(w, **s) < **n));
            let others: Vec<u64> = others.map(|(s, _)| *s).collect();
            for other in others {
                let reached = self.of_stream(other);
                join(self.behind.entry(LEGACY).or_default(), &reached);
            }
        } else if !self.apart.contains(&stream)
            && let Some(given) = self.given.get(&LEGACY)
            && self.behind.get(&stream).is_none_or(|w| of(w, LEGACY) < *given)
        {
            let reached = self.of_stream(LEGACY);
            join(self.behind.entry(stream).or_default(), &reached);
        }
    }

    /// A stream is given a piece of work: its number.
    pub fn add_work(&mut self, stream: u64) -> u64 {
        self.imply(stream);
        let n = self.given.entry(stream).or_default();
        *n += 1;
        *n
    }

    /// A stream is given a function of the host to call.
    pub fn add_host_work(&mut self, stream: u64, context: usize) {
        let n = self.add_work(stream);
        let first = self.host.get(&stream).map_or(n, |h| h.first);
        let last = n;
        self.host.insert(stream, HostWork { first, last, context });
    }

    /// How far streams of a context have come with functions of the host once it was waited for. Asked before the wait.
    pub fn host_positions(&self, context: usize) -> StreamPositions {
        let of = self.host.iter().filter(|(_, h)| h.context == context);
        of.map(|(stream, h)| (*stream, h.last)).collect()
    }

    /// Whether a stream's last piece of work may wait for a function of the host that is not known to be done.
    pub fn is_behind_host(&self, stream: u64) -> bool {
        if self.host.is_empty() {
            return false;
        }
        let reached = self.of_stream(stream);
        self.host
            .iter()
            .any(|(s, h)| reached.get(s).is_some_and(|n| *n >= h.first))
    }

    /// The host knows how far streams have come.
    pub fn mark_reached(&mut self, reached: &StreamPositions) {
        self.host.retain(|stream, h| {
            let done = reached.get(stream).copied().unwrap_or(0);
            h.first = h.first.max(done.saturating_add(1));
            h.first <= h.last
        });
    }

    fn of_stream(&self, stream: u64) -> StreamPositions {
        let mut reached = self.behind.get(&stream).cloned().unwrap_or_default();
        if let Some(n) = self.given.get(&stream) {
            reached.insert(stream, *n);
        }
        reached
    }

    /// An event is put behind what a stream has.
    pub fn record(&mut self, event: usize, stream: u64) {
        self.imply(stream);
        let reached = self.of_stream(stream);
        self.events.insert(event, reached);
    }

    /// A stream waits for an event.
    pub fn wait(&mut self, stream: u64, event: usize) {
        if let Some(reached) = self.events.get(&event) {
            join(self.behind.entry(stream).or_default(), reached);
        }
    }

    /// What is done when the host has waited for a stream.
    pub fn stream_done(&mut self, stream: u64) -> StreamPositions {
        if stream == LEGACY {
            self.imply(stream);
        }
        let reached = self.of_stream(stream);
        self.mark_reached(&reached);
        reached
    }

    /// What is done when the host has waited for an event.
    pub fn event_done(&mut self, event: usize) -> StreamPositions {
        let reached = self.events.get(&event).cloned().unwrap_or_default();
        self.mark_reached(&reached);
        reached
    }

    /// An event stands behind nothing: it was made, or it is no more and another one may come to have its handle.
    pub fn forget_event(&mut self, event: usize) {
        self.events.remove(&event);
    }
}
