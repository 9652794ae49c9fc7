//! Work on a board that a document waits for: how far it is, and whether it is still there.

use std::sync::{Arc, Weak};
use std::time::Instant;
use trace_core::progress::Progress;

/// Work that is under way.
#[derive(Clone, Debug)]
pub struct RunningWork {
    /// How far it is; cancels it too.
    pub progress: Progress,
    /// When it began.
    pub since: Instant,
    /// The board.
    pub board: String,
    /// Gone when the work is, however it ended.
    alive: Weak<()>,
}

impl RunningWork {
    /// What the work holds for as long as it goes on.
    #[must_use]
    pub fn new_token() -> Arc<()> {
        Arc::new(())
    }

    /// Work that began now.
    #[must_use]
    pub fn new(board: &str, progress: Progress, alive: &Arc<()>) -> Self {
        Self {
            progress,
            since: Instant::now(),
            board: board.to_owned(),
            alive: Arc::downgrade(alive),
        }
    }

    /// Whether it still goes on.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.alive.upgrade().is_some()
    }
}

/// What a document waits for, one at a time.
#[derive(Clone, Debug, Default)]
pub struct RunningSlot(Option<RunningWork>);

impl RunningSlot {
    /// What is under way now: work that ended without a word is not.
    #[must_use]
    pub fn current(&self) -> Option<&RunningWork> {
        self.0.as_ref().filter(|work| work.is_alive())
    }

    /// Something is waited for.
    pub fn begin(&mut self, work: RunningWork) {
        self.0 = Some(work);
    }

    /// It is over.
    pub fn end(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_is_gone_is_not_under_way() {
        let alive = RunningWork::new_token();
        let work = RunningWork::new("cuda:0", Progress::new(), &alive);
        assert!(work.is_alive());
        drop(alive);
        assert!(!work.is_alive());
    }
}
