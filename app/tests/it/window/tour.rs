//! Tests of the tour: it is offered once, advances by its commands or by its buttons, and can be left at any time.

use crate::common::Window;
use kinescope::commands::COMMANDS;
use kinescope::theme::ThemeChoice;
use kinescope::window::{App, PickResult, Settings, Setup, Tour};
use std::sync::Arc;

fn step(w: &mut Window) -> Option<usize> {
    w.app().tour.as_ref().and_then(|t| t.step())
}

/// Opens a window at the first step of the tour.
fn begin_tour() -> Window {
    take_tour(Window::empty())
}

fn take_tour(mut w: Window) -> Window {
    assert!(w.has("Here for the first time?"));
    w.click("Take the tour");
    w.settle();
    assert_eq!(step(&mut w), Some(1), "{:?}", w.app().last_error());
    w
}

#[test]
fn every_tour_step_names_an_existing_command() {
    assert_eq!(Tour::goals().len(), 8);
    for goal in Tour::goals() {
        assert!(COMMANDS.iter().any(|c| c.id == goal), "{goal}");
    }
}

#[test]
fn tour_advances_when_its_commands_run() {
    let mut w = begin_tour();
    assert!(w.has("Tour, 1 of 8: Timeline") && w.has("J goes to the next job."));
    assert_eq!(w.doc().title, "vecadd.kine");
    // A command other than the requested one leaves the step unchanged.
    w.run("next-event");
    assert_eq!(step(&mut w), Some(1));
    for (n, (id, panel, next)) in [
        ("next-job", "events", "Tour, 2 of 8: Events"),
        ("next-event", "register", "Tour, 3 of 8: Register"),
        ("next-touch", "memory", "Tour, 4 of 8: Memory"),
        ("next-reader", "page-tables", "Tour, 5 of 8: Page tables"),
        ("select-entry", "inputs", "Tour, 6 of 8: Inputs"),
    ]
    .into_iter()
    .enumerate()
    {
        assert!(w.run(id), "{id} cannot run at step {}, which asks for it", n + 1);
        assert_eq!(step(&mut w), Some(n + 2), "{id}");
        assert!(w.is_panel_active(panel) && w.has(next), "{next}");
    }
    assert!(
        w.has_part("The inspector shows the last writer of the entry"),
        "the tour describes the last action"
    );
    // Opening the field is not enough, because the step asks for an edit. The user can continue without one.
    w.run("edit-input");
    assert_eq!(step(&mut w), Some(6));
    w.click("On in the tour");
    assert_eq!(step(&mut w), Some(7));
    w.run("replay");
    w.settle();
    assert_eq!(step(&mut w), Some(8));
    assert!(w.doc().replay.outcome.is_some() && w.is_panel_active("compare"));
    w.run("compare-outcome");
    w.settle();
    assert!(w.has("That was the tour") && w.doc().comparison.done.is_some());
    w.click("On in the tour");
    assert!(w.app().tour.is_none() && w.doc().changes().is_empty());
}

#[test]
fn tour_steps_back_and_forth_and_ends_on_escape() {
    let mut w = begin_tour();
    for n in 2..=8 {
        w.click("On in the tour");
        assert_eq!(step(&mut w), Some(n));
    }
    for n in (1..=7).rev() {
        w.click("Back in the tour");
        assert_eq!(step(&mut w), Some(n));
    }
    // The tour stays open next to any panel and any sheet.
    w.run("show-log");
    assert!(w.is_panel_active("log") && step(&mut w) == Some(1));
    w.run("help");
    w.harness.key_press(egui::Key::Escape);
    w.settle();
    assert!(
        !w.app().help && step(&mut w) == Some(1),
        "Escape closes the sheet first"
    );
    w.harness.key_press(egui::Key::Escape);
    w.settle();
    assert_eq!(step(&mut w), None);
    assert!(w.app().doc.is_some(), "the sample stays open");
    // The tour can start again, and it ends when its recording is closed.
    assert!(w.run("tour"));
    assert_eq!(step(&mut w), Some(1));
    w.click("Leave the tour");
    assert!(w.app().tour.is_none());
    w.run("tour");
    w.run("close");
    assert!(
        w.app().tour.is_none() && !w.has("Here for the first time?"),
        "the tour is offered only once"
    );
    let settings = Settings::load(Some(w.folder.path().join("settings")));
    assert!(settings.tour_seen);
}

#[test]
fn tour_names_the_users_shortcuts() {
    let mut w = Window::empty();
    let settings = w.folder.path().join("settings");
    std::fs::create_dir_all(&settings).unwrap();
    std::fs::write(settings.join("keys.toml"), "next-job = \"Y\"\nnext-event = \"\"\n").unwrap();
    let ctx = w.harness.ctx.clone();
    let setup = Setup {
        settings: Some(settings),
        theme: Some(ThemeChoice::Dark),
        target: None,
        chooser: Arc::new(|_| PickResult::Cancelled),
        commands: COMMANDS,
    };
    *w.app() = App::new(&ctx, setup);
    w.settle();
    let mut w = take_tour(w);
    assert!(w.has("Y goes to the next job."));
    w.harness.key_press(egui::Key::Y);
    w.settle();
    assert_eq!(step(&mut w), Some(2));
    // The tour names the palette for a command without a key.
    assert!(w.has("Ctrl P and “Next event” goes to the next event."));
}

#[test]
fn tour_can_be_dismissed_permanently() {
    let mut w = Window::empty();
    w.click("Not now");
    assert!(!w.has("Here for the first time?") && w.app().tour.is_none());
    assert!(Settings::load(Some(w.folder.path().join("settings"))).tour_seen);
}

#[test]
fn tour_is_not_offered_after_opening_a_recording() {
    let mut w = Window::open_sample("vecadd.kine");
    w.run("close");
    assert!(!w.has("Here for the first time?") && w.has("Open file…"));
}

fn check_picture(name: &str, theme: ThemeChoice, steps: usize) {
    let mut w = take_tour(Window::sized(theme, 1.0));
    // An earlier run may have left the sample with another layout.
    for id in ["reset-layout", "axis-order", "fit"] {
        assert!(w.run(id));
    }
    w.settle();
    // If its panel was in front, Inputs already knows the pixel of the selected bytes, and Memory its number of rows.
    w.views().inputs = Default::default();
    w.views().memory = Default::default();
    w.app().tour = None;
    w.run("tour");
    for _ in 1..steps {
        w.click("On in the tour");
    }
    w.settle();
    w.harness.snapshot(name);
}

#[test]
fn tour_dark() {
    check_picture("tour_dark", ThemeChoice::Dark, 1);
}

#[test]
fn tour_light() {
    check_picture("tour_light", ThemeChoice::Light, 5);
}

#[test]
fn tour_contrast() {
    check_picture("tour_contrast", ThemeChoice::Contrast, 4);
}
