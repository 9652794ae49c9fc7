//! Expectations learned from a good run. No recording contains what a 2D engine draws or a device writes. A plan that
//! learned it on one device diverges where it is missing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use serde_json::Value;
use std::path::Path;
use whole_program_tests::emulated::has_qemu;
use whole_program_tests::{recordings, root, run};

/// Returns the effects: kind, whether they matched, and the event after which they were checked.
fn effects(json: &Value) -> Vec<(String, Option<bool>, Option<u64>)> {
    let all = json["effects"].as_array().unwrap().iter();
    all.map(|e| {
        let kind = e["kind"].as_str().unwrap().to_owned();
        (kind, e["matched"].as_bool(), e["event"].as_u64())
    })
    .collect()
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn learned_dma_results_are_required_on_replay() {
    if !has_qemu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    // The plan is the hand-written one without its expectations of memory.
    let text = std::fs::read_to_string(root().join("sample-traces/edu.plan.txt")).unwrap();
    let without_expectations: Vec<&str> = text
        .lines()
        .filter(|l| !l.starts_with("expect ") && !l.contains(" check "))
        .collect();
    std::fs::write(path("bare.txt"), without_expectations.join("\n") + "\n").unwrap();
    let learned = path("learned.txt");
    let without_expectations = path("bare.txt");
    let ended = run([
        "replay",
        &without_expectations,
        "--on",
        "qemu:edu",
        "--learn",
        &learned,
        "--check-after",
        "29",
        "--json",
    ]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let memory = |event| ("memory".to_owned(), Some(true), event);
    let output = ("output".to_owned(), Some(true), None);
    assert_eq!(effects(&ended.json()), [memory(Some(29)), memory(None), output]);
    // The learned plan is a normal plan.
    let ended = run(["replay", &learned, "--on", "qemu:edu", "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let text = std::fs::read_to_string(&learned).unwrap();
    assert!(text.contains("from \"a run on qemu:edu that was good\""));
    // The device sends only half of the memory back. All reads match, but memory does not.
    let edited: Vec<String> = text
        .lines()
        .map(|l| l.replace("33 write 0 0x90 8 0x800", "33 write 0 0x90 8 0x400"))
        .collect();
    std::fs::write(path("half.txt"), edited.join("\n") + "\n").unwrap();
    let half_copy = path("half.txt");
    let ended = run(["replay", &half_copy, "--on", "qemu:edu", "--json"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let parsed_json = ended.json();
    assert_eq!(
        (&parsed_json["outcome"], &parsed_json["divergence_count"]),
        (&"diverged".into(), &0.into())
    );
    let missing: Vec<_> = effects(&parsed_json)
        .into_iter()
        .filter(|e| e.1 != Some(true))
        .collect();
    let lacks = |kind: &str| (kind.to_owned(), Some(false), None);
    assert_eq!(missing, [lacks("memory"), lacks("output")]);
    // No plan is learned from a failed run, and no file remains.
    let not_learned = path("none.txt");
    let args = ["replay", &half_copy, "--on", "qemu:edu", "--learn", &not_learned];
    run(args).assert_refused("nothing can be learned from the run");
    assert!(!Path::new(&not_learned).exists());
    let args = [
        "replay",
        &without_expectations,
        "--on",
        "qemu:edu",
        "--learn",
        &not_learned,
        "--check-after",
        "99",
    ];
    run(args).assert_refused("after the last event of the plan");
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn learned_rv100_drawing_is_required_on_replay() {
    let (Some(recordings), true) = (recordings(), has_qemu()) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let log = recordings.join("mmiotrace/rv100-radeonfb.txt.gz").display().to_string();
    let device = "qemu:ati-vga,model=rv100";
    let learned = path("learned.txt");
    let ended = run([
        "replay",
        &log,
        "--on",
        device,
        "--learn",
        &learned,
        "--check-after",
        "300000",
        "--json",
    ]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let kinds = |parsed_json: &Value| -> Vec<(String, Option<u64>)> {
        effects(parsed_json)
            .into_iter()
            .map(|(kind, _, event)| (kind, event))
            .collect()
    };
    let window = |event| ("window".to_owned(), event);
    assert_eq!(
        kinds(&ended.json()),
        [("screen".to_owned(), None), window(Some(300_000)), window(None)]
    );
    // Eight writes tell the engine where and what to draw. All reads match without them.
    let text = std::fs::read_to_string(&learned).unwrap();
    let engine = |l: &&str| {
        let mut words = l.split(' ').skip(1);
        words.next() == Some("write")
            && words.next() == Some("0")
            && words.next().is_some_and(|o| o.starts_with("0x14"))
    };
    assert_eq!(text.lines().filter(engine).count(), 8);
    // The plan states its number of actions.
    let adjust_counts = |l: &str| match l.strip_prefix("counts actions ").and_then(|r| r.split_once(' ')) {
        Some((n, rest)) => format!("counts actions {} {rest}", n.parse::<u64>().unwrap() - 8),
        None => l.to_owned(),
    };
    let without: Vec<String> = text.lines().filter(|l| !engine(l)).map(adjust_counts).collect();
    std::fs::write(path("without.txt"), without.join("\n") + "\n").unwrap();
    let without = path("without.txt");
    let ended = run(["replay", &without, "--on", device, "--json"]);
    assert_eq!(
        ended.code,
        Some(1),
        "{} {}",
        ended.err,
        ended.out.chars().take(2000).collect::<String>()
    );
    let report = ended.json();
    assert_eq!(report["outcome"], "diverged");
    assert_eq!(
        report["reads_compared"], report["reads_matched"],
        "no read shows the difference"
    );
    let missing: Vec<_> = effects(&report).into_iter().filter(|e| e.1 != Some(true)).collect();
    let lacks = |kind: &str| (kind.to_owned(), Some(false), None);
    assert!(
        missing.contains(&lacks("window")) && missing.contains(&lacks("screen")),
        "{missing:?}"
    );
    // The complete plan matches on the device of the learning run.
    let ended = run(["replay", &learned, "--on", device, "--json"]);
    assert_eq!((ended.code, &ended.json()["outcome"]), (Some(0), &"match".into()));
}
