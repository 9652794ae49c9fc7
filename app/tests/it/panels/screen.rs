//! Tests of Screen: the picture at the current event, its format, the stores of a pixel, and differences.

use crate::common::Window;
use crate::common::screen_recording::{HEIGHT, HOLE, TWICE, WIDTH, color, screen_recording};
use egui_kittest::kittest::Queryable as _;
use kinescope::panels::contents::screen::PictureKind;
use kinescope_files::scene::Selection;
use kinescope_session::screen::FormatSource;
use trace_core::recording::Recording;
use trace_core::screen::{PixelBounds, PixelFormat, StoreState};

/// Opens the synthetic recording with Screen in front, after its last event.
fn open() -> Window {
    let mut w = Window::from_recording(screen_recording());
    w.run("show-screen");
    w.run("last-event");
    w
}

fn rgb(c: u32) -> [u8; 3] {
    [(c >> 16) as u8, (c >> 8) as u8, c as u8]
}

/// Returns the window position of a pixel of the picture, which fits the panel.
fn pixel_position(w: &mut Window, [x, y]: [u32; 2]) -> egui::Pos2 {
    let area = w.harness.get_by_label("Screen picture").rect();
    let zoom = ((area.width() - 16.0) / WIDTH as f32)
        .min((area.height() - 16.0) / HEIGHT as f32)
        .floor();
    let corner = area.center() - egui::vec2(WIDTH as f32, HEIGHT as f32) * zoom / 2.0;
    corner + egui::vec2(x as f32 + 0.5, y as f32 + 0.5) * zoom
}

fn press(w: &mut Window, at: egui::Pos2) {
    presses(w, at, 1);
}

/// Clicks several times, fast enough for a double click.
fn presses(w: &mut Window, at: egui::Pos2, times: usize) {
    // A frame takes a quarter of a second here.
    w.harness
        .ctx
        .options_mut(|o| o.input_options.max_double_click_delay = 10.0);
    w.harness.hover_at(at);
    w.harness.step();
    for pressed in [true, false].repeat(times) {
        w.harness.event(egui::Event::PointerButton {
            pos: at,
            button: egui::PointerButton::Primary,
            pressed,
            modifiers: egui::Modifiers::NONE,
        });
    }
    w.harness.step();
}

#[test]
fn screen_follows_the_current_event_and_marks_unknown_pixels() {
    let mut w = open();
    let picture = w.views().screen.drawn().unwrap().clone();
    assert_eq!((picture.width(), picture.height()), (WIDTH, HEIGHT));
    assert_eq!(picture.pixel(0, 0), Some(rgb(color(0, 0))));
    assert_eq!(picture.known_at(HOLE[0], HOLE[1]), Some(StoreState::Never));
    let hole = u64::from((HOLE[2] - HOLE[0]) * (HOLE[3] - HOLE[1]));
    assert_eq!(picture.counts().never, hole);
    assert!(w.has_part(&format!("{hole} pixels never stored")));
    // Halfway through the recording, the lower rows are not drawn yet.
    let half = w.doc().len() / 2;
    w.doc().go(half);
    w.settle();
    let now = w.views().screen.drawn().unwrap().clone();
    assert_eq!(now.pixel(0, 0), Some(rgb(color(0, 0))));
    assert_eq!(now.pixel(0, HEIGHT - 1), None);
    // Before event 6 no mode is set, so there is no screen.
    w.doc().go(2);
    w.settle();
    assert!(w.views().screen.drawn().is_none());
    assert!(w.has_part("there is no screen") || w.has("Go to event 6, the first with a screen"));
    w.click("Go to event 6, the first with a screen");
    assert_eq!(w.doc().current_event(), 6);
    assert_eq!(w.views().screen.drawn().unwrap().counts().known, 0);
}

