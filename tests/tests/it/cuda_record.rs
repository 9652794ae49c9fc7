//! CUDA programs recorded on the stand-in for the driver while something fails: memory, addresses, the disk or the
//! driver. Programs also fork, end in several ways, or are killed. The program continues as without a recorder. The
//! file opens and says what it lacks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use serde_json::json;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use trace_core::progress::Progress;
use trace_core::recording::CallEvent;
use whole_program_tests::cuda::{CudaStandIn, LIMIT, RecordedProgram, open, run_to_end};
use whole_program_tests::{program, run, send_signal};

fn launches(path: &Path) -> usize {
    let r = open(path);
    (0..r.events.len())
        .filter(|at| matches!(r.events.call(*at), Some(CallEvent::Launch(_))))
        .count()
}

/// Returns the findings of a recording: locations and messages.
fn findings(path: &Path) -> Vec<String> {
    open(path)
        .metadata
        .findings
        .iter()
        .map(|f| format!("{}: {}", f.place, f.message))
        .collect()
}

/// Returns whether the unfinished recording for `path` has a launch and the code of its first module. Until the program
/// ends, the recorder stores the recording in a separate folder next to `path`.
fn is_launch_stored(path: &Path) -> bool {
    let folders = std::fs::read_dir(path.parent().unwrap()).unwrap().flatten();
    let folders = folders.filter(|e| e.file_name().to_string_lossy().starts_with(".kinescope-record-"));
    let mut files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten());
    files.any(|file| {
        // A file without a commit does not open.
        let Ok(r) = trace_core::container::open(&file.path()) else {
            return false;
        };
        let metadata = r.api();
        let code = metadata.and_then(|m| r.module_code(m.modules.first()?));
        let is_launch = |at| matches!(r.events.call(at), Some(CallEvent::Launch(_)));
        code.is_some() && (0..r.events.len()).any(is_launch)
    })
}

/// Returns the reasons why a recording ended early.
fn read_losses(path: &Path) -> Vec<String> {
    open(path).metadata.lost.iter().map(|l| l.reason.clone()).collect()
}

/// Records a program while the driver fails as `set` says. Asserts that its results are those of a run without a
/// recorder.
fn record_unchanged(
    name: &str,
    options: &[&str],
    arguments: &[&str],
    set: &[(&str, &str)],
) -> (CudaStandIn, RecordedProgram) {
    let cuda = CudaStandIn::default();
    let (alone, bytes) = cuda.run_unrecorded(arguments);
    assert_eq!(alone.code, Some(0), "{alone:?}");
    let recorded = cuda.record(name, options, arguments, set);
    assert_eq!(recorded.ended.code, Some(0), "{set:?}: {:?}", recorded.ended);
    assert_eq!(recorded.ended.out, alone.out, "{set:?}");
    assert_eq!(recorded.out, bytes, "{set:?}");
    let verified = run([OsStr::new("verify"), recorded.path.as_os_str()]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    (cuda, recorded)
}

#[test]
fn recorded_file_stores_derived_data_for_the_first_frame() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("kept", &[], &["vector_add"]);
    let opened = trace_import::open(&recorded.path, &Default::default(), &Progress::new()).unwrap();
    let trace_import::Opened::Recording(opened) = opened else {
        panic!("it is a recording")
    };
    assert!(opened.pyramid.is_some(), "the file has counts of events");
    let report = trace_core::container::verify(&recorded.path).unwrap();
    assert_eq!(report.findings, []);
}

#[test]
fn memory_outside_the_window_is_allocated_by_the_driver() {
    for fail in ["cuMemCreate:1", "cuMemMap:1=205", "cuMemSetAccess:1", "cuMemCreate:2"] {
        // Each allocation of more than a granule has its own memory.
        let (_folder, recorded) =
            record_unchanged("memory", &[], &["vector_add", "600000"], &[("STAND_IN_FAIL", fail)]);
        assert_eq!(launches(&recorded.path), 1, "{fail}");
    }
}

