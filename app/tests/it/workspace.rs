//! Tests of the workspace file, which restores the state of the window with its recording. The file is next to the
//! recording, or in the settings if that folder is not writable. A damaged file is renamed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use crate::common;

use common::{HANG_LIMIT, Window};
use kinescope::log;
use kinescope::theme::columns::Tables;
use kinescope::window::layout;
use kinescope::window::layout::FloatingGeometry;
use kinescope_files::workspace::TableColumns;
use kinescope_session::axis::AxisKind;
use kinescope_session::cursors::Cursor;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use trace_core::finding::{FindingKind, Severity};

fn reopen(w: &mut Window) {
    let path = w.doc().path.clone();
    w.run("close");
    let ctx = w.harness.ctx.clone();
    w.app().open(&ctx, path);
    w.settle();
}

fn workspace_file(w: &mut Window) -> PathBuf {
    w.doc().path.with_file_name("sample.kine-workspace")
}

#[test]
fn workspace_is_saved_next_to_the_recording_and_restored() {
    let mut w = Window::open();
    let file = workspace_file(&mut w);
    w.run("show-jobs");
    w.run("axis-time");
    w.run("zoom-in");
    w.run("toggle-outline");
    w.views().events.filter = "write".into();
    w.doc().replay.keep_gaps = true;
    w.doc().replay.api_options.graph = true;
    w.doc().replay.tolerance = "f32:1e-5".into();
    w.doc().go(11);
    w.app().sides.inspector = 340.0;
    w.app().sides.set = true;
    w.settle();
    w.doc().set_cursor(Cursor::A, 3);
    w.doc().set_cursor(Cursor::B, 17);
    w.views().timeline.heights.insert("jobs".into(), 64.0);
    let columns = TableColumns {
        widths: BTreeMap::from([("means".to_owned(), 321.0)]),
        hidden: BTreeSet::from(["job".to_owned()]),
        shown: BTreeSet::from(["thread".to_owned()]),
    };
    let own = BTreeMap::from([("events".to_owned(), columns)]);
    w.app().actions.tables = Tables::from_workspace(&own);
    let view = w.views().timeline.range;
    reopen(&mut w);
    assert_eq!((w.doc().cursors.a, w.doc().cursors.b), (Some(3), Some(17)));
    assert_eq!(w.views().timeline.heights.get("jobs"), Some(&64.0));
    assert_eq!(w.app().workspace().unwrap().tables, own);
    assert!(file.is_file() && std::fs::read_to_string(&file).unwrap().contains("moment = 11"));
    assert_eq!((w.doc().current_event(), w.views().timeline.axis), (11, AxisKind::Time));
    assert_eq!(w.views().timeline.range, view);
    assert!(w.is_panel_active("jobs") && !w.app().outline && w.app().inspector);
    assert_eq!(w.views().events.filter, "write");
    assert!(w.doc().replay.keep_gaps);
    assert!(w.doc().replay.api_options.graph && !w.doc().replay.api_options.step);
    assert_eq!(w.doc().replay.tolerance, "f32:1e-5");
    assert_eq!(w.app().sides.inspector, 340.0, "the width is restored");
    let folder = w.folder.path().join("settings/workspaces");
    assert!(!folder.exists(), "the settings hold no workspace");
}

#[test]
fn floating_panel_restores_its_position() {
    let mut w = Window::open();
    w.run("show-memory");
    w.run("tear-off");
    let geometry = FloatingGeometry {
        at: Some([320.0, 64.0]),
        size: [500.0, 410.0],
    };
    w.app().floating[0].now = geometry;
    let path = w.doc().path.clone();
    w.run("close");
    let ctx = w.harness.ctx.clone();
    w.app().open(&ctx, path);
    while w.app().doc.is_none() {
        w.harness.step();
    }
    let torn = &w.app().floating[0];
    assert_eq!((torn.panel, torn.start), ("memory", geometry));
    assert!(!w.is_panel_active("memory"), "the panel is only in its own window");
}

#[test]
fn viewing_a_recording_writes_no_workspace_file() {
    let mut w = Window::open();
    let file = workspace_file(&mut w);
    w.run("close");
    assert!(!file.exists());
}

#[test]
fn workspace_is_saved_while_the_window_is_open() {
    let mut w = Window::open();
    let file = workspace_file(&mut w);
    w.doc().go(9);
    let is_saved = || std::fs::read_to_string(&file).is_ok_and(|t| t.contains("moment = 9"));
    let since = std::time::Instant::now();
    while !is_saved() {
        w.harness.step();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(since.elapsed() < HANG_LIMIT, "the workspace was not saved");
    }
}

