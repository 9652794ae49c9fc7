//! Tests of a window that follows a recording while its recorder writes it.

use crate::common::growing::Recorder;
use crate::common::{HANG_LIMIT, Window};
use egui::Key;
use kinescope::theme::ThemeChoice;
use kinescope::window::shortcut::key;
use kinescope_files::scene::Selection;
use kinescope_session::GrowthState;
use std::fs;
use std::time::{Duration, Instant};
use trace_core::container::{self, TransferBytes};

#[test]
fn window_waits_for_a_file_and_shows_it_as_it_grows() {
    let mut w = Window::empty();
    let path = w.folder.path().join("live.kine");
    let ctx = w.harness.ctx.clone();
    w.app().follow_file(&ctx, path.clone());
    w.settle();
    assert!(w.has("Waiting for live.kine") && w.has("Stop following"));
    assert!(w.has("kinescope record --with cuda -o live.kine -- PROGRAM"));
    let mut recorder = Recorder::begin(&path);
    recorder.commit(1);
    w.wait_for_events(3);
    for label in ["Following", "3 calls", "1 launch", "1 copy", "1 wait"] {
        assert!(w.has(label), "{label}");
    }
    assert!(w.is_panel_active("launches") || w.is_panel_active("timeline"));
    // A device elsewhere: the file next to the recording has the bytes on the wire.
    let transfer = TransferBytes {
        sent: 5 << 20,
        received: 1536,
    };
    transfer.write_next_to(&path).unwrap();
    recorder.commit(2);
    w.wait_for_events(9);
    w.wait_until("bytes on the wire", |w| w.has("5.0 MiB sent"));
    assert!(w.has("1.5 KiB received"));
    TransferBytes::remove_next_to(&path);
    assert!(w.has("9 calls") && w.has("3 launches") && !w.has("3 calls"));
    assert_eq!(w.doc().growth(), GrowthState::Growing);
    assert!(!w.folder.path().join("live.kine-edits").exists());
}

#[test]
fn selection_and_view_stay_while_the_recording_grows() {
    let (mut w, _, mut recorder) = Window::following();
    assert!(w.app().is_at_end() && !w.has("Go to the end"));
    w.doc().go(6);
    w.settle();
    let selection = w.doc().selection().clone();
    let context = w.app().panel_context().unwrap();
    context.views.timeline.zoom_to_events(context.doc, 3, 9, 0.0);
    w.settle();
    let part = w.timeline_part();
    recorder.commit(50);
    w.wait_for_events(450);
    assert_eq!(w.timeline_part(), part, "the user looks at the middle");
    assert_eq!((w.doc().current_event(), w.doc().selection().clone()), (6, selection));
    assert_eq!(w.doc().selection(), &Selection::Event);
    w.click("Go to the end");
    let width = part.1 - part.0;
    let end = |w: &mut Window| {
        let context = w.app().panel_context().unwrap();
        context.doc.derived.axis.end(context.views.timeline.axis)
    };
    let check_end = |w: &mut Window| {
        let (a, b) = w.timeline_part();
        assert!((b - end(w)).abs() < 1e-6 && (b - a - width).abs() < 1e-6, "{a} to {b}");
    };
    check_end(&mut w);
    assert!(!w.has("Go to the end"));
    let before = w.timeline_part();
    recorder.commit(50);
    w.wait_for_events(600);
    check_end(&mut w);
    assert_ne!(w.timeline_part(), before, "the view moves with the data");
    assert_eq!(w.doc().current_event(), 6);
}

#[test]
fn end_of_the_recording_stays_in_view_when_it_is_finished() {
    let (mut w, _, recorder) = Window::following();
    recorder.end();
    w.wait_until("the end", |w| w.app().following().is_none());
    w.settle();
    assert_eq!(w.doc().current_event(), 0, "the user has not moved");
    assert!(w.app().is_at_end());
}

#[test]
fn filtered_events_are_found_again_without_a_jump() {
    let (mut w, _, mut recorder) = Window::following();
    w.run("show-events");
    w.views().events.filter = "launch".into();
    w.settle();
    let found = |w: &mut Window| w.views().events.rows.as_ref().map(|r| r.len());
    assert_eq!(found(&mut w), Some(100));
    let jumps = w.doc().jumps;
    recorder.commit(20);
    w.wait_for_events(360);
    w.wait_until("the launches are found again", |w| found(w) == Some(120));
    assert_eq!(w.doc().jumps, jumps);
}

#[test]
fn edits_and_replays_are_refused_with_a_reason() {
    let (mut w, _, _recorder) = Window::following();
    assert!(w.doc().replay.obstacle().unwrap().contains("still grows"));
    assert!(w.doc().edit_obstacle().unwrap().contains("still grows"));
    for id in ["replay", "plan", "edit-input", "trim", "compare-with", "reload"] {
        assert!(!w.run(id), "{id} ran");
    }
    w.press(key(Key::E).unwrap());
    assert!(w.has_part("Not edited") && w.has_part("Edits are possible when its recorder has finished it"));
    // A note does not depend on what follows.
    assert!(w.doc().note(4, Some("slow".into())));
    w.run("quit");
    assert!(w.has_part("lose 1 edit"), "the note is in no file yet");
    w.click("Stay");
}

