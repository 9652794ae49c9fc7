//! Positions on the timeline axis and the time of each position.

pub use trace_core::timeline::{Axis, AxisKind};

/// Returns whether events have times: whether any of them is later than the first.
#[must_use]
pub fn has_times(axis: &Axis) -> bool {
    axis.ns(axis.len().saturating_sub(1)) > 0
}

/// Returns the nanoseconds from the first event to a position. On the axis by order, a position has the time of its
/// event. Within a collapsed idle gap, time passes evenly.
#[must_use]
pub fn time_at(axis: &Axis, kind: AxisKind, position: f64) -> f64 {
    let position = position.max(0.0);
    match kind {
        AxisKind::Time => position,
        AxisKind::Order => axis.ns(position as u64) as f64,
        AxisKind::Compressed => {
            let next = axis.event_at(kind, position);
            let Some(before) = next.checked_sub(1) else {
                return 0.0;
            };
            let (from, since) = (axis.position(kind, before), axis.ns(before) as f64);
            if next >= axis.len() {
                return since + (position - from).max(0.0);
            }
            let (to, until) = (axis.position(kind, next), axis.ns(next) as f64);
            let part = (position - from) / (to - from).max(f64::MIN_POSITIVE);
            since + (until - since) * part.clamp(0.0, 1.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_has_a_time_on_every_axis() {
        let axis = Axis::new(vec![7_000u64, 7_000, 8_000, 60_008_000, 60_009_000].into());
        assert!(has_times(&axis));
        for kind in AxisKind::ALL {
            for e in 0..axis.len() {
                let at = axis.position(kind, e);
                assert_eq!(time_at(&axis, kind, at), axis.ns(e) as f64, "{kind:?} {e}");
            }
        }
        let position = |event| axis.position(AxisKind::Compressed, event);
        let middle = (position(2) + position(3)) / 2.0;
        assert_eq!(time_at(&axis, AxisKind::Compressed, middle), 30_001_000.0);
        assert_eq!(time_at(&axis, AxisKind::Time, 500.0), 500.0);
        assert!(!has_times(&Axis::new(vec![5u64; 300].into())));
        assert!(!has_times(&Axis::default()));
    }
}
