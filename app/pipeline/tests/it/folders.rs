//! The folder of a run: files of earlier runs, files in the way of outputs, and two runs at once.

use crate::support::{SIMULATOR, TestFolder};
use kinescope_pipeline::{
    FolderError, NamedTarget, OutputFolder, Pipeline, RunError, RunEvent, RunReport, RunRequest, RunVerdict, run,
};
use kinescope_session::targets::Targets;
use std::collections::BTreeSet;
use std::path::Path;
use trace_core::progress::Progress;

/// One replay, a loop of one round, and a module with this function.
fn pipeline(after: &str) -> TestFolder {
    let text = r#"version = 1
[stages.add]
recording = "SAMPLES/vecadd.kine"
outputs = ["c"]
[stages.again]
recording = "SAMPLES/vecadd.kine"
inputs = { a = "sum.x", b = "add.c" }
outputs = ["c"]
[stages.count]
module = "m.wat"
function = "count"
inputs.c = { from = "again.c", type = "f32", shape = [1024] }
outputs.o = { type = "u8", shape = [1] }
[loops.sum]
stages = ["again", "count"]
rounds = 3
carry.x = { start = "add.c", next = "again.c" }
until = { value = "count.o", equals = 0 }
[stages.after]
module = "m.wat"
function = "after"
inputs.c = { from = "again.c", type = "f32", shape = [1024] }
outputs.o = { type = "u8", shape = [1] }
[outputs]
c = "add.c"
o = { from = "after.o", file = "o.bin" }
"#;
    let module = format!(
        r#"(func (export "count") (param i32 i32 i32 i32)) (func (export "after") (param i32 i32 i32 i32) {after})"#
    );
    TestFolder::new(text, &module)
}

/// Runs a pipeline into a folder, and writes its results.
fn run_into(pipeline: &Pipeline, to: &Path) -> Result<RunVerdict, FolderError> {
    let targets = Targets::new(None);
    let request = RunRequest::new(&targets, NamedTarget::parse_list(SIMULATOR).unwrap());
    let mut folder = OutputFolder::create(to, pipeline, &[])?;
    let result = run(pipeline, &request, &mut folder, &mut |_| {}, &Progress::new()).unwrap();
    let report = folder.write(pipeline, &result, format)?;
    Ok(report.verdict)
}

fn format(report: &RunReport) -> Vec<u8> {
    report.failure.clone().unwrap_or_default().into_bytes()
}

fn list(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

#[test]
fn failed_run_leaves_no_results_of_an_earlier_run() {
    let (good, bad) = (pipeline(""), pipeline("(unreachable)"));
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("out");
    assert_eq!(run_into(&good.open(), &to).unwrap(), RunVerdict::Match);
    let results = ["add.kine", "again.round-1.kine", "c.npy", "o.bin", "report.json"];
    assert_eq!(list(&to), names(&results));
    // A later round of an earlier run, and files that no run of this pipeline writes.
    let others = [
        "again.round-4.kine",
        "again.round-02.kine",
        "again.kine",
        "add.round-1.kine",
        "count.round-1.kine",
        "notes.txt",
        "c.npy.old",
    ];
    for name in others.iter().chain(&["again.round-3.kine"]) {
        std::fs::write(to.join(name), "x").unwrap();
    }
    assert_eq!(run_into(&bad.open(), &to).unwrap(), RunVerdict::Failed);
    let mut expected = names(&others);
    expected.extend(names(&["add.kine", "again.round-1.kine", "report.json"]));
    assert_eq!(list(&to), expected);
}

#[test]
fn stopped_run_has_a_report_and_no_outputs_of_an_earlier_run() {
    let good = pipeline("");
    let pipeline = good.open();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("out");
    run_into(&pipeline, &to).unwrap();
    let targets = Targets::new(None);
    let request = RunRequest::new(&targets, NamedTarget::parse_list(SIMULATOR).unwrap());
    let mut out = OutputFolder::create(&to, &pipeline, &[]).unwrap();
    let progress = Progress::new();
    let mut observe = |event| {
        if matches!(event, RunEvent::Ended { .. }) {
            progress.cancel();
        }
    };
    let ended = run(&pipeline, &request, &mut out, &mut observe, &progress);
    assert!(matches!(ended, Err(RunError::Cancelled)));
    let mut stages = Vec::new();
    out.write_early_end(|report| {
        assert_eq!(report.verdict, RunVerdict::Failed);
        stages.extend(report.stages.iter().map(|s| s.stage.clone()));
        format(report)
    })
    .unwrap();
    assert_eq!(stages, ["add"]);
    assert_eq!(list(&to), names(&["add.kine", "report.json"]));
    assert_eq!(std::fs::read(to.join("report.json")).unwrap(), b"the run was stopped");
}

#[test]
fn folder_in_the_way_of_a_result_is_refused_before_any_stage_runs() {
    let good = pipeline("");
    let pipeline = good.open();
    for name in ["c.npy", "o.bin", "add.kine", "again.round-2.kine", "report.json"] {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("out");
        run_into(&pipeline, &to).unwrap();
        let before = list(&to);
        // It can be there already, as a result of the run.
        let _ = std::fs::remove_file(to.join(name));
        std::fs::create_dir(to.join(name)).unwrap();
        let error = OutputFolder::create(&to, &pipeline, &[]).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("is a folder"), "{error}");
        // Nothing is removed then.
        assert!(list(&to).is_superset(&before), "{name}");
    }
}

#[test]
fn result_that_is_an_input_under_another_name_is_not_removed() {
    let good = pipeline("");
    let pipeline = good.open();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("out");
    run_into(&pipeline, &to).unwrap();
    let link = folder.path().join("link.npy");
    std::os::unix::fs::symlink(to.join("c.npy"), &link).unwrap();
    let before = list(&to);
    let error = OutputFolder::create(&to, &pipeline, &[link]).unwrap_err();
    assert!(matches!(error, FolderError::HoldsInput { .. }), "{error}");
    assert_eq!(list(&to), before);
}

#[test]
fn two_runs_at_once_do_not_share_a_folder() {
    let good = pipeline("");
    let pipeline = good.open();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("out");
    let first = OutputFolder::create(&to, &pipeline, &[]).unwrap();
    std::fs::write(to.join("c.npy"), "x").unwrap();
    let error = OutputFolder::create(&to, &pipeline, &[]).unwrap_err().to_string();
    assert!(
        error.ends_with("another run writes to this folder; wait for its end, or give another folder"),
        "{error}"
    );
    assert!(to.join("c.npy").exists());
    drop(first);
    OutputFolder::create(&to, &pipeline, &[]).unwrap();
    assert_eq!(list(&to), names(&[]));
}
