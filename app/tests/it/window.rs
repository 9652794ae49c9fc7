//! Tests of the window around the panels, by its accessible labels: commands, files, keys, the palette, replays and
//! pictures. Each test asserts that a document, a file or a panel changed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod commands;
use crate::common;
mod compare;
mod driver_traces;
mod following;
mod keeping;
mod notes;
mod numbers;
mod pictures;
mod running;
mod targets;
mod tour;
mod trimming;
mod unasked;

use common::{Window, sample};
use egui_kittest::kittest::Queryable as _;
use replay_engine::device::Containment;
use trace_core::recording::Capture;

#[test]
fn empty_window_offers_to_open_a_file() {
    let mut w = Window::empty();
    assert!(w.has("Open file"));
    let copy = w.folder.path().join("chosen.kine");
    std::fs::copy(sample(), &copy).unwrap();
    w.will_choose(&copy);
    w.click("Open file");
    assert_eq!(w.doc().path, copy);
}

#[test]
fn invalid_file_shows_a_notice_and_the_window_stays() {
    let mut w = Window::empty();
    let bad = w.folder.path().join("bad.kine");
    std::fs::write(&bad, b"not a recording").unwrap();
    w.will_choose(&bad);
    w.click("Open file");
    assert!(w.app().doc.is_none() && w.app().notice.is_some());
    w.click("Dismiss");
    assert!(w.app().notice.is_none() && w.has("Open file"));
}

#[test]
fn replay_panel_shows_the_outcome_of_an_edited_input() {
    let mut w = Window::open();
    w.edit();
    w.run("show-replay");
    w.click("Run replay");
    let o = w.doc().replay.outcome.clone().expect("the replay has an outcome");
    assert_eq!(o.rewrites.get(&replay_engine::plan::RewriteKind::Input), Some(&1));
    assert!(w.has_part("Matched") || o.verdict != replay_engine::run::Verdict::Match);
}

#[test]
fn the_palette_goes_to_an_event_by_its_number() {
    let mut w = Window::open();
    w.run("palette");
    w.harness.get_by_label("Palette").type_text("12");
    w.settle();
    w.harness.key_press(egui::Key::Enter);
    w.settle();
    assert_eq!(w.doc().current_event(), 12);
    assert!(w.app().palette.is_none());
}

#[test]
fn keys_of_the_table_reach_their_commands() {
    let mut w = Window::open();
    w.doc().go(4);
    w.settle();
    w.harness.key_press(egui::Key::Period);
    w.settle();
    assert_eq!(w.doc().current_event(), 5);
    w.harness
        .key_press_modifiers(egui::Modifiers::ALT, egui::Key::ArrowLeft);
    w.settle();
    assert_eq!(w.doc().current_event(), 4);
    w.harness.key_press(egui::Key::W);
    w.settle();
    assert!(w.views().timeline.range.is_some());
    w.harness.key_press(egui::Key::F);
    w.settle();
    assert!(w.views().timeline.range.is_none());
}

#[test]
fn unreachable_target_shows_an_error_without_a_question() {
    let mut w = Window::open();
    w.doc().replay.choose("agent://127.0.0.1:9/mali");
    w.run("replay");
    assert_eq!(w.app().confirm, None);
    assert!(w.doc().replay.running.is_none());
    assert!(w.doc().replay.error.is_some(), "the missing agent is reported");
}

#[test]
fn outline_shows_how_a_recording_was_captured() {
    let mut r = trace_core::container::open(&sample()).unwrap();
    r.metadata.capture = Some(Capture {
        method: "mmiotrace".into(),
        command: vec!["modprobe".into(), "radeonfb".into()],
        exit_code: Some(1),
        lost: 3,
        ..Capture::default()
    });
    let w = Window::from_recording(r);
    assert!(w.has("Captured by: mmiotrace"));
    assert!(w.has("Command: modprobe radeonfb, which ended with code 1"));
    assert!(w.has("Kernel lost: 3 events"));
    assert!(!Window::open().has_part("Captured by"));
}

#[test]
fn uncontained_devices_are_badged_and_confirmed_once() {
    let mut w = Window::open();
    w.run("plan");
    let mut info = w
        .doc()
        .replay
        .device
        .clone()
        .expect("the device of the target is known");
    info.containment = Containment::None;
    w.doc().replay.choose("agent://127.0.0.1:9/pci:1002:5159");
    w.doc().replay.device = Some(info);
    w.settle();
    assert!(w.has("Safety: ! not contained"));
    w.run("replay");
    assert!(w.has_part("without containment"));
    // Escape declines the question.
    w.type_text("\x1b");
    assert!(w.app().confirm.is_none() && w.doc().replay.needs_containment_consent());
    w.run("replay");
    w.click("Touch the hardware");
    assert!(
        !w.doc().replay.needs_containment_consent(),
        "the confirmation counts for this target"
    );
    w.run("replay");
    assert!(w.has_part("real hardware") && !w.has_part("without containment"));
    w.click("Cancel");
    w.doc().replay.choose("agent://127.0.0.1:9/pci:1234:11e8");
    assert!(!w.doc().replay.uncontained.contains("agent://127.0.0.1:9/pci:1234:11e8"));
}
