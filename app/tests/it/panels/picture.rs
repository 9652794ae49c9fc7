//! Tests of pictures in Inputs: painting, plots and histograms.

use crate::common::Window;
use crate::panels::hands::{at_once, button, bytes, double_click, floats};
use egui_kittest::kittest::Queryable as _;
use kinescope::panels::runs::inputs::shape::{Layout, Shape};
use kinescope::panels::runs::inputs::{Brush, ViewMode};
use kinescope_files::changes::Change;
use kinescope_files::scene::Selection;
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::recording::ElementType;

#[test]
fn each_paint_stroke_is_one_change() {
    let mut w = floats();
    let before = bytes(&mut w, "x");
    w.click("Values as Picture");
    w.click("Paint");
    w.views().inputs.brush = Some(Brush {
        value: 9.0,
        colour: [255; 3],
        size: 2,
    });
    w.settle();
    let rect = w.harness.get_by_label("Picture of x").rect();
    let px = rect.width() / 32.0;
    let at = |x: f32, y: f32| rect.min + egui::vec2((x + 0.5) * px, (y + 0.5) * px);
    w.harness.hover_at(at(4.0, 6.0));
    w.harness.drag_at(at(4.0, 6.0));
    w.harness.hover_at(at(20.0, 6.0));
    w.settle();
    assert!(w.doc().changes().is_empty(), "a stroke becomes a change when it ends");
    w.harness.drop_at(at(20.0, 6.0));
    w.settle();
    assert_eq!(w.doc().changes().len(), 1);
    assert!(w.doc().changes().last().unwrap().title().starts_with("paint"));
    let now = bytes(&mut w, "x");
    let value = |i: usize| f32::from_le_bytes(now[i * 4..i * 4 + 4].try_into().unwrap());
    for x in 4..20 {
        assert_eq!(value(6 * 32 + x), 9.0, "pixel {x}, 6");
        assert_eq!(value(5 * 32 + x), 9.0, "the brush is two pixels high");
    }
    assert_eq!(now[8 * 128..], before[8 * 128..], "the rows below are unchanged");
    w.run("undo");
    assert!(bytes(&mut w, "x") == before);
}

#[test]
fn values_are_plotted_and_counted() {
    let mut w = floats();
    w.click("Values as Plot");
    assert_eq!(w.views().inputs.show, Some(ViewMode::Plot));
    assert!(w.has("Plot of x"));
    w.click("value 2");
    w.views().inputs.field = "1000000".into();
    w.click("Set");
    let s = Arc::clone(w.views().inputs.summary().unwrap());
    assert!(s.was.is_some() && s.now.range().unwrap().1 == 1e6);
    w.click("Values as Histogram");
    assert!(w.has("Histogram of x"));
    assert_eq!(s.bars.iter().sum::<u64>(), 1024);
    assert_eq!(s.bars.last(), Some(&1));
    // A click on the plot selects the value under the pointer.
    w.click("Values as Plot");
    w.views().inputs.editing = None;
    w.click("Plot of x");
    assert!(w.views().inputs.editing.is_some());
}

/// Tests plots without a height: all values are equal, or so large that neighbouring numbers are the same.
#[test]
fn buffers_of_every_element_type_can_be_displayed() {
    for file in ["write-value.kine", "saxpy.kine"] {
        let mut w = Window::open_sample(file);
        w.run("show-inputs");
        let names: Vec<String> = w
            .doc()
            .recording
            .metadata
            .buffers
            .iter()
            .map(|b| b.name.clone())
            .collect();
        for name in names {
            w.doc().select(Selection::Buffer(name.clone()));
            for e in ElementType::ALL {
                let new = Some(e.name().to_owned());
                assert!(w.doc().change(Change::Element {
                    buffer: name.clone(),
                    old: None,
                    new
                }));
                for (show, label) in [
                    (ViewMode::Plot, "Plot of"),
                    (ViewMode::Histogram, "Histogram of"),
                    (ViewMode::Picture, "Picture of"),
                ] {
                    w.views().inputs.show = Some(show);
                    w.settle();
                    let shown = w.has_part(label) || w.has_part("finite number") || w.has_part("make a row");
                    assert!(shown, "{name} as {} by {label}", e.name());
                }
            }
        }
        w.run("show-memory");
        for e in ElementType::ALL {
            w.views().memory.element = Some(e);
            w.views().memory.plot = true;
            w.settle();
            assert!(w.has("Plot of memory") || w.has_part("none is finite"), "{}", e.name());
        }
    }
}

