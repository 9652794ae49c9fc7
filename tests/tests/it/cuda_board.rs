//! CUDA devices as targets, on the stand-in for the driver: `replay`, `plan` and `tune` on `cuda:N` and on the device
//! of an agent. Covers outcomes, inputs, outputs and errors.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use serde_json::Value;
use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use whole_program_tests::cuda::{CudaStandIn, LIMIT, RecordedProgram, open, run_to_end};
use whole_program_tests::cuda_agent::Agent;
use whole_program_tests::{ProgramOutput, program, root, send_signal};

/// Runs `kinescope` with the stand-in as its driver.
fn kinescope<S: AsRef<OsStr>>(cuda: &CudaStandIn, arguments: &[S]) -> ProgramOutput {
    let mut command = Command::new(program("kinescope"));
    cuda.set_environment(command.args(arguments))
        .env("KINESCOPE_KEYS", cuda.file("keys"));
    run_to_end(&mut command)
}

fn replay(cuda: &CudaStandIn, recorded: &RecordedProgram, more: &[&str]) -> ProgramOutput {
    let path = recorded.path.to_str().unwrap();
    kinescope(cuda, &[&["replay", path, "--on", "cuda:0", "--json"], more].concat())
}

#[test]
fn cuda_replay_outcome_equals_its_recording() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("streams", &[], &["streams"]);
    let outcome = cuda.file("outcome.kine");
    let done = replay(&cuda, &recorded, &["-o", outcome.to_str().unwrap()]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let parsed_json = done.json();
    assert_eq!(parsed_json["outcome"], "match");
    assert_eq!(parsed_json["reads_compared"], parsed_json["reads_matched"]);
    assert!(parsed_json["reads_compared"].as_u64().unwrap() > 0);
    assert_eq!(parsed_json["calls"]["graph"], false);
    let verified = kinescope(&cuda, &["verify", outcome.to_str().unwrap()]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    // The outcome can be replayed again, with the same outputs.
    let again = RecordedProgram {
        path: outcome.clone(),
        ended: done,
        out: Vec::new(),
    };
    let again = replay(&cuda, &again, &[]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert_eq!(again.json()["fingerprint"], parsed_json["fingerprint"]);
    let r = open(&outcome);
    assert_eq!(r.metadata.identity.source, "outcome");
    let graph = replay(&cuda, &recorded, &["--graph", "--repeat", "4"]);
    assert_eq!(graph.code, Some(0), "{graph:?}");
    let graph = graph.json();
    assert_eq!(
        (&graph["calls"]["graph"], &graph["outcome"]),
        (&Value::Bool(true), &parsed_json["outcome"])
    );
    assert_eq!(graph["timing"]["runs"]["count"], 4);
    assert_eq!(graph["fingerprint"], parsed_json["fingerprint"]);
}

#[test]
fn replay_with_other_inputs_matches_the_program() {
    let cuda = CudaStandIn::default();
    let first = cuda.record_checked("first", &[], &["vector_add", "--seed", "1"]);
    let second = cuda.record_checked("second", &[], &["vector_add", "--seed", "2"]);
    let script = replay_cuda::Script::new(&second.open()).unwrap();
    let mut arguments = Vec::new();
    for t in &script.inputs {
        let file = cuda.file(&format!("{}.bin", t.name));
        std::fs::write(&file, second.open().copy_content(&t.row).unwrap()).unwrap();
        arguments.extend(["--input".to_owned(), format!("{}={}", t.name, file.display())]);
    }
    let out = cuda.file("out.npy");
    arguments.extend(["--as".to_owned(), "out0=f32".to_owned()]);
    arguments.extend(["--output".to_owned(), format!("out0={}", out.display())]);
    let options: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = replay(&cuda, &first, &options);
    assert_eq!(done.code, Some(0), "other inputs change the output: {done:?}");
    assert_eq!(done.json()["outcome"], "match");
    assert_eq!(done.json()["reads_compared"], 0);
    let output = &done.json()["calls"]["outputs"][0];
    assert!(output["differs_at"].is_u64() && output["expected"] == false, "{output}");
    let path = first.path.to_str().unwrap();
    let text = kinescope(&cuda, &[&["replay", path, "--on", "cuda:0"], &options[..]].concat());
    assert!(
        text.out
            .contains("match: with your inputs 1 of 1 output differs from the recording"),
        "{text:?}"
    );
    // The user's tolerance applies.
    let exact = replay(&cuda, &first, &[&options[..], &["--tolerance", "out0=exact"]].concat());
    assert_eq!(exact.code, Some(1), "{exact:?}");
    assert_eq!(exact.json()["outcome"], "diverged");
    assert_eq!(exact.json()["calls"]["outputs"][0]["expected"], true);
    let npy = std::fs::read(&out).unwrap();
    assert!(npy.starts_with(b"\x93NUMPY") && npy.ends_with(&second.out));
    // The first rule accepts every difference. The other options are invalid or name no output.
    let tolerant = replay(&cuda, &first, &[&options[..], &["--tolerance", "f32:1e30"]].concat());
    assert_eq!(tolerant.code, Some(0), "{tolerant:?}");
    for (wrong, message) in [
        (["--tolerance", "out9=exact"], "no buffer 'out9'"),
        (["--tolerance", "f33:1"], "is not a rule"),
        (["--as", "out0=x"], "expected NAME=TYPE"),
        (["--output", "nothing=/tmp/x.bin"], "no buffer 'nothing'"),
    ] {
        let refused = replay(&cuda, &first, &wrong);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains(message), "{}", refused.err);
    }
}

#[test]
fn a_plan_in_a_file_is_replayed_without_its_recording() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("linked", &[], &["linked"]);
    let plan = cuda.file("linked.plan");
    let path = recorded.path.to_str().unwrap();
    let plan_result = kinescope(&cuda, &["plan", path, "--on", "cuda:0", "-o", plan.to_str().unwrap()]);
    assert_eq!(plan_result.code, Some(0), "{plan_result:?}");
    let done = kinescope(&cuda, &["replay", plan.to_str().unwrap(), "--on", "cuda:0", "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let direct = replay(&cuda, &recorded, &[]);
    assert_eq!(done.json()["fingerprint"], direct.json()["fingerprint"]);
}

#[test]
fn failures_name_their_launch_and_end_no_other_replay() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("faulty", &[], &["faulty"]);
    let order = |code: u32| {
        let path = cuda.file("order.bin");
        let mut bytes = code.to_le_bytes().to_vec();
        bytes.resize(16, 0);
        std::fs::write(&path, bytes).unwrap();
        format!("in0={}", path.display())
    };
    let bad = replay(&cuda, &recorded, &["--input", &order(1)]);
    assert_eq!(bad.code, Some(1), "{bad:?}");
    let parsed_json = bad.json();
    assert_eq!(parsed_json["outcome"], "failed");
    let why = parsed_json["failure"].as_str().unwrap();
    assert!(
        why.contains("CUDA_ERROR_ILLEGAL_ADDRESS") && why.contains("obey"),
        "{why}"
    );
    let event = parsed_json["calls"]["stopped"]["event"].as_u64().unwrap();
    let is_launch = matches!(
        recorded.open().events.call(event as usize),
        Some(trace_core::recording::CallEvent::Launch(_))
    );
    assert!(is_launch, "event {event} is the launch that failed");
    let hangs = replay(&cuda, &recorded, &["--input", &order(2), "--time-limit", "1"]);
    assert_eq!(hangs.code, Some(1), "{hangs:?}");
    let parsed_json = hangs.json();
    assert!(
        parsed_json["failure"].as_str().unwrap().contains("longer than 1 s"),
        "{parsed_json}"
    );
    assert_eq!(parsed_json["calls"]["stopped"]["event"].as_u64(), Some(event));
    let none = kinescope(
        &cuda,
        &["replay", recorded.path.to_str().unwrap(), "--on", "cuda:7", "--json"],
    );
    assert_eq!(none.code, Some(1), "{none:?}");
    assert!(
        none.json()["failure"].as_str().unwrap().contains("no CUDA device 7"),
        "{none:?}"
    );
    let software = kinescope(
        &cuda,
        &["replay", recorded.path.to_str().unwrap(), "--on", "software:mali-g71"],
    );
    assert_eq!(software.code, Some(2), "{software:?}");
    assert!(software.err.contains("cuda:N"), "{}", software.err);
    let targets = kinescope(&cuda, &["boards", "--json"]);
    assert!(
        targets.out.contains("cuda:0") && targets.out.contains("Stand-in GPU"),
        "{targets:?}"
    );
}

#[test]
fn agent_replays_cuda_and_survives_device_errors() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("net", &[], &["net", "2"]);
    let faulty = cuda.record_checked("faulty", &[], &["faulty"]);
    let agent = Agent::start(&cuda);
    assert!(agent.socket.exists());
    let replay_on_agent = |file: &RecordedProgram, more: &[&str]| {
        let path = file.path.to_str().unwrap();
        // The client has no driver; only the agent has one.
        let mut command = Command::new(program("kinescope"));
        command
            .args(["replay", path, "--on", "agent:lab/cuda0", "--json"])
            .args(more)
            .env("KINESCOPE_KEYS", cuda.file("keys"))
            .env("KINESCOPE_CUDA_LIBRARY", "/nowhere/libcuda.so.1");
        run_to_end(&mut command)
    };
    let first = replay_on_agent(&recorded, &[]);
    assert_eq!(first.code, Some(0), "{first:?}");
    assert_eq!(first.json()["outcome"], "match");
    let second = replay_on_agent(&recorded, &["--repeat", "3"]);
    assert_eq!(second.code, Some(0), "{second:?}");
    let pushed_bytes = |e: &ProgramOutput| e.json()["pushed_bytes"].as_u64().unwrap();
    assert!(
        pushed_bytes(&second) < pushed_bytes(&first) / 4,
        "the client does not send known pages again"
    );
    let order = cuda.file("order.bin");
    std::fs::write(&order, [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    let bad = replay_on_agent(&faulty, &["--input", &format!("in0={}", order.display())]);
    assert_eq!(bad.code, Some(1), "{bad:?}");
    assert!(bad.json()["failure"].as_str().unwrap().contains("ILLEGAL_ADDRESS"));
    let after = replay_on_agent(&recorded, &["--graph"]);
    assert_eq!(after.code, Some(0), "{after:?}");
    let targets = kinescope(&cuda, &["boards", "--json"]);
    assert!(targets.out.contains("agent:lab/cuda0"), "{targets:?}");
}

#[test]
fn agent_replays_after_its_executable_was_deleted() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("streams", &[], &["streams"]);
    let copy = cuda.file("agent");
    std::fs::copy(program("kinescope-agent"), &copy).unwrap();
    let agent = Agent::spawn(&cuda, &copy, "0");
    // An installation of a newer agent does the same while the agent runs.
    std::fs::remove_file(&copy).unwrap();
    let mut command = Command::new(program("kinescope"));
    command
        .args([
            "replay",
            recorded.path.to_str().unwrap(),
            "--on",
            "agent:lab/cuda0",
            "--json",
        ])
        .env("KINESCOPE_KEYS", cuda.file("keys"));
    let done = run_to_end(&mut command);
    assert_eq!(
        (done.code, &done.json()["outcome"]),
        (Some(0), &Value::from("match")),
        "{done:?}"
    );
    drop(agent);
}

#[test]
fn killed_cuda_agent_is_reported() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("faulty", &[], &["faulty"]);
    let mut agent = Agent::start(&cuda);
    let order = cuda.file("order.bin");
    std::fs::write(&order, [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    let mut command = Command::new(program("kinescope"));
    command
        .args([
            "replay",
            recorded.path.to_str().unwrap(),
            "--on",
            "agent:lab/cuda0",
            "--json",
        ])
        .args(["--input", &format!("in0={}", order.display())])
        .env("KINESCOPE_KEYS", cuda.file("keys"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let client = command.spawn().unwrap();
    // The kernel runs an endless loop.
    cuda.wait_for_ticks(10);
    let players = cuda.list_replay_processes();
    assert!(!players.is_empty(), "a worker process replays");
    agent.child.kill().unwrap();
    agent.child.wait().unwrap();
    let out = client.wait_with_output().unwrap();
    let ended = ProgramOutput::from(out);
    assert!(matches!(ended.code, Some(1 | 2)), "{ended:?}");
    let output = format!("{}{}", ended.out, ended.err);
    assert!(output.contains("lost") || output.contains("closed"), "{output}");
    // The worker process does not outlive its client, even if its kernel never ends.
    let since = Instant::now();
    while !cuda.list_replay_processes().is_empty() {
        assert!(since.elapsed() < LIMIT, "{:?}", cuda.list_replay_processes());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn prestarted_worker_exits_without_a_request() {
    let cuda = CudaStandIn::default();
    let mut player = cuda.replay_command();
    player.env("KINESCOPE_CUDA_AHEAD", "0,1");
    let mut player = player.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // The request stream stays open, so that only the worker's own time limit ends it.
    let request = player.stdin.take();
    let since = Instant::now();
    let ended = loop {
        if let Some(status) = player.try_wait().unwrap() {
            break status;
        }
        if since.elapsed() > LIMIT {
            player.kill().unwrap();
            panic!("the worker still waits");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    drop(request);
    assert_eq!(ended.signal(), Some(9), "its own time limit ends it: {ended}");
}

#[test]
fn agent_tuning_rejects_wrong_points() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("wrong", &[], &["wrong_for_some"]);
    let csv = cuda.file("points.csv");
    let tuned = kinescope(
        &cuda,
        &[
            "tune",
            recorded.path.to_str().unwrap(),
            "--on",
            "cuda:0",
            "--launch",
            "tile_sums",
            "--block",
            "32,48,64,96,128,256,320",
            "--grid",
            "64",
            "--repeat",
            "2",
            "--csv",
            csv.to_str().unwrap(),
            "--json",
        ],
    );
    assert_eq!(tuned.code, Some(0), "{tuned:?}");
    let text = std::fs::read_to_string(&csv).unwrap();
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at = |name: &str| head.iter().position(|h| *h == name).unwrap();
    let mut wrong = Vec::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        if cells[at("verdict")] == "wrong" {
            wrong.push(cells[at("block_x")].parse::<u32>().unwrap());
        }
    }
    wrong.sort_unstable();
    assert_eq!(wrong, [48, 96, 320]);
}

#[test]
fn interrupted_tuning_keeps_its_results() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("stride", &[], &["stride"]);
    let agent = Agent::start_slow(&cuda);
    for target in ["cuda:0", "agent:lab/cuda0"] {
        let csv = cuda.file(&format!("points-{}.csv", target.len()));
        let mut command = Command::new(program("kinescope"));
        let before = cuda.ticks();
        cuda.count_ticks(cuda.set_environment(&mut command))
            .args(["tune", recorded.path.to_str().unwrap(), "--on", target, "--json"])
            .args(["--launch", "stride", "--block", "32..=1024+32", "--grid", "1..=64+1"])
            .args(["--repeat", "5", "--csv", csv.to_str().unwrap()])
            .env("KINESCOPE_KEYS", cuda.file("keys"))
            // Each of the 2048 points takes some tenths of a second.
            .env("STAND_IN_SLOW", "4000")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let tuning = command.spawn().unwrap();
        // A point runs about ten kernels.
        cuda.wait_for_ticks(before + 200);
        send_signal(tuning.id(), "INT");
        let ended = ProgramOutput::from(tuning.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(130), "{target}: {ended:?}");
        let parsed_json = ended.json();
        assert_eq!(parsed_json["ended"], "stopped", "{target}: {parsed_json}");
        let points = parsed_json["points"].as_array().unwrap().len();
        assert!((2..1000).contains(&points), "{target}: {points} points");
        let lines = std::fs::read_to_string(&csv).unwrap().lines().count();
        assert_eq!(
            lines,
            points + 2,
            "{target}: a heading, the recorded launch, the points"
        );
        assert!(
            parsed_json["best"].is_u64(),
            "{target}: the fastest point is reported: {parsed_json}"
        );
    }
    drop(agent);
}

/// Later versions must replay this stored recording of the project.
#[test]
fn cuda_sample_replays_and_repeats_without_restore() {
    let cuda = CudaStandIn::default();
    let sample = root().join("sample-traces/cuda/net.kine");
    let sample = sample.to_str().unwrap();
    for more in [
        &[][..],
        &["--graph", "--no-restore", "--repeat", "3"],
        &["--repeat", "3"],
    ] {
        let mut arguments = vec!["replay", sample, "--on", "cuda:0", "--json"];
        arguments.extend(more);
        let done = kinescope(&cuda, &arguments);
        assert_eq!(done.code, Some(0), "{done:?}");
        let parsed_json = done.json();
        assert_eq!(parsed_json["outcome"], "match", "{parsed_json}");
        assert_eq!(parsed_json["reads_compared"], 2, "{parsed_json}");
        let restored = parsed_json["calls"]["restored"].as_array().unwrap().len();
        let restores = more.contains(&"--repeat") && !more.contains(&"--no-restore");
        assert_eq!(restored, if restores { 2 } else { 0 }, "{parsed_json}");
        assert!(
            parsed_json["calls"]["parts"]["read_ns"].as_u64().unwrap() > 0,
            "{parsed_json}"
        );
    }
}
