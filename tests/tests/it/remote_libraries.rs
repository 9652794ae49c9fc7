//! Programs with cuBLAS and cuRAND whose device is in a worker process: the same results and statuses as without one. A
//! library of the tests plays the part of NVIDIA's libraries, on the stand-in for the driver.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;
use std::process::Command;
use whole_program_tests::cuda::{CudaStandIn, run_to_end};
use whole_program_tests::program;

const LIBRARIES: [&str; 3] = ["libcublas.so.12", "libcublas.so.13", "libcurand.so.10"];

/// Returns a stand-in with NVIDIA's libraries next to it.
fn with_libraries() -> CudaStandIn {
    let stand_in = CudaStandIn::default();
    let library = program("libcuda_math_stand_in.so");
    for name in LIBRARIES {
        std::os::unix::fs::symlink(&library, stand_in.file(name)).unwrap();
    }
    stand_in
}

/// Returns the command `kinescope run` for a client program, with options before it.
fn run_command(stand_in: &CudaStandIn, options: &[&str], arguments: &[&str]) -> Command {
    for library in [
        "libkinescope_remote_cublas_12.so",
        "libkinescope_remote_cublas_13.so",
        "libkinescope_remote_curand.so",
    ] {
        // `program` asserts that it is built.
        let _ = program(library);
    }
    let mut command = Command::new(program("kinescope"));
    command.args(["run", "--on", "cuda:0"]).args(options).arg("--");
    command.arg(program("cuda-client")).args(arguments);
    stand_in.set_environment(&mut command);
    command.env("RUST_BACKTRACE", "0");
    command
}

/// Asserts that a client program does the same with a remote device as without.
fn check_same(stand_in: &CudaStandIn, options: &[&str], arguments: &[&str]) {
    let ended = stand_in.assert_same_run(arguments, &mut run_command(stand_in, options, arguments));
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// Programs that use the libraries.
const PROGRAMS: &[&[&str]] = &[
    &["blas"],
    &["blas", "--twelve"],
    &["blas", "--via", "per-thread"],
    &["blas_states", "--wrong-pointers"],
    &["random", "--wrong-pointers"],
    &["random", "2"],
];

#[test]
fn library_calls_give_the_same_results_with_a_remote_device() {
    let stand_in = with_libraries();
    for arguments in PROGRAMS {
        check_same(&stand_in, &[], arguments);
    }
}

#[test]
fn library_calls_give_the_same_results_when_each_call_waits() {
    let stand_in = with_libraries();
    for arguments in PROGRAMS {
        check_same(&stand_in, &["--wait-each"], arguments);
    }
}

/// Returns the number of requests and of waits of a call.
fn calls_of(report: &Value, name: &str) -> (u64, u64) {
    let functions = report["processes"][0]["functions"].as_array().unwrap();
    let call = functions.iter().find(|function| function["name"] == name);
    call.map_or((0, 0), |call| {
        (call["calls"].as_u64().unwrap(), call["waits"].as_u64().unwrap())
    })
}

#[test]
fn calls_in_device_pointer_mode_do_not_wait() {
    let stand_in = with_libraries();
    let mut command = run_command(&stand_in, &["--json"], &["blas_states", "--wrong-pointers"]);
    let ended = run_to_end(&mut command);
    let text = ended.out.lines().skip_while(|line| !line.starts_with('{'));
    let report: Value = serde_json::from_str(&text.collect::<Vec<_>>().join("\n")).unwrap();
    let (calls, waits) = calls_of(&report, "library_call");
    // The program makes 100 reductions with results in device memory.
    assert!(calls > 100 && waits == 0, "{calls} calls, {waits} waits");
}

#[test]
fn status_of_a_call_without_an_answer_comes_with_the_next_calls() {
    let stand_in = with_libraries();
    let run = |options: &[&str], fail: &str| {
        let mut command = run_command(&stand_in, options, &["blas_failure"]);
        let ended = run_to_end(command.env("MATH_STAND_IN_FAIL", fail));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.out.lines().next().unwrap_or_default().to_owned()
    };
    // Without an answer: the wait fails, and the next call of the handle has the status.
    assert_eq!(run(&[], "cublasSscal_v2:1=13"), "scal 0, wait false, sum 13, sum 0 6");
    // Each call waits: the call itself has the status.
    assert_eq!(
        run(&["--wait-each"], "cublasSscal_v2:1=13"),
        "scal 13, wait true, sum 0, sum 0 6"
    );
    assert_eq!(run(&[], "cublasSasum_v2:1=3"), "scal 0, wait true, sum 3, sum 0 6");
}

#[test]
fn missing_library_gets_one_message_that_says_what_to_install() {
    let stand_in = CudaStandIn::default();
    let ended = run_to_end(
        run_command(&stand_in, &[], &["blas_missing"])
            .env("KINESCOPE_CUBLAS_LIBRARY", "/nowhere/libcublas.so.13")
            .env("KINESCOPE_CURAND_LIBRARY", "/nowhere/libcurand.so.10"),
    );
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.out.starts_with("create 1\ncreate 1\ngenerator 203\n"),
        "{ended:?}"
    );
    let lines: Vec<&str> = ended.err.lines().collect();
    let [blas, random] = lines.as_slice() else {
        panic!("{ended:?}");
    };
    assert!(
        blas.starts_with("kinescope: cuBLAS is not installed where the device is (/nowhere/libcublas.so.13: "),
        "{blas}"
    );
    assert!(blas.contains("pip install nvidia-cublas"), "{blas}");
    assert!(random.contains("pip install nvidia-curand"), "{random}");
}

#[test]
fn libraries_without_the_verb_say_how_to_run() {
    let stand_in = CudaStandIn::default();
    for (name, library) in [
        ("libcublas.so.13", "libkinescope_remote_cublas_13.so"),
        ("libcurand.so.10", "libkinescope_remote_curand.so"),
    ] {
        std::os::unix::fs::symlink(program(library), stand_in.file(name)).unwrap();
    }
    let ended = run_to_end(&mut stand_in.client_command(&["blas_missing"]));
    assert!(
        ended.out.starts_with("create 1\ncreate 1\ngenerator 203\n"),
        "{ended:?}"
    );
    assert_eq!(ended.err.lines().count(), 2, "{ended:?}");
    assert!(
        ended.err.contains("this library needs Kinescope's libcuda.so.1"),
        "{ended:?}"
    );
}