#[test]
fn pixel_lists_and_links_its_stores() {
    let mut w = open();
    let at = pixel_position(&mut w, TWICE);
    press(&mut w, at);
    w.settle();
    assert_eq!(w.views().screen.pixel, Some(TWICE));
    let stores = w.views().screen.stores.clone().unwrap().found.unwrap();
    let n = w.doc().len();
    assert_eq!(stores.list.len(), 3);
    let first = stores.list[0].event;
    assert_eq!(
        stores.list.iter().map(|s| s.event).collect::<Vec<_>>(),
        [first, n - 2, n - 1]
    );
    assert!(w.has_part("#00ff00"), "the colour is shown");
    w.click(&format!("store at event {first}"));
    assert_eq!(w.doc().current_event(), first);
    assert_eq!(
        w.views().screen.drawn().unwrap().pixel(TWICE[0], TWICE[1]),
        Some(rgb(color(20, 10)))
    );
    assert!(w.run("next-pixel-store"));
    assert_eq!(w.doc().current_event(), n - 2);
    assert!(w.run("next-pixel-store"));
    assert!(!w.run("next-pixel-store"), "there is no later store");
    assert!(w.run("previous-pixel-store"));
    assert_eq!(w.doc().current_event(), n - 2);
    // The arrow keys move the pixel. Another event stores to its neighbour.
    w.harness.get_by_label("Screen picture").focus();
    w.settle();
    w.harness.key_press(egui::Key::ArrowRight);
    w.settle();
    assert_eq!(w.views().screen.pixel, Some([TWICE[0] + 1, TWICE[1]]));
    let neighbour = w.views().screen.stores.clone().unwrap().found.unwrap();
    assert_eq!(neighbour.list.iter().map(|s| s.event).collect::<Vec<_>>(), [first + 1]);
    w.click("Clear the pixel");
    assert_eq!(w.views().screen.pixel, None);
}

#[test]
fn two_clicks_on_a_pixel_go_to_the_event_that_set_it() {
    let mut w = open();
    let at = pixel_position(&mut w, [5, 7]);
    presses(&mut w, at, 2);
    w.settle();
    assert_eq!(w.doc().current_event(), 7 + u64::from(7 * WIDTH + 5));
}

#[test]
fn screen_format_can_be_entered_and_errors_are_shown() {
    let mut w = open();
    assert_eq!(w.views().screen.source(), FormatSource::Registers);
    w.click("Form by hand");
    let FormatSource::Manual(f) = w.views().screen.source() else {
        panic!("the format is not manual");
    };
    assert_eq!((f.width, f.height, f.pixel), (WIDTH, HEIGHT, PixelFormat::Xrgb8888));
    w.enter("Screen height", "40");
    assert_eq!(w.views().screen.drawn().unwrap().height(), 40);
    w.enter("Screen pitch", "2");
    assert!(w.has_part("the pitch of 2 bytes is less than a row"));
    assert_eq!(
        w.views().screen.drawn().unwrap().height(),
        40,
        "the last valid format stays"
    );
    w.click("Form from registers");
    assert_eq!(w.views().screen.drawn().unwrap().height(), HEIGHT);
    assert!(!w.has_part("less than a row"));
}

#[test]
fn the_recorded_picture_is_shown_and_compared() {
    let mut w = open();
    w.click("Show recorded");
    assert_eq!(w.views().screen.picture_kind, PictureKind::Recorded);
    w.click("Show difference");
    let c = w.views().screen.comparison().unwrap().clone();
    let pixel = PixelBounds {
        left: TWICE[0],
        top: TWICE[1],
        right: TWICE[0],
        bottom: TWICE[1],
    };
    assert_eq!((c.differing, c.bounds), (1, Some(pixel)));
    assert!(w.has_part("differ, by"));
    assert!(w.has_part("not known, not compared"));
    w.click("Show replayed");
    assert_eq!(
        w.views().screen.picture_kind,
        PictureKind::Difference,
        "nothing was replayed"
    );
}

#[test]
fn the_picture_zooms_about_the_pointer_and_fits_again() {
    let mut w = open();
    let before = w.views().screen.zoom;
    assert_eq!(before, None);
    w.click("Zoom picture in");
    let one = w.views().screen.zoom.unwrap();
    w.click("Zoom picture in");
    assert!(w.views().screen.zoom.unwrap() > one);
    w.click("Zoom picture out");
    assert_eq!(w.views().screen.zoom, Some(one));
    w.click("Fit the picture");
    assert_eq!(w.views().screen.zoom, None);
}

