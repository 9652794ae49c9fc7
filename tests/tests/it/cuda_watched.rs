//! Memory traces on the stand-in for the driver: changes of each launch, memory before and after it, and the last
//! writer of a byte. Targets also fail, reach the size limit, or cannot trace.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;
use std::process::{Command, Stdio};
use trace_core::GpuVa;
use trace_core::api_trace::{ApiTrace, BufferKind};
use trace_core::progress::Progress;
use whole_program_tests::cuda::{CudaStandIn, RecordedProgram, run_to_end};
use whole_program_tests::cuda_agent::Agent;
use whole_program_tests::{ProgramOutput, program, send_signal};

fn run_kinescope(
    cuda: &CudaStandIn,
    verb: &str,
    recorded: &RecordedProgram,
    more: &[&str],
    set: &[(&str, &str)],
) -> ProgramOutput {
    let mut command = Command::new(program("kinescope"));
    command
        .args([verb, recorded.path.to_str().unwrap()])
        .args(more)
        .env("KINESCOPE_KEYS", cuda.file("keys"))
        .envs(set.iter().copied());
    run_to_end(cuda.set_environment(&mut command))
}

fn run_verb(cuda: &CudaStandIn, verb: &str, recorded: &RecordedProgram, more: &[&str]) -> Value {
    let done = run_kinescope(cuda, verb, recorded, &[more, &["--json"]].concat(), &[]);
    assert_eq!(done.code, Some(0), "{verb} {more:?}: {done:?}");
    assert_eq!(done.err, "", "{verb} {more:?}");
    done.json()
}

/// Returns the launches of a recording as JSON.
fn launches(cuda: &CudaStandIn, recorded: &RecordedProgram, more: &[&str]) -> Vec<Value> {
    run_verb(cuda, "launches", recorded, more).as_array().unwrap().clone()
}

fn event(launch: &Value) -> u64 {
    launch["event"].as_u64().unwrap()
}

