//! Expectations learned from a good run: what a 2D engine draws and a device writes is in no recording, and a plan that
//! learned it on one device diverges where it lacks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use serde_json::Value;
use std::path::Path;
use whole_program_tests::emulated::has_qemu;
use whole_program_tests::{recordings, root, run};

/// Effects by kind, whether they were there, and the event behind which they were looked at.
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
    let at = |name: &str| folder.path().join(name).display().to_string();
    // The plan by hand, without what it expects of memory.
    let text = std::fs::read_to_string(root().join("sample-traces/edu.plan.txt")).unwrap();
    let bare: Vec<&str> = text
        .lines()
        .filter(|l| !l.starts_with("expect ") && !l.contains(" check "))
        .collect();
    std::fs::write(at("bare.txt"), bare.join("\n") + "\n").unwrap();
    let learned = at("learned.txt");
    let bare = at("bare.txt");
    let ended = run([
        "replay",
        &bare,
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
    // It is a plan like any other.
    let ended = run(["replay", &learned, "--on", "qemu:edu", "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let text = std::fs::read_to_string(&learned).unwrap();
    assert!(text.contains("from \"a run on qemu:edu that was good\""));
    // Half of it sent back: all reads are as before, and what memory holds is not.
    let edited: Vec<String> = text
        .lines()
        .map(|l| l.replace("33 write 0 0x90 8 0x800", "33 write 0 0x90 8 0x400"))
        .collect();
    std::fs::write(at("half.txt"), edited.join("\n") + "\n").unwrap();
    let half = at("half.txt");
    let ended = run(["replay", &half, "--on", "qemu:edu", "--json"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let parsed_json = ended.json();
    assert_eq!(
        (&parsed_json["outcome"], &parsed_json["divergence_count"]),
        (&"diverged".into(), &0.into())
    );
    let missed: Vec<_> = effects(&parsed_json)
        .into_iter()
        .filter(|e| e.1 != Some(true))
        .collect();
    let lacks = |kind: &str| (kind.to_owned(), Some(false), None);
    assert_eq!(missed, [lacks("memory"), lacks("output")]);
    // Nothing is learned from a run that is not good, and no file is left.
    let none = at("none.txt");
    let args = ["replay", &half, "--on", "qemu:edu", "--learn", &none];
    run(args).assert_refused("nothing can be learned from the run");
    assert!(!Path::new(&none).exists());
    let args = [
        "replay",
        &bare,
        "--on",
        "qemu:edu",
        "--learn",
        &none,
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
    let at = |name: &str| folder.path().join(name).display().to_string();
    let log = recordings.join("mmiotrace/rv100-radeonfb.txt.gz").display().to_string();
    let device = "qemu:ati-vga,model=rv100";
    let learned = at("learned.txt");
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
    // Without the eight writes that tell the engine where and what to draw, all reads are as recorded.
    let text = std::fs::read_to_string(&learned).unwrap();
    let engine = |l: &&str| {
        let mut words = l.split(' ').skip(1);
        words.next() == Some("write")
            && words.next() == Some("0")
            && words.next().is_some_and(|o| o.starts_with("0x14"))
    };
    assert_eq!(text.lines().filter(engine).count(), 8);
    // The line of counts says how many actions there are.
    let counted = |l: &str| match l.strip_prefix("counts actions ").and_then(|r| r.split_once(' ')) {
        Some((n, rest)) => format!("counts actions {} {rest}", n.parse::<u64>().unwrap() - 8),
        None => l.to_owned(),
    };
    let without: Vec<String> = text.lines().filter(|l| !engine(l)).map(counted).collect();
    std::fs::write(at("without.txt"), without.join("\n") + "\n").unwrap();
    let without = at("without.txt");
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
    assert_eq!(report["reads_compared"], report["reads_matched"], "no read tells");
    let missed: Vec<_> = effects(&report).into_iter().filter(|e| e.1 != Some(true)).collect();
    let lacks = |kind: &str| (kind.to_owned(), Some(false), None);
    assert!(
        missed.contains(&lacks("window")) && missed.contains(&lacks("screen")),
        "{missed:?}"
    );
    // The whole plan is good on the device that it learned on.
    let ended = run(["replay", &learned, "--on", device, "--json"]);
    assert_eq!((ended.code, &ended.json()["outcome"]), (Some(0), &"match".into()));
}
