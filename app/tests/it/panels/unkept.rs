//! Tests of edits that cannot be saved, or not next to the recording, and of discarded changes. Nothing is lost without
//! a question.

use crate::common::{HANG_LIMIT, Window, sample};
use egui::Key;
use egui_kittest::kittest::Queryable as _;
use kinescope::log;
use kinescope::window::shortcut::ctrl;
use kinescope::window::{LeaveAction, Question};
use kinescope_files::journal::{self, SaveState};
use std::path::PathBuf;
use std::time::Instant;

/// Opens a copy of the sample as a user does.
fn open_copy() -> Window {
    let mut w = Window::empty();
    let path = w.folder.path().join("unkept.kine");
    std::fs::copy(sample(), &path).unwrap();
    open(&mut w, path);
    w.app().settings.hints_read = 9;
    w
}

fn open(w: &mut Window, path: PathBuf) {
    let ctx = w.harness.ctx.clone();
    w.app().open(&ctx, path);
    w.settle();
}

fn journal_of(w: &mut Window) -> PathBuf {
    journal::path_for(&w.doc().path)
}

fn settings(w: &Window) -> PathBuf {
    w.folder.path().join("settings/journals")
}

/// Blocks the path of the journal for every user, root included. A folder takes the path of a file, or a file the path
/// of a folder.
fn block_journal(w: &mut Window, settings_too: bool) {
    std::fs::create_dir(journal_of(w)).unwrap();
    if settings_too {
        std::fs::write(settings(w), b"").unwrap();
    }
}

