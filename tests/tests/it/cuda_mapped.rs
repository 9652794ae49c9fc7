//! CUDA programs that map memory themselves, and programs that share memory between host and device. Complete runs and
//! ranges between marks are recorded on the stand-in for the driver. They replay bit for bit, or the recording says why
//! not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use serde_json::{Value, json};
use std::process::Command;
use trace_core::recording::{AllocationKind, CallEvent};
use whole_program_tests::cuda::{CudaStandIn, RecordedProgram, run_to_end};
use whole_program_tests::program;

const DIRTY: [(&str, &str); 1] = [("STAND_IN_POISON", "0xa5")];
const LATE: [(&str, &str); 1] = [("STAND_IN_SLOW", "1000")];

#[test]
fn memory_that_a_program_maps_is_mapped_by_a_replay() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("mapped", &[], &["mapped"]);
    let r = recorded.open();
    let calls = (0..r.events.len()).filter_map(|at| r.events.call(at));
    let maps = calls.filter(|c| matches!(c, CallEvent::Allocation(a) if a.kind == AllocationKind::Map as u32));
    assert_eq!(maps.count(), 5);
    // Host functions are a finding. Later copies contain what they wrote.
    let messages = recorded.findings();
    assert!(
        matches!(messages.as_slice(), [one] if one.contains("host functions")),
        "{messages:?}"
    );
    cuda.replay_checked(&recorded, &json!({}), &DIRTY);
    cuda.replay_checked(&recorded, &json!({"step": true}), &LATE);
    cuda.replay_checked(&recorded, &json!({"repeat": 3}), &DIRTY);
    cuda.replay_checked(&recorded, &json!({"graph": true, "repeat": 2}), &[]);
}

#[test]
fn memory_that_a_program_maps_is_in_the_snapshot_at_a_mark() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("marked", &["--range", "marks"], &["mapped", "--marks"]);
    let (answer, _) = cuda.replay(&recorded.path, &json!({}), &DIRTY);
    let outputs = answer["played"]["outputs"]
        .as_array()
        .unwrap_or_else(|| panic!("{answer}"));
    assert!(
        outputs
            .iter()
            .all(|o| o["held"] == true && o["differs_at"] == Value::Null),
        "{answer}"
    );
    cuda.replay_checked(&recorded, &json!({"own": true}), &DIRTY);
}

#[test]
fn programs_run_unchanged_without_driver_address_hints() {
    let cuda = CudaStandIn::default();
    let (alone, bytes) = cuda.run_unrecorded(&["mapped"]);
    for set in [("STAND_IN_HINTS", "no"), ("KINESCOPE_CUDA_WINDOW", "no")] {
        let recorded = cuda.record("elsewhere", &[], &["mapped"], &[set]);
        assert_eq!(
            (recorded.ended.code, &recorded.ended.out),
            (Some(0), &alone.out),
            "{:?}",
            recorded.ended
        );
        assert_eq!(recorded.out, bytes);
        std::fs::remove_file(&recorded.path).unwrap();
    }
}

#[test]
fn remapping_over_doubly_mapped_memory_is_a_finding() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("confused", &[], &["mapped", "--confused"]);
    let all = recorded.open().metadata.findings;
    let finding = all.iter().find(|f| f.place == "mapped memory").expect("a finding");
    assert!(finding.message.contains("cannot do the same"), "{}", finding.message);
    let event = finding.event.unwrap() as usize;
    let r = recorded.open();
    let before = r.events.call(event - 1).unwrap();
    assert!(
        matches!(before, CallEvent::Allocation(a) if a.kind == AllocationKind::Map as u32),
        "{before:?}"
    );
}

#[test]
fn shared_host_memory_is_tracked_by_hashes_at_launches() {
    for options in [&[][..], &["--range", "marks"]] {
        let cuda = CudaStandIn::default();
        let arguments: &[&str] = if options.is_empty() {
            &["shared"]
        } else {
            &["shared", "--marks"]
        };
        let recorded = cuda.record_checked("shared", options, arguments);
        assert_eq!(recorded.findings(), [""; 0]);
        let (answer, _) = cuda.replay(&recorded.path, &json!({}), &DIRTY);
        let outputs = answer["played"]["outputs"]
            .as_array()
            .unwrap_or_else(|| panic!("{answer}"));
        assert!(outputs.iter().all(|o| o["differs_at"] == Value::Null), "{answer}");
        cuda.replay_checked(&recorded, &json!({"own": true}), &DIRTY);
        cuda.replay_checked(&recorded, &json!({"own": true, "repeat": 2}), &LATE);
    }
}

