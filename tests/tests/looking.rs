//! What the page tables map and how recordings compare, through the command line.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail and tell in these ways"
)]

use serde_json::{Value, json};
use std::path::Path;
use whole_program_tests::{recordings, root, run};

fn of(verb: &str, path: &Path) -> Value {
    let ended = run([verb.as_ref(), path.as_os_str(), "--json".as_ref()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.json()
}

fn sum(rows: &Value, key: &str) -> u64 {
    rows.as_array().unwrap().iter().map(|r| r[key].as_u64().unwrap()).sum()
}

#[test]
fn map_tells_of_each_run_what_is_remarkable_about_it() {
    let sample = root().join("sample-traces/write-value.kine");
    let rows = of("map", &sample);
    assert_eq!(
        sum(&rows, "pages"),
        of("info", &sample)["mapped_pages"].as_u64().unwrap()
    );
    for row in rows.as_array().unwrap() {
        let rights = row["rights"].as_str().unwrap();
        let both = rights.contains('w') && rights.contains('x');
        assert_eq!(row["executable_and_writable"], both, "{row}");
        assert_eq!(
            row["mapped_twice"].as_array().unwrap().is_empty(),
            row["mapped_twice_pages"] == 0
        );
    }
    let text = run(["map".as_ref(), sample.as_os_str()]).out;
    let line = format!(
        "{} pages in {} runs",
        sum(&rows, "pages"),
        rows.as_array().unwrap().len()
    );
    assert!(text.contains(&line), "{text}");
}

#[test]
fn pages_that_mnist_maps_and_does_not_hold_are_counted() {
    let Some(recordings) = recordings() else { return };
    let rows = of("map", &recordings.join("gpureplay/mnist"));
    // All 539 dumped pages are mapped; the others are the weights and the like, which were not dumped.
    assert_eq!(
        (
            sum(&rows, "pages"),
            sum(&rows, "pages_without_content"),
            sum(&rows, "mapped_twice_pages")
        ),
        (1185, 1185 - 539, 0)
    );
}

/// The outcome of a replay differs from its recording in where tables lie, and that is told apart.
#[test]
fn a_recording_and_the_outcome_of_its_replay_are_compared() {
    let sample = root().join("sample-traces/write-value.kine");
    let dir = tempfile::tempdir().unwrap();
    let outcome = dir.path().join("outcome.kine");
    let arguments = [
        "replay".as_ref(),
        sample.as_os_str(),
        "--on".as_ref(),
        "software:mali-g71".as_ref(),
        "-o".as_ref(),
        outcome.as_os_str(),
    ];
    assert_eq!(run(arguments).code, Some(0));
    let ended = run([
        "diff".as_ref(),
        sample.as_os_str(),
        outcome.as_os_str(),
        "--json".as_ref(),
    ]);
    let diff = ended.json();
    assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
    assert!(diff["events"]["relocated"].as_u64().unwrap() > 0, "{diff}");
    assert_eq!(diff["events"]["cut_short"], json!([]));
    let registers = diff["registers"].as_array().unwrap();
    assert!(
        registers
            .iter()
            .all(|r| !r["name"].as_str().unwrap().contains("TRANSTAB")),
        "{registers:?}"
    );
    assert_eq!(diff["jobs"]["a"], diff["jobs"]["b"]);
    // The other way round it says the same of the other side.
    let back = run([
        "diff".as_ref(),
        outcome.as_os_str(),
        sample.as_os_str(),
        "--json".as_ref(),
    ])
    .json();
    for part in ["events", "pages"] {
        assert_eq!(diff[part]["only_a"], back[part]["only_b"], "{part}");
        assert_eq!(diff[part]["changed"], back[part]["changed"], "{part}");
    }
}
