//! Tests of the queue in a file: states, leases, and that it loses nothing.

use super::ahead::{Lessor, User};
use super::*;
use crate::queue::VerdictCounts;
use crate::run_result::RunVerdict;
use crate::work::{RecordingFile, ReplayWork, WorkItem};
use redb::TableDefinition;

const LEASE: Duration = Duration::from_secs(60);

fn run(target: &str, repeat: u32) -> Run {
    let work = WorkItem::Replay(ReplayWork {
        recording: RecordingFile {
            path: "/r.kine".into(),
            name: "r.kine".into(),
            digest: "00".repeat(32),
        },
        inputs: Default::default(),
        tolerance: Vec::new(),
        time_limit_s: None,
        without_containment: false,
        keep_outcomes: Default::default(),
    });
    Run::new(work, target, repeat)
}

fn result(leased: &LeasedRun) -> RunResult {
    RunResult {
        run: leased.run.id,
        verdict: RunVerdict::Match,
        computed: true,
        divergence: None,
        failure: None,
        on_target: leased.run.target.clone(),
        gpu: String::new(),
        queued_ms: leased.queued_ms,
        started_ms: 0,
        ended_ms: 0,
        compile_ns: 0,
        upload_ns: 0,
        run_ns: 0,
        device_ns: 0,
        memory_bytes: 0,
        pushed_bytes: 0,
        attempt: leased.attempt,
        earlier_attempts: leased.earlier_attempts.clone(),
        worker: "w".into(),
        fingerprint: String::new(),
        outcome: None,
        details: None,
    }
}

fn counts(queue: &FolderQueue) -> (u64, u64, u64) {
    let c = queue.counts().unwrap();
    (c.queued, c.leased, c.done)
}

#[test]
fn each_run_is_queued_leased_and_done_once() {
    let folder = tempfile::tempdir().unwrap();
    let queue = FolderQueue::open(&folder.path().join("q.redb")).unwrap();
    let runs: Vec<Run> = (0..3).map(|n| run("a", n)).chain([run("b", 0)]).collect();
    assert_eq!(queue.add(&mut runs.iter().cloned()).unwrap(), 4);
    assert_eq!(queue.add(&mut runs.iter().cloned()).unwrap(), 0);
    let first = queue.take("a", "w", LEASE).unwrap().unwrap();
    assert_eq!((first.run.clone(), first.attempt), (runs[0].clone(), 1));
    assert_eq!(counts(&queue), (3, 1, 0));
    assert_eq!(count_targets(&queue.work_counts().unwrap())["a"].leased, 1);
    assert!(queue.take("c", "w", LEASE).unwrap().is_none());
    assert_eq!(queue.finish(&first, &result(&first)).unwrap(), FinishedRun::Recorded);
    assert_eq!(queue.finish(&first, &result(&first)).unwrap(), FinishedRun::HadResult);
    assert_eq!(counts(&queue), (3, 0, 1));
    // A run that did not execute comes first again, and its attempt does not count.
    let second = queue.take("a", "w", LEASE).unwrap().unwrap();
    queue.release(&second, None).unwrap();
    let again = queue.take("a", "w", LEASE).unwrap().unwrap();
    assert_eq!((again.run.id, again.attempt), (second.run.id, 1));
    queue.release(&again, Some("lost")).unwrap();
    // A lease that is over changes nothing.
    queue.release(&second, Some("late")).unwrap();
    let third = queue.take("a", "w", LEASE).unwrap().unwrap();
    assert_eq!((third.attempt, third.earlier_attempts), (2, vec!["lost".to_owned()]));
    let mut unfinished = Vec::new();
    queue
        .unfinished(None, &mut |run, times| {
            unfinished.push((run.id, times));
            true
        })
        .unwrap();
    assert_eq!(unfinished.len(), 3);
    queue.note_published(&[unfinished[0].0]).unwrap();
    let mut rest = Vec::new();
    queue
        .unfinished(Some(unfinished[1].0), &mut |run, times| {
            rest.push((run.id, times));
            true
        })
        .unwrap();
    assert_eq!(rest, unfinished[2..]);
    assert_eq!(count_targets(&queue.work_counts().unwrap())["b"].queued, 1);
}

