//! Tests of table columns: they are dragged, fitted, hidden, chosen and scrolled sideways.

use crate::common::net::net;
use crate::common::{Window, samples};
use crate::panels::hands::double_click;
use egui::{Event, Modifiers, PointerButton, Pos2, pos2, vec2};
use egui_kittest::kittest::Queryable as _;
use kinescope::theme::ThemeChoice;

fn button(w: &mut Window, pos: Pos2, button: PointerButton, pressed: bool) {
    w.harness.event(Event::PointerButton {
        pos,
        button,
        pressed,
        modifiers: Modifiers::NONE,
    });
    w.harness.step();
}

fn drag(w: &mut Window, from: Pos2, by: f32) {
    w.harness.hover_at(from);
    w.harness.step();
    button(w, from, PointerButton::Primary, true);
    for part in [0.4, 1.0] {
        w.harness.hover_at(from + vec2(by * part, 0.0));
        w.harness.step();
    }
    button(w, from + vec2(by, 0.0), PointerButton::Primary, false);
    w.settle();
}

fn edge(w: &Window, column: &str) -> Pos2 {
    w.harness.get_by_label(&format!("Width of {column}")).rect().center()
}

fn menu(w: &mut Window, table: &str) {
    let head = w.harness.get_by_label(&format!("Columns of {table}")).rect();
    let at = pos2(head.left() + 20.0, head.center().y);
    w.harness.hover_at(at);
    w.harness.step();
    button(w, at, PointerButton::Secondary, true);
    button(w, at, PointerButton::Secondary, false);
    w.settle();
}

#[test]
fn column_width_is_dragged_fitted_and_reset() {
    let mut w = Window::open();
    let before = edge(&w, "register");
    drag(&mut w, before, 60.0);
    let after = edge(&w, "register");
    assert!((after.x - before.x - 60.0).abs() < 2.0, "{before} to {after}");
    let dragged = w.app().workspace().unwrap().tables["events"].widths["register"];
    assert!(dragged > 100.0, "{dragged}");
    // A double click fits the column to the visible rows.
    double_click(&mut w, after);
    let fitted = w.app().workspace().unwrap().tables["events"].widths["register"];
    assert!(fitted != dragged, "{fitted}");
    w.run("reset-columns");
    assert!((edge(&w, "register").x - before.x).abs() < 1.0);
}

#[test]
fn columns_are_chosen_in_the_menu_of_the_head() {
    let mut w = Window::open();
    assert!(w.has("Width of means"));
    menu(&mut w, "events");
    w.click("means");
    assert!(!w.has("Width of means"), "the column is hidden");
    w.click("means");
    assert!(w.has("Width of means"), "the column is back, and the menu stayed open");
}

#[test]
fn empty_columns_are_hidden_and_can_be_shown() {
    let mut w = Window::from_recording(net(2).recording);
    for (panel, hidden) in [
        ("show-events", ["value", "register", "job"].as_slice()),
        ("show-launches", &["result"]),
    ] {
        w.run(panel);
        for column in hidden {
            assert!(!w.has(&format!("Width of {column}")), "{panel}: {column}");
        }
    }
    w.run("show-events");
    menu(&mut w, "events");
    w.click("job");
    assert!(w.has("Width of job"));
}

#[test]
fn small_windows_show_the_meaning_column() {
    let file = samples().join("vecadd.kine");
    let w = Window::open_file_sized(&file, ThemeChoice::Dark, [1024.0, 700.0], 1.0);
    for column in ["event", "register", "value", "means"] {
        assert!(w.has(&format!("Width of {column}")), "{column}");
    }
}

#[test]
fn a_table_that_is_wider_than_its_panel_scrolls_sideways() {
    let mut w = Window::open();
    let from = edge(&w, "means");
    // The test makes the column wider than the panel.
    drag(&mut w, from, -60.0);
    let tables = w.app().workspace().unwrap().tables;
    let mut own = tables.clone();
    own.get_mut("events").unwrap().widths.insert("means".into(), 2000.0);
    w.app().actions.tables = kinescope::theme::columns::Tables::from_workspace(&own);
    w.settle();
    assert!(w.has("events sideways"), "the table has a horizontal scroll bar");
    let before = w.harness.get_by_label("Width of event").rect().left();
    let bar = w.harness.get_by_label("events sideways").rect();
    drag(&mut w, bar.left_center() + vec2(20.0, 0.0), bar.width() / 2.0);
    let after = w.harness.get_by_label("Width of event").rect().left();
    assert!(after < before - 100.0, "{before} to {after}");
}

#[test]
fn every_table_has_columns_that_can_be_dragged() {
    let mut w = Window::open_sample("vecadd.kine");
    for (panel, table, column) in [
        ("show-events", "events", "register"),
        ("show-jobs", "jobs", "submit"),
        ("show-problems", "problems", "message"),
    ] {
        w.run(panel);
        assert!(w.has(&format!("Columns of {table}")), "{table}");
        let from = edge(&w, column);
        drag(&mut w, from, -25.0);
        let tables = w.app().workspace().unwrap().tables;
        assert_eq!(tables[table].widths.len(), 1, "{table}: {tables:?}");
    }
    let mut w = Window::from_recording(net(2).recording);
    w.run("show-launches");
    let from = edge(&w, "kernel");
    drag(&mut w, from, 30.0);
    assert!(
        w.app().workspace().unwrap().tables["launches"]
            .widths
            .contains_key("kernel")
    );
}
