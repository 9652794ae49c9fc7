//! Deferred frees: window memory that the program has freed but that pending work can still use.

use crate::driver::driver;
use cuda_driver::CuEvent;
use std::collections::BTreeMap;
use trace_core::GpuVa;

/// The condition under which memory that the program freed can be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreeCondition {
    /// The event, which is the recorder's own, is complete.
    Event(usize),
    /// The context was waited for: no event could be recorded after the work that uses the memory.
    Idle,
    /// The context is destroyed: the work that uses the memory is in another, unknown context.
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct DeferredFree {
    until: FreeCondition,
    /// The context of the allocation.
    context: usize,
    /// Distinguishes it from a later deferred free at the same address.
    number: u64,
}

/// A deferred free: its first address, and its number.
pub(crate) type DeferredFreeId = (GpuVa, u64);

/// All deferred frees, by their first addresses.
#[derive(Debug, Default)]
pub(super) struct DeferredFrees {
    pieces: BTreeMap<GpuVa, DeferredFree>,
    next: u64,
}

impl DeferredFrees {
    pub fn insert(&mut self, at: GpuVa, until: FreeCondition, context: usize) {
        let number = self.next;
        self.next += 1;
        let left = DeferredFree { until, context, number };
        self.pieces.insert(at, left);
    }

    /// Removes a deferred free with its event. `with_context`: the event was destroyed with its context.
    pub fn remove(&mut self, at: GpuVa, with_context: bool) {
        if let Some(left) = self.pieces.remove(&at)
            && let FreeCondition::Event(event) = left.until
            && !with_context
        {
            // SAFETY: the event is the recorder's own.
            let _ = unsafe { driver().cuEventDestroy_v2(event as CuEvent) };
        }
    }

    pub fn contains(&self, at: GpuVa) -> bool {
        self.pieces.contains_key(&at)
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the frees that complete with a wait for a context. Frees that are deferred during the wait are not among
    /// them.
    pub fn list_idle(&self, context: usize) -> Vec<DeferredFreeId> {
        let idle = self
            .pieces
            .iter()
            .filter(|(_, left)| left.until == FreeCondition::Idle && left.context == context);
        idle.map(|(at, left)| (*at, left.number)).collect()
    }

    /// Returns whether a free is still deferred.
    pub fn is_pending(&self, (at, number): DeferredFreeId) -> bool {
        self.pieces.get(&at).is_some_and(|left| left.number == number)
    }

    /// Returns the frees whose events are complete. The query is not allowed during graph capture.
    pub fn list_done(&self) -> Vec<GpuVa> {
        let done = self.pieces.iter().filter(|(_, left)| match left.until {
            // SAFETY: the event is the recorder's own.
            FreeCondition::Event(event) => unsafe { driver().cuEventQuery(event as CuEvent) }.is_ok(),
            FreeCondition::Idle | FreeCondition::Gone => false,
        });
        done.map(|(at, _)| *at).collect()
    }
}
