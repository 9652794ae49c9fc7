//! What a worker has of a target: labels, queues, runs that were received, and reports on their way.

use crate::arrivals::Arrivals;
use crate::target_queues::TargetQueues;
use kinescope_campaign::Labels;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

/// Longest run after which runs are received while a run is executed. Other workers could have them meanwhile.
const AHEAD_RUN_LIMIT: Duration = Duration::from_millis(500);
/// Time of the runs that are received ahead.
const AHEAD_TIME: Duration = Duration::from_millis(100);
/// Maximum number of runs that are received ahead.
const MAX_AHEAD: u64 = 16;
/// Maximum number of reports on their way. The target waits then: results do not pile up.
const MAX_REPORTS: usize = 16;

/// A target of a worker.
pub struct TargetState {
    /// Its labels; `None` before it was open for the first time.
    labels: Mutex<Option<Labels>>,
    /// Its queues.
    pub queues: tokio::sync::Mutex<TargetQueues>,
    /// Runs that were received and not taken yet.
    pub arrivals: Arc<Arrivals>,
    /// Whether a task receives runs.
    pub is_receiving: AtomicBool,
    /// Reports that are sent while the next runs are executed.
    reports: tokio::sync::Mutex<JoinSet<()>>,
    /// Duration of the last run, ms; 0 before it.
    last_ms: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TargetState {
    /// Creates the state of a target that was never open.
    #[must_use]
    pub fn new(arrivals: Arrivals) -> Self {
        Self {
            labels: Mutex::default(),
            queues: tokio::sync::Mutex::default(),
            arrivals: Arc::new(arrivals),
            is_receiving: AtomicBool::new(false),
            reports: tokio::sync::Mutex::default(),
            last_ms: AtomicU64::new(0),
        }
    }

    /// Returns the labels; `None` before the target was open for the first time.
    pub fn labels(&self) -> Option<Labels> {
        lock(&self.labels).clone()
    }

    /// Replaces the labels.
    pub fn set_labels(&self, labels: Labels) {
        *lock(&self.labels) = Some(labels);
    }

    /// Notes the duration of a run, which decides how many runs are received ahead.
    pub fn note_duration(&self, ms: u64) {
        self.last_ms.store(ms.max(1), Ordering::Relaxed);
    }

    /// Returns the number of runs that are received ahead in one request, from 1.
    fn request_size(&self) -> usize {
        let last = self.last_ms.load(Ordering::Relaxed);
        let count = match last {
            0 => 1,
            last => u64::try_from(AHEAD_TIME.as_millis()).unwrap_or(1) / last,
        };
        usize::try_from(count.clamp(1, MAX_AHEAD)).unwrap_or(1)
    }

    /// Returns how many runs to receive ahead now; 0 for none.
    pub fn ahead_size(&self) -> usize {
        let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
        if last.is_zero() || last > AHEAD_RUN_LIMIT {
            return 0;
        }
        let (size, received) = (self.request_size(), self.arrivals.len());
        match received > size / 2 {
            true => 0,
            false => size.saturating_sub(received),
        }
    }

    /// Returns the runs that were received ahead to the queue, for the next worker after `delay`.
    pub async fn give_back_received(&self, delay: Option<Duration>) {
        while let Some(message) = self.arrivals.pop() {
            message.give_back(delay).await;
        }
    }

    /// Sends a report while the target executes its next runs. Waits if too many are on their way.
    pub async fn send_report(&self, report: impl Future<Output = ()> + Send + 'static) {
        let mut reports = self.reports.lock().await;
        while reports.try_join_next().is_some() {}
        while reports.len() >= MAX_REPORTS && reports.join_next().await.is_some() {}
        reports.spawn(report);
    }

    /// Waits until all reports are sent.
    pub async fn wait_for_reports(&self) {
        let mut reports = self.reports.lock().await;
        while let Some(ended) = reports.join_next().await {
            if let Err(e) = ended {
                tracing::error!("a report ended by a program error: {e}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held_list::HeldList;

    #[test]
    fn short_runs_are_received_ahead() {
        let folder = tempfile::tempdir().unwrap();
        let (held, _) = HeldList::open(folder.path(), "nats://a", Duration::ZERO).unwrap();
        let target = TargetState::new(Arrivals::new(Arc::new(held), Duration::ZERO));
        assert_eq!((target.request_size(), target.ahead_size()), (1, 0));
        for (ms, request, ahead) in [
            (0, 16, 16),
            (5, 16, 16),
            (20, 5, 5),
            (100, 1, 1),
            (500, 1, 1),
            (501, 1, 0),
        ] {
            target.note_duration(ms);
            assert_eq!((target.request_size(), target.ahead_size()), (request, ahead), "{ms}");
        }
    }
}
