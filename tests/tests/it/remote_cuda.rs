//! CUDA programs whose device is in a worker process: the same results and errors as without one, on the stand-in for
//! the driver.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};
use whole_program_tests::cuda::{CudaStandIn, open, run_to_end};
use whole_program_tests::{ProgramOutput, program};

/// Returns the command `kinescope run` for one of the client programs, with options before it.
fn run_command(stand_in: &CudaStandIn, options: &[&str], arguments: &[&str]) -> Command {
    // The library must be in the folder of `kinescope`. `program` asserts that it is built.
    let _ = program("libkinescope_remote_cuda.so");
    let mut command = Command::new(program("kinescope"));
    command.args(["run", "--on", "cuda:0"]).args(options).arg("--");
    command.arg(program("cuda-client")).args(arguments);
    stand_in.set_environment(&mut command);
    // The program must find the library by what `run` sets, and not the stand-in.
    command.env_remove("LD_LIBRARY_PATH");
    command
}

/// Runs a client program remotely. Returns its result, and the bytes copied back from the device.
fn run_remote(stand_in: &CudaStandIn, options: &[&str], arguments: &[&str]) -> (ProgramOutput, Vec<u8>) {
    let out = stand_in.file("remote.bin");
    let _ = std::fs::remove_file(&out);
    let mut command = run_command(stand_in, options, arguments);
    let ended = run_to_end(command.arg("--out").arg(&out));
    (ended, std::fs::read(&out).unwrap_or_default())
}

/// Asserts that a client program does the same with a remote device as without.
fn check_same(stand_in: &CudaStandIn, options: &[&str], arguments: &[&str]) {
    stand_in.assert_same_run(arguments, &mut run_command(stand_in, options, arguments));
}

#[test]
fn programs_give_the_same_results_with_a_remote_device() {
    let stand_in = CudaStandIn::default();
    for arguments in PROGRAMS {
        check_same(&stand_in, &[], arguments);
    }
}

#[test]
fn programs_give_the_same_results_when_each_call_waits() {
    let stand_in = CudaStandIn::default();
    for arguments in PROGRAMS {
        check_same(&stand_in, &["--wait-each"], arguments);
    }
}

/// Programs that the library serves.
pub const PROGRAMS: &[&[&str]] = &[
    &["vector_add"],
    &["vector_add", "--via", "dlsym"],
    &["vector_add", "--via", "library"],
    &["vector_add", "--via", "per-thread"],
    &["reduction"],
    &["globals"],
    &["stride"],
    &["wrong_for_some"],
    &["faulty"],
    &["faulty", "--bad"],
    &["cooperative"],
    &["linked"],
    &["streams"],
    &["streams", "--via", "per-thread"],
    &["early"],
    &["graph"],
    &["nodes"],
    &["nodes", "--cluster"],
    &["queries", "--stale"],
    &["corners", "--capture"],
    &["net"],
    &["net", "--via", "library"],
    &["assembled"],
    &["arrays"],
    &["arrays", "--destroyed"],
    &["arrays", "--via", "library"],
    &["arrays", "--via", "per-thread"],
    &["details"],
    &["details", "--via", "dlsym", "--by-name"],
    &["besides"],
    &[
        "besides",
        "--batch",
        "--limits",
        "--attributes",
        "--callback",
        "--pinned",
    ],
    &["feedback"],
    &["owners"],
    &["states", "--freed-elsewhere"],
    &["states", "--dead-stream"],
    &["steps"],
    &["threads"],
    &["threads", "--via", "per-thread"],
    &["transfers"],
    &["memory"],
    &["mapped"],
    &["shared"],
    &["past"],
    &["collective"],
    &[
        "corners",
        "--other-freed",
        "--freed-early",
        "--pageable",
        "--event-again",
    ],
    &["corners", "--host-fill"],
    &["corners", "--host-waits"],
    &["corners", "--two-contexts", "--elsewhere", "--slices", "--released"],
];

