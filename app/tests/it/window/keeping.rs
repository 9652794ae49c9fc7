//! Tests of what the window saves and restores: copies with edits, its title, size and comparison, and docked panels.
//! Other tests follow the keyboard focus.

use super::common::{Window, sample, samples};
use egui::{Event, Key, Modifiers, PointerButton, Pos2};
use egui_kittest::kittest::{By, NodeT as _, Queryable as _};
use kinescope::theme::ThemeChoice;
use kinescope::window::{Settings, WindowPlace, layout};
use kinescope_files::scene::Selection;
use kinescope_files::workspace::Dock;
use kinescope_session::comparison::ComparisonSource;
use trace_core::progress::Progress;

fn button(w: &mut Window, pos: Pos2, pressed: bool) {
    w.harness.event(Event::PointerButton {
        pos,
        button: PointerButton::Primary,
        pressed,
        modifiers: Modifiers::NONE,
    });
    w.harness.step();
}

/// Drags from one position to another in steps, as a hand does.
fn drag(w: &mut Window, from: Pos2, to: Pos2) {
    w.harness.hover_at(from);
    w.harness.step();
    button(w, from, true);
    for part in [0.1, 0.4, 0.8, 1.0] {
        w.harness.hover_at(from + (to - from) * part);
        w.harness.step();
    }
    button(w, to, false);
    w.settle();
}

/// Returns the tab of a panel.
fn tab(w: &Window, title: &str) -> egui::Rect {
    let all = w.harness.query_all_by_label(title);
    let tabs = all.filter(|n| n.rect().height() < 40.0);
    tabs.map(|n| n.rect()).next().unwrap()
}

/// Returns the label of the widget that has the focus.
fn focused(w: &Window) -> Option<String> {
    let node = w.harness.query_all(By::new()).find(|n| n.is_focused());
    node.and_then(|n| n.accesskit_node().label())
}

/// Presses a key and returns the label of the widget that then has the focus.
fn press(w: &mut Window, key: Key) -> String {
    w.harness.key_press(key);
    w.settle();
    focused(w).unwrap_or_default()
}

#[test]
fn saved_copy_has_edits_or_original_and_the_window_shows_which() {
    let mut w = Window::open_sample("digits.kine");
    let input = w.input();
    let white: Vec<u8> = [1.0f32; 24].iter().flat_map(|v| v.to_le_bytes()).collect();
    assert!(w.doc().edit(&input, 0, white));
    w.settle();
    let edited = w.doc().buffer_now(&input).unwrap().0;
    let (with, plain) = (w.folder.path().join("one.kine"), w.folder.path().join("two.kine"));
    assert!(w.run("save-kine"));
    assert!(w.has_part(&format!("Edited: {input}")));
    w.will_choose(&with);
    w.click("Save with 1 edit");
    assert!(w.has("Saved one.kine, with 1 edit"), "{:?}", w.app().last_error());
    w.click("Dismiss");
    assert!(w.app().saved.is_none());
    w.will_choose(&plain);
    w.run("save-kine");
    w.click("Save as recorded");
    assert!(w.has("Saved two.kine, as recorded"));
    let recorded = w.doc().recording.clone();

    // After reopening, one copy holds the edited content and the other the recorded content.
    w.start(&with);
    assert!(w.doc().changes().is_empty());
    assert_eq!(w.doc().buffer_now(&input).unwrap().0, edited);
    assert_eq!(w.doc().recording.metadata.applied_edits[0].buffer, input);
    // The recorded outputs belong to the unedited input, so other outputs are expected.
    w.run("replay");
    w.run("show-replay");
    w.settle();
    assert!(w.doc().replay.outcome.is_some());
    assert!(w.has_part("with the edits of this copy") && !w.has_part("elements differ from the recording, the first"));
    w.start(&plain);
    assert_ne!(w.doc().buffer_now(&input).unwrap().0, edited);
    let back = trace_core::container::open(&plain).unwrap();
    assert_eq!(back.memory.pages.len(), recorded.memory.pages.len());
    assert!(back.metadata.applied_edits.is_empty());
}

#[test]
fn copying_without_edits_asks_nothing_and_cancel_saves_nothing() {
    let mut w = Window::open_sample("digits.kine");
    let to = w.folder.path().join("copy.kine");
    w.will_choose(&to);
    w.run("save-kine");
    assert!(to.is_file() && w.has("Saved copy.kine, as recorded"));
    w.edit();
    let none = w.folder.path().join("none.kine");
    w.will_choose(&none);
    w.run("save-kine");
    w.click("Cancel");
    assert!(!none.exists() && !w.has_part("Save a copy of"));
}

