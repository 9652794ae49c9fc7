//! Whole campaigns on simulators in this process.

use crate::farm::{Farm, G71};
use kinescope_campaign::{
    Attempt, CampaignOptions, Executor, FinishedRun, FolderQueue, LeasedRun, QueueError, RunMaterial, RunQueue as _,
    RunResult, RunSource, RunVerdict, Summary, compare, run_campaign, write_table,
};
use kinescope_session::targets::Targets;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use trace_core::progress::Progress;

#[test]
fn every_cell_has_its_verdict_and_its_times() {
    let farm = Farm::new(
        &["vecadd.kine", "digits.kine"],
        "targets = [\"software:mali-g71\", \"software:mali-g52\"]\nrepeats = 2\nkeep-outcomes = \"all\"\n\
         [[recordings]]\npath = \"*.kine\"\n",
    );
    let (folder, queue) = farm.open("out");
    let end = farm.run(&folder, &queue, &Progress::new(), &|_| {});
    assert_eq!((end.done, end.stopped, end.given_up.len()), (8, false, 0));
    let results = Farm::results(&queue);
    assert_eq!(results.len(), 8);
    for (name, target, result) in &results {
        assert_eq!((result.attempt, result.worker.as_str()), (1, "tester"));
        assert!(result.queued_ms <= result.started_ms && result.started_ms <= result.ended_ms);
        if target == G71 {
            assert_eq!(result.verdict, RunVerdict::Match, "{name}: {result:?}");
            assert!(result.computed && result.run_ns > 0 && result.compile_ns > 0 && result.memory_bytes >= 4096);
            assert_eq!((result.gpu.as_str(), result.fingerprint.len()), ("Mali-G71", 64));
            let outcome = folder.path().join(result.outcome.as_ref().unwrap());
            assert!(trace_core::container::open(&outcome).is_ok(), "{}", outcome.display());
        } else {
            assert_eq!(result.verdict, RunVerdict::Refused);
            assert!(
                result.failure.as_ref().unwrap().contains("software:mali-g71"),
                "{result:?}"
            );
        }
    }
    let summary = Summary::read(&queue).unwrap();
    assert_eq!(
        (
            summary.cells.len(),
            summary.results_with(RunVerdict::Match),
            summary.repeated
        ),
        (4, 4, 0)
    );
    // Repeats on the simulator are the same bit for bit.
    assert!(summary.cells.values().all(|c| c.fingerprints <= 1));
    assert_eq!(write_table(&queue, &folder.results_path()).unwrap(), 8);
    assert!(std::fs::metadata(folder.results_path()).unwrap().len() > 1000);
    let csv = folder.path().join("results.csv");
    write_table(&queue, &csv).unwrap();
    assert_eq!(std::fs::read_to_string(csv).unwrap().lines().count(), 9);
    // The same command again does nothing.
    assert_eq!(queue.add(&mut farm.matrix.runs()).unwrap(), 0);
    assert_eq!(farm.run(&folder, &queue, &Progress::new(), &|_| {}).done, 0);
}

#[test]
fn a_stopped_campaign_goes_on_and_marks_what_may_have_run() {
    let farm = Farm::new(
        &["vecadd.kine"],
        "targets = [\"software:mali-g71\"]\nrepeats = 6\n[[recordings]]\npath = \"vecadd.kine\"\n",
    );
    let (folder, queue) = farm.open("out");
    let stop = Progress::new();
    let seen = AtomicU64::new(0);
    let end = farm.run(&folder, &queue, &stop, &|_| {
        if seen.fetch_add(1, Ordering::Relaxed) == 1 {
            stop.cancel();
        }
    });
    assert_eq!((end.done, end.stopped), (2, true));
    let counts = queue.counts().unwrap();
    assert_eq!((counts.queued, counts.leased, counts.done), (4, 0, 2));
    assert_eq!(farm.run(&folder, &queue, &Progress::new(), &|_| {}).done, 4);
    assert_eq!(Farm::results(&queue).len(), 6);
}

