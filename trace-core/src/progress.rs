//! Progress and cancel: how long work reports how far it is and learns that nobody wants it any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shared between the thread that works and the one that watches. Cloning it gives another handle on the same work.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    done: AtomicU64,
    total: AtomicU64,
    cancelled: AtomicBool,
    /// The worker ended by an error of the program, and will report nothing.
    lost: AtomicBool,
    /// The worker ended, in whichever way.
    over: AtomicBool,
    /// What a packed file may unpack to; 0 when nobody said.
    unpack_limit: AtomicU64,
}

/// The person asked for the work to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cancelled")]
pub struct Cancelled;

impl Progress {
    /// Whether both are handles on the same work.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Progress that nobody watches.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what a packed file that the work reads may unpack to, in bytes, and what a recording made of it may take in
    /// memory.
    pub fn limit_unpacked(&self, bytes: u64) {
        self.state.unpack_limit.store(bytes, Ordering::Relaxed);
    }

    /// Returns what a packed file that the work reads may unpack to, in bytes.
    #[must_use]
    pub fn unpack_limit(&self) -> u64 {
        match self.state.unpack_limit.load(Ordering::Relaxed) {
            0 => crate::import::MAX_UNPACKED_BYTES,
            bytes => bytes,
        }
    }

    /// Says how much work there is, in any unit that [`Progress::advance`] uses too. Work of several steps says it
    /// once a step, and each begins at nothing done.
    pub fn set_total(&self, total: u64) {
        self.state.done.store(0, Ordering::Relaxed);
        self.state.total.store(total, Ordering::Relaxed);
    }

    /// Adds to the work done.
    ///
    /// # Errors
    /// [`Cancelled`] when [`Progress::cancel`] was called.
    pub fn advance(&self, by: u64) -> Result<(), Cancelled> {
        self.state.done.fetch_add(by, Ordering::Relaxed);
        self.check()
    }

    /// Whether the work should go on.
    ///
    /// # Errors
    /// [`Cancelled`] when [`Progress::cancel`] was called.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.state.cancelled.load(Ordering::Relaxed) {
            Err(Cancelled)
        } else {
            Ok(())
        }
    }

    /// Asks the worker to stop at its next step.
    pub fn cancel(&self) {
        self.state.cancelled.store(true, Ordering::Relaxed);
    }

    /// Says that the worker ended by an error of the program: whoever waits for what it would have reported waits no
    /// more.
    pub fn mark_lost(&self) {
        self.state.lost.store(true, Ordering::Relaxed);
        self.mark_ended();
    }

    /// Says that the worker ended.
    pub fn mark_ended(&self) {
        self.state.over.store(true, Ordering::Relaxed);
    }

    /// Whether the worker ended, as far as somebody said so ([`Progress::mark_ended`], [`Progress::mark_lost`]).
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.state.over.load(Ordering::Relaxed)
    }

    /// Whether the worker ended by an error of the program ([`Progress::mark_lost`]).
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.state.lost.load(Ordering::Relaxed)
    }

    /// The part done, 0 to 1, or `None` while the total is not known.
    #[must_use]
    pub fn fraction(&self) -> Option<f32> {
        let total = self.state.total.load(Ordering::Relaxed);
        if total == 0 {
            return None;
        }
        Some((self.state.done.load(Ordering::Relaxed) as f32 / total as f32).min(1.0))
    }
}
