//! The bar above the panel: states of copies with their numbers, filter, target, active lanes of the whole run.

use super::navigation::go_next_trap;
use super::view::View;
use crate::panels::common::copy_state::{state_colour, state_mark};
use crate::theme::widgets::icon_button;
use crate::theme::{body, icons, mono, palette, small};
use egui::{Align, Key, Label, Layout, RichText, Ui};
use kinescope_session::wasm_run::{CopyState, WasmRunData};
use kinescope_session::{Document, text};

/// What the bar says of a run without counts.
const NO_PROFILE: &str = "no profile: run with --profile on a GPU";

/// Room from which the bar has the share of active lanes, and room left of it for the target, points.
const MIN_SHARE_ROOM: f32 = 130.0;
const MIN_TARGET_ROOM: f32 = 120.0;

/// Draws the bar.
pub(super) fn ui(doc: &mut Document, view: &mut View, ui: &mut Ui, data: &WasmRunData) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(8.0);
        chips(view, ui, data);
        filter(view, ui);
        if data.copies().count(CopyState::Trapped) > 0 && icon_button(ui, icons::ARROW_RIGHT, "Next trap").clicked() {
            go_next_trap(doc, view);
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            ui.add_space(10.0);
            let message = match data.active_share() {
                Some(share) => format!("{} of lanes active", percent(share)),
                None => NO_PROFILE.to_owned(),
            };
            // A narrow panel keeps its switches; the outline has the target too.
            if ui.available_width() < MIN_SHARE_ROOM {
                return;
            }
            let summary = RichText::new(message).font(small()).color(p.quiet);
            ui.add(Label::new(summary).truncate());
            if ui.available_width() < MIN_TARGET_ROOM {
                return;
            }
            let target = data.copies().run().target();
            let copies = text::count_noun(u64::from(target.copies), "copy", "copies");
            let summary = RichText::new(format!("{}, {copies} at once ·", target.name));
            ui.add(Label::new(summary.font(small()).color(p.quiet)).truncate());
        });
    });
}

/// Formats a share from 0 to 1: `38 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Draws a switch for all copies, and one for each state that occurs.
fn chips(view: &mut View, ui: &mut Ui, data: &WasmRunData) {
    let p = palette(ui);
    let all = data.copies().run().copies().len() as u64;
    let words = format!("all {}", text::count(all));
    if ui.selectable_label(view.state.is_none(), words).clicked() {
        view.state = None;
    }
    for state in CopyState::ALL {
        let count = data.copies().count(state);
        if count == 0 {
            continue;
        }
        let words = format!("{} {} {}", state_mark(state), state.name(), text::count(count));
        let words = RichText::new(words).color(state_colour(p, state));
        if ui.selectable_label(view.state == Some(state), words).clicked() {
            view.state = (view.state != Some(state)).then_some(state);
        }
    }
}

fn filter(view: &mut View, ui: &mut Ui) {
    let p = palette(ui);
    let hint = RichText::new("filter").font(body()).color(p.quiet);
    let edit = egui::TextEdit::singleline(&mut view.filter)
        .id(egui::Id::unique("wasm-filter"))
        .font(mono())
        .desired_width((ui.available_width() - 420.0).clamp(80.0, 180.0))
        .hint_text(hint);
    let r = ui.add(edit).accessible_name("Filter copies by name");
    if r.has_focus() && ui.input(|i| i.key_pressed(Key::Escape)) {
        view.filter.clear();
    }
    if !view.filter.is_empty() && icon_button(ui, icons::X, "All inputs").clicked() {
        view.filter.clear();
    }
}