/// Failures of the driver, and programs that meet them. Each call waits, so that the error comes from the same call.
#[test]
fn failures_of_the_driver_have_the_same_results_at_the_same_calls() {
    let stand_in = CudaStandIn::default();
    for (failure, arguments) in [
        ("cuMemAlloc_v2:1", ["vector_add"].as_slice()),
        ("cuMemAlloc_v2:3=2", &["vector_add"]),
        ("cuModuleLoadData:1=218", &["vector_add"]),
        ("cuLaunchKernel:1=701", &["vector_add"]),
        ("cuLaunchKernel:2+=1", &["reduction"]),
        ("cuCtxSynchronize:1=719", &["vector_add"]),
        ("kernel:1", &["vector_add"]),
        ("kernel:2=716", &["reduction"]),
        ("cuStreamCreate:1=2", &["streams"]),
        ("cuEventCreate:1=2", &["streams"]),
    ] {
        let out = stand_in.file("alone.bin");
        let mut direct = stand_in.client_command(arguments);
        let direct = run_to_end(direct.env("STAND_IN_FAIL", failure).arg("--out").arg(&out));
        let mut remote = run_command(&stand_in, &["--wait-each"], arguments);
        let remote = run_to_end(remote.env("STAND_IN_FAIL", failure));
        assert_eq!(
            remote.code, direct.code,
            "{failure} {arguments:?}: {remote:?}, not {direct:?}"
        );
        assert_eq!(remote.err, direct.err, "{failure} {arguments:?}");
    }
}

/// The query is not ready, and carries the error of the fill: a later call must report it.
#[test]
fn error_of_a_call_without_an_answer_survives_a_query() {
    let stand_in = CudaStandIn::default();
    let mut command = run_command(&stand_in, &[], &["states", "--failed-fill"]);
    let ended = run_to_end(command.env("STAND_IN_FAIL", "cuMemsetD8Async:1=1,cuStreamQuery:1=600"));
    assert!(ended.out.contains("reported: true"), "{ended:?}");
}

/// A copy that is refused gives its range of the staging area back.
#[test]
fn copies_after_an_error_of_the_device_do_not_fill_the_staging_area() {
    let stand_in = CudaStandIn::default();
    let mut command = run_command(&stand_in, &[], &["states", "--copies-after-error"]);
    let ended = run_to_end(command.env("STAND_IN_FAIL", "cuStreamQuery:1=700"));
    assert_eq!(ended.out.matches("copy: 700").count(), 20, "{ended:?}");
}

