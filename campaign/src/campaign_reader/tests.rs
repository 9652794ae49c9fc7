//! Tests of the reader: what it holds, what it reads again, and damaged logs.

use super::*;
use crate::cell::CellVerdict;
use crate::queue::RunSource as _;
use crate::run::Run;
use crate::run_result::{RunResult, RunVerdict};
use crate::summary::Summary;
use crate::work::WorkItem;
use std::io::Write as _;
use std::time::{Duration, Instant};

const TARGET: &str = "software:mali-g71";

fn work(name: &str) -> WorkItem {
    let file = serde_json::json!({ "path": format!("/{name}"), "name": name, "digest": name });
    serde_json::from_value(serde_json::json!({ "kind": "replay", "recording": file })).unwrap()
}

/// Queues `repeats` runs of each recording.
fn fill(queue: &FolderQueue, names: &[&str], repeats: u32) {
    let runs = |name| (0..repeats).map(move |n| Run::new(work(name), TARGET, n));
    queue.add(&mut names.iter().flat_map(|name| runs(*name))).unwrap();
}

/// Finishes the next `count` runs.
fn finish(queue: &FolderQueue, count: usize) {
    for _ in 0..count {
        let leased = queue.take(TARGET, "w", Duration::from_secs(60)).unwrap().unwrap();
        let result = RunResult {
            verdict: RunVerdict::Match,
            run_ns: 1000 + u64::from(leased.run.repeat),
            ..RunResult::unstarted(&leased, TARGET, "w")
        };
        queue.finish(&leased, &result).unwrap();
    }
}

fn create(folder: &Path) -> CampaignFolder {
    CampaignFolder::create(folder, "c").unwrap()
}

/// Returns the number of runs of each cell.
fn runs(snapshot: &Snapshot) -> Vec<u64> {
    snapshot.cells().map(|cell| cell.cell.runs).collect()
}

#[test]
fn cells_of_an_earlier_reading_stay_while_another_process_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let campaign = create(folder.path());
    let queue = campaign.open_queue().unwrap();
    fill(&queue, &["a", "b"], 3);
    finish(&queue, 4);
    drop(queue);
    let mut reader = CampaignReader::open(folder.path()).unwrap();
    let first = reader.read().unwrap();
    assert_eq!((first.is_elsewhere, runs(&first)), (false, vec![3, 1]));
    // A queue without a log, as an earlier version of the program has it.
    let queue = campaign.open_queue().unwrap();
    campaign.write_queue_status(&queue, true).unwrap();
    let kept = reader.read().unwrap();
    assert_eq!((kept.is_elsewhere, runs(&kept)), (true, vec![3, 1]));
    queue.log_results(&campaign.log_path()).unwrap();
    finish(&queue, 1);
    let followed = reader.read().unwrap();
    assert_eq!((followed.is_elsewhere, runs(&followed)), (true, vec![3, 2]));
    finish(&queue, 1);
    let last = reader.read().unwrap();
    assert_eq!(runs(&last), [3, 3]);
    // A row without new results is the one of the reading before.
    assert!(Arc::ptr_eq(&followed.rows[0], &last.rows[0]) && !Arc::ptr_eq(&followed.rows[1], &last.rows[1]));
    campaign.write_queue_status(&queue, false).unwrap();
    drop(queue);
    assert!(!campaign.log_path().exists());
    let end = reader.read().unwrap();
    assert_eq!(
        (end.is_elsewhere, runs(&end), end.status.counts.done),
        (false, vec![3, 3], 6)
    );
    // A campaign that did not change is not read again.
    assert!(Arc::ptr_eq(&end, &reader.read().unwrap()));
}

#[test]
fn campaign_of_a_killed_process_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let campaign = create(folder.path());
    let queue = campaign.open_running_queue().unwrap();
    fill(&queue, &["a"], 3);
    finish(&queue, 2);
    campaign.write_queue_status(&queue, true).unwrap();
    let log = std::fs::read(campaign.log_path()).unwrap();
    let mut reader = CampaignReader::open(folder.path()).unwrap();
    assert!(reader.read().unwrap().is_elsewhere);
    drop(queue);
    // A process that was killed leaves its log, and a status that says that it runs.
    std::fs::write(campaign.log_path(), log).unwrap();
    let stopped = reader.read().unwrap();
    assert_eq!(
        (stopped.is_elsewhere, stopped.status.running, runs(&stopped)),
        (false, false, vec![2])
    );
    assert!(Arc::ptr_eq(&stopped, &reader.read().unwrap()));
    // Another process goes on.
    let queue = campaign.open_running_queue().unwrap();
    campaign.write_queue_status(&queue, true).unwrap();
    finish(&queue, 1);
    let followed = reader.read().unwrap();
    assert_eq!((followed.is_elsewhere, runs(&followed)), (true, vec![3]));
}

