//! The Campaign panel: the matrix of a campaign with its verdicts, the runs of a cell, and the run of a description.

mod bar;
mod details;
mod matrix;
pub mod view;

pub use view::View;

use crate::panels::common::actions::{UiAction, UiActions};
use crate::theme::widgets::{self, part};
use crate::theme::{icons, palette};
use egui::{Rect, Stroke, Ui, UiBuilder, pos2};
use std::time::Duration;

/// Width below which the details are below the matrix, points.
const MIN_SIDE_BY_SIDE_WIDTH: f32 = 640.0;
/// Width of the details, points.
const DETAILS: f32 = 280.0;
/// Interval at which a campaign that another process runs, or may run, is read again.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// Draws the panel.
pub fn ui(view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    if view.is_empty() {
        let message = match &view.error {
            Some(error) => format!("▲ {error}"),
            None => "A campaign runs recordings and other work on many targets, and compares the results.".to_owned(),
        };
        if widgets::empty_state(ui, icons::SQUARES_FOUR, &message, Some("Open campaign…")) {
            actions.push(UiAction::ChooseCampaign);
        }
        ui.vertical_centered(|ui| {
            if ui.button("Open description…").clicked() {
                actions.push(UiAction::ChooseCampaignDescription);
            }
        });
        return;
    }
    follow(view, actions, ui);
    bar::draw(view, actions, ui);
    let Some(shown) = view.shown() else { return };
    let full = ui.available_rect_before_wrap();
    let line = Stroke::new(1.0, palette(ui).line);
    let (left, right) = if full.width() < MIN_SIDE_BY_SIDE_WIDTH {
        let split = (full.top() + full.height() * 0.55).round();
        ui.painter().hline(full.x_range(), split, line);
        let left = Rect::from_min_max(full.min, pos2(full.right(), split));
        (left, Rect::from_min_max(pos2(full.left(), split + 1.0), full.max))
    } else {
        let split = (full.right() - DETAILS).round();
        ui.painter().vline(split, full.y_range(), line);
        let left = Rect::from_min_max(full.min, pos2(split, full.bottom()));
        (left, Rect::from_min_max(pos2(split + 1.0, full.top()), full.max))
    };
    let mut child = ui.new_child(UiBuilder::new().id_salt("campaign matrix").max_rect(left));
    child.shrink_clip_rect(left);
    matrix::draw(view, &shown, &mut child);
    part(ui, "campaign details", right, |ui| {
        details::draw(view, &shown, actions, ui)
    });
    ui.advance_cursor_after_rect(full);
}

/// Requests another reading of a campaign that may change.
fn follow(view: &mut View, actions: &mut UiActions, ui: &Ui) {
    if view.is_reading_due(READ_INTERVAL) {
        view.begin_reading();
        actions.push(UiAction::ReadCampaign);
    } else if view.may_change() {
        ui.ctx().request_repaint_after(READ_INTERVAL);
    }
}
