//! An outcome is a recording. It replays in process, on an agent and on the stand-in for CUDA with the results of the
//! original. `diff` finds no difference between both.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use whole_program_tests::cuda::CudaStandIn;
use whole_program_tests::emulated::{has_qemu, log};
use whole_program_tests::simulator_agent::SimulatorAgent;
use whole_program_tests::{ProgramOutput, kinescope, program, recordings, root, run};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns the samples of register traces, each with its target.
fn samples() -> Vec<(PathBuf, &'static str)> {
    let folder = root().join("sample-traces");
    let all = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let mut all: Vec<PathBuf> = all.filter(|p| p.extension().is_some_and(|e| e == "kine")).collect();
    all.sort();
    let target = |p: &Path| match text(p).contains("g52") {
        true => "mali-g52",
        false => "mali-g71",
    };
    all.into_iter().map(|p| (p.clone(), target(&p))).collect()
}

/// Asserts that a replay matched. Returns the digests of its outputs.
fn outputs(parsed_json: &Value, name: &str) -> Value {
    assert_eq!(parsed_json["outcome"], "match", "{name}: {parsed_json}");
    let all = parsed_json["outputs"].as_array().unwrap();
    all.iter()
        .map(|o| json!([o["name"], o["bytes"], o["blake3"]]))
        .collect()
}

fn assert_success(ended: &ProgramOutput, name: &str) -> Value {
    assert_eq!(ended.code, Some(0), "{name}: {ended:?}");
    ended.json()
}

/// Replays a recording and its outcome, and compares both. Returns the outputs, which must be the same.
fn check_outcome(
    recording: &Path,
    target: &str,
    folder: &Path,
    name: &str,
    run_command: &dyn Fn(&[&str]) -> ProgramOutput,
) -> Value {
    let (first, second) = (
        folder.join(format!("{name}.1.kine")),
        folder.join(format!("{name}.2.kine")),
    );
    let once = run_command(&["replay", text(recording), "--on", target, "-o", text(&first), "--json"]);
    let once = outputs(&assert_success(&once, name), name);
    let again = run_command(&["replay", text(&first), "--on", target, "-o", text(&second), "--json"]);
    assert_eq!(
        once,
        outputs(&assert_success(&again, name), name),
        "{name}: the outcome has the outputs of the recording"
    );
    for (a, b) in [(recording, first.as_path()), (first.as_path(), second.as_path())] {
        let ended = run_command(&["diff", text(a), text(b), "--json"]);
        let parsed_json = assert_success(&ended, name);
        assert_eq!(parsed_json["same"], true, "{name}: {parsed_json}");
        assert!(
            parsed_json["summary"].as_str().unwrap().starts_with("No difference"),
            "{name}"
        );
        for (part, counts) in [
            ("descriptors", ["changed", "only_a", "only_b"]),
            ("host_writes", ["changed", "only_a", "only_b"]),
            ("mappings", ["changed", "only_a", "only_b"]),
            ("events", ["changed", "inserted", "deleted"]),
        ] {
            for count in counts {
                assert_eq!(
                    parsed_json[part][count], 0,
                    "{name}: {part} {count}: {}",
                    parsed_json[part]
                );
            }
        }
    }
    // Each verb gives the same exit code for both.
    for verb in ["info", "jobs", "check"] {
        let run_verb = |file: &Path| run_command(&[verb, text(file), "--json"]);
        assert_eq!(run_verb(recording).code, run_verb(&first).code, "{name}: {verb}");
    }
    once
}

#[test]
fn sample_outcomes_equal_the_samples() {
    let dir = TempDir::new().unwrap();
    for (sample, target) in samples() {
        let name = sample.file_stem().unwrap().to_str().unwrap().to_owned();
        let all = |arguments: &[&str]| run(arguments);
        check_outcome(&sample, &format!("software:{target}"), dir.path(), &name, &all);
    }
    // Chains decode the same, and the text of a comparison has only its verdict.
    let (digits, outcome) = (
        root().join("sample-traces/digits.kine"),
        dir.path().join("digits.1.kine"),
    );
    let jobs = |file: &Path| {
        let parsed_json = run(["jobs", text(file), "--json"]).json();
        let all = parsed_json.as_array().unwrap().clone();
        let structure = |job: &Value| json!([job["head_va"], job["dispatch"], job["chain"]]);
        all.iter().map(structure).collect::<Vec<_>>()
    };
    assert_eq!(jobs(&digits), jobs(&outcome));
    let ended = run(["diff", text(&digits), text(&outcome)]);
    assert!(ended.out.starts_with("No difference.\n"), "{}", ended.out);
    assert!(!ended.out.contains("becomes"), "{}", ended.out);
    let info = |file: &Path| {
        let parsed_json = run(["info", text(file), "--json"]).json();
        parsed_json["buffers"].clone()
    };
    assert_eq!(info(&digits), info(&outcome), "roles, shapes and types are the same");
}

