//! Counters of a server, and its metrics as text.

use super::slot::Slot;
use crate::metrics::MetricText;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start of the server.
#[derive(Debug, Default)]
pub(crate) struct ServeCounters {
    /// Leases of devices.
    pub leases: AtomicU64,
    /// Runs that ended with a result.
    pub runs: AtomicU64,
    /// Runs that were cancelled.
    pub cancelled: AtomicU64,
    /// Runs in which the device failed.
    pub failed: AtomicU64,
    /// Leases that ended for a request of higher priority.
    pub preemptions: AtomicU64,
    /// Time that such requests waited, nanoseconds.
    pub preemption_ns: AtomicU64,
    /// Time of runs, nanoseconds.
    pub busy_ns: AtomicU64,
}

impl ServeCounters {
    /// Raises a counter.
    pub fn raise(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the metrics of a server with these devices.
    pub fn render(&self, slots: &[Arc<Slot>]) -> String {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut text = MetricText::default();
        let leases = of(&self.leases);
        text.single("kinescope_agent_leases_total", "counter", "Leases of devices.", leases);
        let name = "kinescope_agent_runs_total";
        text.begin(name, "counter", "Runs by their end.");
        for (end, counter) in [
            ("done", &self.runs),
            ("cancelled", &self.cancelled),
            ("device-failed", &self.failed),
        ] {
            text.add(name, &[("end", end)], of(counter));
        }
        let seconds = format!("{:.6}", of(&self.busy_ns) as f64 / 1e9);
        let name = "kinescope_agent_busy_seconds_total";
        text.single(name, "counter", "Time of runs.", seconds);
        let preemptions = of(&self.preemptions);
        let name = "kinescope_agent_preemptions_total";
        text.single(
            name,
            "counter",
            "Leases that ended for a request of higher priority.",
            preemptions,
        );
        let seconds = format!("{:.6}", of(&self.preemption_ns) as f64 / 1e9);
        let name = "kinescope_agent_preemption_wait_seconds_total";
        text.single(
            name,
            "counter",
            "Time that requests of higher priority waited.",
            seconds,
        );
        let name = "kinescope_agent_device_state";
        text.begin(
            name,
            "gauge",
            "1 for the state that a device has: free, held, out-of-order.",
        );
        for slot in slots {
            let state = slot.describe();
            let current = match (&state.out_of_order, &state.holder) {
                (Some(_), _) => "out-of-order",
                (None, Some(_)) => "held",
                (None, None) => "free",
            };
            for known in ["free", "held", "out-of-order"] {
                let labels = [
                    ("device", state.info.name.as_str()),
                    ("gpu", state.info.gpu_name.as_str()),
                    ("state", known),
                ];
                text.add(name, &labels, u8::from(known == current));
            }
        }
        text.into_text()
    }
}
