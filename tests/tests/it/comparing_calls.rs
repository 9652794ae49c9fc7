//! CUDA programs recorded twice on the stand-in for the driver and compared: with other inputs, with the same inputs,
//! and as single launches. A replay outcome is also compared with its original.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test panics when it fails"
)]

use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use whole_program_tests::cuda::{CudaStandIn, run_to_end};
use whole_program_tests::{ProgramOutput, program, run};

fn diff(a: &Path, b: &Path, more: &[&str]) -> ProgramOutput {
    let fixed = ["diff", a.to_str().unwrap(), b.to_str().unwrap()];
    run(fixed.into_iter().chain(more.iter().copied()))
}

/// Returns kind and name of each difference between calls.
fn list_differences(json: &Value) -> Vec<(String, String)> {
    let word = |v: &Value| v.as_str().unwrap().to_owned();
    let list = json["calls"]["list"].as_array().unwrap();
    list.iter().map(|c| (word(&c["kind"]), word(&c["a_name"]))).collect()
}

#[test]
fn different_program_inputs_differ_in_their_copies() {
    let cuda = CudaStandIn::default();
    let first = cuda.record_checked("first", &[], &["vector_add", "--seed", "1"]);
    let again = cuda.record_checked("again", &[], &["vector_add", "--seed", "1"]);
    let second = cuda.record_checked("second", &[], &["vector_add", "--seed", "2"]);
    let same = diff(&first.path, &again.path, &["--json"]);
    assert_eq!((same.code, &same.json()["same"]), (Some(0), &json!(true)), "{same:?}");
    let other = diff(&first.path, &second.path, &["--json"]);
    assert_eq!(other.code, Some(1), "{other:?}");
    let parsed_json = other.json();
    assert_eq!(parsed_json["same"], json!(false));
    let list = list_differences(&parsed_json);
    for name in ["in0", "in1", "out0"] {
        assert!(list.contains(&("copy".into(), name.into())), "{name}: {list:?}");
    }
    assert_eq!(
        (&parsed_json["calls"]["launches"], &parsed_json["calls"]["fills"]),
        (&json!(0), &json!(0))
    );
    let input = &parsed_json["calls"]["list"][0];
    let content = &input["content"];
    assert!(content["bytes_differ"].as_u64().unwrap() > 0, "{input}");
    assert!(content["differ"].as_u64().unwrap() <= content["compared"].as_u64().unwrap());
    assert_eq!(parsed_json["first_difference"]["a_event"], input["a_event"]);
    let text = diff(&first.path, &second.path, &[]).out;
    assert!(
        text.contains("copy of in0 (host to device)") && text.contains("\nCalls"),
        "{text}"
    );
    assert!(!text.contains("CPU writes") && !text.contains("Mapped pages"), "{text}");
    // Rules for buffers apply to copies.
    let rules = [
        "--ignore",
        "buffer in*",
        "--ignore",
        "buffer out*",
        "--ignore",
        "buffer memory*",
    ];
    assert_eq!(diff(&first.path, &second.path, &rules).code, Some(0));
    let page = cuda.file("page.html");
    let ended = diff(&first.path, &second.path, &["--html", page.to_str().unwrap()]);
    assert_eq!(ended.code, Some(1));
    assert!(std::fs::read_to_string(page).unwrap().contains("copy of in0"));
}

#[test]
fn launch_difference_names_dimensions_and_arguments() {
    let cuda = CudaStandIn::default();
    let first = cuda.record_checked("first", &[], &["stride", "--seed", "1"]);
    let wide = cuda.record_checked("wide", &[], &["stride", "--seed", "1", "--block", "128"]);
    let parsed_json = diff(&first.path, &wide.path, &["--json"]).json();
    let launch = parsed_json["calls"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["kind"] == "launch");
    let fields = launch.unwrap()["fields"].as_array().unwrap();
    assert!(fields.iter().any(|f| f["field"] == "block"), "{fields:?}");
    assert_eq!(
        parsed_json["calls"]["copies"],
        json!(0),
        "the results are the same: {parsed_json}"
    );
}

#[test]
fn single_launch_recordings_differ_only_in_memory_content() {
    let cuda = CudaStandIn::default();
    let record = |name: &str, seed: &str| {
        let recorded = cuda.record(name, &["--kernels", "vector_add"], &["vector_add", "--seed", seed], &[]);
        assert_eq!(recorded.ended.code, Some(0), "{:?}", recorded.ended);
        recorded
    };
    let (first, again, second) = (record("first", "1"), record("again", "1"), record("second", "2"));
    let same = diff(&first.path, &again.path, &[]);
    assert_eq!(same.code, Some(0), "{same:?}");
    let other = diff(&first.path, &second.path, &["--json"]);
    assert_eq!(other.code, Some(1), "{other:?}");
    let list = list_differences(&other.json());
    assert!(
        !list.is_empty() && list.iter().all(|(kind, _)| kind == "snapshot"),
        "{list:?}"
    );
}

#[test]
fn an_outcome_is_compared_with_its_original() {
    let cuda = CudaStandIn::default();
    let first = cuda.record_checked("first", &[], &["vector_add", "--seed", "1"]);
    let outcome = cuda.file("outcome.kine");
    let replay = |more: &[&str]| {
        let mut command = Command::new(program("kinescope"));
        command
            .arg("replay")
            .arg(&first.path)
            .args(["--on", "cuda:0", "-o"])
            .arg(&outcome);
        run_to_end(cuda.set_environment(command.args(more).env("KINESCOPE_KEYS", cuda.file("keys"))))
    };
    let done = replay(&[]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let same = diff(&first.path, &outcome, &[]);
    assert_eq!(same.code, Some(0), "{}", same.out);
    let second = cuda.record_checked("second", &[], &["vector_add", "--seed", "2"]);
    let script = replay_cuda::Script::new(&second.open()).unwrap();
    let t = script.inputs.iter().find(|t| t.name == "in0").unwrap();
    let bytes = cuda.file("in0.bin");
    std::fs::write(&bytes, second.open().copy_content(&t.row).unwrap()).unwrap();
    let input = format!("in0={}", bytes.display());
    let done = replay(&["--input", &input]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let other = diff(&first.path, &outcome, &["--json"]);
    assert_eq!(other.code, Some(1), "{other:?}");
    let list = list_differences(&other.json());
    assert_eq!(
        list,
        [
            ("copy".to_owned(), "in0".to_owned()),
            ("copy".to_owned(), "out0".to_owned())
        ]
    );
}

#[test]
fn range_outcome_compares_with_and_without_final_memory() {
    let cuda = CudaStandIn::default();
    let first = cuda.record_checked("marks", &["--range", "marks"], &["net", "--marks"]);
    for more in [&[][..], &["--memory"]] {
        let outcome = cuda.file("outcome.kine");
        let mut command = Command::new(program("kinescope"));
        command
            .arg("replay")
            .arg(&first.path)
            .args(["--on", "cuda:0", "-o"])
            .arg(&outcome);
        let done = run_to_end(cuda.set_environment(command.args(more).env("KINESCOPE_KEYS", cuda.file("keys"))));
        assert_eq!(done.code, Some(0), "{done:?}");
        let same = diff(&first.path, &outcome, &[]);
        assert_eq!(same.code, Some(0), "{more:?}: {}", same.out);
    }
}
