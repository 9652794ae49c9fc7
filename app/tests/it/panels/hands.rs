//! Helpers of the panel tests: pointer actions, and the sample that most tests open.

use crate::common::Window;
use egui_kittest::kittest::Queryable as _;
use kinescope_files::scene::Selection;
use kinescope_session::derived_data::DerivedData;
use kinescope_session::xref_text;
use trace_core::recording::{ElementType, Recording};
use trace_core::xref::{AccessKind, Reference, XrefTarget};

/// Opens a sample with an input `x` of 1024 numbers of 32 bits.
pub fn saxpy() -> Window {
    let mut w = Window::open_sample("saxpy.kine");
    w.run("show-inputs");
    w.doc().select(Selection::Buffer("x".into()));
    w.settle();
    w
}

/// Opens the same sample and reads the elements of `x` as floats.
pub fn floats() -> Window {
    let mut w = saxpy();
    let b = w.doc().recording.buffer("x").unwrap().clone();
    if w.doc().element(&b) != ElementType::F32 {
        w.click("Element type");
        w.click("f32");
    }
    assert_eq!(w.doc().element(&b), ElementType::F32);
    w
}

pub fn bytes(w: &mut Window, name: &str) -> Vec<u8> {
    w.doc().buffer_now(name).unwrap().0
}

pub fn edited(w: &mut Window, name: &str) -> bool {
    w.doc().changes().inputs().contains_key(name)
}

/// Sends several events in one frame, as fast user input does.
pub fn at_once(w: &mut Window, events: Vec<egui::Event>) {
    w.harness.input_mut().events.extend(events);
    w.settle();
}

pub fn button(pos: egui::Pos2, pressed: bool) -> egui::Event {
    egui::Event::PointerButton {
        pos,
        button: egui::PointerButton::Primary,
        pressed,
        modifiers: egui::Modifiers::NONE,
    }
}

pub fn double_click(w: &mut Window, pos: egui::Pos2) {
    w.harness.hover_at(pos);
    w.settle();
    at_once(
        w,
        vec![
            button(pos, true),
            button(pos, false),
            button(pos, true),
            button(pos, false),
        ],
    );
}

/// Clicks a widget and returns the text that it copies. `settle` would discard the text, so the helper steps single
/// frames.
pub fn click_and_copied(w: &mut Window, label: &str) -> String {
    w.harness.get_by_label(label).click();
    let mut out = String::new();
    for _ in 0..4 {
        w.harness.step();
        for c in &w.harness.output().platform_output.commands {
            if let egui::OutputCommand::CopyText(t) = c {
                out.clone_from(t);
            }
        }
    }
    out
}

/// A reference with its words.
#[derive(Clone, Debug)]
pub struct ReferenceRow {
    pub kind: &'static str,
    pub description: String,
    pub event: Option<u64>,
    pub access: AccessKind,
    pub is_page_only: bool,
}

/// Returns references of a target with their words.
pub fn reference_rows(
    recording: &Recording,
    derived: &DerivedData,
    target: XrefTarget,
    list: &[Reference],
) -> Vec<ReferenceRow> {
    let row = |t: &Reference| ReferenceRow {
        kind: xref_text::item_label(&t.item),
        description: xref_text::describe(recording, derived, target, t),
        event: t.event,
        access: t.access,
        is_page_only: t.is_page_only,
    };
    list.iter().map(row).collect()
}

/// Returns the references that Memory lists.
pub fn list_references(w: &mut Window) -> Vec<ReferenceRow> {
    let references = w.views().memory.references.clone().unwrap();
    let target = XrefTarget::Bytes {
        space: references.space,
        va: references.va,
        bytes: 1,
    };
    let doc = w.doc();
    reference_rows(&doc.recording, &doc.derived, target, &references.list.unwrap())
}
