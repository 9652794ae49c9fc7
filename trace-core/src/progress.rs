//! Progress and cancellation of long work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Default limit of the unpacked size of a file, and of the memory of a recording made from it: 4 GiB. It does not
/// depend on the packed size, since valid logs compress well too. A machine with 8 GB can hold it, and the `.kine` file
/// takes about as much disk space.
pub const MAX_UNPACKED_BYTES: u64 = 4 << 30;

/// Shared progress between a worker thread and its observer. A clone is another handle on the same work.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    done: AtomicU64,
    total: AtomicU64,
    cancelled: AtomicBool,
    /// The worker ended by a program error and will report nothing.
    lost: AtomicBool,
    /// The worker ended, in any way.
    over: AtomicBool,
    /// Limit of the unpacked size of a file; 0 if not set.
    unpack_limit: AtomicU64,
}

/// The user cancelled the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cancelled")]
pub struct Cancelled;

impl Progress {
    /// Whether both are handles on the same work.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Creates progress without an observer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the limit of the unpacked size of files that the work reads, and of the memory of a recording made from
    /// them, bytes.
    pub fn limit_unpacked(&self, bytes: u64) {
        self.state.unpack_limit.store(bytes, Ordering::Relaxed);
    }

    /// Returns the limit of the unpacked size of files that the work reads, bytes.
    #[must_use]
    pub fn unpack_limit(&self) -> u64 {
        match self.state.unpack_limit.load(Ordering::Relaxed) {
            0 => MAX_UNPACKED_BYTES,
            bytes => bytes,
        }
    }

    /// Sets the amount of work, in the unit of [`Progress::advance`]. Work of several steps calls it once per step, and
    /// each step starts at nothing done.
    pub fn set_total(&self, total: u64) {
        self.state.done.store(0, Ordering::Relaxed);
        self.state.total.store(total, Ordering::Relaxed);
    }

    /// Adds to the work done.
    ///
    /// # Errors
    ///
    /// [`Cancelled`] if [`Progress::cancel`] was called.
    pub fn advance(&self, by: u64) -> Result<(), Cancelled> {
        self.state.done.fetch_add(by, Ordering::Relaxed);
        self.check()
    }

    /// Checks whether the work should continue.
    ///
    /// # Errors
    ///
    /// [`Cancelled`] if [`Progress::cancel`] was called.
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

    /// Marks the worker as ended by a program error, so that nobody waits for its result.
    pub fn mark_lost(&self) {
        self.state.lost.store(true, Ordering::Relaxed);
        self.mark_ended();
    }

    /// Marks the worker as ended.
    pub fn mark_ended(&self) {
        self.state.over.store(true, Ordering::Relaxed);
    }

    /// Whether the worker was marked as ended ([`Progress::mark_ended`], [`Progress::mark_lost`]).
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.state.over.load(Ordering::Relaxed)
    }

    /// Whether the worker ended by a program error ([`Progress::mark_lost`]).
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.state.lost.load(Ordering::Relaxed)
    }

    /// Returns the completed fraction, 0 to 1, or `None` if the total is unknown.
    #[must_use]
    pub fn fraction(&self) -> Option<f32> {
        let total = self.state.total.load(Ordering::Relaxed);
        if total == 0 {
            return None;
        }
        Some((self.state.done.load(Ordering::Relaxed) as f32 / total as f32).min(1.0))
    }
}
