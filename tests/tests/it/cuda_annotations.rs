//! Ranges and names that a CUDA program gives through the recorder's C interface, on the stand-in for the driver. They
//! are in the recording, in `--json`, in replays and in comparisons.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use serde_json::{Value, json};
use std::ffi::OsStr;
use std::process::Command;
use trace_core::api_trace::Annotations;
use whole_program_tests::cuda::{CudaStandIn, RecordedProgram, run_to_end};
use whole_program_tests::{ProgramOutput, program, root, run};

fn kinescope(cuda: &CudaStandIn, arguments: &[&str]) -> ProgramOutput {
    let mut command = Command::new(program("kinescope"));
    cuda.set_environment(command.args(arguments))
        .env("KINESCOPE_KEYS", cuda.file("keys"));
    run_to_end(&mut command)
}

/// Returns the value that a verb prints about a recording.
fn report(recorded: &RecordedProgram, verb: &str, more: &[&str]) -> Value {
    let words = [OsStr::new(verb), recorded.path.as_os_str(), OsStr::new("--json")];
    let words: Vec<&OsStr> = words.into_iter().chain(more.iter().map(OsStr::new)).collect();
    let done = run(words);
    assert_eq!(done.code, Some(0), "{done:?}");
    done.json()
}

#[test]
fn ranges_and_names_are_in_the_recording() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("annotated", &[], &["annotated"]);
    let all = Annotations::from_recording(&recorded.open());
    let ranges: Vec<_> = all.ranges().iter().map(|r| (&*r.name, r.level, r.is_ended)).collect();
    let round = [("step", 0, true), ("upload", 1, true), ("loader", 1, true)];
    assert_eq!(ranges, [round, round].concat());
    let threads: std::collections::BTreeSet<u32> = all.ranges().iter().map(|r| r.thread).collect();
    assert_eq!(threads.len(), 3, "the program's own thread and two others: {threads:?}");
    let (step, upload) = (&all.ranges()[0], &all.ranges()[1]);
    assert!(step.first < upload.first && upload.last < step.last);

    let info = report(&recorded, "info", &[]);
    let names: Vec<_> = info["ranges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| (&r["name"], &r["times"]))
        .collect();
    let two = json!(2);
    assert_eq!(
        names,
        [
            (&json!("step"), &two),
            (&json!("upload"), &two),
            (&json!("loader"), &two)
        ]
    );
    assert!(info["ranges"][0]["total_ns"].as_u64().unwrap() > 0);
    let buffers: Vec<_> = info["buffers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| (&b["name"], &b["type"], &b["shape"]))
        .collect();
    let [right, left, sum] = [
        ("right", "f32", json!(null)),
        ("left", "u8", json!(null)),
        ("sum", "f32", json!([2, 500])),
    ];
    let expected = [right, left, sum].map(|(name, element, shape)| (json!(name), json!(element), shape));
    let expected: Vec<_> = expected
        .iter()
        .map(|(name, element, shape)| (name, element, shape))
        .collect();
    assert_eq!(buffers, expected);

    let events = report(&recorded, "events", &["--where", "call.name = \"range begin\""]);
    assert_eq!(events.as_array().unwrap().len(), 6, "{events}");
    assert!(events[0]["means"].as_str().unwrap().contains("\"step\""), "{events}");
    let text = run([OsStr::new("info"), recorded.path.as_os_str()]);
    assert!(text.out.contains("upload: 2 times"), "{text:?}");
}

#[test]
fn named_memory_is_input_and_output_of_replays() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("named", &[], &["annotated"]);
    let path = recorded.path.to_str().unwrap();
    let sums = cuda.file("sums.npy");
    let outcome = cuda.file("outcome.kine");
    // A thousand floats of 1.0, as raw bytes.
    let ones = cuda.file("ones.bin");
    std::fs::write(&ones, 1.0f32.to_le_bytes().repeat(1000)).unwrap();
    let (input_left, input_right) = (format!("left={}", ones.display()), format!("right={}", ones.display()));
    let output = format!("sum={}", sums.display());
    let done = kinescope(
        &cuda,
        &[
            "replay",
            path,
            "--on",
            "cuda:0",
            "--input",
            &input_left,
            "--input",
            &input_right,
            "--output",
            &output,
            "-o",
            outcome.to_str().unwrap(),
            "--json",
        ],
    );
    assert_eq!(done.code, Some(0), "{done:?}");
    let file = std::fs::read(&sums).unwrap();
    let header = String::from_utf8_lossy(&file[..128]).into_owned();
    assert!(header.contains("<f4") && header.contains("(2, 500)"), "{header}");
    let values = file[128..].as_chunks::<4>().0;
    assert!(values.len() == 1000 && values.iter().all(|v| f32::from_le_bytes(*v) == 2.0));
    // The outcome has the annotations too, and its memory goes by the same names.
    let again = RecordedProgram {
        path: outcome.clone(),
        ended: done,
        out: Vec::new(),
    };
    let ranges = report(&again, "info", &[])["ranges"].clone();
    assert_eq!(ranges[0]["times"], 2, "{ranges}");
    let difference = kinescope(&cuda, &["diff", path, outcome.to_str().unwrap()]);
    assert_eq!(difference.code, Some(1), "{difference:?}");
    assert!(
        difference.out.contains("left") && difference.out.contains("sum"),
        "{difference:?}"
    );
}

