//! CUDA programs on the stand-in for the driver: run alone, recorded, and replayed in a new process. Replays run by
//! calls, repeatedly, as one graph and launch by launch, with other inputs, and on failing devices and drivers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use trace_core::recording::{CallEvent, CopyKind};
use whole_program_tests::cuda::{CudaStandIn, RecordedProgram, run_to_end};
use whole_program_tests::program;

/// The stand-in fills memory that no call has written with this byte.
const DIRTY: [(&str, &str); 1] = [("STAND_IN_POISON", "0xa5")];
/// Work begins late, so that a missing wait is noticed.
const LATE: [(&str, &str); 1] = [("STAND_IN_SLOW", "1000")];

/// Returns the events of a recording's launches.
fn launches(recorded: &RecordedProgram) -> Vec<u64> {
    let r = recorded.open();
    let is_launch = |at: &usize| matches!(r.events.call(*at), Some(CallEvent::Launch(_)));
    (0..r.events.len()).filter(is_launch).map(|at| at as u64).collect()
}

/// Returns the bytes of a recording's copies to the device, in order.
fn inputs(recorded: &RecordedProgram) -> Vec<Vec<u8>> {
    let r = recorded.open();
    let calls = (0..r.events.len()).filter_map(|at| r.events.call(at));
    let copies = calls.filter_map(|call| match call {
        CallEvent::Copy(c) if CopyKind::from_raw(c.kind) == Some(CopyKind::HostToDevice) => r.copy_content(&c),
        _ => None,
    });
    copies.collect()
}

/// Records a program that finds its driver in one way, and replays the recording in every way.
fn assert_replays_in_every_way(arguments: &[&str], way: &str) {
    let cuda = CudaStandIn::default();
    let arguments = [arguments, &["--via", way]].concat();
    let recorded = cuda.record_checked("program", &[], &arguments);
    let played = cuda.replay_checked(&recorded, &json!({}), &[]);
    assert_eq!(played["left_out"], json!([]), "{played}");
    assert!(!launches(&recorded).is_empty());
    if way == "dlsym" || way == "per-thread" {
        return;
    }
    let again = cuda.replay_checked(&recorded, &json!({"repeat": 3}), &DIRTY);
    assert_eq!(again["runs_ns"].as_array().map(Vec::len), Some(3), "{again}");
    assert_eq!(again["launches"], played["launches"]);
    cuda.replay_checked(&recorded, &json!({"step": true}), &LATE);
    let graph = cuda.replay_checked(&recorded, &json!({"graph": true, "repeat": 2}), &DIRTY);
    assert_eq!(graph["graph"], true, "{graph}");
}

macro_rules! programs {
    ($($test:ident: $arguments:expr;)*) => { $(
        mod $test {
            use super::assert_replays_in_every_way;

            #[test]
            fn found_by_the_driver() {
                assert_replays_in_every_way(&$arguments, "driver");
            }

            #[test]
            fn found_by_the_loader() {
                assert_replays_in_every_way(&$arguments, "dlsym");
            }

            #[test]
            fn of_a_library() {
                assert_replays_in_every_way(&$arguments, "library");
            }

            #[test]
            fn with_streams_of_threads() {
                assert_replays_in_every_way(&$arguments, "per-thread");
            }
        }
    )* };
}

programs! {
    vector_add: ["vector_add"];
    reduction: ["reduction"];
    linked: ["linked"];
    globals: ["globals"];
    streams: ["streams"];
    early: ["early"];
    graph: ["graph"];
    cooperative: ["cooperative"];
    net: ["net"];
    threads: ["threads"];
    memory: ["memory"];
    stride: ["stride"];
    wrong_for_some: ["wrong_for_some"];
    faulty: ["faulty"];
}

/// Replays with the inputs of another run of the program. The outputs must be those of the other run.
fn assert_replays_other_inputs(arguments: &[&str], indexes: &[usize]) {
    let cuda = CudaStandIn::default();
    let first = cuda.record_checked("first", &[], &[arguments, &["--seed", "1"]].concat());
    let second = cuda.record_checked("second", &[], &[arguments, &["--seed", "2"]].concat());
    assert_ne!(first.out, second.out);
    let other = inputs(&second);
    let mut input_files = serde_json::Map::new();
    for n in indexes {
        let path = cuda.file(&format!("input{n}.bin"));
        std::fs::write(&path, &other[*n]).unwrap();
        input_files.insert(format!("in{n}"), json!(path));
    }
    for more in [json!({}), json!({"graph": true}), json!({"repeat": 2})] {
        let mut request = json!({"inputs": input_files});
        request
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let (answer, bytes) = cuda.replay(&first.path, &request, &DIRTY);
        assert!(answer["played"].is_object(), "{answer}");
        assert_eq!(
            bytes, second.out,
            "{more}: the outputs equal the results of the program"
        );
        let differs = |o: &Value| o["differs_at"].is_u64();
        let outputs = answer["played"]["outputs"].as_array().unwrap();
        assert!(outputs.iter().any(differs), "the outputs differ from the recording");
    }
}

