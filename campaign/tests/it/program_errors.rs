//! Panics in the threads of targets: the run is an attempt that counts, and the target goes on.

use crate::farm::{Farm, G71};
use kinescope_campaign::{
    CampaignEnd, CampaignFolder, CampaignOptions, FinishedRun, FolderQueue, LeasedRun, MAX_ATTEMPTS, QueueError,
    RunNotice, RunQueue as _, RunResult, RunSource, RunVerdict, StartAnswer, run_campaign, run_worker,
};
use kinescope_session::targets::Targets;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;
use trace_core::progress::Progress;

/// Where the thread of a target panics.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before it has a run.
    Take,
    /// When it has one.
    Start,
    /// When the run has its result.
    Finish,
    /// When it waits for a run, as a worker does.
    Wait,
}

/// A queue that panics some times, when the thread of a target uses it.
struct PanickingSource<'a> {
    queue: &'a FolderQueue,
    place: Place,
    /// Number of panics that are left.
    left: AtomicU32,
}

impl PanickingSource<'_> {
    fn panic_at(&self, place: Place) {
        let spend = |left: u32| left.checked_sub(1);
        let is_due = || {
            self.left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, spend)
                .is_ok()
        };
        assert!(self.place != place || !is_due(), "a test's panic");
    }
}

impl RunSource for PanickingSource<'_> {
    fn wait_for_run(&self, target: &str, limit: Duration) -> Result<bool, QueueError> {
        self.panic_at(Place::Wait);
        self.queue.wait_for_run(target, limit)
    }

    fn take(&self, target: &str, worker: &str, lease: Duration) -> Result<Option<LeasedRun>, QueueError> {
        self.panic_at(Place::Take);
        self.queue.take(target, worker, lease)
    }

    fn pending_start(&self, _leased: &LeasedRun) -> Option<Receiver<StartAnswer>> {
        self.panic_at(Place::Start);
        None
    }

    fn finish(&self, leased: &LeasedRun, result: &RunResult) -> Result<FinishedRun, QueueError> {
        self.panic_at(Place::Finish);
        self.queue.finish(leased, result)
    }

    fn release(&self, leased: &LeasedRun, reason: Option<&str>) -> Result<(), QueueError> {
        self.queue.release(leased, reason)
    }
}

/// Returns a campaign of two runs of a sample.
fn two_runs() -> Farm {
    let text = format!("targets = [{G71:?}]\nrepeats = 2\n[[recordings]]\npath = \"vecadd.kine\"\n");
    Farm::new(&["vecadd.kine"], &text)
}

fn options(farm: &Farm, folder: &CampaignFolder, target_wait: Duration) -> CampaignOptions {
    CampaignOptions {
        worker: "tester".into(),
        max_workers: 1,
        target_wait,
        outcomes: folder.outcomes_path(),
        targets: Targets::new(Some(farm.folder.path().join("keys"))),
    }
}

/// Runs two runs of a sample whose thread panics `count` times. Returns the end, the results, and the reasons of repeats.
fn run_with_panics(place: Place, count: u32, target_wait: Duration) -> (CampaignEnd, Vec<RunResult>, Vec<String>) {
    let farm = two_runs();
    let (folder, queue) = farm.open("out");
    let source = PanickingSource {
        queue: &queue,
        place,
        left: AtomicU32::new(count),
    };
    let options = options(&farm, &folder, target_wait);
    let reasons = Mutex::new(Vec::new());
    let notice = |notice: &RunNotice<'_>| {
        if let RunNotice::Repeated(_, reason) = notice {
            reasons.lock().unwrap().push((*reason).to_owned());
        }
    };
    let end = run_campaign(&source, &[G71.to_owned()], &options, &Progress::new(), &notice).unwrap();
    // No run stays leased.
    assert_eq!(queue.counts().unwrap().leased, 0);
    let results = Farm::results(&queue).into_iter().map(|(_, _, result)| result).collect();
    (end, results, reasons.into_inner().unwrap())
}

#[test]
fn a_run_whose_thread_panics_once_is_repeated() {
    for place in [Place::Start, Place::Finish] {
        let (end, results, reasons) = run_with_panics(place, 1, Duration::ZERO);
        assert_eq!((end.done, end.given_up.len()), (2, 0), "{end:?}");
        assert!(results.iter().all(|r| r.verdict == RunVerdict::Match), "{results:?}");
        let repeated: Vec<&RunResult> = results.iter().filter(|r| r.is_repeated()).collect();
        assert_eq!((repeated.len(), repeated[0].attempt), (1, 2));
        assert_eq!(repeated[0].earlier_attempts, ["program error: a test's panic"]);
        assert_eq!(reasons, repeated[0].earlier_attempts);
    }
}

