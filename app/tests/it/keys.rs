//! Tests of keys, typed as a keyboard sends them. A shortcut runs only its own command, a field takes typed text
//! without running a command, and undo reverts the last change.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use crate::common;
mod user_bindings;

use common::Window;
use egui::{Key, Modifiers};
use egui_kittest::kittest::Queryable as _;
use kinescope::commands::COMMANDS;
use kinescope::theme::ThemeChoice;
use kinescope::window::command::Command;
use kinescope::window::shortcut::{ctrl, ctrl_shift};
use kinescope::window::{App, PickResult, Setup};
use kinescope_files::scene::Selection;
use kinescope_files::values;
use kinescope_session::jobs::Chain;
use replay_engine::device::Containment;
use std::sync::Arc;

/// Opens the sample whose buffer holds floating-point values.
fn floats() -> Window {
    let mut w = Window::open_sample("vecadd.kine");
    w.app().settings.hints_read = 9;
    w.settle();
    w
}

/// Returns an element of the selected buffer as text.
fn value(w: &mut Window, index: usize) -> String {
    let name = w.input();
    let element = {
        let doc = w.doc();
        let buffer = doc.recording.buffer(&name).unwrap().clone();
        doc.element(&buffer)
    };
    let (bytes, _) = w.doc().buffer_now(&name).unwrap();
    let size = element.bytes();
    values::format_element(element, &bytes[index * size..(index + 1) * size])
}

fn field(w: &Window) -> String {
    w.harness.get_by_label("Value").value().unwrap()
}

fn is_value_focused(w: &Window) -> bool {
    w.harness.get_by_label("Value").is_focused()
}

#[test]
fn every_shortcut_within_one_frame_runs_only_its_command() {
    // Every command is enabled here, so that a wrong command always runs and is detected.
    let table: Vec<Command<App>> = COMMANDS
        .iter()
        .map(|c| Command {
            id: c.id,
            title: c.title,
            menu: c.menu,
            shortcut: c.shortcut,
            enabled: |_| true,
            run: |_, _| {},
        })
        .collect();
    let mut w = Window::sized(ThemeChoice::Dark, 1.0);
    let ctx = w.harness.ctx.clone();
    let setup = Setup {
        settings: None,
        theme: None,
        target: None,
        chooser: Arc::new(|_| PickResult::Cancelled),
        commands: table.leak(),
    };
    *w.app() = App::new(&ctx, setup);
    w.settle();
    let mut pressed = 0;
    for c in COMMANDS {
        let Some(s) = c.shortcut else { continue };
        assert_eq!(w.press(s), [c.id], "{}", s.text());
        pressed += 1;
    }
    assert!(pressed > 30, "{pressed} shortcuts");
    // A key with an extra modifier is another shortcut.
    assert_eq!(
        w.press(ctrl_shift(Key::Q).unwrap()),
        [""; 0],
        "Ctrl Shift Q is not a shortcut"
    );
    assert_eq!(w.press(ctrl(Key::Y).unwrap()), ["redo"]);
}

#[test]
fn typing_replaces_a_value_and_enter_moves_on() {
    let mut w = floats();
    assert_eq!(w.type_text("e"), ["edit-input"]);
    assert_ne!(value(&mut w, 0), "7");
    let before = value(&mut w, 1);
    assert_eq!(w.type_text("7\n"), [""; 0]);
    assert_eq!((value(&mut w, 0), value(&mut w, 1)), ("7".into(), before));
    assert!(is_value_focused(&w), "the next value has the focus");
    assert_eq!(field(&w), value(&mut w, 1));
    assert_eq!(w.type_text("8\n"), [""; 0]);
    assert_eq!((value(&mut w, 0), value(&mut w, 1)), ("7".into(), "8".into()));
    assert_eq!(w.views().inputs.editing, Some(2));
}

#[test]
fn typing_replaces_a_clicked_value() {
    let mut w = floats();
    w.run("show-inputs");
    w.click("value 2");
    assert_eq!(w.type_text("5"), [""; 0]);
    assert_eq!(field(&w), "5");
    // A click into the field selects its whole text, as focusing it by key does.
    w.type_text("\x1b");
    w.click("value 3");
    w.type_text("\t");
    assert!(!is_value_focused(&w));
    w.click("Value");
    assert_eq!(w.type_text("6\n"), [""; 0]);
    assert_eq!(value(&mut w, 3), "6");
}