#[test]
fn finished_recording_replaces_the_growing_one() {
    let (mut w, path, mut recorder) = Window::following();
    w.doc().go(123);
    assert!(w.doc().note(123, Some("here".into())));
    w.settle();
    recorder.commit(10);
    recorder.end();
    w.wait_until("the end", |w| w.app().following().is_none());
    w.settle();
    assert_eq!(w.doc().growth(), GrowthState::Complete);
    assert_eq!((w.doc().len(), w.doc().current_event()), (330, 123));
    assert_eq!(w.doc().changes().notes()[&123].text, "here");
    assert!(w.has("live.kine is complete: 330 events") && !w.has("Following"));
    assert!(w.doc().edit_obstacle().is_none() && w.doc().derived.pending.is_empty());
    let recording = container::open(&path).unwrap();
    assert_eq!(w.doc().recording.metadata, recording.metadata);
    let kinds = |r: &trace_core::Recording| r.events.kind.iter_range(0..r.events.len()).collect::<Vec<_>>();
    assert_eq!(kinds(&w.doc().recording), kinds(&recording));
    w.run("close");
    assert!(w.folder.path().join("live.kine-edits").exists(), "the note is saved");
}

#[test]
fn snapshot_is_a_recording_that_says_what_it_lacks() {
    let (mut w, path, mut recorder) = Window::following();
    w.will_choose(&path);
    w.run("save-snapshot");
    assert!(w.app().last_error().unwrap().contains("names the same file"));
    let to = w.folder.path().join("snapshot.kine");
    w.will_choose(&to);
    w.run("save-snapshot");
    let saved = container::open(&to).unwrap();
    assert_eq!(saved.events.len(), 300);
    assert!(saved.metadata.lost[0].reason.contains("snapshot"));
    recorder.commit(1);
    w.wait_for_events(303);
    w.click("Open it");
    w.wait_until("the snapshot", |w| w.app().doc.as_ref().is_some_and(|d| d.path == to));
    assert!(w.app().following().is_none());
}

#[test]
fn stopped_recording_stays_as_a_part() {
    let (mut w, _, mut recorder) = Window::following();
    w.click("Stop following");
    assert_eq!(w.doc().growth(), GrowthState::Partial);
    assert!(w.has("Part of a recording") && w.doc().replay.growth_obstacle().is_none());
    assert!(w.doc().edit_obstacle().unwrap().contains("snapshot"));
    recorder.commit(1);
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(600) {
        w.harness.step();
    }
    assert_eq!(w.doc().len(), 300);
    w.click("Follow again");
    w.wait_for_events(303);
}

#[test]
fn recorder_that_is_gone_is_reported() {
    let mut w = Window::empty();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let dead = child.id();
    child.wait().unwrap();
    let folder = w.folder.path().join(format!(".kinescope-record-{dead}"));
    fs::create_dir(&folder).unwrap();
    let mut recorder = Recorder::begin(&folder.join("live.kine"));
    recorder.commit(5);
    let (ctx, path) = (w.harness.ctx.clone(), w.folder.path().join("live.kine"));
    w.app().follow_file(&ctx, path);
    w.wait_for_events(15);
    drop(recorder);
    let since = Instant::now();
    while w.app().following().is_some() {
        w.harness.step();
        assert!(since.elapsed() < HANG_LIMIT);
        std::thread::sleep(Duration::from_millis(5));
    }
    w.settle();
    assert!(w.has_part("The recorder of live.kine is gone") && w.has("Part of a recording"));
}

#[test]
fn prompt_asks_for_a_file_that_need_not_exist() {
    let mut w = Window::empty();
    w.run("follow");
    assert!(w.has_part("The window waits for it"));
    let path = w.folder.path().join("later.kine");
    w.app().path_prompt.as_mut().unwrap().text = path.display().to_string();
    w.settle();
    assert!(w.has("No file yet"));
    w.click("Follow this recording");
    assert_eq!(w.app().following().unwrap().path(), path);
    w.run("close");
    assert!(w.app().following().is_none() && w.has("Open file"));
}

#[test]
fn narrow_window_keeps_the_buttons_of_the_bar() {
    let (mut w, ..) = Window::following();
    w.harness.set_size(egui::vec2(640.0, 480.0));
    w.settle();
    assert!(w.has("Stop following") && w.has("Save a snapshot") && w.has("Following") && w.has("300 calls"));
    let ctx = w.harness.ctx.clone();
    w.app().choose_theme(&ctx, ThemeChoice::Light);
    w.settle();
    assert!(w.has("Stop following"));
}
