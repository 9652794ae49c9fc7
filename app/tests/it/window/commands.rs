//! Tests that every row of the command table changes something.

use super::compare;
use super::driver_traces::open_joined;
use crate::common::net::{Net, net};
use crate::common::screen_recording::{TWICE, screen_recording};
use crate::common::wasm_run::collatz;
use crate::common::{Window, find_busiest_register, sample, samples, write_diverging_sample};
use egui_kittest::kittest::Queryable as _;
use kinescope::commands::COMMANDS;
use kinescope::panels::contents::memory::Side;
use kinescope::theme::ThemeChoice;
use kinescope::theme::columns::Tables;
use kinescope::window::layout;
use kinescope_files::scene::Selection;
use kinescope_files::workspace::TableColumns;
use kinescope_session::GrowthState;
use kinescope_session::axis::AxisKind;
use kinescope_session::cursors::Cursor;
use kinescope_session::derived_data::RegisterFact;
use std::collections::BTreeMap;
use std::time::Duration;
use trace_core::RegOffset;
use trace_core::progress::Progress;

/// A check that runs a command and asserts what it changed.
pub type Check = fn(&mut Window, &str);

pub fn ran(w: &mut Window, id: &str) {
    assert!(w.run(id), "{id} cannot run here");
}

pub fn moves(w: &mut Window, id: &str) {
    let before = (w.doc().current_event(), w.doc().selection().clone());
    ran(w, id);
    assert_ne!(
        (w.doc().current_event(), w.doc().selection().clone()),
        before,
        "{id} did not move"
    );
}

fn moves_view(w: &mut Window, id: &str) {
    let before = w.timeline_part();
    ran(w, id);
    assert_ne!(w.timeline_part(), before, "{id} did not move the view");
}

fn shows_panel(w: &mut Window, id: &str) {
    let panel = id.strip_prefix("show-").unwrap();
    let other = if panel == "events" { "show-jobs" } else { "show-events" };
    ran(w, other);
    ran(w, id);
    assert!(w.is_panel_active(panel), "{panel} is not shown");
}

pub fn saves(w: &mut Window, id: &str) {
    // The command must not overwrite the open recording.
    let own = w.doc().path.clone();
    let before = std::fs::read(&own).unwrap();
    w.will_choose(&own);
    ran(w, id);
    assert_eq!(std::fs::read(&own).unwrap(), before, "{id} wrote over the recording");
    let message = w.app().last_error().unwrap_or_default().to_owned();
    assert!(
        message.contains("names the same file as the recording"),
        "{id}: {message}"
    );
    let out = w.folder.path().join("saved.out");
    w.will_choose(&out);
    ran(w, id);
    assert!(
        std::fs::metadata(&out).is_ok_and(|m| m.len() > 0),
        "{id} wrote no file: {:?}",
        w.app().last_error()
    );
}

fn opens(w: &mut Window, id: &str) {
    let copy = w.folder.path().join("other.kine");
    std::fs::copy(sample(), &copy).unwrap();
    w.will_choose(&copy);
    ran(w, id);
    let failed = w.app().last_error().map(str::to_owned);
    assert_eq!(w.doc().path, copy, "{failed:?}");
}

fn planned(w: &mut Window) {
    ran(w, "plan");
    assert!(w.doc().replay.plan.is_some(), "{:?}", w.doc().replay.error);
}

/// Opens an API trace in place of the sample.
fn open_api_trace(w: &mut Window) -> Net {
    let n = net(2);
    let file = w.folder.path().join("calls.kine");
    trace_core::container::write(&n.recording, &file, &Progress::new()).unwrap();
    w.start(&file);
    n
}

/// Opens the sum of two vectors with its code in view.
fn open_shader(w: &mut Window) {
    w.start(&samples().join("vecadd.kine"));
    w.doc().go_job(0);
    ran(w, "show-shader");
}

/// Opens the sum of two vectors and runs a thread next to its code.
fn open_thread(w: &mut Window) {
    open_shader(w);
    ran(w, "run-thread");
    assert_eq!(w.views().shader.thread.run.as_ref().unwrap().followed.steps.len(), 3);
}

/// Removes the meaning of two operations from the code.
fn remove_meanings(w: &mut Window) {
    let view = &mut w.views().shader;
    let mut code = view.listing.as_ref().unwrap().code.clone();
    for n in [0, 1] {
        code.clauses[n].clause.tuples[0].fma = None;
    }
    view.listing = Some(std::sync::Arc::new(kinescope_session::code::Listing::new(code)));
    w.settle();
}

pub fn replayed(w: &mut Window) {
    ran(w, "replay");
    assert!(w.doc().replay.outcome.is_some(), "{:?}", w.doc().replay.error);
}

