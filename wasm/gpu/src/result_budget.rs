//! A budget for the results that wait in the parent of a worker.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct State {
    bytes: u64,
    closed: bool,
}

/// A budget in bytes for results between the worker's output and the caller. Its clones share it.
#[derive(Clone, Debug)]
pub(crate) struct ResultBudget {
    max_bytes: u64,
    shared: Arc<(Mutex<State>, Condvar)>,
}

/// A part of a budget, which a result occupies until it is dropped.
#[derive(Debug)]
pub(crate) struct ResultCharge {
    bytes: u64,
    budget: ResultBudget,
}

impl ResultBudget {
    /// Creates a budget of `max_bytes` bytes.
    pub fn new(max_bytes: u64) -> Self {
        Self {
            max_bytes,
            shared: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `bytes` fit, and charges them. More than the whole budget fits when nothing else is charged.
    ///
    /// Returns `None` if the budget is closed.
    pub fn charge(&self, bytes: u64) -> Option<ResultCharge> {
        let mut state = self.lock();
        while !state.closed && state.bytes > 0 && state.bytes.saturating_add(bytes) > self.max_bytes {
            state = self.shared.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            return None;
        }
        state.bytes = state.bytes.saturating_add(bytes);
        drop(state);
        Some(ResultCharge {
            bytes,
            budget: self.clone(),
        })
    }

    /// Ends all waits: nobody takes results any more.
    pub fn close(&self) {
        self.lock().closed = true;
        self.shared.1.notify_all();
    }
}

impl Drop for ResultCharge {
    fn drop(&mut self) {
        let mut state = self.budget.lock();
        state.bytes = state.bytes.saturating_sub(self.bytes);
        drop(state);
        self.budget.shared.1.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::thread;
    use std::time::Duration;

    #[test]
    fn charges_wait_for_room_and_end_when_the_budget_is_closed() {
        let budget = ResultBudget::new(100);
        let large = budget.charge(1000).unwrap();
        let (to, charges) = channel();
        let other = budget.clone();
        let thread = thread::spawn(move || {
            for bytes in [60, 0, 40, 1, 1] {
                let charge = other.charge(bytes);
                let is_closed = charge.is_none();
                to.send(charge).unwrap();
                if is_closed {
                    return;
                }
            }
        });
        let none = || charges.recv_timeout(Duration::from_millis(50)).unwrap_err() == RecvTimeoutError::Timeout;
        assert!(none());
        drop(large);
        let held: Vec<_> = (0..3).map(|_| charges.recv().unwrap().unwrap()).collect();
        assert!(none());
        drop(held);
        let last = charges.recv().unwrap();
        assert!(last.is_some());
        budget.close();
        // The fifth charge fits, unless the budget was closed before.
        let _ = charges.recv().unwrap();
        thread.join().unwrap();
        assert!(budget.charge(0).is_none());
    }
}
