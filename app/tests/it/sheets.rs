//! Tests of what surrounds the panels: the start page, hints, notices, sheets, the palette, and dropped files. The
//! tests click labels, and some compare a picture.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use crate::common;
mod looks;

use common::{Window, assert_themes_differ_only_in_colours, sample};
use egui_kittest::kittest::Queryable as _;
use kinescope::theme::ThemeChoice;
use kinescope::window::{Settings, crash};
use kinescope_files::scene::Selection;
use std::path::{Path, PathBuf};

#[test]
fn three_hints_are_shown_once_in_sequence() {
    let mut w = Window::open();
    assert!(w.has("1 of 3"));
    w.click("Next hint");
    assert!(w.has("2 of 3"));
    w.click("Next hint");
    w.click("Got it");
    assert!(!w.has("3 of 3") && !w.has("Got it"));
    let folder = w.folder.path().join("settings");
    assert_eq!(Settings::load(Some(folder.clone())).hints_read, 3);
    assert!(!Settings::load(Some(folder)).is_first_run());
}

#[test]
fn all_hints_can_be_dismissed_at_once() {
    let mut w = Window::open();
    w.click("No hints");
    assert!(!w.has("1 of 3") && !w.has("2 of 3"));
    assert_eq!(Settings::load(Some(w.folder.path().join("settings"))).hints_read, 3);
}

#[test]
fn previous_crash_is_reported_once() {
    let mut w = Window::open();
    let folder = w.folder.path().join("crashes");
    let report = crash::write(&folder, "what happened").unwrap();
    w.app().report_last_crash(&folder);
    w.settle();
    let (_, details) = w.app().notice.clone().expect("a notice is shown");
    assert!(details.contains(&report.display().to_string()), "{details}");
    w.click("Dismiss");
    w.app().report_last_crash(&folder);
    assert!(w.app().notice.is_none(), "the crash is reported only once");
}

#[test]
fn a_path_typed_into_the_palette_opens() {
    let mut w = Window::open();
    let other = w.folder.path().join("typed.kine");
    std::fs::copy(sample(), &other).unwrap();
    w.run("palette");
    w.harness
        .get_by_label("Palette")
        .type_text(&other.display().to_string());
    w.settle();
    w.harness.key_press(egui::Key::Enter);
    w.settle();
    assert_eq!(w.doc().path, other);
}

/// A file that the desktop drops on the window.
#[derive(Debug)]
struct DroppedPath(PathBuf);

impl egui::DroppedFile for DroppedPath {
    fn path(&self) -> &Path {
        &self.0
    }

    fn bytes(&self) -> Result<Vec<u8>, String> {
        std::fs::read(&self.0).map_err(|e| e.to_string())
    }
}

#[test]
fn dragged_file_shows_a_hint_and_opens() {
    let mut w = Window::open();
    let other = w.folder.path().join("dragged.kine");
    std::fs::copy(sample(), &other).unwrap();
    w.harness.input_mut().hovered_files.push(egui::HoveredFile {
        path: Some(other.clone()),
        ..Default::default()
    });
    w.harness.run_steps(2);
    assert!(w.has("Drop to open it, or to compare with it"));
    w.harness.input_mut().hovered_files.clear();
    w.harness
        .input_mut()
        .dropped_files
        .push(std::sync::Arc::new(DroppedPath(other.clone())));
    w.settle();
    assert!(!w.has_part("Drop to open it"));
    assert_ne!(w.doc().path, other, "the user is asked first");
    w.click("Open it");
    assert_eq!(w.doc().path, other);
    // The user drops the file again and compares it with the open one.
    w.harness
        .input_mut()
        .dropped_files
        .push(std::sync::Arc::new(DroppedPath(other.clone())));
    w.settle();
    w.click("Compare with dragged.kine");
    assert!(w.doc().comparison.done.is_some() && !w.has("Neither"));
}

#[test]
fn findings_link_to_their_location() {
    let mut w = Window::open();
    w.run("show-problems");
    assert!(!w.doc().derived.findings.is_empty());
    let row = w.harness.query_all_by_label_contains("finding 0 ").next();
    row.expect("the first finding is listed").click();
    w.settle();
    assert_eq!(*w.doc().selection(), Selection::Finding(0));
}

#[test]
fn log_panel_filters_by_level() {
    use kinescope::log::{Level, push};
    let mut w = Window::open();
    w.run("show-log");
    push(Level::Info, "a quiet line of this test");
    push(Level::Error, "a grave line of this test");
    w.settle();
    assert!(w.has("log a grave line of this test") && w.has("log a quiet line of this test"));
    w.click("▲ Errors");
    assert!(w.has("log a grave line of this test") && !w.has("log a quiet line of this test"));
    w.click("Everything");
    assert!(w.has("log a quiet line of this test"));
}

fn hide_hints(w: &mut Window) {
    w.app().settings.hints_read = 9;
    w.settle();
}

fn welcome(theme: ThemeChoice) -> Window {
    let mut w = Window::sized(theme, 1.0);
    w.app().settings.recent = ["/data/alexnet.kine", "/data/lab/mnist"].map(Into::into).to_vec();
    w.settle();
    w
}

