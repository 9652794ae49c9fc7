//! Result of the last replay for an output with few values: bars below its name in the list, near the input that the
//! user edits.

use crate::document::Document;
use crate::document::output_diff::MAX_SHOWN_ELEMENTS;
use crate::panels::replay::outputs;
use crate::theme::{palette, small};
use egui::{RichText, Ui, vec2};
use replay_engine::run::{Outcome, OutputBuffer};
use trace_core::recording::{Buffer, BufferRole};

/// Returns whether a replay's outputs are shown here, so that a user who edits inputs need not look elsewhere.
#[must_use]
pub fn is_shown(doc: &Document) -> bool {
    let few = |b: &Buffer| (1..=MAX_SHOWN_ELEMENTS as u64).contains(&(b.bytes / b.element.bytes().max(1) as u64));
    let all = doc.buffers.list().iter();
    all.filter(|b| b.role == BufferRole::Output).any(few)
}

/// Returns the output of this name, if it is small enough to be shown.
fn find_output<'a>(outcome: &'a Outcome, name: &str) -> Option<&'a OutputBuffer> {
    let few = |o: &&OutputBuffer| (1..=MAX_SHOWN_ELEMENTS).contains(&(o.data.len() / o.element.bytes().max(1)));
    outcome.outputs.iter().find(|o| o.name == name).filter(few)
}

/// Draws the output if the last replay copied a buffer of this name from the device.
pub fn ui(doc: &Document, ui: &mut Ui, name: &str) {
    let Some(outcome) = doc.replay.outcome.clone() else {
        return;
    };
    let Some(out) = find_output(&outcome, name) else { return };
    let p = palette(ui);
    let newer = doc.replay.outcome_revision != doc.changes().revision();
    let (message, ink) = match (doc.replay.last_failure.is_some(), newer, outcome.computed) {
        (true, ..) => ("! replayed before the last attempt", p.warning),
        (_, true, _) => ("replayed before your last edit", p.edited),
        (_, _, false) => ("! replayed, not computed", p.warning),
        _ => ("replayed", p.quiet),
    };
    let inset = egui::Frame::NONE.inner_margin(egui::Margin {
        left: 8,
        right: 8,
        top: 2,
        bottom: 4,
    });
    inset.show(ui, |ui| {
        ui.spacing_mut().item_spacing = vec2(4.0, 2.0);
        ui.label(RichText::new(message).font(small()).color(ink));
        let diff = doc.replay.output_diffs.iter().find(|c| c.name == name);
        ui.scope(|ui| {
            if newer || doc.replay.last_failure.is_some() {
                // The old result does not hold for the current inputs.
                ui.multiply_opacity(0.5);
            }
            outputs::bars(ui, out, diff, outputs::is_edited(doc, &outcome));
        });
    });
}
