//! Threads that pass results on to the caller of a run: it may write files for each.

use crate::result_budget::ResultCharge;
use std::num::NonZero;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use wasm_run::{Control, ProgramRun};

/// Maximum number of threads.
const MAX_THREADS: usize = 16;
/// Results that wait for a thread. [`crate::result_budget::ResultBudget`] limits their bytes.
const MAX_WAITING_RESULTS: usize = 64;

/// A result that waits for a thread.
struct WaitingResult {
    index: usize,
    run: ProgramRun,
    /// Its part of the budget, until the caller has it.
    charge: ResultCharge,
}

/// Where results go. Threads take them to the caller.
pub(crate) struct ResultTakers<'a> {
    sender: SyncSender<WaitingResult>,
    failure: &'a FirstFailure,
}

/// What the caller did not take: the first message.
type FirstFailure = Mutex<Option<String>>;

impl ResultTakers<'_> {
    /// Calls `work`, which passes results with [`ResultTakers::pass`], and waits until the caller has all of them.
    ///
    /// # Errors
    /// The first message of the caller, for a result that it did not take.
    pub fn run<T>(control: &dyn Control, work: impl FnOnce(&ResultTakers<'_>) -> T) -> Result<T, String> {
        let (sender, receiver) = sync_channel(MAX_WAITING_RESULTS);
        let receiver = Mutex::new(receiver);
        let failure = FirstFailure::default();
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
        let result = thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| take_results(&receiver, control, &failure));
            }
            // The threads end when the sender is dropped.
            work(&ResultTakers {
                sender,
                failure: &failure,
            })
        });
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(message) => Err(message),
            None => Ok(result),
        }
    }

    /// Passes the result of the input at `index` on, with its part of the budget. Returns false if the caller did not
    /// take an earlier one.
    pub fn pass(&self, index: usize, run: ProgramRun, charge: ResultCharge) -> bool {
        let failed = || self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        !failed() && self.sender.send(WaitingResult { index, run, charge }).is_ok()
    }
}

fn take_results(receiver: &Mutex<Receiver<WaitingResult>>, control: &dyn Control, failure: &FirstFailure) {
    let failed = || failure.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(WaitingResult { index, run, charge }) = next else {
            return;
        };
        // After a failure results are dropped, so that no sender waits forever.
        if failed().is_some() {
            continue;
        }
        if let Err(message) = control.take_result(index, run) {
            failed().get_or_insert(message);
        }
        drop(charge);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result_budget::ResultBudget;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use wasm_run::RunEnd;

    struct Sum {
        indices: AtomicUsize,
        refused: usize,
    }

    impl Control for Sum {
        fn is_cancelled(&self) -> bool {
            false
        }

        fn take_result(&self, index: usize, _run: ProgramRun) -> Result<(), String> {
            if index == self.refused {
                return Err(format!("no room for {index}"));
            }
            self.indices.fetch_add(index, Ordering::Relaxed);
            Ok(())
        }
    }

    fn pass_all(control: &Sum) -> Result<usize, String> {
        ResultTakers::run(control, |takers| {
            let run = ProgramRun {
                end: RunEnd::Exit(0),
                standard_output: Vec::new(),
                standard_error: Vec::new(),
                calls: Vec::new(),
                lost_calls: 0,
            };
            let budget = ResultBudget::new(2);
            let pass = |index: usize| takers.pass(index, run.clone(), budget.charge(1).unwrap());
            (0..1000).filter(|index| pass(*index)).count()
        })
    }

    #[test]
    fn the_caller_gets_all_results_or_says_why_not() {
        let control = Sum {
            indices: AtomicUsize::new(0),
            refused: usize::MAX,
        };
        assert_eq!(pass_all(&control), Ok(1000));
        assert_eq!(control.indices.into_inner(), 499_500);
        let control = Sum {
            indices: AtomicUsize::new(0),
            refused: 7,
        };
        assert_eq!(pass_all(&control), Err("no room for 7".into()));
    }
}
