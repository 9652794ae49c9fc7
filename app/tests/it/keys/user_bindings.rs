//! Tests that users can bind keys to commands: in the sheet by keyboard or pointer, and in their key file.

use crate::common::Window;
use egui::{Event, Key, Modifiers};
use egui_kittest::kittest::Queryable as _;
use kinescope::commands::COMMANDS;
use kinescope::theme::ThemeChoice;
use kinescope::window::shortcut::{alt, ctrl, ctrl_shift, key};
use kinescope::window::{App, PickResult, Setup};
use std::sync::Arc;

fn window() -> Window {
    let mut w = Window::open();
    w.app().settings.hints_read = 9;
    w.settle();
    w
}

/// Opens the keys sheet and types a search.
fn search(w: &mut Window, text: &str) {
    w.run("keys");
    w.type_text(text);
}

fn file(w: &Window) -> String {
    std::fs::read_to_string(w.folder.path().join("settings/keys.toml")).unwrap_or_default()
}

fn sheet_message(w: &mut Window) -> String {
    w.app().keys_sheet.as_ref().unwrap().message.clone()
}

/// Opens a window for a user with this key file.
fn with_file(text: &str) -> Window {
    let mut w = window();
    let settings = w.folder.path().join("settings");
    std::fs::create_dir_all(&settings).unwrap();
    std::fs::write(settings.join("keys.toml"), text).unwrap();
    let ctx = w.harness.ctx.clone();
    let setup = Setup {
        settings: Some(settings),
        theme: Some(ThemeChoice::Dark),
        target: None,
        chooser: Arc::new(|_| PickResult::Cancelled),
        commands: COMMANDS,
    };
    let path = w.doc().path.clone();
    w.app().close();
    *w.app() = App::new(&ctx, setup);
    w.settle();
    w.start(&path);
    w
}

#[test]
fn keyboard_rebinds_a_command_and_all_labels_update() {
    let mut w = window();
    search(&mut w, "next event");
    assert!(w.has("Next event: ."));
    assert_eq!(w.type_text("\n"), [""; 0]);
    assert!(w.has_part("Press the key for Next event"));
    assert_eq!(
        w.press(ctrl(Key::K).unwrap()),
        [""; 0],
        "the sheet captures the key and runs no command"
    );
    assert!(w.has("Next event: Ctrl K, changed"));
    assert_eq!(file(&w).lines().last(), Some("next-event = \"Ctrl K\""));
    w.type_text("\x1b");
    assert!(w.app().keys_sheet.is_none());
    assert_eq!(w.press(ctrl(Key::K).unwrap()), ["next-event"]);
    assert_eq!(w.type_text("."), [""; 0], "the old key no longer runs the command");
    w.run("palette");
    let entries = kinescope::window::list_entries(w.app(), "next event");
    assert!(
        entries.iter().any(|e| e.0 == "Next event" && e.1 == "Ctrl K"),
        "{entries:?}"
    );
    w.type_text("\x1b");
    w.run("help");
    assert!(w.has("Ctrl K: Next event") && !w.has(".: Next event"));
}

#[test]
fn user_shortcuts_are_restored_on_the_next_start() {
    let mut w = with_file("next-event = [\"Ctrl K\", \"Alt N\"]\nprevious-event = []\n");
    assert!(w.app().notice.is_none(), "{:?}", w.app().notice);
    let at = w.doc().current_event();
    assert_eq!(w.press(ctrl(Key::K).unwrap()), ["next-event"]);
    assert_eq!(w.press(alt(Key::N).unwrap()), ["next-event"]);
    assert_eq!(w.doc().current_event(), at + 2);
    assert_eq!(w.type_text(",."), [""; 0]);
}

