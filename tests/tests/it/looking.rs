//! Mappings in page tables and comparisons of recordings, on the command line.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test panics when it fails, and prints a line when it is skipped"
)]

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use whole_program_tests::{recordings, root, run, samples};

fn run_json(verb: &str, path: &Path) -> Value {
    let ended = run([verb.as_ref(), path.as_os_str(), "--json".as_ref()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.json()
}

fn sum(rows: &Value, key: &str) -> u64 {
    rows.as_array().unwrap().iter().map(|r| r[key].as_u64().unwrap()).sum()
}

#[test]
fn pagetables_rows_flag_rights_and_double_mappings() {
    let sample = root().join("sample-traces/write-value.kine");
    let rows = run_json("map", &sample);
    assert_eq!(
        sum(&rows, "pages"),
        run_json("info", &sample)["mapped_pages"].as_u64().unwrap()
    );
    for row in rows.as_array().unwrap() {
        let rights = row["rights"].as_str().unwrap();
        let writable_and_executable = rights.contains('w') && rights.contains('x');
        assert_eq!(row["executable_and_writable"], writable_and_executable, "{row}");
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

/// Imports a dump of five pages from 0x8000_0000 on and returns its path. Its tables map one page at address 0x5000.
/// One table of the last level is outside the dump.
fn import_incomplete_dump(folder: &Path) -> PathBuf {
    const BASE: u64 = 0x8000_0000;
    let mut bytes = vec![0u8; 5 * 4096];
    let entries = [
        (0usize, 0usize, (BASE + 0x1000) | 3),
        (1, 0, (BASE + 0x2000) | 3),
        (2, 0, (BASE + 0x3000) | 3),
        (2, 1, 0x9000_0000 | 3),
        (3, 5, (BASE + 0x4000) | 0x443),
    ];
    for (table, index, entry) in entries {
        let at = table * 4096 + index * 8;
        bytes[at..at + 8].copy_from_slice(&entry.to_le_bytes());
    }
    let (dump, kine) = (folder.join("dump.bin"), folder.join("dump.kine"));
    std::fs::write(&dump, bytes).unwrap();
    let arguments = "--raw --base 0x80000000 --root 0x80000000 --format aarch64-4k";
    let import = run(["import", dump.to_str().unwrap(), "-o", kine.to_str().unwrap()]
        .into_iter()
        .chain(arguments.split(' ')));
    assert_eq!(import.code, Some(0), "{import:?}");
    // The page tables count among the pages of the dump.
    assert!(import.out.contains("5 pages (5 distinct)"), "{import:?}");
    kine
}

#[test]
fn incomplete_page_tables_are_shown_partially() {
    let dir = tempfile::tempdir().unwrap();
    let golden = root().join("trace-core/tests/golden/v1-tiny.kine");
    let outside = import_incomplete_dump(dir.path());
    for (kine, pages, address) in [(&golden, 0, "0x1000"), (&outside, 1, "0x90000000")] {
        for verb in ["info", "map"] {
            let text = run([verb.as_ref(), kine.as_os_str()]);
            assert_eq!((text.code, text.err.as_str()), (Some(0), ""), "{verb}: {text:?}");
            let messages: Vec<_> = text
                .out
                .lines()
                .filter(|l| l.contains("is unknown and not counted"))
                .collect();
            assert_eq!(messages.len(), 1, "{verb}: {text:?}");
            assert!(
                messages[0].contains(address) && messages[0].contains("has no content"),
                "{messages:?}"
            );
            // JSON has no field for this message, so standard error reports it with the file.
            let json = run([verb.as_ref(), kine.as_os_str(), "--json".as_ref()]);
            assert_eq!(json.code, Some(0), "{verb}: {json:?}");
            assert!(
                json.err.contains(kine.to_str().unwrap()) && json.err.contains(address),
                "{json:?}"
            );
            let json = json.json();
            let mapped = if verb == "info" {
                json["mapped_pages"].as_u64().unwrap()
            } else {
                sum(&json, "pages")
            };
            assert_eq!(mapped, pages, "{verb}");
        }
        let check = run(["check".as_ref(), kine.as_os_str(), "--json".as_ref()]);
        assert_eq!(check.code, Some(1), "{check:?}");
        let is_reported = check
            .json()
            .as_array()
            .unwrap()
            .iter()
            .any(|f| f["kind"] == "truncated-section" && f["message"].as_str().unwrap().contains(address));
        assert!(is_reported, "{check:?}");
        assert_eq!(run(["verify".as_ref(), kine.as_os_str()]).code, Some(0));
    }
}

#[test]
fn no_recording_has_more_distinct_pages_than_pages() {
    let mut all = samples();
    assert!(!all.is_empty());
    all.push(root().join("trace-core/tests/golden/v1-tiny.kine"));
    all.extend(
        recordings()
            .into_iter()
            .flat_map(|r| ["mnist", "alexnet"].map(|n| r.join("gpureplay").join(n))),
    );
    for path in all {
        let ended = run(["info".as_ref(), path.as_os_str(), "--json".as_ref()]);
        let info = ended.json();
        let count_of = |key: &str| info[key].as_u64().unwrap();
        let (pages, zeros, distinct) = (count_of("pages"), count_of("zero_pages"), count_of("distinct_pages"));
        // All zero pages have the same content.
        let nonzero = pages - zeros;
        let max = nonzero + u64::from(zeros > 0);
        assert!(
            distinct <= max && distinct >= u64::from(pages > 0),
            "{}: {info}",
            path.display()
        );
    }
    let info = run_json("info", &root().join("sample-traces/write-value.kine"));
    assert_eq!(
        (&info["pages"], &info["zero_pages"], &info["distinct_pages"]),
        (&json!(3), &json!(1), &json!(3))
    );
}

#[test]
fn mnist_pages_without_content_are_counted() {
    let Some(recordings) = recordings() else { return };
    let rows = run_json("map", &recordings.join("gpureplay/mnist"));
    // All 539 dumped pages are mapped. The other pages, such as weights, were not dumped.
    assert_eq!(
        (
            sum(&rows, "pages"),
            sum(&rows, "pages_without_content"),
            sum(&rows, "mapped_twice_pages")
        ),
        (1185, 1185 - 539, 0)
    );
}

/// Compares a recording with the outcome of its replay in both directions. Returns the exit code and JSON of the first
/// comparison.
fn compare_with_outcome(recording: &Path) -> (Option<i32>, Value) {
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
    let (forward, backward) = (diff(recording, &outcome), diff(&outcome, recording));
    let json = forward.json();
    assert_eq!(json["events"]["inserted"], backward.json()["events"]["deleted"]);
    assert_eq!(json["events"]["changed"], backward.json()["events"]["changed"]);
    assert_eq!(json["mappings"]["only_a"], backward.json()["mappings"]["only_b"]);
    assert_eq!(json["mappings"]["changed"], backward.json()["mappings"]["changed"]);
    assert_eq!(
        json["memory"]["pages_only_a"],
        backward.json()["memory"]["pages_only_b"]
    );
    assert_eq!(
        json["memory"]["bytes_differ"],
        backward.json()["memory"]["bytes_differ"]
    );
    (forward.code, json)
}

#[test]
fn outcome_of_a_simulator_recording_is_equal() {
    let (code, diff) = compare_with_outcome(&root().join("sample-traces/write-value.kine"));
    assert_eq!((code, &diff["same"]), (Some(0), &json!(true)), "{diff}");
}

/// CPU writes between jobs are compared, however they are split. A replay that matched writes the same.
#[test]
fn host_writes_match_the_outcome_of_a_replay() {
    for name in ["digits.kine", "changes.kine"] {
        let (code, diff) = compare_with_outcome(&root().join("sample-traces").join(name));
        assert_eq!((code, &diff["same"]), (Some(0), &json!(true)), "{name}: {diff}");
        let written = &diff["host_writes"];
        assert!(written["same"].as_u64().unwrap() > 0, "{written}");
        assert_eq!(written["list"], json!([]), "{written}");
    }
}

/// A matching replay of a recording of real hardware is the same recording. Other locations of page tables on the
/// target, numbers of status reads and values of the flush counter do not count as differences.
#[test]
fn outcome_of_a_hardware_recording_differs_only_per_run() {
    let Some(recordings) = recordings() else { return };
    for (name, jobs, pages, flushes) in [("mnist", 23, 1185, 31), ("alexnet", 60, 137_698, 61)] {
        let (code, diff) = compare_with_outcome(&recordings.join("gpureplay").join(name));
        assert_eq!((code, &diff["same"]), (Some(0), &json!(true)), "{name}: {diff}");
        assert_eq!(diff["jobs"], json!({ "a": jobs, "b": jobs }), "{name}");
        let events = &diff["events"];
        assert_eq!(
            (&events["relocated"], &events["uncompared"], &events["cut_short"]),
            (&json!(2), &json!(flushes), &json!([])),
            "{name}"
        );
        // Zero pages and memory that was mapped and not dumped are zero on the target too.
        assert_eq!(diff["memory"]["pages_same"], json!(pages), "{name}");
        let mappings = &diff["mappings"];
        assert_eq!(
            (&mappings["same"], &mappings["list"]),
            (&json!(pages), &json!([])),
            "{name}"
        );
        let folded = &events["folded"];
        assert!(folded["a"].as_u64() > folded["b"].as_u64(), "{name}: {folded}");
    }
}

/// Copies mnist with one changed page-table entry. `gr_pgt` begins with 32 bytes about the tables. Each table follows
/// its address.
fn copy_mnist_with_changed_entry(folder: &Path, mnist: &Path, change: impl Fn(u64) -> u64) {
    for name in ["gr_io_history", "gr_mem_contents", "gr_sync_as"] {
        std::fs::copy(mnist.join(name), folder.join(name)).unwrap();
    }
    let mut tables = std::fs::read(mnist.join("gr_pgt")).unwrap();
    // The first entry at the last level of a mapped, readable, writable and not executable page.
    let entry = |at: usize| u64::from_le_bytes(tables[at..at + 8].try_into().unwrap());
    let is_leaf = |at: &usize| entry(*at) & 0xffff_0000_0000_0fff == 1 << 54 | 0x743;
    let at = (0..tables.len() - 8).step_by(8).find(is_leaf).unwrap();
    let changed = change(entry(at));
    tables[at..at + 8].copy_from_slice(&changed.to_le_bytes());
    std::fs::write(folder.join("gr_pgt"), tables).unwrap();
}

#[test]
fn rights_that_change_in_the_page_tables_are_a_difference() {
    let Some(recordings) = recordings() else { return };
    let mnist = recordings.join("gpureplay/mnist");
    for (change, key, pages) in [
        ((|e| e ^ 1 << 54) as fn(u64) -> u64, "changed", 1),
        (|_| 2, "only_a", 1),
    ] {
        let dir = tempfile::tempdir().unwrap();
        copy_mnist_with_changed_entry(dir.path(), &mnist, change);
        let diff = |a: &Path, b: &Path| run(["diff".as_ref(), a.as_os_str(), b.as_os_str(), "--json".as_ref()]);
        let ended = diff(&mnist, dir.path());
        let json = ended.json();
        assert_eq!((ended.code, &json["same"]), (Some(1), &json!(false)), "{key}");
        let mappings = &json["mappings"];
        assert_eq!(
            (&mappings[key], &mappings["list"][0]["pages"]),
            (&json!(pages), &json!(1)),
            "{mappings}"
        );
        if key == "changed" {
            let text_of = |key: &str| mappings["list"][0][key].as_str().unwrap().to_owned();
            assert_eq!(
                (text_of("rights_a"), text_of("rights_b")),
                ("rw-".to_owned(), "rwx".to_owned())
            );
            let text = run(["diff".as_ref(), mnist.as_os_str(), dir.path().as_os_str()]).out;
            assert!(text.contains("1 page, rw- becomes rwx"), "{text}");
        }
        assert_eq!(diff(dir.path(), &mnist).code, Some(1));
    }
}

/// Part of the history is removed. The timeline file next to it still counts the lost accesses.
#[test]
fn timeline_file_counts_accesses_lost_from_the_history() {
    let Some(recordings) = recordings() else { return };
    let mnist = recordings.join("gpureplay/mnist");
    let history = std::fs::read_to_string(mnist.join("gr_io_history")).unwrap();
    for (from, to) in [(1000, 1101), (0, 500), (2500, 2977), (300, 2500)] {
        let dir = tempfile::tempdir().unwrap();
        for name in ["gr_pgt", "gr_mem_contents", "gr_sync_as", "mnist_integrated"] {
            std::fs::copy(mnist.join(name), dir.path().join(name)).unwrap();
        }
        let mut lines: Vec<&str> = history.split_inclusive('\n').collect();
        lines.drain(from..to);
        std::fs::write(dir.path().join("gr_io_history"), lines.concat()).unwrap();
        assert_eq!(run_json("info", dir.path())["lost_events"], to - from);
        let findings = run(["check".as_ref(), dir.path().as_os_str(), "--json".as_ref()]).json();
        let findings = findings.as_array().unwrap();
        let lost: Vec<_> = findings.iter().filter(|f| f["kind"] == "lost-events").collect();
        assert_eq!(lost.len(), 1, "{findings:?}");
        assert_eq!(lost[0]["severity"], "warning");
        let text = format!("{} register accesses", to - from);
        assert!(lost[0]["message"].as_str().unwrap().starts_with(&text), "{lost:?}");
        let strict = run(["check".as_ref(), dir.path().as_os_str(), "--strict".as_ref()]);
        assert_eq!(strict.code, Some(1));
    }
    for network in ["mnist", "alexnet"] {
        let folder = recordings.join("gpureplay").join(network);
        assert_eq!(run_json("info", &folder)["lost_events"], 0, "{network}");
        let findings = run_json("check", &folder);
        let findings = findings.as_array().unwrap();
        assert!(findings.iter().all(|f| f["kind"] != "lost-events"), "{network}");
    }
    // The timeline of another recording has more accesses, and says nothing about this recording.
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(mnist.join("gr_io_history"), dir.path().join("gr_io_history")).unwrap();
    let other = recordings.join("gpureplay/alexnet/alexnet_integrated");
    std::fs::copy(other, dir.path().join("alexnet_integrated")).unwrap();
    assert_eq!(run_json("info", dir.path())["lost_events"], 0);
}

#[test]
fn pointers_to_a_buffer_are_found_where_descriptors_hold_them() {
    let sample = root().join("sample-traces/vecadd.kine");
    let file = sample.to_str().unwrap();
    let buffers = run_json("info", &sample)["buffers"].clone();
    let a = buffers.as_array().unwrap().iter().find(|b| b["name"] == "a").unwrap();
    let number = |v: &Value| u64::from_str_radix(v.as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
    let (va, bytes) = (number(&a["va"]), a["bytes"].as_u64().unwrap());
    let search = |pattern: &str| {
        let ended = run(["memory", file, "--search", pattern, "--json"]);
        (
            ended.code,
            ended
                .json()
                .as_array()
                .unwrap()
                .iter()
                .map(number)
                .collect::<Vec<u64>>(),
        )
    };
    let (code, hits) = search("->a");
    assert!(
        code == Some(0) && !hits.is_empty(),
        "the search finds the pointers of a shader to its input"
    );
    for at in &hits {
        let word = run(["memory", file, &format!("{at:#x}"), "--bytes", "8", "--json"]).json();
        let hex = word["hex"].as_str().unwrap();
        let bytes_of = (0..8).rev().map(|i| &hex[i * 2..i * 2 + 2]).collect::<String>();
        let to = u64::from_str_radix(&bytes_of, 16).unwrap();
        assert!(
            at % 8 == 0 && (va..va + bytes).contains(&to),
            "{at:#x} contains {to:#x}"
        );
    }
    assert_eq!(search(&format!("->{va:#x}..{:#x}", va + bytes)), (code, hits.clone()));
    // The search finds the same word as bytes, as an expression, and as a number.
    let first = run(["memory", file, &format!("{:#x}", hits[0]), "--bytes", "8", "--json"]).json();
    let hex = first["hex"].as_str().unwrap();
    let expression: String = (0..8).map(|i| format!(r"(?-u:\x{})", &hex[i * 2..i * 2 + 2])).collect();
    let (_, by_bytes) = search(hex);
    assert!(by_bytes.contains(&hits[0]));
    assert_eq!(search(&format!("/(?s){expression}/")).1, by_bytes);
    run(["memory", file, "--search", "/(/"]).assert_refused("unclosed group");
    run(["memory", file, "--search", "->nowhere"]).assert_refused("nor a buffer");
}

/// Returns the events of a list of the command line.
fn events_of(list: &Value) -> Vec<u64> {
    let mut events: Vec<u64> = list
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|r| r["event"].as_u64())
        .collect();
    events.dedup();
    events
}

#[test]
fn references_agree_with_the_filter_and_with_other_verbs() {
    let sample = root().join("sample-traces/vecadd.kine");
    let file = sample.to_str().unwrap();
    let list = |target: &str, options: &[&str]| {
        let ended = run(["references", file, target, "--json"].iter().chain(options));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.json()["references"].clone()
    };
    let filtered = |text: &str| {
        let ended = run(["events", file, "--where", text, "--json"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        events_of(&ended.json())
    };
    for target in [
        "c",
        "a+0x4",
        "0xf7ff9000",
        "JS1_COMMAND_NEXT",
        "JS1_CONFIG_NEXT.start_flush",
    ] {
        assert_eq!(
            filtered(&format!("references {target}")),
            events_of(&list(target, &[])),
            "{target}"
        );
    }
    assert_eq!(
        filtered("references JS1_COMMAND_NEXT"),
        filtered("reg = JS1_COMMAND_NEXT")
    );
    // The job writes its output and reads its inputs.
    let submit = run(["jobs", file, "--json"]).json()[0]["submit_event"]
        .as_u64()
        .unwrap();
    let has_job = |target: &str, options: &[&str]| {
        let found = list(target, options);
        let is_job = |r: &Value| r["kind"] == "job" && r["event"] == submit;
        found.as_array().unwrap().iter().any(is_job)
    };
    assert!(has_job("c", &["--writes"]) && !has_job("c", &["--reads"]));
    assert!(has_job("a", &["--reads", "--job", "0"]) && !has_job("a", &["--writes"]));
    let text = run(["references", file, "c"]).out;
    assert!(text.contains("job 0") && text.contains("points at"), "{text}");
    assert!(text.trim_start().starts_with("Event"), "{text}");
    run(["references", file, "nowhere"]).assert_refused("nor a buffer, a register or a pixel");
    run(["references", file, "c+0x10000000"]).assert_refused("beyond the end of 'c'");
    run(["references", file, "0x1000", "--space", "9"]).assert_refused("does not exist");
    run(["references", file, "1,2"]).assert_refused("describe no screen");
    run(["references", file, "JS1_COMMAND_NEXT", "--level", "3"]).assert_refused("--level is for addresses");
    // A filter is shown with the column of its fault, so its refusal has three lines.
    for (filter, why) in [
        ("references nowhere", "nor a buffer"),
        ("references", "is expected here"),
    ] {
        let refused = run(["events", file, "--where", filter]);
        assert_eq!((refused.code, refused.out.as_str()), (Some(2), ""), "{refused:?}");
        assert!(refused.err.contains(why), "{refused:?}");
    }
}
