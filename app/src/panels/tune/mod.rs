//! Tune: a recorded launch, what is tried with it, and what came of it as a map and a table.

mod fields;
mod heat;
mod list;
mod result;
pub mod view;

pub use view::{Sort, View};

use crate::document::Document;
use crate::document::tuning::launches::Launches;
use crate::panels::desk::Asks;
use crate::theme::widgets::{self, PAD, part};
use crate::theme::{icons, palette};
use egui::{Rect, Stroke, Ui, UiBuilder, pos2, vec2};
use std::sync::Arc;
use view::Known;

/// Narrower than this the fields lie above what came of them.
const ABREAST: f32 = 620.0;
/// Width of the fields, points.
const FIELDS: f32 = 284.0;

/// Draws the panel.
pub fn ui(doc: &mut Document, view: &mut View, asks: &mut Asks, ui: &mut Ui) {
    look(doc, view, asks);
    match &view.known {
        Known::Nothing | Known::Asked => {
            let told = "Looking for launches among the events…";
            widgets::empty(ui, icons::HOURGLASS_SIMPLE_MEDIUM, told, None);
            return;
        }
        Known::Is(None) => {
            let told = "Tuning tries a launch of a recorded CUDA program with other dimensions, bounds or code. This \
                        recording holds no CUDA calls.";
            widgets::empty(ui, icons::CHART_BAR, told, None);
            return;
        }
        Known::Is(Some(l)) if l.list.is_empty() => {
            let told = "No launch was made in this recording, or none that succeeded.";
            widgets::empty(ui, icons::CHART_BAR, told, None);
            return;
        }
        Known::Is(Some(_)) => {}
    }
    let full = ui.available_rect_before_wrap();
    if full.width() < ABREAST {
        below_each_other(doc, view, asks, ui, full);
    } else {
        abreast(doc, view, asks, ui, full);
    }
    ui.advance_cursor_after_rect(full);
}

/// Has the launches looked for, once for each recording.
fn look(doc: &Document, view: &mut View, asks: &mut Asks) {
    if view.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, &doc.recording)) {
        return;
    }
    view.of = Some(Arc::clone(&doc.recording));
    view.known = Known::Asked;
    let of = Arc::clone(&doc.recording);
    asks.work("looking for launches", move |_| {
        let found = Launches::of(&of).map(Arc::new);
        Box::new(move |desk| {
            let view = &mut desk.views.tune;
            if view.of.as_ref().is_some_and(|now| Arc::ptr_eq(now, &of)) {
                view.known = Known::Is(found);
            }
        })
    });
}

fn abreast(doc: &mut Document, view: &mut View, asks: &mut Asks, ui: &mut Ui, full: Rect) {
    let p = palette(ui);
    let split = (full.left() + FIELDS.min(full.width() * 0.42)).round();
    ui.painter().vline(split, full.y_range(), Stroke::new(1.0, p.line));
    let left = Rect::from_min_max(full.min, pos2(split, full.bottom()));
    let foot = fields::FOOT;
    let above = Rect::from_min_max(left.min, pos2(left.right(), left.bottom() - foot));
    let below = Rect::from_min_max(pos2(left.left(), above.bottom()), left.max);
    part(ui, "fields", above, |ui| fields::draw(doc, view, asks, ui));
    ui.painter()
        .hline(left.x_range(), below.top(), Stroke::new(1.0, p.line));
    let mut child = ui.new_child(UiBuilder::new().id_salt("run").max_rect(below.shrink2(vec2(PAD, 8.0))));
    child.shrink_clip_rect(below);
    fields::run(doc, view, asks, &mut child);
    let right = Rect::from_min_max(pos2(split + 1.0, full.top()), full.max);
    let mut child = ui.new_child(UiBuilder::new().id_salt("came").max_rect(right));
    child.shrink_clip_rect(right);
    result::draw(doc, view, asks, &mut child);
}

fn below_each_other(doc: &mut Document, view: &mut View, asks: &mut Asks, ui: &mut Ui, full: Rect) {
    let p = palette(ui);
    let above = (full.height() * 0.5).min(360.0);
    let split = full.top() + above;
    let upper = Rect::from_min_max(full.min, pos2(full.right(), split));
    part(ui, "fields", upper, |ui| {
        fields::run(doc, view, asks, ui);
        fields::draw(doc, view, asks, ui);
    });
    ui.painter().hline(full.x_range(), split, Stroke::new(1.0, p.line));
    let lower = Rect::from_min_max(pos2(full.left(), split + 1.0), full.max);
    let mut child = ui.new_child(UiBuilder::new().id_salt("came").max_rect(lower));
    child.shrink_clip_rect(lower);
    result::draw(doc, view, asks, &mut child);
}