#[test]
fn invalid_shortcuts_are_reported_on_start_and_others_apply() {
    let mut w = with_file("next-event = \"Ctrl K\"\nfly = \"F4\"\nfit = \"Ctrl Foo\"\nhelp = \"K\"\n");
    let (_, details) = w.app().notice.clone().expect("a notice is shown");
    for part in [
        "keys.toml",
        "\"fly\" is not a command",
        "fit: \"Ctrl Foo\" is not a key",
        "K now runs \"All keys\", so \"Previous job\" has no key",
    ] {
        assert!(details.contains(part), "{part}: {details}");
    }
    assert_eq!(w.press(ctrl(Key::K).unwrap()), ["next-event"]);
    assert_eq!(w.type_text("f"), ["fit"], "the command keeps its default key");
    w.click("Dismiss");
    w.run("keys");
    assert!(
        w.has_part("keys.toml: \"fly\" is not a command"),
        "the sheet shows the error too"
    );
}

#[test]
fn used_key_is_rebound_only_on_a_second_press() {
    let mut w = window();
    search(&mut w, "whole recording");
    w.type_text("\n");
    w.press(key(Key::F3).unwrap());
    assert_eq!(
        sheet_message(&mut w),
        "! F3 runs Next difference. Press F3 again to move it."
    );
    assert!(
        w.has("Show the whole recording: F") && file(&w).is_empty(),
        "no key has changed yet"
    );
    // Another key starts a new question.
    w.press(key(Key::J).unwrap());
    assert!(sheet_message(&mut w).starts_with("! J runs Next job"));
    w.press(key(Key::F3).unwrap());
    assert!(sheet_message(&mut w).starts_with("! F3 runs Next difference"));
    w.press(key(Key::F3).unwrap());
    assert_eq!(
        sheet_message(&mut w),
        "F3 now runs Show the whole recording, and no longer Next difference."
    );
    assert!(
        file(&w).ends_with("fit = \"F3\"\nnext-difference = []\n"),
        "{}",
        file(&w)
    );
    w.type_text("\x1b");
    assert_eq!(w.press(key(Key::F3).unwrap()), ["fit"]);
}

#[test]
fn command_binding_can_be_added_removed_and_reset() {
    let mut w = window();
    search(&mut w, "next job");
    // Shift Enter adds a key.
    w.stroke(Modifiers::SHIFT, Key::Enter, None);
    w.settle();
    w.press(ctrl_shift(Key::J).unwrap());
    assert!(w.has("Next job: J, Ctrl Shift J, changed"));
    w.type_text("\n");
    w.stroke(Modifiers::NONE, Key::Backspace, None);
    w.settle();
    assert!(w.has("Next job: no key, changed"));
    assert_eq!(file(&w).lines().last(), Some("next-job = []"));
    w.type_text("\n");
    w.stroke(Modifiers::NONE, Key::Delete, None);
    w.settle();
    assert!(w.has("Next job: J"));
    assert_eq!(
        file(&w).lines().count(),
        1,
        "the file holds only changed keys: {}",
        file(&w)
    );
    assert_eq!(w.app().keys.count_changed(), 0);
}

#[test]
fn resetting_a_shortcut_asks_before_moving_a_key() {
    let mut w = with_file("next-job = \"F12\"\nfit = \"J\"\n");
    assert_eq!(w.app().notice, None);
    search(&mut w, "next job");
    w.type_text("\n");
    w.stroke(Modifiers::NONE, Key::Delete, None);
    w.settle();
    assert_eq!(
        sheet_message(&mut w),
        "! J runs Show the whole recording. Press Delete again to move it."
    );
    w.stroke(Modifiers::NONE, Key::Delete, None);
    w.settle();
    assert!(w.has("Next job: J"));
    assert_eq!(w.app().keys.text("fit"), "");
}

#[test]
fn escape_cancels_rebinding_and_reserved_keys_are_refused() {
    let mut w = window();
    search(&mut w, "next job");
    w.type_text("\n");
    w.type_text("\t");
    assert_eq!(
        sheet_message(&mut w),
        "! Tab goes from field to field: press another key."
    );
    w.harness.input_mut().events.push(Event::Copy);
    w.settle();
    assert_eq!(
        sheet_message(&mut w),
        "! Ctrl C is for the clipboard: press another key."
    );
    w.stroke(Modifiers::SHIFT, Key::ShiftLeft, None);
    w.type_text("\x1b");
    assert!(w.app().keys_sheet.as_ref().is_some_and(|s| s.listening.is_none()));
    assert!(w.has("Next job: J") && file(&w).is_empty());
    assert_eq!(
        w.app().keys_sheet.as_ref().unwrap().search,
        "next job",
        "the search text is unchanged"
    );
    // The command with the default key Escape gets it back on reset.
    w.type_text("\x1b");
    search(&mut w, "stop what");
    w.type_text("\n");
    w.press(key(Key::F3).unwrap());
    w.type_text("\n");
    w.stroke(Modifiers::NONE, Key::Delete, None);
    w.settle();
    assert!(w.has("Stop what is running: Escape"));
}