#[test]
fn expired_leases_end_and_late_results_still_count_once() {
    let folder = tempfile::tempdir().unwrap();
    let queue = FolderQueue::open(&folder.path().join("q.redb")).unwrap();
    queue.add(&mut [run("a", 0)].into_iter()).unwrap();
    let slow = queue.take("a", "slow", Duration::ZERO).unwrap().unwrap();
    std::thread::sleep(Duration::from_millis(5));
    let other = queue.take("a", "other", LEASE).unwrap().unwrap();
    assert_eq!((other.attempt, counts(&queue)), (2, (0, 1, 0)));
    assert!(other.earlier_attempts[0].contains("slow reported nothing"));
    assert_eq!(queue.finish(&slow, &result(&slow)).unwrap(), FinishedRun::Recorded);
    assert_eq!(queue.finish(&other, &result(&other)).unwrap(), FinishedRun::HadResult);
    assert_eq!(counts(&queue), (0, 0, 1));
    let mut seen = Vec::new();
    queue
        .results(&mut |run, result| {
            seen.push((run, result.attempt));
            true
        })
        .unwrap();
    assert_eq!(seen, [(run("a", 0), 1)]);
    assert_eq!(queue.result(seen[0].0.id).unwrap().unwrap().worker, "w");
}

#[test]
fn an_open_queue_is_refused_and_its_leases_end_with_its_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q.redb");
    let queue = FolderQueue::open(&path).unwrap();
    queue.add(&mut [run("a", 0)].into_iter()).unwrap();
    queue.take("a", "first", LEASE).unwrap().unwrap();
    assert!(matches!(FolderQueue::open(&path), Err(QueueError::InUse(_))));
    drop(queue);
    let queue = FolderQueue::open(&path).unwrap();
    let leased = queue.take("a", "second", LEASE).unwrap().unwrap();
    assert_eq!(leased.attempt, 2);
    assert_eq!(leased.earlier_attempts, ["the process of first ended without a result"]);
    let mut recorded = result(&leased);
    assert_eq!(queue.record(&[recorded.clone(), recorded.clone()]).unwrap(), 1);
    // A broker may deliver a run twice; the first result stays, and says so.
    let later = RunResult {
        attempt: 3,
        worker: "third".into(),
        ..recorded.clone()
    };
    assert_eq!(queue.record(&[later]).unwrap(), 0);
    let stored = queue.result(recorded.run).unwrap().unwrap();
    assert_eq!((stored.attempt, stored.worker.as_str()), (3, "w"));
    recorded.run = run("unknown", 0).id;
    assert_eq!(queue.record(&[recorded]).unwrap(), 0);
}

#[test]
fn runs_are_counted_by_target_kind_and_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q.redb");
    let queue = FolderQueue::open(&path).unwrap();
    let bisection = |repeat| {
        let file = r#"{"path":"/a","name":"a","digest":"00"}"#;
        let work = format!(r#"{{"kind":"bisect","recording":{file},"max_candidates":9}}"#);
        Run::new(serde_json::from_str(&work).unwrap(), "a", repeat)
    };
    queue
        .add(&mut [run("a", 0), bisection(0), run("a", 1), bisection(1), run("b", 0)].into_iter())
        .unwrap();
    for verdict in [RunVerdict::Diverged, RunVerdict::Failed] {
        let leased = queue.take("a", "w", LEASE).unwrap().unwrap();
        let recorded = RunResult {
            verdict,
            ..result(&leased)
        };
        queue.finish(&leased, &recorded).unwrap();
        queue.finish(&leased, &recorded).unwrap();
    }
    queue.take("a", "w", LEASE).unwrap().unwrap();
    let rows = queue.work_counts().unwrap();
    let numbers = |target: &str, kind: &str| {
        let row = rows
            .iter()
            .find(|r| (r.target.as_str(), r.kind.as_str()) == (target, kind));
        let row = row.unwrap();
        let VerdictCounts { diverged, failed, .. } = row.verdicts;
        (row.counts.queued, row.counts.leased, row.counts.done, diverged, failed)
    };
    assert_eq!(rows.len(), 3);
    assert_eq!(numbers("a", "replay"), (0, 1, 1, 1, 0));
    assert_eq!(numbers("a", "bisect"), (1, 0, 1, 0, 1));
    assert_eq!(numbers("b", "replay"), (1, 0, 0, 0, 0));
    // The numbers of a queue that an earlier version wrote are computed; its leases end when it is opened.
    queue
        .file
        .write(|write| {
            type Counts = (u64, u64, u64, u64, u64);
            let table: TableDefinition<'_, (&str, &str), Counts> = TableDefinition::new("work-counts");
            assert!(write.delete_table(table)?);
            Ok(())
        })
        .unwrap();
    drop(queue);
    let queue = FolderQueue::open(&path).unwrap();
    let mut expected = rows;
    for row in &mut expected {
        row.counts.queued += std::mem::take(&mut row.counts.leased);
    }
    assert_eq!(queue.work_counts().unwrap(), expected);
}