/// Returns the middle of a pixel of the picture of `x`, which is `across` pixels wide.
fn pixel(w: &Window, across: f32, [x, y]: [f32; 2]) -> egui::Pos2 {
    let rect = w.harness.get_by_label("Picture of x").rect();
    rect.min + egui::vec2(x + 0.5, y + 0.5) * (rect.width() / across)
}

fn click(w: &mut Window, at: egui::Pos2) {
    w.harness.hover_at(at);
    w.settle();
    at_once(w, vec![button(at, true), button(at, false)]);
}

#[test]
fn clicked_pixel_selects_its_bytes_and_finds_its_reader() {
    let mut w = floats();
    w.click("Values as Picture");
    w.doc().go(0);
    w.settle();
    let va = w.doc().recording.buffer("x").unwrap().va.get();
    let element = |n: u64| Selection::Memory {
        space: 0,
        va: GpuVa::new(va + n * 4),
        bytes: 4,
    };
    let at = pixel(&w, 32.0, [5.0, 6.0]);
    click(&mut w, at);
    assert_eq!(*w.doc().selection(), element(6 * 32 + 5));
    assert!(w.has("pixel 5, 6") && w.has("picture x · 32×32 grey"));
    assert!(w.views().inputs.editing.is_none(), "a click selects and does not edit");
    w.run("next-reader");
    let submit = w.doc().derived.jobs[0].submit;
    assert_eq!(
        (w.doc().current_event(), w.doc().selection().clone()),
        (submit, element(6 * 32 + 5))
    );
    // Arrows move the selection inside the border. Enter and a double click start an edit.
    for (key, n) in [
        (egui::Key::ArrowDown, 7 * 32 + 5),
        (egui::Key::ArrowLeft, 7 * 32 + 4),
        (egui::Key::ArrowUp, 6 * 32 + 4),
        (egui::Key::ArrowRight, 6 * 32 + 5),
    ] {
        w.harness.key_press(key);
        w.settle();
        assert_eq!(*w.doc().selection(), element(n), "{key:?}");
    }
    w.harness.key_press(egui::Key::Enter);
    w.settle();
    assert_eq!(w.views().inputs.editing, Some(6 * 32 + 5));
    w.harness.key_press(egui::Key::Escape);
    w.settle();
    let at = pixel(&w, 32.0, [0.0, 0.0]);
    double_click(&mut w, at);
    assert_eq!(w.views().inputs.editing, Some(0));
    assert!(w.doc().changes().is_empty());
}

#[test]
fn coloured_pixel_selects_its_bytes_or_links_to_its_planes() {
    let mut w = floats();
    w.click("Values as Picture");
    let va = w.doc().recording.buffer("x").unwrap().va.get();
    let shape = |layout| Shape {
        width: 8,
        height: 8,
        tiles: 1,
        layout,
    };
    let selection = |at: u64, bytes: u64| Selection::Memory {
        space: 0,
        va: GpuVa::new(va + at),
        bytes,
    };
    w.views().inputs.shape = Some(("x".into(), shape(Layout::Interleaved)));
    w.settle();
    let at = pixel(&w, 8.0, [3.0, 1.0]);
    click(&mut w, at);
    assert_eq!(*w.doc().selection(), selection(11 * 12, 12));
    assert!(w.has("pixel 3, 1"));
    w.views().inputs.shape = Some(("x".into(), shape(Layout::Planes)));
    w.settle();
    let at = pixel(&w, 8.0, [3.0, 1.0]);
    click(&mut w, at);
    assert_eq!(*w.doc().selection(), selection(11 * 4, 4));
    assert!(w.has("pixel 3, 1 · red"));
    w.click(&format!("blue {:#x}", va + (128 + 11) * 4));
    assert_eq!(*w.doc().selection(), selection((128 + 11) * 4, 4));
    assert!(w.has("pixel 3, 1 · blue"));
}