#[test]
fn edited_inputs_of_a_sum_change_its_result() {
    assert_replays_other_inputs(&["vector_add"], &[0, 1]);
}

#[test]
fn edited_inputs_of_atomics_change_their_result() {
    assert_replays_other_inputs(&["reduction"], &[0]);
}

#[test]
fn network_replay_with_other_inputs_gives_other_scores() {
    // Three layers with weights and biases and the weights of the last product make seven copies before the input.
    assert_replays_other_inputs(&["net", "1"], &[7]);
}

#[test]
fn an_input_that_does_not_fit_is_refused() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("short", &[], &["reduction", "100"]);
    let path = cuda.file("short.bin");
    std::fs::write(&path, [0; 12]).unwrap();
    for (name, needle) in [("in0", "12 bytes"), ("in7", "in7")] {
        let (answer, _) = cuda.replay(&recorded.path, &json!({"inputs": {name: path}}), &[]);
        let why = answer["failed"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(why.contains(needle), "{why}");
    }
}

#[test]
fn range_ends_after_its_launches() {
    let cuda = CudaStandIn::default();
    let (alone, results) = cuda.run_unrecorded(&["net", "4"]);
    assert_eq!(alone.code, Some(0), "{alone:?}");
    // An inference has four launches. The recording has two inferences and the memory after them.
    let recorded = cuda.record("range", &["--range", "first:8"], &["net", "4"], &[]);
    assert_eq!(
        (recorded.ended.code, &recorded.out),
        (Some(0), &results),
        "{:?}",
        recorded.ended
    );
    assert_eq!(launches(&recorded).len(), 8);
    assert_eq!(recorded.open().api().unwrap().range, "first 8 launches");
    let (answer, bytes) = cuda.replay(&recorded.path, &json!({}), &DIRTY);
    let outputs = answer["played"]["outputs"]
        .as_array()
        .unwrap_or_else(|| panic!("{answer}"));
    assert!(outputs.iter().all(|o| o["differs_at"].is_null()), "{answer}");
    // The scores of the first inference are read back in the range. Those of the second are in memory at its end.
    let scores = results.len() / 4;
    assert_eq!(bytes[..scores], results[..scores]);
    let second = &results[scores..2 * scores];
    assert!(
        bytes.windows(scores).any(|w| w == second),
        "memory at the end contains the scores of the second inference"
    );
}

#[test]
fn range_between_marks_replays_from_its_initial_memory() {
    let cuda = CudaStandIn::default();
    for (program, size, parts) in [("net", "5", 5), ("vector_add", "3000", 2)] {
        let arguments = [program, size, "--marks"];
        let (alone, results) = cuda.run_unrecorded(&arguments);
        assert_eq!(alone.code, Some(0), "{alone:?}");
        let recorded = cuda.record(program, &["--range", "marks"], &arguments, &[]);
        assert_eq!(
            (recorded.ended.code, &recorded.out),
            (Some(0), &results),
            "{:?}",
            recorded.ended
        );
        let all = launches(&recorded).len();
        assert_eq!(all, if program == "net" { 4 } else { 1 }, "{program}");
        let (answer, bytes) = cuda.replay(&recorded.path, &json!({}), &DIRTY);
        let outputs = answer["played"]["outputs"]
            .as_array()
            .unwrap_or_else(|| panic!("{answer}"));
        assert!(outputs.iter().all(|o| o["differs_at"].is_null()), "{answer}");
        let last = &results[results.len() / parts * (parts - 1)..];
        assert_eq!(&bytes[..last.len()], last, "{program}: the readback between the marks");
    }
}

/// Records the program whose input selects what its kernel does. Returns the recording and the event of its launch.
fn record_faulty(cuda: &CudaStandIn) -> (RecordedProgram, u64) {
    let recorded = cuda.record_checked("obedient", &[], &["faulty"]);
    let launch = launches(&recorded);
    assert_eq!(launch.len(), 1);
    let launch = launch[0];
    (recorded, launch)
}

