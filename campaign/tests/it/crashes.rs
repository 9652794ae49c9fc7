//! A queue whose process is killed at random moments: nothing is lost, and nothing is done twice without saying so.

use kinescope_campaign::{
    FinishedRun, FolderQueue, LeasedRun, RecordingFile, ReplayWork, Run, RunQueue as _, RunResult, RunSource as _,
    RunVerdict, WorkItem,
};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Variable with the folder that the killed process works in.
const FOLDER: &str = "KINESCOPE_TEST_QUEUE";
/// Variable that is set if the killed process leases runs ahead.
const AHEAD: &str = "KINESCOPE_TEST_LEASES_AHEAD";
const TARGETS: [&str; 4] = ["software:a", "software:b", "software:c", "software:d"];
const REPEATS: u32 = 60;
const LEASE: Duration = Duration::from_secs(60);

fn runs() -> impl Iterator<Item = Run> {
    let work = WorkItem::Replay(ReplayWork {
        recording: RecordingFile {
            path: "/r.kine".into(),
            name: "r.kine".into(),
            digest: "00".repeat(32),
        },
        inputs: BTreeMap::new(),
        tolerance: Vec::new(),
        time_limit_s: None,
        without_containment: false,
        keep_outcomes: Default::default(),
    });
    (0..REPEATS).flat_map(move |n| TARGETS.map(|t| Run::new(work.clone(), t, n)))
}

/// Adds a line to a file. The write is one system call, so that a kill leaves a whole line or none.
fn append(path: &Path, line: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(line.as_bytes()).unwrap();
}

/// Takes the runs of a target and notes each execution in a file of its own, as a device would do the work.
fn work(queue: &FolderQueue, target: &str, folder: &Path) {
    while let Some(leased) = queue.take(target, "worker", LEASE).unwrap() {
        append(
            &folder.join("executed"),
            &format!("{} {}\n", leased.run.id, leased.attempt),
        );
        let result = result(&leased);
        assert_eq!(queue.finish(&leased, &result).unwrap(), FinishedRun::Recorded);
    }
}

fn result(leased: &LeasedRun) -> RunResult {
    RunResult {
        verdict: RunVerdict::Match,
        ..RunResult::unstarted(leased, &leased.run.target, "worker")
    }
}

/// The process that is killed. As an ordinary test it does nothing.
#[test]
fn killed_process() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let queue = FolderQueue::open(&folder.join("queue.redb")).unwrap();
    queue.add(&mut runs()).unwrap();
    let run = || {
        std::thread::scope(|scope| {
            for target in TARGETS {
                let queue = &queue;
                scope.spawn(move || work(queue, target, folder));
            }
        });
    };
    match std::env::var_os(AHEAD) {
        Some(_) => queue.lease_ahead_during(run).unwrap(),
        None => run(),
    }
}

#[test]
fn a_killed_process_loses_no_run_and_every_repeat_is_marked() {
    run_with_kills(&[]);
}

#[test]
fn a_killed_process_that_leases_runs_ahead_loses_none_and_marks_every_repeat() {
    run_with_kills(&[(AHEAD, "1")]);
}

/// Kills processes at random moments until one has done all runs, and compares results with executions.
fn run_with_kills(variables: &[(&str, &str)]) {
    let folder = tempfile::tempdir().unwrap();
    let mut kills = 0;
    // A generator of its own: each run of the test kills at other moments, and prints them.
    let mut seed = u64::from(std::process::id()) | 1;
    loop {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["crashes::killed_process", "--exact", "--test-threads=1"])
            .env(FOLDER, folder.path())
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis(20 + (seed >> 33) % 180));
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        assert!(kills < 2000, "the work does not end");
    }
    let queue = FolderQueue::open(&folder.path().join("queue.redb")).unwrap();
    let mut results = BTreeMap::new();
    queue
        .results(&mut |run, result| {
            assert!(results.insert(run.id, result).is_none());
            true
        })
        .unwrap();
    assert_eq!(results.len(), runs().count());
    assert!(runs().all(|r| results.contains_key(&r.id)));
    let executed = std::fs::read_to_string(folder.path().join("executed")).unwrap();
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    for line in executed.lines() {
        *times.entry(line.split(' ').next().unwrap().to_owned()).or_default() += 1;
    }
    for (id, result) in &results {
        let executed = times.get(&id.to_string()).copied().unwrap_or(0);
        assert!(executed >= 1, "a result without an execution");
        assert!(
            executed <= result.attempt,
            "{id}: {executed} executions, attempt {}",
            result.attempt
        );
        assert_eq!(result.earlier_attempts.len() as u32, (result.attempt - 1).min(8));
    }
    let repeated = results.values().filter(|r| r.is_repeated()).count();
    println!("{kills} kills, {repeated} of {} runs repeated", results.len());
    assert!(kills >= 1);
}