#[test]
fn refused_addresses_are_a_finding_and_the_program_continues() {
    let (_folder, recorded) = record_unchanged("hints", &[], &["linked", "300"], &[("STAND_IN_HINTS", "no")]);
    assert_eq!(launches(&recorded.path), 5);
    assert_eq!(open(&recorded.path).api().unwrap().window.bytes, 0);
    let messages = findings(&recorded.path);
    assert!(messages.iter().any(|f| f.contains("0x153940000000")), "{messages:?}");
    // A driver that accepts only hints for long ranges is sufficient.
    let (cuda, recorded) = record_unchanged("long", &[], &["linked", "300"], &[("STAND_IN_HINTS", "long")]);
    assert_eq!(findings(&recorded.path), [""; 0]);
    cuda.replay_checked(&recorded, &json!({}), &[]);
}

#[test]
fn disabled_address_window_is_not_reserved() {
    let (_folder, recorded) = record_unchanged("window", &[], &["vector_add"], &[("KINESCOPE_CUDA_WINDOW", "no")]);
    assert_eq!(open(&recorded.path).api().unwrap().window.bytes, 0);
    assert_eq!(launches(&recorded.path), 1);
}

#[test]
fn dirty_memory_and_late_work_do_not_change_recordings() {
    for (program, set) in [
        ("memory", ("STAND_IN_POISON", "0xa5")),
        ("streams", ("STAND_IN_SLOW", "2000")),
        ("early", ("STAND_IN_SLOW", "3000")),
        ("graph", ("STAND_IN_SLOW", "3000")),
    ] {
        let (cuda, recorded) = record_unchanged("dirty", &[], &[program], &[set]);
        assert_eq!(findings(&recorded.path), [""; 0]);
        cuda.replay_checked(&recorded, &json!({}), &[set]);
    }
}