/// Checks that a command saves a picture of a panel in each format, with the size of the panel.
fn check_pictures(w: &mut Window, id: &str, panel: &str) {
    w.doc().go(5);
    w.settle();
    let saved = |w: &mut Window, name: &str| {
        let out = w.folder.path().join(name);
        w.will_choose(&out);
        ran(w, id);
        for _ in 0..20 {
            w.settle();
        }
        std::fs::read(&out).unwrap_or_else(|e| panic!("{name}: {e}: {:?}", w.app().last_error()))
    };
    let size = layout::panel_rect(&w.app().dock, panel).unwrap().size();
    let png = image::load_from_memory(&saved(w, "panel.png")).unwrap().into_rgb8();
    let (width, height) = png.dimensions();
    let near = |a: u32, b: f32| (a as f32 - b).abs() <= 1.0;
    assert!(
        near(width, size.x) && near(height, size.y),
        "{width}x{height} for {size}"
    );
    let colours: std::collections::HashSet<_> = png.pixels().map(|p| p.0).collect();
    assert!(colours.len() > 16, "{} colours", colours.len());
    let svg = String::from_utf8(saved(w, "panel.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    let words = if panel == "events" { "register" } else { "phases" };
    assert!(svg.contains(words), "the picture contains its texts");
    w.will_choose(&w.folder.path().join("panel.jpg"));
    ran(w, id);
    assert!(w.app().last_error().unwrap().contains("expected .png or .svg"));
}

/// Adds notes at two events and stays at the first of them.
fn add_notes(w: &mut Window) {
    for event in [20, 10] {
        w.doc().go(event);
        w.run("add-note");
    }
}

fn offer(w: &mut Window) {
    w.edit();
    w.crash_and_restart();
    assert!(w.has("Restore"), "the changes are offered");
}

/// Opens a recording that draws, with its screen in view after the last event and a chosen pixel.
fn open_screen(w: &mut Window) {
    let derived = kinescope_session::derive::derive(&screen_recording(), &Default::default()).unwrap();
    let path = w.folder.path().join("drawn.kine");
    let doc = kinescope_session::Document::new(path, screen_recording().into(), derived.into());
    w.app().show_document(doc);
    w.settle();
    ran(w, "show-screen");
    ran(w, "last-event");
    w.views().screen.pixel = Some(TWICE);
    w.settle();
}

fn saves_screen(w: &mut Window, id: &str) {
    open_screen(w);
    let out = w.folder.path().join("saved.png");
    w.will_choose(&out);
    ran(w, id);
    let png = std::fs::read(&out).unwrap_or_else(|e| panic!("{e}: {:?}", w.app().last_error()));
    assert!(png.starts_with(b"\x89PNG"));
    let is_animated = png.windows(4).any(|c| c == b"acTL");
    assert_eq!(is_animated, id == "export-film");
}

/// Every row of the command table with the check that shows what it changed.
const CHECKS: &[(&str, Check)] = &[
    ("open", opens),
    ("open-folder", opens),
    ("compare-with", |w, id| {
        let (path, _) = write_diverging_sample(w.folder.path(), 2);
        w.will_choose(&path);
        ran(w, id);
        assert!(w.is_panel_active("compare") && w.doc().comparison.done.is_some());
    }),
    ("compare-folder", |w, id| {
        w.will_choose(&samples().join("digits"));
        ran(w, id);
        let c = &w.doc().comparison;
        assert!(
            c.done.is_some() || c.failed.is_some(),
            "the folder is compared, or the failure is shown"
        );
    }),
    ("save-filter", |w, id| {
        assert!(!w.run(id), "there is no filter");
        w.views().events.filter = "write".into();
        w.settle();
        ran(w, id);
        assert_eq!(w.doc().changes().filter("write").map(|s| s.lane), Some(false));
    }),
    ("filter-lane", |w, id| {
        w.views().events.filter = "write".into();
        w.settle();
        ran(w, id);
        assert!(w.has("Lane write"));
        ran(w, id);
        assert!(!w.has("Lane write"));
    }),
    ("next-touch", |w, id| {
        w.doc().go(0);
        let busy = find_busiest_register(w.doc());
        w.doc().select(Selection::Register(RegOffset::new(busy)));
        moves(w, id);
        assert_eq!(*w.doc().selection(), Selection::Register(RegOffset::new(busy)));
    }),
    ("previous-touch", |w, id| {
        w.run("last-event");
        let busy = find_busiest_register(w.doc());
        w.doc().select(Selection::Register(RegOffset::new(busy)));
        moves(w, id);
    }),
    ("last-writer", |w, id| {
        w.run("last-event");
        let busy = find_busiest_register(w.doc());
        w.doc().select(Selection::Register(RegOffset::new(busy)));
        moves(w, id);
        let event = w.doc().current_event() as usize;
        assert!(w.doc().recording.events.access(event).is_some_and(|a| a.write));
    }),
    ("next-reader", |w, id| {
        let reads = |f: &RegisterFact| f.accesses.iter().find(|a| a.event > 0 && !a.write).map(|a| a.event);
        let found = w
            .doc()
            .derived
            .registers
            .iter()
            .find_map(|(r, f)| Some((*r, reads(f)?)));
        let (register, first) = found.expect("a register is read");
        w.doc().go_with(first - 1, Selection::Register(register));
        moves(w, id);
        let event = w.doc().current_event() as usize;
        assert!(w.doc().recording.events.access(event).is_some_and(|a| !a.write));
    }),
    ("show-compare", shows_panel),
    ("open-sample", |w, id| {
        w.run("close");
        ran(w, id);
        assert!(w.doc().path.starts_with(samples()));
        // The test removes the workspace file that the window saves next to the sample.
        let workspace = w.doc().path.with_extension("kine-workspace");
        w.run("close");
        let _ = std::fs::remove_file(workspace);
    }),
    ("save-kine", |w, id| {
        saves(w, id);
        let back = trace_core::container::open(&w.folder.path().join("saved.out")).unwrap();
        assert_eq!(back.events.len() as u64, w.doc().len());
    }),
    ("save-outcome", |w, id| {
        replayed(w);
        saves(w, id);
    }),
    ("export-panel", |w, id| check_pictures(w, id, "events")),
    ("export-timeline", |w, id| check_pictures(w, id, "timeline")),
    ("export-notebook", |w, id| {
        add_notes(w);
        let out = w.folder.path().join("notes.html");
        w.will_choose(&out);
        ran(w, id);
        let page = std::fs::read_to_string(&out).unwrap_or_else(|e| panic!("{e}: {:?}", w.app().last_error()));
        assert_eq!(page.matches("data:image/png;base64,").count(), 2);
    }),
    ("export-table", |w, id| {
        for (panel, name) in [
            ("show-events", "all.csv"),
            ("show-jobs", "jobs.parquet"),
            ("show-memory", "pages.arrow"),
            ("show-shader", "shaders.csv"),
        ] {
            w.run(panel);
            let out = w.folder.path().join(name);
            w.will_choose(&out);
            ran(w, id);
            assert!(
                std::fs::metadata(&out).is_ok_and(|m| m.len() > 0),
                "{name}: {:?}",
                w.app().last_error()
            );
        }
        // The file has a line of names, then one line per event.
        let csv = std::fs::read_to_string(w.folder.path().join("all.csv")).unwrap();
        assert_eq!(csv.lines().count() as u64, w.doc().len() + 1);
        w.will_choose(&w.folder.path().join("events.txt"));
        ran(w, id);
        let message = w.app().last_error().unwrap_or_default().to_owned();
        assert!(message.contains("does not say the format"), "{message}");
    }),
    ("save-plan", |w, id| {
        planned(w);
        saves(w, id);
    }),
    ("reload", |w, id| {
        w.doc().go(7);
        w.doc().title = "changed".into();
        ran(w, id);
        assert_ne!(w.doc().title, "changed", "the recording is read again");
    }),
    ("close", |w, id| {
        ran(w, id);
        assert!(w.app().doc.is_none() && w.has("Open file"));
    }),
    ("quit", |w, id| {
        ran(w, id);
        assert!(w.app().doc.is_none());
    }),
    ("undo", |w, id| {
        let name = w.edit();
        ran(w, id);
        assert!(!w.doc().changes().inputs().contains_key(&name));
    }),
    ("redo", |w, id| {
        let name = w.edit();
        w.run("undo");
        ran(w, id);
        assert!(w.doc().changes().inputs().contains_key(&name));
    }),
    ("edit-input", |w, id| {
        ran(w, id);
        assert!(w.is_panel_active("inputs"));
        assert_eq!(w.views().inputs.editing, Some(0));
        assert!(w.harness.get_by_label("Value").is_focused());
    }),
    ("revert-input", |w, id| {
        let name = w.edit();
        w.doc().select(Selection::Buffer(name.clone()));
        ran(w, id);
        assert!(!w.doc().changes().inputs().contains_key(&name));
    }),
    ("add-note", |w, id| {
        let at = w.doc().current_event();
        ran(w, id);
        assert!(w.doc().changes().notes().contains_key(&at) && w.has("Note text"));
    }),
    ("remove-note", |w, id| {
        let at = w.doc().current_event();
        w.run("add-note");
        ran(w, id);
        assert!(!w.doc().changes().notes().contains_key(&at));
    }),
    ("keep-view", |w, id| {
        let at = w.doc().current_event();
        w.run("add-note");
        ran(w, "show-jobs");
        ran(w, id);
        let note = &w.doc().changes().notes()[&at];
        assert!(
            note.panels.iter().any(|p| p == "jobs") && !note.text.is_empty(),
            "{note:?}"
        );
    }),
    ("copy-link", |w, id| {
        ran(w, id);
        assert!(kinescope::log::text().contains("copied kinescope:///"));
    }),
    ("plot-register", |w, id| {
        let busy = find_busiest_register(w.doc());
        w.doc().select(Selection::Register(RegOffset::new(busy)));
        ran(w, id);
        assert!(w.is_panel_active("plots") && w.doc().changes().plots().len() == 1);
        assert!(w.views().plots.point_count() > 2, "the steps of the register are drawn");
        w.doc().select(Selection::Register(RegOffset::new(busy)));
        ran(w, id);
        assert!(w.doc().changes().plots().is_empty());
        ran(w, "undo");
        assert_eq!(w.doc().changes().plots().len(), 1);
    }),
    ("structure", |w, id| {
        ran(w, id);
        assert!(w.app().views.memory.structure.is_some());
        ran(w, id);
        assert!(w.app().views.memory.structure.is_none());
    }),
    ("name", |w, id| {
        let r = w.doc().current_register().unwrap();
        ran(w, id);
        let name = w.app().name_sheet.as_ref().unwrap().form.name.clone();
        assert_eq!(name, w.doc().derived.register_name(r));
        w.app().name_sheet = None;
    }),
    ("pin-register", |w, id| {
        let r = w.doc().current_register().unwrap();
        ran(w, id);
        assert_eq!(w.doc().changes().pins(), [r]);
    }),
    ("copy-selection", |w, id| {
        ran(w, id);
        assert!(kinescope::log::text().contains("copied"));
    }),
    ("copy-as-c", |w, id| {
        let busy = find_busiest_register(w.doc());
        let last = w.doc().len() - 1;
        w.doc().go_with(last, Selection::Register(RegOffset::new(busy)));
        let copied = w.run_and_copy(id);
        let name = w.doc().derived.register_name(RegOffset::new(busy));
        assert!(
            copied.starts_with(&format!("#define {name} {busy:#x}u\n#define {name}_VALUE 0x")),
            "{copied}"
        );
        w.doc().select(Selection::Finding(0));
        assert!(!w.run(id), "a finding has no form in C");
    }),
    ("copy-as-json", |w, id| {
        let va = w.doc().derived.spaces[0].mappings[0].va;
        w.doc().select(Selection::Memory { space: 0, va, bytes: 3 });
        let copied: serde_json::Value = serde_json::from_str(&w.run_and_copy(id)).unwrap();
        assert_eq!(copied["va"], format!("{va:#x}"));
        assert_eq!(copied["bytes"].as_array().unwrap().len(), 3);
        w.doc().go(5);
        let copied: serde_json::Value = serde_json::from_str(&w.run_and_copy(id)).unwrap();
        assert_eq!(copied["event"], 5);
        assert!(copied["value"].as_str().unwrap().starts_with("0x"), "{copied}");
    }),
    ("restore-edits", |w, id| {
        offer(w);
        ran(w, id);
        assert!(!w.doc().changes().is_empty() && w.doc().offered.is_none());
    }),
    ("forget-edits", |w, id| {
        offer(w);
        ran(w, id);
        assert!(w.doc().offered.is_some(), "the user is asked first");
        w.click("Discard");
        assert!(w.doc().changes().is_empty() && w.doc().offered.is_none());
    }),
    ("palette", |w, id| {
        ran(w, id);
        assert!(w.app().palette.is_some() && w.has("Palette"));
    }),
    ("back", |w, id| {
        w.doc().go(3);
        w.doc().go(9);
        ran(w, id);
        assert_eq!(w.doc().current_event(), 3);
    }),
    ("forward", |w, id| {
        w.doc().go(3);
        w.doc().go(9);
        w.run("back");
        ran(w, id);
        assert_eq!(w.doc().current_event(), 9);
    }),
    ("next-event", |w, id| {
        w.doc().go(4);
        ran(w, id);
        assert_eq!(w.doc().current_event(), 5);
    }),
    ("previous-event", |w, id| {
        w.doc().go(4);
        ran(w, id);
        assert_eq!(w.doc().current_event(), 3);
    }),
    ("next-job", |w, id| {
        w.doc().go(0);
        ran(w, id);
        assert_eq!(*w.doc().selection(), Selection::Job(0));
    }),
    ("previous-job", |w, id| {
        w.run("last-event");
        let last = w.doc().derived.jobs.len() as u32 - 1;
        ran(w, id);
        assert_eq!(*w.doc().selection(), Selection::Job(last));
    }),
    ("go-submission", |_, id| {
        let (mut w, call, submission) = open_joined();
        w.doc().go(call);
        ran(&mut w, id);
        assert_eq!(w.doc().current_event(), submission);
    }),
    ("go-call", |_, id| {
        let (mut w, call, submission) = open_joined();
        w.doc().go(submission);
        ran(&mut w, id);
        assert_eq!(w.doc().current_event(), call);
    }),
    ("show-wasm", shows_panel),
    ("next-trap", |_, id| {
        let mut w = Window::from_recording(collatz());
        ran(&mut w, id);
        assert!(w.is_panel_active("wasm"));
        // The first trap is selected at the start.
        assert_eq!(w.views().wasm.copy, Some(40));
        ran(&mut w, id);
        assert_eq!(w.views().wasm.copy, Some(51));
    }),
    ("next-launch", |w, id| {
        let n = open_api_trace(w);
        ran(w, id);
        assert_eq!(w.doc().current_event(), n.launches[1]);
    }),
    ("previous-launch", |w, id| {
        let n = open_api_trace(w);
        w.run("last-event");
        ran(w, id);
        assert_eq!(w.doc().current_event(), *n.launches.last().unwrap());
    }),
    ("filter-launches", |w, id| {
        open_api_trace(w);
        ran(w, id);
        assert!(w.is_panel_active("launches"));
        assert!(w.harness.get_by_label("Filter launches by name").is_focused());
    }),
    ("watch-launch", |w, id| {
        open_api_trace(w);
        ran(w, id);
        // The trace fails: this machine has no driver, or its driver cannot replay the synthetic trace. The window
        // shows the failure.
        assert!(w.doc().memory_trace.failure.is_some());
        assert!(w.is_panel_active("launches"));
    }),
    ("watch-launches", |w, id| {
        open_api_trace(w);
        ran(w, id);
        assert!(w.doc().memory_trace.failure.is_some());
    }),
    ("before-after", |w, id| {
        open_api_trace(w);
        ran(w, id);
        assert!(w.is_panel_active("memory"));
        assert_eq!(w.views().memory.device.side, Side::Both);
        ran(w, id);
        assert_eq!(w.views().memory.device.side, Side::Before);
    }),
    ("copy-ptx", |w, id| {
        open_api_trace(w);
        ran(w, "show-kernel");
        let copied = w.run_and_copy(id);
        assert!(copied.contains(".entry _Z6conv2dPKfS0_Pfii"), "{copied}");
    }),
    ("show-launches", shows_panel),
    ("show-kernel", shows_panel),
    ("select-entry", |w, id| {
        let b = w.doc().recording.metadata.buffers[0].clone();
        w.doc().select(Selection::Buffer(b.name));
        ran(w, id);
        let entry = |level| Selection::Entry {
            space: b.address_space,
            va: b.va,
            level,
        };
        assert_eq!(*w.doc().selection(), entry(3));
        assert!(w.is_panel_active("page-tables"));
        // The command selects the entry above, up to the root, and then the last level again.
        for level in [2, 1, 0, 3] {
            ran(w, id);
            assert_eq!(*w.doc().selection(), entry(level));
        }
    }),
    ("next-write", |w, id| {
        w.doc().go(0);
        let busy = find_busiest_register(w.doc());
        w.doc().select(Selection::Register(RegOffset::new(busy)));
        moves(w, id);
    }),
    ("previous-write", |w, id| {
        w.run("last-event");
        let busy = find_busiest_register(w.doc());
        w.doc().select(Selection::Register(RegOffset::new(busy)));
        moves(w, id);
    }),
    ("next-interrupt", |w, id| {
        w.doc().go(0);
        ran(w, id);
        let at = w.doc().current_event();
        assert!(w.doc().derived.interrupt_at(at).is_some());
    }),
    ("next-note", |w, id| {
        add_notes(w);
        ran(w, id);
        assert_eq!(*w.doc().selection(), Selection::Note(20));
        ran(w, id);
        assert_eq!(
            *w.doc().selection(),
            Selection::Note(10),
            "the notes wrap around at the end"
        );
    }),
    ("previous-note", |w, id| {
        add_notes(w);
        ran(w, id);
        assert_eq!(
            *w.doc().selection(),
            Selection::Note(20),
            "the notes wrap around at the start"
        );
        ran(w, id);
        assert_eq!(*w.doc().selection(), Selection::Note(10));
    }),
    ("open-note", |w, id| {
        w.doc().go_with(10, Selection::Job(0));
        ran(w, "show-jobs");
        w.run("add-note");
        ran(w, "show-events");
        assert_eq!(*w.doc().selection(), Selection::Note(10));
        ran(w, id);
        assert_eq!(
            (w.doc().current_event(), w.doc().selection().clone()),
            (10, Selection::Job(0))
        );
        assert!(w.is_panel_active("jobs"));
    }),
    ("next-problem", |w, id| {
        assert!(!w.doc().derived.findings.is_empty(), "the sample has a finding");
        ran(w, id);
        assert_eq!(*w.doc().selection(), Selection::Finding(0));
        assert!(w.is_panel_active("problems"));
    }),
    ("next-divergence", |w, id| {
        assert!(!w.run(id), "nothing was replayed, so nothing diverged");
        let (path, events) = write_diverging_sample(w.folder.path(), 2);
        let ctx = w.harness.ctx.clone();
        w.app().open(&ctx, path);
        w.settle();
        replayed(w);
        let at = |w: &mut Window| (w.doc().current_event(), w.doc().selection().clone());
        assert_eq!(
            at(w),
            (events[0], Selection::Divergence(0)),
            "the first divergence is selected"
        );
        ran(w, id);
        assert_eq!(at(w), (events[1], Selection::Divergence(1)));
    }),
    ("first-event", |w, id| {
        w.doc().go(9);
        ran(w, id);
        assert_eq!(w.doc().current_event(), 0);
    }),
    ("last-event", |w, id| {
        ran(w, id);
        assert_eq!(w.doc().current_event(), w.doc().len() - 1);
    }),
    ("go-address", |w, id| {
        ran(w, id);
        assert!(w.is_panel_active("memory"));
        assert!(w.harness.get_by_label("Go to address").is_focused());
    }),
    ("filter", |w, id| {
        ran(w, id);
        assert!(w.is_panel_active("events"));
        assert!(w.harness.get_by_label("Filter events").is_focused());
    }),
    ("clear-filter", |w, id| {
        w.views().events.filter = "write".into();
        w.settle();
        assert!(w.views().events.rows.is_some());
        ran(w, id);
        assert!(w.views().events.rows.is_none());
    }),
    ("fit", |w, id| {
        w.run("zoom-in");
        ran(w, id);
        assert_eq!(w.views().timeline.range, None);
    }),
    ("zoom-in", moves_view),
    ("zoom-out", |w, id| {
        w.run("zoom-in");
        w.run("zoom-in");
        moves_view(w, id);
    }),
    ("pan-left", |w, id| {
        w.run("last-event");
        w.run("zoom-in");
        w.run("zoom-in");
        moves_view(w, id);
    }),
    ("pan-right", |w, id| {
        w.run("first-event");
        w.run("zoom-in");
        w.run("zoom-in");
        moves_view(w, id);
    }),
    ("cursor-a", |w, id| {
        w.doc().go(5);
        ran(w, id);
        assert_eq!(w.doc().cursors.a, Some(5));
        assert!(w.has("Cursor A at event 5"));
    }),
    ("cursor-b", |w, id| {
        w.doc().go(9);
        ran(w, id);
        assert_eq!(w.doc().cursors.b, Some(9));
        assert!(w.has("Cursor B at event 9"));
    }),
    ("go-cursor-a", |w, id| {
        w.doc().set_cursor(Cursor::A, 5);
        w.doc().go(9);
        moves(w, id);
        assert_eq!(w.doc().current_event(), 5);
    }),
    ("go-cursor-b", |w, id| {
        w.doc().set_cursor(Cursor::B, 9);
        w.doc().go(5);
        moves(w, id);
        assert_eq!(w.doc().current_event(), 9);
    }),
    ("clear-cursors", |w, id| {
        w.doc().set_cursor(Cursor::A, 5);
        w.doc().set_cursor(Cursor::B, 9);
        ran(w, id);
        assert_eq!((w.doc().cursors.a, w.doc().cursors.b), (None, None));
        assert!(!w.has_part("Cursor A"));
    }),
    ("zoom-cursors", |w, id| {
        w.doc().set_cursor(Cursor::A, 5);
        w.doc().set_cursor(Cursor::B, 15);
        moves_view(w, id);
        let (a, b) = w.timeline_part();
        assert!(a <= 5.0 && b >= 15.0 && b - a < 12.0, "{a} to {b}");
    }),
    ("reset-lanes", |w, id| {
        w.views().timeline.heights.insert("jobs".into(), 60.0);
        ran(w, id);
        assert!(w.views().timeline.heights.is_empty());
    }),
    ("reset-columns", |w, id| {
        let own = BTreeMap::from([(
            "events".to_owned(),
            TableColumns {
                widths: BTreeMap::from([("register".to_owned(), 300.0)]),
                ..Default::default()
            },
        )]);
        w.app().actions.tables = Tables::from_workspace(&own);
        ran(w, id);
        assert!(w.app().workspace().unwrap().tables.is_empty());
    }),
    ("axis-order", |w, id| {
        w.run("axis-time");
        ran(w, id);
        assert_eq!(w.views().timeline.axis, AxisKind::Order);
        assert!(w.has("Axis order"));
    }),
    ("axis-compressed", |w, id| {
        ran(w, id);
        assert_eq!(w.views().timeline.axis, AxisKind::Compressed);
    }),
    ("axis-time", |w, id| {
        ran(w, id);
        assert_eq!(w.views().timeline.axis, AxisKind::Time);
    }),
    ("numbers", |w, id| {
        ran(w, id);
        assert_eq!(w.doc().numbers.name(), "decimal");
        assert!(w.has("Values in decimal"));
    }),
    ("toggle-theme", |w, id| {
        ran(w, id);
        assert_eq!(w.app().theme(), ThemeChoice::Light);
        ran(w, id);
        assert_eq!(w.app().theme(), ThemeChoice::Contrast);
        assert_eq!(w.app().settings.theme(), ThemeChoice::Contrast);
        ran(w, id);
        assert_eq!(w.app().theme(), ThemeChoice::Dark);
    }),
    ("high-contrast", |w, id| {
        ran(w, id);
        assert_eq!(w.app().theme(), ThemeChoice::Contrast);
        ran(w, id);
        assert_eq!(w.app().theme(), ThemeChoice::Dark);
    }),
    ("larger", |w, id| {
        ran(w, id);
        assert_eq!((w.app().settings.scale(), w.harness.ctx.zoom_factor()), (110, 1.1));
        w.app().settings.scale = 300;
        assert!(!w.run(id), "the scale is at its maximum");
    }),
    ("smaller", |w, id| {
        ran(w, id);
        assert_eq!((w.app().settings.scale(), w.harness.ctx.zoom_factor()), (90, 0.9));
        w.app().settings.scale = 50;
        assert!(!w.run(id), "the scale is at its minimum");
    }),
    ("first-size", |w, id| {
        assert!(!w.run(id), "the scale is already the default");
        ran(w, "larger");
        ran(w, id);
        assert_eq!((w.app().settings.scale(), w.harness.ctx.zoom_factor()), (100, 1.0));
        assert_eq!(w.app().settings.scale, 0, "the default scale is not stored");
    }),
    ("next-pane", |w, id| {
        ran(w, id);
        assert!(w.harness.get_by_label("Pane Outline").is_focused());
    }),
    ("previous-pane", |w, id| {
        ran(w, id);
        assert!(w.harness.get_by_label("Pane Inspector").is_focused());
    }),
    ("toggle-outline", |w, id| {
        let n = w.harness.query_all_by_label("Address spaces").count();
        ran(w, id);
        assert!(!w.app().outline && w.harness.query_all_by_label("Address spaces").count() < n.max(1));
    }),
    ("toggle-inspector", |w, id| {
        ran(w, id);
        assert!(!w.app().inspector);
    }),
    ("page-map", |w, id| {
        ran(w, id);
        assert!(w.is_panel_active("page-tables") && w.has("Map of the address space"));
        ran(w, id);
        assert!(!w.has("Map of the address space") && w.has("Address map"));
    }),
    ("tear-off", |w, id| {
        ran(w, id);
        assert_eq!(w.app().floating.iter().map(|t| t.panel).collect::<Vec<_>>(), ["events"]);
        assert!(!w.is_panel_active("events"));
    }),
    ("dock-back", |w, id| {
        w.run("tear-off");
        ran(w, id);
        assert!(w.app().floating.is_empty() && w.is_panel_active("events"));
    }),
    ("reset-layout", |w, id| {
        w.run("tear-off");
        w.run("toggle-outline");
        ran(w, id);
        assert!(w.app().outline && w.is_panel_active("events") && w.app().floating.is_empty());
    }),
    ("show-timeline", |w, id| {
        layout::close(&mut w.app().dock, "timeline");
        ran(w, id);
        assert!(w.is_panel_active("timeline"));
    }),
    ("show-events", shows_panel),
    ("show-objects", shows_panel),
    ("show-address-space", shows_panel),
    ("show-push-buffer", shows_panel),
    ("show-register", shows_panel),
    ("show-plots", shows_panel),
    ("show-memory", shows_panel),
    ("show-page-tables", shows_panel),
    ("show-jobs", shows_panel),
    ("show-shader", shows_panel),
    ("show-inputs", shows_panel),
    ("show-screen", shows_panel),
    ("export-screen", saves_screen),
    ("export-film", saves_screen),
    ("next-pixel-store", |w, id| {
        open_screen(w);
        let n = w.doc().len();
        w.doc().go(n - 2);
        w.settle();
        ran(w, id);
        assert_eq!(w.doc().current_event(), n - 1);
    }),
    ("previous-pixel-store", |w, id| {
        open_screen(w);
        let n = w.doc().len();
        ran(w, id);
        assert_eq!(w.doc().current_event(), n - 2);
    }),
    ("show-replay", shows_panel),
    ("show-tune", shows_panel),
    ("show-pipeline", shows_panel),
    ("show-campaign", shows_panel),
    ("show-notebook", shows_panel),
    ("show-problems", shows_panel),
    ("show-log", shows_panel),
    ("replay", |w, _| {
        replayed(w);
        let o = w.doc().replay.outcome.clone().unwrap();
        assert_eq!(o.verdict, replay_engine::run::Verdict::Match, "{:?}", o.divergences);
        assert!(w.is_panel_active("replay"));
    }),
    ("replay-ten", |w, id| {
        ran(w, id);
        let o = w.doc().replay.outcome.clone().expect("the replay has an outcome");
        assert_eq!(o.timing.runs_ns.len(), 10);
    }),
    ("plan", |w, _| {
        planned(w);
        assert!(
            matches!(w.doc().replay.verified, Some(Ok(_))),
            "{:?}",
            w.doc().replay.verified.as_ref().map(Result::is_ok)
        );
    }),
    ("cancel", |w, id| {
        let ctx = w.harness.ctx.clone();
        let p = w.app().tasks.spawn(&ctx, "a long work", |p| {
            while p.check().is_ok() {
                std::thread::sleep(Duration::from_millis(2));
            }
            Box::new(|app| app.info("the long work was stopped"))
        });
        ran(w, id);
        assert!(p.check().is_err() && w.app().tasks.running().is_empty());
    }),
    ("toggle-pace", |w, id| {
        ran(w, id);
        assert!(w.doc().replay.keep_gaps);
    }),
    ("measure-launches", |w, id| {
        assert!(!w.run(id), "no target has a CUDA device");
        open_api_trace(w);
        w.doc().replay.choose("cuda:4000");
        ran(w, id);
        assert!(w.is_panel_active("launches") && w.doc().launch_times.failure.is_some());
    }),
    ("trim", |w, id| {
        ran(w, id);
        assert!(w.has("Trim…") && !w.run(id), "the sheet is open");
    }),
    ("bisect", |w, id| {
        ran(w, id);
        assert!(w.has("Bisect…") && !w.run(id), "the sheet is open");
    }),
    ("open-outcome", |w, id| {
        replayed(w);
        ran(w, id);
        assert!(w.doc().title.ends_with("-outcome.kine"), "{:?}", w.app().last_error());
    }),
    ("find-boards", |w, id| {
        ran(w, id);
        assert!(w.doc().replay.known_targets.is_some(), "{:?}", w.app().last_error());
    }),
    ("pair", |w, id| {
        assert!(!w.run(id), "no address was typed");
        // No agent listens on the discard port of this machine, and the window must show the failure.
        w.doc().replay.target_field = "127.0.0.1:9".into();
        ran(w, id);
        assert!(w.app().notice.is_some() && w.has("Dismiss"));
    }),
    ("follow-thread", |w, id| {
        open_shader(w);
        ran(w, id);
        assert!(w.is_panel_active("shader") && w.has("Run the thread"));
        ran(w, id);
        assert!(!w.has("Run the thread"));
    }),
    ("run-thread", |w, id| {
        open_shader(w);
        ran(w, id);
        assert!(w.views().shader.thread.run.is_some());
    }),
    ("next-clause", |w, id| {
        open_thread(w);
        ran(w, id);
        assert_eq!(w.views().shader.thread.step, 1);
    }),
    ("previous-clause", |w, id| {
        open_thread(w);
        ran(w, "next-clause");
        ran(w, id);
        assert_eq!(w.views().shader.thread.step, 0);
    }),
    ("on-to-break", |w, id| {
        open_thread(w);
        assert!(!w.run(id), "there is no breakpoint");
        ran(w, "next-clause");
        ran(w, "toggle-break");
        ran(w, "previous-clause");
        ran(w, id);
        assert_eq!(w.views().shader.thread.step, 1);
    }),
    ("back-to-break", |w, id| {
        open_thread(w);
        ran(w, "toggle-break");
        ran(w, "next-clause");
        ran(w, id);
        assert_eq!(w.views().shader.thread.step, 0);
    }),
    ("toggle-break", |w, id| {
        open_shader(w);
        ran(w, id);
        assert_eq!(w.views().shader.thread.stops.clauses.len(), 1);
        ran(w, id);
        assert!(w.views().shader.thread.stops.is_empty());
    }),
    ("thread-to-clause", |w, id| {
        open_thread(w);
        w.views().shader.clause = 1;
        ran(w, id);
        assert_eq!(w.views().shader.thread.step, 1);
    }),
    ("back-to-clause", |w, id| {
        open_thread(w);
        ran(w, "next-clause");
        w.views().shader.clause = 0;
        ran(w, id);
        assert_eq!(w.views().shader.thread.step, 0);
    }),
    ("search-shader", |w, id| {
        open_shader(w);
        ran(w, id);
        let field = w.harness.get_by_label("Search the shader");
        assert!(field.is_focused());
    }),
    ("next-unknown", |w, id| {
        open_shader(w);
        assert!(!w.run(id), "every operation is known");
        remove_meanings(w);
        let before = w.views().shader.clause;
        ran(w, id);
        ran(w, id);
        assert_ne!(w.views().shader.clause, before);
    }),
    ("copy-shader", |w, id| {
        open_shader(w);
        let ctx = w.harness.ctx.clone();
        assert!(w.app().run(&ctx, id));
        w.harness.step();
        let commands = &w.harness.output().platform_output.commands;
        let text = |c: &egui::OutputCommand| matches!(c, egui::OutputCommand::CopyText(t) if t.starts_with("clause_0"));
        assert!(commands.iter().any(text));
    }),
    ("show-clause-bytes", |w, id| {
        open_shader(w);
        ran(w, id);
        assert!(w.is_panel_active("memory"));
    }),
    ("help", |w, id| {
        ran(w, id);
        assert!(w.app().help && w.has("Ctrl P: Command palette"));
    }),
    ("keys", |w, id| {
        ran(w, id);
        assert!(w.app().keys_sheet.is_some() && w.has("Search keys"));
    }),
    ("tour", |w, id| {
        ran(w, id);
        assert_eq!(w.app().tour.as_ref().and_then(|t| t.step()), Some(1));
        assert!(w.doc().title == "vecadd.kine" && w.app().settings.tour_seen);
    }),
    ("copy-log", |w, id| {
        kinescope::log::push(kinescope::log::Level::Info, "a line for the clipboard");
        let ctx = w.harness.ctx.clone();
        assert!(w.app().run(&ctx, id));
        w.harness.step();
        let copied = w
            .harness
            .output()
            .platform_output
            .commands
            .iter()
            .any(|c| matches!(c, egui::OutputCommand::CopyText(t) if t.contains("a line for the clipboard")));
        assert!(copied);
    }),
    ("follow", |w, id| {
        ran(w, id);
        assert!(w.app().path_prompt.is_some());
    }),
    ("stop-following", |w, id| {
        let _recorder = w.follow_new();
        ran(w, id);
        assert!(w.app().following().is_none() && w.doc().growth() == GrowthState::Partial);
    }),
    ("follow-again", |w, id| {
        let _recorder = w.follow_new();
        ran(w, "stop-following");
        ran(w, id);
        assert!(w.app().following().is_some());
    }),
    ("run-program", |w, id| {
        ran(w, id);
        assert!(w.app().program_sheet.is_some());
    }),
    ("show-program", |w, id| {
        w.start_endless_program();
        w.harness.get_by_label("Close window").click();
        w.settle();
        assert!(!w.has("begun"));
        ran(w, id);
        assert!(w.has("begun"));
    }),
    ("stop-program", |w, id| {
        w.start_endless_program();
        ran(w, id);
        w.wait_until("the end", |w| !w.app().is_program_running());
    }),
    ("save-snapshot", |w, id| {
        let _recorder = w.follow_new();
        saves(w, id);
    }),
    ("go-to-end", |w, id| {
        let _recorder = w.follow_new();
        let context = w.app().panel_context().unwrap();
        context.views.timeline.zoom_to_events(context.doc, 3, 9, 0.0);
        w.settle();
        moves_view(w, id);
        assert!(w.app().is_at_end());
    }),
    ("about", |w, id| {
        ran(w, id);
        assert!(w.app().about);
    }),
];

#[test]
fn every_command_in_the_table_has_an_effect() {
    let mut wrong = Vec::new();
    for c in COMMANDS {
        let Some((_, check)) = CHECKS.iter().chain(compare::CHECKS).find(|k| k.0 == c.id) else {
            wrong.push(format!("{}: no check", c.id));
            continue;
        };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut w = Window::open();
            check(&mut w, c.id);
        }));
        if let Err(e) = result {
            let text = e
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| e.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            wrong.push(format!("{}: {}", c.id, text.unwrap_or_default()));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} commands failed:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