/// Returns an input with a command and an address.
fn order(cuda: &CudaStandIn, command: u32) -> Value {
    let path = cuda.file("order.bin");
    let bytes: Vec<u8> = [command, 0, 0x10, 0].iter().flat_map(|w| w.to_le_bytes()).collect();
    std::fs::write(&path, bytes).unwrap();
    json!({"in0": path})
}

#[test]
fn illegal_address_reply_names_its_launch() {
    let cuda = CudaStandIn::default();
    let (recorded, launch) = record_faulty(&cuda);
    let request = json!({"inputs": order(&cuda, 1), "step": true});
    let (answer, _) = cuda.replay(&recorded.path, &request, &[]);
    let stopped = &answer["stopped"];
    assert_eq!(stopped["event"], launch, "{answer}");
    assert!(
        stopped["why"].as_str().unwrap().contains("CUDA_ERROR_ILLEGAL_ADDRESS"),
        "{answer}"
    );
    // Without waits, a later launch may report the error.
    let (answer, _) = cuda.replay(&recorded.path, &json!({"inputs": order(&cuda, 1)}), &[]);
    assert!(answer["stopped"]["event"].as_u64().unwrap() >= launch, "{answer}");
    // The recording still replays afterwards.
    cuda.replay_checked(&recorded, &json!({}), &[]);
}

#[test]
fn step_replay_announces_a_launch_before_it_starts() {
    let cuda = CudaStandIn::default();
    let (recorded, launch) = record_faulty(&cuda);
    let request = json!({"file": recorded.path, "inputs": order(&cuda, 2), "step": true});
    let mut player = cuda.replay_command();
    cuda.count_ticks(&mut player);
    let mut child = player.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut request_stream = child.stdin.take().unwrap();
    writeln!(request_stream, "{request}").unwrap();
    drop(request_stream);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), json!({"at": launch}));
    // The kernel runs an endless loop.
    cuda.wait_for_ticks(cuda.ticks() + 20);
    assert!(child.try_wait().unwrap().is_none(), "the kernel hangs");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn replay_errors_name_the_failed_launch() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("third", &[], &["net", "3"]);
    let launches = launches(&recorded);
    for (fail, nth, name) in [
        ("kernel:3", 2, "CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("kernel:7=719", 6, "CUDA_ERROR_LAUNCH_FAILED"),
        ("kernel:12=716", 11, "CUDA_ERROR_MISALIGNED_ADDRESS"),
        ("cuLaunchKernelEx:5=701", 4, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
    ] {
        let (answer, _) = cuda.replay(&recorded.path, &json!({"step": true}), &[("STAND_IN_FAIL", fail)]);
        let stopped = &answer["stopped"];
        assert_eq!(stopped["event"], launches[nth], "{fail}: {answer}");
        assert!(stopped["why"].as_str().unwrap().contains(name), "{fail}: {answer}");
    }
}

#[test]
fn lost_device_always_yields_a_reply() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("lost", &[], &["linked", "200"]);
    let (mut reported, mut played) = (0, 0);
    for call in (1..400).step_by(13) {
        let fail = format!("device:{call}");
        let (answer, bytes) = cuda.replay(&recorded.path, &json!({}), &[("STAND_IN_FAIL", &fail)]);
        if answer["played"].is_object() {
            assert_eq!(bytes, recorded.out, "{fail}");
            played += 1;
        } else {
            let text = answer.to_string();
            assert!(text.contains("CUDA_ERROR_DEVICE_UNAVAILABLE"), "{fail}: {answer}");
            reported += 1;
        }
    }
    assert!(reported > 5 && played > 0, "{reported} reported, {played} played");
}

#[test]
fn out_of_device_memory_is_reported() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("room", &[], &["vector_add"]);
    for set in [("STAND_IN_MEMORY", "1048576"), ("STAND_IN_FAIL", "cuMemCreate:1")] {
        let (answer, _) = cuda.replay(&recorded.path, &json!({}), &[set]);
        let why = answer["failed"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(why.contains("CUDA_ERROR_OUT_OF_MEMORY"), "{why}");
    }
}

#[test]
fn unavailable_addresses_are_reported() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("hints", &[], &["vector_add"]);
    let (answer, _) = cuda.replay(&recorded.path, &json!({}), &[("STAND_IN_HINTS", "no")]);
    let why = answer["addresses-taken"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(why.contains("0x153940000000") && why.contains("not free"), "{why}");
    // Real drivers accept only hints for long ranges, as this one does.
    cuda.replay_checked(&recorded, &json!({}), &[("STAND_IN_HINTS", "long")]);
}

