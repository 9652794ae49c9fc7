//! The bar above the code: name of the shader, search, unknown parts, copy.

use super::view::View;
use crate::panels::common::actions::UiActions;
use crate::theme::{body, icons, mono, palette, small, widgets};
use egui::{Key, Modifiers, RichText, Ui};
use kinescope_session::code::{ChainShader, Listing};
use kinescope_session::{Document, text};
use std::sync::Arc;

/// Returns the name of a shader of a chain.
fn name(r: &ChainShader, all: &[ChainShader]) -> String {
    let chained = all.last().is_some_and(|x| x.position != 0);
    let place = if chained {
        format!("{} of the chain · ", r.position + 1)
    } else {
        String::new()
    };
    format!("{place}{} {:#x}", r.stage.name(), r.entry)
}

/// Draws the bar.
pub fn ui(_doc: &Document, view: &mut View, _asks: &mut UiActions, ui: &mut Ui, job: u32, all: &[ChainShader]) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(8.0);
        ui.label(RichText::new(format!("job {}", text::count(u64::from(job)))).color(p.job));
        let now = all.get(view.chosen.1).map_or_else(String::new, |r| name(r, all));
        if all.len() > 1 {
            let combo = egui::ComboBox::from_id_salt("shader-of-job")
                .selected_text(RichText::new(&now).font(mono()))
                .show_ui(ui, |ui| {
                    let area = egui::ScrollArea::vertical().max_height(320.0);
                    area.show_rows(ui, 20.0, all.len(), |ui, rows| {
                        for (n, r) in all.iter().enumerate().take(rows.end).skip(rows.start) {
                            let rich_text = RichText::new(name(r, all)).font(mono());
                            if ui.selectable_value(&mut view.chosen, (job, n), rich_text).clicked() {
                                ui.close();
                            }
                        }
                    });
                });
            combo
                .response
                .widget_info(|| egui::WidgetInfo::labeled(egui::accesskit::Role::ComboBox, true, "Shader of the job"));
        } else {
            ui.label(RichText::new(now).font(mono()));
        }
        let Some(listing) = view.listing.clone() else { return };
        search(view, &listing, ui);
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            ui.add_space(8.0);
            if widgets::icon_button(ui, icons::COPY, "Copy the code as text").clicked() {
                ui.ctx().copy_text(listing.text(0..listing.begins.len()));
            }
            let open = view.thread.open;
            let follow = ui.selectable_label(open, RichText::new("Thread").font(small()));
            follow.widget_info(|| {
                egui::WidgetInfo::selected(egui::accesskit::Role::Button, true, open, "Follow a thread")
            });
            let message = "run one thread of the job on the simulator and step through its clauses (T)";
            if follow.on_hover_text(message).clicked() {
                view.toggle_thread(false);
            }
            let n = listing.unknown_operations;
            if n > 0 {
                let summary = format!("! {} unknown", text::count(n));
                let label = "Next unknown operation";
                let r = ui.add(
                    egui::Button::new(RichText::new(summary).font(small()).color(p.warning)).frame_when_inactive(false),
                );
                r.widget_info(|| egui::WidgetInfo::labeled(egui::accesskit::Role::Button, true, label));
                let r = r.on_hover_text(
                    "operations with bits that the instruction set table does not list; a click goes to the next one",
                );
                if r.clicked() {
                    next(view, &listing.unknown, true);
                }
            }
            let clauses = text::count_noun(listing.begins.len() as u64, "clause", "clauses");
            let operations = text::count_noun(listing.operations, "operation", "operations");
            let rich_text = if listing.code.end.is_complete() {
                RichText::new(format!("{clauses} · {operations}")).color(p.quiet)
            } else {
                RichText::new(format!("▲ {clauses}, then {}", listing.code.end.describe())).color(p.error)
            };
            ui.add(egui::Label::new(rich_text.font(small())).truncate());
        });
    });
}

fn search(view: &mut View, listing: &Listing, ui: &mut Ui) {
    let p = palette(ui);
    let hint = RichText::new("search").font(body()).color(p.quiet);
    let edit = egui::TextEdit::singleline(&mut view.search)
        .id(egui::Id::unique("shader-search"))
        .font(mono())
        .desired_width((ui.available_width() - 330.0).clamp(70.0, 180.0))
        .hint_text(hint);
    let r = ui.add(edit).accessible_name("Search the shader");
    if std::mem::take(&mut view.focus_search) {
        r.request_focus();
    }
    if view.hits.0 != view.search {
        view.hits = (view.search.clone(), Arc::new(listing.find(&view.search)));
        view.hit = None;
        // The first match starts at the user's position.
        if let Some(first) = view.hits.1.first().copied() {
            view.hit = Some(first);
            view.go_line(first);
        }
    }
    let enter = r.lost_focus() && ui.input(|i| i.key_pressed(Key::Enter));
    if enter {
        let back = ui.input(|i| i.modifiers.matches_exact(Modifiers::SHIFT));
        let hits = Arc::clone(&view.hits.1);
        next(view, &hits, !back);
        r.request_focus();
    }
    if view.search.trim().is_empty() {
        return;
    }
    let n = view.hits.1.len();
    if n == 0 {
        ui.label(RichText::new("not found").font(small()).color(p.warning));
        return;
    }
    let at = view.hit.and_then(|h| view.hits.1.binary_search(&h).ok());
    let message = match at {
        Some(i) => format!("{} of {}", text::count(i as u64 + 1), text::count(n as u64)),
        None => text::count(n as u64),
    };
    ui.label(RichText::new(message).font(small()).color(p.quiet));
    let hits = Arc::clone(&view.hits.1);
    if widgets::icon_button(ui, icons::CARET_UP, "Previous hit in the shader").clicked() {
        next(view, &hits, false);
    }
    if widgets::icon_button(ui, icons::CARET_DOWN, "Next hit in the shader").clicked() {
        next(view, &hits, true);
    }
}

/// Goes to the next or previous of some lines, from the user's position; after the last comes the first.
pub(super) fn next(view: &mut View, lines: &[usize], forward: bool) {
    let here = view
        .hit
        .or_else(|| view.listing.as_ref()?.begins.get(view.clause).copied());
    let found = match here {
        Some(h) if forward => lines.iter().find(|l| **l > h).or(lines.first()),
        Some(h) => lines.iter().rev().find(|l| **l < h).or(lines.last()),
        None => lines.first(),
    };
    if let Some(line) = found.copied() {
        view.hit = Some(line);
        view.go_line(line);
    }
}
