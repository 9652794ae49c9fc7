//! A document's tuning: what is under way, and what came of the last one.

use crate::document::running_work::{RunningSlot, RunningWork};
use replay_engine::tune::TuneReport;
use std::sync::Arc;

/// State of the tuning of a document.
#[derive(Clone, Debug, Default)]
pub struct State {
    running: RunningSlot,
    /// What the last one came to, and the board.
    pub done: Option<(Arc<TuneReport>, String)>,
    /// Why the last one came to nothing, in words.
    pub failure: Option<String>,
}

impl State {
    /// What is under way.
    #[must_use]
    pub fn running(&self) -> Option<&RunningWork> {
        self.running.current()
    }

    /// Something is under way.
    pub fn begin(&mut self, work: RunningWork) {
        self.failure = None;
        self.running.begin(work);
    }

    /// It is over.
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