#[test]
fn missing_cuda_driver_is_reported() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("none", &[], &["vector_add"]);
    let nowhere = [("KINESCOPE_CUDA_LIBRARY", "/nowhere/libcuda.so.1")];
    let (answer, _) = cuda.replay(&recorded.path, &json!({}), &nowhere);
    let why = answer["failed"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(why.contains("no CUDA driver") && why.contains("libcuda.so.1"), "{why}");
}

#[test]
fn missing_target_is_not_a_failed_replay() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("absent", &[], &["vector_add"]);
    for (target, library) in [("cuda:0", "/nowhere/libcuda.so.1"), ("cuda:77", "")] {
        let mut command = Command::new(program("kinescope"));
        command.arg("replay").arg(&recorded.path).args(["--on", target]);
        let done = run_to_end(
            command
                .env("KINESCOPE_CUDA_LIBRARY", library)
                .env("KINESCOPE_KEYS", cuda.file("keys")),
        );
        assert_eq!((done.code, done.out.as_str()), (Some(2), ""), "{done:?}");
        assert!(
            done.err.contains(target) || done.err.contains("no CUDA driver"),
            "{done:?}"
        );
    }
}

#[test]
fn unloadable_code_is_reported_with_its_function() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("code", &[], &["vector_add"]);
    let (answer, _) = cuda.replay(
        &recorded.path,
        &json!({}),
        &[("STAND_IN_FAIL", "cuModuleLoadData:1=218")],
    );
    let why = answer["failed"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(
        why.contains("vector_add") && why.contains("CUDA_ERROR_INVALID_PTX"),
        "{why}"
    );
}

#[test]
fn recordings_without_an_api_trace_are_refused() {
    let cuda = CudaStandIn::default();
    let sample = whole_program_tests::root().join("sample-traces/vecadd.kine");
    let (answer, _) = cuda.replay(&sample, &json!({}), &[]);
    assert!(answer["failed"].as_str().is_some(), "{answer}");
    let (answer, _) = cuda.replay(&cuda.file("none.kine"), &json!({}), &[]);
    assert!(answer["failed"].as_str().unwrap().contains("none.kine"), "{answer}");
}

#[test]
fn c_driver_api_program_is_recorded_and_replayed() {
    let cuda = CudaStandIn::default();
    let root = whole_program_tests::root().join("tests/cuda");
    let exe = cuda.file("driver_api");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-o"])
        .arg(&exe)
        .arg(root.join("programs/driver_api.c"));
    cc.arg("-I").arg(root.join("stand-in/include")).arg("-ldl");
    match cc.output() {
        Err(e) => {
            println!("skipped: a program in C ({e}: cc)");
            return;
        }
        Ok(o) => assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr)),
    }
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&exe);
        run_to_end(cuda.set_environment(command.args(arguments)))
    };
    let all = run(&["512"]);
    assert_eq!(all.code, Some(0), "{all:?}");
    // The replay omits everything that the recorder reported as not recorded.
    let (path, out) = (cuda.file("c.kine"), cuda.file("c.bin"));
    let mut command = vec![exe.as_os_str()];
    let skipped = ["managed", "registered", "pinned", "virtual", "array"];
    let options: Vec<&str> = skipped
        .iter()
        .flat_map(|part| ["--skip", part])
        .chain(["512", "--out"])
        .collect();
    command.extend(options.iter().map(std::ffi::OsStr::new));
    command.push(out.as_os_str());
    let recorded = RecordedProgram {
        ended: run_to_end(&mut cuda.record_command(&path, &[], &command)),
        out: std::fs::read(&out).unwrap_or_default(),
        path,
    };
    assert_eq!(recorded.ended.code, Some(0), "{:?}", recorded.ended);
    assert!(
        recorded.ended.out.starts_with("ok driver_api checksum="),
        "{:?}",
        recorded.ended
    );
    cuda.replay_checked(&recorded, &json!({}), &[]);
    cuda.replay_checked(&recorded, &json!({"graph": true, "repeat": 2}), &[]);
    // The complete program is recorded: it continues unchanged, and findings list what the file lacks.
    let path = cuda.file("whole.kine");
    let complete_run = run_to_end(&mut cuda.record_command(&path, &["--json"], &[exe.as_os_str(), "512".as_ref()]));
    assert_eq!(complete_run.code, Some(0), "{complete_run:?}");
    let recording = whole_program_tests::cuda::open(&path);
    let findings: Vec<&str> = recording.metadata.findings.iter().map(|f| f.place.as_str()).collect();
    assert!(findings.iter().any(|f| f.contains("arrays")), "{findings:?}");
    for recorded in ["managed memory", "host memory"] {
        assert!(
            !findings.iter().any(|f| f.contains(recorded)),
            "{recorded}: {findings:?}"
        );
    }
}
