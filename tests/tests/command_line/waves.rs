//! `export --to vcd`, `fst` and `perfetto`, and `--where`: written files, messages and refused options. Tests of
//! `trace-waves` read the content of the files.

use serde_json::Value;
use std::path::Path;
use whole_program_tests::{root, run};

fn sample() -> String {
    root().join("sample-traces/chain2.kine").display().to_string()
}

fn export(to: &Path, more: &[&str]) -> Value {
    let file = sample();
    let mut all = vec!["export", &file, "-o", to.to_str().unwrap(), "--json"];
    all.extend(more);
    let ended = run(all);
    assert_eq!(ended.code, Some(0), "{more:?}: {}", ended.err);
    ended.json()
}

fn events(more: &[&str]) -> Vec<Value> {
    let file = sample();
    let mut all = vec!["events", &file, "--json"];
    all.extend(more);
    run(all).json().as_array().unwrap().clone()
}

#[test]
fn waveform_changes_its_index_at_every_event() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("a.vcd");
    let json = export(&to, &["--to", "vcd", "--clock", "events"]);
    let all = events(&[]);
    assert_eq!(json["events"], all.len());
    assert_eq!((&json["left_out"], &json["held_back"]), (&0.into(), &0.into()));
    let text = std::fs::read_to_string(&to).unwrap();
    assert!(
        text.contains("$timescale") && text.contains("JS1_COMMAND_NEXT"),
        "{}",
        &text[..400]
    );
    // Each event has its own time, and the times increase.
    let times: Vec<u64> = text.lines().filter_map(|l| l.strip_prefix('#')?.parse().ok()).collect();
    assert!(
        times.is_sorted_by(|a, b| a < b) && times.len() >= all.len(),
        "{}",
        times.len()
    );
    let signals = text.lines().filter(|l| l.starts_with("$var")).count();
    assert_eq!(json["signals"], signals);
}

#[test]
fn export_filter_applies_to_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let filter = ["--where", "write and reg =~ 'JS1_'"];
    let expected = events(&filter);
    assert!(!expected.is_empty() && expected.len() < events(&[]).len());
    for (format, first) in [("vcd", &b"$"[..]), ("fst", &[0]), ("perfetto", &[0x0a])] {
        let to = dir.path().join(format);
        let json = export(&to, &[&["--to", format][..], &filter].concat());
        assert_eq!(json["events"], expected.len(), "{format}");
        let bytes = std::fs::read(&to).unwrap();
        assert!(bytes.starts_with(first), "{format}: {:?}", &bytes[..4]);
    }
    let csv = dir.path().join("e.csv");
    export(&csv, &[&["--table", "events"][..], &filter].concat());
    let lines = std::fs::read_to_string(&csv).unwrap().lines().count();
    assert_eq!(lines, expected.len() + 1, "one line per event, and the heading");
}

#[test]
fn inapplicable_options_are_refused_and_write_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("x");
    let to = to.to_str().unwrap();
    let csv = dir.path().join("x.csv");
    let csv = csv.to_str().unwrap();
    for (line, needle) in [
        (
            vec!["--to", "vcd", "--name", "n", "-o", to],
            "--name requires --to program",
        ),
        (
            vec!["--to", "program", "--clock", "events", "-o", to],
            "--where and --clock",
        ),
        (
            vec!["--table", "jobs", "--where", "write", "-o", csv],
            "--where selects events",
        ),
        (
            vec!["--to", "fst", "--where", "wriet", "-o", to],
            "did you mean `write`?",
        ),
    ] {
        let file = sample();
        let ended = run([&["export", &file][..], &line].concat());
        assert_eq!(ended.code, Some(2), "{line:?}: {}", ended.err);
        assert!(ended.err.contains(needle), "{line:?}: {}", ended.err);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn file_extension_selects_the_export_format() {
    let dir = tempfile::tempdir().unwrap();
    for (name, first) in [
        ("a.vcd", &b"$"[..]),
        ("a.FST", &[0]),
        ("a.pftrace", &[0x0a]),
        ("a.csv", b"event"),
    ] {
        let to = dir.path().join(name);
        let json = export(&to, &[]);
        let bytes = std::fs::read(&to).unwrap();
        assert!(bytes.starts_with(first), "{name}: {:?}", &bytes[..16]);
        let is_table = name == "a.csv";
        assert_eq!(json["table"] == "events", is_table, "{json}");
        assert_eq!(json["signals"].is_u64(), !is_table, "{json}");
    }
    let (file, csv) = (sample(), dir.path().join("b.csv"));
    run(["export", &file, "-o", csv.to_str().unwrap(), "--clock", "events"])
        .assert_refused("--clock is for waveforms and traces");
    assert!(!csv.exists());
}