#[test]
fn memory_trace_around_launches_matches_the_recorder() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("whole", &[], &["net", "2"]);
    // The reference is the same program, recorded with memory before and after each launch.
    let each = cuda.record_checked("each", &["--kernels", "*", "--pick", "all"], &["net", "2"]);
    let truth = each.open();
    let api_trace = ApiTrace::from_recording(&truth, &Progress::new()).unwrap().unwrap();
    let (ours, theirs) = (launches(&cuda, &recorded, &[]), launches(&cuda, &each, &[]));
    assert_eq!((ours.len(), theirs.len()), (8, 8));
    let mut compared = 0;
    for (our_launch, their_launch) in ours.iter().zip(&theirs) {
        for pointer in our_launch["arguments"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|a| a["pointers"].as_array().unwrap())
        {
            let va = pointer["va"].as_str().unwrap();
            let from = u64::from_str_radix(va.trim_start_matches("0x"), 16).unwrap();
            for steps_after in [0, 1] {
                let at = (event(our_launch) + steps_after).to_string();
                let bytes = ["--bytes", "40", "--event", &at, "--on", "cuda:0"];
                let got = run_verb(&cuda, "memory", &recorded, &[&[va], &bytes[..]].concat());
                assert_eq!(got["holes"].as_array().unwrap().len(), 0, "{got}");
                let right = api_trace.read(
                    &truth,
                    GpuVa::new(from)..GpuVa::new(from + 40),
                    event(their_launch) + steps_after,
                );
                assert!(right.pieces.iter().all(|p| p.state.is_known()), "{:?}", right.pieces);
                let hex: String = right.bytes.iter().map(|b| format!("{b:02x}")).collect();
                assert_eq!(
                    got["hex"], hex,
                    "launch {} at {va}, {steps_after}",
                    our_launch["launch"]
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 50, "{compared}");
}

#[test]
fn launch_changes_are_listed_by_buffer() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("net", &[], &["net", "3"]);
    for l in launches(&cuda, &recorded, &[]) {
        assert_eq!(l["changed"], Value::Null, "no target traced memory");
    }
    let all = launches(&cuda, &recorded, &["--on", "cuda:0"]);
    assert_eq!(all.len(), 12);
    for l in &all {
        // Each launch writes only to the buffer of its first argument.
        let changed = l["changed"].as_array().unwrap();
        assert_eq!(changed.len(), 1, "{l}");
        let to = &l["arguments"][0]["pointers"][0];
        assert_eq!(changed[0]["buffer"], to["buffer"], "{l}");
        assert!(changed[0]["bytes"].as_u64().unwrap() > 0, "{l}");
    }
    // A recording with memory around each launch gives the same changes without a target.
    let each = cuda.record_checked("each", &["--kernels", "*", "--pick", "all"], &["net", "3"]);
    let recorder_launches = launches(&cuda, &each, &[]);
    for (ours, right) in all.iter().zip(&recorder_launches) {
        let rows = |l: &Value| -> Vec<Value> {
            let changed = l["changed"].as_array().unwrap().iter();
            changed
                .map(|c| serde_json::json!([c["va"], c["end_va"], c["bytes"]]))
                .collect()
        };
        assert_eq!(rows(ours), rows(right), "launch {}", ours["launch"]);
    }
    let text = run_kinescope(&cuda, "launches", &recorded, &["--on", "cuda:0"], &[]);
    assert!(text.out.contains("Changed") && text.out.contains("out0: "), "{text:?}");
    assert!(!text.out.contains("not known"), "{text:?}");
    let text = run_kinescope(&cuda, "launches", &each, &[], &[]);
    assert!(
        text.out.contains("Changed"),
        "the recorder reported the changes: {text:?}"
    );
}

#[test]
fn last_writer_launch_is_found_locally_and_on_an_agent() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("net", &[], &["net", "3"]);
    let all = launches(&cuda, &recorded, &["--on", "cuda:0"]);
    // The second layer changed these bytes in each of its launches.
    let second: Vec<&Value> = all.iter().skip(1).step_by(4).collect();
    let out = second[0]["arguments"][0]["pointers"][0]["buffer"].as_str().unwrap();
    let end = (event(second[2]) + 1).to_string();
    let mut exact = 0;
    for by in 0..32u64 {
        let address = format!("{out}+{}", by * 4);
        let doubt = run_verb(&cuda, "who", &recorded, &[&address, "--at", &end]);
        let may: Vec<u64> = doubt["launches"].as_array().unwrap().iter().map(event).collect();
        // Launches that read the byte are listed too: the recording does not prove that this kernel writes no inputs.
        assert_eq!(may.len(), 5, "{doubt}");
        assert_eq!(doubt["changed"], Value::Null);
        let sure = run_verb(&cuda, "who", &recorded, &[&address, "--at", &end, "--on", "cuda:0"]);
        assert_eq!(
            (&sure["known"], sure["launches"].as_array().unwrap().len()),
            (&Value::from(true), 0)
        );
        assert_eq!(sure["other_launches"], 0, "{sure}");
        if let Some(by) = sure["changed"]["event"].as_u64() {
            assert!(
                second.iter().any(|l| event(l) == by),
                "a layer writes only its own result: {sure}"
            );
            assert_eq!(
                sure["changed"]["kernel"].as_str().unwrap().split('(').next(),
                Some("layer")
            );
            assert_eq!(sure["changed"]["to"], sure["byte"]);
            assert_ne!(sure["changed"]["from"], sure["changed"]["to"]);
            exact += 1;
        }
    }
    assert!(exact > 4, "{exact}");
    let query = |more: &[&str]| {
        let address = format!("{out}+4");
        let mut json = run_verb(&cuda, "who", &recorded, &[&[&address, "--at", &end], more].concat());
        // The state names the target.
        let state = json["state"].as_str().unwrap().replace("agent:lab/cuda0", "cuda:0");
        json["state"] = state.into();
        json
    };
    let local = query(&["--on", "cuda:0"]);
    let agent = Agent::start(&cuda);
    assert!(agent.socket.exists());
    assert_eq!(
        query(&["--on", "agent:lab/cuda0"]),
        local,
        "an agent gives the same result"
    );
    let text = run_kinescope(
        &cuda,
        "who",
        &recorded,
        &[&format!("{out}+4"), "--at", &end, "--on", "agent:lab/cuda0"],
        &[],
    );
    assert!(text.out.contains("as agent:lab/cuda0 saw"), "{text:?}");
}

#[test]
fn buffer_name_refers_to_its_last_allocation() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("add", &[], &["vector_add"]);
    let api_trace = ApiTrace::from_recording(&recorded.open(), &Progress::new())
        .unwrap()
        .unwrap();
    let buffer = api_trace.buffers().list().iter().find(|b| b.name == "out0").unwrap();
    let to = buffer.to.expect("the program frees the buffer");
    let who = run_verb(&cuda, "who", &recorded, &["out0+4", "--on", "cuda:0"]);
    assert_eq!(
        (who["at_event"].as_u64(), &who["known"]),
        (Some(to), &Value::from(true)),
        "{who}"
    );
    // An address in the buffer gives the same result.
    let by_address = run_verb(
        &cuda,
        "who",
        &recorded,
        &[who["va"].as_str().unwrap(), "--on", "cuda:0"],
    );
    assert_eq!(by_address, who);
    let memory = run_verb(&cuda, "memory", &recorded, &["--buffer", "out0", "--on", "cuda:0"]);
    assert_eq!(memory["holes"].as_array().unwrap().len(), 0, "{memory}");
    // A readback after a range also has the name that a replay gives it.
    let marked = cuda.record_checked("marked", &["--range", "marks"], &["net", "--marks"]);
    let first = &run_verb(&cuda, "memory", &marked, &[])[0];
    let after = run_verb(&cuda, "memory", &marked, &["--buffer", "after0"]);
    assert_eq!((&after["va"], &after["bytes"]), (&first["va"], &first["bytes"]));
    let who = run_verb(&cuda, "who", &marked, &["after0+8"]);
    assert_eq!(who["buffer_offset"], 8, "{who}");
}

