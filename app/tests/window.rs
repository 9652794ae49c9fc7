//! Drives the window by its accessible labels: every panel, every row of the command table.
//! Each test asserts that a document, a file or a panel changed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use common::{Window, diverging, sample, samples};
use egui_kittest::kittest::Queryable as _;
use kinescope::commands::COMMANDS;
use kinescope::document::Document;
use kinescope::document::axis::AxisKind;
use kinescope::document::moment::Selection;
use kinescope::theme::ThemeChoice;
use kinescope::window::layout;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a command changed, told by a check that runs it.
type Check = fn(&mut Window, &str);

fn ran(w: &mut Window, id: &str) {
    assert!(w.run(id), "{id} may not run here");
}

fn moves(w: &mut Window, id: &str) {
    let before = (w.doc().moment(), w.doc().selection().clone());
    ran(w, id);
    assert_ne!(
        (w.doc().moment(), w.doc().selection().clone()),
        before,
        "{id} went nowhere"
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
    assert!(w.shows(panel), "{panel} is not shown");
}

fn saves(w: &mut Window, id: &str) {
    let out = w.folder.path().join("saved.out");
    w.will_choose(&out);
    ran(w, id);
    assert!(
        std::fs::metadata(&out).is_ok_and(|m| m.len() > 0),
        "{id} wrote no file: {:?}",
        w.app().failed()
    );
}

fn opens(w: &mut Window, id: &str) {
    let copy = w.folder.path().join("other.kine");
    std::fs::copy(sample(), &copy).unwrap();
    w.will_choose(&copy);
    ran(w, id);
    let failed = w.app().failed().map(str::to_owned);
    assert_eq!(w.doc().path, copy, "{failed:?}");
}

fn planned(w: &mut Window) {
    ran(w, "plan");
    assert!(w.doc().replay.plan.is_some(), "{:?}", w.doc().replay.error);
}

fn replayed(w: &mut Window) {
    ran(w, "replay");
    assert!(w.doc().replay.outcome.is_some(), "{:?}", w.doc().replay.error);
}

/// Every row of the command table with the check that shows what it changed.
const CHECKS: &[(&str, Check)] = &[
    ("open", opens),
    ("open-folder", opens),
    ("open-sample", |w, id| {
        w.run("close");
        ran(w, id);
        assert!(w.doc().path.starts_with(samples()));
        // What the window keeps beside the sample is not left there.
        let beside = w.doc().path.with_extension("kine-workspace");
        w.run("close");
        let _ = std::fs::remove_file(beside);
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
    ("save-plan", |w, id| {
        planned(w);
        saves(w, id);
    }),
    ("reload", |w, id| {
        w.doc().go(7);
        w.doc().title = "changed".into();
        ran(w, id);
        assert_ne!(w.doc().title, "changed", "read again");
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
        assert!(w.shows("inputs"));
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
        let at = w.doc().moment();
        ran(w, id);
        assert!(w.doc().changes().notes().contains_key(&at) && w.has("Note text"));
    }),
    ("remove-note", |w, id| {
        let at = w.doc().moment();
        w.run("add-note");
        ran(w, id);
        assert!(!w.doc().changes().notes().contains_key(&at));
    }),
    ("pin-register", |w, id| {
        let r = w.doc().register().unwrap();
        ran(w, id);
        assert_eq!(w.doc().changes().pins(), [r]);
    }),
    ("copy-selection", |w, id| {
        ran(w, id);
        assert!(kinescope::log::text().contains("copied"));
    }),
    ("restore-edits", |w, id| {
        offer(w);
        ran(w, id);
        assert!(!w.doc().changes().is_empty() && w.doc().offered.is_none());
    }),
    ("forget-edits", |w, id| {
        offer(w);
        ran(w, id);
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
        assert_eq!(w.doc().moment(), 3);
    }),
    ("forward", |w, id| {
        w.doc().go(3);
        w.doc().go(9);
        w.run("back");
        ran(w, id);
        assert_eq!(w.doc().moment(), 9);
    }),
    ("next-event", |w, id| {
        w.doc().go(4);
        ran(w, id);
        assert_eq!(w.doc().moment(), 5);
    }),
    ("previous-event", |w, id| {
        w.doc().go(4);
        ran(w, id);
        assert_eq!(w.doc().moment(), 3);
    }),
    ("next-job", |w, id| {
        w.doc().go(0);
        ran(w, id);
        assert_eq!(*w.doc().selection(), Selection::Job(0));
    }),
    ("previous-job", |w, id| {
        w.run("last-event");
        let last = w.doc().facts.jobs.len() as u32 - 1;
        ran(w, id);
        assert_eq!(*w.doc().selection(), Selection::Job(last));
    }),
    ("next-write", |w, id| {
        w.doc().go(0);
        let busy = busiest(w.doc());
        w.doc().select(Selection::Register(busy));
        moves(w, id);
    }),
    ("previous-write", |w, id| {
        w.run("last-event");
        let busy = busiest(w.doc());
        w.doc().select(Selection::Register(busy));
        moves(w, id);
    }),
    ("next-interrupt", |w, id| {
        w.doc().go(0);
        ran(w, id);
        let at = w.doc().moment();
        assert!(w.doc().facts.interrupt_at(at).is_some());
    }),
    ("next-problem", |w, id| {
        assert!(!w.doc().facts.findings.is_empty(), "the sample has a finding");
        ran(w, id);
        assert_eq!(*w.doc().selection(), Selection::Finding(0));
        assert!(w.shows("problems"));
    }),
    ("next-divergence", |w, id| {
        assert!(!w.run(id), "nothing was replayed, so nothing diverged");
        let (path, events) = diverging(w.folder.path(), 2);
        let ctx = w.harness.ctx.clone();
        w.app().open(&ctx, path);
        w.settle();
        replayed(w);
        ran(w, id);
        assert_eq!(
            (w.doc().moment(), w.doc().selection().clone()),
            (events[0], Selection::Divergence(0))
        );
    }),
    ("first-event", |w, id| {
        w.doc().go(9);
        ran(w, id);
        assert_eq!(w.doc().moment(), 0);
    }),
    ("last-event", |w, id| {
        ran(w, id);
        assert_eq!(w.doc().moment(), w.doc().len() - 1);
    }),
    ("go-address", |w, id| {
        ran(w, id);
        assert!(w.shows("memory"));
        assert!(w.harness.get_by_label("Go to address").is_focused());
    }),
    ("filter", |w, id| {
        ran(w, id);
        assert!(w.shows("events"));
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
    ("toggle-theme", |w, id| {
        ran(w, id);
        assert_eq!(w.app().theme(), ThemeChoice::Light);
        assert!(w.app().settings.light);
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
    ("tear-off", |w, id| {
        ran(w, id);
        assert_eq!(w.app().torn.iter().map(|t| t.panel).collect::<Vec<_>>(), ["events"]);
        assert!(!w.shows("events"));
    }),
    ("dock-back", |w, id| {
        w.run("tear-off");
        ran(w, id);
        assert!(w.app().torn.is_empty() && w.shows("events"));
    }),
    ("reset-layout", |w, id| {
        w.run("tear-off");
        w.run("toggle-outline");
        ran(w, id);
        assert!(w.app().outline && w.shows("events") && w.app().torn.is_empty());
    }),
    ("show-timeline", |w, id| {
        layout::close(&mut w.app().dock, "timeline");
        ran(w, id);
        assert!(w.shows("timeline"));
    }),
    ("show-events", shows_panel),
    ("show-register", shows_panel),
    ("show-memory", shows_panel),
    ("show-page-tables", shows_panel),
    ("show-jobs", shows_panel),
    ("show-inputs", shows_panel),
    ("show-replay", shows_panel),
    ("show-problems", shows_panel),
    ("show-log", shows_panel),
    ("replay", |w, _| {
        replayed(w);
        let o = w.doc().replay.outcome.clone().unwrap();
        assert_eq!(o.verdict, replay_engine::run::Verdict::Match, "{:?}", o.divergences);
        assert!(w.shows("replay"));
    }),
    ("replay-ten", |w, id| {
        ran(w, id);
        let o = w.doc().replay.outcome.clone().expect("an outcome");
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
    ("open-outcome", |w, id| {
        replayed(w);
        ran(w, id);
        assert!(w.doc().title.ends_with("-outcome.kine"), "{:?}", w.app().failed());
    }),
    ("find-boards", |w, id| {
        ran(w, id);
        assert!(w.doc().replay.boards.is_some(), "{:?}", w.app().failed());
    }),
    ("pair", |w, id| {
        assert!(!w.run(id), "no address was typed");
        // Nothing listens on the discard port of this machine: the failure must reach the person.
        w.doc().replay.board_field = "127.0.0.1:9".into();
        ran(w, id);
        assert!(w.app().notice.is_some() && w.has("Dismiss"));
    }),
    ("help", |w, id| {
        ran(w, id);
        assert!(w.app().help && w.has("Ctrl P: Go to, find, do"));
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
    ("about", |w, id| {
        ran(w, id);
        assert!(w.app().about);
    }),
];

/// The register that is written most.
fn busiest(doc: &Document) -> u32 {
    doc.facts
        .registers
        .iter()
        .max_by_key(|r| writes(doc, r.1))
        .map(|r| *r.0)
        .unwrap()
}

fn writes(doc: &Document, r: &kinescope::document::facts::RegisterFact) -> usize {
    r.events
        .iter()
        .filter(|e| doc.recording.events.access(**e as usize).is_some_and(|a| a.write))
        .count()
}

fn offer(w: &mut Window) {
    w.edit();
    let path = w.doc().path.clone();
    let (recording, facts) = (Arc::clone(&w.doc().recording), Arc::clone(&w.doc().facts));
    // The journal as it stands when the program dies now: nothing was closed.
    let journal = kinescope::document::journal::path_for(&path);
    let since = Instant::now();
    while std::fs::metadata(&journal).map_or(true, |m| m.len() < 80) {
        assert!(since.elapsed() < Duration::from_secs(20), "no journal was written");
        std::thread::sleep(Duration::from_millis(5));
    }
    let text = std::fs::read(&journal).unwrap();
    w.run("close");
    std::fs::write(&journal, text).unwrap();
    w.app().take(Document::new(path, recording, facts));
    w.settle();
    assert!(w.has("Take them up"), "the changes are offered");
}

#[test]
fn every_row_of_the_command_table_changes_something() {
    let mut wrong = Vec::new();
    for c in COMMANDS {
        let Some((_, check)) = CHECKS.iter().find(|k| k.0 == c.id) else {
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

#[test]
fn without_a_recording_the_window_says_what_to_do() {
    let mut w = Window::empty();
    assert!(w.has("Open file"));
    let copy = w.folder.path().join("chosen.kine");
    std::fs::copy(sample(), &copy).unwrap();
    w.will_choose(&copy);
    w.click("Open file");
    assert_eq!(w.doc().path, copy);
}

#[test]
fn a_file_that_is_no_recording_is_told_and_the_window_lives_on() {
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
fn an_event_clicked_in_the_table_moves_every_panel() {
    let mut w = Window::open();
    w.run("first-event");
    w.click("event 6");
    assert_eq!((w.doc().moment(), w.doc().selection().clone()), (6, Selection::Event));
    let register = w.doc().register().unwrap();
    let name = w.doc().facts.register_name(register);
    assert!(w.has(&name), "the inspector explains {name}");
}

#[test]
fn a_filter_leaves_only_what_passes() {
    let mut w = Window::open();
    w.harness.get_by_label("Filter events").focus();
    w.settle();
    w.harness.get_by_label("Filter events").type_text("write");
    w.settle();
    let rows = w.views().events.rows.clone().expect("rows were found");
    assert!(!rows.is_empty() && (rows.len() as u64) < w.doc().len());
    for e in rows.iter() {
        assert!(w.doc().recording.events.access(*e as usize).is_some_and(|a| a.write));
    }
    w.click("Clear filter");
    assert!(w.views().events.rows.is_none());
}

#[test]
fn a_job_clicked_in_its_panel_is_selected_and_explained() {
    let mut w = Window::open();
    w.run("show-jobs");
    w.click("job 0");
    assert_eq!(*w.doc().selection(), Selection::Job(0));
    assert!(w.has("submitted event") || w.harness.query_all_by_label_contains("submitted").next().is_some());
}

#[test]
fn a_mapping_clicked_shows_its_walk_and_leads_to_memory() {
    let mut w = Window::open();
    w.run("show-page-tables");
    let va = w.doc().facts.spaces[0].mappings[0].va;
    w.click(&format!("mapping {va:#x}"));
    assert_eq!(w.views().tables.at, Some(va));
    assert!(
        w.harness.query_all_by_label_contains("level 3").next().is_some(),
        "the walk is told level by level"
    );
    w.click("Go to memory");
    assert!(w.shows("memory"));
    assert_eq!(w.views().memory.top, va & !15);
    w.click(&format!("memory {:#x}", va & !15));
    assert!(matches!(w.doc().selection(), Selection::Memory { .. }));
}

#[test]
fn the_map_zooms() {
    let mut w = Window::open();
    w.run("show-page-tables");
    let before = w.views().tables.cell;
    w.click("Zoom map out");
    assert!(w.views().tables.cell > before);
    w.click("Zoom map in");
    assert_eq!(w.views().tables.cell, before);
    w.click("Colour by content");
    assert_eq!(
        w.views().tables.colour_by,
        kinescope::panels::page_tables::ColourBy::Content
    );
}

#[test]
fn a_value_is_edited_set_and_taken_back() {
    let mut w = Window::open();
    let name = w.input();
    w.run("show-inputs");
    w.click("value 1");
    assert_eq!(w.views().inputs.editing, Some(1));
    w.views().inputs.field = "5".into();
    w.click("Set");
    assert!(
        w.doc().changes().inputs().contains_key(&name),
        "{:?}",
        w.views().inputs.wrong
    );
    w.click("As recorded");
    assert!(!w.doc().changes().inputs().contains_key(&name));
    w.run("undo");
    assert!(w.doc().changes().inputs().contains_key(&name));
}

#[test]
fn a_file_is_loaded_into_a_buffer_and_one_of_another_size_is_told() {
    let mut w = Window::open();
    let name = w.input();
    w.run("show-inputs");
    let (now, _) = w.doc().buffer_now(&name).unwrap();
    let file = w.folder.path().join("new.bin");
    let new: Vec<u8> = now.iter().map(|b| !b).collect();
    std::fs::write(&file, &new).unwrap();
    w.will_choose(&file);
    w.click("Load…");
    assert_eq!(w.doc().buffer_now(&name).unwrap(), (new, true));
    std::fs::write(&file, [1, 2, 3]).unwrap();
    w.click("Load…");
    assert!(
        w.app().notice.as_ref().is_some_and(|n| n.1.contains('3')),
        "{:?}",
        w.app().notice
    );
}

#[test]
fn an_edited_input_replays_and_the_panel_tells_how_it_went() {
    let mut w = Window::open();
    w.edit();
    w.run("show-replay");
    w.click("Run replay");
    let o = w.doc().replay.outcome.clone().expect("an outcome");
    assert_eq!(o.rewrites.get(&replay_engine::plan::RewriteKind::Input), Some(&1));
    assert!(
        w.harness.query_all_by_label_contains("Matched").next().is_some()
            || o.verdict != replay_engine::run::Verdict::Match
    );
}

#[test]
fn the_register_panel_pins_and_jumps() {
    let mut w = Window::open();
    w.run("show-register");
    let first = w.harness.query_all_by_label_contains("access at event").count();
    assert!(first > 0, "accesses are listed");
    let r = w.doc().register().unwrap();
    w.harness.query_all_by_label("Pin to timeline").next().unwrap().click();
    w.settle();
    assert_eq!(w.doc().changes().pins(), [r]);
    let name = w.doc().facts.register_name(r);
    w.click(&format!("Lane {name}"));
    assert!(w.doc().changes().pins().is_empty());
}

#[test]
fn the_palette_goes_to_an_event_by_its_number() {
    let mut w = Window::open();
    w.run("palette");
    w.harness.get_by_label("Palette").type_text("12");
    w.settle();
    w.harness.key_press(egui::Key::Enter);
    w.settle();
    assert_eq!(w.doc().moment(), 12);
    assert!(w.app().palette.is_none());
}

#[test]
fn keys_of_the_table_reach_their_commands() {
    let mut w = Window::open();
    w.doc().go(4);
    w.settle();
    w.harness.key_press(egui::Key::Period);
    w.settle();
    assert_eq!(w.doc().moment(), 5);
    w.harness
        .key_press_modifiers(egui::Modifiers::ALT, egui::Key::ArrowLeft);
    w.settle();
    assert_eq!(w.doc().moment(), 4);
    w.harness.key_press(egui::Key::W);
    w.settle();
    assert!(w.views().timeline.range.is_some());
    w.harness.key_press(egui::Key::F);
    w.settle();
    assert!(w.views().timeline.range.is_none());
}

#[test]
fn the_workspace_comes_back_with_its_recording() {
    let mut w = Window::open();
    w.run("show-jobs");
    w.run("axis-time");
    w.doc().go(11);
    let path = w.doc().path.clone();
    w.run("close");
    let ctx = w.harness.ctx.clone();
    w.app().open(&ctx, path);
    w.settle();
    assert_eq!((w.doc().moment(), w.views().timeline.axis), (11, AxisKind::Time));
    assert!(w.shows("jobs"));
}

#[test]
fn hardware_is_touched_only_after_the_person_said_so() {
    let mut w = Window::open();
    w.doc().replay.choose("agent://127.0.0.1:9/mali");
    w.run("replay");
    assert_eq!(w.app().confirm, Some("replay"));
    assert!(w.doc().replay.running.is_none());
    w.click("Do not");
    assert_eq!(w.app().confirm, None);
    w.run("replay");
    w.click("Touch the hardware");
    assert!(
        w.doc().replay.error.is_some(),
        "nothing answers there, and the person is told"
    );
}

fn picture(name: &str, panel: &str, theme: ThemeChoice) {
    let mut w = Window::open_with(theme, 1.0);
    // Hints and the path of the copy differ from run to run; the name of the file does not.
    w.app().settings.hints_read = 9;
    w.doc().go_job(0);
    w.run(panel);
    w.settle();
    w.harness.snapshot(name);
}

macro_rules! pictures {
    ($($name:ident $panel:literal $theme:ident)*) => {
        $(#[test]
        fn $name() {
            picture(stringify!($name), $panel, ThemeChoice::$theme);
        })*
    };
}

pictures! {
    events_dark "show-events" Dark
    events_light "show-events" Light
    page_tables_dark "show-page-tables" Dark
    page_tables_light "show-page-tables" Light
    jobs_dark "show-jobs" Dark
    jobs_light "show-jobs" Light
    inputs_dark "show-inputs" Dark
    inputs_light "show-inputs" Light
    replay_dark "show-replay" Dark
    replay_light "show-replay" Light
    memory_dark "show-memory" Dark
    memory_light "show-memory" Light
    register_dark "show-register" Dark
    register_light "show-register" Light
}