#[test]
fn a_panel_dragged_to_the_right_half_of_the_tabs_splits_the_group() {
    let mut w = Window::open_sample("vecadd.kine");
    w.run("show-events");
    let panel = layout::panel_rect(&w.app().dock, "events").unwrap();
    let from = tab(&w, "Memory").center();
    drag(&mut w, from, panel.center() + egui::vec2(panel.width() * 0.25, 0.0));
    let titles = ["Horizontal", "Vertical", "Tabs", "Grid"];
    assert!(
        titles.iter().all(|t| !w.has(t)),
        "no tab is named after the layout of its tiles"
    );
    let Some(Dock::Column { children, .. }) = layout::dock(&w.app().dock) else {
        panic!("{:?}", layout::dock(&w.app().dock))
    };
    let Some(Dock::Row { children, .. }) = children.last() else {
        panic!("{children:?}")
    };
    let [Dock::Tabs { children: left, .. }, Dock::Tabs { children: right, .. }] = &children[..] else {
        panic!("{children:?}")
    };
    let id = |d: &Dock| match d {
        Dock::Panel { id } => id.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(right.iter().map(id).collect::<Vec<_>>(), ["memory"]);
    let left: Vec<String> = left.iter().map(id).collect();
    assert!(
        left.len() > 8 && left[0] == "events" && !left.contains(&"memory".to_owned()),
        "{left:?}"
    );
    assert!(
        layout::active_panels(&w.app().dock).contains(&"memory")
            && layout::active_panels(&w.app().dock).contains(&"events")
    );
    // Reopening the recording restores the layout.
    let (path, saved) = (w.doc().path.clone(), layout::dock(&w.app().dock));
    w.app().close();
    w.start(&path);
    assert_eq!(layout::dock(&w.app().dock), saved);
}

#[test]
fn window_title_names_its_recording() {
    let mut w = Window::empty();
    let titles = |w: &Window| -> Vec<String> {
        let out = w.harness.output().viewport_output.values();
        let commands = out.flat_map(|v| v.commands.iter());
        let titles = commands.filter_map(|c| match c {
            egui::ViewportCommand::Title(t) => Some(t.clone()),
            _ => None,
        });
        titles.collect()
    };
    let copy = w.folder.path().join("digits.kine");
    std::fs::copy(samples().join("digits.kine"), &copy).unwrap();
    let recording = trace_core::container::open(&copy).unwrap();
    let derived = kinescope_session::derive::derive(&recording, &Progress::new()).unwrap();
    let doc = kinescope_session::Document::new(copy, recording.into(), derived.into());
    w.app().show_document(doc);
    w.harness.step();
    assert_eq!(titles(&w), ["digits.kine - Kinescope"]);
    w.app().close();
    w.harness.step();
    assert_eq!(titles(&w), ["Kinescope"]);
}

#[test]
fn window_placement_survives_maximizing_and_restart() {
    let mut w = Window::open_sample("vecadd.kine");
    let root = egui::ViewportId::ROOT;
    let place = |w: &mut Window, at: Pos2, size: egui::Vec2, maximized: bool| {
        let viewport = w.harness.input_mut().viewports.entry(root).or_default();
        viewport.inner_rect = Some(egui::Rect::from_min_size(at, size));
        viewport.outer_rect = viewport.inner_rect;
        viewport.maximized = Some(maximized);
        w.harness.step();
    };
    place(&mut w, egui::pos2(40.0, 30.0), egui::vec2(1100.0, 700.0), false);
    place(&mut w, egui::pos2(0.0, 0.0), egui::vec2(1920.0, 1080.0), true);
    let expected = WindowPlace {
        at: Some([40.0, 30.0]),
        size: [1100.0, 700.0],
        maximized: true,
    };
    assert_eq!(w.app().settings.window(), expected);
    w.app().settings.save();
    let folder = w.app().settings.folder().unwrap().to_owned();
    assert_eq!(Settings::load(Some(folder)).window(), expected);
}

#[test]
fn restored_comparison_keeps_the_panel_layout() {
    let mut w = Window::open_sample("vecadd.kine");
    let other = w.folder.path().join("other.kine");
    std::fs::copy(sample(), &other).unwrap();
    let ctx = w.harness.ctx.clone();
    w.app().compare(&ctx, ComparisonSource::File(other.clone()));
    w.settle();
    assert!(w.doc().comparison.done.is_some());
    w.run("show-memory");
    let path = w.doc().path.clone();
    w.app().close();
    w.app().open(&ctx, path.clone());
    w.settle();
    let done = w.doc().comparison.done.clone().expect("the comparison is restored");
    assert!(matches!(&done.other.source, ComparisonSource::File(p) if *p == other));
    assert!(w.is_panel_active("memory"), "the active panel is restored");
    // A missing second recording is no error: the comparison is empty and there is no notice.
    w.app().close();
    std::fs::remove_file(&other).unwrap();
    w.app().open(&ctx, path);
    w.settle();
    assert!(w.doc().comparison.done.is_none() && w.app().notice.is_none());
}

#[test]
fn outline_rows_are_one_tab_stop_with_arrow_navigation() {
    let mut w = Window::open_sample("digits.kine");
    // The focus goes from the first pane into the outline.
    w.harness.key_press(Key::F6);
    w.settle();
    assert_eq!(focused(&w).as_deref(), Some("Pane Outline"));
    w.harness.key_press(Key::Tab);
    w.settle();
    let first = focused(&w).unwrap();
    w.harness.key_press(Key::ArrowDown);
    w.settle();
    let second = focused(&w).unwrap();
    assert_ne!(first, second, "the next row has the focus");
    w.harness.key_press(Key::ArrowDown);
    w.harness.key_press(Key::ArrowUp);
    w.settle();
    assert_eq!(focused(&w).unwrap(), second);
    w.harness.key_press(Key::ArrowUp);
    w.settle();
    assert_eq!(focused(&w).unwrap(), first);
    // Tab leaves the list, and Shift Tab returns to the same row.
    w.harness.key_press(Key::ArrowDown);
    w.settle();
    w.harness.key_press(Key::Tab);
    w.settle();
    let outside = focused(&w);
    assert!(
        outside.as_deref() != Some(&*first) && outside.as_deref() != Some(&*second),
        "{outside:?}"
    );
    w.harness.key_press_modifiers(Modifiers::SHIFT, Key::Tab);
    w.settle();
    assert_eq!(focused(&w).as_deref(), Some(&*second));
}

#[test]
fn table_rows_are_one_tab_stop_with_arrow_navigation() {
    let mut w = Window::open_sample("digits.kine");
    w.run("show-jobs");
    w.settle();
    let mut pane = String::new();
    for _ in 0..4 {
        pane = press(&mut w, Key::F6);
        if pane == "Pane Jobs" {
            break;
        }
    }
    assert_eq!(pane, "Pane Jobs");
    let is_row = |label: &str| {
        label
            .strip_prefix("job ")
            .is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
    };
    let mut row = press(&mut w, Key::Tab);
    for _ in 0..20 {
        if is_row(&row) {
            break;
        }
        row = press(&mut w, Key::Tab);
    }
    assert_eq!(row, "job 0");
    assert_eq!(press(&mut w, Key::ArrowDown), "job 1");
    assert_eq!(press(&mut w, Key::ArrowDown), "job 2");
    assert_eq!(press(&mut w, Key::ArrowUp), "job 1");
    assert_eq!(press(&mut w, Key::PageDown), "job 3", "the last job has the focus");
    assert_eq!(
        press(&mut w, Key::ArrowDown),
        "job 3",
        "the focus stays at the last job"
    );
    assert_eq!(press(&mut w, Key::ArrowUp), "job 2");
    // Enter acts like a click. Tab then visits the links of the row and no other row.
    press(&mut w, Key::Enter);
    assert_eq!(*w.doc().selection(), Selection::Job(2));
    let mut stops = Vec::new();
    for _ in 0..8 {
        stops.push(press(&mut w, Key::Tab));
    }
    assert!(!stops.iter().any(|s| is_row(s)), "{stops:?}");
    assert!(stops.iter().any(|s| s.starts_with("job 2 done at")), "{stops:?}");
}

/// Tests that a list longer than its panel scrolls with the keyboard.
#[test]
fn arrows_go_to_rows_that_are_out_of_view() {
    let digits = samples().join("digits.kine");
    let mut w = Window::open_file_sized(&digits, ThemeChoice::Dark, [1024.0, 420.0], 1.0);
    w.run("show-register");
    // At an event that is not an access, the panel offers all registers.
    let other = (0..w.doc().len()).find(|e| w.doc().recording.events.access(*e as usize).is_none());
    w.doc().go_with(other.unwrap(), Selection::Event);
    w.settle();
    w.harness.get_by_label("Find register").focus();
    w.settle();
    // The header is the first tab stop. Enter opens and closes its menu of columns.
    assert_eq!(press(&mut w, Key::Tab), "Columns of registers");
    press(&mut w, Key::Enter);
    assert!(w.has("Fit all columns"));
    w.harness.get_by_label("Columns of registers").focus();
    press(&mut w, Key::Enter);
    assert!(!w.has("Fit all columns"));
    w.harness.get_by_label("Columns of registers").focus();
    let first = press(&mut w, Key::Tab);
    assert!(first.starts_with("register "), "{first}");
    let mut seen = vec![first];
    for _ in 0..30 {
        let now = press(&mut w, Key::ArrowDown);
        if seen.last() == Some(&now) {
            break;
        }
        assert!(
            now.starts_with("register ") && !seen.contains(&now),
            "{now} after {seen:?}"
        );
        seen.push(now);
    }
    let last = seen.last().unwrap().clone();
    let at = w.harness.get_by_label(&last).rect();
    assert!(at.bottom() <= 420.0, "{last} is in view: {at:?}");
    assert!(seen.len() > 12, "{seen:?}");
}

#[test]
fn f6_cycles_through_the_panes() {
    let mut w = Window::open_sample("digits.kine");
    let mut seen = Vec::new();
    for _ in 0..5 {
        w.harness.key_press(Key::F6);
        w.settle();
        seen.push(focused(&w).unwrap_or_default());
    }
    assert_eq!(seen[0], "Pane Outline");
    assert_eq!(seen[1], "Pane Timeline");
    assert!(seen[2].starts_with("Pane ") && seen[2] != seen[1], "{seen:?}");
    assert_eq!(seen[3], "Pane Inspector");
    assert_eq!(seen[4], "Pane Outline", "the first pane follows the last one");
    w.harness.key_press_modifiers(Modifiers::SHIFT, Key::F6);
    w.settle();
    assert_eq!(focused(&w).as_deref(), Some("Pane Inspector"));
}

/// Tests that an arrow key moves in the list of its pane or along the timeline, and never to a button.
#[test]
fn arrow_keys_stay_inside_their_pane() {
    let mut w = Window::open_sample("digits.kine");
    w.run("show-jobs");
    w.settle();
    assert_eq!(press(&mut w, Key::F6), "Pane Outline");
    let row = press(&mut w, Key::ArrowDown);
    assert!(!row.is_empty() && !row.starts_with("Pane "), "{row}");
    let next = press(&mut w, Key::ArrowDown);
    assert_ne!(row, next);
    let mut pane = press(&mut w, Key::F6);
    while pane != "Pane Timeline" {
        pane = press(&mut w, Key::F6);
    }
    let before = w.doc().current_event();
    assert_eq!(press(&mut w, Key::ArrowRight), "Pane Timeline");
    assert_eq!(w.doc().current_event(), before + 1);
    press(&mut w, Key::ArrowLeft);
    assert_eq!(
        (press(&mut w, Key::ArrowUp).as_str(), w.doc().current_event()),
        ("Pane Timeline", before)
    );
    assert_eq!(press(&mut w, Key::F6), "Pane Jobs");
    assert_eq!(press(&mut w, Key::ArrowDown), "job 0");
    assert_eq!(press(&mut w, Key::ArrowDown), "job 1");
    w.run("show-events");
    w.harness.key_press(Key::Escape);
    w.settle();
    while pane != "Pane Events" {
        pane = press(&mut w, Key::F6);
    }
    let before = w.doc().current_event();
    press(&mut w, Key::ArrowDown);
    assert_eq!(w.doc().current_event(), before + 1);
}

#[test]
fn ctrl_0_resets_the_zoom() {
    let mut w = Window::open_sample("digits.kine");
    w.run("larger");
    assert_eq!(w.app().settings.scale(), 110);
    w.harness.key_press_modifiers(Modifiers::COMMAND, Key::Num0);
    w.settle();
    assert_eq!(w.app().settings.scale(), 100);
}

#[test]
fn changes_of_another_window_are_reported() {
    let mut first = Window::open_sample("digits.kine");
    let path = first.doc().path.clone();
    first.edit();
    // A second window opens the same recording and closes normally.
    let recording = trace_core::container::open(&path).unwrap();
    let derived = kinescope_session::derive::derive(&recording, &Progress::new()).unwrap();
    let mut second = kinescope_session::Document::new(path.clone(), recording.into(), derived.into());
    assert!(second.note(3, Some("seen in the second window".into())));
    let _ = second.flush_journal();
    second.close();
    drop(second);
    first.app().close();
    first.start(&path);
    assert!(first.has("1 change was made in another window."));
    first.click("Restore");
    assert!(first.doc().changes().notes().contains_key(&3));
}
