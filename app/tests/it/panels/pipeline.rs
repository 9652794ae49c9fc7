//! Tests of the Pipeline panel: a file opens, its graph shows the states of a run, and an outcome is one click away.

use crate::common::{Window, samples};
use egui::Key;
use egui_kittest::kittest::Queryable as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn digits() -> PathBuf {
    samples().join("../sample-pipelines/digits/digits.kpipe")
}

/// Opens a pipeline in the panel, with this folder for results.
fn open(pipeline: &Path, results: &Path) -> Window {
    let mut w = Window::open_sample("vecadd.kine");
    assert!(w.run("show-pipeline"));
    w.will_choose(pipeline);
    w.click("Open pipeline…");
    w.views().pipeline.folder = results.to_str().unwrap().to_owned();
    w.settle();
    w
}

#[test]
fn run_shows_states_and_an_outcome_opens() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    let mut w = open(&digits(), &results);
    for stage in ["conv1", "pool", "conv2", "dense", "softmax", "argmax"] {
        assert!(w.has(&format!("stage {stage} waiting")), "{stage}");
    }
    let names: Vec<String> = w.painted_texts().into_iter().map(|t| t.text).collect();
    assert!(names.iter().any(|t| t == "f32 8x8"), "an edge has its type: {names:?}");
    w.click("Run the pipeline");
    assert!(w.views().pipeline.end().unwrap().starts_with("match: 6 stages in "));
    // The keyboard reaches boxes that are not in view.
    w.harness.get_by_label("stage dense ✓ match").focus();
    w.settle();
    w.harness.key_press(Key::Enter);
    w.settle();
    assert!(w.has("Stage dense") && w.has("target software:mali-g71"));
    assert!(w.has_part("logits 10 f32"));
    for file in ["logits.npy", "probability.npy", "digit.npy", "report.json", "pool.kine"] {
        assert!(results.join(file).exists(), "{file}");
    }
    w.click("outcome dense.kine");
    assert_eq!(w.doc().path, results.join("dense.kine"));
    // The run is still there beside its outcome.
    assert!(w.run("show-pipeline"));
    w.settle();
    assert!(w.has("Stage dense") && w.has("stage argmax ✓ match"));
}

#[test]
fn stages_of_a_loop_show_their_round() {
    let folder = tempfile::tempdir().unwrap();
    let kmeans = samples().join("../sample-pipelines/kmeans/kmeans.kpipe");
    let mut w = open(&kmeans, &folder.path().join("results"));
    w.click("Run the pipeline");
    for stage in ["place ✓ match", "products ✓ match, round 6", "update ✓ match, round 6"] {
        assert!(w.has(&format!("stage {stage}")), "{stage}");
    }
    assert!(folder.path().join("results/products.round-6.kine").exists());
}

#[test]
fn stage_that_fails_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(digits()).unwrap();
    let own = samples().join("../sample-pipelines/digits");
    let text = text
        .replace("fuel = 100000, memory = 65536", "fuel = 10, memory = 65536")
        .replace("recording = \"", &format!("recording = \"{}/", own.display()))
        .replace("module = \"", &format!("module = \"{}/", own.display()))
        .replace("../../sample-traces", samples().to_str().unwrap());
    let path = folder.path().join("p.kpipe");
    std::fs::write(&path, text).unwrap();
    let mut w = open(&path, &folder.path().join("results"));
    w.click("Run the pipeline");
    let end = w.views().pipeline.end().unwrap().to_owned();
    assert!(end.contains("the module used up its fuel of 10"), "{end}");
    assert!(w.has("stage dense ✓ match"));
    assert!(w.has("stage softmax ▲ failed") || w.has("stage argmax ▲ failed"));
}

#[test]
fn defects_and_hardware_keep_a_pipeline_from_running() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.kpipe");
    std::fs::write(&path, "version = 1\n[outputs]\nx = \"no.y\"\n").unwrap();
    let mut w = open(&path, folder.path());
    assert!(w.has_part("line 3: output 'x' uses 'no.y', and there is no stage or loop 'no'"));
    // The message stands where the graph would, with the button that opens another file.
    w.will_choose(&digits());
    w.click("Open pipeline…");
    w.views().pipeline.on = "agent:lab/mali".to_owned();
    w.settle();
    w.harness.get_by_label("Run the pipeline").click();
    w.settle();
    assert!(w.views().pipeline.running().is_none() && w.views().pipeline.end().is_none());
    w.click("Run on hardware");
    assert!(w.views().pipeline.accepts_hardware);
    w.views().pipeline.on = "nonsense,".to_owned();
    w.settle();
    assert!(w.has_part("is no list of targets"));
}

#[test]
fn run_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let module =
        "(module (memory (export \"memory\") 1) (func (export \"allocate\") (param i32) (result i32) i32.const 0)
        (func (export \"run\") (param i32 i32) (loop $l (br $l))))";
    std::fs::write(folder.path().join("m.wat"), module).unwrap();
    let text = "version = 1\n[stages.endless]\nmodule = \"m.wat\"\nfunction = \"run\"\n\
                outputs.o = { type = \"u8\", shape = [1] }\nlimits = { fuel = 1000000000000, time_ms = 600000 }\n\
                [outputs]\no = \"endless.o\"\n";
    let path = folder.path().join("p.kpipe");
    std::fs::write(&path, text).unwrap();
    let mut w = open(&path, &folder.path().join("results"));
    w.harness.get_by_label("Run the pipeline").click();
    while !w.has("stage endless running") {
        w.harness.step();
        std::thread::sleep(Duration::from_millis(5));
    }
    w.click("Stop");
    assert_eq!(w.views().pipeline.end(), Some("stopped"));
}

#[test]
fn a_pipeline_opens_like_a_recording_with_the_first_one_of_its_stages() {
    let mut w = Window::empty();
    let ctx = w.harness.ctx.clone();
    w.app().open(&ctx, digits());
    w.settle();
    assert_eq!(w.doc().path.file_name().unwrap(), "conv1.kine.gz");
    assert!(w.has("stage conv1 waiting"), "the panel is in front");
    // A window with a recording keeps it.
    let mut w = Window::open_sample("vecadd.kine");
    let ctx = w.harness.ctx.clone();
    w.app().open(&ctx, digits());
    w.settle();
    assert!(w.doc().path.ends_with("sample.kine") && w.has("stage conv1 waiting"));
}

#[test]
fn an_input_takes_another_file_or_needs_one() {
    let folder = tempfile::tempdir().unwrap();
    let own = samples().join("../sample-pipelines/digits");
    let text = std::fs::read_to_string(digits()).unwrap();
    let without_file: String = text
        .lines()
        .filter(|line| !line.starts_with("file = "))
        .map(|line| format!("{line}\n"))
        .collect();
    let text = without_file
        .replace("recording = \"", &format!("recording = \"{}/", own.display()))
        .replace("module = \"", &format!("module = \"{}/", own.display()));
    let path = folder.path().join("p.kpipe");
    std::fs::write(&path, text).unwrap();
    let results = folder.path().join("results");
    let mut w = open(&path, &results);
    assert!(w.has_part("choose a file for the input 'image'") && w.has("no file yet"));
    let image = samples().join("digits/digit.npy");
    w.will_choose(&image);
    w.click("Choose input image");
    assert!(!w.has("no file yet") && !w.has_part("choose a file for the input"));
    w.click("Run the pipeline");
    assert!(w.views().pipeline.end().unwrap().starts_with("match: 6 stages in "));
    assert!(results.join("digit.npy").exists());
    w.click("Restore input image");
    assert!(w.has("no file yet"));
}