#[test]
fn module_variables_are_traced_at_their_recorded_address() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("globals", &[], &["globals"]);
    let all = launches(&cuda, &recorded, &["--on", "cuda:0"]);
    let counts: Vec<&Value> = all
        .iter()
        .filter(|l| l["kernel"].as_str().unwrap().starts_with("count_up"))
        .collect();
    assert_eq!(counts.len(), 3);
    let changed_in = |l: &Value, name: &str| {
        let changed = l["changed"].as_array().unwrap();
        changed.iter().any(|c| c["buffer"] == name)
    };
    let api_trace = ApiTrace::from_recording(&recorded.open(), &Progress::new())
        .unwrap()
        .unwrap();
    let variable = |part: &str| {
        let all = api_trace.buffers().list().iter();
        let mut named = all.filter(|b| b.kind == BufferKind::Variable && b.name.contains(part));
        named.next().unwrap().name.clone()
    };
    let (counter, bank) = (variable("counter"), variable("bank"));
    for l in &counts {
        assert!(changed_in(l, &counter) && changed_in(l, &bank), "{l}");
    }
    let last = event(counts[2]);
    let who = run_verb(
        &cuda,
        "who",
        &recorded,
        &[&counter, "--at", &(last + 1).to_string(), "--on", "cuda:0"],
    );
    assert_eq!(who["changed"]["event"].as_u64(), Some(last), "{who}");
    // The counter began with 7. The launches added 5, 6 and 7.
    assert_eq!(
        (&who["byte"], &who["changed"]["from"]),
        (&Value::from("0x19"), &Value::from("0x12")),
        "{who}"
    );
}

#[test]
fn device_stop_keeps_the_memory_trace_so_far() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("net", &[], &["net", "3"]);
    let fails = [("STAND_IN_FAIL", "cuLaunchKernelEx:6=700")];
    let done = run_kinescope(&cuda, "launches", &recorded, &["--on", "cuda:0", "--json"], &fails);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(
        done.err.contains("the device stopped in the launch of layer"),
        "{done:?}"
    );
    assert!(done.err.contains("ILLEGAL_ADDRESS"), "{done:?}");
    let all = done.json();
    let traced: Vec<bool> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|l| l["changed"].is_array())
        .collect();
    assert_eq!(traced.iter().filter(|w| **w).count(), 5, "{traced:?}");
    assert!(traced[..5].iter().all(|w| *w));
    let text = run_kinescope(&cuda, "launches", &recorded, &["--on", "cuda:0"], &fails);
    assert_eq!(text.out.matches("not known").count(), 7, "{text:?}");
}

