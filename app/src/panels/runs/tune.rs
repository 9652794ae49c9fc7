//! The Tune panel: a recorded launch, the tried values, and the result as a map and a table.

mod fields;
mod heat;
mod list;
mod result;
pub mod view;

pub use view::{Sort, View};

use crate::panels::common::actions::UiActions;
use crate::theme::widgets::{self, PAD, part};
use crate::theme::{icons, palette};
use egui::{Rect, Stroke, Ui, UiBuilder, pos2, vec2};
use kinescope_session::Document;
use kinescope_session::tuning::launches::Launches;
use std::sync::Arc;
use view::LaunchLookup;

/// Width below which the fields are above the result, points.
const MIN_SIDE_BY_SIDE_WIDTH: f32 = 620.0;
/// Width of the fields, points.
const FIELDS: f32 = 284.0;

/// Draws the panel.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    find_launches(doc, view, actions);
    match &view.launch_lookup {
        LaunchLookup::NotStarted | LaunchLookup::Pending => {
            let message = "Looking for launches among the events…";
            widgets::empty_state(ui, icons::HOURGLASS_SIMPLE_MEDIUM, message, None);
            return;
        }
        LaunchLookup::Ready(None) => {
            let message = "Tuning tries a launch of a recorded CUDA program with other dimensions, bounds or code. This \
                        recording holds no CUDA calls.";
            widgets::empty_state(ui, icons::CHART_BAR, message, None);
            return;
        }
        LaunchLookup::Ready(Some(l)) if l.list.is_empty() => {
            let message = "This recording holds no launch that succeeded.";
            widgets::empty_state(ui, icons::CHART_BAR, message, None);
            return;
        }
        LaunchLookup::Ready(Some(_)) => {}
    }
    let full = ui.available_rect_before_wrap();
    if full.width() < MIN_SIDE_BY_SIDE_WIDTH {
        draw_stacked(doc, view, actions, ui, full);
    } else {
        draw_side_by_side(doc, view, actions, ui, full);
    }
    ui.advance_cursor_after_rect(full);
}

/// Starts to search the launches, once for each recording.
fn find_launches(doc: &Document, view: &mut View, actions: &mut UiActions) {
    if view
        .recording
        .as_ref()
        .is_some_and(|of| Arc::ptr_eq(of, &doc.recording))
    {
        return;
    }
    view.recording = Some(Arc::clone(&doc.recording));
    view.launch_lookup = LaunchLookup::Pending;
    let of = Arc::clone(&doc.recording);
    actions.start_work::<View>("looking for launches", move |_| {
        let found = Launches::from_recording(&of).map(Arc::new);
        Box::new(move |_, view, _| {
            if view.recording.as_ref().is_some_and(|now| Arc::ptr_eq(now, &of)) {
                view.launch_lookup = LaunchLookup::Ready(found);
            }
        })
    });
}

fn draw_side_by_side(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, full: Rect) {
    let p = palette(ui);
    let split = (full.left() + FIELDS.min(full.width() * 0.42)).round();
    ui.painter().vline(split, full.y_range(), Stroke::new(1.0, p.line));
    let left = Rect::from_min_max(full.min, pos2(split, full.bottom()));
    let foot = fields::FOOT;
    let above = Rect::from_min_max(left.min, pos2(left.right(), left.bottom() - foot));
    let below = Rect::from_min_max(pos2(left.left(), above.bottom()), left.max);
    part(ui, "fields", above, |ui| fields::draw(doc, view, actions, ui));
    ui.painter()
        .hline(left.x_range(), below.top(), Stroke::new(1.0, p.line));
    let mut child = ui.new_child(UiBuilder::new().id_salt("run").max_rect(below.shrink2(vec2(PAD, 8.0))));
    child.shrink_clip_rect(below);
    fields::run(doc, view, actions, &mut child);
    let right = Rect::from_min_max(pos2(split + 1.0, full.top()), full.max);
    let mut child = ui.new_child(UiBuilder::new().id_salt("came").max_rect(right));
    child.shrink_clip_rect(right);
    result::draw(doc, view, actions, &mut child);
}

fn draw_stacked(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, full: Rect) {
    let p = palette(ui);
    let above = (full.height() * 0.5).min(360.0);
    let split = full.top() + above;
    let upper = Rect::from_min_max(full.min, pos2(full.right(), split));
    part(ui, "fields", upper, |ui| {
        fields::run(doc, view, actions, ui);
        fields::draw(doc, view, actions, ui);
    });
    ui.painter().hline(full.x_range(), split, Stroke::new(1.0, p.line));
    let lower = Rect::from_min_max(pos2(full.left(), split + 1.0), full.max);
    let mut child = ui.new_child(UiBuilder::new().id_salt("came").max_rect(lower));
    child.shrink_clip_rect(lower);
    result::draw(doc, view, actions, &mut child);
}
