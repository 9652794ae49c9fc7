//! References to the selection around the current event: what read and wrote it, each a link.

use crate::panels::common::actions::{PanelAction, UiActions};
use crate::theme::widgets;
use crate::theme::{ROW, palette, small};
use egui::{Rect, RichText, Sense, Stroke, StrokeKind, Ui, vec2};
use kinescope_session::xref_text::item_label;
use kinescope_session::xref_trail::AccessFilter;
use kinescope_session::{Document, text};
use trace_core::xref::{AccessKind, Reference, XrefTarget};

/// Number of references shown before the current event, and from it on.
const BEFORE: usize = 3;
const AFTER: usize = 4;

/// Width of the mark before an event, points.
const SIGN: f32 = 8.0;

/// Draws the same mark as the timeline: filled, framed, or a line.
fn reference_mark(ui: &mut Ui, deed: AccessKind) {
    let p = palette(ui);
    let (rect, _) = ui.allocate_exact_size(vec2(SIGN, ROW), Sense::hover());
    let mark = Rect::from_center_size(rect.center(), vec2(SIGN, 10.0)).shrink2(vec2(1.0, 0.0));
    if deed.may_write() {
        ui.painter().rect_filled(mark, 1.0, p.write);
    } else if deed.may_read() {
        let stroke = Stroke::new(1.0, p.read);
        ui.painter().rect_stroke(mark, 1.0, stroke, StrokeKind::Inside);
    } else {
        let stroke = Stroke::new(1.0, p.quiet);
        ui.painter().vline(rect.center().x, mark.y_range(), stroke);
    }
}

/// Draws the section; nothing for a register, whose own section shows its accesses.
pub fn ui(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) {
    let followed = match doc.xref_target() {
        None | Some(XrefTarget::Register { .. }) => return,
        Some(f) => f,
    };
    let p = palette(ui);
    widgets::section(ui, "References");
    if !doc.xrefs.is_for(followed) || !doc.xrefs.is_complete() {
        let message = if doc.xrefs.is_searching() {
            "Searching for references …"
        } else {
            "Show the timeline to search for references."
        };
        ui.add(egui::Label::new(RichText::new(message).color(p.quiet)).wrap());
        return;
    }
    let current_event = doc.current_event();
    let (n, before, from, rows) = {
        let list = doc.xrefs.event_xrefs();
        let before = list.partition_point(|t| t.event < Some(current_event));
        // As many references as fit are listed; if there are more, those around the current event.
        let last = list.len().min(before.saturating_sub(BEFORE) + BEFORE + AFTER);
        let from = last.saturating_sub(BEFORE + AFTER);
        let rows: Vec<Reference> = list.iter().skip(from).take(last - from).copied().collect();
        (list.len(), before, from, rows)
    };
    if n == 0 {
        let message = "The recording has no known reference to it.";
        ui.add(egui::Label::new(RichText::new(message).color(p.quiet)).wrap());
        page_references(doc, actions, ui, followed);
        return;
    }
    let summary = format!(
        "{}, {} of them before the current event",
        text::count_noun(n as u64, "event", "events"),
        text::count(before as u64)
    );
    let hover = actions.tooltip(
        "next-touch",
        "go to the next reference; the first lane of the timeline marks each one",
    );
    ui.label(RichText::new(summary).font(small()).color(p.quiet))
        .on_hover_text(hover);
    let others = |ui: &mut Ui, n: usize, word: &str| {
        if n > 0 {
            let summary = format!("{} {word}", text::count(n as u64));
            ui.label(RichText::new(summary).font(small()).color(p.quiet));
        }
    };
    let mut go = None;
    others(ui, from, "earlier");
    for t in &rows {
        let description = doc.describe_reference(followed, t);
        if reference_row(ui, t, description, current_event) {
            go = t.event;
        }
    }
    others(ui, n - from - rows.len(), "later");
    ui.add_space(4.0);
    search_buttons(doc, actions, ui);
    page_references(doc, actions, ui, followed);
    if let Some(event) = go {
        doc.go_keeping_target(event);
    }
}

/// Draws a reference and returns whether its event was clicked.
fn reference_row(ui: &mut Ui, t: &Reference, description: String, current_event: u64) -> bool {
    let p = palette(ui);
    let Some(event) = t.event else { return false };
    let mut clicked = false;
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 6.0;
        reference_mark(ui, t.access);
        let label = format!("reference event {event}");
        clicked = widgets::link(ui, &label, &text::count(event)).clicked();
        let here = if event == current_event {
            format!("{} · current", item_label(&t.item))
        } else {
            item_label(&t.item).to_owned()
        };
        ui.label(RichText::new(here).font(small()).color(p.quiet));
    });
    ui.horizontal_top(|ui| {
        ui.add_space(SIGN + 6.0);
        ui.spacing_mut().item_spacing.x = 0.0;
        ui.add(egui::Label::new(RichText::new(description).font(small())).wrap());
    });
    ui.add_space(2.0);
    clicked
}

/// Draws the buttons that go to the last writer and the next reader.
fn search_buttons(doc: &Document, actions: &mut UiActions, ui: &mut Ui) {
    ui.horizontal_wrapped(|ui| {
        for (id, word, hover, forward, deeds) in [
            (
                "last-writer",
                "Last writer",
                "the last event before the current event that wrote it",
                false,
                AccessFilter::Writes,
            ),
            (
                "next-reader",
                "Next reader",
                "the next event after the current event that reads it",
                true,
                AccessFilter::Reads,
            ),
        ] {
            let there = doc.next_xref(forward, deeds).is_some();
            let hover = actions.tooltip(id, hover);
            if ui
                .add_enabled(there, egui::Button::new(word))
                .on_hover_text(hover)
                .clicked()
            {
                actions.run_command(id);
            }
        }
    });
}

/// Draws how many references concern the page and not the bytes; the Memory panel lists them.
fn page_references(doc: &Document, actions: &mut UiActions, ui: &mut Ui, followed: XrefTarget) {
    let n = doc.xrefs.page_xrefs().len();
    let XrefTarget::Bytes { space, va, .. } = followed else {
        return;
    };
    if n == 0 {
        return;
    }
    let words = format!("{} more on its page", text::count(n as u64));
    let r = widgets::link(ui, "references to the page", &words);
    if r.on_hover_text("They name the page of this byte, not the byte. Click to list them in Memory.")
        .clicked()
    {
        actions.push(PanelAction::FindReferences { space, va });
        actions.run_command("show-memory");
    }
}
