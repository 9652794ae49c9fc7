//! The WebAssembly panel: copies of a program by state, the program's text with active lanes, streams of a copy.

mod bar;
mod copies;
mod details;
mod navigation;
mod program;
pub mod view;

pub use navigation::go_next_trap;
pub use view::View;

use crate::panels::common::actions::UiActions;
use crate::theme::{icons, palette, widgets};
use egui::{Rect, Stroke, Ui, UiBuilder};
use kinescope_session::Document;
use kinescope_session::derived_data::Stage;
use kinescope_session::wasm_run::{self, WasmRunData};
use std::sync::Arc;
use trace_core::finding::FindingKind;
use view::Content;

/// Width from which copies, program and details are columns, points.
const WIDE: f32 = 1080.0;
/// Width below which they are above each other, points.
const NARROW: f32 = 640.0;
/// Minimum and maximum width of the copies, points.
const COPIES: (f32, f32) = (348.0, 420.0);
/// Width of the details in a wide panel, points.
const DETAILS: f32 = 330.0;

/// Draws the panel.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    if !wasm_run::is_wasm_run(&doc.recording) {
        let message = "This recording is not a WebAssembly run. `kinescope wasm run --record FILE` records one: this \
                       panel shows its copies, the program and the active lanes of a GPU.";
        if widgets::empty_state(ui, icons::CPU, message, Some("Show events")) {
            actions.run_command("show-events");
        }
        return;
    }
    read(doc, view, actions);
    let data = match view.content.clone() {
        Content::Reading => {
            widgets::empty_state(
                ui,
                icons::HOURGLASS_SIMPLE_MEDIUM,
                "Reading the run and printing its program…",
                None,
            );
            return;
        }
        Content::Failed(why) => {
            let message = describe_failure(doc, &why);
            if widgets::empty_state(ui, icons::WARNING_CIRCLE, &message, Some("Show events")) {
                actions.run_command("show-events");
            }
            return;
        }
        Content::Read(data) => data,
    };
    follow(doc, view, &data);
    bar::ui(doc, view, ui, &data);
    let full = ui.available_rect_before_wrap();
    let [copies, program, details] = divide(full);
    let line = Stroke::new(1.0, palette(ui).line);
    for rect in [program, details] {
        if rect.top() > full.top() {
            ui.painter().hline(rect.x_range(), rect.top(), line);
        }
        if rect.left() > full.left() {
            ui.painter().vline(rect.left(), rect.y_range(), line);
        }
    }
    let parts: [(&str, Rect); 3] = [("copies", copies), ("program", program), ("details", details)];
    for (name, rect) in parts {
        let mut child = ui.new_child(UiBuilder::new().id_salt(name).max_rect(rect.shrink(1.0)));
        child.shrink_clip_rect(rect);
        match name {
            "copies" => copies::ui(doc, view, actions, &mut child, &data),
            "program" => program::ui(view, actions, &mut child, &data),
            _ => details::ui(doc, view, actions, &mut child, &data),
        }
    }
    ui.advance_cursor_after_rect(full);
}

/// Describes why the run cannot be shown, and what to do.
fn describe_failure(doc: &Document, why: &str) -> String {
    let mut findings = doc.recording.metadata.findings.iter();
    match findings.find(|f| f.kind == FindingKind::TruncatedSection) {
        Some(cut) => format!(
            "The run cannot be shown, because the file is truncated: {}: {}. Copy the file again, or record the run again.",
            cut.place, cut.message
        ),
        None => format!("The run cannot be shown: {why}. `kinescope check` lists what is damaged."),
    }
}

/// Divides the panel into copies, program and details.
fn divide(full: Rect) -> [Rect; 3] {
    if full.width() < NARROW {
        let (copies, rest) = full.split_top_bottom_at_y(full.top() + (full.height() * 0.3).round());
        let (program, details) = rest.split_top_bottom_at_y(rest.top() + (rest.height() * 0.6).round());
        return [copies, program, details];
    }
    let width = (full.width() * 0.34).clamp(COPIES.0, COPIES.1).round();
    let (left, right) = full.split_left_right_at_x(full.left() + width);
    if full.width() < WIDE {
        let (copies, details) = left.split_top_bottom_at_y(left.top() + (left.height() * 0.54).round());
        return [copies, right, details];
    }
    let (program, details) = right.split_left_right_at_x(right.right() - DETAILS);
    [left, program, details]
}

/// Prints the program in the background if the panel shows another recording. The copies of the run are derived data.
fn read(doc: &Document, view: &mut View, actions: &mut UiActions) {
    let key = Arc::as_ptr(&doc.recording) as usize;
    if view.key == Some(key) {
        return;
    }
    if let Some(before) = view.reading.take() {
        before.cancel();
    }
    *view = View {
        request: view.request.take(),
        ..View::default()
    };
    let copies = match doc.derived.wasm_run.clone() {
        Some(Ok(copies)) => copies,
        Some(Err(why)) => {
            view.key = Some(key);
            view.content = Content::Failed(why);
            return;
        }
        None if doc.derived.has_stage(Stage::Run) || doc.derivation.is_none() => {
            view.content = Content::Failed("it was not read; open it again".to_owned());
            return;
        }
        None => return,
    };
    view.key = Some(key);
    view.reading = Some(
        actions.start_work::<View>("printing the WebAssembly program", move |progress| {
            let data = Arc::new(WasmRunData::new(copies, progress));
            Box::new(move |doc, view, _| {
                if view.key == Some(key) {
                    view.set_data(doc, data);
                }
            })
        }),
    );
}

/// Selects the copy of the event that the user went to.
fn follow(doc: &Document, view: &mut View, data: &Arc<WasmRunData>) {
    if view.seen_jump == doc.jumps {
        return;
    }
    view.seen_jump = doc.jumps;
    if let Some(copy) = data.copies().find_copy_at(doc.current_event())
        && view.copy != Some(copy)
    {
        view.select_copy(copy);
    }
}
