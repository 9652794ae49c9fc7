//! Tests of the further options of the Replay panel: each control changes the request, and the panel shows its effect.

use crate::common::cuda::stand_in_targets;
use crate::common::{HANG_LIMIT, Window, samples};
use kinescope::theme::ThemeChoice;
use kinescope_session::plan_file;
use kinescope_session::replay::DEFAULT_REPEATED_RUNS;
use kinescope_session::replay::request::ReplayRequest;
use kinescope_session::targets::Targets;
use replay_engine::run::Verdict;
use std::path::{Path, PathBuf};
use std::time::Instant;
use trace_core::progress::Progress;
use trace_core::screen::Picture;
use trace_core::{Recording, container};
use whole_program_tests::emulated::has_qemu;

/// Opens a sample with Replay in front and its further options in view.
fn open(sample: &str) -> Window {
    open_file(&samples().join(sample))
}

fn open_file(file: &Path) -> Window {
    let mut w = Window::open_file_sized(file, ThemeChoice::Dark, [1280.0, 1400.0], 1.0);
    w.app().settings.hints_read = 9;
    w.run("show-replay");
    w.click("More options");
    w
}

/// Writes a file and chooses it as the expected content of an output.
fn expect(w: &mut Window, output: &str, bytes: &[u8]) -> PathBuf {
    let file = w.folder.path().join("expected.bin");
    std::fs::write(&file, bytes).unwrap();
    w.will_choose(&file);
    w.click("Expected output…");
    w.click(&format!("Expected content of {output}…"));
    file
}

/// Replays and checks that the panel says why there is no outcome.
fn assert_refused(w: &mut Window, why: &str) {
    w.run("replay");
    let error = w.doc().replay.error.clone().expect("the replay is refused");
    assert!(error.text.contains(why), "{}", error.text);
    w.run("show-replay");
    assert!(w.has_part(&format!("▲ {}", &error.text[..8])));
}

/// Replays, and returns the verdict with the panel in front.
fn verdict(w: &mut Window) -> Verdict {
    w.doc().replay.outcome = None;
    w.run("replay");
    w.run("show-replay");
    let error = w.doc().replay.error.clone();
    let outcome = w.doc().replay.outcome.clone();
    outcome.unwrap_or_else(|| panic!("{error:?}")).verdict
}

#[test]
fn time_limit_and_number_of_runs_reach_the_request() {
    let mut w = open("vecadd.kine");
    assert_eq!(w.doc().replay.repeated_runs(), DEFAULT_REPEATED_RUNS);
    w.enter("time limit", "5");
    w.enter("number of runs", "3");
    assert_eq!(w.doc().replay.options.time_limit, Some(5));
    assert!(w.has("3 times") && w.has("More options · 2 set"));
    w.run("replay-ten");
    let (plan, _) = w.doc().replay.plan.clone().unwrap();
    assert_eq!(plan.plan.budgets.time_ns, 5_000_000_000);
    assert_eq!(w.doc().replay.outcome.clone().unwrap().timing.runs_ns.len(), 3);
}

#[test]
fn a_saved_plan_is_replayed_unchanged() {
    let mut w = open("vecadd.kine");
    for absent in ["learn expectations", "Expected output…", "Expected screen…"] {
        assert!(!w.has(absent), "a GPU checks no effects: {absent}");
    }
    let file = w.folder.path().join("saved.plan.txt");
    w.will_choose(&file);
    w.run("plan");
    w.click("Save plan…");
    assert!(file.is_file(), "{:?}", w.app().last_error());
    w.click("Plan file…");
    assert!(w.has("plan saved.plan.txt") && w.has("More options · 1 set"));
    assert!(w.doc().replay.plan.is_none(), "the plan of the file takes its place");
    assert_eq!(verdict(&mut w), Verdict::Match);
    w.edit();
    assert_refused(&mut w, "a plan is replayed unchanged");
    w.run("undo");
    std::fs::write(&file, b"no plan").unwrap();
    assert_refused(&mut w, "not a plan");
    w.run("show-replay");
    w.click("Remove the plan file");
    assert_eq!(verdict(&mut w), Verdict::Match);
}

