//! The published recordings on the command line, with known figures.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test panics when it fails, and prints a line when it is skipped"
)]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use whole_program_tests::{recordings, run};

fn folder(network: &str) -> Option<PathBuf> {
    Some(recordings()?.join("gpureplay").join(network))
}

fn info(network: &str) -> Option<Value> {
    let folder = folder(network)?;
    let ended = run(["info".as_ref(), folder.as_os_str(), "--json".as_ref()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    Some(ended.json())
}

fn assert_keys(value: &Value, expected: Value) {
    for (key, expected_value) in expected.as_object().unwrap() {
        assert_eq!(&value[key], expected_value, "{key}");
    }
}

#[test]
fn mnist_matches_known_counts() {
    let Some(info) = info("mnist") else { return };
    assert_keys(
        &info,
        json!({ "events": 2977, "reads": 2603, "writes": 374, "jobs": 23, "interrupts": 26, "pages": 539,
                "zero_pages": 512, "distinct_pages": 28, "mapped_pages": 1185, "address_spaces": 1,
                "lost_events": 0, "source": "gpureplay" }),
    );
    assert_eq!(info["gpu"]["id"], "0x60a00002");
    assert_eq!(info["buffers"].as_array().unwrap().len(), 11);
    let named = |name: &str| {
        info["buffers"]
            .as_array()
            .unwrap()
            .iter()
            .find(|b| b["name"] == name)
            .unwrap()
            .clone()
    };
    assert_eq!(
        (&named("input")["role"], &named("input")["bytes"]),
        (&json!("input"), &json!(6272))
    );
    assert_eq!(
        (&named("output")["role"], &named("output")["bytes"]),
        (&json!("output"), &json!(64))
    );
}

#[test]
fn alexnet_info_reports_the_expected_counts() {
    let Some(info) = info("alexnet") else { return };
    assert_keys(
        &info,
        json!({ "events": 8542, "reads": 7652, "writes": 890, "jobs": 60, "interrupts": 63, "pages": 571,
                "zero_pages": 512, "distinct_pages": 57, "mapped_pages": 137_698, "address_spaces": 1 }),
    );
    assert_eq!(info["buffers"].as_array().unwrap().len(), 19);
}

#[test]
fn every_published_job_decodes() {
    for (network, count, long) in [("mnist", 23, 0), ("alexnet", 60, 1)] {
        let Some(folder) = folder(network) else { return };
        let jobs = run(["jobs".as_ref(), folder.as_os_str(), "--json".as_ref()]).json();
        let jobs = jobs.as_array().unwrap();
        assert_eq!(jobs.len(), count, "{network}");
        for (index, job) in jobs.iter().enumerate() {
            assert_eq!(job["index"], index);
            assert_eq!(
                (&job["type"], &job["decoded"]),
                (&json!("compute"), &json!(true)),
                "{network}: {job}"
            );
            assert!(job["head_va"].as_str().unwrap().starts_with("0x"));
            assert!(job["submit_event"].as_u64().unwrap() < job["done_event"].as_u64().unwrap());
            assert!(job["duration_ns"].as_u64().unwrap() > 0);
            assert!(job["shader_va"].as_str().unwrap().starts_with("0x"));
            let size = job["dispatch"]["size"].as_array().unwrap();
            assert!(size.iter().all(|n| n.as_u64().unwrap() >= 1), "{network}: {job}");
            assert_eq!(job["chain"][0]["va"], job["head_va"]);
        }
        let chains = jobs
            .iter()
            .filter(|j| j["chain"].as_array().unwrap().len() == 2)
            .count();
        assert_eq!(chains, long, "{network}");
    }
}

#[test]
fn published_recordings_have_no_error_findings() {
    for network in ["mnist", "alexnet"] {
        let Some(folder) = folder(network) else { return };
        let ended = run(["check".as_ref(), folder.as_os_str(), "--json".as_ref()]);
        assert_eq!(ended.code, Some(0), "{network}: {ended:?}");
        for finding in ended.json().as_array().unwrap() {
            assert_ne!(finding["severity"], "error", "{network}: {finding}");
            for key in ["kind", "place", "message"] {
                assert!(
                    finding[key].as_str().is_some_and(|t| !t.is_empty()),
                    "{network}: {finding}"
                );
            }
        }
    }
}

#[test]
fn mnist_kine_file_reports_the_same_as_its_source() {
    let Some(folder) = folder("mnist") else { return };
    let dir = tempfile::tempdir().unwrap();
    let kine = dir.path().join("mnist.kine");
    let import = run([
        "import".as_ref(),
        folder.as_os_str(),
        "-o".as_ref(),
        kine.as_os_str(),
        "--json".as_ref(),
    ]);
    assert_eq!(import.code, Some(0), "{import:?}");
    assert_eq!(import.json()["events"], 2977);
    for verb in ["info", "jobs", "check", "map"] {
        let run_verb = |path: &std::path::Path| run([verb.as_ref(), path.as_os_str(), "--json".as_ref()]);
        let (a, b) = (run_verb(&folder), run_verb(&kine));
        assert_eq!((a.code, a.out), (b.code, b.out), "{verb}");
    }
    let verified = run(["verify".as_ref(), kine.as_os_str(), "--json".as_ref()]);
    assert_eq!((verified.code, &verified.json()["sound"]), (Some(0), &json!(true)));
    let same = run(["diff".as_ref(), folder.as_os_str(), kine.as_os_str()]);
    assert_eq!(same.code, Some(0), "{same:?}");
}

#[test]
fn names_and_values_agree_with_the_authors_timeline() {
    for network in ["mnist", "alexnet"] {
        let Some(folder) = folder(network) else { return };
        let events = run(["events".as_ref(), folder.as_os_str(), "--json".as_ref()]).json();
        let ours: Vec<(u64, ReportedAccess)> = events
            .as_array()
            .unwrap()
            .iter()
            .map(|e| {
                let text = |k: &str| e[k].as_str().unwrap().to_owned();
                let report = (e["kind"] == "write", text("offset"), text("value"), text("register"));
                (e["thread"].as_u64().unwrap(), report)
            })
            .collect();
        let integrated = std::fs::read_to_string(folder.join(format!("{network}_integrated"))).unwrap();
        let theirs: Vec<(u64, ReportedAccess)> = integrated.lines().filter_map(parse_timeline_line).collect();
        assert_eq!(ours.len(), theirs.len(), "{network}");
        // The history is in the order of the accesses. Accesses of two threads can be swapped in the timeline. Each
        // thread's own accesses are in order in both.
        let by_thread = |all: &[(u64, ReportedAccess)]| {
            let mut threads: BTreeMap<u64, Vec<ReportedAccess>> = BTreeMap::new();
            for (thread, reported) in all {
                threads.entry(*thread).or_default().push(reported.clone());
            }
            threads
        };
        let (ours_by, theirs_by) = (by_thread(&ours), by_thread(&theirs));
        assert!(ours_by.len() > 1, "{network}: the recording knows its threads");
        for (thread, entries) in &theirs_by {
            let our_entries = &ours_by[thread];
            let differs = entries.iter().zip(our_entries).position(|(a, b)| a != b);
            assert_eq!(
                (entries.len(), differs),
                (our_entries.len(), None),
                "{network}: thread {thread}"
            );
        }
        let swapped = ours.iter().zip(&theirs).filter(|(a, b)| a.1 != b.1).count();
        assert_eq!(swapped, if network == "mnist" { 0 } else { 10 }, "{network}");
    }
}

/// An access as reported: whether it writes, offset, value, and register name.
type ReportedAccess = (bool, String, String, String);

/// Parses a line of the timeline, such as `… IO … R reg 0x000018e0 val 1  JOB_CTRL | JOB_SLOT1 | JS_COMMAND_NEXT (WO) |
/// JS_COMMAND_START`. After the value come the block, an optional slot or address space, the register with its access
/// note, and sometimes the value's meaning.
fn parse_timeline_line(line: &str) -> Option<(u64, ReportedAccess)> {
    let (head, rest) = line.split_once(" reg ")?;
    let mut head = head.split_whitespace().skip(1);
    if head.next() != Some("IO") {
        return None;
    }
    let thread = head.next()?.parse().ok()?;
    let write = head.last()? == "W";
    let mut words = rest.split_whitespace();
    let offset = u32::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok()?;
    let value = u32::from_str_radix(words.nth(1)?, 16).ok()?;
    let mut parts = rest
        .split('|')
        .skip(1)
        .map(|part| part.split('(').next().unwrap_or_default().trim());
    let first = parts.next()?;
    let name = if let Some(slot) = first.strip_prefix("JOB_SLOT") {
        parts.next()?.replacen("JS_", &format!("JS{slot}_"), 1)
    } else if let Some(space) = first.strip_prefix("MMU_AS") {
        parts.next()?.replacen("AS_", &format!("AS{space}_"), 1)
    } else {
        first.to_owned()
    };
    Some((thread, (write, format!("{offset:#x}"), format!("{value:#x}"), name)))
}

fn replay(network: &str, extra: &[&str]) -> Option<Value> {
    let folder = folder(network)?;
    let mut arguments = vec![
        "replay",
        folder.to_str().unwrap(),
        "--on",
        "software:mali-g71",
        "--json",
    ];
    arguments.extend(extra);
    let ended = run(arguments);
    assert_eq!(
        ended.code,
        Some(0),
        "{network}: {} {}",
        ended.err,
        ended.out.chars().take(4000).collect::<String>()
    );
    Some(ended.json())
}

#[test]
fn mnist_and_alexnet_replay_on_the_simulator() {
    for (network, compared, reads, jobs, interrupts) in [("mnist", 2580, 2603, 23, 26), ("alexnet", 7592, 7652, 60, 63)]
    {
        let Some(outcome) = replay(network, &[]) else { return };
        assert_keys(
            &outcome,
            json!({ "outcome": "match", "computed": false, "reads_compared": compared, "reads_matched": compared,
                    "jobs": jobs, "interrupts": interrupts, "divergences": [] }),
        );
        let classes = outcome["reads"].as_object().unwrap();
        let sum: u64 = classes.values().map(|v| v.as_u64().unwrap()).sum();
        assert_eq!(sum, reads, "{network}: every recorded read counts once");
        for rewrite in [
            "root",
            "flush-id",
            "job-status",
            "read-to-wait",
            "wait-added",
            "gap",
            "output",
        ] {
            assert!(
                outcome["rewrites"][rewrite].as_u64().is_some_and(|n| n > 0),
                "{network}: {rewrite}"
            );
        }
        assert_eq!(outcome["rewrites"]["wait-added"], interrupts, "{network}");
        assert_eq!(outcome["outputs"][0]["name"], "output");
        assert_eq!(outcome["outputs"][0]["blake3"].as_str().unwrap().len(), 64);
        assert!(outcome["pushed_bytes"].as_u64().unwrap() > 0);
        assert!(outcome["timing"]["run_ns"].as_u64().unwrap() > 0);
    }
}

#[test]
fn recording_with_truncated_memory_fails_to_replay() {
    let Some(complete) = folder("mnist") else { return };
    let dir = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(&complete).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_owned();
        if !path.is_file() {
            continue;
        }
        if name == "gr_mem_contents" {
            let mut start = vec![0; 1_000_000];
            std::io::Read::read_exact(&mut std::fs::File::open(&path).unwrap(), &mut start).unwrap();
            std::fs::write(dir.path().join(name), start).unwrap();
        } else {
            std::fs::copy(&path, dir.path().join(name)).unwrap();
        }
    }
    let cut = dir.path().to_str().unwrap();
    let replay_cut = |extra: &[&str]| {
        let ended = run(["replay", cut, "--on", "software:mali-g71"].iter().chain(extra));
        assert_eq!(ended.code, Some(1), "{ended:?}");
        ended
    };
    let outcome = replay_cut(&["--json"]).json();
    assert_keys(&outcome, json!({ "outcome": "failed", "computed": false, "jobs": 23 }));
    let done = outcome["job_outcomes"].as_array().unwrap().iter();
    assert_eq!(done.filter(|j| j["done"] == true).count(), 0);
    let text = replay_cut(&[]).out;
    assert!(
        text.contains("no: 23 of 23 jobs did not end as done") && !text.contains("every shader ran"),
        "{text}"
    );
}

#[test]
fn hundred_runs_are_bit_identical() {
    let Some(single) = replay("mnist", &[]) else { return };
    let Some(repeated) = replay("mnist", &["--repeat", "100"]) else {
        return;
    };
    assert_eq!(single["fingerprint"], repeated["fingerprint"]);
    assert_eq!(repeated["timing"]["runs"]["count"], 100);
    assert!(repeated["timing"]["runs"]["p50_ns"].as_u64() <= repeated["timing"]["runs"]["p99_ns"].as_u64());
}

#[test]
fn edited_input_changes_the_requested_outputs() {
    let Some(folder) = folder("mnist") else { return };
    let dir = tempfile::tempdir().unwrap();
    let (input, returned, outcome) = (
        dir.path().join("in.bin"),
        dir.path().join("back.npy"),
        dir.path().join("o.kine"),
    );
    let bytes: Vec<u8> = (0..6272u32).map(|i| (i * 7) as u8).collect();
    std::fs::write(&input, &bytes).unwrap();
    let ended = run([
        "replay",
        folder.to_str().unwrap(),
        "--on",
        "software:mali-g71",
        "--json",
        "--input",
        &format!("input={}", input.display()),
        "--output",
        &format!("input={}", returned.display()),
        "-o",
        outcome.to_str().unwrap(),
    ]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let json = ended.json();
    assert_eq!(json["rewrites"]["input"], 1);
    let npy = std::fs::read(&returned).unwrap();
    assert!(npy.starts_with(b"\x93NUMPY"));
    assert!(
        npy.ends_with(&bytes),
        "no shader ran, so the input buffer is returned unchanged"
    );
    let names: Vec<&str> = json["outputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| o["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"input") && names.contains(&"output"), "{names:?}");
    // The outcome is a recording.
    let info = run(["info".as_ref(), outcome.as_os_str(), "--json".as_ref()]);
    assert_eq!(info.code, Some(0), "{info:?}");
    assert_eq!(info.json()["jobs"], 23);
}

#[test]
fn wrong_inputs_are_refused_before_anything_runs() {
    let Some(folder) = folder("mnist") else { return };
    let dir = tempfile::tempdir().unwrap();
    let short = dir.path().join("short.bin");
    std::fs::write(&short, [0; 100]).unwrap();
    let replay = |input: String| {
        run([
            "replay",
            folder.to_str().unwrap(),
            "--on",
            "software:mali-g71",
            "--input",
            &input,
        ])
    };
    replay(format!("input={}", short.display())).assert_refused("takes exactly 6272");
    replay(format!("nothing={}", short.display())).assert_refused("no buffer 'nothing' (it has: sync0");
    replay("input=/nowhere/at/all".into()).assert_refused("/nowhere/at/all");
    run(["replay", folder.to_str().unwrap(), "--on", "software:mali-g99"]).assert_refused("software:mali-g71");
    run(["replay", folder.to_str().unwrap(), "--on", "toaster"]).assert_refused("toaster");
}

#[test]
fn v3d_compute_dispatch_is_named_as_one() {
    let Some(folder) = recordings() else { return };
    let log = folder.join("v3d/py-videocore6-mininput.ftrace.txt");
    let jobs = run(["jobs".as_ref(), log.as_os_str(), "--json".as_ref()]).json();
    let jobs = jobs.as_array().unwrap();
    assert_eq!(jobs.len(), 1);
    // The address is that of the shader, from CSD_QUEUED_CFG5.
    assert_eq!(
        (&jobs[0]["type"], &jobs[0]["head_va"]),
        (&"compute dispatch".into(), &"0x20000".into())
    );
}