#[test]
fn a_run_whose_thread_always_panics_is_reported_and_the_target_goes_on() {
    let (end, results, reasons) = run_with_panics(Place::Start, MAX_ATTEMPTS, Duration::ZERO);
    assert_eq!((end.done, end.given_up.len()), (2, 0), "{end:?}");
    let failed: Vec<&RunResult> = results.iter().filter(|r| r.verdict == RunVerdict::Failed).collect();
    assert_eq!((failed.len(), failed[0].attempt), (1, MAX_ATTEMPTS), "{results:?}");
    assert_eq!(
        failed[0].failure.as_deref(),
        Some("attempt 5 was lost too: program error: a test's panic")
    );
    assert_eq!(reasons.len() as u32, MAX_ATTEMPTS - 1);
    assert!(results.iter().any(|r| r.verdict == RunVerdict::Match && r.attempt == 1));
}

#[test]
fn a_thread_that_panics_without_a_run_tries_again_and_gives_its_target_up_in_the_end() {
    let (end, results, _) = run_with_panics(Place::Take, 1, Duration::from_secs(60));
    assert_eq!((end.done, results.len(), end.given_up.len()), (2, 2, 0), "{end:?}");
    let (end, results, _) = run_with_panics(Place::Take, u32::MAX, Duration::ZERO);
    assert_eq!((end.done, results.len()), (0, 0), "{end:?}");
    assert_eq!(
        end.given_up,
        [(G71.to_owned(), "program error: a test's panic".to_owned())]
    );
}

#[test]
fn a_worker_that_panics_while_it_waits_keeps_its_target() {
    let farm = two_runs();
    let folder = CampaignFolder::create(&farm.folder.path().join("out"), "farm").unwrap();
    let queue = folder.open_queue().unwrap();
    let source = PanickingSource {
        queue: &queue,
        place: Place::Wait,
        left: AtomicU32::new(1),
    };
    let (stop, done) = (Progress::new(), AtomicU32::new(0));
    let notice = |notice: &RunNotice<'_>| match notice {
        // The runs come after the panic.
        RunNotice::Unavailable(_, reason) => {
            assert_eq!(*reason, "program error: a test's panic");
            queue.add(&mut farm.matrix.runs()).unwrap();
        }
        RunNotice::Done(..) if done.fetch_add(1, Ordering::SeqCst) == 1 => stop.cancel(),
        _ => {}
    };
    let options = options(&farm, &folder, Duration::ZERO);
    let end = run_worker(&source, &[G71.to_owned()], &options, &stop, &notice).unwrap();
    assert_eq!((end.done, end.stopped, end.given_up.len()), (2, true, 0), "{end:?}");
}

/// A run that ended the process each time was queued again for ever, and its target never got past it.
#[test]
fn a_run_that_always_ends_the_process_is_reported_and_the_target_goes_on() {
    let farm = two_runs();
    let (folder, queue) = farm.open("out");
    let first = queue.take(G71, "tester", Duration::from_hours(1)).unwrap().unwrap();
    // A stop by the user is no lost attempt.
    queue.release(&first, Some("the campaign was stopped")).unwrap();
    drop(queue);
    for attempt in 2..=MAX_ATTEMPTS + 1 {
        // The process ends with this queue, and the next one finds the lease.
        let queue = folder.open_queue().unwrap();
        let leased = queue.take(G71, "tester", Duration::from_hours(1)).unwrap().unwrap();
        assert_eq!((leased.run.id, leased.attempt), (first.run.id, attempt));
    }
    let queue = folder.open_queue().unwrap();
    let end = farm.run(&folder, &queue, &Progress::new(), &|_| {});
    assert_eq!((end.done, end.given_up.len()), (2, 0), "{end:?}");
    let results: Vec<RunResult> = Farm::results(&queue).into_iter().map(|(_, _, result)| result).collect();
    let failed: Vec<&RunResult> = results.iter().filter(|r| r.verdict == RunVerdict::Failed).collect();
    assert_eq!(
        (failed.len(), failed[0].run, failed[0].attempt),
        (1, first.run.id, MAX_ATTEMPTS + 1)
    );
    let failure = failed[0].failure.as_deref().unwrap();
    assert!(failure.starts_with("attempt 6 was lost too: "), "{failure}");
    assert!(results.iter().any(|r| r.verdict == RunVerdict::Match && r.attempt == 1));
}
