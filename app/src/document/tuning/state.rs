//! A document's tuning: what is under way, and what came of the last one.

use crate::document::under_way::{Awaited, UnderWay};
use replay_engine::tune::Tuned;
use std::sync::Arc;

/// State of the tuning of a document.
#[derive(Clone, Debug, Default)]
pub struct State {
    running: Awaited,
    /// What the last one came to, and the board.
    pub done: Option<(Arc<Tuned>, String)>,
    /// Why the last one came to nothing, in words.
    pub missed: Option<String>,
}

impl State {
    /// What is under way.
    #[must_use]
    pub fn running(&self) -> Option<&UnderWay> {
        self.running.now()
    }

    /// Something is under way.
    pub fn begin(&mut self, work: UnderWay) {
        self.missed = None;
        self.running.begin(work);
    }

    /// It is over.
    pub fn end(&mut self, board: &str, ended: Result<Tuned, String>) {
        self.running.end();
        match ended {
            Ok(tuned) => self.done = Some((Arc::new(tuned), board.to_owned())),
            Err(why) => self.missed = Some(why),
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
        let alive = UnderWay::alive();
        state.begin(UnderWay::new("cuda:0", Progress::new(), &alive));
        assert!(state.running().is_some());
        drop(alive);
        assert!(state.running().is_none());
        state.end("cuda:0", Err("no device".into()));
        assert_eq!(state.missed.as_deref(), Some("no device"));
        state.end("cuda:0", Ok(Tuned::default()));
        assert!(state.done.is_some());
    }
}
