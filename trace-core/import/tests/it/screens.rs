//! Screens at the end of recordings of real drivers, against their pictures.

use crate::recordings;
use trace_core::progress::Progress;
use trace_core::screen::{
    Comparison, Display, Framebuffer, PixelBounds, RenderedScreen, compare_where, framebuffer_spaces,
};

/// Returns the picture at the end of a recording, from its stores and registers only, and the reference picture.
fn end(name: &str) -> Option<(RenderedScreen, Comparison, Display)> {
    let log = recordings("mmiotrace")?.join(format!("{name}.txt.gz"));
    let p = Progress::new();
    let r = crate::open(&log);
    let spaces = framebuffer_spaces(&r, &p).unwrap();
    let fb = Framebuffer::build(&r, spaces[0], &p).unwrap();
    let display = Display::read(&r, &p).unwrap().unwrap();
    assert_eq!(display.framebuffer(), Some(spaces[0]));
    let last = r.events.len() as u64 - 1;
    let shown = display.after(last);
    let format = shown.mode.screen.unwrap();
    format.check(fb.bytes()).unwrap();
    assert!(!shown.mode.cursor);
    let drawn = RenderedScreen::new(&fb.after(last), &format, &shown.palette);
    let truth = r.expected_screen().unwrap().unwrap();
    let c = compare_where(&drawn.to_picture([255, 0, 255]).unwrap(), &truth, drawn.known()).unwrap();
    Some((drawn, c, display))
}

#[test]
fn rage_128_screen_matches_its_stores_in_every_pixel() {
    let Some((drawn, c, display)) = end("rage128p-aty128fb") else {
        return;
    };
    assert_eq!((drawn.width(), drawn.height()), (640, 480));
    assert_eq!((c.compared, c.differing), (640 * 480, 0));
    assert_eq!(display.engine_runs(u64::MAX), 0);
}

#[test]
fn rv100_screen_differs_only_where_its_engine_drew() {
    let Some((drawn, c, display)) = end("rv100-radeonfb") else {
        return;
    };
    assert_eq!((drawn.width(), drawn.height()), (1280, 800));
    assert_eq!(c.compared, 1280 * 800);
    // The engine draws a line without length during setup. At the end, it fills the lowest 16 rows, over text from
    // stores.
    assert_eq!(display.engine_runs(u64::MAX), 2);
    assert_eq!(c.differing, 922);
    let PixelBounds {
        left,
        top,
        right,
        bottom,
    } = c.bounds.unwrap();
    assert!(top >= 784 && bottom < 800, "{left} {top} {right} {bottom}");
    assert_eq!(c.worst, 170);
}

#[test]
fn undecoded_stores_leave_only_their_pixels_unknown() {
    let Some((drawn, c, _)) = end("rage128p-aty128fb-memcpy") else {
        return;
    };
    let counts = drawn.counts();
    // A program wrote 64 rows through the framebuffer device file.
    assert_eq!((counts.lost, counts.never), (64 * 640, 0));
    // The blinking text cursor covers two rows of a letter. The screenshot is older than the end of the log.
    let bounds = PixelBounds {
        left: 0,
        top: 350,
        right: 7,
        bottom: 351,
    };
    assert_eq!((c.differing, c.bounds), (16, Some(bounds)));
}