#[test]
fn check_can_be_left_to_the_agent() {
    let mut w = open("vecadd.kine");
    w.click("leave the check to the agent");
    w.run("plan");
    assert!(w.doc().replay.plan.is_some() && w.doc().replay.verified.is_none());
    assert_eq!(verdict(&mut w), Verdict::Match);
    let workspace = w.app().workspace().unwrap();
    assert!(!workspace.replay.bypass_check, "the next start checks plans again");
}

#[test]
fn options_are_kept_in_the_workspace() {
    let mut w = open("vecadd.kine");
    w.enter("time limit", "7");
    let path = w.doc().path.clone();
    w.run("close");
    w.start(&path);
    assert_eq!(w.doc().replay.options.time_limit, Some(7));
}

/// Replays on the stand-in's device, and confirms the question.
fn replay_on_stand_in(w: &mut Window) {
    w.doc().replay.outcome = None;
    w.doc().replay.guarded = None;
    w.run("replay");
    let since = Instant::now();
    while w.doc().replay.outcome.is_none() && w.doc().replay.guarded.is_none() {
        w.harness.step();
        if w.app().confirm.is_some() {
            w.harness.step();
            w.click("Touch the hardware");
        }
        let error = w.doc().replay.error.clone();
        assert!(error.is_none(), "{error:?}");
        assert!(since.elapsed() < HANG_LIMIT, "the replay did not end");
    }
    w.settle();
    w.run("show-replay");
}

#[test]
fn guards_and_expected_outputs_apply_to_api_traces() {
    let mut w = open("cuda/net.kine");
    let targets = stand_in_targets(w.folder.path());
    w.app().set_targets(targets);
    w.settle();
    assert!(!w.has("learn expectations"), "an API trace contains its outputs");
    w.click("guard buffers");
    assert!(!w.has("10 times"));
    replay_on_stand_in(&mut w);
    let summary = w.doc().replay.guarded.clone().expect("the buffers are guarded");
    assert!(summary.guarded > 0 && summary.past.is_none(), "{summary:?}");
    assert!(w.has("No launch reads or writes past a guarded buffer."));
    assert!(w.has(&summary.describe()));
    w.click("as one graph");
    assert!(!w.doc().replay.options.guard, "a graph cannot be guarded");
    w.click("as one graph");
    replay_on_stand_in(&mut w);
    let outcome = w.doc().replay.outcome.clone().unwrap();
    assert_eq!(outcome.verdict, Verdict::Match);
    let output = outcome.outputs[0].clone();
    let saved = w.folder.path().join("output.bin");
    w.will_choose(&saved);
    w.click(&format!("Save output {}…", output.name));
    assert_eq!(std::fs::read(&saved).unwrap(), output.data);
    let mut bytes = output.data.clone();
    bytes[0] ^= 1;
    let file = expect(&mut w, &output.name, &bytes);
    assert!(w.has("More options · 1 set") && w.has(&format!("{} expected.bin", output.name)));
    assert!(w.doc().replay.plan.is_none(), "the plan has other expectations");
    replay_on_stand_in(&mut w);
    assert_eq!(w.doc().replay.outcome.clone().unwrap().verdict, Verdict::Diverged);
    assert!(w.doc().comparison.done.is_none(), "the outcome is like the recording");
    assert!(w.has_part(&format!("differ from {}", file.display())));
    std::fs::write(&file, &output.data).unwrap();
    replay_on_stand_in(&mut w);
    assert_eq!(w.doc().replay.outcome.clone().unwrap().verdict, Verdict::Match);
    assert!(w.has_part(&format!("as expected by {}", file.display())));
    std::fs::write(&file, b"short").unwrap();
    assert_refused(&mut w, "5 bytes for ");
    std::fs::remove_file(&file).unwrap();
    assert_refused(&mut w, "expected.bin");
    w.click(&format!("Remove the expected content of {}", output.name));
    assert!(w.doc().replay.options.is_usual() && w.has("More options"));
}