#[test]
fn plan_file_outcome_keeps_roles_and_shapes() {
    let dir = TempDir::new().unwrap();
    let sample = root().join("sample-traces/digits.kine");
    for plan in ["digits.plan", "digits.plan.txt"] {
        let (plan, outcome) = (dir.path().join(plan), dir.path().join("outcome.kine"));
        let on = ["--on", "software:mali-g71"];
        let planned = run([&["plan", text(&sample), "-o", text(&plan)][..], &on].concat());
        assert_eq!(planned.code, Some(0), "{planned:?}");
        let replayed = run([&["replay", text(&plan), "-o", text(&outcome)][..], &on].concat());
        assert_eq!(replayed.code, Some(0), "{replayed:?}");
        let ended = run(["diff", text(&sample), text(&outcome)]);
        assert_eq!(ended.code, Some(0), "{}", ended.out);
        let info = |file: &Path| run(["info", text(file), "--json"]).json()["buffers"].clone();
        assert_eq!(info(&sample), info(&outcome));
    }
}

#[test]
fn agent_outcomes_equal_the_samples() {
    for model in ["mali-g71", "mali-g52"] {
        let dir = TempDir::new().unwrap();
        let agent = SimulatorAgent::start(dir.path(), model);
        for (sample, _) in samples().into_iter().filter(|s| s.1 == model) {
            let name = sample.file_stem().unwrap().to_str().unwrap().to_owned();
            let all = |arguments: &[&str]| kinescope(&agent.client, arguments);
            let remote = check_outcome(&sample, &format!("agent:lab/{model}"), dir.path(), &name, &all);
            let local = run(["replay", text(&sample), "--on", &format!("software:{model}"), "--json"]);
            assert_eq!(
                remote,
                outputs(&assert_success(&local, &name), &name),
                "{name}: agent and local replay agree"
            );
        }
    }
}

/// QEMU emulates one bus-mastering device, and two devices that stock Linux drivers used.
#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn qemu_device_outcomes_equal_the_recordings() {
    if !has_qemu() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let all = |arguments: &[&str]| run(arguments);
    let sample = root().join("sample-traces/qemu/virtio-gpu.kine");
    check_outcome(&sample, "qemu:virtio-gpu-pci,vectors=0", dir.path(), "virtio-gpu", &all);
    for (name, device) in [
        ("rage128p-aty128fb", "qemu:ati-vga,model=rage128p"),
        ("rv100-radeonfb", "qemu:ati-vga,model=rv100"),
    ] {
        if let Some(file) = log(name) {
            check_outcome(&file, device, dir.path(), name, &all);
        }
    }
}

/// A plan of a user has no recording. The outcome of the device is a recording.
#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn written_plan_outcome_is_a_recording() {
    if !has_qemu() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (plan, first) = (root().join("sample-traces/edu.plan.txt"), at("edu.played.kine"));
    let replayed = run(["replay", text(&plan), "--on", "qemu:edu", "-o", &first, "--json"]);
    assert_success(&replayed, "edu");
    check_outcome(Path::new(&first), "qemu:edu", dir.path(), "edu", &|arguments| {
        run(arguments)
    });
}

#[test]
fn cuda_sample_outcomes_equal_the_samples() {
    let cuda = CudaStandIn::default();
    let folder = root().join("sample-traces/cuda");
    let all = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let samples: Vec<PathBuf> = all.filter(|p| p.extension().is_some_and(|e| e == "kine")).collect();
    assert!(!samples.is_empty());
    let run_command = |arguments: &[&str]| -> ProgramOutput {
        let mut command = Command::new(program("kinescope"));
        command.args(arguments).env("KINESCOPE_KEYS", cuda.file("keys"));
        cuda.set_environment(&mut command).output().unwrap().into()
    };
    for sample in samples {
        let name = sample.file_stem().unwrap().to_str().unwrap().to_owned();
        let out = cuda.file("outcomes");
        std::fs::create_dir_all(&out).unwrap();
        check_outcome(&sample, "cuda:0", &out, &name, &run_command);
    }
}

