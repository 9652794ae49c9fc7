//! Memory of the window that the program gave back and that work may still use: when each piece is free.

use crate::resolve::driver;
use cuda_driver::CuEvent;
use std::collections::BTreeMap;

/// When memory that the program gave back is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreeCondition {
    /// When the event is done, which is the recorder's own.
    Event(usize),
    /// When its context was waited for: no event could be put behind what uses it.
    Idle,
    /// When its context is gone: what uses it is of another one, of which nothing is known.
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct DeferredFree {
    until: FreeCondition,
    /// The context that the piece was taken in.
    context: usize,
    /// Tells it from a piece that leaves later at the same place.
    number: u64,
}

/// A piece that leaves: its first byte, and its number.
pub(crate) type DeferredFreeId = (u64, u64);

/// All pieces that leave, by their first bytes.
#[derive(Debug, Default)]
pub(crate) struct DeferredFrees {
    pieces: BTreeMap<u64, DeferredFree>,
    next: u64,
}

impl DeferredFrees {
    pub fn insert(&mut self, at: u64, until: FreeCondition, context: usize) {
        let number = self.next;
        self.next += 1;
        let left = DeferredFree { until, context, number };
        self.pieces.insert(at, left);
    }

    /// A piece is gone, with its event; `with_context`: that one is gone already.
    pub fn remove(&mut self, at: u64, with_context: bool) {
        if let Some(left) = self.pieces.remove(&at)
            && let FreeCondition::Event(event) = left.until
            && !with_context
        {
            // SAFETY: an event of the recorder's own.
            let _ = unsafe { driver().cuEventDestroy_v2(event as CuEvent) };
        }
    }

    pub fn contains(&self, at: u64) -> bool {
        self.pieces.contains_key(&at)
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Pieces that are free once a context was waited for. What leaves while it is waited for is not among them.
    pub fn list_idle(&self, context: usize) -> Vec<DeferredFreeId> {
        let idle = self
            .pieces
            .iter()
            .filter(|(_, left)| left.until == FreeCondition::Idle && left.context == context);
        idle.map(|(at, left)| (*at, left.number)).collect()
    }

    /// Whether one of these still leaves.
    pub fn is_pending(&self, (at, number): DeferredFreeId) -> bool {
        self.pieces.get(&at).is_some_and(|left| left.number == number)
    }

    /// Pieces whose events are done. Asking is not allowed while a graph is captured.
    pub fn list_done(&self) -> Vec<u64> {
        let done = self.pieces.iter().filter(|(_, left)| match left.until {
            // SAFETY: an event of the recorder's own.
            FreeCondition::Event(event) => unsafe { driver().cuEventQuery(event as CuEvent) }.is_ok(),
            FreeCondition::Idle | FreeCondition::Gone => false,
        });
        done.map(|(at, _)| *at).collect()
    }
}
