//! Pictures of the tutorials (`docs/tutorials/pictures`), taken from the real window. `UPDATE_SNAPSHOTS=1` renews them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use crate::common::cuda::stand_in_targets;
use crate::common::screen_recording::{TWICE, screen_recording};
use crate::common::wasm_run::collatz;
use crate::common::{Window, samples, write_diverging_sample};
use crate::panels::tune;
use egui_kittest::SnapshotOptions;
use kinescope::panels::common::actions::Pairing;
use kinescope::theme::ThemeChoice;
use kinescope_files::scene::Selection;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use trace_core::progress::Progress;
use trace_core::recording::{BufferRole, ElementType};
use trace_core::trim::{Part, TrimRequest, trim};

/// Opens a sample under its own name, in a window of 1280 by 800 pixels.
fn open(sample: &str) -> Window {
    let w = Window::empty();
    let file = samples().join(sample);
    let copy = w.folder.path().join(file.file_name().unwrap());
    std::fs::copy(&file, &copy).unwrap();
    start(w, &copy)
}

/// Opens a recording without hints, which differ from run to run, and with targets that are the same on every machine.
fn start(mut w: Window, file: &Path) -> Window {
    w.start(file);
    w.fix_targets();
    w.app().settings.hints_read = 9;
    w.settle();
    w
}

/// Compares the window with its picture.
fn check(mut w: Window, name: &str) {
    w.settle();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/tutorials/pictures");
    let options = SnapshotOptions::new().output_path(folder);
    w.harness.snapshot_options(name, &options);
}

/// Puts the sample's seven in place of the recorded two.
fn edit_digit(w: &mut Window) {
    let npy = std::fs::read(samples().join("digits/digit.npy")).unwrap();
    // Bytes 8 and 9 of an NPY file of version 1 are the length of its header.
    let header = usize::from(u16::from_le_bytes([npy[8], npy[9]]));
    assert!(w.doc().edit("image", 0, npy[10 + header..].to_vec()));
    w.settle();
}

/// Replays on the simulator. Wall-clock times differ from run to run; the picture must not.
fn replay(w: &mut Window) {
    assert!(w.run("replay"));
    let mut outcome = (**w.doc().replay.outcome.as_ref().unwrap()).clone();
    outcome.timing.push_ns = 640_000;
    outcome.timing.runs_ns = vec![1_840_000; outcome.timing.runs_ns.len()];
    w.doc().replay.outcome = Some(Arc::new(outcome));
    w.settle();
}

#[test]
fn first_look_window() {
    let mut w = open("vecadd.kine");
    w.doc().go(95);
    w.run("show-events");
    check(w, "first-look-window");
}

#[test]
fn first_look_register() {
    let mut w = open("vecadd.kine");
    let event = w.doc().derived.jobs[0].submit;
    let register = w.doc().recording.events.access(event as usize).unwrap().offset;
    w.doc().go_with(event, Selection::Register(register));
    w.run("show-register");
    check(w, "first-look-register");
}

#[test]
fn first_look_memory() {
    let mut w = open("vecadd.kine");
    w.run("last-event");
    let c = w.doc().recording.buffer("c").unwrap().va.get();
    w.run("show-memory");
    w.views().memory.element = Some(ElementType::F32);
    w.show_memory(0, c, 4);
    check(w, "first-look-memory");
}

/// Returns the replay with another digit, compared with its recording.
fn compared_digits() -> Window {
    let mut w = open("digits.kine");
    edit_digit(&mut w);
    replay(&mut w);
    assert!(w.run("compare-outcome"));
    w
}

#[test]
fn divergence_compare() {
    check(compared_digits(), "divergence-compare");
}

#[test]
fn divergence_cause() {
    let mut w = compared_digits();
    let c = w.doc().comparison.done.clone().expect("the comparison is done");
    let buffers = &w.doc().recording.metadata.buffers;
    let role = |name: &str| buffers.iter().find(|b| b.name == name).map(|b| b.role);
    let mut differing = c.diff.buffers.iter().filter(|b| b.differs());
    let row = differing.position(|b| role(&b.name) == Some(BufferRole::Output));
    w.views().compare.selected = Some(row.expect("the scores differ") as u64);
    w.settle();
    assert!(w.has("Why"));
    check(w, "divergence-cause");
}

#[test]
fn divergence_first() {
    let w = Window::empty();
    let (path, _) = write_diverging_sample(w.folder.path(), 3);
    let mut w = start(w, &path);
    replay(&mut w);
    assert!(w.is_panel_active("compare"));
    check(w, "divergence-first");
}

