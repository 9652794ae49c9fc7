//! Workers that are shell scripts: start, replacement, cancellation, time limit.

use super::*;
use tempfile::TempDir;

/// Reads the first two messages: to open the GPU, and the request.
const READ: &str = "dd bs=20000 count=2 of=/dev/null 2>/dev/null";
const ANSWER: &str = r#"echo '{"played":{"gpu":"script"}}'"#;
const LIMIT: Duration = Duration::from_secs(60);

/// Workers that run a script in a folder. Each one first adds a line with its process id to the file `started`.
fn workers(script: &str) -> (TempDir, ChannelWorkers) {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("cd '{}'; echo $$ >> started; {script}", folder.path().display());
    let workers = ChannelWorkers::new(move || {
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        command
    });
    (folder, workers)
}

fn image_file(images: &[u8]) -> Result<OwnedFd> {
    create_sealed(|file| file.write_all(images))
}

fn run_within(workers: &ChannelWorkers, limit: Duration, progress: &Progress) -> WorkerEnd {
    let job = WorkerJob {
        request: Request::default(),
        body: b"steps",
        images: &[],
        create_images: &|| image_file(b"images"),
        limit,
    };
    workers.run(0, &job, progress).unwrap()
}

fn run(workers: &ChannelWorkers) -> WorkerEnd {
    run_within(workers, LIMIT, &Progress::new())
}

/// Returns the process ids of the workers that were started.
fn started(folder: &TempDir) -> Vec<u32> {
    let text = std::fs::read_to_string(folder.path().join("started")).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// Waits until a condition holds.
fn wait_until(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LIMIT, "the condition never holds");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a process runs. A zombie does not.
fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn assert_played(end: &WorkerEnd) {
    assert!(
        matches!(end, WorkerEnd::Played(report) if report.gpu == "script"),
        "{end:?}"
    );
}

#[test]
fn a_prestarted_worker_gets_the_request() {
    let (folder, workers) = workers(&format!("{READ}; {ANSWER}"));
    workers.prestart(0);
    workers.prestart(0);
    wait_until(|| started(&folder).len() == 1);
    assert_played(&run(&workers));
    assert_eq!(started(&folder).len(), 1);
    // One for another GPU is not used.
    workers.prestart(7);
    wait_until(|| started(&folder).len() == 2);
    assert_played(&run(&workers));
    assert_eq!(started(&folder).len(), 3);
}

#[test]
fn a_worker_that_ends_before_its_request_is_replaced() {
    for first in ["exit 1", &format!("{READ}; exit 0")] {
        let (folder, workers) = workers(&format!(
            "[ $(wc -l < started) = 1 ] && {{ {first}; }}; {READ}; {ANSWER}"
        ));
        workers.prestart(0);
        wait_until(|| started(&folder).len() == 1);
        if first == "exit 1" {
            wait_until(|| !is_running(started(&folder)[0]));
        }
        assert_played(&run(&workers));
        assert_eq!(started(&folder).len(), 2, "{first}");
    }
}

#[test]
fn a_worker_that_ends_after_its_request_is_reported() {
    for (script, expected) in [("exit 3", "exit status: 3"), ("kill -9 $$", "signal: 9")] {
        let (folder, workers) = workers(&format!("{READ}; {script}"));
        workers.prestart(0);
        let WorkerEnd::Failed(why) = run(&workers) else {
            panic!("{script} is a failure");
        };
        assert!(
            why.contains("the worker process ended") && why.contains(expected),
            "{why}"
        );
        assert_eq!(started(&folder).len(), 1);
    }
}

#[test]
fn waiting_and_cancelled_workers_are_ended() {
    let (folder, workers) = workers("exec sleep 1000");
    workers.prestart(0);
    wait_until(|| started(&folder).len() == 1);
    let waiting = started(&folder)[0];
    assert!(is_running(waiting));
    workers.end_waiting(1);
    assert!(is_running(waiting), "it waits for GPU 0");
    workers.end_waiting(0);
    assert!(!is_running(waiting));

    workers.prestart(0);
    wait_until(|| started(&folder).len() == 2);
    let progress = Progress::new();
    progress.cancel();
    assert_eq!(run_within(&workers, LIMIT, &progress), WorkerEnd::Cancelled);
    assert!(!is_running(started(&folder)[1]));

    let late = run_within(&workers, Duration::from_millis(1), &Progress::new());
    assert!(
        matches!(&late, WorkerEnd::Failed(why) if why.contains("longer than")),
        "{late:?}"
    );
    assert!(!started(&folder).into_iter().any(is_running));
}

#[test]
fn programs_that_do_not_start_are_errors() {
    let missing = ChannelWorkers::new(|| Command::new("/nonexistent/worker"));
    missing.prestart(0);
    let job = WorkerJob {
        request: Request::default(),
        body: &[],
        images: &[],
        create_images: &|| image_file(b""),
        limit: LIMIT,
    };
    assert!(missing.run(0, &job, &Progress::new()).is_err());
}

/// The worker gets the messages in their order; the images are not written a second time.
#[test]
fn a_plan_is_prepared_while_it_is_verified() {
    let read = "dd bs=20000 count=3 of=messages 2>/dev/null";
    let (_other_folder, others) = workers(&format!("{READ}; {ANSWER}"));
    let (folder, workers) = workers(&format!("{read}; {ANSWER}"));
    let digests = [[1; 32], [2; 32]];
    let written = std::cell::Cell::new(0);
    let job = WorkerJob {
        request: Request::default(),
        body: b"steps of the plan",
        images: &digests,
        create_images: &|| {
            written.set(written.get() + 1);
            image_file(b"images")
        },
        limit: LIMIT,
    };
    workers.prestart(0);
    workers.map_early(0, 1 << 39, b"steps");
    workers.map_early(1, 1 << 39, b"steps of another GPU");
    workers.read_images_early(&digests, || image_file(b"images"));
    let end = workers.run(0, &job, &Progress::new()).unwrap();
    assert_played(&end);
    assert_eq!(written.get(), 0, "the images were read early");
    let messages = std::fs::read_to_string(folder.path().join("messages")).unwrap();
    let map = messages.find(r#"{"map":{"control":549755813888}}"#).unwrap();
    assert!(map > messages.find("open").unwrap() && map < messages.find("play").unwrap());
    assert_eq!(messages.matches("map").count(), 1);

    // Images of another plan are not used, and no worker waits.
    workers.map_early(0, 1 << 39, b"steps");
    workers.read_images_early(&digests[..1], || image_file(b"image"));
    others.read_images_early(&digests[..1], || image_file(b"image"));
    assert_played(&others.run(0, &job, &Progress::new()).unwrap());
    assert_eq!(written.get(), 1);
}
