//! Progress of each stream, as far as the host knows it from its waits.

use crate::handles::ByHandle;
use cuda_driver::STREAM_LEGACY;
use std::collections::{HashMap, HashSet};

/// Positions of streams: for each the number of its last completed work.
pub(crate) type StreamPositions = HashMap<u64, u64, ByHandle>;

/// The default stream of all threads.
const LEGACY: u64 = STREAM_LEGACY as u64;

/// Host functions in a stream: the numbers of the first and the last one, and their context.
#[derive(Clone, Copy, Debug)]
struct HostWork {
    first: u64,
    last: u64,
    context: usize,
}

/// Numbers of work in streams, and the positions of events.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Amount of work submitted to each stream.
    given: StreamPositions,
    /// Work that is done before a stream's next work starts.
    behind: HashMap<u64, StreamPositions, ByHandle>,
    /// Work that is done when an event is complete.
    events: HashMap<usize, StreamPositions, ByHandle>,
    /// Host functions that streams may not have completed yet.
    host: HashMap<u64, HostWork, ByHandle>,
    /// Streams that do not synchronize with the default stream.
    apart: HashSet<u64, ByHandle>,
}

fn join(to: &mut StreamPositions, from: &StreamPositions) {
    for (stream, n) in from {
        let at = to.entry(*stream).or_default();
        *at = (*at).max(*n);
    }
}

impl Progress {
    /// Adds a stream. `apart`: it and the default stream do not synchronize.
    pub fn add_stream(&mut self, stream: u64, apart: bool) {
        if apart {
            self.apart.insert(stream);
        } else {
            self.apart.remove(&stream);
        }
    }

    /// Adds the implicit dependencies of a stream's next work: the default stream and all streams that are not `apart`
    /// wait for each other.
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

    /// Adds work to a stream and returns its number.
    pub fn add_work(&mut self, stream: u64) -> u64 {
        self.imply(stream);
        let n = self.given.entry(stream).or_default();
        *n += 1;
        *n
    }

    /// Adds a host function to a stream.
    pub fn add_host_work(&mut self, stream: u64, context: usize) {
        let n = self.add_work(stream);
        let first = self.host.get(&stream).map_or(n, |h| h.first);
        let last = n;
        self.host.insert(stream, HostWork { first, last, context });
    }

    /// Returns the positions of a context's streams after their host functions, valid after a wait for it. Call it
    /// before the wait.
    pub fn host_positions(&self, context: usize) -> StreamPositions {
        let of = self.host.iter().filter(|(_, h)| h.context == context);
        of.map(|(stream, h)| (*stream, h.last)).collect()
    }

    /// Returns whether a stream's last work can wait for a host function that is not known to be done.
    pub fn is_behind_host(&self, stream: u64) -> bool {
        if self.host.is_empty() {
            return false;
        }
        let reached = self.of_stream(stream);
        self.host
            .iter()
            .any(|(s, h)| reached.get(s).is_some_and(|n| *n >= h.first))
    }

    /// Notes the positions that streams are known to have reached.
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

    /// Records an event after a stream's current work.
    pub fn record(&mut self, event: usize, stream: u64) {
        self.imply(stream);
        let reached = self.of_stream(stream);
        self.events.insert(event, reached);
    }

    /// Makes a stream wait for an event.
    pub fn wait(&mut self, stream: u64, event: usize) {
        if let Some(reached) = self.events.get(&event) {
            join(self.behind.entry(stream).or_default(), reached);
        }
    }

    /// Returns the completed work after a wait for a stream.
    pub fn stream_done(&mut self, stream: u64) -> StreamPositions {
        if stream == LEGACY {
            self.imply(stream);
        }
        let reached = self.of_stream(stream);
        self.mark_reached(&reached);
        reached
    }

    /// Returns the completed work after a wait for an event.
    pub fn event_done(&mut self, event: usize) -> StreamPositions {
        let reached = self.events.get(&event).cloned().unwrap_or_default();
        self.mark_reached(&reached);
        reached
    }

    /// Forgets the position of an event: it is new, or it is destroyed and its handle can be reused.
    pub fn forget_event(&mut self, event: usize) {
        self.events.remove(&event);
    }
}