fn until(w: &mut Window, condition: &str, holds: impl Fn(&mut Window) -> bool) {
    let since = Instant::now();
    while !holds(w) {
        assert!(since.elapsed() < HANG_LIMIT, "timed out: {condition}");
        w.harness.step();
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// Types a value and waits until the window shows that the edit is not saved.
fn make_unsaved_edit(w: &mut Window) {
    w.type_text("e7\n");
    assert_eq!(w.doc().changes().len(), 1);
    until(w, "the window shows that the edit is not saved", |w| {
        w.has("▲ edits not saved")
    });
}

fn count_saved_changes(path: &std::path::Path, w: &mut Window) -> Option<usize> {
    let key = journal::JournalKey {
        events: w.doc().len(),
        gpu: w.doc().recording.metadata.identity.gpu_id,
        source: w.doc().recording.metadata.identity.source.clone(),
    };
    let buffers = std::sync::Arc::clone(&w.doc().buffers);
    let found = journal::read(path, &key, &*buffers).ok().flatten()?;
    Some(found.changes.len())
}

#[test]
fn quitting_asks_before_unsaved_edits_are_lost() {
    let mut w = open_copy();
    let file = journal_of(&mut w);
    block_journal(&mut w, true);
    make_unsaved_edit(&mut w);
    let (title, why) = w.app().notice.clone().expect("a notice is shown");
    assert!(
        title.contains("could not be saved") && why.contains("unkept.kine-edits"),
        "{why}"
    );
    let name = w.input();
    assert_eq!(w.press(ctrl(Key::Q).unwrap()), ["quit"]);
    assert!(w.app().doc.is_some(), "the recording stays open");
    assert!(w.has("Quit and lose 1 edit of unkept.kine?"));
    assert!(w.has_part(&format!("{name}: ")), "the question names the edit");
    // No key acts behind the question, and Escape only closes the question.
    let current_event = w.doc().current_event();
    assert_eq!(w.type_text("."), [""; 0]);
    assert_eq!(w.doc().current_event(), current_event);
    w.type_text("\x1b");
    assert!(w.app().question.is_none() && w.app().doc.is_some());
    assert_eq!(w.press(ctrl(Key::W).unwrap()), ["close"]);
    assert!(w.has("Close and lose 1 edit of unkept.kine?"));
    w.click("Stay");
    // The path is free again. The edit is written without a user action, and leaving needs no question.
    std::fs::remove_dir(&file).unwrap();
    until(&mut w, "the edit is in the journal", |w| !w.has("▲ edits not saved"));
    until(&mut w, "the outdated notice disappears", |w| w.app().notice.is_none());
    assert_eq!(count_saved_changes(&file, &mut w), Some(1));
    w.press(ctrl(Key::Q).unwrap());
    assert!(w.app().doc.is_none());
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .trim_end()
            .ends_with("\"closed\"")
    );
}

#[test]
fn window_close_button_asks_before_edits_are_lost() {
    let mut w = open_copy();
    block_journal(&mut w, true);
    make_unsaved_edit(&mut w);
    let input = w.harness.input_mut();
    let root = input.viewports.entry(egui::ViewportId::ROOT).or_default();
    root.events.push(egui::ViewportEvent::Close);
    w.harness.step();
    assert!(matches!(w.app().question, Some(Question::Leave(LeaveAction::Quit))));
    w.harness
        .input_mut()
        .viewports
        .entry(egui::ViewportId::ROOT)
        .or_default()
        .events
        .clear();
    w.settle();
    w.click("Quit anyway");
    assert!(w.app().doc.is_none());
}

#[test]
fn unsaved_journal_can_be_saved_elsewhere_before_quit() {
    let mut w = open_copy();
    block_journal(&mut w, true);
    make_unsaved_edit(&mut w);
    let saved = w.folder.path().join("saved.kine-edits");
    w.will_choose(&saved);
    w.press(ctrl(Key::Q).unwrap());
    w.click("Save journal elsewhere…");
    assert!(w.app().doc.is_none(), "{:?}", w.app().last_error());
    let recording = w.folder.path().join("unkept.kine");
    std::fs::remove_dir(journal::path_for(&recording)).unwrap();
    open(&mut w, recording);
    assert_eq!(count_saved_changes(&saved, &mut w), Some(1));
}

#[test]
fn opening_another_recording_asks_before_edits_are_lost() {
    let mut w = open_copy();
    block_journal(&mut w, true);
    make_unsaved_edit(&mut w);
    let other = w.folder.path().join("other.kine");
    std::fs::copy(sample(), &other).unwrap();
    w.will_choose(&other);
    w.press(ctrl(Key::O).unwrap());
    assert!(w.has("Open and lose 1 edit of unkept.kine?"));
    assert_ne!(w.doc().path, other);
    w.click("Open anyway");
    assert_eq!(w.doc().path, other);
}

#[test]
fn edits_fall_back_to_the_settings_folder_and_are_restored() {
    let mut w = open_copy();
    let file = journal_of(&mut w);
    block_journal(&mut w, false);
    w.type_text("e7\n");
    until(&mut w, "the window shows where the edit is saved", |w| {
        w.has("! edits saved in the settings folder")
    });
    assert!(log::text().contains("edits are saved in "));
    let path = w.doc().path.clone();
    w.press(ctrl(Key::Q).unwrap());
    assert!(w.app().doc.is_none(), "no edit would be lost, so there is no question");
    open(&mut w, path.clone());
    assert!(
        w.app().notice.is_none() && w.doc().offered.is_none(),
        "{:?}",
        w.app().notice
    );
    assert_eq!(w.doc().changes().len(), 1, "the edit is restored from the settings");
    // The path is free again, so all changes move there.
    std::fs::remove_dir(&file).unwrap();
    w.type_text("e8\n");
    assert_eq!(w.doc().changes().len(), 2);
    assert_eq!(w.doc().flush_journal(), SaveState::NextToRecording);
    assert_eq!(count_saved_changes(&file, &mut w), Some(2));
    assert_eq!(std::fs::read_dir(settings(&w)).unwrap().count(), 0);
}

#[test]
fn recovered_changes_are_discarded_only_after_confirmation() {
    let mut w = open_copy();
    w.type_text("e7\n8\n");
    w.crash_and_restart();
    assert!(w.has_part("2 unsaved edits were recovered"));
    let name = w.input();
    w.click("Discard…");
    assert!(w.doc().offered.is_some(), "nothing is discarded without a confirmation");
    assert!(w.has("Discard 2 changes?"));
    let lines = w.harness.query_all_by_label_contains(&format!("{name}: ")).count();
    assert!(lines >= 2, "each change is listed with buffer, bytes and offset");
    assert!(w.has_part(" UTC"), "each change is listed with its time");
    w.click("Keep them");
    assert!(w.doc().offered.is_some());
    w.click("Discard…");
    let journal = std::fs::read(journal_of(&mut w)).unwrap();
    w.click("Discard");
    assert!(w.doc().offered.is_none() && w.doc().changes().is_empty());
    let aside = w.folder.path().join("unkept.kine-edits.forgotten");
    assert!(
        w.has(&aside.display().to_string()),
        "the window shows where the changes are"
    );
    assert!(std::fs::read(&aside).unwrap() == journal);
    w.click("Done with that");
    // The discarded changes do not return.
    let path = w.doc().path.clone();
    w.run("close");
    w.start(&path);
    assert!(w.doc().offered.is_none());
}

#[test]
fn one_recovered_edit_is_reported_in_the_singular() {
    let mut w = open_copy();
    w.type_text("e7\n");
    w.crash_and_restart();
    assert!(w.has_part("1 unsaved edit was recovered"));
}
