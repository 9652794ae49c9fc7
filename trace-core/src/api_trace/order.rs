//! Device order: which work of one stream waits for work of another.
//!
//! Within a stream, work runs in the order of its calls. Between streams, only recorded synchronization orders it.

use crate::recording::{OrderKind, OrderRow};
use std::collections::HashMap;

/// A dependency: work of one stream waits for work of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The recorded event that is waited for: all work of `from_stream` before it must complete.
    pub from: u64,
    /// The stream that is waited for.
    pub from_stream: u32,
    /// The event from which work waits.
    pub to: u64,
    /// The stream that waits.
    pub to_stream: u32,
}

/// The order between streams.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// Edges, sorted by the event that waits.
    edges: Vec<Edge>,
}

impl Order {
    /// Returns the edges whose waiting event is in a range.
    #[must_use]
    pub fn edges_in(&self, events: std::ops::Range<u64>) -> &[Edge] {
        let at = |event: u64| self.edges.partition_point(|e| e.to < event);
        self.edges.get(at(events.start)..at(events.end)).unwrap_or_default()
    }
}

/// Builds an [`Order`] from the calls of a recording.
#[derive(Debug, Default)]
pub(super) struct OrderBuilder {
    order: Order,
    /// Where each event was recorded last.
    recorded: HashMap<u32, (u64, u32)>,
}

impl OrderBuilder {
    pub fn take(&mut self, event: u64, row: &OrderRow) {
        match OrderKind::from_raw(row.kind) {
            Some(OrderKind::Record) => {
                self.recorded.insert(row.event, (event, row.stream));
            }
            Some(OrderKind::StreamWaits) => {
                if let Some((from, from_stream)) = self.recorded.get(&row.event).copied()
                    && from_stream != row.stream
                {
                    self.order.edges.push(Edge {
                        from,
                        from_stream,
                        to: event,
                        to_stream: row.stream,
                    });
                }
            }
            _ => {}
        }
    }

    pub fn finish(self) -> Order {
        self.order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_ordered_only_by_recorded_waits() {
        let mut b = OrderBuilder::default();
        let mut take = |at: u64, kind: OrderKind, stream: u32, event: u32| {
            b.take(
                at,
                &OrderRow {
                    kind: kind as u32,
                    stream,
                    event,
                    ..Default::default()
                },
            );
        };
        // 11: event 5 after work in 1; 12: 2 waits; 14: event 6 after work in 2; 15: 3 waits.
        take(11, OrderKind::Record, 1, 5);
        take(12, OrderKind::StreamWaits, 2, 5);
        take(14, OrderKind::Record, 2, 6);
        take(15, OrderKind::StreamWaits, 3, 6);
        // A wait for an event that was never recorded has no effect on the order, nor has one within a stream.
        take(16, OrderKind::StreamWaits, 1, 9);
        take(17, OrderKind::StreamWaits, 2, 6);
        take(30, OrderKind::StreamDone, 3, OrderRow::NONE);
        let o = b.finish();
        let edge = |from, from_stream, to, to_stream| Edge {
            from,
            from_stream,
            to,
            to_stream,
        };
        assert_eq!(o.edges_in(0..40), [edge(11, 1, 12, 2), edge(14, 2, 15, 3)]);
        assert_eq!(o.edges_in(13..16), [edge(14, 2, 15, 3)]);
    }
}
