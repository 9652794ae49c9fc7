//! Memory of the window that the program gave back and that work may still use: when each piece is free.

use crate::resolve::driver;
use cuda_driver::CuEvent;
use std::collections::BTreeMap;

/// When memory that the program gave back is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// When the event is done, which is the recorder's own.
    Event(usize),
    /// When its context was waited for: no event could be put behind what uses it.
    Idle,
    /// When its context is gone: what uses it is of another one, of which nothing is known.
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct Left {
    until: Until,
    /// The context that the piece was taken in.
    context: usize,
    /// Tells it from a piece that leaves later at the same place.
    number: u64,
}

/// A piece that leaves: its first byte, and its number.
pub(crate) type Leaver = (u64, u64);

/// All pieces that leave, by their first bytes.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    pieces: BTreeMap<u64, Left>,
    next: u64,
}

impl Leaving {
    pub fn put(&mut self, at: u64, until: Until, context: usize) {
        let number = self.next;
        self.next += 1;
        let left = Left { until, context, number };
        self.pieces.insert(at, left);
    }

    /// A piece is gone, with its event; `with_context`: that one is gone already.
    pub fn remove(&mut self, at: u64, with_context: bool) {
        if let Some(left) = self.pieces.remove(&at)
            && let Until::Event(event) = left.until
            && !with_context
        {
            // SAFETY: an event of the recorder's own.
            let _ = unsafe { driver().cuEventDestroy_v2(event as CuEvent) };
        }
    }

    pub fn holds(&self, at: u64) -> bool {
        self.pieces.contains_key(&at)
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Pieces that are free once a context was waited for. What leaves while it is waited for is not among them.
    pub fn idle_in(&self, context: usize) -> Vec<Leaver> {
        let idle = self
            .pieces
            .iter()
            .filter(|(_, left)| left.until == Until::Idle && left.context == context);
        idle.map(|(at, left)| (*at, left.number)).collect()
    }

    /// Whether one of these still leaves.
    pub fn is_one(&self, (at, number): Leaver) -> bool {
        self.pieces.get(&at).is_some_and(|left| left.number == number)
    }

    /// Pieces whose events are done. Asking is not allowed while a graph is captured.
    pub fn done(&self) -> Vec<u64> {
        let done = self.pieces.iter().filter(|(_, left)| match left.until {
            // SAFETY: an event of the recorder's own.
            Until::Event(event) => unsafe { driver().cuEventQuery(event as CuEvent) }.is_ok(),
            Until::Idle | Until::Gone => false,
        });
        done.map(|(at, _)| *at).collect()
    }
}