/// Returns the recording of a device that QEMU emulates, and whose memory and output a replay can check.
fn record_emulated_device() -> Recording {
    let plan = plan_file::read(&samples().join("edu.plan.txt")).unwrap().unwrap();
    let mut lease = Targets::new(None).open("qemu:edu").unwrap();
    let request = ReplayRequest {
        target: "qemu:edu".to_owned(),
        ..ReplayRequest::default()
    };
    let device = lease.info().clone();
    let mut prepared = request.relocate(&plan, &device).unwrap();
    let outcome = request.run(&mut prepared, &mut lease, &Progress::new()).unwrap();
    container::from_bytes(outcome.recording).unwrap()
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn effects_of_a_device_are_expected_and_learned() {
    if !has_qemu() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let recorded = folder.path().join("edu.kine");
    container::write(&record_emulated_device(), &recorded, &Progress::new()).unwrap();
    let mut w = open_file(&recorded);
    w.doc().replay.choose("qemu:edu");
    w.settle();
    assert_eq!(verdict(&mut w), Verdict::Match);
    let outcome = w.doc().replay.outcome.clone().unwrap();
    assert!(outcome.outputs.is_empty(), "the recording names no buffers");
    // The plan names an output.
    w.will_choose(&samples().join("edu.plan.txt"));
    w.click("Plan file…");
    assert_eq!(verdict(&mut w), Verdict::Match);
    let outcome = w.doc().replay.outcome.clone().unwrap();
    let output = outcome.outputs.first().expect("the plan names an output").clone();
    let mut bytes = output.data.clone();
    bytes[0] ^= 1;
    let file = expect(&mut w, &output.name, &bytes);
    assert_eq!(verdict(&mut w), Verdict::Diverged);
    assert!(w.has_part("▲ output expected ") && w.has_part(&format!("differ from {}", file.display())));
    std::fs::write(&file, &output.data).unwrap();
    assert_eq!(verdict(&mut w), Verdict::Match);
    w.click(&format!("Remove the expected content of {}", output.name));
    w.click("Remove the plan file");

    // The device has no screen, so an expected picture is no success.
    let screen = w.folder.path().join("screen.ppm");
    std::fs::write(&screen, b"no picture").unwrap();
    w.will_choose(&screen);
    w.click("Expected screen…");
    assert_refused(&mut w, "screen.ppm");
    let picture = Picture::from_ppm(b"P6 1 1 255\nabc").unwrap();
    std::fs::write(&screen, picture.to_ppm()).unwrap();
    verdict(&mut w);
    assert!(w.has_part("! screen "));
    w.click("Remove the expected screen");

    w.click("learn expectations");
    w.doc().replay.options.check_after = "soon".into();
    w.settle();
    assert!(w.has_part("▲ 'soon' is not an event"));
    assert_refused(&mut w, "'soon' is not an event");
    w.doc().replay.options.check_after.clear();
    assert_eq!(verdict(&mut w), Verdict::Match);
    let (plan, _) = w.doc().replay.plan.clone().unwrap();
    let learned = plan.plan.accesses().unwrap().expectations.len();
    assert!(
        learned > 0 && w.has(&format!("{learned} effects expected")),
        "{learned}"
    );
    let saved = w.folder.path().join("learned.plan.txt");
    w.will_choose(&saved);
    w.click("Save plan…");
    w.click("learn expectations");
    w.click("Plan file…");
    assert_eq!(verdict(&mut w), Verdict::Match);
    let (used, _) = w.doc().replay.plan.clone().unwrap();
    assert_eq!(used.plan.accesses().unwrap().expectations.len(), learned);
}
