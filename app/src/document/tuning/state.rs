//! A document's tuning: what is under way, and what came of the last one.

use replay_engine::tune::Tuned;
use std::sync::{Arc, Weak};
use std::time::Instant;
use trace_core::progress::Progress;

/// A tuning that is under way.
#[derive(Clone, Debug)]
pub struct Running {
    /// How far it is; cancels it too.
    pub progress: Progress,
    /// When it began.
    pub since: Instant,
    /// The board.
    pub board: String,
    /// Gone when the work is, however it ended.
    alive: Weak<()>,
}

/// State of the tuning of a document.
#[derive(Clone, Debug, Default)]
pub struct State {
    running: Option<Running>,
    /// What the last one came to, and the board.
    pub done: Option<(Arc<Tuned>, String)>,
    /// Why the last one came to nothing, in words.
    pub missed: Option<String>,
}

impl State {
    /// What is under way.
    #[must_use]
    pub fn running(&self) -> Option<&Running> {
        self.running.as_ref().filter(|r| r.alive.upgrade().is_some())
    }

    /// Begins: the work holds what is given back for as long as it goes on.
    #[must_use]
    pub fn alive() -> Arc<()> {
        Arc::new(())
    }

    /// Something is under way.
    pub fn begin(&mut self, board: &str, progress: Progress, alive: &Arc<()>) {
        self.missed = None;
        self.running = Some(Running {
            progress,
            since: Instant::now(),
            board: board.to_owned(),
            alive: Arc::downgrade(alive),
        });
    }

    /// It is over.
    pub fn end(&mut self, board: &str, ended: Result<Tuned, String>) {
        self.running = None;
        match ended {
            Ok(tuned) => self.done = Some((Arc::new(tuned), board.to_owned())),
            Err(why) => self.missed = Some(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_is_gone_is_not_under_way() {
        let mut state = State::default();
        let alive = State::alive();
        state.begin("cuda:0", Progress::new(), &alive);
        assert!(state.running().is_some());
        drop(alive);
        assert!(state.running().is_none());
        state.end("cuda:0", Err("no device".into()));
        assert_eq!(state.missed.as_deref(), Some("no device"));
        state.end("cuda:0", Ok(Tuned::default()));
        assert!(state.done.is_some());
    }
}