#[test]
fn workspace_falls_back_to_the_settings_and_the_log_says_so() {
    let mut w = Window::open();
    // A folder of that name blocks the file for every user, root included.
    let file = workspace_file(&mut w);
    std::fs::create_dir(&file).unwrap();
    w.doc().go(13);
    reopen(&mut w);
    assert_eq!(w.doc().current_event(), 13, "the event is restored from the settings");
    let fallback = w.folder.path().join("settings/workspaces");
    assert_eq!(std::fs::read_dir(&fallback).unwrap().count(), 1);
    let message = format!("not next to the recording ({}", file.display());
    assert!(log::text().contains(&message), "{}", log::text());
    // The path is free again, so the file moves next to the recording.
    std::fs::remove_dir(&file).unwrap();
    w.doc().go(14);
    reopen(&mut w);
    assert_eq!(w.doc().current_event(), 14);
    assert!(file.is_file());
    assert_eq!(std::fs::read_dir(&fallback).unwrap().count(), 0);
}

#[test]
fn damaged_workspace_is_reported_and_renamed() {
    let mut w = Window::open();
    let file = workspace_file(&mut w);
    for (text, reason) in [
        ("version = 1\nmoment = \"x\"\n", "moment"),
        ("version = 99\nmoment = 1\n", "version 99"),
        (
            "version = 1\nmoment = 1\ndock = { kind = \"panel\", id = \"no-such\" }\n",
            "panels",
        ),
    ] {
        w.app().notice = None;
        std::fs::write(&file, text).unwrap();
        let path = w.doc().path.clone();
        let (recording, derived) = (w.doc().recording.clone(), w.doc().derived.clone());
        w.app()
            .show_document(kinescope_session::Document::new(path, recording, derived));
        w.settle();
        let aside = PathBuf::from(format!("{}.damaged", file.display()));
        assert_eq!(std::fs::read_to_string(&aside).unwrap(), text);
        let (title, details) = w.app().notice.clone().expect("a notice is shown");
        assert!(title.contains("damaged") && details.contains(reason), "{details}");
        assert!(details.contains(&aside.display().to_string()), "{details}");
        assert_eq!(
            layout::dock(&w.app().dock),
            Some(layout::default_dock(layout::RecordingContent::Accesses))
        );
        // A new workspace file replaces the damaged one.
        w.doc().go(5);
        reopen(&mut w);
        assert_eq!(w.doc().current_event(), 5);
    }
}

/// Tests that the window reports a page that does not match its digest, without a user action.
#[test]
fn background_check_reports_a_damaged_page() {
    let mut w = Window::empty();
    let path = w.folder.path().join("flipped.kine");
    let mut bytes = std::fs::read(common::samples().join("vecadd.kine")).unwrap();
    bytes[40_000] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let ctx = w.harness.ctx.clone();
    w.app().open(&ctx, path);
    w.settle();
    let first = w.doc().derived.findings[0].clone();
    assert_eq!(
        (first.kind, first.severity),
        (FindingKind::DamagedSection, Severity::Error)
    );
    assert!(first.message.contains("does not agree with its digest"), "{first:?}");
    w.run("show-problems");
    assert!(w.has("finding 0 damaged-section"));
}

/// Tests that damaged events are grey, that a strip names section and block, and that they are not replayed.
#[test]
fn damaged_events_are_grey_with_a_warning_strip() {
    use trace_core::container;
    use trace_core::recording::SectionKind;
    let mut w = Window::empty();
    let path = w.folder.path().join("events.kine");
    let sample = container::open(&common::samples().join("vecadd.kine")).unwrap();
    container::write(&sample, &path, &Default::default()).unwrap();
    let sections = container::sections(&path).unwrap();
    let values = sections.iter().find(|s| s.kind == Some(SectionKind::AccessValue));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[values.unwrap().offset as usize + 9] ^= 2;
    std::fs::write(&path, bytes).unwrap();
    let ctx = w.harness.ctx.clone();
    w.app().open(&ctx, path);
    w.settle();
    assert!(w.has_part("The file is damaged"));
    assert!(w.has_part("section access-value, block 0"));
    w.run("show-events");
    w.doc().go(0);
    w.settle();
    let event = (0..sample.events.len())
        .find(|e| sample.events.access(*e).is_some())
        .unwrap();
    assert!(w.has(&format!("event {event}, damaged")));
    let findings = w.doc().derived.findings.clone();
    let finding = findings.iter().find(|f| f.event == Some(event as u64)).unwrap();
    assert!(
        finding.message.contains("nothing is replayed or written"),
        "{finding:?}"
    );
    let file = container::to_bytes(&w.doc().recording);
    assert!(matches!(file, Err(container::ContainerError::DamagedSource(_))));
}
