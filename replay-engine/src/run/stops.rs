//! Stops of a run: events after which it may end, because a request of higher priority waits for the device.

use replay_core::Flow;
use std::sync::atomic::{AtomicBool, Ordering};

/// The events after which a run may stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunStops<'a> {
    /// Events of the recording after which no job runs, ascending.
    pub events: &'a [u32],
    /// Whether the run is to stop at the next of them.
    pub requested: &'a AtomicBool,
}

/// What a run is at, relative to its stops.
#[derive(Debug)]
pub(super) struct StopCursor<'a> {
    stops: RunStops<'a>,
    next: usize,
    /// The stop at which the run ended.
    pub stopped_at: Option<u32>,
}

impl<'a> StopCursor<'a> {
    pub fn new(stops: RunStops<'a>) -> Self {
        Self {
            stops,
            next: 0,
            stopped_at: None,
        }
    }

    /// Follows an action of the run. `starts_nothing`: it cannot have started a job, so that it may follow the stop.
    #[inline]
    pub fn follow(&mut self, event: u32, starts_nothing: bool) -> Flow {
        if self.stops.events.get(self.next).is_none_or(|stop| event < *stop) {
            return Flow::Continue;
        }
        self.reach(event, starts_nothing)
    }

    /// The run has reached the next stop.
    #[cold]
    fn reach(&mut self, event: u32, starts_nothing: bool) -> Flow {
        let mut reached = None;
        while let Some(stop) = self.stops.events.get(self.next).filter(|stop| **stop <= event) {
            reached = Some(*stop);
            self.next += 1;
        }
        // A write after the stop may have started the next job.
        let may_stop = reached.filter(|stop| starts_nothing || *stop == event);
        match may_stop {
            Some(stop) if self.stops.requested.load(Ordering::SeqCst) => {
                self.stopped_at = Some(stop);
                Flow::Stop
            }
            _ => Flow::Continue,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns where a run stops whose actions have these events and start nothing or something.
    fn stop_of(stops: &[u32], actions: &[(u32, bool)], requested_from: u32) -> Option<u32> {
        let requested = AtomicBool::new(false);
        let mut cursor = StopCursor::new(RunStops {
            events: stops,
            requested: &requested,
        });
        for (event, starts_nothing) in actions {
            requested.store(*event >= requested_from, Ordering::SeqCst);
            if cursor.follow(*event, *starts_nothing) == Flow::Stop {
                break;
            }
        }
        cursor.stopped_at
    }

    #[test]
    fn run_stops_at_the_next_stop_after_the_request() {
        let all: Vec<(u32, bool)> = (0..30).map(|event| (event, true)).collect();
        assert_eq!(stop_of(&[10, 20], &all, 0), Some(10));
        assert_eq!(stop_of(&[10, 20], &all, 10), Some(10));
        assert_eq!(stop_of(&[10, 20], &all, 11), Some(20));
        assert_eq!(stop_of(&[10, 20], &all, 21), None);
        assert_eq!(stop_of(&[], &all, 0), None);
    }

    #[test]
    fn run_does_not_stop_after_a_write_behind_the_stop() {
        // The stop has no action of its own: a read may follow it, a write may not.
        assert_eq!(stop_of(&[10, 20], &[(9, false), (11, true), (12, true)], 0), Some(10));
        assert_eq!(stop_of(&[10, 20], &[(9, false), (11, false), (12, true)], 0), None);
        assert_eq!(stop_of(&[10, 20], &[(9, false), (11, false), (20, false)], 0), Some(20));
        assert_eq!(stop_of(&[10, 11], &[(12, true)], 0), Some(11));
    }
}
