//! Device order: which work of one stream waits for work of another.
//!
//! Within a stream, work runs in the order of its calls. Between streams, only recorded synchronization orders it.

use crate::recording::{ApiTraceMetadata, OrderKind, OrderRow};
use std::collections::HashMap;

/// Stream flag: the stream does not wait for the default stream.
const NON_BLOCKING: u32 = 1;

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
    /// Events at which the host waited for all work: everything later runs after everything earlier.
    waits: Vec<u64>,
    /// Events at which the host waited for a stream, with that stream, in event order.
    done: Vec<(u64, u32, u64)>,
    /// Whether each stream synchronizes with the default stream.
    blocking: Vec<bool>,
}

impl Order {
    /// Returns the edges between streams, in the order of the events that wait.
    #[must_use]
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// Returns the edges whose waiting event is in a range.
    #[must_use]
    pub fn edges_in(&self, events: std::ops::Range<u64>) -> &[Edge] {
        let at = |event: u64| self.edges.partition_point(|e| e.to < event);
        self.edges.get(at(events.start)..at(events.end)).unwrap_or_default()
    }

    /// Returns whether two streams synchronize implicitly: one is the default stream and the other is a blocking
    /// stream.
    fn has_implicit_sync(&self, a: u32, b: u32) -> bool {
        let blocks = |s: u32| self.blocking.get(s as usize).copied().unwrap_or(true);
        a == b || (a == 0 && blocks(b)) || (b == 0 && blocks(a))
    }

    /// Returns whether the device executes event `a` before event `b`, as far as the recording shows. Each argument
    /// is an event with its stream. Cost is proportional to the number of edges between the two events.
    #[must_use]
    pub fn is_before(&self, a: (u64, u32), b: (u64, u32)) -> bool {
        if a.0 >= b.0 {
            return false;
        }
        if self.has_implicit_sync(a.1, b.1) || self.host_waited(a, b.0) {
            return true;
        }
        // The latest event of each stream that is known to be done before `b`; edges only lead back.
        let mut reached: Vec<(u64, u32)> = vec![b];
        for e in self.edges_in(a.0..b.0.saturating_add(1)).iter().rev() {
            let waits = reached
                .iter()
                .any(|(event, stream)| e.to <= *event && self.has_implicit_sync(e.to_stream, *stream));
            if !waits || e.from < a.0 {
                continue;
            }
            if self.has_implicit_sync(a.1, e.from_stream) || self.host_waited(a, e.from) {
                return true;
            }
            match reached.iter_mut().find(|r| r.1 == e.from_stream) {
                Some(r) => r.0 = r.0.max(e.from),
                None => reached.push((e.from, e.from_stream)),
            }
        }
        false
    }

    /// Returns whether the host waited for `a` before it reached an event.
    fn host_waited(&self, a: (u64, u32), before: u64) -> bool {
        let n = self.waits.partition_point(|w| *w <= a.0);
        if self.waits.get(n).is_some_and(|w| *w < before) {
            return true;
        }
        let from = self.done.partition_point(|d| d.0 <= a.0);
        let to = self.done.partition_point(|d| d.0 < before);
        let between = self.done.get(from..to).unwrap_or_default();
        between
            .iter()
            .any(|(_, stream, upto)| *upto >= a.0 && self.has_implicit_sync(a.1, *stream))
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
    pub fn new(metadata: &ApiTraceMetadata) -> Self {
        let mut builder = Self::default();
        builder.order.blocking = metadata.streams.iter().map(|s| s.flags & NON_BLOCKING == 0).collect();
        builder
    }

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
            Some(OrderKind::StreamDone) => self.order.done.push((event, row.stream, event)),
            Some(OrderKind::EventDone) => {
                if let Some((at, stream)) = self.recorded.get(&row.event).copied() {
                    self.order.done.push((event, stream, at));
                }
            }
            Some(OrderKind::ContextDone) => self.order.waits.push(event),
            Some(OrderKind::HostFunction) | None => {}
        }
    }

    pub fn finish(self) -> Order {
        self.order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::CallStream;

    fn order(kind: OrderKind, stream: u32, event: u32) -> OrderRow {
        OrderRow {
            kind: kind as u32,
            stream,
            event,
            ..Default::default()
        }
    }

    #[test]
    fn streams_are_ordered_only_by_recorded_waits() {
        let stream = |flags| CallStream {
            flags,
            ..Default::default()
        };
        let metadata = ApiTraceMetadata {
            streams: vec![stream(0), stream(1), stream(1), stream(1)],
            ..Default::default()
        };
        let mut b = OrderBuilder::new(&metadata);
        // 10: work in 1; 11: event 5 after it; 12: 2 waits; 13: work in 2; 14: event 6; 15: 3 waits; 16: work in 3.
        b.take(11, &order(OrderKind::Record, 1, 5));
        b.take(12, &order(OrderKind::StreamWaits, 2, 5));
        b.take(14, &order(OrderKind::Record, 2, 6));
        b.take(15, &order(OrderKind::StreamWaits, 3, 6));
        // A wait for an event that was never recorded has no effect on the order.
        b.take(16, &order(OrderKind::StreamWaits, 1, 9));
        b.take(30, &order(OrderKind::StreamDone, 3, OrderRow::NONE));
        b.take(40, &order(OrderKind::ContextDone, OrderRow::NONE, OrderRow::NONE));
        let o = b.finish();
        assert_eq!(o.edges().len(), 2);
        assert_eq!(o.edges_in(13..16).len(), 1);
        assert!(o.is_before((10, 1), (13, 2)));
        assert!(o.is_before((10, 1), (17, 3)), "the order follows from two waits");
        assert!(!o.is_before((11, 2), (11, 3)));
        assert!(
            !o.is_before((13, 1), (17, 2)),
            "work after the recorded event is not ordered"
        );
        assert!(!o.is_before((10, 2), (11, 1)) && !o.is_before((13, 2), (10, 1)));
        assert!(o.is_before((16, 3), (31, 1)), "the host waits for stream 3");
        assert!(!o.is_before((16, 1), (31, 2)));
        assert!(o.is_before((16, 1), (41, 2)), "the host waits for all streams");
        // The default stream and a stream without flags wait for each other.
        let metadata = ApiTraceMetadata {
            streams: vec![stream(0), stream(0), stream(1)],
            ..Default::default()
        };
        let o = OrderBuilder::new(&metadata).finish();
        assert!(o.is_before((1, 0), (2, 1)) && o.is_before((1, 1), (2, 0)));
        assert!(!o.is_before((1, 0), (2, 2)));
    }
}
