//! Work on a target that a document waits for: its progress, and whether it is still running.

use std::sync::{Arc, Weak};
use std::time::Instant;
use trace_core::progress::Progress;

/// A running task on a target.
#[derive(Clone, Debug)]
pub struct RunningWork {
    /// Progress of the task, also used to cancel it.
    pub progress: Progress,
    /// Start time.
    pub since: Instant,
    /// Name of the target.
    pub target: String,
    /// Expires when the task ends, for any reason.
    alive: Weak<()>,
}

impl RunningWork {
    /// Returns the token that a task holds while it runs.
    #[must_use]
    pub fn new_token() -> Arc<()> {
        Arc::new(())
    }

    /// Creates a task that starts now.
    #[must_use]
    pub fn new(target: &str, progress: Progress, alive: &Arc<()>) -> Self {
        Self {
            progress,
            since: Instant::now(),
            target: target.to_owned(),
            alive: Arc::downgrade(alive),
        }
    }

    /// Whether the task is still running.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.alive.upgrade().is_some()
    }
}

/// The slot for the single task that a document waits for.
#[derive(Clone, Debug, Default)]
pub struct RunningSlot(Option<RunningWork>);

impl RunningSlot {
    /// Returns the running task. A task that ended without a result does not count.
    #[must_use]
    pub fn current(&self) -> Option<&RunningWork> {
        self.0.as_ref().filter(|work| work.is_alive())
    }

    /// Stores a running task.
    pub fn begin(&mut self, work: RunningWork) {
        self.0 = Some(work);
    }

    /// Clears the slot.
    pub fn end(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_work_is_not_running() {
        let alive = RunningWork::new_token();
        let work = RunningWork::new("cuda:0", Progress::new(), &alive);
        assert!(work.is_alive());
        drop(alive);
        assert!(!work.is_alive());
    }
}
