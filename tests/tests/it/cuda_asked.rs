//! Options of replays and tunings of CUDA recordings on the stand-in for the driver: outputs, tolerances, expected
//! bytes and inputs. An error names the launch that failed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;
use std::process::{Command, Stdio};
use whole_program_tests::cuda::{CudaStandIn, RecordedProgram, run_to_end};
use whole_program_tests::{ProgramOutput, program, send_signal};

fn run_kinescope(cuda: &CudaStandIn, arguments: &[&str], set: &[(&str, &str)]) -> ProgramOutput {
    let mut command = Command::new(program("kinescope"));
    let _ = program("kinescope-agent");
    command
        .args(arguments)
        .env("KINESCOPE_KEYS", cuda.file("keys"))
        .envs(set.iter().copied());
    run_to_end(cuda.set_environment(&mut command))
}

fn replay(cuda: &CudaStandIn, recorded: &RecordedProgram, more: &[&str], set: &[(&str, &str)]) -> ProgramOutput {
    let path = recorded.path.to_str().unwrap();
    run_kinescope(
        cuda,
        &[&["replay", path, "--on", "cuda:0", "--json"], more].concat(),
        set,
    )
}

fn tune(cuda: &CudaStandIn, recorded: &RecordedProgram, more: &[&str]) -> ProgramOutput {
    let path = recorded.path.to_str().unwrap();
    run_kinescope(cuda, &[&["tune", path, "--on", "cuda:0", "--json"], more].concat(), &[])
}

