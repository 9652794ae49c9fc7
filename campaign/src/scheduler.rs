//! The threads of targets: each takes runs of its target from a queue, until the queue is empty or for ever.

use crate::execution::{Attempt, Executor, RunMaterial, is_temporary};
use crate::folder_queue::UnnamedTarget;
use crate::queue::{FinishedRun, QueueError, RunSource};
use crate::run::{CAMPAIGN_STOPPED, LeasedRun, MAX_ATTEMPTS, WORKER_STOPPED};
use crate::run_result::RunResult;
use kinescope_session::targets::Targets;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use trace_core::progress::Progress;

/// Time after which a lease ends. The queue's process is this one, and the time limit of a run ends a run that hangs.
const LEASE: Duration = Duration::from_hours(24);
/// First and longest pause before a target that cannot be reached is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(5));
/// Time that a thread which runs for ever waits for a run before it looks again.
const IDLE_WAIT: Duration = Duration::from_secs(5);
/// Interval at which a pause checks whether the user stopped the campaign.
const TICK: Duration = Duration::from_millis(50);

/// How a campaign is run.
pub struct CampaignOptions {
    /// Name of this machine's worker in results.
    pub worker: String,
    /// Maximum number of runs at the same time; 0 for no limit.
    pub max_workers: usize,
    /// Time that a target may be out of reach.
    pub target_wait: Duration,
    /// Folder of kept outcomes.
    pub outcomes: PathBuf,
    /// The targets that this program reaches.
    pub targets: Targets,
}

/// A message of a running campaign.
pub enum RunNotice<'a> {
    /// A run has a result.
    Done(&'a LeasedRun, &'a RunResult),
    /// An attempt has no result, and the run waits again.
    Repeated(&'a LeasedRun, &'a str),
    /// A target cannot be used now, with the reason.
    Unavailable(&'a str, &'a str),
}

/// The end of a campaign's run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CampaignEnd {
    /// Number of results of this process.
    pub done: u64,
    /// Whether the user stopped it.
    pub stopped: bool,
    /// Targets that were given up, each with the reason.
    pub given_up: Vec<(String, String)>,
}

impl CampaignEnd {
    /// Adds targets that the description does not name, with the reason. Their runs wait.
    pub fn add_unnamed(&mut self, targets: &[UnnamedTarget]) {
        for UnnamedTarget { target, waiting } in targets {
            let runs = if *waiting == 1 {
                "its queued run waits"
            } else {
                "its queued runs wait"
            };
            let reason = format!("the description does not name it; {runs}");
            if !self.given_up.iter().any(|(known, _)| known == target) {
                self.given_up.push((target.clone(), reason));
            }
        }
    }
}