#[test]
fn a_limit_ends_the_recording_and_not_the_program() {
    let (_folder, recorded) = record_unchanged("limit", &["--limit", "300000"], &["net", "400"], &[]);
    assert!(!read_losses(&recorded.path).is_empty(), "{:?}", recorded.ended);
    assert!(recorded.ended.err.contains("ends"), "{:?}", recorded.ended);
    let count = launches(&recorded.path);
    assert!(count > 0 && count < 1600, "{count} launches");
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_program() {
    let cuda = CudaStandIn::default();
    let (alone, _) = cuda.run_unrecorded(&["net", "400"]);
    let path = cuda.file("full.kine");
    // No file of the program may be longer than 1000 KiB. A longer write fails instead of killing the program. The
    // device is slow, so that the recorder writes something before that.
    let client = program("cuda-client");
    let script = format!("trap '' XFSZ; ulimit -f 1000; exec {} net 400", client.display());
    let command = [OsStr::new("bash"), OsStr::new("-c"), OsStr::new(&script)];
    let mut recorder = cuda.record_command(&path, &[], &command);
    let ended = run_to_end(recorder.env("STAND_IN_SLOW", "800"));
    assert_eq!((ended.code, &ended.out), (Some(0), &alone.out), "{ended:?}");
    assert!(ended.err.contains("File too large"), "{ended:?}");
    let messages = read_losses(&path);
    assert!(
        messages.iter().any(|why| why.contains("File too large")),
        "{messages:?}"
    );
    let count = launches(&path);
    assert!(count > 0 && count < 1600, "{count} launches");
    let verified = run([OsStr::new("verify"), path.as_os_str()]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[test]
fn a_program_that_is_killed_leaves_a_recording_that_opens() {
    let cuda = CudaStandIn::default();
    let path = cuda.file("killed.kine");
    let client = program("cuda-client");
    let command = [client.as_os_str(), OsStr::new("faulty"), OsStr::new("--hang")];
    let mut recorder = cuda.record_command(&path, &[], &command);
    let mut recorder = recorder.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(recorder.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "faulty: hanging now\n");
    let begun = Instant::now();
    while !is_launch_stored(&path) {
        assert!(begun.elapsed() < LIMIT, "the launch is not in the file");
        std::thread::sleep(Duration::from_millis(50));
    }
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", recorder.id())).unwrap();
    let child = children.split_whitespace().next().unwrap().parse().unwrap();
    send_signal(child, "KILL");
    let begun = Instant::now();
    while recorder.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < LIMIT);
        std::thread::sleep(Duration::from_millis(10));
    }
    let ended = recorder.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(128 + 9), "{ended:?}");
    assert_eq!(launches(&path), 1);
    let verified = run([OsStr::new("verify"), path.as_os_str()]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let r = open(&path);
    let metadata = r.api().unwrap();
    assert_eq!(metadata.functions[0].name, "obey");
    assert!(
        r.module_code(&metadata.modules[0]).is_some(),
        "the code of the module is in the file"
    );
}

#[test]
fn every_kind_of_program_exit_leaves_a_recording() {
    // Nobody notifies the recorder when a program executes another one. The device is slow, so that the launch is in
    // the file before that.
    let (slow, fast) = ([("STAND_IN_SLOW", "400000")], [("STAND_IN_SLOW", "0")]);
    for (way, code, device) in [
        ("return", 0, &fast),
        ("_exit", 0, &fast),
        ("abort", 128 + 6, &fast),
        ("term", 128 + 15, &fast),
        ("exec", 0, &slow),
    ] {
        let cuda = CudaStandIn::default();
        let recorded = cuda.record("end", &[], &["reduction", "--end", way], device);
        assert_eq!(recorded.ended.code, Some(code), "{way}: {:?}", recorded.ended);
        assert!(
            recorded.ended.out.starts_with("ok reduction"),
            "{way}: {:?}",
            recorded.ended
        );
        assert_eq!(launches(&recorded.path), 1, "{way}");
        let verified = run([OsStr::new("verify"), recorded.path.as_os_str()]);
        assert_eq!(verified.code, Some(0), "{way}: {verified:?}");
        if way != "exec" {
            cuda.replay_checked(&recorded, &json!({}), &[]);
        }
    }
}

#[test]
fn failing_program_keeps_its_exit_code_and_records_the_failure() {
    let cuda = CudaStandIn::default();
    let (alone, _) = cuda.run_unrecorded(&["faulty", "--bad"]);
    assert_eq!(alone.code, Some(1));
    assert!(alone.err.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{alone:?}");
    let recorded = cuda.record("bad", &[], &["faulty", "--bad"], &[]);
    assert_eq!(recorded.ended.code, Some(1), "{:?}", recorded.ended);
    let message = recorded.ended.err.lines().next().unwrap();
    assert_eq!(
        message,
        alone.err.trim_end(),
        "the recorded program prints the same error"
    );
    let r = recorded.open();
    let results: Vec<u32> = (0..r.events.len())
        .filter_map(|at| Some(r.events.call(at)?.result()))
        .collect();
    assert!(results.contains(&700), "{results:?}");
    assert_eq!(launches(&recorded.path), 1);
    // The replay fails again at the same launch.
    let (answer, _) = cuda.replay(&recorded.path, &json!({"step": true}), &[]);
    assert!(
        answer["stopped"]["why"]
            .as_str()
            .unwrap()
            .contains("CUDA_ERROR_ILLEGAL_ADDRESS"),
        "{answer}"
    );
}

#[test]
fn recorder_keeps_the_errors_of_failing_calls() {
    let cuda = CudaStandIn::default();
    for fail in [
        "cuMemAlloc_v2:1",
        "cuLaunchKernel:1=701",
        "cuModuleLoadData:1=218",
        "cuStreamSynchronize:2=702",
    ] {
        let arguments = ["streams", "--via", "dlsym"];
        let mut command = cuda.client_command(&arguments);
        let alone = run_to_end(command.env("STAND_IN_FAIL", fail));
        assert_eq!(alone.code, Some(1), "{fail}: {alone:?}");
        // The recorder allocates memory with other calls of the driver.
        let set = if fail.starts_with("cuMemAlloc") {
            "cuMemCreate:1,cuMemAlloc_v2:1"
        } else {
            fail
        };
        let recorded = cuda.record("fails", &[], &arguments, &[("STAND_IN_FAIL", set)]);
        assert_eq!(recorded.ended.code, Some(1), "{fail}: {:?}", recorded.ended);
        let message = recorded.ended.err.lines().next().unwrap_or_default();
        assert_eq!(message, alone.err.trim_end(), "{fail}");
        let _ = open(&recorded.path);
    }
}

#[test]
fn program_without_cuda_driver_is_reported_and_writes_nothing() {
    let cuda = CudaStandIn::default();
    let path = cuda.file("none.kine");
    let client = program("cuda-client");
    let command = [client.as_os_str(), OsStr::new("vector_add")];
    let ended = run_to_end(
        cuda.record_command(&path, &[], &command)
            .env("LD_LIBRARY_PATH", "/nowhere"),
    );
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("there is no CUDA driver"), "{ended:?}");
    assert!(ended.err.contains("not written"), "{ended:?}");
    assert!(!path.exists());
}

#[test]
fn each_recorded_process_has_its_own_file() {
    let cuda = CudaStandIn::default();
    let path = cuda.file("two.kine");
    let client = program("cuda-client");
    let script = format!("{0} reduction && {0} linked 100", client.display());
    let ended = run_to_end(&mut cuda.record_command(&path, &[], &["sh".as_ref(), "-c".as_ref(), script.as_ref()]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(launches(&path), 1);
    let others: Vec<_> = std::fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "kine") && *p != path)
        .collect();
    assert_eq!(others.len(), 1, "{others:?}");
    assert_eq!(launches(&others[0]), 5);
}

#[test]
fn updated_graph_keeps_its_own_nodes() {
    // The last two launches of the graph differ: another graph replaces it, then the factor of one node changes again.
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("update", &[], &["graph", "500"]);
    cuda.replay_checked(&recorded, &json!({}), &[]);
}

#[test]
fn unsynchronized_readback_is_not_read_early() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("early", &[], &["early", "700"]);
    cuda.replay_checked(&recorded, &json!({}), &[]);
}

