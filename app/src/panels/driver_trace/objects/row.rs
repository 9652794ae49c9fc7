//! A row of the tree of objects, and its menu.

use super::view::View;
use crate::panels::common::actions::UiActions;
use crate::panels::common::copy_menu;
use crate::panels::driver_trace::links;
use crate::theme::columns::Table;
use crate::theme::widgets::{self, paint_middle};
use crate::theme::{body, focus, icons, mono, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Rect, Response, Ui, WidgetInfo, pos2};
use kinescope_files::scene::Selection;
use kinescope_session::driver_data::{DriverData, ObjectText, TreeRow};
use kinescope_session::{Document, text};
use trace_core::driver_trace::DriverObject;

/// Indentation of a level of the tree, points.
const INDENT: f32 = 14.0;
/// Maximum number of levels that are indented.
const MAX_INDENT: u16 = 8;
/// Width of the mark that folds children, points.
const CARET: f32 = 14.0;

/// Returns the indentation of a row, points.
pub(super) fn indent(depth: u16) -> f32 {
    f32::from(depth.min(MAX_INDENT)) * INDENT
}

/// Draws a row.
pub(super) fn ui(
    doc: &mut Document,
    view: &mut View,
    actions: &mut UiActions,
    ui: &mut Ui,
    data: &DriverData,
    table: &Table,
    (row, rect): (&TreeRow, Rect),
) {
    let index = row.object as usize;
    let recording = std::sync::Arc::clone(&doc.recording);
    let (Some(t), Some(o)) = (
        ObjectText::new(&recording, &data.trace, index),
        data.trace.objects().get(index),
    ) else {
        return;
    };
    let p = palette(ui);
    let r = focus::row_response(ui, rect, ui.scope_id().with(("object", row.object)));
    let selected = view.selected == Some(row.object);
    let name = t.name();
    r.widget_info(|| WidgetInfo::selected(Role::Row, true, selected, &name));
    if selected {
        widgets::select(ui, rect);
    } else if r.hovered() {
        ui.painter().rect_filled(rect, 0.0, p.raised);
    }
    let is_freed = o.free_event.is_some_and(|e| e <= doc.current_event());
    let ink = if is_freed { p.quiet } else { p.text };
    let has_children = data.row_of(row.object).is_some_and(|n| row.end > n + 1);
    name_cell(view, ui, table, (row, rect, has_children), &t, ink);
    let mut cut = table.text(ui, "class", rect, &t.class(), small(), p.quiet);
    cut |= table.text(ui, "size", rect, &t.size(), mono(), ink);
    let amount = o.bytes.map_or_else(String::new, text::bytes);
    table.text(ui, "amount", rect, &amount, mono(), p.quiet);
    table.text(ui, "place", rect, t.place(), body(), ink);
    cut |= table.text(ui, "address", rect, &t.address(), mono(), ink);
    let mut go = None;
    if let Some(event) = o.alloc_event
        && links::event_cell(ui, table, "created", rect, event, &format!("allocation of {name}"))
    {
        go = Some(event);
    }
    if let Some(event) = o.free_event
        && links::event_cell(ui, table, "freed", rect, event, &format!("free of {name}"))
    {
        go = Some(event);
    }
    cut |= table.text(ui, "caller", rect, t.caller(), mono(), ink);
    menu(doc, actions, &r, (row.object, o), &t);
    let r = match cut && r.hovered() {
        true => r.on_hover_text(links::describe_object(doc, data, row.object)),
        false => r,
    };
    if r.double_clicked() && has_children {
        view.toggle(row.object);
    }
    if r.clicked() || go.is_some() {
        view.selected = Some(row.object);
        if let Some(event) = go.or(o.alloc_event) {
            doc.go(event);
            view.seen_jump = doc.jumps;
        }
    }
}

/// Draws the name, indented, with the mark that folds its children.
fn name_cell(
    view: &mut View,
    ui: &Ui,
    table: &Table,
    (row, rect, has_children): (&TreeRow, Rect, bool),
    t: &ObjectText<'_>,
    ink: egui::Color32,
) {
    let Some(cell) = table.cell("object", rect) else {
        return;
    };
    let p = palette(ui);
    let indent = indent(row.depth);
    let caret = Rect::from_min_max(
        pos2(cell.left() + indent - 4.0, cell.top()),
        pos2(cell.left() + indent + CARET - 2.0, cell.bottom()),
    );
    if has_children {
        let is_folded = view.folded.contains(&row.object);
        let id = ui.scope_id().with(("fold", row.object));
        let fold = ui.interact(caret, id, focus::part_sense(ui));
        let verb = if is_folded { "Show" } else { "Hide" };
        fold.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("{verb} children of {}", t.name())));
        let icon = if is_folded {
            icons::CARET_RIGHT
        } else {
            icons::CARET_DOWN
        };
        let mark = if fold.hovered() { p.text } else { p.quiet };
        ui.painter()
            .text(caret.center(), Align2::CENTER_CENTER, icon, body(), mark);
        if fold.clicked() {
            view.toggle(row.object);
        }
    }
    let kind = t.kind();
    table.note(ui, "object", &t.name(), &mono(), indent + CARET);
    let words = Rect::from_min_max(pos2(cell.left() + indent + CARET, cell.top()), cell.max);
    let used = widgets::paint_text(ui, words, Align2::LEFT_CENTER, &kind, body(), ink);
    let rest = Rect::from_min_max(pos2(words.left() + used + 6.0, words.top()), words.max);
    if rest.width() > 8.0 {
        paint_middle(ui, rest, Align2::LEFT_CENTER, &t.id(), mono(), ink);
    }
}

/// Attaches the menu of an object.
fn menu(
    doc: &mut Document,
    actions: &mut UiActions,
    r: &Response,
    (index, o): (u32, &DriverObject),
    t: &ObjectText<'_>,
) {
    r.context_menu(|ui| {
        let mut go = |ui: &mut Ui, title: &str, event: Option<u64>| {
            if ui.add_enabled(event.is_some(), egui::Button::new(title)).clicked() {
                if let Some(event) = event {
                    doc.go(event);
                }
                ui.close();
            }
        };
        go(ui, "Go to allocation", o.alloc_event);
        go(ui, "Go to free", o.free_event);
        if ui.button("Show in Address space").clicked() {
            links::show_in_address_space(actions, index);
            ui.close();
        }
        ui.separator();
        let parts = [
            ("name", t.name()),
            ("class", t.class()),
            ("size", t.size()),
            ("address", t.address()),
            ("caller", t.caller().to_owned()),
        ];
        for (what, text) in parts.into_iter().filter(|(_, text)| !text.is_empty()) {
            if ui.button(format!("Copy {what}")).clicked() {
                ui.ctx().copy_text(text);
                ui.close();
            }
        }
        copy_menu::forms(doc, actions, ui, &[], &Selection::Event, o.alloc_event);
    });
}
