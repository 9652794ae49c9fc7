//! Log: what the program did and what went wrong, newest last.

use crate::document::Document;
use crate::theme::rows::Rows;
use crate::theme::widgets::{self, paint_text};
use crate::theme::{body, icons, mono, palette};
use crate::window::Asks;
use crate::window::log::{self, Level};
use egui::accesskit::Role;
use egui::{Align2, Rect, Sense, Ui, WidgetInfo, pos2};

/// Draws the panel.
pub fn ui(_doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    let lines = log::lines();
    if lines.is_empty() {
        widgets::empty(
            ui,
            icons::TERMINAL_WINDOW,
            "Nothing has happened yet. What the program does is told here.",
            None,
        );
        return;
    }
    let id = ui.scope_id().with("log rows");
    let mut rows: Rows = ui.data(|d| d.get_temp(id)).unwrap_or_default();
    let seen = ui.data(|d| d.get_temp::<usize>(id.with("seen"))).unwrap_or(0);
    if seen != lines.len() {
        rows.top = f64::MAX;
    }
    rows.show(ui, "Log", lines.len() as u64, |ui, row, rect| {
        let Some(l) = lines.get(row as usize) else { return };
        let r = ui.interact(rect, ui.scope_id().with(("log", row)), Sense::click());
        r.widget_info(|| WidgetInfo::labeled(Role::Row, true, format!("log {}", l.text)));
        let (word, colour) = match l.level {
            Level::Info => ("", p.text),
            Level::Warning => ("! ", p.warning),
            Level::Error => ("▲ ", p.error),
        };
        ui.painter().text(
            pos2(rect.left() + 12.0, rect.center().y),
            Align2::LEFT_CENTER,
            &l.time,
            mono(),
            p.quiet,
        );
        let rest = Rect::from_min_max(pos2(rect.left() + 90.0, rect.top()), rect.max);
        paint_text(
            ui,
            rest,
            Align2::LEFT_CENTER,
            &format!("{word}{}", l.text),
            body(),
            colour,
        );
        r.context_menu(|ui| {
            if ui.button("Copy line").clicked() {
                ui.ctx().copy_text(format!("{} {}", l.time, l.text));
            }
            asks.menu_item(ui, "copy-log");
        });
    });
    ui.data_mut(|d| {
        d.insert_temp(id, rows);
        d.insert_temp(id.with("seen"), lines.len());
    });
}