/// Places for runs at the same time.
struct Places {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Places {
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place. Returns `false` if the campaign was stopped.
    fn enter(&self, progress: &Progress) -> bool {
        let mut free = self.lock();
        loop {
            if progress.check().is_err() {
                return false;
            }
            if *free > 0 {
                *free -= 1;
                return true;
            }
            free = match self.freed.wait_timeout(free, TICK) {
                Ok((free, _)) => free,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    fn leave(&self) {
        *self.lock() += 1;
        self.freed.notify_one();
    }
}

/// Runs the queued runs of these targets until none is left, the user stops the campaign, or no target can be reached.
/// `notice` is called on the threads of the targets.
///
/// # Errors
/// If the queue cannot be read or written. All threads have ended then.
pub fn run_campaign(
    queue: &dyn RunSource,
    targets: &[String],
    options: &CampaignOptions,
    progress: &Progress,
    notice: &(dyn Fn(&RunNotice<'_>) + Sync),
) -> Result<CampaignEnd, QueueError> {
    run_targets(queue, targets, options, progress, notice, false)
}

/// Runs the runs of these targets as a worker: it waits for more until the user stops it, and gives up no target. A
/// target without runs is free for others. `notice` is called on the threads of the targets.
///
/// # Errors
/// If the queue cannot be read or written. All threads have ended then.
pub fn run_worker(
    queue: &dyn RunSource,
    targets: &[String],
    options: &CampaignOptions,
    progress: &Progress,
    notice: &(dyn Fn(&RunNotice<'_>) + Sync),
) -> Result<CampaignEnd, QueueError> {
    run_targets(queue, targets, options, progress, notice, true)
}

fn run_targets(
    queue: &dyn RunSource,
    targets: &[String],
    options: &CampaignOptions,
    progress: &Progress,
    notice: &(dyn Fn(&RunNotice<'_>) + Sync),
    is_worker: bool,
) -> Result<CampaignEnd, QueueError> {
    let places = Places {
        free: Mutex::new(match options.max_workers {
            0 => usize::MAX / 2,
            n => n,
        }),
        freed: Condvar::new(),
    };
    let ends = std::thread::scope(|scope| {
        let threads: Vec<_> = targets
            .iter()
            .map(|target| {
                let thread = TargetThread {
                    queue,
                    target,
                    options,
                    progress,
                    places: &places,
                    notice,
                    is_worker,
                };
                let builder = std::thread::Builder::new().name("campaign-target".to_owned());
                (target, builder.spawn_scoped(scope, move || thread.run()))
            })
            .collect();
        let ended = threads.into_iter().map(|(target, thread)| {
            let lost = |reason: String| {
                Ok(CampaignEnd {
                    given_up: vec![(target.clone(), reason)],
                    ..CampaignEnd::default()
                })
            };
            match thread {
                Ok(thread) => thread
                    .join()
                    .unwrap_or_else(|_| lost("its thread ended by a program error".into())),
                Err(e) => lost(format!("no thread can be started: {e}")),
            }
        });
        ended.collect::<Vec<_>>()
    });
    let mut whole = CampaignEnd::default();
    for end in ends {
        let end = end?;
        whole.done += end.done;
        whole.stopped |= end.stopped;
        whole.given_up.extend(end.given_up);
    }
    Ok(whole)
}

/// A target that cannot be used for some time.
struct Unreachable {
    since: Instant,
    pause: Duration,
}

impl Unreachable {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            pause: PAUSES.0,
        }
    }

    /// Returns the pause before the next attempt, `passed` after the first one; `None` at the end of `wait`. The last
    /// attempt is at that end.
    fn next_pause(&mut self, passed: Duration, wait: Duration) -> Option<Duration> {
        let left = wait.checked_sub(passed).filter(|left| !left.is_zero())?;
        let pause = self.pause.min(left);
        self.pause = self.pause.saturating_mul(2).min(PAUSES.1);
        Some(pause)
    }
}

/// The thread of a target.
struct TargetThread<'a> {
    queue: &'a dyn RunSource,
    target: &'a str,
    options: &'a CampaignOptions,
    progress: &'a Progress,
    places: &'a Places,
    notice: &'a (dyn Fn(&RunNotice<'_>) + Sync),
    /// Whether the thread waits for more runs and gives up no target.
    is_worker: bool,
}

/// What a thread does after an attempt.
enum Next {
    Continue,
    /// The target cannot be used now.
    Wait(String),
    /// The target can never be used.
    GiveUp(String),
    Stop,
}

impl TargetThread<'_> {
    fn run(&self) -> Result<CampaignEnd, QueueError> {
        let ended = self.run_all();
        if ended.is_err() {
            // The other threads would run work whose results cannot be stored.
            self.progress.cancel();
        }
        ended
    }

    fn new_executor(&self) -> Executor {
        let options = self.options;
        Executor::new(self.target, &options.worker, options.targets.clone(), &options.outcomes)
    }

    fn run_all(&self) -> Result<CampaignEnd, QueueError> {
        let options = self.options;
        let mut executor = self.new_executor();
        let mut end = CampaignEnd::default();
        let mut out_of_reach: Option<Unreachable> = None;
        loop {
            if !self.places.enter(self.progress) {
                end.stopped = true;
                return Ok(end);
            }
            let step = self.guarded_step(&mut executor, &mut end);
            self.places.leave();
            let next = match step? {
                Some(next) => next,
                None if !self.is_worker => return Ok(end),
                None => match catch_panic(|| self.wait(&mut executor)) {
                    Ok(waited) => {
                        waited?;
                        continue;
                    }
                    Err(reason) => Next::Wait(reason),
                },
            };
            match next {
                Next::Continue => out_of_reach = None,
                Next::Stop => {
                    end.stopped = true;
                    return Ok(end);
                }
                Next::GiveUp(reason) if !self.is_worker => {
                    end.given_up.push((self.target.to_owned(), reason));
                    return Ok(end);
                }
                Next::Wait(reason) | Next::GiveUp(reason) => {
                    let unreachable = out_of_reach.get_or_insert_with(|| {
                        (self.notice)(&RunNotice::Unavailable(self.target, &reason));
                        Unreachable::new()
                    });
                    let wait = if self.is_worker {
                        Duration::MAX
                    } else {
                        options.target_wait
                    };
                    let Some(pause) = unreachable.next_pause(unreachable.since.elapsed(), wait) else {
                        end.given_up.push((self.target.to_owned(), reason));
                        return Ok(end);
                    };
                    self.sleep(pause);
                }
            }
        }
    }

    /// Waits for a run. The target is free meanwhile.
    fn wait(&self, executor: &mut Executor) -> Result<(), QueueError> {
        executor.free_target();
        while self.progress.check().is_ok() && !self.queue.wait_for_run(self.target, IDLE_WAIT)? {}
        Ok(())
    }

    fn sleep(&self, pause: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < pause && self.progress.check().is_ok() {
            std::thread::sleep(TICK.min(pause));
        }
    }

    /// Does a step, and catches a panic in it: its run is an attempt that counts, and the target goes on.
    fn guarded_step(&self, executor: &mut Executor, end: &mut CampaignEnd) -> Result<Option<Next>, QueueError> {
        let mut leased = None;
        let reason = match catch_panic(|| self.step(executor, end, &mut leased)) {
            Ok(next) => return next,
            Err(reason) => reason,
        };
        // The device may be in any state: the lease ends with the old executor.
        *executor = self.new_executor();
        match leased {
            Some(leased) => self.end_lost(&leased, &reason, end),
            None => Ok(Some(Next::Wait(reason))),
        }
    }

    /// Takes a run and executes it. Returns `None` if no run is left. `leased` is the run until it is reported or released.
    fn step(
        &self,
        executor: &mut Executor,
        end: &mut CampaignEnd,
        leased: &mut Option<LeasedRun>,
    ) -> Result<Option<Next>, QueueError> {
        if !self.is_worker && !self.queue.wait_for_run(self.target, Duration::ZERO)? {
            return Ok(None);
        }
        // A target that cannot be reached takes no run.
        let reached = executor.reach_target();
        if let Ok(device) = &reached {
            self.queue.note_target(self.target, device.as_ref());
        }
        if let Err(e) = reached {
            self.queue.decline(self.target)?;
            let reason = e.to_string();
            return Ok(Some(match is_temporary(&e) {
                true => Next::Wait(reason),
                false => Next::GiveUp(reason),
            }));
        }
        let Some(taken) = self.queue.take(self.target, &self.options.worker, LEASE)? else {
            return Ok(None);
        };
        let run = leased.insert(taken);
        // Each time, the process ended with it. A broker reports such a run itself.
        if !self.is_worker && run.lost_attempts() >= MAX_ATTEMPTS {
            run.attempt = run.attempt.saturating_sub(1);
            let reason = run.earlier_attempts.last().cloned().unwrap_or_default();
            let result = RunResult::lost(run, self.target, &self.options.worker, &reason);
            let next = self.finish(run, &result, end);
            *leased = None;
            return next;
        }
        let folder = self.queue.outcome_folder(run);
        executor.keep_outcomes_in(folder.unwrap_or_else(|| self.options.outcomes.clone()));
        let material = RunMaterial::of_campaign(&run.run.work);
        let pending = self.queue.pending_start(run);
        let attempt = executor.execute(run, &material, pending, self.progress);
        let next = self.end_attempt(run, attempt, end);
        *leased = None;
        next
    }

    /// Reports or releases a run after an attempt.
    fn end_attempt(
        &self,
        leased: &LeasedRun,
        attempt: Attempt,
        end: &mut CampaignEnd,
    ) -> Result<Option<Next>, QueueError> {
        match attempt {
            Attempt::Done(result) => self.finish(leased, &result, end),
            Attempt::Lost(reason) => self.end_lost(leased, &reason, end),
            Attempt::NotStarted(reason) => {
                self.queue.release(leased, None)?;
                Ok(Some(Next::Wait(reason)))
            }
            Attempt::Cancelled => {
                let reason = match self.is_worker {
                    true => WORKER_STOPPED,
                    false => CAMPAIGN_STOPPED,
                };
                self.queue.release(leased, Some(reason))?;
                Ok(Some(Next::Stop))
            }
            Attempt::Withdrawn => {
                self.queue.release(leased, None)?;
                Ok(Some(Next::Continue))
            }
        }
    }

    /// Ends an attempt that may have executed and has no result. The run is repeated, or reported after the last attempt.
    fn end_lost(&self, leased: &LeasedRun, reason: &str, end: &mut CampaignEnd) -> Result<Option<Next>, QueueError> {
        let attempts = match self.is_worker {
            true => leased.attempt,
            false => leased.lost_attempts().saturating_add(1),
        };
        if attempts >= MAX_ATTEMPTS {
            let result = RunResult::lost(leased, self.target, &self.options.worker, reason);
            return self.finish(leased, &result, end);
        }
        self.queue.release(leased, Some(reason))?;
        (self.notice)(&RunNotice::Repeated(leased, reason));
        Ok(Some(Next::Continue))
    }

    fn finish(
        &self,
        leased: &LeasedRun,
        result: &RunResult,
        end: &mut CampaignEnd,
    ) -> Result<Option<Next>, QueueError> {
        if self.queue.finish(leased, result)? == FinishedRun::Recorded {
            end.done += 1;
            (self.notice)(&RunNotice::Done(leased, result));
        }
        Ok(Some(Next::Continue))
    }
}

/// Does work of a target's thread. Returns the reason if it panics.
fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    // Nothing that a panic leaves half changed is used again: the executor is replaced, the taken run and the counts of
    // the end change in single assignments, and everybody who shares the queue recovers its locks.
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| format!("program error: {}", describe_panic(&*payload)))
}

/// Returns the message of a panic.
fn describe_panic(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attempts without an end of their own: all pauses of a wait, one after the other.
    fn pauses(wait: Duration) -> Vec<Duration> {
        let (mut unreachable, mut passed) = (Unreachable::new(), Duration::ZERO);
        let next = || {
            let pause = unreachable.next_pause(passed, wait)?;
            passed += pause;
            Some(pause)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn attempts_to_reach_a_target_become_rare_and_end_with_its_wait() {
        for seconds in [0, 1, 4, 60] {
            let wait = Duration::from_secs(seconds);
            let pauses = pauses(wait);
            assert_eq!(pauses.iter().sum::<Duration>(), wait);
            assert!(pauses.iter().all(|p| (Duration::from_millis(1)..=PAUSES.1).contains(p)));
            assert!(pauses.iter().rev().skip(1).rev().is_sorted(), "{pauses:?}");
        }
        assert!(pauses(Duration::from_secs(60)).len() < 25);
    }

    #[test]
    fn a_worker_waits_for_its_target_for_ever() {
        let mut unreachable = Unreachable::new();
        let day = Duration::from_hours(24);
        let pauses = (0..20).map(|n| unreachable.next_pause(day * n, Duration::MAX));
        assert_eq!(pauses.last(), Some(Some(PAUSES.1)));
    }
}
