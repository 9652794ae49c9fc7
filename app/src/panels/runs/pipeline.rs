//! The Pipeline panel: the graph of a pipeline, its run, and the tensors and the outcome of each stage.

mod bar;
mod details;
mod graph;
pub mod view;

pub use view::View;

use crate::panels::common::actions::{UiAction, UiActions};
use crate::theme::widgets::{self, part};
use crate::theme::{icons, palette};
use egui::{Rect, Stroke, Ui, UiBuilder, pos2};

/// Width below which the details are below the graph, points.
const MIN_SIDE_BY_SIDE_WIDTH: f32 = 640.0;
/// Width of the details, points.
const DETAILS: f32 = 300.0;

/// Draws the panel.
pub fn ui(view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let Some(pipeline) = view.pipeline.clone() else {
        let message = match &view.error {
            Some(error) => format!("▲ {error}"),
            None => {
                "A pipeline replays recordings one after the other, with WebAssembly modules between them.".to_owned()
            }
        };
        if widgets::empty_state(ui, icons::TREE_STRUCTURE, &message, Some("Open pipeline…")) {
            actions.push(UiAction::ChoosePipeline);
        }
        return;
    };
    let live = view.live_stages();
    bar::draw(view, &pipeline, actions, ui);
    let full = ui.available_rect_before_wrap();
    let line = Stroke::new(1.0, palette(ui).line);
    let (left, right) = if full.width() < MIN_SIDE_BY_SIDE_WIDTH {
        let split = (full.top() + full.height() * 0.5).round();
        ui.painter().hline(full.x_range(), split, line);
        let left = Rect::from_min_max(full.min, pos2(full.right(), split));
        (left, Rect::from_min_max(pos2(full.left(), split + 1.0), full.max))
    } else {
        let split = (full.right() - DETAILS).round();
        ui.painter().vline(split, full.y_range(), line);
        let left = Rect::from_min_max(full.min, pos2(split, full.bottom()));
        (left, Rect::from_min_max(pos2(split + 1.0, full.top()), full.max))
    };
    let mut child = ui.new_child(UiBuilder::new().id_salt("graph").max_rect(left));
    child.shrink_clip_rect(left);
    graph::draw(view, &pipeline, &live, &mut child);
    part(ui, "details", right, |ui| {
        details::draw(view, &pipeline, &live, actions, ui)
    });
    ui.advance_cursor_after_rect(full);
}
