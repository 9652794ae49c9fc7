//! Where an event lies on the timeline's axis: by order, by true time, or by time with the idle gaps pressed together.

pub use kinescope_files::place::AxisKind;

/// Times of events that never run backwards, with and without gaps. Positions are in nanoseconds, or in events.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// Nanoseconds since the first event, never falling.
    times: Vec<u64>,
    /// Gaps: event after which each comes, nanoseconds cut from it, nanoseconds cut before it.
    cuts: Vec<(u64, u64, u64)>,
}

/// A gap pressed together keeps this many nanoseconds.
const KEPT_NS: u64 = 200_000;

impl Axis {
    /// The axis of these event times; gaps of more than `gap_ns` can be pressed together.
    #[must_use]
    pub fn new(times: impl Iterator<Item = u64>, gap_ns: u64) -> Self {
        let mut out = Self::default();
        let (mut start, mut top, mut cut) = (None, 0u64, 0u64);
        for t in times {
            let s = *start.get_or_insert(t);
            let rel = t.saturating_sub(s).max(top);
            let gap = rel - top;
            if gap > gap_ns.max(KEPT_NS) && !out.times.is_empty() {
                let by = gap - KEPT_NS;
                out.cuts.push((out.times.len() as u64 - 1, by, cut));
                cut += by;
            }
            top = rel;
            out.times.push(rel);
        }
        out
    }

    /// Number of events.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.times.len() as u64
    }

    /// Whether there are no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Nanoseconds from the first event to this one, never falling.
    #[must_use]
    pub fn ns(&self, event: u64) -> u64 {
        let at = usize::try_from(event)
            .unwrap_or(usize::MAX)
            .min(self.times.len().saturating_sub(1));
        self.times.get(at).copied().unwrap_or(0)
    }

    fn cut_before(&self, event: u64) -> u64 {
        let n = self.cuts.partition_point(|c| c.0 < event);
        n.checked_sub(1).and_then(|i| self.cuts.get(i)).map_or(0, |c| c.1 + c.2)
    }

    /// Position of an event.
    #[must_use]
    pub fn position(&self, kind: AxisKind, event: u64) -> f64 {
        match kind {
            AxisKind::Order => event as f64,
            AxisKind::Time => self.ns(event) as f64,
            AxisKind::Compressed => self.ns(event).saturating_sub(self.cut_before(event)) as f64,
        }
    }

    /// The first event at or after a position; the number of events when there is none.
    #[must_use]
    pub fn event_at(&self, kind: AxisKind, position: f64) -> u64 {
        if kind == AxisKind::Order {
            return position.ceil().clamp(0.0, self.len() as f64) as u64;
        }
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let mid = low + (high - low) / 2;
            if self.position(kind, mid) < position {
                low = mid + 1
            } else {
                high = mid
            }
        }
        low
    }

    /// The event nearest to a position.
    #[must_use]
    pub fn nearest(&self, kind: AxisKind, position: f64) -> u64 {
        let at = self.event_at(kind, position).min(self.len().saturating_sub(1));
        let before = at.saturating_sub(1);
        let (a, b) = (self.position(kind, before), self.position(kind, at));
        if (position - a).abs() < (b - position).abs() {
            before
        } else {
            at
        }
    }

    /// Position one past the last event.
    #[must_use]
    pub fn end(&self, kind: AxisKind) -> f64 {
        match kind {
            AxisKind::Order => self.len().max(1) as f64,
            _ => (self.position(kind, self.len().saturating_sub(1)) * 1.001).max(1_000.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_events_agree_on_every_axis() {
        let times = [5_000u64, 5_100, 5_050, 9_000_000, 9_000_100, 60_000_000, 60_000_001];
        let axis = Axis::new(times.into_iter(), 1_000_000);
        for kind in AxisKind::ALL {
            let mut last = -1.0;
            for e in 0..axis.len() {
                let p = axis.position(kind, e);
                assert!(p >= last, "{kind:?} {e}");
                last = p;
                assert!(axis.position(kind, axis.event_at(kind, p)) == p);
                let near = axis.nearest(kind, p);
                assert_eq!(axis.position(kind, near), p);
            }
            assert_eq!(axis.event_at(kind, axis.end(kind) + 1e12), axis.len());
        }
        assert_eq!(axis.ns(2), 100, "time never falls");
        assert_eq!(
            axis.position(AxisKind::Compressed, 6) as u64,
            100 + 200_000 + 100 + 200_000 + 1
        );
    }
}