#[test]
fn a_result_is_on_the_disk_when_the_next_run_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q.redb");
    // A copy of the file is what a killed process leaves.
    let reopened = |name: &str| {
        let copy = folder.path().join(name);
        std::fs::copy(&path, &copy).unwrap();
        counts(&FolderQueue::open(&copy).unwrap())
    };
    let queue = FolderQueue::open(&path).unwrap();
    queue.add(&mut (0..3).map(|n| run("a", n))).unwrap();
    for done in 0..3 {
        let leased = queue.take("a", "w", LEASE).unwrap().unwrap();
        assert_eq!(reopened("taken"), (3 - done, 0, done));
        assert_eq!(queue.finish(&leased, &result(&leased)).unwrap(), FinishedRun::Recorded);
        assert_eq!(queue.finish(&leased, &result(&leased)).unwrap(), FinishedRun::HadResult);
    }
    assert!(!queue.wait_for_run("a", Duration::ZERO).unwrap());
    assert_eq!(reopened("ended"), (0, 0, 3));
}

#[test]
fn the_next_run_of_a_target_is_leased_while_one_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q.redb");
    let queue = FolderQueue::open(&path).unwrap();
    queue
        .add(&mut (0..5).map(|n| run("a", n)).chain([run("b", 0)]))
        .unwrap();
    let reopened = |name: &str| {
        let copy = folder.path().join(name);
        std::fs::copy(&path, &copy).unwrap();
        FolderQueue::open(&copy).unwrap()
    };
    let take = || queue.take("a", "w", LEASE).unwrap().unwrap();
    let ended = queue.lease_ahead_during(|| {
        let first = take();
        assert!(queue.ahead.has_run("a") && !queue.ahead.has_run("b"));
        // For people, one run is running; the disk says that two may be.
        assert_eq!(counts(&queue), (5, 1, 0));
        assert_eq!(count_targets(&queue.work_counts().unwrap())["a"].leased, 1);
        let copy = reopened("first");
        let attempts: Vec<u32> = (0..5)
            .map(|_| copy.take("a", "w", LEASE).unwrap().unwrap().attempt)
            .collect();
        assert_eq!(attempts, [2, 2, 1, 1, 1]);
        queue.finish(&first, &result(&first)).unwrap();
        let second = take();
        assert_eq!((second.run.repeat, second.attempt), (1, 1));
        // The commit that leases the third run stores the first one's result.
        assert!(queue.ahead.has_run("a"));
        assert_eq!(counts(&reopened("second")), (5, 0, 1));
        // A run that is repeated comes after the one that is here, and nothing is leased ahead while it runs.
        queue.release(&second, Some("lost")).unwrap();
        let third = take();
        assert_eq!((third.run.repeat, queue.ahead.has_run("a")), (2, false));
        queue.finish(&third, &result(&third)).unwrap();
        let again = take();
        assert_eq!((again.run.id, again.attempt), (second.run.id, 2));
        assert!(!queue.ahead.has_run("a"));
        queue.finish(&again, &result(&again)).unwrap();
        let fourth = take();
        assert_eq!((fourth.run.repeat, queue.ahead.has_run("a")), (3, true));
        // A target that cannot be used gives its next run back.
        queue.decline("a").unwrap();
        assert_eq!((counts(&queue), queue.ahead.has_run("a")), ((2, 1, 3), false));
        queue.finish(&fourth, &result(&fourth)).unwrap();
        assert_eq!(queue.take("b", "w", LEASE).unwrap().unwrap().attempt, 1);
    });
    ended.unwrap();
    assert_eq!(counts(&queue), (1, 1, 4));
    let unnamed = queue.unnamed_targets(&BTreeSet::from(["a"])).unwrap();
    assert_eq!(
        (unnamed[0].target.as_str(), unnamed[0].waiting, unnamed.len()),
        ("b", 1, 1)
    );
    let fifth = take();
    assert_eq!((fifth.run.repeat, fifth.attempt), (4, 1));
    assert!(!queue.ahead.has_run("a"), "nobody leases runs ahead any more");
}

#[test]
fn runs_that_no_target_began_are_queued_again_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let queue = FolderQueue::open(&folder.path().join("q.redb")).unwrap();
    queue.add(&mut (0..3).map(|n| run("a", n))).unwrap();
    let leased = queue.lease_ahead_during(|| {
        let leased = queue.take("a", "w", LEASE).unwrap().unwrap();
        assert!(queue.ahead.has_run("a"));
        leased
    });
    queue.release(&leased.unwrap(), None).unwrap();
    assert_eq!(counts(&queue), (3, 0, 0));
    for repeat in 0..3 {
        let leased = queue.take("a", "w", LEASE).unwrap().unwrap();
        assert_eq!((leased.run.repeat, leased.attempt), (repeat, 1));
    }
    // The thread ends when the work panics.
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        queue.lease_ahead_during(|| panic!("a test's"))
    }));
    assert!(ended.is_err());
}