#[test]
fn names_of_parts_of_an_allocation_stand_for_their_addresses() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("parts", &[], &["annotated"]);
    let launches = report(&recorded, "launches", &[]);
    for launch in launches.as_array().unwrap() {
        let arguments = launch["arguments"].as_array().unwrap();
        let values: Vec<&Value> = arguments.iter().take(3).map(|a| &a["value"]).collect();
        assert_eq!(values, [&json!("sum"), &json!("left"), &json!("right")], "{launch}");
        let pointer = &arguments[2]["pointers"][0];
        let words = (&pointer["buffer"], &pointer["buffer_offset"], &pointer["location"]);
        assert_eq!(words, (&json!("alloc 0"), &json!(4000), &json!("right")), "{launch}");
    }
    let writer = report(&recorded, "last-writer", &["right+0x10"]);
    assert_eq!(writer["location"], "right + 0x10", "{writer}");
    let path = recorded.path.to_str().unwrap();
    let text = kinescope(&cuda, &["last-writer", path, "sum+4"]);
    assert!(text.out.contains("(sum + 0x4)"), "{text:?}");
    // The same work with other inputs differs in the memory that the program named.
    let other = cuda.record_checked("other", &[], &["annotated", "--seed", "9"]);
    let difference = kinescope(&cuda, &["diff", path, other.path.to_str().unwrap()]);
    assert!(
        difference.out.contains("left") && !difference.out.contains("alloc 0"),
        "{difference:?}"
    );
}

#[test]
fn names_before_the_recorded_range_are_kept() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("marks", &["--range", "marks"], &["annotated", "--marks"]);
    let info = report(&recorded, "info", &[]);
    let names: Vec<&Value> = info["buffers"].as_array().unwrap().iter().map(|b| &b["name"]).collect();
    assert_eq!(names, [&json!("left"), &json!("sum"), &json!("right")]);
    let ranges: Vec<_> = info["ranges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| (&r["name"], &r["times"]))
        .collect();
    let one = json!(1);
    assert_eq!(
        ranges,
        [
            (&json!("step"), &one),
            (&json!("upload"), &one),
            (&json!("loader"), &one)
        ]
    );
}

#[test]
fn annotations_after_the_recorded_range_are_left_out() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record("part", &["--range", "first:1"], &["annotated"], &[]);
    assert_eq!(recorded.ended.code, Some(1), "{:?}", recorded.ended);
    // The program finds out that the recorder refuses annotations after the range; its own check fails.
    let info = report(&recorded, "info", &[]);
    let names: Vec<&Value> = info["buffers"].as_array().unwrap().iter().map(|b| &b["name"]).collect();
    assert_eq!(names, [&json!("right"), &json!("left")]);
    assert_eq!(info["ranges"][0]["name"], "step");
}

#[test]
fn header_works_without_a_recorder_and_in_a_recording() {
    let cuda = CudaStandIn::default();
    let source = cuda.file("annotated.c");
    let code = r#"
#include <dlfcn.h>
#include <stdio.h>
#include "kinescope.h"
int main(void)
{
    int begun = kinescope_begin("from C");
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuInit");
    if (!init || init(0))
        return 1;
    int noted = kinescope_leave_mark("a note");
    int ended = kinescope_end();
    int named = kinescope_name(0, 16, "nowhere", 0);
    printf("%d %d %d %d\n", begun, noted, ended, named);
    return 0;
}
"#;
    std::fs::write(&source, code).unwrap();
    let built = cuda.file("annotated");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-I"]);
    compiler
        .arg(root().join("recorders/cuda/include"))
        .arg("-o")
        .arg(&built)
        .arg(&source)
        .arg("-ldl");
    let compiled = run_to_end(&mut compiler);
    assert_eq!(compiled.code, Some(0), "{compiled:?}");
    let mut alone = Command::new(&built);
    let alone = run_to_end(cuda.set_environment(&mut alone));
    assert_eq!(
        (alone.code, alone.out.as_str()),
        (Some(0), "-1 -1 -1 -1\n"),
        "{alone:?}"
    );
    let path = cuda.file("c.kine");
    let recorded = run_to_end(&mut cuda.record_command(&path, &[], &[built.as_os_str()]));
    assert_eq!(recorded.code, Some(0), "{recorded:?}");
    assert!(recorded.out.contains("0 0 0 -2\n"), "{recorded:?}");
    let recorded = RecordedProgram {
        path,
        ended: recorded,
        out: Vec::new(),
    };
    assert_eq!(report(&recorded, "info", &[])["ranges"][0]["name"], "from C");
    let events = report(&recorded, "events", &[]);
    let notes = events
        .as_array()
        .unwrap()
        .iter()
        .filter(|e| e["means"] == "mark \"a note\"");
    assert_eq!(notes.count(), 1, "{events}");
}