#[test]
fn screen_panel_reports_a_missing_framebuffer() {
    let mut w = Window::open();
    w.run("show-screen");
    assert!(w.has_part("holds no framebuffer"));
    w.click("Show events");
    assert!(w.is_panel_active("events"));
}

#[test]
fn screen_format_is_manual_without_a_known_display() {
    let mut r: Recording = screen_recording();
    r.register_trace_mut().unwrap().hardware = None;
    let mut w = Window::from_recording(r);
    w.run("show-screen");
    w.run("last-event");
    assert!(matches!(w.views().screen.source(), FormatSource::Manual(_)));
    w.enter("Screen width", &WIDTH.to_string());
    w.enter("Screen height", &HEIGHT.to_string());
    w.enter("Screen pitch", &(WIDTH * 4).to_string());
    assert_eq!(w.views().screen.drawn().unwrap().pixel(0, 0), Some(rgb(color(0, 0))));
}

#[test]
fn selected_pixel_shows_everywhere_with_its_stores() {
    let mut w = open();
    let offset = u64::from((TWICE[1] * WIDTH + TWICE[0]) * 4);
    let selection = |offset| Selection::Framebuffer {
        space: 1,
        offset,
        bytes: 4,
    };
    let at = pixel_position(&mut w, TWICE);
    press(&mut w, at);
    w.settle();
    assert_eq!(*w.doc().selection(), selection(offset));
    let events = &w.doc().recording.events;
    let stores: Vec<u64> = (0..events.len())
        .filter(|e| {
            let a = events.access(*e);
            a.is_some_and(|a| a.space == 1 && u64::from(a.offset.get()) == offset)
        })
        .map(|e| e as u64)
        .collect();
    let found: Vec<Option<u64>> = w.doc().xrefs.event_xrefs().iter().map(|t| t.event).collect();
    assert_eq!(found, stores.iter().map(|e| Some(*e)).collect::<Vec<_>>());
    assert!(stores.len() == 3 && w.doc().xrefs.event_xrefs().iter().all(|t| t.access.may_write()));
    assert!(w.has("20, 10 of the screen") && w.has(&format!("Trail of bar0 + {offset:#x}..{:#x}", offset + 4)));
    // The last store is the current event, so the store before it is the last writer.
    w.run("last-writer");
    assert_eq!(
        (w.doc().current_event(), w.doc().selection().clone()),
        (stores[1], selection(offset))
    );
    w.run("previous-touch");
    assert_eq!(
        (w.doc().current_event(), w.doc().selection().clone()),
        (stores[0], selection(offset))
    );
    w.run("next-pixel-store");
    assert_eq!(
        (w.doc().current_event(), w.doc().selection().clone()),
        (stores[1], selection(offset))
    );
    w.harness.key_press(egui::Key::ArrowRight);
    w.settle();
    assert_eq!(*w.doc().selection(), selection(offset + 4));
    assert!(w.has("21, 10 of the screen") && w.doc().xrefs.event_xrefs().len() == 1);
    // Going back also restores the pixel.
    w.run("back");
    assert_eq!(
        (w.doc().selection().clone(), w.views().screen.pixel),
        (selection(offset), Some(TWICE))
    );
}

#[test]
fn selecting_a_pixel_does_not_move_the_picture() {
    let mut w = open();
    let before = w.harness.get_by_label("Screen picture").rect();
    assert!(
        w.has_part("Click a pixel"),
        "the panel reserves room for the history of a pixel"
    );
    let at = pixel_position(&mut w, TWICE);
    press(&mut w, at);
    w.settle();
    assert_eq!(w.views().screen.pixel, Some(TWICE));
    assert_eq!(w.harness.get_by_label("Screen picture").rect(), before);
    // The same position selects the same pixel.
    press(&mut w, at);
    w.settle();
    assert_eq!(w.views().screen.pixel, Some(TWICE));
    // The inspector lists as many events as it counts.
    let n = w.doc().xrefs.event_xrefs().len();
    assert!((1..=7).contains(&n), "{n} events");
    let listed = w.harness.query_all_by_label_contains("reference event ").count();
    assert_eq!(listed, n);
}
