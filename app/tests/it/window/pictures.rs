//! Pictures of the window, a panel in front, in both themes.

use crate::common::Window;
use crate::common::net::net;
use crate::common::screen_recording::{TWICE, screen_recording};
use kinescope::document::moment::Selection;
use kinescope::panels::inputs::ViewMode;
use kinescope::panels::screen::PictureKind;
use kinescope::theme::ThemeChoice;
use trace_core::recording::ElementType;

fn picture(name: &str, panel: &str, theme: ThemeChoice) {
    let mut w = Window::open_with(theme, 1.0);
    // Hints and the path of the copy differ from run to run; the name of the file does not.
    w.app().settings.hints_read = 9;
    w.doc().go_job(0);
    w.run(panel);
    w.settle();
    w.harness.snapshot(name);
}

/// The code of a shader with a loop; the sample that the others show runs none.
fn code(name: &str, theme: ThemeChoice, scale: f32) {
    let file = crate::common::samples().join("matmul.kine");
    let mut w = Window::open_file(&file, theme, scale);
    w.app().settings.hints_read = 9;
    w.doc().go_job(0);
    w.run("show-shader");
    w.settle();
    w.harness.snapshot(name);
}

#[test]
fn shader_dark() {
    code("shader_dark", ThemeChoice::Dark, 1.0);
}

#[test]
fn shader_light() {
    code("shader_light", ThemeChoice::Light, 1.5);
}

/// The screen of a recording that draws, a pixel of it chosen.
fn screen(name: &str, what: PictureKind, theme: ThemeChoice) {
    let mut w = Window::from_recording_themed(screen_recording(), theme);
    w.app().settings.hints_read = 9;
    w.run("show-screen");
    w.run("last-event");
    w.views().screen.pixel = Some(TWICE);
    w.views().screen.picture_kind = what;
    w.settle();
    w.harness.snapshot(name);
}

/// A recording of calls: a launch with memory on both sides, and a panel in front.
fn calls(name: &str, panel: &str, theme: ThemeChoice) {
    let n = net(3);
    let mut w = Window::from_recording_themed(n.recording, theme);
    w.app().settings.hints_read = 9;
    w.doc().go(n.around);
    if panel == "show-memory" {
        w.doc().select(Selection::Memory {
            space: 0,
            va: n.scores,
            bytes: 4,
        });
        w.views().memory.element = Some(ElementType::F32);
        w.run("before-after");
    }
    if panel == "show-inputs" {
        // The image of all runs, with a few of its pixels made white.
        let white = [1f32; 6].iter().flat_map(|f| f.to_le_bytes()).collect::<Vec<u8>>();
        for row in 4..9 {
            assert!(w.doc().edit("in2", (row * 28 + 6) * 4, white.clone()));
        }
        w.doc().select(Selection::Buffer("in2".into()));
    }
    w.run(panel);
    w.settle();
    w.harness.snapshot(name);
}

#[test]
fn inputs_of_calls_dark() {
    calls("inputs_of_calls_dark", "show-inputs", ThemeChoice::Dark);
}

#[test]
fn inputs_of_calls_light() {
    calls("inputs_of_calls_light", "show-inputs", ThemeChoice::Light);
}

#[test]
fn launches_dark() {
    calls("launches_dark", "show-launches", ThemeChoice::Dark);
}

#[test]
fn launches_light() {
    calls("launches_light", "show-launches", ThemeChoice::Light);
}

#[test]
fn kernel_dark() {
    calls("kernel_dark", "show-kernel", ThemeChoice::Dark);
}

#[test]
fn kernel_light() {
    calls("kernel_light", "show-kernel", ThemeChoice::Light);
}

#[test]
fn device_memory_dark() {
    calls("device_memory_dark", "show-memory", ThemeChoice::Dark);
}

#[test]
fn device_memory_light() {
    calls("device_memory_light", "show-memory", ThemeChoice::Light);
}

#[test]
fn screen_dark() {
    screen("screen_dark", PictureKind::Stores, ThemeChoice::Dark);
}

#[test]
fn screen_light() {
    screen("screen_light", PictureKind::Stores, ThemeChoice::Light);
}

#[test]
fn screen_difference_dark() {
    screen("screen_difference_dark", PictureKind::Difference, ThemeChoice::Dark);
}

/// A page-table entry that the CPU wrote between two jobs, with what wrote and read it.
#[test]
fn entry_dark() {
    let mut w = Window::open_sample("changes.kine");
    w.app().settings.hints_read = 9;
    w.run("show-page-tables");
    w.run("last-event");
    w.doc().select(Selection::Buffer("late".into()));
    w.run("select-entry");
    w.run("last-writer");
    w.harness.snapshot("entry_dark");
}

/// A pixel of a picture, whose bytes are selected.
#[test]
fn pixel_light() {
    let file = crate::common::samples().join("conv3x3.kine");
    let mut w = Window::open_file(&file, ThemeChoice::Light, 1.0);
    w.app().settings.hints_read = 9;
    w.run("show-inputs");
    w.doc().select(Selection::Buffer("src".into()));
    w.views().inputs.show = Some(ViewMode::Picture);
    w.views().inputs.shape = Some(("src".into(), kinescope::panels::inputs::shape::rows(64 * 48, 64)));
    w.settle();
    w.click("Picture of src");
    w.settle();
    w.harness.snapshot("pixel_light");
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
    events_contrast "show-events" Contrast
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
    register_contrast "show-register" Contrast
}
