//! Inputs of API traces: the panel shows, edits and keeps the contents of copies, and replays use them.

use crate::common::cuda::stand_in_targets;
use crate::common::net::net;
use crate::common::{HANG_LIMIT, Window, samples};
use crate::panels::hands::{bytes, edited};
use egui_kittest::kittest::Queryable as _;
use kinescope::theme::ThemeChoice;
use kinescope_files::buffer_index::OriginKind;
use kinescope_files::scene::Selection;
use replay_engine::run::Verdict;
use replay_engine::tune::Reference;
use std::time::{Duration, Instant};
use trace_core::GpuVa;
use trace_core::recording::ElementType;

/// Opens the sample of a CUDA program with Inputs in front.
fn sample() -> Window {
    let mut w = Window::open_file(&samples().join("cuda/net.kine"), ThemeChoice::Dark, 1.0);
    w.run("show-inputs");
    w
}

fn show(w: &mut Window, name: &str) {
    w.doc().select(Selection::Buffer(name.into()));
    w.run("show-inputs");
}

/// Replays, confirms the question if one appears, and returns the verdict.
fn replay(w: &mut Window) -> Verdict {
    w.doc().replay.outcome = None;
    w.run("replay");
    let since = Instant::now();
    while w.app().confirm.is_none() && w.doc().replay.outcome.is_none() && w.doc().replay.needs_confirmation() {
        w.harness.step();
        assert!(since.elapsed() < HANG_LIMIT, "no question appeared");
    }
    if w.app().confirm.is_some() {
        w.harness.step();
        assert!(w.has("Replay on this GPU?"));
        w.click("Touch the hardware");
    }
    loop {
        w.harness.step();
        let state = &w.doc().replay;
        if let Some(o) = &state.outcome {
            return o.verdict;
        }
        assert!(state.error.is_none(), "{:?}", state.error);
        assert!(since.elapsed() < HANG_LIMIT, "the replay did not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn copies_are_listed_as_replay_inputs_and_outputs() {
    let n = net(2);
    let mut w = Window::from_recording(n.recording.clone());
    w.run("show-inputs");
    for label in ["input in0", "input in2", "input out0", "input memory0"] {
        assert!(w.has(label), "{label}");
    }
    assert!(w.has("Memory at the start"));
    // The 144 weights are detected as floats.
    w.click("input in0");
    assert!(w.has("copied from the host") && w.has("144 values"));
    let weights = w.doc().buffers.get("in0").unwrap().clone();
    assert_eq!((weights.va.get(), weights.element), (n.weights, ElementType::F32));
    // Each run copies the image to the same address.
    w.click("input in2");
    assert!(w.has("2 copies"));
    let carried = *w.doc().buffers.origin("in2").unwrap();
    assert_eq!((carried.event, carried.kind), (n.image_in, OriginKind::Input));
    w.doc().go(0);
    w.settle();
    show(&mut w, "in2");
    w.click("event of the copy");
    assert_eq!(w.doc().current_event(), n.image_in);
    assert_eq!(
        *w.doc().selection(),
        Selection::Buffer("in2".into()),
        "the buffer stays selected"
    );
}

#[test]
fn cuda_input_value_edit_is_undone_and_saved() {
    let mut w = Window::open_file(&samples().join("cuda/net.kine"), ThemeChoice::Dark, 1.0);
    show(&mut w, "in0");
    let before = bytes(&mut w, "in0");
    w.click("value 1");
    w.views().inputs.field = "7".into();
    w.click("Set");
    assert!(edited(&mut w, "in0"));
    let now = bytes(&mut w, "in0");
    let size = w.doc().buffers.get("in0").unwrap().element.bytes();
    assert_ne!(now[size..2 * size], before[size..2 * size]);
    assert_eq!((&now[..size], &now[2 * size..]), (&before[..size], &before[2 * size..]));
    assert!(w.has_part("1 page differs") && w.has_part("● edited"));
    // The bytes of the value are selected on the device.
    let at = w.doc().buffers.get("in0").unwrap().va.get() + size as u64;
    assert!(matches!(*w.doc().selection(), Selection::Memory { va, .. } if va == GpuVa::new(at)));
    w.crash_and_restart();
    w.doc().accept_offered();
    assert_eq!(bytes(&mut w, "in0"), now, "the journal restores the edit");
    w.run("undo");
    assert!(!edited(&mut w, "in0"));
    assert_eq!(bytes(&mut w, "in0"), before);
}

#[test]
fn readbacks_are_shown_but_not_editable() {
    let mut w = sample();
    show(&mut w, "out0");
    assert!(w.has("copied to the host") && w.has_part("A replay computes these values"));
    w.click("value 0");
    assert!(w.views().inputs.editing.is_none());
    assert!(
        matches!(w.doc().selection(), Selection::Memory { .. }),
        "the value is selected"
    );
    assert!(!w.doc().edit("out0", 0, vec![1]));
    assert!(!edited(&mut w, "out0"));
    let disabled = |w: &Window, label: &str| {
        use egui_kittest::kittest::NodeT as _;
        w.harness.get_by_label(label).accesskit_node().is_disabled()
    };
    assert!(disabled(&w, "Load…") && disabled(&w, "Clear"));
    show(&mut w, "in0");
    assert!(!disabled(&w, "Load…") && !disabled(&w, "Clear"));
}

#[test]
fn copies_and_bytes_link_to_their_input() {
    let n = net(1);
    let mut w = Window::from_recording(n.recording.clone());
    w.doc().go(n.image_in);
    w.settle();
    w.click("carries in2");
    assert!(w.is_panel_active("inputs"));
    assert_eq!(*w.doc().selection(), Selection::Buffer("in2".into()));
    assert!(w.doc().edit("in2", 8, vec![0, 0, 0x80, 0x3f]));
    w.doc().go(n.image_in);
    w.settle();
    assert!(w.has("carries ● in2"), "the inspector marks the copy as edited");
    w.show_memory(0, n.image + 8, 1);
    w.settle();
    w.click("input ● in2 + 0x8");
    assert!(w.is_panel_active("inputs") && w.views().inputs.buffer == "in2");
    // The readback carries an output.
    w.doc().go(n.scores_out);
    w.settle();
    w.click("carries out0");
    assert_eq!(*w.doc().selection(), Selection::Buffer("out0".into()));
    // The palette finds buffers too.
    w.run("palette");
    w.type_text("memory0\n");
    assert_eq!(*w.doc().selection(), Selection::Buffer("memory0".into()));
}

#[test]
fn buffer_search_finds_one_of_many_buffers() {
    let mut b = crate::common::net::Build::new();
    b.metadata.api = trace_core::recording::Api::Cuda;
    b.stream("default stream", 0);
    for n in 0..300u32 {
        let at = b.take(64);
        b.copy_in(at, &[n as u8; 64], (1, 64), 0, true);
    }
    let mut w = Window::from_recording(b.finish());
    w.run("show-inputs");
    assert!(w.has("input in23") && !w.has("input in24"));
    assert!(w.has("276 more; find them by name"));
    w.harness.get_by_label("Find buffers by name").focus();
    w.settle();
    w.type_text("in29");
    assert!(w.has("input in29") && w.has("input in290") && w.has("input in299"));
    assert!(!w.has("input in23"));
    w.click("input in299");
    assert_eq!(bytes(&mut w, "in299"), [43; 64]);
    // The shown buffer has a row, even if the list is cut before it.
    w.click("All buffers");
    assert!(w.has("input in299") && w.has("Shown"));
    w.harness.get_by_label("Find buffers by name").focus();
    w.settle();
    w.type_text("nothing");
    assert!(w.has("No buffer has this name."));
}

#[test]
fn replay_result_follows_the_edit() {
    let mut w = sample();
    let targets = stand_in_targets(w.folder.path());
    w.app().set_targets(targets);
    let name = {
        // The image is the last input of the net.
        let doc = w.doc();
        let inputs = doc.buffers.list().iter();
        let mut replay_inputs =
            inputs.filter(|b| doc.buffers.origin(&b.name).is_some_and(|c| c.kind == OriginKind::Input));
        replay_inputs.next_back().unwrap().name.clone()
    };
    // For API traces the panel has no registers, no targets of register traces and no idle time.
    w.run("show-replay");
    assert!(w.has("target cuda:0") && !w.has_part("target software:") && !w.has("Pace"));
    assert_eq!(replay(&mut w), Verdict::Match);
    w.run("show-replay");
    for message in [
        "8 launches",
        "2 readbacks, 320 B",
        "Safety: driver",
        "Replay on the GPU",
    ] {
        assert!(w.has(message), "{message}");
    }
    // A replay as one graph has another plan and the same result.
    w.click("as one graph");
    assert!(w.doc().replay.plan.is_none() && w.doc().replay.api_options.graph);
    assert_eq!(replay(&mut w), Verdict::Match);
    assert!(w.doc().replay.outcome.as_ref().unwrap().api().unwrap().graph);
    w.click("synchronize after each launch");
    assert!(
        !w.doc().replay.api_options.graph && w.doc().replay.api_options.step,
        "the two options exclude each other"
    );
    w.click("synchronize after each launch");
    let outputs = |w: &mut Window| -> Vec<Vec<u8>> {
        let o = w.doc().replay.outcome.clone().unwrap();
        o.outputs.iter().map(|o| o.data.clone()).collect()
    };
    let recorded = outputs(&mut w);
    assert!(
        !w.doc().replay.needs_confirmation(),
        "one confirmation is enough for a target"
    );
    assert!(w.doc().edit(&name, 0, vec![9, 0, 0, 0, 7, 0, 0, 0]));
    assert_eq!(replay(&mut w), Verdict::Match, "edited inputs have no expected outputs");
    let other = outputs(&mut w);
    assert_ne!(other, recorded);
    let outcome = w.doc().replay.outcome.clone().unwrap();
    let (differ, all) = outcome.api().unwrap().free_outputs();
    assert!(differ > 0 && differ <= all && outcome.reads.compared == 0);
    w.run("show-replay");
    assert!(w.has_part("with your inputs"), "the panel mentions the edited inputs");
    // The user's tolerance applies.
    for (tolerance, verdict) in [("exact", Verdict::Diverged), ("i32:1e9", Verdict::Match)] {
        w.doc().replay.tolerance = tolerance.into();
        assert_eq!(replay(&mut w), verdict, "{tolerance}");
    }
    for wrong in ["in0=exact", "near"] {
        w.doc().replay.tolerance = wrong.into();
        w.run("replay");
        assert!(w.has_part("▲"), "{wrong}");
        let error = w.doc().replay.error.clone().unwrap().text;
        assert!(error.starts_with("The output tolerance is invalid"), "{error}");
    }
    w.doc().replay.tolerance.clear();
    w.run("undo");
    assert_eq!(replay(&mut w), Verdict::Match);
    assert_eq!(outputs(&mut w), recorded);
    assert_eq!(w.doc().replay.outcome.as_ref().unwrap().reads.compared, all);
}

#[test]
fn tune_panel_uses_edited_inputs() {
    let mut w = sample();
    let targets = stand_in_targets(w.folder.path());
    w.app().set_targets(targets);
    w.run("show-tune");
    let mut references = Vec::new();
    for edit in [false, true] {
        if edit {
            let first = w.doc().buffers.list()[0].name.clone();
            assert!(w.doc().edit(&first, 0, vec![3, 0, 0, 0]));
        }
        w.views().tune.target = "cuda:0".into();
        w.views().tune.form.repeats = 2;
        w.settle();
        w.doc().tuning.done = None;
        w.click("Run the tuning");
        let since = Instant::now();
        while w.doc().tuning.done.is_none() {
            assert_eq!(w.doc().tuning.failure, None);
            w.harness.step();
            assert!(since.elapsed() < HANG_LIMIT, "the tuning did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        w.settle();
        let (tuned, target) = w.doc().tuning.done.clone().unwrap();
        assert_eq!(target, "cuda:0");
        assert!(tuned.baseline.rejected.is_none(), "{tuned:?}");
        assert!(tuned.best.is_some() && !tuned.points.is_empty());
        references.push(tuned.reference);
    }
    assert_eq!(
        references[1],
        Reference::Device,
        "the recording has no outputs for the edited inputs"
    );
}
