//! A recording of calls and of the requests below them: the call of a submission, the submissions of a call, kernels.

use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use trace_core::progress::Progress;
use whole_program_tests::joined::{SUBMISSION, add_launch, vadd_log};
use whole_program_tests::program;

const KERNEL: &str = "vadd(float const*, float const*, float*, int)";

fn run(verb: &str, file: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program("kinescope"))
        .arg(verb)
        .arg(file)
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn run_json(verb: &str, file: &Path, arguments: &[&str]) -> Value {
    let arguments = [arguments, &["--json"]].concat();
    serde_json::from_str(&run(verb, file, &arguments)).unwrap()
}

/// Writes the recording into a folder.
fn write_recording(folder: &Path) -> std::path::PathBuf {
    let options = trace_import::OpenOptions::default();
    let opened = trace_import::open(&vadd_log(), &options, &Progress::new()).unwrap();
    let trace_import::Opened::Recording(opened) = opened else {
        panic!("the log is a recording");
    };
    let file = folder.join("joined.kine");
    trace_core::container::write(&add_launch(opened.recording), &file, &Progress::new()).unwrap();
    file
}

#[test]
fn submissions_and_calls_lead_to_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let file = write_recording(folder.path());
    let number = SUBMISSION.to_string();
    let list = run_json("pushbuffer", &file, &[]);
    let list = list.as_array().unwrap();
    let with_call: Vec<&Value> = list.iter().filter(|s| !s["call"].is_null()).collect();
    assert_eq!(with_call.len(), 1);
    let call = with_call[0]["call"].clone();
    assert_eq!(
        (&with_call[0]["submit"], &call["name"]),
        (&json!(SUBMISSION), &json!("launch of vadd"))
    );
    let keys: Vec<&String> = call.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["event", "name"]);
    let items = run_json("pushbuffer", &file, &["--submit", &number]);
    let items = items.as_array().unwrap();
    let launches: Vec<&Value> = items.iter().filter(|i| i.get("grid").is_some()).collect();
    assert_eq!(launches.len(), 1);
    assert_eq!((&launches[0]["kernel"], &launches[0]["call"]), (&json!(KERNEL), &call));
    let method_keys: Vec<&String> = items[0].as_object().unwrap().keys().collect();
    assert_eq!(
        method_keys,
        ["class", "fields", "method", "name", "subchannel", "value"]
    );
    let text = run("pushbuffer", &file, &["--submit", &number]);
    let event = call["event"].to_string();
    assert!(text.contains("channel 0x5c00001c (compute 0)"), "{text}");
    assert!(
        text.contains(&format!("call: launch of vadd, event {event}\n")),
        "{text}"
    );
    assert!(
        text.contains(&format!("kernel {KERNEL}, launched at event {event}\n")),
        "{text}"
    );

    let of_submission = run_json("references", &file, &[&format!("submission:{number}")]);
    let target = &of_submission["target"];
    assert_eq!(
        (&target["kind"], &target["event"]),
        (&json!("event"), &with_call[0]["event"])
    );
    let reference = &of_submission["references"][0];
    assert_eq!(
        (
            &reference["kind"],
            &reference["access"],
            &reference["event"],
            &reference["submit"]
        ),
        (&json!("call"), &json!("cause"), &call["event"], &json!(SUBMISSION))
    );
    for target in ["launch:0".to_owned(), format!("event:{event}")] {
        let of_call = run_json("references", &file, &[&target]);
        let all = of_call["references"].as_array().unwrap();
        assert_eq!(all.len(), 1, "{target}");
        assert_eq!(
            (&all[0]["kind"], &all[0]["access"], &all[0]["event"]),
            (&json!("submission"), &json!("effect"), &with_call[0]["event"])
        );
        assert!(all[0]["word"].is_number(), "where the launch is");
    }
    let none = run("references", &file, &["submission:0"]);
    assert!(none.contains("no references of submission:0"), "{none}");
}

#[test]
fn recordings_of_one_level_have_no_calls() {
    let log = vadd_log();
    let items = run_json("pushbuffer", &log, &["--submit", &SUBMISSION.to_string()]);
    let launch = items.as_array().unwrap().iter().find(|i| i.get("grid").is_some());
    let launch = launch.unwrap();
    assert!(
        launch["kernel"].is_null() && launch["call"].is_null(),
        "no name is a guess"
    );
    let output = Command::new(program("kinescope"))
        .arg("references")
        .arg(&log)
        .arg("submission:3")
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && message.contains("--with cuda,nvidia"),
        "{message}"
    );
}

#[test]
fn channels_have_names_by_their_engine_objects() {
    let log = vadd_log();
    let channels = run("channels", &log, &[]);
    for line in ["compute 0  0x5c00001c", "copy 4     0x5c00004e"] {
        assert!(channels.contains(line), "{channels}");
    }
    let jobs = run("jobs", &log, &["--job", &SUBMISSION.to_string()]);
    assert!(jobs.contains("Channel") && jobs.contains("compute 0"), "{jobs}");
}