#[test]
fn memory_trace_limit_names_the_first_omitted_launch() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("net", &[], &["net", "3"]);
    let all = launches(&cuda, &recorded, &[]);
    let few = run_kinescope(
        &cuda,
        "launches",
        &recorded,
        &["--on", "cuda:0", "--max-bytes", "20000", "--json"],
        &[],
    );
    assert_eq!(few.code, Some(1), "the trace is incomplete: {few:?}");
    let listed = few.json();
    let traced = listed
        .as_array()
        .unwrap()
        .iter()
        .take_while(|l| l["changed"].is_array())
        .count();
    assert!((1..12).contains(&traced), "{traced}");
    let from = event(&all[traced]);
    assert!(
        few.err
            .contains(&format!("launches from event {from} on were not traced")),
        "{few:?}"
    );
    for (max, message) in [
        ("0", "0 bytes were requested; 1 to"),
        ("99999999999", "1 to 1073741824 can be returned"),
    ] {
        let refused = run_kinescope(
            &cuda,
            "launches",
            &recorded,
            &["--on", "cuda:0", "--max-bytes", max],
            &[],
        );
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains(message), "{refused:?}");
    }
    // The initial content has its own limit. The report says where it ends.
    let first = all[0]["arguments"][0]["pointers"][0]["va"].as_str().unwrap();
    let part = [
        "--bytes",
        "100000",
        "--event",
        "30",
        "--on",
        "cuda:0",
        "--max-bytes",
        "5000",
        "--json",
    ];
    let part = run_kinescope(&cuda, "memory", &recorded, &[&[first], &part[..]].concat(), &[]);
    assert_eq!(part.code, Some(1), "{}", part.err);
    assert!(part.err.contains("the report ends at 0x"), "{}", part.err);
    assert!(!part.json()["holes"].as_array().unwrap().is_empty());
    // A trace that takes too long reports its results so far.
    let slow = [("STAND_IN_SLOW", "300000")];
    let late = run_kinescope(
        &cuda,
        "launches",
        &recorded,
        &["--on", "cuda:0", "--time-limit", "2", "--json"],
        &slow,
    );
    assert_eq!(late.code, Some(1), "{late:?}");
    assert!(late.err.contains("the trace took longer than 2 s"), "{late:?}");
    let listed = late.json();
    let traced = listed
        .as_array()
        .unwrap()
        .iter()
        .take_while(|l| l["changed"].is_array())
        .count();
    assert!(traced < 12, "{traced}");
    let alone = run_kinescope(&cuda, "launches", &recorded, &["--max-bytes", "5"], &[]);
    assert_eq!(alone.code, Some(2), "a limit needs a target: {alone:?}");
}

#[test]
fn invalid_memory_trace_requests_are_refused_with_a_reason() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("net", &[], &["net", "1"]);
    let invalid: [(&str, &[&str], &str); 5] = [
        (
            "launches",
            &["--on", "software:mali-g71"],
            "not a target with a CUDA device",
        ),
        ("launches", &["--on", "cuda:9"], "no CUDA device 9"),
        ("launches", &["--on", "nonsense"], "nonsense"),
        ("memory", &["--on", "cuda:0"], "an address or --buffer is needed"),
        (
            "memory",
            &["alloc 0", "--event", "20", "--on", "software:mali-g71"],
            "not a target with a CUDA device",
        ),
    ];
    for (verb, more, message) in invalid {
        let refused = run_kinescope(&cuda, verb, &recorded, more, &[]);
        assert_eq!(refused.code, Some(2), "{verb} {more:?}: {refused:?}");
        assert!(refused.err.contains(message), "{verb} {more:?}: {refused:?}");
    }
    let unknown_addresses = [
        ("who", &["0x1000"][..], "is in no buffer"),
        ("memory", &["0x1000", "--on", "cuda:0"][..], "is in no buffer"),
        ("who", &["in0+0x100000"][..], "beyond the end of 'in0'"),
        (
            "who",
            &["in0", "--input", "in0=x.bin"][..],
            "--input is for replays on the simulator",
        ),
    ];
    for (verb, more, message) in unknown_addresses {
        let refused = run_kinescope(&cuda, verb, &recorded, more, &[]);
        assert_eq!(refused.code, Some(2), "{verb} {more:?}: {refused:?}");
        assert!(refused.err.contains(message), "{verb} {more:?}: {refused:?}");
    }
    let saxpy = whole_program_tests::root().join("sample-traces/saxpy.kine");
    let registers = RecordedProgram {
        path: saxpy,
        ended: run_kinescope(&cuda, "launches", &recorded, &[], &[]),
        out: Vec::new(),
    };
    for (verb, more) in [
        ("who", ["0x1000", "--on", "cuda:0"]),
        ("memory", ["0x1000", "--on", "cuda:0"]),
    ] {
        let refused = run_kinescope(&cuda, verb, &registers, &more, &[]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains("API trace"), "{refused:?}");
    }
}

#[test]
fn worker_killed_during_a_memory_trace_is_reported() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("net", &[], &["net", "40"]);
    let mut command = Command::new(program("kinescope"));
    command
        .args(["launches", recorded.path.to_str().unwrap(), "--on", "cuda:0"])
        .env("KINESCOPE_KEYS", cuda.file("keys"))
        .env("STAND_IN_SLOW", "20000")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let tracing = cuda.count_ticks(cuda.set_environment(&mut command)).spawn().unwrap();
    // Each of the 160 launches takes some hundredths of a second.
    cuda.wait_for_ticks(10);
    let player = *cuda.list_replay_processes().first().expect("a worker process replays");
    send_signal(player, "KILL");
    let done = ProgramOutput::from(tracing.wait_with_output().unwrap());
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.err.contains("the worker process ended"), "{done:?}");
    assert!(done.err.contains("event"), "the error names the launch: {done:?}");
}
