//! Heights of lanes: the user drags the lower edge of a lane's name, and a double-click resets it.

use super::label::LANE;
use super::lane::{self, Lane};
use crate::theme::palette;
use egui::accesskit::Role;
use egui::{CursorIcon, Rect, Sense, Stroke, Ui, WidgetInfo, pos2};
use kinescope_session::Document;
use std::collections::BTreeMap;

/// Minimum and maximum height of a lane, points.
pub const LIMITS: std::ops::RangeInclusive<f32> = 14.0..=240.0;
/// Distance above and below an edge in which it can be grabbed, points.
const GRAB: f32 = 3.0;

/// Heights that the user chose, by the lane's key.
pub type Heights = BTreeMap<String, f32>;

/// Returns the height of a lane.
pub fn lane_height(heights: &Heights, doc: &Document, lane: &Lane) -> f32 {
    if heights.is_empty() {
        return LANE;
    }
    heights.get(&lane::key(doc, lane)).copied().unwrap_or(LANE)
}

/// Draws the handle at the lower edge of a lane's name and acts on it. `row` is the lane with its name, `names` is
/// where names end.
pub fn handle(heights: &mut Heights, doc: &Document, ui: &Ui, lane: &Lane, row: Rect, names: f32) {
    let edge = Rect::from_min_max(pos2(row.left(), row.bottom() - GRAB), pos2(names, row.bottom() + GRAB));
    let key = lane::key(doc, lane);
    let r = ui.interact(edge, ui.scope_id().with(("lane edge", &key)), Sense::click_and_drag());
    r.widget_info(|| WidgetInfo::labeled(Role::Splitter, true, format!("Height of {key}")));
    if r.hovered() || r.dragged() {
        ui.painter()
            .hline(row.x_range(), row.bottom() - 0.5, Stroke::new(1.0, palette(ui).quiet));
    }
    if r.dragged() {
        let now = row.height() + r.drag_delta().y;
        heights.insert(key, now.clamp(*LIMITS.start(), *LIMITS.end()));
    } else if r.double_clicked() {
        heights.remove(&key);
    }
    r.on_hover_cursor(CursorIcon::ResizeVertical)
        .on_hover_text("Drag to resize the lane. Double-click to reset.");
}
