//! The lane of the selection: every event that read or wrote it is marked.

use super::scale::{Scale, event_x};
use super::trail::{MARK, Sign};
use crate::panels::common::actions::UiActions;
use crate::theme::{palette, small, widgets};
use egui::{Align2, Rect, Stroke, StrokeKind, Ui, pos2, vec2};
use kinescope_session::Document;
use kinescope_session::derived_data::Stage;
use kinescope_session::wasm_run::is_wasm_run;
use std::sync::Arc;
use trace_core::progress::Progress;
use trace_core::xref::{self, MAX_REFERENCES, Reference, XrefTarget};

/// Starts to search the references to the selection, once for each selection.
pub fn find_references(doc: &mut Document, actions: &mut UiActions) {
    let followed = match doc.xref_target() {
        None | Some(XrefTarget::Register { .. }) => {
            doc.xrefs.clear();
            return;
        }
        Some(f) => f,
    };
    let known =
        doc.derivation.is_none() || doc.derived.has_stage(Stage::Chains) && doc.derived.has_stage(Stage::Spaces);
    if doc.xrefs.is_for(followed) || !doc.can_filter() || !known {
        return;
    }
    if matches!(followed, XrefTarget::Event { .. }) && doc.derived.driver.is_some() {
        // The references of an event are derived already.
        let search = (doc.current_event(), MAX_REFERENCES);
        let progress = Progress::new();
        let found = xref::find_references(&doc.recording, &*doc.derived, followed, search, &progress);
        doc.xrefs.set_pending(followed, progress);
        doc.xrefs.set_result(followed, found);
        return;
    }
    let (recording, derived, current_event) = (
        Arc::clone(&doc.recording),
        Arc::clone(&doc.derived),
        doc.current_event(),
    );
    let progress = actions.start_document_work("searching references to the selection", move |progress| {
        let found = xref::find_references(
            &recording,
            &*derived,
            followed,
            (current_event, MAX_REFERENCES),
            progress,
        );
        Box::new(move |doc| doc.xrefs.set_result(followed, found))
    });
    doc.xrefs.set_pending(followed, progress);
}

/// Draws the lane: writes filled, reads as frames, address-of references as a line.
pub fn draw(doc: &Document, ui: &Ui, scale: &Scale, row: Rect) {
    let p = palette(ui);
    let message = match doc.xref_target() {
        None if is_wasm_run(&doc.recording) => "a WebAssembly run has no references to memory",
        None if doc.recording.api().is_some() => {
            "select a buffer or a byte of device memory to see the copies and launches that access it"
        }
        None => "select a register, a byte, a pixel or a page-table entry to see its reads and writes",
        Some(_) if doc.xrefs.is_searching() => "searching its references…",
        Some(_) => "",
    };
    widgets::paint_text(ui, row, Align2::LEFT_CENTER, message, small(), p.quiet);
    for m in scale.trail.iter() {
        let x = event_x(doc, scale, m.event);
        let mark = Rect::from_min_size(pos2(x, row.top() + 5.0), vec2(MARK, row.height() - 10.0));
        match m.sign {
            Sign::Write => {
                ui.painter().rect_filled(mark, 1.0, p.write);
            }
            Sign::Read => {
                let stroke = Stroke::new(1.0, p.read);
                ui.painter().rect_stroke(mark, 1.0, stroke, StrokeKind::Inside);
            }
            Sign::Name => {
                ui.painter().vline(x + 0.5, mark.y_range(), Stroke::new(1.0, p.quiet));
            }
        }
    }
}

/// Describes the lane at a position; empty if there is no mark.
pub fn describe_at(doc: &Document, scale: &Scale, x: f32) -> String {
    let target = match doc.xref_target() {
        None | Some(XrefTarget::Register { .. }) => return String::new(),
        Some(target) => target,
    };
    let list = doc.xrefs.event_xrefs();
    let at = doc.derived.axis.nearest(scale.axis, scale.position(x));
    let near = |t: &&Reference| t.event.is_some_and(|e| (event_x(doc, scale, e) - x).abs() < MARK + 2.0);
    let n = list.partition_point(|t| t.event < Some(at)).saturating_sub(3);
    let lines = list.get(n..).unwrap_or_default().iter().take(8).filter(near);
    let lines: Vec<String> = lines
        .map(|t| format!("event {}: {}", t.event.unwrap_or(0), doc.describe_reference(target, t)))
        .collect();
    lines.join("\n")
}

/// Returns the event of the trail that is nearest to a position.
pub fn find_nearest(doc: &Document, scale: &Scale, x: f32) -> Option<u64> {
    let at = doc.derived.axis.event_at(scale.axis, scale.position(x));
    let around: Vec<u64> = match doc.xref_target()? {
        XrefTarget::Register { register, .. } => {
            let two = doc.derived.registers.get(&register)?.accesses.all().neighbors(at);
            two.into_iter().flatten().collect()
        }
        _ => {
            let list = doc.xrefs.event_xrefs();
            let n = list.partition_point(|t| t.event < Some(at));
            let two = [n.checked_sub(1), Some(n)].into_iter().flatten();
            two.filter_map(|n| list.get(n)?.event).collect()
        }
    };
    let away = |e: &u64| (event_x(doc, scale, *e) - x).abs();
    around.into_iter().min_by(|a, b| away(a).total_cmp(&away(b)))
}