#[test]
fn a_changed_recording_is_refused_and_named_in_the_comparison() {
    let farm = Farm::new(
        &["vecadd.kine"],
        "targets = [\"software:mali-g71\"]\n[[recordings]]\npath = \"vecadd.kine\"\n",
    );
    let (folder, queue) = farm.open("first");
    farm.run(&folder, &queue, &Progress::new(), &|_| {});
    let (folder, second) = farm.open("second");
    let path = farm.folder.path().join("vecadd.kine");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.push(0);
    std::fs::write(&path, bytes).unwrap();
    farm.run(&folder, &second, &Progress::new(), &|_| {});
    let results = Farm::results(&second);
    assert!(
        results[0]
            .2
            .failure
            .as_ref()
            .unwrap()
            .contains("changed after the campaign was queued")
    );
    let difference = compare(&Summary::read(&queue).unwrap(), &Summary::read(&second).unwrap());
    assert_eq!(
        (difference.cells.len(), difference.cells[0].change.name()),
        (1, "broken")
    );
}

#[test]
fn a_target_out_of_reach_loses_no_run() {
    let farm = Farm::new(
        &["vecadd.kine"],
        "targets = [\"software:mali-g71\", \"agent://127.0.0.1:1/mali-g71\"]\n[[recordings]]\npath = \"vecadd.kine\"\n",
    );
    let (folder, queue) = farm.open("out");
    let end = farm.run(&folder, &queue, &Progress::new(), &|_| {});
    assert_eq!((end.done, end.given_up.len()), (1, 1));
    assert!(end.given_up[0].1.contains("no agent answers"), "{end:?}");
    let counts = queue.counts().unwrap();
    assert_eq!((counts.queued, counts.done), (1, 1));
}

#[test]
fn a_cancelled_run_has_no_result() {
    let farm = Farm::new(
        &["vecadd.kine"],
        "targets = [\"software:mali-g71\"]\n[[recordings]]\npath = \"vecadd.kine\"\n",
    );
    let (folder, queue) = farm.open("out");
    let mut leased = queue.take(G71, "w", Duration::from_secs(60)).unwrap().unwrap();
    let mut executor = Executor::new(G71, "w", Targets::new(None), &folder.outcomes_path());
    let stop = Progress::new();
    stop.cancel();
    let material = RunMaterial::of_campaign(&leased.run.work);
    assert!(matches!(
        executor.execute(&mut leased, &material, None, &stop),
        Attempt::Cancelled
    ));
}

/// A queue whose runs have a folder of their own for kept files, as those of a broker have.
struct OwnFolder<'a> {
    queue: &'a FolderQueue,
    folder: PathBuf,
}

impl RunSource for OwnFolder<'_> {
    fn wait_for_run(&self, target: &str, limit: Duration) -> Result<bool, QueueError> {
        self.queue.wait_for_run(target, limit)
    }

    fn outcome_folder(&self, leased: &LeasedRun) -> Option<PathBuf> {
        (leased.run.repeat == 0).then(|| self.folder.clone())
    }

    fn take(&self, target: &str, worker: &str, lease: Duration) -> Result<Option<LeasedRun>, QueueError> {
        self.queue.take(target, worker, lease)
    }

    fn finish(&self, leased: &LeasedRun, result: &RunResult) -> Result<FinishedRun, QueueError> {
        self.queue.finish(leased, result)
    }

    fn release(&self, leased: &LeasedRun, reason: Option<&str>) -> Result<(), QueueError> {
        self.queue.release(leased, reason)
    }
}

/// Two campaigns of a worker with the same run had one file for both outcomes, and one of them lost it.
#[test]
fn kept_outcomes_are_in_the_folder_that_the_source_of_the_run_names() {
    let text = "targets = [\"software:mali-g71\"]\nrepeats = 2\nkeep-outcomes = \"all\"\n\
                [[recordings]]\npath = \"vecadd.kine\"\n";
    let farm = Farm::new(&["vecadd.kine"], text);
    let (folder, queue) = farm.open("out");
    let own = farm.folder.path().join("own");
    let source = OwnFolder {
        queue: &queue,
        folder: own.clone(),
    };
    let options = CampaignOptions {
        worker: "tester".into(),
        max_workers: 0,
        target_wait: Duration::ZERO,
        outcomes: folder.outcomes_path(),
        targets: Targets::new(Some(farm.folder.path().join("keys"))),
    };
    run_campaign(&source, &[G71.to_owned()], &options, &Progress::new(), &|_| {}).unwrap();
    for (_, _, result) in Farm::results(&queue) {
        let (first, second) = (own.join(format!("{}-1.kine", result.run)), folder.outcomes_path());
        let second = second.join(format!("{}-1.kine", result.run));
        assert!(first.is_file() != second.is_file(), "{result:?}");
    }
    let count = |folder: &PathBuf| std::fs::read_dir(folder).unwrap().count();
    assert_eq!((count(&own), count(&folder.outcomes_path())), (1, 1));
}