#[test]
fn late_host_writes_are_recorded_before_delayed_work() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record("late", &[], &["shared"], &LATE);
    assert_eq!(recorded.ended.code, Some(0), "{:?}", recorded.ended);
    cuda.replay_checked(&recorded, &json!({}), &[]);
}

/// Runs `kinescope replay --guard --json` for a recording on the stand-in. Returns its exit code and report.
fn replay_guarded(cuda: &CudaStandIn, recorded: &RecordedProgram, set: &[(&str, &str)]) -> (Option<i32>, Value) {
    let mut command = Command::new(program("kinescope"));
    command
        .arg("replay")
        .arg(&recorded.path)
        .args(["--on", "cuda:0", "--guard", "--json"]);
    command.env("KINESCOPE_KEYS", cuda.file(""));
    let ended = run_to_end(cuda.set_environment(&mut command).envs(set.iter().copied()));
    let parsed_json = serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {ended:?}"));
    (ended.code, parsed_json)
}

#[test]
fn guard_names_launch_and_overrun_buffer() {
    for (option, buffer) in [("--input", "in0"), ("--output", "out0")] {
        let cuda = CudaStandIn::default();
        // The stand-in alone reports the overrun at once, because its memory ends where an allocation ends. Memory of a
        // driver continues there, as the recorder's window does.
        let recorded = cuda.record("past", &[], &["past", option], &[]);
        assert_eq!(recorded.ended.code, Some(0), "{:?}", recorded.ended);
        cuda.replay_checked(&recorded, &json!({}), &[]);
        let (code, parsed_json) = replay_guarded(&cuda, &recorded, &[]);
        assert_eq!(code, Some(1), "{parsed_json}");
        let overrun = &parsed_json["past"];
        let launches: Vec<u64> = {
            let r = recorded.open();
            let is_launch = |at: &usize| matches!(r.events.call(*at), Some(CallEvent::Launch(_)));
            (0..r.events.len()).filter(is_launch).map(|at| at as u64).collect()
        };
        assert_eq!(overrun["event"], launches[1], "{parsed_json}");
        assert_eq!(
            (&overrun["sure"], &overrun["kernel"]),
            (&json!(true), &json!("mix")),
            "{parsed_json}"
        );
        assert!(
            overrun["buffer"]["name"].as_str().unwrap().contains(buffer),
            "{parsed_json}"
        );
        assert_eq!(overrun["buffer"]["bytes"], 4096);
    }
}

#[test]
fn launches_within_their_buffers_pass_with_guards() {
    for program in ["past", "memory", "streams", "mapped", "net"] {
        let cuda = CudaStandIn::default();
        let recorded = cuda.record_checked("well", &[], &[program]);
        let (code, json) = replay_guarded(&cuda, &recorded, &[]);
        assert_eq!((code, &json["past"]), (Some(0), &Value::Null), "{program}: {json}");
        // Adjacent mappings and mappings of the same memory stay in place.
        assert!(program == "mapped" || json["guarded"].as_u64().unwrap() > 0, "{json}");
        assert_eq!(json["differs"], false, "{program}: {json}");
    }
}

#[test]
fn guarded_replay_keeps_pointed_to_buffers_in_place() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("linked", &[], &["linked", "200"]);
    let (code, json) = replay_guarded(&cuda, &recorded, &[]);
    assert_eq!((code, &json["past"]), (Some(0), &Value::Null), "{json}");
}

#[test]
fn guard_uses_several_replays_if_memory_is_short() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("short", &[], &["past", "600000"]);
    // The remaining memory holds one guarded buffer. There are three buffers of two granules each.
    let (code, json) = replay_guarded(&cuda, &recorded, &[("STAND_IN_MEMORY", "23068672")]);
    assert_eq!(code, Some(0), "{json}");
    assert_eq!(json["guarded"], 3, "{json}");
    assert!(json["replays"].as_u64().unwrap() > 1, "{json}");
}

#[test]
fn launches_are_measured_on_a_target() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("times", &[], &["net"]);
    let mut command = Command::new(program("kinescope"));
    command
        .arg("launches")
        .arg(&recorded.path)
        .args(["--on", "cuda:0", "--json"]);
    command.env("KINESCOPE_KEYS", cuda.file(""));
    let ended = run_to_end(cuda.set_environment(&mut command).env("STAND_IN_SLOW", "2000"));
    let parsed_json: Value = serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {ended:?}"));
    let all = parsed_json.as_array().unwrap();
    assert!(!all.is_empty());
    assert!(all.iter().all(|l| l["device_ns"].is_u64()), "{parsed_json}");
    // Arguments have their names in the PTX.
    let has_names = |l: &Value| l["arguments"].as_array().unwrap().iter().all(|a| a["name"] != "");
    assert!(all.iter().all(has_names), "{parsed_json}");
}
