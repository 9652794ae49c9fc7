//! Counts of the events of a growing recording, for the user.

use crate::text;
use trace_core::recording::{Column, Events, OrderKind, OrderRow, Recording};

/// The kind of trace whose events are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CountedTrace {
    /// Accesses to registers.
    #[default]
    Registers,
    /// Calls of a program to a driver.
    Calls,
    /// Requests to a kernel driver, and submissions.
    Requests,
}

/// Numbers of events by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// The kind of trace.
    pub trace: CountedTrace,
    /// All events.
    pub events: u64,
    /// Kernel launches.
    pub launches: u64,
    /// Copies.
    pub copies: u64,
    /// Waits: of the host, or of a stream for an event.
    pub waits: u64,
    /// Accesses to registers.
    pub accesses: u64,
    /// Recorded interrupts.
    pub interrupts: u64,
    /// Requests to a kernel driver.
    pub requests: u64,
    /// Submissions to a channel, or of jobs.
    pub submissions: u64,
}

/// Counts waits from the rows that were not counted yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WaitCounter {
    rows: usize,
    waits: u64,
}

impl WaitCounter {
    /// Returns the number of waits. The cost is that of the rows after those of the last call.
    fn count(&mut self, orders: &Column<OrderRow>) -> u64 {
        if orders.len() < self.rows {
            *self = Self::default();
        }
        let waits = |order: &OrderRow| {
            use OrderKind as K;
            let kind = OrderKind::from_raw(order.kind);
            matches!(
                kind,
                Some(K::StreamWaits | K::StreamDone | K::EventDone | K::ContextDone)
            )
        };
        self.waits += orders.iter_range(self.rows..orders.len()).filter(waits).count() as u64;
        self.rows = orders.len();
        self.waits
    }
}

impl EventCounts {
    /// Counts the events of a recording, at a cost that does not depend on the number of those counted before.
    pub(super) fn from_recording(recording: &Recording, waits: &mut WaitCounter) -> Self {
        let events: &Events = &recording.events;
        let trace = match (recording.api().is_some(), recording.driver_trace().is_some()) {
            (true, _) => CountedTrace::Calls,
            (false, true) => CountedTrace::Requests,
            (false, false) => CountedTrace::Registers,
        };
        Self {
            trace,
            events: events.len() as u64,
            launches: events.launches.len() as u64,
            copies: events.copies.len() as u64,
            waits: waits.count(&events.orders),
            accesses: events.value.len() as u64,
            interrupts: events.interrupts.len() as u64,
            requests: events.calls.len() as u64,
            submissions: (events.ring_entries.len() + events.submits.len()) as u64,
        }
    }

    /// Returns the counts as texts, the most important first: `1 284 calls`, `512 launches`.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        let count = |n, one, many| text::count_noun(n, one, many);
        match self.trace {
            CountedTrace::Calls => vec![
                count(self.events, "call", "calls"),
                count(self.launches, "launch", "launches"),
                count(self.copies, "copy", "copies"),
                count(self.waits, "wait", "waits"),
            ],
            CountedTrace::Requests => vec![
                count(self.events, "event", "events"),
                count(self.requests, "request", "requests"),
                count(self.submissions, "submission", "submissions"),
            ],
            CountedTrace::Registers => vec![
                count(self.events, "event", "events"),
                count(self.accesses, "access", "accesses"),
                count(self.interrupts, "interrupt", "interrupts"),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::recording::{ApiTraceMetadata, EventsBuilder, TraceKind};

    #[test]
    fn waits_are_counted_once() {
        let mut counter = WaitCounter::default();
        let mut recording = Recording::default();
        recording.metadata.kind = TraceKind::Api(ApiTraceMetadata::default());
        for n in 1..=3u64 {
            let mut events = EventsBuilder::new();
            for _ in 0..n {
                for kind in [OrderKind::Record, OrderKind::StreamDone] {
                    let kind = kind as u32;
                    events.order(
                        0,
                        0,
                        OrderRow {
                            kind,
                            ..OrderRow::default()
                        },
                    );
                }
            }
            recording.events = events.finish();
            let counts = EventCounts::from_recording(&recording, &mut counter);
            assert_eq!((counts.events, counts.waits), (2 * n, n));
            assert_eq!(counts.describe()[3], text::count_noun(n, "wait", "waits"));
        }
        let empty = EventCounts::from_recording(&Recording::default(), &mut counter);
        assert_eq!(
            (empty.events, empty.waits, empty.trace),
            (0, 0, CountedTrace::Registers)
        );
    }
}
