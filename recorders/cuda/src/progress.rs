//! How far each stream has come, as far as the host knows: which work is done when the host has waited for something.

use crate::recorder::ByHandle;
use std::collections::HashMap;

/// How far streams have come: for each the number of its last piece of work that is done.
pub(crate) type Reached = HashMap<u64, u64, ByHandle>;

/// Numbers of work in streams, and what events stand behind.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Pieces of work that each stream was given.
    given: Reached,
    /// What is done before the next piece of work of a stream begins.
    behind: HashMap<u64, Reached, ByHandle>,
    /// What is done when an event is.
    events: HashMap<usize, Reached, ByHandle>,
}

fn join(to: &mut Reached, from: &Reached) {
    for (stream, n) in from {
        let at = to.entry(*stream).or_default();
        *at = (*at).max(*n);
    }
}

impl Progress {
    /// A stream is given a piece of work: its number.
    pub fn work(&mut self, stream: u64) -> u64 {
        let n = self.given.entry(stream).or_default();
        *n += 1;
        *n
    }

    fn of_stream(&self, stream: u64) -> Reached {
        let mut reached = self.behind.get(&stream).cloned().unwrap_or_default();
        if let Some(n) = self.given.get(&stream) {
            reached.insert(stream, *n);
        }
        reached
    }

    /// An event is put behind what a stream has.
    pub fn record(&mut self, event: usize, stream: u64) {
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
    pub fn stream_done(&self, stream: u64) -> Reached {
        self.of_stream(stream)
    }

    /// What is done when the host has waited for an event.
    pub fn event_done(&self, event: usize) -> Reached {
        self.events.get(&event).cloned().unwrap_or_default()
    }
}
