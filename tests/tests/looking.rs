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

/// A recording and the outcome of its replay, compared both ways.
fn compared_with_its_outcome(recording: &Path) -> (Option<i32>, Value) {
    let dir = tempfile::tempdir().unwrap();
    let outcome = dir.path().join("outcome.kine");
    let arguments = [
        "replay".as_ref(),
        recording.as_os_str(),
        "--on".as_ref(),
        "software:mali-g71".as_ref(),
        "-o".as_ref(),
        outcome.as_os_str(),
    ];
    assert_eq!(run(arguments).code, Some(0));
    let diff = |a: &Path, b: &Path| run(["diff".as_ref(), a.as_os_str(), b.as_os_str(), "--json".as_ref()]);
    let (there, back) = (diff(recording, &outcome), diff(&outcome, recording));
    let json = there.json();
    for part in ["events", "pages"] {
        assert_eq!(json[part]["only_a"], back.json()[part]["only_b"], "{part}");
        assert_eq!(json[part]["changed"], back.json()[part]["changed"], "{part}");
    }
    (there.code, json)
}

#[test]
fn the_outcome_of_a_recording_of_the_software_board_is_the_same_again() {
    let (code, diff) = compared_with_its_outcome(&root().join("sample-traces/write-value.kine"));
    assert_eq!((code, &diff["same"]), (Some(0), &json!(true)), "{diff}");
}

/// A matching replay of a recording of real hardware is the same recording: that page tables lie elsewhere on the board,
/// how often a status was read and what the flush counter stood at is told apart from differences.
#[test]
fn the_outcome_of_a_recording_of_real_hardware_is_the_same_but_for_what_is_each_runs_own() {
    let Some(recordings) = recordings() else { return };
    for (name, jobs, pages, flushes) in [("mnist", 23, 1185, 31), ("alexnet", 60, 137_698, 61)] {
        let (code, diff) = compared_with_its_outcome(&recordings.join("gpureplay").join(name));
        assert_eq!((code, &diff["same"]), (Some(0), &json!(true)), "{name}: {diff}");
        assert_eq!(diff["jobs"], json!({ "a": jobs, "b": jobs }), "{name}");
        let events = &diff["events"];
        assert_eq!(
            (&events["relocated"], &events["uncompared"], &events["cut_short"]),
            (&json!(2), &json!(flushes), &json!([])),
            "{name}"
        );
        // Zero pages and memory that was mapped and not dumped are zero on the board too.
        assert_eq!(diff["pages"]["same"], json!(pages), "{name}");
        let folded = &events["folded"];
        assert!(folded["a"].as_u64() > folded["b"].as_u64(), "{name}: {folded}");
    }
}
