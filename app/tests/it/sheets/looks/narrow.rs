//! Tests of the window on a small screen: what folds, what hides and what stays readable.

use crate::common::{Window, assert_themes_differ_only_in_colours, sample};
use egui::accesskit::Role;
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use kinescope::theme::ThemeChoice;
use kinescope_session::cursors::Cursor;

/// A laptop's screen of 1280 by 800 pixels at a scale of one and a half.
const LAPTOP: [f32; 2] = [853.0, 533.0];

fn laptop(theme: ThemeChoice) -> Window {
    let mut w = Window::open_file_sized(&sample(), theme, LAPTOP, 1.5);
    w.app().settings.hints_read = 9;
    w.doc().go_job(0);
    w.settle();
    w
}

fn resize(w: &mut Window, width: f32) {
    w.harness.set_size(egui::vec2(width, 700.0));
    w.settle();
}

#[test]
fn inspector_hides_in_narrow_windows_and_returns_in_wide_ones() {
    let mut w = Window::open();
    resize(&mut w, 990.0);
    assert!(!w.app().inspector && w.app().outline);
    assert!(
        w.app().workspace().unwrap().inspector.shown,
        "the workspace keeps the inspector open"
    );
    resize(&mut w, 1200.0);
    assert!(w.app().inspector);
    // The inspector opens on request, and stays closed after the user closes it.
    resize(&mut w, 853.0);
    w.click("inspector");
    assert!(w.app().inspector);
    w.run("toggle-inspector");
    resize(&mut w, 1200.0);
    assert!(!w.app().inspector);
}

#[test]
fn event_table_between_side_panels_keeps_a_readable_width() {
    let mut w = laptop(ThemeChoice::Dark);
    w.run("toggle-inspector");
    let table = w.harness.get_by_label("Event table").rect();
    assert!(table.width() >= 400.0, "{table:?}");
}

#[test]
fn active_panel_tab_is_visible_on_a_laptop() {
    let mut w = laptop(ThemeChoice::Dark);
    let is_visible = |w: &mut Window, tab: &str| {
        let at = w.harness.get_by_role_and_label(Role::Button, tab).rect();
        at.left() >= 0.0 && at.right() <= LAPTOP[0] + 1.0
    };
    for more in ["show-compare", "show-plots", "show-screen"] {
        w.run(more);
    }
    w.run("show-events");
    w.settle();
    assert!(
        is_visible(&mut w, "Events") && !is_visible(&mut w, "Screen"),
        "not all tabs fit"
    );
    for (command, tab) in [
        ("show-log", "Log"),
        ("show-events", "Events"),
        ("show-problems", "Findings"),
        ("show-notebook", "Notebook"),
    ] {
        w.run(command);
        w.settle();
        assert!(is_visible(&mut w, tab), "{tab}");
    }
    // The active tab stays visible when the inspector narrows the tabs.
    w.run("show-problems");
    w.settle();
    w.run("toggle-inspector");
    w.settle();
    assert!(w.app().inspector && is_visible(&mut w, "Findings"));
    w.run("toggle-inspector");
    // The tabs stay where the user scrolls them.
    w.run("show-log");
    w.settle();
    for _ in 0..3 {
        if w.has("Scroll tabs left") {
            w.click("Scroll tabs left");
        }
        for _ in 0..40 {
            w.settle();
        }
    }
    assert!(is_visible(&mut w, "Events") && !is_visible(&mut w, "Screen"));
}

#[test]
fn tabs_are_compressed_before_one_is_hidden() {
    let mut w = Window::open();
    w.run("show-compare");
    for _ in 0..4 {
        w.settle();
        w.harness.step();
        let at = w.harness.get_by_role_and_label(Role::Button, "Compare").rect();
        let end = w.harness.get_by_label("Timeline lanes").rect().right();
        assert!(at.right() <= end + 12.0, "{at:?} {end}");
        assert!(!w.has("Scroll tabs right") && !w.has("Scroll tabs left"));
    }
}

#[test]
fn events_on_a_laptop_dark() {
    laptop(ThemeChoice::Dark).harness.snapshot("events_laptop_dark");
}

#[test]
fn events_on_a_laptop_in_every_theme() {
    assert_themes_differ_only_in_colours(laptop);
}

#[test]
fn status_bar_items_never_overlap() {
    for (size, scale) in [
        ([1024.0, 700.0], 1.0),
        ([683.0, 467.0], 1.5),
        ([480.0, 467.0], 1.5),
        ([1600.0, 900.0], 1.0),
    ] {
        let mut w = Window::open_file_sized(&sample(), ThemeChoice::Dark, size, scale);
        w.doc().set_cursor(Cursor::A, 3);
        w.doc().set_cursor(Cursor::B, 40);
        w.settle();
        w.edit();
        let top = size[1] - 36.0;
        let parts: Vec<_> = w
            .harness
            .query_all_by(|n| matches!(n.role(), Role::Label | Role::Button))
            // A plain text has a value and no label.
            .map(|n| {
                let node = n.accesskit_node();
                (node.label().or_else(|| node.value()).unwrap_or_default(), n.rect())
            })
            .filter(|(_, r)| r.top() >= top && r.width() > 0.0)
            .collect();
        assert!(
            parts.iter().any(|(l, _)| l.starts_with("event ")),
            "{size:?} at {scale}: {parts:?}"
        );
        for (i, (name, a)) in parts.iter().enumerate() {
            assert!(a.right() <= size[0], "{name} leaves the window at {size:?}");
            for (other, b) in &parts[i + 1..] {
                let over = a.intersect(*b);
                assert!(over.width() <= 0.5, "{name} overlaps {other} at {size:?}: {a:?} {b:?}");
            }
        }
        let hints = parts
            .iter()
            .filter(|(l, _)| l == "all keys" || l == "move" || l == "step")
            .count();
        assert!(
            size[0] < 1600.0 || hints == 3,
            "a wide window has every hint: {parts:?}"
        );
    }
}
