//! Pictures of the window, each with one panel in front. One theme has the picture, and a test compares the texts of
//! all themes.

use crate::common::net::net;
use crate::common::screen_recording::{TWICE, screen_recording};
use crate::common::{Window, assert_themes_differ_only_in_colours};
use kinescope::panels::contents::screen::PictureKind;
use kinescope::panels::runs::inputs::ViewMode;
use kinescope::theme::ThemeChoice;
use kinescope_files::scene::Selection;
use trace_core::GpuVa;
use trace_core::recording::ElementType;

/// Opens the sample at its first job, with a panel in front.
fn panel(command: &str, theme: ThemeChoice) -> Window {
    let mut w = Window::open_with(theme, 1.0);
    // Hints and the path of the copy differ from run to run; the name of the file does not.
    w.app().settings.hints_read = 9;
    w.doc().go_job(0);
    w.run(command);
    w.settle();
    w
}

/// Opens the code of a shader with a loop. The sample of the other pictures runs no shader.
fn shader(theme: ThemeChoice, scale: f32) -> Window {
    let file = crate::common::samples().join("matmul.kine");
    let mut w = Window::open_file(&file, theme, scale);
    w.app().settings.hints_read = 9;
    w.doc().go_job(0);
    w.run("show-shader");
    w.settle();
    w
}

/// Opens the screen of a recording that draws, with a chosen pixel.
fn screen(kind: PictureKind, theme: ThemeChoice) -> Window {
    let mut w = Window::from_recording_themed(screen_recording(), theme);
    w.fix_targets();
    w.app().settings.hints_read = 9;
    w.run("show-screen");
    w.run("last-event");
    w.views().screen.pixel = Some(TWICE);
    w.views().screen.picture_kind = kind;
    w.settle();
    w
}

/// Opens an API trace at a launch with memory before and after it, with a panel in front.
fn calls(command: &str, theme: ThemeChoice) -> Window {
    let n = net(3);
    let mut w = Window::from_recording_themed(n.recording, theme);
    w.fix_targets();
    w.app().settings.hints_read = 9;
    w.doc().go(n.around);
    if command == "show-memory" {
        w.doc().select(Selection::Memory {
            space: 0,
            va: GpuVa::new(n.scores),
            bytes: 4,
        });
        w.views().memory.element = Some(ElementType::F32);
        w.run("before-after");
    }
    if command == "show-inputs" {
        // The image of all runs gets a few white pixels.
        let white = [1f32; 6].iter().flat_map(|f| f.to_le_bytes()).collect::<Vec<u8>>();
        for row in 4..9 {
            assert!(w.doc().edit("in2", (row * 28 + 6) * 4, white.clone()));
        }
        w.doc().select(Selection::Buffer("in2".into()));
    }
    w.run(command);
    w.settle();
    w
}

/// Opens an API trace with ranges and names of memory that the program gave, at its first launch.
fn annotated(theme: ThemeChoice) -> Window {
    let file = crate::common::samples().join("cuda/annotated.kine");
    let mut w = Window::open_file(&file, theme, 1.0);
    w.fix_targets();
    w.app().settings.hints_read = 9;
    let first = w.doc().api_trace().unwrap().launches()[0].event;
    w.doc().go(first);
    w.run("show-launches");
    w.settle();
    w
}

/// Compares pictures of the lanes of ranges, with the names of memory in the launches.
#[test]
fn program_ranges_dark() {
    annotated(ThemeChoice::Dark).harness.snapshot("program_ranges_dark");
}

#[test]
fn program_ranges_light() {
    annotated(ThemeChoice::Light).harness.snapshot("program_ranges_light");
}

#[test]
fn program_ranges_in_every_theme() {
    assert_themes_differ_only_in_colours(annotated);
}

