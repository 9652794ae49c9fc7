//! A CUDA program of several processes, recorded on the stand-in for the driver. Each process has a recording, and an
//! index of them opens like a recording.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use serde_json::{Value, json};
use std::ffi::OsStr;
use whole_program_tests::cuda::{CudaStandIn, run_to_end};
use whole_program_tests::{program, run};

/// Records a shell script. Returns the report of `record --json`.
fn record_script(cuda: &CudaStandIn, name: &str, script: &str) -> Value {
    let path = cuda.file(&format!("{name}.kine"));
    let script = script.replace("CLIENT", &program("cuda-client").display().to_string());
    let command = [OsStr::new("bash"), OsStr::new("-c"), OsStr::new(&script)];
    let ended = run_to_end(
        cuda.record_command(&path, &["--json"], &command)
            .env("STAND_IN_SLOW", "200"),
    );
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let start = ended.out.lines().position(|l| l.starts_with('{')).expect("a report");
    let report: Vec<&str> = ended.out.lines().skip(start).collect();
    serde_json::from_str(&report.join("\n")).unwrap_or_else(|e| panic!("{e}: {ended:?}"))
}

#[test]
fn each_process_has_a_recording_and_an_index_lists_them() {
    let cuda = CudaStandIn::default();
    let parsed_json = record_script(&cuda, "two", "CLIENT vector_add & CLIENT net 3; wait");
    let index = parsed_json["index"].as_str().expect("an index");
    assert!(index.ends_with("two.processes.json"), "{parsed_json}");
    assert_eq!(parsed_json["also"].as_array().unwrap().len(), 1, "{parsed_json}");
    assert_eq!(parsed_json["obstacle"], Value::Null, "{parsed_json}");
    let info = run([OsStr::new("info"), OsStr::new(index), OsStr::new("--json")]);
    assert_eq!(info.code, Some(0), "{info:?}");
    let info: Value = serde_json::from_str(&info.out).unwrap();
    let all = info["processes"]["processes"].as_array().unwrap();
    assert_eq!(all.len(), 2, "{info}");
    let mut launches: Vec<u64> = all.iter().map(|p| p["launches"].as_u64().unwrap()).collect();
    launches.sort_unstable();
    assert_eq!(launches[0], 1);
    assert!(launches[1] > 1, "{info}");
    assert!(
        all.iter()
            .all(|p| p["complete"] == true && p["parent"] == all[0]["parent"]),
        "{info}"
    );
    let has_argument = |word: &str| {
        all.iter()
            .any(|p| p["command"].as_array().unwrap().contains(&json!(word)))
    };
    assert!(has_argument("vector_add") && has_argument("net"), "{info}");
    // The index opens as the process with the most launches. Its other files open as themselves.
    let opened = run([OsStr::new("launches"), OsStr::new(index), OsStr::new("--json")]);
    let opened: Vec<Value> = serde_json::from_str(&opened.out).unwrap();
    assert_eq!(opened.len() as u64, launches[1]);
    let text = run([OsStr::new("info"), OsStr::new(index)]);
    assert!(
        text.out.contains("in order") && text.out.contains("vector_add"),
        "{text:?}"
    );
}

#[test]
fn killed_child_process_keeps_recorded_launches() {
    let cuda = CudaStandIn::default();
    let script = "CLIENT net 1000000 & worker=$!; sleep 1.5; CLIENT vector_add; kill -9 $worker; wait; true";
    let json = record_script(&cuda, "killed", script);
    let index = json["index"].as_str().expect("an index");
    let index: Value = serde_json::from_slice(&std::fs::read(index).unwrap()).unwrap();
    let all = index["processes"].as_array().unwrap();
    let worker = all.iter().find(|p| p["complete"] == false).expect("the killed process");
    assert!(worker["launches"].as_u64().unwrap() > 0, "{index}");
    assert!(all.iter().any(|p| p["complete"] == true), "{index}");
}

#[test]
fn a_single_process_has_no_index() {
    let cuda = CudaStandIn::default();
    let parsed_json = record_script(&cuda, "one", "exec CLIENT vector_add");
    assert_eq!(parsed_json["index"], Value::Null, "{parsed_json}");
    assert!(!cuda.file("one.processes.json").exists());
}

/// A kernel of NCCL waits for other devices. The recorder reports once per process what the recording lacks.
#[test]
fn inter_process_memory_is_reported_while_recording() {
    let cuda = CudaStandIn::default();
    let json = record_script(&cuda, "group", "CLIENT vector_add; CLIENT collective; true");
    let lacks = |report: &Value| {
        let all = report["not_recorded"].as_array().unwrap();
        all.iter().map(|w| w.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let others = json["processes"].as_array().unwrap();
    assert_eq!(others.len(), 1, "{json}");
    let mut all = [lacks(&json), lacks(&others[0])];
    all.sort();
    assert!(all[0].is_empty(), "{all:?}");
    assert_eq!(all[1].len(), 1, "{all:?}");
    let name =
        "another device: ncclDevKernel_AllReduce_Sum_f32_RING_LL exchanges memory with other devices or processes";
    assert!(all[1][0].starts_with(name), "{all:?}");
}
