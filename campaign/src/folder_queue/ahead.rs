//! Runs that are leased ahead: a target that ends a run has its next one in memory, and does not wait for the disk.
//!
//! A thread leases them, for all targets that have none in one commit, which also stores the results of their last runs.
//! When the process is killed, a run that was leased ahead may have begun, so its attempt counts. That happens to a run
//! only once: one that was attempted before is not leased ahead, and nothing is while it runs.

use super::FolderQueue;
use super::leases::{Candidates, lease_first};
use crate::queue::{QueueError, RunSource as _};
use crate::run::{LeasedRun, RunId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The runs that are leased ahead, at most one for each target.
#[derive(Debug, Default)]
pub(super) struct AheadRuns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Number of callers of [`FolderQueue::lease_ahead_during`].
    users: usize,
    by_target: BTreeMap<String, Ahead>,
}

/// The next run of a target.
#[derive(Debug)]
enum Ahead {
    /// The thread is to lease it.
    Requested(Request),
    /// The thread leases it.
    Pending,
    /// It is there.
    Leased(LeasedRun),
}

/// What a lease needs.
#[derive(Clone, Debug)]
struct Request {
    target: String,
    worker: String,
    lease: Duration,
}

impl AheadRuns {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the thread has no work for a target.
    fn settle(&self, target: &str) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        while state.users > 0 && matches!(state.by_target.get(target), Some(Ahead::Requested(_) | Ahead::Pending)) {
            state = self.wait(state);
        }
        state
    }

    /// Returns whether a target's next run is here.
    pub(super) fn has_run(&self, target: &str) -> bool {
        self.settle(target).by_target.contains_key(target)
    }

    /// Removes a target's next run, if it is here.
    pub(super) fn remove(&self, target: &str) -> Option<LeasedRun> {
        match self.settle(target).by_target.remove(target) {
            Some(Ahead::Leased(run)) => Some(run),
            _ => None,
        }
    }

    /// Requests the run after `leased`, if a thread leases runs ahead.
    pub(super) fn request_after(&self, leased: &LeasedRun, worker: &str, lease: Duration) {
        let mut state = self.lock();
        if state.users == 0 || leased.attempt > 1 {
            return;
        }
        let target = leased.run.target.clone();
        let request = Request {
            target: target.clone(),
            worker: worker.to_owned(),
            lease,
        };
        state.by_target.insert(target, Ahead::Requested(request));
        drop(state);
        self.changed.notify_all();
    }

    /// Returns the ids of the runs that are here: no target has begun them.
    pub(super) fn ids(&self) -> BTreeSet<RunId> {
        let state = self.lock();
        let runs = state.by_target.values().filter_map(|ahead| match ahead {
            Ahead::Leased(leased) => Some(leased.run.id),
            _ => None,
        });
        runs.collect()
    }

    /// Waits for requests, and returns them. Returns `None` when nobody needs the thread any more.
    fn next_requests(&self) -> Option<Vec<Request>> {
        let mut state = self.lock();
        loop {
            if state.users == 0 {
                return None;
            }
            let mut requests = Vec::new();
            for ahead in state.by_target.values_mut() {
                if let Ahead::Requested(request) = ahead {
                    requests.push(request.clone());
                    *ahead = Ahead::Pending;
                }
            }
            if !requests.is_empty() {
                return Some(requests);
            }
            state = self.wait(state);
        }
    }

    /// Answers requests.
    fn answer(&self, requests: Vec<Request>, leased: Vec<LeasedRun>) {
        let mut state = self.lock();
        for request in requests {
            state.by_target.remove(&request.target);
        }
        for run in leased {
            state.by_target.insert(run.run.target.clone(), Ahead::Leased(run));
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Removes all runs. Requests are forgotten.
    fn take_all(&self) -> Vec<LeasedRun> {
        let all = std::mem::take(&mut self.lock().by_target);
        let runs = all.into_values().filter_map(|ahead| match ahead {
            Ahead::Leased(run) => Some(run),
            _ => None,
        });
        runs.collect()
    }
}

/// A caller of [`FolderQueue::lease_ahead_during`]: the thread ends when this is dropped.
struct User<'a>(&'a AheadRuns);

impl<'a> User<'a> {
    fn new(ahead: &'a AheadRuns) -> Self {
        ahead.lock().users += 1;
        Self(ahead)
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.users = state.users.saturating_sub(1);
        drop(state);
        self.0.changed.notify_all();
    }
}

impl FolderQueue {
    /// Does some work while a thread leases the next run of each target ahead. At the end, runs that no target has begun
    /// are queued again.
    ///
    /// # Errors
    /// If the queue cannot be written at the end.
    pub fn lease_ahead_during<T>(&self, work: impl FnOnce() -> T) -> Result<T, QueueError> {
        let done = std::thread::scope(|scope| {
            let user = User::new(&self.ahead);
            let thread = std::thread::Builder::new().name("campaign-queue".to_owned());
            if let Err(e) = thread.spawn_scoped(scope, || self.lease_requested()) {
                tracing::warn!("targets wait for the disk between two runs: {e}");
                drop(user);
                return work();
            }
            let done = work();
            drop(user);
            done
        });
        for run in self.ahead.take_all() {
            self.release(&run, None)?;
        }
        Ok(done)
    }

    /// Leases what is requested until nobody needs it any more.
    fn lease_requested(&self) {
        while let Some(requests) = self.ahead.next_requests() {
            let leased = self.write(|write| {
                let runs = requests
                    .iter()
                    .map(|r| lease_first(write, &r.target, &r.worker, r.lease, Candidates::New));
                runs.filter_map(Result::transpose).collect::<Result<Vec<_>, _>>()
            });
            let leased = leased.unwrap_or_else(|e| {
                // The target leases its next run itself, and reports what fails then.
                tracing::debug!("no run was leased ahead: {e}");
                Vec::new()
            });
            self.ahead.answer(requests, leased);
        }
    }
}
