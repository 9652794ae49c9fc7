//! The list of the ranges that exist after the current event.

use super::chart::describe_range;
use super::style::draw_swatch;
use super::view::View;
use crate::panels::common::actions::UiActions;
use crate::panels::driver_trace::links;
use crate::theme::columns::{Column, Table};
use crate::theme::{body, focus, icons, mono, palette, widgets};
use egui::accesskit::Role;
use egui::{Rect, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::driver_data::{DriverData, MappedRange, ObjectText};
use kinescope_session::{Document, text};
use std::sync::Arc;

/// Name of the table in the workspace.
const TABLE: &str = "address-space";
/// Width of the colour before a place, points.
const SWATCH: f32 = 12.0;

fn columns(doc: &Document) -> [Column; 6] {
    [
        Column::new("address", "GPU address", 118.0),
        Column::new("size", "size", 76.0).number(),
        Column::new("object", "object", 104.0).stretch(1.0),
        Column::new("memory", "memory", 96.0).hide_order(3).compact(10.0),
        Column::new("from", "from", 48.0)
            .number()
            .fit_count(doc.len())
            .hide_order(2),
        Column::new("until", "until", 48.0)
            .number()
            .fit_count(doc.len())
            .hide_order(1),
    ]
}

/// Draws the list.
pub(super) fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, data: &DriverData) {
    let table = Table::head(ui, actions.tables.state(TABLE), TABLE, &columns(doc));
    let now = Arc::clone(&view.now);
    if now.is_empty() {
        table.finish(ui, actions.tables.state(TABLE));
        let message = "No buffer has a GPU address after the current event.";
        widgets::empty_state(ui, icons::SQUARES_FOUR, message, None);
        return;
    }
    if view.reveal
        && let Some(row) = view.selected.and_then(|s| now.binary_search(&s).ok())
    {
        view.list.reveal(row as u64);
    }
    let mut list = view.list;
    list.show(ui, "Ranges", now.len() as u64, |ui, n, rect| {
        let found = now.get(n as usize);
        if let Some((range, r)) = found.and_then(|n| Some((*n, data.addresses.ranges.get(*n as usize)?))) {
            row(doc, view, actions, ui, data, &table, (range, r, rect));
        }
    });
    view.list = list;
    table.finish(ui, actions.tables.state(TABLE));
}

fn row(
    doc: &mut Document,
    view: &mut View,
    actions: &mut UiActions,
    ui: &mut Ui,
    data: &DriverData,
    table: &Table,
    (range, r, rect): (u32, &MappedRange, Rect),
) {
    let recording = Arc::clone(&doc.recording);
    let Some(t) = ObjectText::new(&recording, &data.trace, r.object as usize) else {
        return;
    };
    let p = palette(ui);
    let response = focus::row_response(ui, rect, ui.scope_id().with(("range", range)));
    let selected = view.selected == Some(range);
    let label = format!("{} at {}", t.name(), r.va);
    response.widget_info(|| WidgetInfo::selected(Role::Row, true, selected, &label));
    if selected {
        widgets::select(ui, rect);
    } else if response.hovered() {
        ui.painter().rect_filled(rect, 0.0, p.raised);
    }
    table.text(ui, "address", rect, &r.va.to_string(), mono(), p.text);
    table.text(ui, "size", rect, &format!("{:#x}", r.bytes), mono(), p.text);
    table.text_middle(ui, "object", rect, &t.name(), p.text);
    if let Some(cell) = table.cell("memory", rect) {
        let at = Rect::from_min_size(pos2(cell.left(), cell.center().y - 4.0), vec2(8.0, 8.0));
        draw_swatch(ui, at, r.place);
        if !table.is_compact("memory") {
            let words = cell.with_min_x(cell.left() + SWATCH);
            table.note(ui, "memory", r.place.name(), &body(), SWATCH);
            widgets::paint_text(ui, words, egui::Align2::LEFT_CENTER, r.place.name(), body(), p.quiet);
        }
    }
    let mut go =
        links::event_cell(ui, table, "from", rect, r.from, &format!("start of {}", t.name())).then_some(r.from);
    if let Some(to) = r.to
        && links::event_cell(ui, table, "until", rect, to, &format!("end of {}", t.name()))
    {
        go = Some(to);
    }
    response.context_menu(|ui| {
        if ui.button("Go to its start").clicked() {
            go = Some(r.from);
            ui.close();
        }
        if let Some(to) = r.to
            && ui.button("Go to its end").clicked()
        {
            go = Some(to);
            ui.close();
        }
        if ui.button("Show in Objects").clicked() {
            links::show_object(actions, r.object);
            ui.close();
        }
        ui.separator();
        let parts = [
            ("address", r.va.to_string()),
            ("range", format!("{}..{}", r.va, r.end())),
            ("size", format!("{:#x}", r.bytes)),
            ("object", t.name()),
        ];
        for (what, text) in parts {
            if ui.button(format!("Copy {what}")).clicked() {
                ui.ctx().copy_text(text);
                ui.close();
            }
        }
    });
    let response = match response.hovered() {
        true => response.on_hover_text(describe_range(doc, data, range)),
        false => response,
    };
    if response.clicked() || go.is_some() {
        view.selected = Some(range);
        view.without_address = None;
        view.reveal = true;
    }
    if let Some(event) = go {
        doc.go(event);
    }
}

/// Describes the ranges after the current event in a few words: their number and size.
pub(super) fn describe_now(view: &View, data: &DriverData) -> String {
    let bytes = view.now.iter().filter_map(|n| data.addresses.ranges.get(*n as usize));
    let bytes = bytes.fold(0u64, |sum, r| sum.saturating_add(r.bytes));
    let count = text::count_noun(view.now.len() as u64, "range", "ranges");
    format!("{count}, {}", text::bytes(bytes))
}
