//! Saved filters: the current one can be saved, named and made a lane of the timeline; the others can be shown again.

use super::View;
use crate::theme::widgets;
use crate::theme::{body, icons, mono, palette, small};
use egui::{Button, RichText, Ui};
use kinescope_files::changes::SavedFilter;
use kinescope_session::{Document, text};

/// Width of the list, points.
const WIDTH: f32 = 380.0;
/// Maximum number of characters of a filter that are shown.
const SHOWN: usize = 44;

/// Draws the button next to the filter, and the list that it opens.
pub fn button(doc: &mut Document, view: &mut View, ui: &mut Ui) {
    let p = palette(ui);
    let now = view.filter.trim().to_owned();
    let kept = doc.changes().filter(&now).is_some();
    let icon = RichText::new(icons::PUSH_PIN).size(14.0);
    let icon = if kept { icon.color(p.accent) } else { icon };
    let r = ui.add(Button::new(icon).frame_when_inactive(false));
    let r = r.accessible_name("Saved filters").on_hover_text("Saved filters");
    let menu = egui::Popup::menu(&r).close_behavior(egui::PopupCloseBehavior::CloseOnClickOutside);
    menu.show(|ui| {
        ui.set_min_width(WIDTH);
        ui.set_max_width(WIDTH);
        shown(doc, view, &now, ui);
        list(doc, view, &now, ui);
    });
    if !egui::Popup::is_id_open(ui.ctx(), egui::Popup::default_response_id(&r)) {
        keep_name(doc, view);
    }
}

/// Saves the written name when the user goes on to something else.
fn keep_name(doc: &mut Document, view: &mut View) {
    if let Some((of, name)) = view.naming.take()
        && let Some(saved) = doc.changes().filter(&of).cloned()
    {
        let name = name.trim().to_owned();
        doc.save_filter(&of, Some(SavedFilter { name, ..saved }));
    }
}

/// Draws the current filter: whether and how it is saved.
fn shown(doc: &mut Document, view: &mut View, now: &str, ui: &mut Ui) {
    let p = palette(ui);
    if now.is_empty() || view.wrong.is_some() {
        if doc.changes().filters().is_empty() {
            let message = "Write a filter to save it here and show it as a lane of the timeline.";
            ui.add_space(4.0);
            let left = egui::Layout::top_down(egui::Align::Min);
            ui.with_layout(left, |ui| ui.label(RichText::new(message).color(p.quiet)));
            ui.add_space(4.0);
        }
        return;
    }
    let Some(saved) = doc.changes().filter(now).cloned() else {
        ui.horizontal(|ui| {
            for (label, lane) in [("Save this filter", false), ("Save as a lane of the timeline", true)] {
                if ui.button(label).clicked() {
                    let name = String::new();
                    doc.save_filter(now, Some(SavedFilter { name, lane }));
                }
            }
        });
        return;
    };
    if view.naming.as_ref().is_some_and(|(of, _)| of != now) {
        keep_name(doc, view);
    }
    let naming = view.naming.get_or_insert_with(|| (now.to_owned(), saved.name.clone()));
    let hint = RichText::new("name").font(body()).color(p.quiet);
    let edit = egui::TextEdit::singleline(&mut naming.1).hint_text(hint);
    let r = ui
        .add(edit.desired_width(WIDTH - 24.0))
        .accessible_name("Name of the filter");
    if r.lost_focus() {
        keep_name(doc, view);
    }
}

/// Draws all saved filters: a click shows one again; each can be a lane or be removed.
fn list(doc: &mut Document, view: &mut View, now: &str, ui: &mut Ui) {
    let p = palette(ui);
    let filters = doc.changes().filters().to_vec();
    if filters.is_empty() {
        return;
    }
    if !now.is_empty() && view.wrong.is_none() {
        ui.separator();
    }
    let mut change = None;
    egui::ScrollArea::vertical().max_height(320.0).show(ui, |ui| {
        for (of, saved) in &filters {
            let called = if saved.name.is_empty() { of } else { &saved.name };
            ui.horizontal(|ui| {
                let lane = ui.selectable_label(saved.lane, RichText::new(icons::CLOCK).size(14.0));
                let lane = lane.accessible_name(format!("Lane of {called}"));
                if lane.on_hover_text("a lane of the timeline").clicked() {
                    let lane = !saved.lane;
                    change = Some((of.clone(), Some(SavedFilter { lane, ..saved.clone() })));
                }
                let short = text::truncate_middle(called, SHOWN);
                let font = if saved.name.is_empty() { mono() } else { body() };
                let row = ui.selectable_label(of == now, RichText::new(short).font(font));
                let row = row.accessible_name(format!("Filter {called}"));
                if row.on_hover_text(RichText::new(of).font(mono())).clicked() {
                    view.filter.clone_from(of);
                    ui.close();
                }
                ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
                    if widgets::icon_button(ui, icons::TRASH, &format!("Remove {called}")).clicked() {
                        change = Some((of.clone(), None));
                    }
                });
            });
        }
    });
    let lanes = filters.iter().filter(|f| f.1.lane).count();
    if lanes > kinescope_session::lanes::MAX_FILTER_LANES {
        let message = format!(
            "The first {} lanes are shown.",
            kinescope_session::lanes::MAX_FILTER_LANES
        );
        ui.label(RichText::new(message).font(small()).color(p.warning));
    }
    if let Some((of, new)) = change {
        doc.save_filter(&of, new);
    }
}
