//! The Replay panel: the target, the plan, the run, and its outcome.

mod failures;
mod guarded;
mod jobs;
mod options;
mod outcome;
pub(super) mod outputs;
mod plan;
mod target;
mod text_lines;
mod wasm_run;

pub use failures::fault;

use crate::panels::common::actions::UiActions;
use crate::theme::widgets::{self, PAD, part};
use crate::theme::{icons, palette};
use egui::{Rect, Stroke, Ui, UiBuilder, pos2, vec2};
use kinescope_session::Document;
use kinescope_session::wasm_run::is_wasm_run;

/// Width below which the three parts are stacked, points.
const MIN_THREE_COLUMN_WIDTH: f32 = 560.0;
/// Maximum width of the part about targets, points; plan and outcome share the rest.
const MAX_TARGET_WIDTH: f32 = 200.0;
/// Height of the strip with the buttons, points.
const ACTIONS: f32 = 42.0;

/// Draws the panel.
pub fn ui(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) {
    if doc.is_empty() {
        widgets::empty_state(
            ui,
            icons::PLAY,
            "There is nothing to replay: this recording holds no register accesses.",
            None,
        );
        return;
    }
    if is_wasm_run(&doc.recording) {
        return wasm_run::ui(doc, ui);
    }
    let full = ui.available_rect_before_wrap();
    if full.width() < MIN_THREE_COLUMN_WIDTH {
        draw_stacked(doc, actions, ui, full);
    } else {
        draw_side_by_side(doc, actions, ui, full);
    }
    ui.advance_cursor_after_rect(full);
}

fn draw_side_by_side(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, full: Rect) {
    let p = palette(ui);
    let left = (full.width() * 0.26).clamp(160.0, MAX_TARGET_WIDTH);
    let middle = (full.width() - left) * 0.5;
    let (a, b) = ((full.left() + left).round(), (full.left() + left + middle).round());
    let column = |from: f32, to: f32| Rect::from_min_max(pos2(from, full.top()), pos2(to, full.bottom()));
    for x in [a, b] {
        ui.painter().vline(x, full.y_range(), Stroke::new(1.0, p.line));
    }
    part(ui, "board", column(full.left(), a), |ui| {
        target::pairing(actions, ui);
        target::draw(doc, actions, ui);
    });
    let mut plan = column(a, b);
    // The height of the buttons in the previous frame: in a narrow column they take two rows.
    let height = egui::Id::unique("height of the replay's actions");
    let high = ui.data(|d| d.get_temp::<f32>(height)).unwrap_or(ACTIONS);
    let action_rect = Rect::from_min_max(pos2(plan.left(), plan.bottom() - high), plan.max);
    plan.max.y = action_rect.top();
    part(ui, "plan", plan, |ui| plan::draw(doc, actions, ui));
    ui.painter().hline(
        action_rect.left() + 1.0..=action_rect.right(),
        action_rect.top(),
        Stroke::new(1.0, p.line),
    );
    let inner = UiBuilder::new()
        .id_salt("actions")
        .max_rect(action_rect.shrink2(vec2(PAD, 8.0)));
    let mut child = ui.new_child(inner);
    child.shrink_clip_rect(action_rect);
    plan::action_buttons(doc, actions, &mut child);
    let needed = (child.min_rect().height() + 16.0).max(ACTIONS);
    if (needed - high).abs() > 0.5 {
        ui.data_mut(|d| d.insert_temp(height, needed));
        ui.ctx().request_repaint();
    }
    let mut came = column(b, full.right());
    if let Some(o) = doc.replay.outcome.clone() {
        let mut child = ui.new_child(
            UiBuilder::new()
                .id_salt("verdict")
                .max_rect(came.shrink2(vec2(PAD, 0.0))),
        );
        child.shrink_clip_rect(came);
        child.spacing_mut().item_spacing.y = 2.0;
        outcome::pinned(doc, &mut child, &o);
        came.min.y = child.min_rect().bottom() + 6.0;
        ui.painter()
            .hline(came.left() + 1.0..=came.right(), came.top(), Stroke::new(1.0, p.line));
    }
    part(ui, "outcome", came, |ui| outcome::draw(doc, actions, ui));
}

fn draw_stacked(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, full: Rect) {
    part(ui, "all", full, |ui| {
        target::pairing(actions, ui);
        if let Some(o) = doc.replay.outcome.clone() {
            outcome::pinned(doc, ui, &o);
        }
        plan::draw(doc, actions, ui);
        ui.add_space(8.0);
        plan::action_buttons(doc, actions, ui);
        outcome::draw(doc, actions, ui);
        target::draw(doc, actions, ui);
    });
}
