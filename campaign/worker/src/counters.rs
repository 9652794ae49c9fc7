//! Counters of a worker, and their text for Prometheus.

use crate::connection::ConnectionState;
use kinescope_campaign::RunResult;
use replay_engine::metrics::MetricText;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Counters of one target.
#[derive(Clone, Debug, Default)]
struct TargetCounters {
    gpu: String,
    /// Number of results by verdict.
    verdicts: BTreeMap<&'static str, u64>,
    /// Time of runs, ms.
    busy_ms: u64,
    /// Number of runs that this worker or another one had started before.
    repeated: u64,
    /// Number of runs that went back to the queue.
    returned: u64,
    /// Whether the target can be used; `None` before it was opened.
    is_available: Option<bool>,
    is_running: bool,
}

/// Counters of a worker.
#[derive(Debug, Default)]
pub struct Counters {
    targets: Mutex<BTreeMap<String, TargetCounters>>,
    /// The connection to the broker.
    pub connection: Arc<ConnectionState>,
    /// Number of messages that were refused.
    pub refused_messages: AtomicU64,
    /// Number of errors of the broker.
    pub broker_errors: AtomicU64,
}

impl Counters {
    fn change(&self, target: &str, change: impl FnOnce(&mut TargetCounters)) {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        change(targets.entry(target.to_owned()).or_default());
    }

    /// Counts a result.
    pub fn count_result(&self, target: &str, result: &RunResult) {
        self.change(target, |of| {
            of.gpu.clone_from(&result.gpu);
            *of.verdicts.entry(result.verdict.name()).or_default() += 1;
            of.busy_ms = of
                .busy_ms
                .saturating_add(result.ended_ms.saturating_sub(result.started_ms));
            of.repeated += u64::from(result.is_repeated());
        });
    }

    /// Counts a run that went back to the queue.
    pub fn count_return(&self, target: &str) {
        self.change(target, |of| of.returned += 1);
    }

    /// Notes whether a target can be used.
    pub fn set_available(&self, target: &str, is_available: bool) {
        self.change(target, |of| of.is_available = Some(is_available));
    }

    /// Returns whether a target could not be used when it was opened last.
    #[must_use]
    pub fn is_declined(&self, target: &str) -> bool {
        let targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        targets.get(target).is_some_and(|of| of.is_available == Some(false))
    }

    /// Notes whether a target executes a run.
    pub fn set_running(&self, target: &str, is_running: bool) {
        self.change(target, |of| of.is_running = is_running);
    }

    /// Returns the metrics as text.
    #[must_use]
    pub fn render(&self) -> String {
        let targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut text = MetricText::default();
        let name = "kinescope_worker_runs_total";
        text.begin(name, "counter", "Results that were reported, by target and verdict.");
        for (target, of) in &targets {
            for (verdict, count) in &of.verdicts {
                let labels = [("target", target.as_str()), ("gpu", &of.gpu), ("verdict", verdict)];
                text.add(name, &labels, count);
            }
        }
        let mut each = |name: &str, kind: &str, help: &str, value: &dyn Fn(&TargetCounters) -> f64| {
            text.begin(name, kind, help);
            for (target, of) in &targets {
                text.add(name, &[("target", target)], value(of));
            }
        };
        each(
            "kinescope_worker_busy_seconds_total",
            "counter",
            "Time of runs with a result.",
            &|of| of.busy_ms as f64 / 1000.0,
        );
        each(
            "kinescope_worker_repeated_runs_total",
            "counter",
            "Results whose earlier attempt may have executed too.",
            &|of| of.repeated as f64,
        );
        each(
            "kinescope_worker_returned_runs_total",
            "counter",
            "Runs that went back to the queue without a result.",
            &|of| of.returned as f64,
        );
        each(
            "kinescope_worker_target_available",
            "gauge",
            "1 if the target can be used.",
            &|of| f64::from(u8::from(of.is_available == Some(true))),
        );
        each(
            "kinescope_worker_target_running",
            "gauge",
            "1 if the target executes a run.",
            &|of| f64::from(u8::from(of.is_running)),
        );
        let is_connected = u8::from(self.connection.is_connected());
        text.single(
            "kinescope_worker_connected",
            "gauge",
            "1 if the broker is connected.",
            is_connected,
        );
        text.single(
            "kinescope_worker_refused_messages_total",
            "counter",
            "Messages in the queue of runs that were refused.",
            self.refused_messages.load(Ordering::Relaxed),
        );
        text.single(
            "kinescope_worker_broker_errors_total",
            "counter",
            "Requests that the broker did not answer or refused.",
            self.broker_errors.load(Ordering::Relaxed),
        );
        text.into_text()
    }
}