fn outputs(json: &Value) -> Vec<String> {
    let all = json["calls"]["outputs"].as_array().unwrap();
    all.iter().map(|o| o["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn requested_output_does_not_disable_other_comparisons() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("net", &[], &["net", "5"]);
    let complete = replay(&cuda, &recorded, &[], &[]).json();
    let all = outputs(&complete);
    assert!(all.len() > 1, "{all:?}");
    let file = cuda.file("out0.bin");
    let one = format!("out0={}", file.display());
    let done = replay(&cuda, &recorded, &["--output", &one], &[]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(outputs(&done.json()), all);
    assert!(file.is_file());
    // A rule for another output applies as well.
    let other = format!("{}=exact", all.last().unwrap());
    let done = replay(&cuda, &recorded, &["--output", &one, "--tolerance", &other], &[]);
    assert_eq!(done.code, Some(0), "{done:?}");
}

/// The worker sent answers on the standard output, where kernels print too.
#[test]
fn what_kernels_print_is_no_answer_of_the_worker() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("net", &[], &["net", "5"]);
    // A whole answer, and the start of a line that the next answer would continue.
    for text in ["{\"failed\":\"printed\"}\n", "x = "] {
        let done = replay(&cuda, &recorded, &[], &[("STAND_IN_PRINT", text)]);
        assert_eq!(done.code, Some(0), "{text}: {done:?}");
        assert_eq!(done.json()["outcome"], "match", "{text}");
        assert!(done.err.contains(text.trim()), "{text}: {done:?}");
    }
}

#[test]
fn memory_after_the_range_is_an_output_by_name() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("marks", &["--range", "marks"], &["net", "--marks"]);
    let complete = replay(&cuda, &recorded, &["--memory"], &[]).json();
    let after: Vec<String> = outputs(&complete)
        .into_iter()
        .filter(|n| n.starts_with("after"))
        .collect();
    assert!(after.len() > 1, "{after:?}");
    for name in &after {
        let file = cuda.file(name);
        let output_option = format!("{name}={}", file.display());
        let done = replay(&cuda, &recorded, &["--output", &output_option], &[]);
        assert_eq!(done.code, Some(0), "{name}: {done:?}");
        let mut only = outputs(&done.json());
        only.retain(|n| n.starts_with("after"));
        assert_eq!(only, std::slice::from_ref(name));
        let script = replay_cuda::Script::new(&recorded.open()).unwrap();
        let transfer = script.outputs.iter().find(|t| t.name == *name).unwrap();
        assert_eq!(
            std::fs::read(&file).unwrap(),
            recorded.open().copy_content(&transfer.row).unwrap()
        );
    }
}

#[test]
fn outputs_are_compared_with_expected_files() {
    let cuda = CudaStandIn::default();
    let first = cuda.record_checked("first", &[], &["vector_add", "--seed", "1"]);
    let second = cuda.record_checked("second", &[], &["vector_add", "--seed", "2"]);
    let write_results = |recorded: &RecordedProgram, name: &str| {
        let file = cuda.file(name);
        std::fs::write(&file, &recorded.out).unwrap();
        format!("out0={}", file.display())
    };
    let (right, wrong) = (write_results(&first, "right.bin"), write_results(&second, "wrong.bin"));
    let done = replay(&cuda, &first, &["--expect", &right], &[]);
    assert_eq!(
        (done.code, &done.json()["outcome"]),
        (Some(0), &Value::from("match")),
        "{done:?}"
    );
    let done = replay(&cuda, &first, &["--expect", &wrong], &[]);
    assert_eq!(done.code, Some(1), "{done:?}");
    let output = &done.json()["calls"]["outputs"][0];
    assert!(output["differs_at"].is_u64() && output["expected"] == true, "{output}");
    // The user's expected bytes also apply with other inputs.
    let script = replay_cuda::Script::new(&second.open()).unwrap();
    let mut arguments = vec!["--expect".to_owned(), wrong];
    for t in &script.inputs {
        let file = cuda.file(&t.name);
        std::fs::write(&file, second.open().copy_content(&t.row).unwrap()).unwrap();
        arguments.extend(["--input".to_owned(), format!("{}={}", t.name, file.display())]);
    }
    let options: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = replay(&cuda, &first, &options, &[]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(done.json()["reads_matched"], 1);
    // A plan has no recording. Its outputs are compared with the same expected bytes.
    let plan = cuda.file("a.plan");
    let plan_result = run_kinescope(
        &cuda,
        &[
            "plan",
            first.path.to_str().unwrap(),
            "--on",
            "cuda:0",
            "-o",
            plan.to_str().unwrap(),
        ],
        &[],
    );
    assert_eq!(plan_result.code, Some(0), "{plan_result:?}");
    let right = write_results(&first, "right.bin");
    for (expect, code) in [(&right, 0), (&write_results(&second, "wrong.bin"), 1)] {
        let done = run_kinescope(
            &cuda,
            &[
                "replay",
                plan.to_str().unwrap(),
                "--on",
                "cuda:0",
                "--expect",
                expect,
                "--json",
            ],
            &[],
        );
        assert_eq!(done.code, Some(code), "{done:?}");
    }
}

#[test]
fn a_launch_that_fails_in_a_later_run_is_named() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("net", &[], &["net", "1"]);
    let launches = {
        let script = replay_cuda::Script::new(&recorded.open()).unwrap();
        script.launches()
    };
    // The second launch of the second run fails.
    let fails = format!("kernel:{}", launches + 2);
    let set = [("STAND_IN_FAIL", fails.as_str())];
    for more in [
        &["--repeat", "3", "--no-restore"][..],
        &["--repeat", "3", "--no-restore", "--graph"],
    ] {
        let done = replay(&cuda, &recorded, more, &set);
        assert_eq!(done.code, Some(1), "{done:?}");
        let stopped = &done.json()["calls"]["stopped"];
        assert!(
            stopped["function"].is_string() && stopped["sure"] == true,
            "{more:?}: {stopped}"
        );
    }
}

#[test]
fn memory_outside_the_window_is_placed_by_long_range_hints() {
    let cuda = CudaStandIn::default();
    let set = [("KINESCOPE_CUDA_WINDOW", "no")];
    let recorded = cuda.record("outside", &[], &["vector_add"], &set);
    assert_eq!(recorded.ended.code, Some(0), "{:?}", recorded.ended);
    cuda.replay_checked(&recorded, &serde_json::json!({}), &[("STAND_IN_HINTS", "long")]);
}

#[test]
fn parameter_tolerance_applies_to_memory_before_the_range() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("marks", &["--range", "marks"], &["net", "--marks"]);
    let script = replay_cuda::Script::new(&recorded.open()).unwrap();
    assert!(script.first > 0, "memory exists before the range begins");
    let launch = script.steps.iter().find(|(_, s)| s.is_launch()).unwrap().0.to_string();
    let done = tune(
        &cuda,
        &recorded,
        &["--launch", &launch, "--tolerance", "arg0=f32:1e-3", "--repeat", "1"],
    );
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn tuning_uses_given_inputs() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("first", &[], &["vector_add", "--seed", "1"]);
    let script = replay_cuda::Script::new(&recorded.open()).unwrap();
    let input = &script.inputs[0];
    let file = cuda.file("zeros.bin");
    std::fs::write(&file, vec![0; usize::try_from(input.row.total().unwrap()).unwrap()]).unwrap();
    let input_option = format!("{}={}", input.name, file.display());
    let recorded_reference = tune(&cuda, &recorded, &["--repeat", "1"]);
    assert_eq!(recorded_reference.code, Some(0), "{recorded_reference:?}");
    let done = tune(&cuda, &recorded, &["--repeat", "1", "--input", &input_option]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(
        done.json()["reference"],
        "device",
        "the recorded outputs are for other inputs"
    );
}

#[test]
fn tuning_continues_after_the_point_that_killed_its_worker() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("stride", &[], &["stride"]);
    let mut command = Command::new(program("kinescope"));
    cuda.count_ticks(cuda.set_environment(&mut command))
        .args(["tune", recorded.path.to_str().unwrap(), "--on", "cuda:0", "--json"])
        .args([
            "--launch",
            "stride",
            "--block",
            "32..=256+32",
            "--grid",
            "1..=4+1",
            "--repeat",
            "3",
        ])
        .env("KINESCOPE_KEYS", cuda.file("keys"))
        // Each of the 32 points takes some tenths of a second.
        .env("STAND_IN_SLOW", "20000")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let tuning = command.spawn().unwrap();
    // A point runs at least three kernels, so the kill comes after the baseline and before the last point.
    cuda.wait_for_ticks(50);
    for player in cuda.list_replay_processes() {
        send_signal(player, "KILL");
    }
    let done = ProgramOutput::from(tuning.wait_with_output().unwrap());
    assert_eq!(done.code, Some(0), "{done:?}");
    let parsed_json = done.json();
    assert_eq!(
        (&parsed_json["ended"], &parsed_json["processes"]),
        (&Value::from("done"), &Value::from(2)),
        "{parsed_json}"
    );
    let points = parsed_json["points"].as_array().unwrap();
    assert_eq!(points.len(), 32);
    let failed: Vec<&Value> = points.iter().filter(|p| p["verdict"] == "failed").collect();
    assert_eq!(failed.len(), 1, "{parsed_json}");
    assert!(failed[0]["why"].as_str().unwrap().contains("ended"), "{}", failed[0]);
}