#[test]
fn invalid_value_keeps_focus_and_shows_why() {
    let mut w = floats();
    w.type_text("e");
    let (axis, current_event, was) = (w.views().timeline.axis, w.doc().current_event(), value(&mut w, 0));
    assert_eq!(w.type_text("zz\n"), [""; 0]);
    assert!(is_value_focused(&w));
    let why = w.views().inputs.wrong.clone().expect("an error is shown");
    assert!(w.has(&format!("▲ {why}")), "the error is shown at the field");
    assert_eq!(value(&mut w, 0), was);
    assert_eq!(
        w.type_text("3.5"),
        [""; 0],
        "no command runs while a value is corrected"
    );
    assert_eq!(
        (w.views().timeline.axis, w.doc().current_event()),
        (axis, current_event)
    );
    assert_eq!(field(&w), "3.5", "typed text replaces the invalid text");
    assert!(w.views().inputs.wrong.is_none());
    w.type_text("\n");
    assert_eq!(value(&mut w, 0), "3.5");
}

#[test]
fn undo_and_redo_work_right_after_a_value_edit() {
    let mut w = floats();
    w.type_text("e");
    let was = value(&mut w, 0);
    w.type_text("7\n");
    assert!(is_value_focused(&w));
    assert_eq!(w.press(ctrl(Key::Z).unwrap()), ["undo"]);
    assert_eq!(value(&mut w, 0), was);
    assert_eq!(w.press(ctrl_shift(Key::Z).unwrap()), ["redo"]);
    assert_eq!(value(&mut w, 0), "7");
    w.press(ctrl(Key::Z).unwrap());
    assert_eq!(w.press(ctrl(Key::Y).unwrap()), ["redo"]);
    assert_eq!(value(&mut w, 0), "7");
    // After typing, undo first reverts the typed text.
    let next = field(&w);
    w.type_text("9");
    assert_eq!(w.press(ctrl(Key::Z).unwrap()), [""; 0]);
    assert_eq!((field(&w), value(&mut w, 0)), (next, "7".into()));
    assert_eq!(
        w.press(ctrl(Key::Z).unwrap()),
        ["undo"],
        "the field has no typed text left to undo"
    );
}

#[test]
fn value_field_follows_undo() {
    let mut w = floats();
    w.type_text("e");
    let was = value(&mut w, 0);
    w.type_text("7\n");
    w.click("value 0");
    assert_eq!(field(&w), "7");
    w.press(ctrl(Key::Z).unwrap());
    assert_eq!(field(&w), was);
    w.type_text("4\n");
    assert_eq!(value(&mut w, 0), "4", "the whole text was selected");
}

#[test]
fn a_note_is_written_over_by_typing() {
    let mut w = floats();
    let at = w.doc().current_event();
    assert_eq!(w.type_text("m"), ["add-note"]);
    assert_eq!(w.type_text("here it parts"), [""; 0]);
    w.stroke(Modifiers::NONE, Key::Escape, None);
    w.settle();
    assert_eq!(w.doc().changes().notes()[&at].text, "here it parts");
}

#[test]
fn invalid_target_address_keeps_focus_and_shows_why() {
    let mut w = floats();
    w.run("show-replay");
    w.harness.get_by_label("Target address").focus();
    w.settle();
    assert_eq!(w.type_text("zz\n"), [""; 0]);
    assert!(w.harness.get_by_label("Target address").is_focused());
    assert!(
        w.harness
            .query_all_by_label_contains("▲ enter the address")
            .next()
            .is_some()
    );
    assert_eq!(w.type_text("127.0.0.1:9/mali\n"), [""; 0]);
    assert_eq!(w.doc().replay.target(), "agent://127.0.0.1:9/mali");
}

#[test]
fn invalid_address_keeps_focus() {
    let mut w = floats();
    w.press(ctrl(Key::G).unwrap());
    assert_eq!(w.type_text("zz\n"), [""; 0]);
    assert!(w.harness.get_by_label("Go to address").is_focused());
    let va = w.doc().derived.spaces[0].mappings[0].va;
    assert_eq!(w.type_text(&format!("0x{va:x}\n")), [""; 0]);
    assert_eq!(w.views().memory.top, va.align_down(16));
}

