//! Memory traces on the stand-in for the driver: what each launch changed, memory before and after it, the last writer
//! of a byte; and targets that fail, exceed the size limit, or cannot trace.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;
use std::process::{Command, Stdio};
use trace_core::api_trace::{ApiTrace, BufferKind};
use trace_core::progress::Progress;
use whole_program_tests::cuda::{CudaStandIn, RecordedProgram, run_to_end};
use whole_program_tests::cuda_agent::Agent;
use whole_program_tests::{ProgramOutput, program};

fn asked(
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
    let done = asked(cuda, verb, recorded, &[more, &["--json"]].concat(), &[]);
    assert_eq!(done.code, Some(0), "{verb} {more:?}: {done:?}");
    assert_eq!(done.err, "", "{verb} {more:?}");
    done.json()
}

/// The first arguments of launches that are addresses, with the launches' events.
fn launches(cuda: &CudaStandIn, recorded: &RecordedProgram, more: &[&str]) -> Vec<Value> {
    run_verb(cuda, "launches", recorded, more).as_array().unwrap().clone()
}

fn event(launch: &Value) -> u64 {
    launch["event"].as_u64().unwrap()
}

#[test]
fn memory_trace_around_launches_matches_the_recorder() {
    let cuda = CudaStandIn::default();
    let whole = cuda.record_checked("whole", &[], &["net", "2"]);
    // The same program with memory recorded before and after each launch, which is the reference here.
    let each = cuda.record_checked("each", &["--kernels", "*", "--pick", "all"], &["net", "2"]);
    let truth = each.open();
    let api_trace = ApiTrace::from_recording(&truth, &Progress::new()).unwrap().unwrap();
    let (ours, theirs) = (launches(&cuda, &whole, &[]), launches(&cuda, &each, &[]));
    assert_eq!((ours.len(), theirs.len()), (8, 8));
    let mut compared = 0;
    for (mine, other) in ours.iter().zip(&theirs) {
        for pointer in mine["arguments"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|a| a["pointers"].as_array().unwrap())
        {
            let va = pointer["va"].as_str().unwrap();
            let from = u64::from_str_radix(va.trim_start_matches("0x"), 16).unwrap();
            for behind in [0, 1] {
                let at = (event(mine) + behind).to_string();
                let bytes = ["--bytes", "40", "--event", &at, "--on", "cuda:0"];
                let got = run_verb(&cuda, "memory", &whole, &[&[va], &bytes[..]].concat());
                assert_eq!(got["holes"].as_array().unwrap().len(), 0, "{got}");
                let right = api_trace.read(&truth, from..from + 40, event(other) + behind);
                assert!(right.pieces.iter().all(|p| p.state.is_known()), "{:?}", right.pieces);
                let hex: String = right.bytes.iter().map(|b| format!("{b:02x}")).collect();
                assert_eq!(got["hex"], hex, "launch {} at {va}, {behind}", mine["launch"]);
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
        assert_eq!(l["changed"], Value::Null, "nobody was asked");
    }
    let all = launches(&cuda, &recorded, &["--on", "cuda:0"]);
    assert_eq!(all.len(), 12);
    for l in &all {
        // Each writes what its first argument points to, and nothing else.
        let changed = l["changed"].as_array().unwrap();
        assert_eq!(changed.len(), 1, "{l}");
        let to = &l["arguments"][0]["pointers"][0];
        assert_eq!(changed[0]["buffer"], to["buffer"], "{l}");
        assert!(changed[0]["bytes"].as_u64().unwrap() > 0, "{l}");
    }
    // The recorder stores the same around each launch, and then no target is needed.
    let each = cuda.record_checked("each", &["--kernels", "*", "--pick", "all"], &["net", "3"]);
    let taken = launches(&cuda, &each, &[]);
    for (mine, right) in all.iter().zip(&taken) {
        let rows = |l: &Value| -> Vec<Value> {
            let changed = l["changed"].as_array().unwrap().iter();
            changed
                .map(|c| serde_json::json!([c["va"], c["end_va"], c["bytes"]]))
                .collect()
        };
        assert_eq!(rows(mine), rows(right), "launch {}", mine["launch"]);
    }
    let text = asked(&cuda, "launches", &recorded, &["--on", "cuda:0"], &[]);
    assert!(text.out.contains("Changed") && text.out.contains("out0: "), "{text:?}");
    assert!(!text.out.contains("not known"), "{text:?}");
    let text = asked(&cuda, "launches", &each, &[], &[]);
    assert!(text.out.contains("Changed"), "the recorder reported it: {text:?}");
}

#[test]
fn last_writer_launch_is_found_locally_and_on_an_agent() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("net", &[], &["net", "3"]);
    let all = launches(&cuda, &recorded, &["--on", "cuda:0"]);
    // A byte that the second layer changed for each of its launches.
    let second: Vec<&Value> = all.iter().skip(1).step_by(4).collect();
    let out = second[0]["arguments"][0]["pointers"][0]["buffer"].as_str().unwrap();
    let end = (event(second[2]) + 1).to_string();
    let mut exact = 0;
    for by in 0..32u64 {
        let place = format!("{out}+{}", by * 4);
        let doubt = run_verb(&cuda, "who", &recorded, &[&place, "--at", &end]);
        let may: Vec<u64> = doubt["launches"].as_array().unwrap().iter().map(event).collect();
        // Those that read it count: nothing says that this kernel does not write what it reads.
        assert_eq!(may.len(), 5, "{doubt}");
        assert_eq!(doubt["changed"], Value::Null);
        let sure = run_verb(&cuda, "who", &recorded, &[&place, "--at", &end, "--on", "cuda:0"]);
        assert_eq!(
            (&sure["known"], sure["launches"].as_array().unwrap().len()),
            (&Value::from(true), 0)
        );
        assert_eq!(sure["other_launches"], 0, "{sure}");
        if let Some(by) = sure["changed"]["event"].as_u64() {
            assert!(
                second.iter().any(|l| event(l) == by),
                "a layer writes its own result alone: {sure}"
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
    let here = |more: &[&str]| {
        let place = format!("{out}+4");
        let mut json = run_verb(&cuda, "who", &recorded, &[&[&place, "--at", &end], more].concat());
        // It names the target.
        let state = json["state"].as_str().unwrap().replace("agent:lab/cuda0", "cuda:0");
        json["state"] = state.into();
        json
    };
    let local = here(&["--on", "cuda:0"]);
    let agent = Agent::start(&cuda);
    assert!(agent.socket.exists());
    assert_eq!(here(&["--on", "agent:lab/cuda0"]), local, "an agent tells the same");
    let text = asked(
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
    let named = api_trace.buffers().list().iter().find(|b| b.name == "out0").unwrap();
    let to = named.to.expect("the program gives it back");
    let who = run_verb(&cuda, "who", &recorded, &["out0+4", "--on", "cuda:0"]);
    assert_eq!(
        (who["at_event"].as_u64(), &who["known"]),
        (Some(to), &Value::from(true)),
        "{who}"
    );
    // An address of it means the same.
    let by_address = run_verb(
        &cuda,
        "who",
        &recorded,
        &[who["va"].as_str().unwrap(), "--on", "cuda:0"],
    );
    assert_eq!(by_address, who);
    let memory = run_verb(&cuda, "memory", &recorded, &["--buffer", "out0", "--on", "cuda:0"]);
    assert_eq!(memory["holes"].as_array().unwrap().len(), 0, "{memory}");
    // A readback after a range has the name that a replay gives it, too.
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
    let of = |l: &Value, name: &str| {
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
        assert!(of(l, &counter) && of(l, &bank), "{l}");
    }
    let last = event(counts[2]);
    let who = run_verb(
        &cuda,
        "who",
        &recorded,
        &[&counter, "--at", &(last + 1).to_string(), "--on", "cuda:0"],
    );
    assert_eq!(who["changed"]["event"].as_u64(), Some(last), "{who}");
    // It began with 7, and 5, 6 and 7 were added.
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
    let done = asked(&cuda, "launches", &recorded, &["--on", "cuda:0", "--json"], &fails);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(
        done.err.contains("the device stopped in the launch of layer"),
        "{done:?}"
    );
    assert!(done.err.contains("ILLEGAL_ADDRESS"), "{done:?}");
    let all = done.json();
    let watched: Vec<bool> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|l| l["changed"].is_array())
        .collect();
    assert_eq!(watched.iter().filter(|w| **w).count(), 5, "{watched:?}");
    assert!(watched[..5].iter().all(|w| *w));
    let text = asked(&cuda, "launches", &recorded, &["--on", "cuda:0"], &fails);
    assert_eq!(text.out.matches("not known").count(), 7, "{text:?}");
}

#[test]
fn memory_trace_limit_names_the_first_omitted_launch() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("net", &[], &["net", "3"]);
    let all = launches(&cuda, &recorded, &[]);
    let few = asked(
        &cuda,
        "launches",
        &recorded,
        &["--on", "cuda:0", "--max-bytes", "20000", "--json"],
        &[],
    );
    assert_eq!(few.code, Some(1), "less than was asked for: {few:?}");
    let listed = few.json();
    let watched = listed
        .as_array()
        .unwrap()
        .iter()
        .take_while(|l| l["changed"].is_array())
        .count();
    assert!((1..12).contains(&watched), "{watched}");
    let from = event(&all[watched]);
    assert!(
        few.err
            .contains(&format!("launches from event {from} on were not traced")),
        "{few:?}"
    );
    for (max, words) in [
        ("0", "0 bytes were requested; 1 to"),
        ("99999999999", "1 to 1073741824 can be returned"),
    ] {
        let refused = asked(
            &cuda,
            "launches",
            &recorded,
            &["--on", "cuda:0", "--max-bytes", max],
            &[],
        );
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains(words), "{refused:?}");
    }
    // The initial content has its own limit, and the report says where it ends.
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
    let part = asked(&cuda, "memory", &recorded, &[&[first], &part[..]].concat(), &[]);
    assert_eq!(part.code, Some(1), "{}", part.err);
    assert!(part.err.contains("the report ends at 0x"), "{}", part.err);
    assert!(!part.json()["holes"].as_array().unwrap().is_empty());
    // A trace that takes too long reports what it has until then.
    let slow = [("STAND_IN_SLOW", "300000")];
    let late = asked(
        &cuda,
        "launches",
        &recorded,
        &["--on", "cuda:0", "--time-limit", "2", "--json"],
        &slow,
    );
    assert_eq!(late.code, Some(1), "{late:?}");
    assert!(late.err.contains("the trace took longer than 2 s"), "{late:?}");
    let listed = late.json();
    let watched = listed
        .as_array()
        .unwrap()
        .iter()
        .take_while(|l| l["changed"].is_array())
        .count();
    assert!(watched < 12, "{watched}");
    let alone = asked(&cuda, "launches", &recorded, &["--max-bytes", "5"], &[]);
    assert_eq!(alone.code, Some(2), "nobody is asked: {alone:?}");
}

#[test]
fn invalid_memory_trace_requests_are_refused_with_a_reason() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("net", &[], &["net", "1"]);
    let wrong: [(&str, &[&str], &str); 5] = [
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
    for (verb, more, words) in wrong {
        let refused = asked(&cuda, verb, &recorded, more, &[]);
        assert_eq!(refused.code, Some(2), "{verb} {more:?}: {refused:?}");
        assert!(refused.err.contains(words), "{verb} {more:?}: {refused:?}");
    }
    let given = [
        ("who", &["0x1000"][..], "is in no buffer"),
        ("memory", &["0x1000", "--on", "cuda:0"][..], "is in no buffer"),
        ("who", &["in0+0x100000"][..], "beyond the end of 'in0'"),
        (
            "who",
            &["in0", "--input", "in0=x.bin"][..],
            "--input is for replays on the simulator",
        ),
    ];
    for (verb, more, words) in given {
        let refused = asked(&cuda, verb, &recorded, more, &[]);
        assert_eq!(refused.code, Some(2), "{verb} {more:?}: {refused:?}");
        assert!(refused.err.contains(words), "{verb} {more:?}: {refused:?}");
    }
    let saxpy = whole_program_tests::root().join("sample-traces/saxpy.kine");
    let registers = RecordedProgram {
        path: saxpy,
        ended: asked(&cuda, "launches", &recorded, &[], &[]),
        out: Vec::new(),
    };
    for (verb, more) in [
        ("who", ["0x1000", "--on", "cuda:0"]),
        ("memory", ["0x1000", "--on", "cuda:0"]),
    ] {
        let refused = asked(&cuda, verb, &registers, &more, &[]);
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
    let asking = cuda.count_ticks(cuda.set_environment(&mut command)).spawn().unwrap();
    // Of 160 launches, each some hundredths of a second.
    cuda.wait_for_ticks(10);
    let player = *cuda.list_replay_processes().first().expect("a process plays");
    let killed = Command::new("kill").args(["-KILL", &player.to_string()]).status();
    assert!(killed.unwrap().success());
    let done = ProgramOutput::from(asking.wait_with_output().unwrap());
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.err.contains("the worker process ended"), "{done:?}");
    assert!(done.err.contains("event"), "with the launch that it was at: {done:?}");
}