fn open_and_run(theme: ThemeChoice, command: &str) -> Window {
    let mut w = Window::open_with(theme, 1.0);
    hide_hints(&mut w);
    w.run(command);
    w.settle();
    w
}

fn palette(theme: ThemeChoice) -> Window {
    let mut w = open_and_run(theme, "palette");
    w.app().settings.recent.clear();
    w.harness.get_by_label("Palette").type_text("js1");
    w.settle();
    w
}

fn help(theme: ThemeChoice) -> Window {
    open_and_run(theme, "help")
}

/// Opens the keys sheet with one changed key, and with the question whether to take a key from another command.
fn keys(theme: ThemeChoice) -> Window {
    use kinescope::window::shortcut::key;
    let mut w = open_and_run(theme, "keys");
    w.type_text("next\n");
    w.press(key(egui::Key::F4).unwrap());
    w.stroke(egui::Modifiers::NONE, egui::Key::ArrowDown, None);
    w.type_text("\n");
    w.press(key(egui::Key::K).unwrap());
    w
}

#[test]
fn the_about_sheet_names_version_purpose_licences_and_fonts() {
    let w = open_and_run(ThemeChoice::Dark, "about");
    assert!(
        w.painted_texts().iter().any(|t| t.text == "About Kinescope"),
        "the sheet has a title"
    );
    let lines = [
        concat!("Kinescope ", env!("CARGO_PKG_VERSION")),
        "Inspect, edit and replay recordings of GPU work.",
        "Licensed under MIT or Apache-2.0.",
        "Inter © The Inter Project Authors, SIL Open Font License 1.1",
        "JetBrains Mono © The JetBrains Mono Project Authors, SIL Open Font License 1.1",
        "Phosphor Icons © Phosphor Icons, MIT",
    ];
    let rects = lines.map(|l| w.harness.get_by_label(l).rect());
    for pair in rects.windows(2) {
        assert!(
            pair[0].bottom() <= pair[1].top() && pair[0].left() == pair[1].left(),
            "{pair:?}"
        );
    }
    // The sheet is in the middle of the window, 520 points wide.
    assert!(
        rects.iter().all(|r| r.left() >= 380.0 && r.right() <= 900.0),
        "{rects:?}"
    );
}

fn problems(theme: ThemeChoice) -> Window {
    let mut w = open_and_run(theme, "next-problem");
    w.settle();
    w
}

fn window_with_notice(theme: ThemeChoice) -> Window {
    let mut w = Window::open_with(theme, 1.0);
    let details =
        "/data/lab/alexnet.kine: the commit at byte 0x41000 is not whole; the recording opens at the one before it";
    w.app().notice = Some(("alexnet.kine was not opened".into(), details.into()));
    w.settle();
    w
}

fn path_field(theme: ThemeChoice) -> Window {
    let mut w = Window::open_with(theme, 1.0);
    w.disable_dialogs();
    w.run("save-kine");
    // The path does not exist, so that the picture is the same on every machine.
    w.app().path_prompt.as_mut().unwrap().text = "/nowhere/at-all/alexnet.kine".into();
    w.settle();
    w
}

macro_rules! pictures {
    ($($name:ident $make:ident $theme:ident)*) => {
        $(#[test]
        fn $name() {
            $make(ThemeChoice::$theme).harness.snapshot(stringify!($name));
        })*
    };
}

macro_rules! themes {
    ($($name:ident $make:ident)*) => {
        $(#[test]
        fn $name() {
            assert_themes_differ_only_in_colours($make);
        })*
    };
}

pictures! {
    welcome_dark welcome Dark
    welcome_light welcome Light
    palette_dark palette Dark
    help_light help Light
    keys_dark keys Dark
    problems_dark problems Dark
    path_field_light path_field Light
    notice_and_hint_dark window_with_notice Dark
}

themes! {
    palette_in_every_theme palette
    help_in_every_theme help
    keys_in_every_theme keys
    problems_in_every_theme problems
    path_field_in_every_theme path_field
    notice_and_hint_in_every_theme window_with_notice
}