#[test]
fn followed_cells_are_those_of_the_queue() {
    let folder = tempfile::tempdir().unwrap();
    let campaign = create(folder.path());
    let queue = campaign.open_running_queue().unwrap();
    fill(&queue, &["a10", "a9"], 300);
    let mut reader = CampaignReader::new(campaign.clone());
    for _ in 0..6 {
        finish(&queue, 100);
        assert!(!reader.read_running(&queue, true).unwrap().is_elsewhere);
    }
    let shown = reader.read_running(&queue, false).unwrap();
    let names: Vec<&str> = shown.cells().map(|c| c.key.recording.as_str()).collect();
    assert_eq!(names, ["a9", "a10"]);
    for cell in shown.cells() {
        assert_eq!(Some(&cell.cell), Summary::read(&queue).unwrap().cells.get(&cell.key));
        assert_eq!(shown.cell(&cell.key), Some(cell));
        assert_eq!(cell.cell.verdict, CellVerdict::Match);
        let repeats: Vec<u32> = cell.runs.iter().map(|run| run.repeat).collect();
        assert_eq!(repeats, (0..MAX_CELL_RUNS as u32).collect::<Vec<_>>());
    }
}

#[test]
fn damaged_logs_keep_what_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let campaign = create(folder.path());
    let queue = campaign.open_running_queue().unwrap();
    fill(&queue, &["a"], 3);
    finish(&queue, 2);
    let mut reader = CampaignReader::open(folder.path()).unwrap();
    assert_eq!(runs(&reader.read().unwrap()), [2]);
    let append = |text: &str| {
        let mut file = std::fs::File::options().append(true).open(campaign.log_path()).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    // A line without its end waits for the rest.
    append("{\"kind\":");
    assert_eq!(runs(&reader.read().unwrap()), [2]);
    append("3}\n");
    let error = reader.read().unwrap_err().to_string();
    assert!(error.contains("results.log: the line at byte"), "{error}");
    for (text, expected) in [("x", "first line"), ("{\"version\":9,\"id\":\"a\"}\n", "version 9")] {
        std::fs::write(campaign.log_path(), text).unwrap();
        let error = reader.read().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    std::fs::write(campaign.log_path(), "{\"version\":1,\"id\":\"a\"}\n").unwrap();
    assert!(reader.read().unwrap().rows.is_empty());
}

/// A reading of 1,000 new results takes about as long after 100,000 results as after 1,000.
#[test]
#[ignore = "make test-full: writes and reads 100,000 results"]
#[allow(clippy::print_stdout, reason = "the figures are for people")]
fn readings_cost_what_was_appended() {
    const CELLS: usize = 1000;
    let folder = tempfile::tempdir().unwrap();
    let campaign = create(folder.path());
    let queue = campaign.open_running_queue().unwrap();
    let mut log = std::fs::File::options().append(true).open(campaign.log_path()).unwrap();
    let mut reader = CampaignReader::open(folder.path()).unwrap();
    let mut append = |numbers: std::ops::Range<usize>| {
        let mut lines = Vec::new();
        for number in numbers {
            let run = Run::new(work(&format!("r{}", number % CELLS)), TARGET, (number / CELLS) as u32);
            let leased = crate::run::LeasedRun {
                run,
                queued_ms: 0,
                attempt: 1,
                earlier_attempts: Vec::new(),
                token: 0,
            };
            let result = RunResult::unstarted(&leased, TARGET, "w");
            serde_json::to_writer(&mut lines, &LogEntry::new(&leased.run, &result)).unwrap();
            lines.push(b'\n');
        }
        log.write_all(&lines).unwrap();
    };
    let mut time_reading = |numbers: std::ops::Range<usize>| {
        append(numbers);
        let begun = Instant::now();
        let read = reader.read().unwrap();
        (begun.elapsed(), read)
    };
    let (early, _) = time_reading(0..1000);
    let (whole, _) = time_reading(1000..99_000);
    let (late, last) = time_reading(99_000..100_000);
    println!("the first 1,000 results: {early:.2?}; 98,000: {whole:.2?}; the last 1,000: {late:.2?}");
    assert_eq!(runs(&last), vec![100; CELLS]);
    assert!(late < whole / 10, "{late:?} of {whole:?}");
    drop(queue);
}
