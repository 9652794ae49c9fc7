//! The list of buffers: inputs, outputs, others. An API trace has thousands: a short list is shown, and the others are
//! found by name.

use super::listing::{LISTED, Listing, Section};
use super::view::View;
use crate::panels::runs::replay::outputs;
use crate::theme::widgets::{self, StyledText};
use crate::theme::{body, icons, mono, palette, small};
use egui::{Key, RichText, Ui, vec2};
use kinescope_files::scene::Selection;
use kinescope_session::output_diff::MAX_SHOWN_ELEMENTS;
use kinescope_session::{Document, descriptions, text};
use replay_engine::run::{Outcome, OutputBuffer};
use std::sync::Arc;
use trace_core::recording::{Buffer, BufferRole};

/// Draws the list; `now` is the buffer that is shown.
pub(super) fn ui(doc: &mut Document, view: &mut View, ui: &mut Ui, now: &Buffer) {
    let p = palette(ui);
    ui.spacing_mut().item_spacing.y = 0.0;
    let all = Arc::clone(&doc.buffers);
    if all.list().len() > LISTED {
        find(view, ui);
    }
    let listed = |l: &&Listing| l.of == Arc::as_ptr(&all) as usize && l.find == view.find;
    let listing = match view.listing.as_ref().filter(listed) {
        Some(l) => l.clone(),
        None => Listing::new(&all, &view.find),
    };
    let calls = doc.recording.api().is_some();
    let others = if calls { "Memory at the start" } else { "Other buffers" };
    let mut any = false;
    for (section, title) in listing.sections.iter().zip(["Inputs", "Outputs", others]) {
        if section.fit == 0 {
            continue;
        }
        any = true;
        widgets::section(ui, title);
        for b in section.shown.iter().filter_map(|n| all.list().get(*n)) {
            row(doc, ui, b, now);
        }
        let more = section.fit - section.shown.len();
        if more > 0 {
            let message = format!("{} more; find them by name", text::count(more as u64));
            ui.label(RichText::new(message).color(p.quiet));
        }
    }
    if !any {
        ui.add_space(8.0);
        ui.label(RichText::new("No buffer has this name.").color(p.quiet));
    }
    // The buffer that is shown always has a row, wherever it stands in the list.
    let shown = |s: &Section| {
        s.shown
            .iter()
            .any(|n| all.list().get(*n).is_some_and(|b| b.name == now.name))
    };
    if !listing.sections.iter().any(shown) {
        widgets::section(ui, "Shown");
        row(doc, ui, now, now);
    }
    view.listing = Some(listing);
    ui.add_space(12.0);
}

/// Draws the search field for buffers.
fn find(view: &mut View, ui: &mut Ui) {
    let p = palette(ui);
    ui.add_space(6.0);
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        let clears = !view.find.is_empty();
        let room = if clears { 34.0 } else { 2.0 };
        let hint = RichText::new("name of a buffer").font(body()).color(p.quiet);
        let edit = egui::TextEdit::singleline(&mut view.find)
            .font(mono())
            .desired_width(ui.available_width() - room)
            .hint_text(hint);
        let r = ui.add(edit);
        r.widget_info(|| egui::WidgetInfo::labeled(egui::accesskit::Role::TextInput, true, "Find buffers by name"));
        if r.has_focus() && ui.input(|i| i.key_pressed(Key::Escape)) {
            view.find.clear();
        }
        if clears && widgets::icon_button(ui, icons::X, "All buffers").clicked() {
            view.find.clear();
        }
    });
}

fn row(doc: &mut Document, ui: &mut Ui, b: &Buffer, now: &Buffer) {
    let p = palette(ui);
    let edited = doc.changes().inputs().contains_key(&b.name);
    let left = if edited {
        StyledText::body(format!("● {}", b.name)).colour(p.edited)
    } else {
        StyledText::body(&b.name)
    };
    let right = StyledText::mono(descriptions::describe_buffer_type(doc, b));
    let on = now.name == b.name;
    if widgets::list_row(ui, &format!("input {}", b.name), on, 0.0, left, right).clicked() {
        doc.select(Selection::Buffer(b.name.clone()));
    }
    draw_replayed_output(doc, ui, &b.name);
}

/// Returns whether a replay's outputs are shown here, so that a user who edits inputs need not look elsewhere.
#[must_use]
pub fn shows_outputs(doc: &Document) -> bool {
    let few = |b: &Buffer| (1..=MAX_SHOWN_ELEMENTS as u64).contains(&(b.bytes / b.element.bytes().max(1) as u64));
    let all = doc.buffers.list().iter();
    all.filter(|b| b.role == BufferRole::Output).any(few)
}

/// Returns the output of this name, if it is small enough to be shown.
fn find_output<'a>(outcome: &'a Outcome, name: &str) -> Option<&'a OutputBuffer> {
    let few = |o: &&OutputBuffer| (1..=MAX_SHOWN_ELEMENTS).contains(&(o.data.len() / o.element.bytes().max(1)));
    outcome.outputs.iter().find(|o| o.name == name).filter(few)
}

/// Draws the output if the last replay copied a buffer of this name from the device: bars below its name in the list,
/// near the input that the user edits.
fn draw_replayed_output(doc: &Document, ui: &mut Ui, name: &str) {
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