/// Tests the path field that replaces a missing file dialog. Tab completes a path, Enter opens a file, and only a
/// button overwrites a file.
#[test]
fn path_field_replaces_a_missing_file_dialog() {
    let mut w = Window::open();
    let other = w.folder.path().join("other.kine");
    std::fs::copy(sample(), &other).unwrap();
    w.disable_dialogs();
    assert!(w.run("open"));
    let type_path = |w: &mut Window, text: &str| {
        w.harness.get_by_label("Path").type_text(text);
        w.settle();
    };
    let start = format!("{}/", w.folder.path().display());
    assert_eq!(w.app().path_prompt.as_ref().unwrap().text, start);
    assert!(w.has("other.kine"), "the files of the folder are listed");
    type_path(&mut w, "zz");
    assert!(
        w.has("No such file.") && !w.has_part("nothing lies there"),
        "the error is shown once"
    );
    w.harness.key_press(egui::Key::Enter);
    w.settle();
    assert!(w.app().path_prompt.is_some(), "a missing file is not opened");
    for _ in 0..2 {
        w.harness.key_press(egui::Key::Backspace);
    }
    w.settle();
    type_path(&mut w, "oth");
    w.harness.key_press(egui::Key::Tab);
    w.settle();
    assert_eq!(w.app().path_prompt.as_ref().unwrap().text, other.to_string_lossy());
    w.harness.key_press(egui::Key::Enter);
    w.settle();
    assert!(w.app().path_prompt.is_none());
    assert_eq!(w.doc().path, other);

    // Saving starts in the recording's folder with a new file name, which is selected.
    assert!(w.run("save-kine"));
    let offered = w.folder.path().join("other-copy.kine");
    assert_eq!(w.app().path_prompt.as_ref().unwrap().text, offered.to_string_lossy());
    assert!(w.has("New file"));
    type_path(&mut w, "other");
    assert_eq!(
        w.app().path_prompt.as_ref().unwrap().text,
        other.to_string_lossy(),
        "typing replaces the selected name"
    );
    assert!(w.has("! The file is there already."));
    let before = std::fs::metadata(&other).unwrap().modified().unwrap();
    w.harness.key_press(egui::Key::Enter);
    w.settle();
    assert_eq!(std::fs::metadata(&other).unwrap().modified().unwrap(), before);
    w.harness.key_press(egui::Key::Escape);
    w.settle();
    assert!(w.app().path_prompt.is_none());
    let copy = w.folder.path().join("copy.kine");
    assert!(w.run("save-kine"));
    w.app().path_prompt.as_mut().unwrap().text = copy.to_string_lossy().into_owned();
    w.settle();
    w.click("Save there");
    assert!(copy.is_file());
    assert!(w.has("Saved copy.kine, as recorded"));
}

/// Tests that Tab completes as in a shell and keeps the focus in the field.
#[test]
fn tab_completes_the_common_prefix_and_keeps_the_focus() {
    let mut w = Window::open();
    for name in ["trace-one.kine", "trace-two.kine"] {
        std::fs::copy(sample(), w.folder.path().join(name)).unwrap();
    }
    std::fs::copy(sample(), w.folder.path().join("own.kine")).unwrap();
    let own = w.folder.path().join("own.kine");
    let ctx = w.harness.ctx.clone();
    w.app().open(&ctx, own.clone());
    w.settle();
    w.disable_dialogs();
    assert!(w.run("open"));
    let text = |w: &mut Window| w.app().path_prompt.as_ref().unwrap().text.clone();
    w.harness.get_by_label("Path").type_text("tr");
    w.settle();
    w.harness.key_press(egui::Key::Tab);
    w.settle();
    assert_eq!(text(&mut w), w.folder.path().join("trace-").to_string_lossy());
    assert!(
        w.harness.get_by_label("Path").is_focused(),
        "Tab does not leave the field"
    );
    w.harness.get_by_label("Path").type_text("t");
    w.settle();
    w.harness.key_press(egui::Key::Tab);
    w.settle();
    assert_eq!(text(&mut w), w.folder.path().join("trace-two.kine").to_string_lossy());
    assert!(w.harness.get_by_label("Path").is_focused());
}

/// Tests that Down and Up choose a name while the field keeps the focus. Enter opens a folder.
#[test]
fn arrows_choose_among_the_names_below_the_path() {
    let mut w = Window::open();
    let folder = w.folder.path().join("trace-box");
    std::fs::create_dir(&folder).unwrap();
    for path in [w.folder.path().join("trace-one.kine"), folder.join("inner.kine")] {
        std::fs::copy(sample(), path).unwrap();
    }
    w.disable_dialogs();
    assert!(w.run("open"));
    w.harness.get_by_label("Path").type_text("tr");
    w.settle();
    let press = |w: &mut Window, key: egui::Key| {
        w.harness.key_press(key);
        w.settle();
        assert!(w.harness.get_by_label("Path").is_focused());
        w.app().path_prompt.as_ref().unwrap().text.clone()
    };
    let path_text = |p: &Path| p.to_string_lossy().into_owned();
    let one = path_text(&w.folder.path().join("trace-one.kine"));
    assert_eq!(press(&mut w, egui::Key::ArrowDown), path_text(&folder));
    assert_eq!(press(&mut w, egui::Key::ArrowDown), one);
    assert_eq!(press(&mut w, egui::Key::ArrowDown), one, "the last name stays chosen");
    assert_eq!(press(&mut w, egui::Key::ArrowUp), path_text(&folder));
    assert_eq!(press(&mut w, egui::Key::Enter), format!("{}/", folder.display()));
    assert!(w.has("inner.kine"), "the files of the folder are listed");
    press(&mut w, egui::Key::ArrowDown);
    w.harness.key_press(egui::Key::Enter);
    w.settle();
    assert!(w.app().path_prompt.is_none());
    assert_eq!(w.doc().path, folder.join("inner.kine"));
}