#[test]
fn launches_show_the_names_that_the_program_gave() {
    let mut w = annotated(ThemeChoice::Dark);
    for name in ["c sum", "a left", "b right"] {
        assert!(w.has(name), "{name}");
    }
    assert!(!w.has_part("alloc 0 + 0x"));
    // The outline lists the parts of the allocation, and the inspector names the bytes of a part.
    w.click("outline buffer right");
    let Selection::Memory { va, .. } = *w.doc().selection() else {
        panic!("{:?}", w.doc().selection());
    };
    w.doc().select(Selection::Memory {
        space: 0,
        va: va.saturating_add(0x10),
        bytes: 4,
    });
    w.settle();
    assert!(w.has_part("right + 0x10") && w.has("device buffer right"));
}

/// Compares a picture at a scale of one and a half.
#[test]
fn shader_light() {
    shader(ThemeChoice::Light, 1.5).harness.snapshot("shader_light");
}

#[test]
fn shader_in_every_theme() {
    assert_themes_differ_only_in_colours(|theme| shader(theme, 1.0));
}

#[test]
fn screen_light() {
    let mut w = screen(PictureKind::Stores, ThemeChoice::Light);
    w.harness.snapshot("screen_light");
}

#[test]
fn screen_difference_dark() {
    let mut w = screen(PictureKind::Difference, ThemeChoice::Dark);
    w.harness.snapshot("screen_difference_dark");
}

#[test]
fn screen_in_every_theme() {
    assert_themes_differ_only_in_colours(|theme| {
        let mut w = screen(PictureKind::Stores, theme);
        assert!(w.has("Target qemu:bochs-display") && w.has("Safety: software"));
        assert_eq!(w.doc().replay.lacks("qemu:bochs-display"), None);
        w
    });
}

/// Compares a picture of a page-table entry that the CPU wrote between two jobs, with its references.
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

/// Compares a picture of a chosen pixel, whose bytes are selected.
#[test]
fn pixel_light() {
    let file = crate::common::samples().join("conv3x3.kine");
    let mut w = Window::open_file(&file, ThemeChoice::Light, 1.0);
    w.app().settings.hints_read = 9;
    w.run("show-inputs");
    w.doc().select(Selection::Buffer("src".into()));
    w.views().inputs.show = Some(ViewMode::Picture);
    w.views().inputs.shape = Some(("src".into(), kinescope::panels::runs::inputs::shape::rows(64 * 48, 64)));
    w.settle();
    w.click("Picture of src");
    w.settle();
    w.harness.snapshot("pixel_light");
}

macro_rules! pictures {
    ($($name:ident $make:ident $command:literal $theme:ident)*) => {
        $(#[test]
        fn $name() {
            $make($command, ThemeChoice::$theme).harness.snapshot(stringify!($name));
        })*
    };
}

pictures! {
    events_light panel "show-events" Light
    events_contrast panel "show-events" Contrast
    page_tables_dark panel "show-page-tables" Dark
    inputs_dark panel "show-inputs" Dark
    memory_light panel "show-memory" Light
    register_light panel "show-register" Light
    inputs_of_calls_light calls "show-inputs" Light
    kernel_dark calls "show-kernel" Dark
    device_memory_dark calls "show-memory" Dark
}

macro_rules! themes {
    ($($name:ident $make:ident $command:literal)*) => {
        $(#[test]
        fn $name() {
            assert_themes_differ_only_in_colours(|theme| $make($command, theme));
        })*
    };
}

themes! {
    events_in_every_theme panel "show-events"
    page_tables_in_every_theme panel "show-page-tables"
    jobs_in_every_theme panel "show-jobs"
    inputs_in_every_theme panel "show-inputs"
    replay_in_every_theme panel "show-replay"
    memory_in_every_theme panel "show-memory"
    register_in_every_theme panel "show-register"
    inputs_of_calls_in_every_theme calls "show-inputs"
    launches_in_every_theme calls "show-launches"
    kernel_in_every_theme calls "show-kernel"
    device_memory_in_every_theme calls "show-memory"
}