/// An error of the device comes from a later call, as it does from a driver, and then from every call.
#[test]
fn error_of_a_kernel_reaches_the_program_without_waits() {
    let stand_in = CudaStandIn::default();
    let mut command = run_command(&stand_in, &[], &["vector_add"]);
    let ended = run_to_end(command.env("STAND_IN_FAIL", "kernel:1"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("CUDA_ERROR_ILLEGAL_ADDRESS (700)"), "{ended:?}");
}

fn report(ended: &ProgramOutput) -> Value {
    let last = ended
        .out
        .lines()
        .skip_while(|line| !line.starts_with('{'))
        .collect::<String>();
    serde_json::from_str(&last).unwrap_or_else(|e| panic!("{e}: {ended:?}"))
}

fn calls_of(report: &Value, name: &str) -> (u64, u64) {
    let functions = report["processes"][0]["functions"].as_array().unwrap();
    let function = functions.iter().find(|function| function["name"] == name);
    function.map_or((0, 0), |f| (f["calls"].as_u64().unwrap(), f["waits"].as_u64().unwrap()))
}

#[test]
fn launches_and_copies_to_the_device_do_not_wait() {
    let stand_in = CudaStandIn::default();
    let ended = run_to_end(&mut run_command(&stand_in, &["--json"], &["vector_add"]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let quick = report(&ended);
    assert_eq!(calls_of(&quick, "launch"), (1, 0), "{quick}");
    assert_eq!(calls_of(&quick, "finish_copy_to_device"), (2, 0), "{quick}");
    let ended = run_to_end(&mut run_command(&stand_in, &["--json", "--wait-each"], &["vector_add"]));
    let slow = report(&ended);
    assert_eq!(calls_of(&slow, "launch"), (1, 1), "{slow}");
    assert_eq!(calls_of(&slow, "finish_copy_to_device"), (2, 2), "{slow}");
    assert_eq!(slow["processes"][0]["calls"], slow["processes"][0]["waits"], "{slow}");
}

/// Processes of this test that serve programs on the stand-in of its folder.
fn list_workers(stand_in: &CudaStandIn) -> Vec<u32> {
    stand_in.list_processes("serve-program")
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "there was no: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn worker_ends_with_a_killed_program() {
    let stand_in = CudaStandIn::default();
    let mut command = run_command(&stand_in, &[], &["faulty", "--hang"]);
    stand_in.count_ticks(&mut command);
    let mut runner = command.spawn().unwrap();
    stand_in.wait_for_ticks(1);
    assert_eq!(list_workers(&stand_in).len(), 1);
    let programs = stand_in.list_processes("cuda-client");
    let killed = programs.iter().filter(|id| **id != runner.id());
    for program in killed {
        let killed = Command::new("sh").args(["-c", &format!("kill -9 {program}")]).status();
        assert!(killed.unwrap().success());
    }
    assert_eq!(runner.wait().unwrap().code(), Some(137));
    assert_eq!(list_workers(&stand_in), Vec::<u32>::new());
}

#[test]
fn program_without_its_worker_gets_an_error() {
    let stand_in = CudaStandIn::default();
    let mut command = run_command(&stand_in, &[], &["faulty", "--hang"]);
    stand_in.count_ticks(&mut command);
    let out = std::process::Stdio::piped();
    let runner = command.stderr(out).spawn().unwrap();
    stand_in.wait_for_ticks(1);
    for worker in list_workers(&stand_in) {
        let killed = Command::new("sh").args(["-c", &format!("kill -9 {worker}")]).status();
        assert!(killed.unwrap().success());
    }
    let ended = ProgramOutput::from(runner.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.err.contains("the connection to the CUDA device is lost"),
        "{ended:?}"
    );
    assert!(ended.err.contains("CUDA_ERROR_DEVICE_UNAVAILABLE (46)"), "{ended:?}");
    wait_until("end of the worker", || list_workers(&stand_in).is_empty());
}

#[test]
fn target_that_is_no_device_of_this_machine_is_refused_before_the_program_runs() {
    for (target, message) in [
        (
            "software:mali-g71",
            "is no CUDA device (expected cuda:N or agent:NAME/cudaN)",
        ),
        ("cuda:", "the device's number is missing"),
        ("gpu", "it must begin with"),
    ] {
        let ended = whole_program_tests::run(["run", "--on", target, "--", "echo", "ran"]);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains(message) && !ended.out.contains("ran"), "{ended:?}");
    }
}

#[test]
fn program_without_the_verb_is_told_how_to_run() {
    let library = program("libkinescope_remote_cuda.so");
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(library, folder.path().join("libcuda.so.1")).unwrap();
    let mut command = Command::new(program("cuda-client"));
    command
        .arg("vector_add")
        .env("LD_LIBRARY_PATH", folder.path())
        .env_remove("KINESCOPE_REMOTE");
    let ended = run_to_end(&mut command);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("kinescope run --on TARGET -- PROGRAM"), "{ended:?}");
    assert!(ended.err.contains("CUDA_ERROR_NO_DEVICE (100)"), "{ended:?}");
}

/// Streams, events, fills and launches of a loop need no answer: the program waits for its result, once.
#[test]
fn loop_of_launches_waits_once() {
    let stand_in = CudaStandIn::default();
    let waits = |size: &str| {
        let ended = run_to_end(&mut run_command(&stand_in, &["--json"], &["steps", size]));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let report = report(&ended);
        let process = &report["processes"][0];
        (process["calls"].as_u64().unwrap(), process["waits"].as_u64().unwrap())
    };
    let ((few_calls, few_waits), (many_calls, many_waits)) = (waits("10"), waits("100"));
    assert!(many_calls >= few_calls + 6 * 90, "{few_calls} and {many_calls} calls");
    assert_eq!(few_waits, many_waits, "{few_calls} and {many_calls} calls");
}

#[test]
fn recorded_runs_replay_with_the_same_outputs() {
    let stand_in = CudaStandIn::default();
    for arguments in [["net"].as_slice(), &["streams"], &["graph"], &["memory"]] {
        let to = stand_in.file("run.kine");
        let _ = std::fs::remove_file(&to);
        let options = ["--record", to.to_str().unwrap()];
        let (_, bytes) = stand_in.run_unrecorded(arguments);
        let (remote, remote_bytes) = run_remote(&stand_in, &options, arguments);
        assert_eq!(remote.code, Some(0), "{remote:?}");
        assert!(remote.err.contains("launches"), "{remote:?}");
        assert!(remote_bytes == bytes, "{arguments:?}: the bytes differ");
        let recording = open(&to);
        assert!(
            recording.metadata.findings.is_empty(),
            "{:?}",
            recording.metadata.findings
        );
        stand_in.assert_replays(&to);
    }
}

#[test]
fn recorder_works_in_a_program_with_a_remote_device() {
    let stand_in = CudaStandIn::default();
    let to = stand_in.file("inside.kine");
    let mut command = Command::new(program("kinescope"));
    command.args(["run", "--on", "cuda:0", "--"]).arg(program("kinescope"));
    command
        .args(["record", "--with", "cuda", "-o"])
        .arg(&to)
        .arg("--")
        .arg(program("cuda-client"))
        .arg("net");
    stand_in.set_environment(&mut command);
    command.env_remove("LD_LIBRARY_PATH");
    let ended = run_to_end(&mut command);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(open(&to).events.launches.len(), 12);
    let verified = whole_program_tests::run([std::ffi::OsStr::new("verify"), to.as_os_str()]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
}
