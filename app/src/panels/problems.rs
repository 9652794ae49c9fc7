//! Problems: what checking the recording found, each with its place and its reason.

use crate::document::Document;
use crate::document::facts::Stage;
use crate::document::moment::Selection;
use crate::theme::rows::Rows;
use crate::theme::widgets::{self, paint_text};
use crate::theme::{body, icons, mono, palette, small, text};
use crate::window::Asks;
use egui::accesskit::Role;
use egui::{Align2, Rect, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use trace_core::check::{FindingKind, Severity};

/// A finding's kind as JSON names it.
#[must_use]
pub fn kind_name(kind: FindingKind) -> String {
    serde_json::to_value(kind)
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// A severity's mark and word.
#[must_use]
pub fn severity(s: Severity) -> (&'static str, &'static str) {
    match s {
        Severity::Error => ("▲", "error"),
        Severity::Warning => ("!", "warning"),
        Severity::Note => ("·", "note"),
    }
}

/// Draws the panel.
pub fn ui(doc: &mut Document, _asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    if doc.facts.findings.is_empty() {
        let (icon, told) = if doc.facts.knows(Stage::Findings) {
            (icons::CHECK_CIRCLE, "Nothing suspicious was found in this recording.")
        } else {
            (
                icons::HOURGLASS_SIMPLE_MEDIUM,
                "The recording is not checked to its end yet.",
            )
        };
        widgets::empty(ui, icon, told, None);
        return;
    }
    let full = ui.available_rect_before_wrap();
    let (head, _) = ui.allocate_exact_size(vec2(full.width(), 22.0), Sense::hover());
    let place_x = (full.width() * 0.28).clamp(264.0, 300.0);
    let text_x = place_x + (full.width() * 0.2).clamp(120.0, 220.0);
    for (name, x) in [
        ("severity", 12.0),
        ("kind", 88.0),
        ("place", place_x),
        ("what and why", text_x),
    ] {
        ui.painter().text(
            pos2(full.left() + x, head.center().y),
            Align2::LEFT_CENTER,
            name,
            small(),
            p.quiet,
        );
    }
    ui.painter()
        .hline(head.x_range(), head.bottom(), Stroke::new(1.0, p.line));
    let list_height = (ui.available_height() - 76.0).max(60.0);
    let list_rect = Rect::from_min_size(ui.cursor().min, vec2(full.width(), list_height));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(list_rect));
    let id = ui.scope_id().with("problem rows");
    let mut rows: Rows = ui.data(|d| d.get_temp(id)).unwrap_or_default();
    let mut go = None;
    rows.show(
        &mut child,
        "Problems",
        doc.facts.findings.len() as u64,
        |ui, row, rect| {
            let Some(f) = doc.facts.findings.get(row as usize) else {
                return;
            };
            let index = row as u32;
            let r = ui.interact(rect, ui.scope_id().with(("finding", row)), Sense::click());
            let selected = *doc.selection() == Selection::Finding(index);
            let kind = kind_name(f.kind);
            r.widget_info(|| WidgetInfo::selected(Role::Row, true, selected, format!("problem {row} {kind}")));
            if selected {
                ui.painter().rect_filled(rect, 0.0, p.selection);
            } else if r.hovered() {
                ui.painter().rect_filled(rect, 0.0, p.raised);
            }
            let (mark, word) = severity(f.severity);
            let colour = super::timeline::severity_colour(p, f.severity);
            let cell = |a: f32, b: f32| {
                Rect::from_min_max(pos2(rect.left() + a, rect.top()), pos2(rect.left() + b, rect.bottom()))
            };
            paint_text(
                ui,
                cell(12.0, 84.0),
                Align2::LEFT_CENTER,
                &format!("{mark} {word}"),
                body(),
                colour,
            );
            paint_text(
                ui,
                cell(88.0, place_x - 8.0),
                Align2::LEFT_CENTER,
                &kind,
                mono(),
                p.text,
            );
            let place = f
                .event
                .map_or_else(|| f.place.clone(), |e| format!("event {}", text::count(e)));
            let ink = if f.event.is_some() { p.read } else { p.quiet };
            paint_text(
                ui,
                cell(place_x, text_x - 8.0),
                Align2::LEFT_CENTER,
                &place,
                mono(),
                ink,
            );
            paint_text(
                ui,
                cell(text_x, rect.width() - 8.0),
                Align2::LEFT_CENTER,
                &f.message,
                body(),
                p.text,
            );
            if r.clicked() {
                go = Some(index);
            }
        },
    );
    ui.data_mut(|d| d.insert_temp(id, rows));
    ui.advance_cursor_after_rect(list_rect);
    if let Some(i) = go {
        doc.go_finding(i);
    }
    if let Selection::Finding(i) = *doc.selection()
        && let Some(f) = doc.facts.findings.get(i as usize)
    {
        ui.painter()
            .hline(full.x_range(), ui.cursor().top(), Stroke::new(1.0, p.line));
        egui::Frame::new()
            .inner_margin(egui::Margin::symmetric(12, 6))
            .show(ui, |ui| {
                ui.add(egui::Label::new(egui::RichText::new(&f.place).font(mono()).color(p.quiet)).truncate());
                ui.add(egui::Label::new(&f.message).wrap());
            });
    }
}
