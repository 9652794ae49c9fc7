//! Runs that are leased ahead: a target that ends a run has its next one in memory, and does not wait for the disk.
//!
//! A thread leases them, for all targets that have none in one commit, which also stores the results of their last runs.
//! When the process is killed, a run that was leased ahead may have begun, so its attempt counts. That happens to a run
//! only once: one that was attempted before is not leased ahead, and nothing is while it runs.

use super::FolderQueue;
use super::leases::{Candidates, lease_first, requeue_expired};
use crate::queue::{QueueError, RunSource as _};
use crate::run::{LeasedRun, RunId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// The runs that are leased ahead, at most one for each target.
#[derive(Debug, Default)]
pub(super) struct AheadRuns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Number of callers of [`FolderQueue::lease_ahead_during`] whose work goes on.
    users: usize,
    /// Number of threads that lease.
    threads: usize,
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
    Leased(Box<LeasedRun>),
}

/// What the lease of a run needs.
#[derive(Clone, Debug)]
pub(super) struct Request {
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

    /// Waits until no thread has work for a target.
    fn settle(&self, target: &str) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        while matches!(state.by_target.get(target), Some(Ahead::Requested(_) | Ahead::Pending)) {
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
            Some(Ahead::Leased(run)) => Some(*run),
            _ => None,
        }
    }

    /// Requests the run after `leased`, if a thread leases runs ahead.
    pub(super) fn request_after(&self, leased: &LeasedRun, worker: &str, lease: Duration) {
        let mut state = self.lock();
        if state.threads == 0 || leased.attempt > 1 {
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

    /// Returns the ids of the runs that are here: no target has begun them. A run that is being leased is awaited, because
    /// the queue has its lease already.
    pub(super) fn ids(&self) -> BTreeSet<RunId> {
        let targets: Vec<String> = self.lock().by_target.keys().cloned().collect();
        let find = |target: String| match self.settle(&target).by_target.get(&target) {
            Some(Ahead::Leased(leased)) => Some(leased.run.id),
            _ => None,
        };
        targets.into_iter().filter_map(find).collect()
    }

    /// Removes all runs. Requests are forgotten.
    fn take_all(&self) -> Vec<LeasedRun> {
        let all = std::mem::take(&mut self.lock().by_target);
        let runs = all.into_values().filter_map(|ahead| match ahead {
            Ahead::Leased(run) => Some(*run),
            _ => None,
        });
        runs.collect()
    }
}

/// Work that needs runs ahead. Its thread ends after this is dropped.
pub(super) struct User<'a>(&'a AheadRuns);

impl<'a> User<'a> {
    pub(super) fn new(ahead: &'a AheadRuns) -> Self {
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

/// A thread that leases. When it has ended, also by a panic, nobody waits for it.
pub(super) struct Lessor<'a>(&'a AheadRuns);

impl<'a> Lessor<'a> {
    pub(super) fn new(ahead: &'a AheadRuns) -> Self {
        ahead.lock().threads += 1;
        Self(ahead)
    }

    /// Waits for requests, and returns them. Returns `None` when nobody needs the thread any more.
    pub(super) fn next_requests(&self) -> Option<Vec<Request>> {
        let mut state = self.0.lock();
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
            state = self.0.wait(state);
        }
    }

    /// Answers requests.
    fn answer(&self, requests: Vec<Request>, leased: Vec<LeasedRun>) {
        let mut state = self.0.lock();
        for request in requests {
            state.by_target.remove(&request.target);
        }
        for run in leased {
            state
                .by_target
                .insert(run.run.target.clone(), Ahead::Leased(Box::new(run)));
        }
        drop(state);
        self.0.changed.notify_all();
    }
}

impl Drop for Lessor<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.threads = state.threads.saturating_sub(1);
        if state.threads == 0 {
            state.by_target.retain(|_, ahead| matches!(ahead, Ahead::Leased(_)));
        }
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
            let (user, lessor) = (User::new(&self.ahead), Lessor::new(&self.ahead));
            let thread = std::thread::Builder::new().name("campaign-queue".to_owned());
            let thread = thread.spawn_scoped(scope, || {
                let lessor = lessor;
                self.lease_requested(&lessor);
            });
            let done = work();
            drop(user);
            match thread.map(ScopedJoinHandle::join) {
                Ok(Ok(())) => {}
                Ok(Err(_)) => tracing::warn!("targets waited for the disk between two runs: a thread panicked"),
                Err(e) => tracing::warn!("targets waited for the disk between two runs: {e}"),
            }
            done
        });
        for run in self.ahead.take_all() {
            self.release(&run, None)?;
        }
        Ok(done)
    }

    /// Leases what is requested until nobody needs it any more.
    fn lease_requested(&self, lessor: &Lessor<'_>) {
        while let Some(requests) = lessor.next_requests() {
            let leased = self.write(|write| {
                requeue_expired(write)?;
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
            lessor.answer(requests, leased);
        }
    }
}
