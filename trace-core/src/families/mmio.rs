//! Devices without jobs: register accesses and interrupts alone.

use super::family::Family;
use super::submit_tracker::SubmitTracker;
use super::work::{JobTracker, Mark, Phase, PhaseName, ScannedEvents, TrackedWork};
use crate::recording::Recording;
use crate::registers::RegisterMap;

/// The family. It has every recording that no other family has.
pub(super) struct Mmio;

impl Family for Mmio {
    fn name(&self) -> &'static str {
        "mmio"
    }

    fn has_recording(&self, _recording: &Recording, _map: Option<&RegisterMap>) -> bool {
        true
    }

    fn track_jobs<'a>(&self, scanned: ScannedEvents<'a>) -> Box<dyn JobTracker + 'a> {
        Box::new(MmioTracker {
            submits: SubmitTracker::default(),
            events: scanned.events.len() as u64,
        })
    }
}

/// Finds interrupts. Without jobs, everything is the phase of identification and set-up.
struct MmioTracker {
    submits: SubmitTracker,
    /// Number of events.
    events: u64,
}

impl JobTracker for MmioTracker {
    fn take(&mut self, mark: &Mark) {
        self.submits.take(mark);
    }

    fn finish(self: Box<Self>) -> TrackedWork {
        let boot = |last| Phase {
            name: PhaseName::Boot,
            first: 0,
            last,
        };
        TrackedWork {
            phases: self.events.checked_sub(1).map(boot).into_iter().collect(),
            ..self.submits.into_work()
        }
    }
}