#[test]
fn escape_closes_every_dialog_and_keys_do_not_act_behind_it() {
    let mut w = floats();
    let (current_event, view) = (w.doc().current_event(), w.timeline_part());
    let shift = kinescope::window::shortcut::shift;
    assert_eq!(w.press(shift(Key::Questionmark).unwrap()), ["help"]);
    assert!(w.app().help);
    assert_eq!(w.type_text("w.jk"), [""; 0], "no command runs behind the sheet");
    assert_eq!((w.doc().current_event(), w.timeline_part()), (current_event, view));
    assert_eq!(w.type_text("\x1b"), [""; 0]);
    assert!(!w.app().help);
    w.press(shift(Key::Questionmark).unwrap());
    assert_eq!(
        w.press(shift(Key::Questionmark).unwrap()),
        ["help"],
        "the shortcut of the sheet closes it"
    );
    assert!(!w.app().help);
    w.run("about");
    assert_eq!(w.type_text("w\x1b"), [""; 0]);
    assert!(!w.app().about);
    w.run("plan");
    let mut info = w
        .doc()
        .replay
        .device
        .clone()
        .expect("the device of the target is known");
    info.containment = Containment::Iommu;
    w.doc().replay.choose("agent://127.0.0.1:9/mali");
    w.doc().replay.queried_device = Some(info);
    w.run("replay");
    assert_eq!(w.app().confirm, Some("replay"));
    assert_eq!(
        w.press(ctrl(Key::Enter).unwrap()),
        [""; 0],
        "a shortcut does not answer a question"
    );
    assert_eq!(w.type_text("w\x1b"), [""; 0]);
    assert_eq!(w.app().confirm, None);
    assert_eq!(w.type_text("."), ["next-event"], "keys run commands again");
}

#[test]
fn next_job_of_a_chain_is_a_link() {
    let mut w = floats();
    let va = w.doc().derived.spaces[0].mappings[0].va;
    let (job, next) = (0, format!("{va:#x}"));
    // The samples submit their jobs one by one, so the test adds a next job to one of them.
    let derived = Arc::make_mut(&mut w.doc().derived);
    let mut chain = derived.jobs[0].chain.to_vec();
    chain[0].fields.push(("next".into(), next.clone()));
    derived.jobs[0].chain = Arc::new(Chain::new(chain));
    w.doc().go_job(job);
    w.settle();
    w.click(&format!("next {next}"));
    assert!(w.is_panel_active("memory"));
    let Selection::Memory { va: at, .. } = *w.doc().selection() else {
        panic!("{:?}", w.doc().selection())
    };
    assert_eq!(at, va);
}

#[test]
fn palette_distinguishes_panel_and_action_names() {
    let mut w = floats();
    w.click("Target software:mali-g71");
    assert!(w.harness.query_all_by_label_contains("Show Replay").next().is_some());
    w.type_text("\x1b");
    w.run("palette");
    w.harness.get_by_label("Palette").type_text("replay");
    w.settle();
    assert!(w.has("Replay") && w.has("Show Replay"));
}

#[test]
fn previous_outcome_is_marked_after_a_failed_connection() {
    let mut w = floats();
    w.run("show-replay");
    w.press(ctrl(Key::Enter).unwrap());
    assert!(w.doc().replay.outcome.is_some());
    assert!(w.has_part("on software:mali-g71 in ") && !w.has_part("previous outcome"));
    w.harness.get_by_label("Target address").focus();
    w.settle();
    w.type_text("127.0.0.1:9/mali-g71\n");
    w.run("replay");
    assert!(w.has_part("no agent answers"));
    assert!(w.has("! previous outcome: the last attempt did not run"));
    assert!(w.has_part("on software:mali-g71 in "), "the outcome names its target");
    assert!(w.has("no answer"), "the target shows it");
    // A replay that runs is the last attempt, so its outcome is current again.
    w.click("Continue with the simulator");
    w.click("Run replay");
    assert!(!w.has_part("previous outcome") && !w.has("no answer"));
}

/// Regression test: the T that focuses the field of a thread was also typed into it.
#[test]
fn focus_shortcut_types_nothing_into_its_field() {
    let mut w = Window::open_sample("vecadd.kine");
    w.doc().go_job(0);
    w.run("show-shader");
    w.settle();
    w.type_text("t");
    assert!(w.views().shader.thread.open);
    assert_eq!(w.views().shader.thread.workgroup, "");
    w.type_text("1,0,0\t2\n");
    let thread = &w.views().shader.thread;
    assert_eq!((thread.workgroup.as_str(), thread.thread.as_str()), ("1,0,0", "2"));
}
