//! The tuning state of a document: running work and last result.

use crate::document::running_work::{RunningSlot, RunningWork};
use replay_engine::tune::TuneReport;
use std::sync::Arc;

/// The tuning state of a document.
#[derive(Clone, Debug, Default)]
pub struct State {
    running: RunningSlot,
    /// Last result, with its target.
    pub done: Option<(Arc<TuneReport>, String)>,
    /// Why the last tuning failed.
    pub failure: Option<String>,
}

impl State {
    /// Returns the running work.
    #[must_use]
    pub fn running(&self) -> Option<&RunningWork> {
        self.running.current()
    }

    /// Starts a tuning.
    pub fn begin(&mut self, work: RunningWork) {
        self.failure = None;
        self.running.begin(work);
    }

    /// Ends the tuning and stores its result.
    pub fn end(&mut self, board: &str, ended: Result<TuneReport, String>) {
        self.running.end();
        match ended {
            Ok(tuned) => self.done = Some((Arc::new(tuned), board.to_owned())),
            Err(why) => self.failure = Some(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::progress::Progress;

    #[test]
    fn what_it_came_to_stays() {
        let mut state = State::default();
        let alive = RunningWork::new_token();
        state.begin(RunningWork::new("cuda:0", Progress::new(), &alive));
        assert!(state.running().is_some());
        drop(alive);
        assert!(state.running().is_none());
        state.end("cuda:0", Err("no device".into()));
        assert_eq!(state.failure.as_deref(), Some("no device"));
        state.end("cuda:0", Ok(TuneReport::default()));
        assert!(state.done.is_some());
    }
}