/// With another input, `diff` begins with one sentence about cause and effect, and exits with 1.
#[test]
fn diff_output_begins_with_its_cause() {
    let dir = TempDir::new().unwrap();
    let sample = root().join("sample-traces/vecadd.kine");
    let input = dir.path().join("a.bin");
    let floats: Vec<u8> = (0..1024u32).flat_map(|n| (n as f32 + 0.25).to_le_bytes()).collect();
    std::fs::write(&input, floats).unwrap();
    let outcome = dir.path().join("outcome.kine");
    let ended = run([
        "replay",
        text(&sample),
        "--on",
        "software:mali-g71",
        "--input",
        &format!("a={}", text(&input)),
        "-o",
        text(&outcome),
    ]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = run(["diff", text(&sample), text(&outcome)]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let first = ended.out.lines().next().unwrap();
    assert!(
        first.starts_with("Input a differs (1,024 of 1,024), so output c differs (")
            || first.starts_with("Input a differs (1,024 of 1,024), so output c differs after job 0"),
        "{first}"
    );
    assert!(
        first.contains("events") && first.ends_with("page tables are the same."),
        "{first}"
    );
    assert!(!ended.out.contains("Descriptors of jobs"), "{}", ended.out);
}

/// The verdict reports jobs that were not computed, and their outputs are not compared.
#[test]
fn match_verdict_reports_uncomputed_jobs() {
    let dir = TempDir::new().unwrap();
    let sample = root().join("sample-traces/triangle.kine");
    let outcome = dir.path().join("outcome.kine");
    let on = ["--on", "software:mali-g71", "-o", text(&outcome)];
    let ended = run([&["replay", text(&sample)][..], &on].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let jobs = 2;
    let line = format!("Registers match, {jobs} of {jobs} jobs not computed");
    assert!(ended.out.starts_with(&line), "{}", ended.out);
    let parsed_json = run([&["replay", text(&sample), "--json"][..], &on].concat()).json();
    assert_eq!(
        (&parsed_json["outcome"], &parsed_json["verdict"]),
        (&json!("match"), &json!(line))
    );
    let ended = run(["diff", text(&sample), text(&outcome)]);
    let mut lines = ended.out.lines();
    assert_eq!(
        lines.next(),
        Some("No difference in the compared parts."),
        "{}",
        ended.out
    );
    assert_eq!(
        lines.next(),
        Some("Outputs not compared: not computed (2 of 2 jobs of the second)."),
        "{}",
        ended.out
    );
    let parsed_json = run(["diff", text(&sample), text(&outcome), "--json"]).json();
    assert_eq!(parsed_json["not_computed"], json!({"a": 0, "b": 2}));
}

/// Users want to see the scores of a network.
#[test]
fn small_outputs_are_shown_by_value() {
    let digits = root().join("sample-traces/digits.kine");
    let ended = run(["replay", text(&digits), "--on", "software:mali-g71"]);
    let line = ended
        .out
        .lines()
        .find(|l| l.starts_with("Output logits"))
        .expect("an output");
    assert!(line.contains("-2.8638") || line.contains("-2.864"), "{line}");
    let (values, bytes) = line.trim_start_matches("Output logits").split_once('(').expect("bytes");
    assert_eq!(values.split_whitespace().count(), 10, "{line}");
    assert!(bytes.starts_with("40 bytes, blake3 "), "{line}");
}

/// Text output shows the first few of many findings of one kind by job, and the number of the others.
#[test]
fn findings_of_one_kind_are_folded() {
    let Some(recordings) = recordings() else { return };
    let file = recordings.join("gpureplay/alexnet");
    let ended = run(["replay", text(&file), "--on", "software:mali-g71"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let displayed = ended
        .out
        .lines()
        .filter(|l| l.contains("the shader has unsupported instructions"));
    assert!(displayed.count() <= 3, "{}", ended.out);
    assert!(ended.out.contains("  job 0 (0x"), "{}", ended.out);
    assert!(
        ended
            .out
            .contains(" more findings of kind shader-not-run (--json lists them)"),
        "{}",
        ended.out
    );
    assert!(ended.out.lines().all(|l| l.chars().count() < 200), "{}", ended.out);
}