/// While the lease of the next run was on its way to the disk, two runs of a target were running.
#[test]
fn one_run_of_a_target_is_running_at_any_time() {
    let folder = tempfile::tempdir().unwrap();
    let queue = FolderQueue::open(&folder.path().join("q.redb")).unwrap();
    queue.add(&mut (0..50).map(|n| run("a", n))).unwrap();
    let ended = queue.lease_ahead_during(|| {
        for done in 0..50 {
            let leased = queue.take("a", "w", LEASE).unwrap().unwrap();
            assert_eq!(counts(&queue), (49 - done, 1, done));
            assert_eq!(count_targets(&queue.work_counts().unwrap())["a"].leased, 1);
            queue.finish(&leased, &result(&leased)).unwrap();
        }
    });
    ended.unwrap();
}

#[test]
fn a_thread_that_panics_while_it_leases_keeps_no_target_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let queue = FolderQueue::open(&folder.path().join("q.redb")).unwrap();
    queue.add(&mut (0..2).map(|n| run("a", n))).unwrap();
    let (_user, lessor) = (User::new(&queue.ahead), Lessor::new(&queue.ahead));
    queue.take("a", "w", LEASE).unwrap().unwrap();
    let ended = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            assert_eq!(lessor.next_requests().unwrap().len(), 1);
            let _ended = lessor;
            panic!("a test's")
        });
        assert!(!queue.ahead.has_run("a"));
        thread.join()
    });
    assert!(ended.is_err());
    // The target leases its run itself.
    assert_eq!(queue.take("a", "w", LEASE).unwrap().unwrap().run.repeat, 1);
}

#[test]
fn a_queue_that_is_closed_stores_its_results() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q.redb");
    let queue = FolderQueue::open(&path).unwrap();
    queue.add(&mut (0..2).map(|n| run("a", n))).unwrap();
    let leased = queue.take("a", "w", LEASE).unwrap().unwrap();
    queue.finish(&leased, &result(&leased)).unwrap();
    // It is a result for those who read, before a commit of its own.
    assert_eq!(queue.result(leased.run.id).unwrap(), Some(result(&leased)));
    let leased = queue.take("a", "w", LEASE).unwrap().unwrap();
    queue.finish(&leased, &result(&leased)).unwrap();
    drop(queue);
    assert_eq!(counts(&FolderQueue::open(&path).unwrap()), (0, 0, 2));
}

#[test]
fn files_that_are_no_queue_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q.redb");
    std::fs::write(&path, vec![7; 10_000]).unwrap();
    let failed = FolderQueue::open(&path).unwrap_err();
    assert!(matches!(failed, QueueError::Storage { .. }), "{failed}");
    // A new queue would hide that all results are lost.
    std::fs::write(&path, "").unwrap();
    let failed = FolderQueue::open(&path).unwrap_err();
    assert!(failed.to_string().contains("the file is empty"), "{failed}");
    std::fs::write(&path, vec![7; 10_000]).unwrap();
    let failed = FolderQueue::open(&path).unwrap_err();
    assert!(matches!(failed, QueueError::Storage { .. }), "{failed}");
    assert!(!parse_entry(b"{}") && !parse_entry(&vec![b' '; MAX_ENTRY_BYTES + 1]));
    assert!(parse_entry(&serde_json::to_vec(&run("a", 1)).unwrap()));
}

/// One damaged file of five ended the program with a panic.
#[test]
fn damaged_files_are_refused_or_read_without_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q.redb");
    let queue = FolderQueue::open(&path).unwrap();
    queue.add(&mut (0..200).map(|n| run("a", n))).unwrap();
    for _ in 0..50 {
        let leased = queue.take("a", "w", LEASE).unwrap().unwrap();
        queue.finish(&leased, &result(&leased)).unwrap();
    }
    drop(queue);
    let whole = std::fs::read(&path).unwrap();
    let mut seed = 0x9e37_79b9_u64;
    let mut random = |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let mut refused = 0;
    for _ in 0..100 {
        let mut bytes = whole.clone();
        for _ in 0..[1, 3, 20][random(3)] {
            let (at, count) = (random(bytes.len()), [1, 4, 64, 4096][random(4)]);
            bytes
                .iter_mut()
                .skip(at)
                .take(count)
                .for_each(|b| *b = random(256) as u8);
        }
        let damaged = folder.path().join("damaged.redb");
        std::fs::write(&damaged, bytes).unwrap();
        let used = FolderQueue::open(&damaged).and_then(|queue| {
            queue.take("a", "w", LEASE)?;
            queue.results(&mut |_, _| true)?;
            queue.work_counts()
        });
        refused += usize::from(used.is_err());
    }
    assert!(refused > 50, "{refused} of 100 are refused");
}