#[test]
fn input_digit() {
    let mut w = open("digits.kine");
    w.run("show-inputs");
    w.doc().select(Selection::Buffer("image".into()));
    edit_digit(&mut w);
    check(w, "input-digit");
}

#[test]
fn input_pairing() {
    let mut w = open("digits.kine");
    w.run("show-replay");
    let (answer, _answers) = channel();
    *w.app().actions.pairing.lock().unwrap() = Some(Pairing {
        code: "335 908 512".to_owned(),
        answer: Some(answer),
    });
    w.settle();
    check(w, "input-pairing");
}

#[test]
fn input_scores() {
    let mut w = open("digits.kine");
    w.run("show-inputs");
    w.doc().select(Selection::Buffer("image".into()));
    edit_digit(&mut w);
    replay(&mut w);
    assert!(w.is_panel_active("inputs") && w.has_part("output value 7 "));
    check(w, "input-scores");
}

#[test]
fn linux_events() {
    let mut w = open("qemu/virtio-gpu.kine");
    w.run("show-events");
    check(w, "linux-events");
}

#[test]
fn linux_screen() {
    let w = Window::empty();
    let path = w.folder.path().join("display.kine");
    trace_core::container::write(&screen_recording(), &path, &Progress::new()).unwrap();
    let mut w = start(w, &path);
    w.run("show-screen");
    w.run("last-event");
    w.views().screen.pixel = Some(TWICE);
    check(w, "linux-screen");
}

/// Opens the sample of a CUDA program on a machine with the stand-in driver.
fn net() -> Window {
    let mut w = open("cuda/net.kine");
    let targets = stand_in_targets(w.folder.path());
    w.app().set_targets(targets);
    w
}

#[test]
fn cuda_launches() {
    let mut w = net();
    w.run("show-launches");
    check(w, "cuda-launches");
}

#[test]
fn cuda_changes() {
    let mut w = net();
    w.run("show-launches");
    assert!(w.run("watch-launches"));
    let api_trace = w.doc().api_trace().unwrap();
    let event = api_trace.launches()[5].event;
    w.doc().go(event);
    check(w, "cuda-changes");
}

#[test]
fn cuda_tune() {
    let mut w = Window::from_recording_themed(tune::recording(), ThemeChoice::Dark);
    w.fix_targets();
    w.app().settings.hints_read = 9;
    w.run("show-tune");
    w.views().tune.form.grid[0] = "80..=1280".into();
    w.doc().tuning.end("cuda:0", Ok(tune::tuned()));
    check(w, "cuda-tune");
}

#[test]
fn wasm_program() {
    let mut w = Window::from_recording_themed(collatz(), ThemeChoice::Dark);
    w.fix_targets();
    w.app().settings.hints_read = 9;
    w.run("show-wasm");
    check(w, "wasm-program");
}

#[test]
fn webgpu_jobs() {
    let mut w = open("saxpy.kine");
    w.run("show-jobs");
    check(w, "webgpu-jobs");
}

#[test]
fn webgpu_shader() {
    let mut w = open("saxpy.kine");
    w.doc().go_job(0);
    w.run("show-shader");
    check(w, "webgpu-shader");
}

#[test]
fn pipeline_graph() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/tutorials/a-network-in-three-recordings.md");
    let page = std::fs::read_to_string(page).unwrap();
    let pipeline = page
        .split("```toml\n")
        .nth(1)
        .and_then(|p| p.split("```").next())
        .unwrap();
    let mut w = Window::empty();
    let folder = w.folder.path().join("target/net");
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(samples(), w.folder.path().join("sample-traces")).unwrap();
    let modules = samples().join("../sample-pipelines");
    std::os::unix::fs::symlink(modules, w.folder.path().join("sample-pipelines")).unwrap();
    let whole = trace_core::container::open(&samples().join("digits.kine")).unwrap();
    for (name, jobs) in [
        ("features", vec![0, 1]),
        ("convolution", vec![2]),
        ("classifier", vec![3]),
    ] {
        let request = TrimRequest::new(Part::Jobs(jobs.into_iter().collect()), "digits.kine");
        let part = trim(&whole, &request, &Progress::new()).unwrap();
        let file = folder.join(name).with_extension("kine");
        trace_core::container::write(&part.recording, &file, &Progress::new()).unwrap();
    }
    let file = folder.join("digits.kpipe");
    std::fs::write(&file, pipeline).unwrap();
    let ctx = w.harness.ctx.clone();
    w.app().open(&ctx, file);
    w.settle();
    w.fix_targets();
    w.app().settings.hints_read = 9;
    w.views().pipeline.folder = "target/net/digits.results".to_owned();
    check(w, "pipeline-graph");
}