/// Records an edge case of a program on a device that starts slowly, and replays it. The recording must have the
/// program's results.
fn record_edge_case(word: &str, way: &str) -> (CudaStandIn, RecordedProgram) {
    let (cuda, recorded) = record_unchanged(
        "corner",
        &[],
        &["corners", word, "--via", way],
        &[("STAND_IN_SLOW", "20000")],
    );
    cuda.replay_checked(&recorded, &json!({}), &[]);
    (cuda, recorded)
}

#[test]
fn freeing_host_memory_does_not_end_other_copies() {
    let (_folder, recorded) = record_edge_case("--other-freed", "driver");
    assert_eq!(findings(&recorded.path), [""; 0]);
}

#[test]
fn readback_into_freed_host_memory_is_read_before_the_free() {
    record_edge_case("--freed-early", "driver");
}

#[test]
fn readback_into_pageable_memory_is_read_at_once() {
    record_edge_case("--pageable", "driver");
}

#[test]
fn recreated_event_has_no_earlier_dependencies() {
    record_edge_case("--event-again", "driver");
}

#[test]
fn copies_record_what_host_functions_wrote_before() {
    let (_folder, recorded) = record_edge_case("--host-fill", "driver");
    let messages = findings(&recorded.path);
    assert!(
        matches!(&messages[..], [one] if one.contains("host functions")),
        "the only finding is about host functions: {messages:?}"
    );
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("streams", &[], &["streams", "--host-function"]);
    cuda.replay_checked(&recorded, &json!({}), &[]);
}

#[test]
fn blocking_host_function_does_not_block_the_recorder() {
    let (_folder, recorded) = record_unchanged("waits", &[], &["corners", "--host-waits"], &[]);
    let messages = findings(&recorded.path);
    assert!(
        messages.iter().any(|f| f.contains("could not wait for them")),
        "{messages:?}"
    );
}

#[test]
fn memory_used_by_another_context_is_freed_after_its_work() {
    record_edge_case("--two-contexts", "driver");
}

#[test]
fn memory_is_freed_in_stream_order_of_another_context() {
    record_edge_case("--elsewhere", "driver");
}

#[test]
fn captures_are_not_ended_by_the_recorder() {
    for way in ["driver", "dlsym"] {
        record_edge_case("--capture", way);
        // Captures after the recorded range also continue.
        let set = [("KINESCOPE_CUDA_RANGE", "first:1"), ("STAND_IN_SLOW", "20000")];
        record_unchanged("range", &[], &["corners", "--capture", "--via", way], &set);
    }
}

#[test]
fn host_accessible_pools_stay_with_the_driver_and_are_tracked() {
    let (cuda, recorded) = record_unchanged("pools", &[], &["corners", "--managed-pool"], &[]);
    assert_eq!(findings(&recorded.path), [""; 0]);
    cuda.replay_checked(&recorded, &json!({}), &[]);
}

#[test]
fn recorder_does_not_consume_signals_of_the_program() {
    record_unchanged("signal", &[], &["corners", "--signal"], &[]);
}

#[test]
fn every_slice_of_a_copy_is_recorded() {
    record_edge_case("--slices", "driver");
}

#[test]
fn last_context_release_frees_its_memory() {
    let (_folder, recorded) = record_unchanged("released", &[], &["corners", "--released"], &[]);
    assert_eq!(findings(&recorded.path), [""; 0]);
}