#[test]
fn shortcuts_can_be_changed_and_reset_by_pointer() {
    let mut w = window();
    search(&mut w, "next event");
    w.click("Next event: .");
    w.press(key(Key::F4).unwrap());
    assert!(w.has("Next event: F4, changed"));
    w.click("Add a key for Next event");
    w.press(key(Key::F12).unwrap());
    assert!(w.has("Next event: F4, F12, changed"));
    w.click("Remove the keys of Next event");
    assert!(w.has("Next event: no key, changed"));
    w.click("Reset Next event: .");
    assert!(w.has("Next event: ."));
    w.click("Change the key of Next event");
    w.press(key(Key::F4).unwrap());
    w.click("Reset all keys");
    assert!(sheet_message(&mut w).contains("1 command has keys other than the defaults"));
    assert_eq!(w.app().keys.count_changed(), 1, "the reset waits for a confirmation");
    w.click("Confirm the reset");
    assert_eq!(w.app().keys.count_changed(), 0);
    assert!(w.has("Next event: ."));
}

#[test]
fn arrows_choose_a_row_and_the_list_follows() {
    let mut w = window();
    w.run("keys");
    for _ in 0..60 {
        w.stroke(Modifiers::NONE, Key::ArrowDown, None);
    }
    w.settle();
    let chosen = w.app().keys_sheet.as_ref().unwrap().chosen;
    assert_eq!(chosen, Some(by_menu()[60]));
    let title = w.app().command(chosen.unwrap()).unwrap().full_title();
    assert!(w.has_part(&format!("{title}: ")), "{title} is in view");
    w.stroke(Modifiers::NONE, Key::PageUp, None);
    w.settle();
    assert_eq!(w.app().keys_sheet.as_ref().unwrap().chosen, Some(by_menu()[48]));
}

/// Returns the ids of the commands in the order of the sheet.
fn by_menu() -> Vec<&'static str> {
    let menus = kinescope::window::command::Menu::ALL;
    let ids_of = |m| COMMANDS.iter().filter(move |c| c.menu == m).map(|c| c.id);
    menus.into_iter().flat_map(ids_of).collect()
}

#[test]
fn rebound_keys_still_type_into_text_fields() {
    let mut w = with_file("fit = [\"Q\", \"Ctrl A\", \"Shift X\"]\nzoom-in = \"Ctrl Left\"\n");
    assert!(w.app().notice.is_none(), "{:?}", w.app().notice);
    assert_eq!(w.type_text("q"), ["fit"]);
    w.run("filter");
    assert_eq!(w.type_text("qX"), [""; 0]);
    assert_eq!(w.views().events.filter, "qX");
    assert_eq!(w.press(ctrl(Key::ArrowLeft).unwrap()), [""; 0]);
    assert_eq!(w.press(ctrl(Key::A).unwrap()), [""; 0]);
    w.type_text("z");
    assert_eq!(
        w.views().events.filter,
        "z",
        "the typed letter replaces the selected text"
    );
}

#[test]
fn keys_sheet_captures_all_keys() {
    let mut w = window();
    let at = w.doc().current_event();
    w.run("keys");
    assert_eq!(w.type_text(".,jk"), [""; 0]);
    assert_eq!(w.doc().current_event(), at);
    assert!(w.has("no command of that name"));
    assert_eq!(w.type_text("\x1b"), [""; 0]);
    assert_eq!(w.type_text("."), ["next-event"]);
}

#[test]
fn help_sheet_opens_the_keys_sheet() {
    let mut w = window();
    w.run("help");
    w.harness.get_by_label("Change keys…").click();
    w.settle();
    assert!(w.app().keys_sheet.is_some() && !w.app().help);
}
