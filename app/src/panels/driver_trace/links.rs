//! Links in the rows of the panels of driver traces: to events and to objects.

use crate::panels::common::actions::{PanelAction, UiActions};
use crate::theme::columns::Table;
use crate::theme::widgets::paint_text;
use crate::theme::{focus, mono, palette};
use egui::accesskit::Role;
use egui::{Align2, CursorIcon, Rect, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::driver_data::{DriverData, ObjectText, PointedBuffer};
use kinescope_session::{Document, text};

/// Draws an event number in a column of a row as a link. Returns whether it was clicked.
pub(super) fn event_cell(ui: &Ui, table: &Table, column: &str, row: Rect, event: u64, label: &str) -> bool {
    let Some(cell) = table.cell(column, row) else {
        return false;
    };
    let p = palette(ui);
    let number = text::count(event);
    table.note(ui, column, &number, &mono(), 0.0);
    let used = paint_text(ui, cell, Align2::RIGHT_CENTER, &number, mono(), p.read);
    let place = Rect::from_min_max(pos2(cell.right() - used, row.top()), pos2(cell.right(), row.bottom()));
    let id = ui.scope_id().with((column, "event", event, row.top() as i64));
    let link = ui.interact(place.expand2(vec2(4.0, 0.0)), id, focus::part_sense(ui));
    link.widget_info(|| WidgetInfo::labeled(Role::Link, true, label));
    if link.hovered() {
        ui.painter()
            .hline(place.x_range(), place.center().y + 7.0, Stroke::new(1.0, p.read));
    }
    link.on_hover_cursor(CursorIcon::PointingHand).clicked()
}

/// Draws the name of the buffer that an address points into as a link to its object, and returns the width that it
/// takes. Without a known buffer it draws nothing.
pub(super) fn buffer_link(
    doc: &Document,
    data: &DriverData,
    actions: &mut UiActions,
    ui: &Ui,
    rect: Rect,
    target: &PointedBuffer,
) -> f32 {
    let (Some((object, _)), Some(name)) = (target.buffer, target.describe(&doc.recording, &data.trace)) else {
        return 0.0;
    };
    let p = palette(ui);
    let shown = format!("→ {name}");
    let used = paint_text(ui, rect, Align2::LEFT_CENTER, &shown, mono(), p.read);
    let place = Rect::from_min_max(rect.min, pos2(rect.left() + used, rect.bottom()));
    let id = ui
        .scope_id()
        .with(("buffer", target.va, rect.top() as i64, rect.left() as i64));
    let link = ui.interact(place, id, focus::part_sense(ui));
    link.widget_info(|| WidgetInfo::labeled(Role::Link, true, format!("{} points to {name}", target.va)));
    if link.hovered() {
        ui.painter()
            .hline(place.x_range(), place.center().y + 7.0, Stroke::new(1.0, p.read));
    }
    let link = link.on_hover_cursor(CursorIcon::PointingHand);
    link.context_menu(|ui| {
        if ui.button("Show in Objects").clicked() {
            show_object(actions, object);
            ui.close();
        }
        if ui.button("Show in Address space").clicked() {
            show_in_address_space(actions, object);
            ui.close();
        }
        for (what, text) in [("address", target.va.to_string()), ("buffer", name.clone())] {
            if ui.button(format!("Copy {what}")).clicked() {
                ui.ctx().copy_text(text);
                ui.close();
            }
        }
    });
    let link = match link.hovered() {
        true => link.on_hover_text(describe_object(doc, data, object)),
        false => link,
    };
    if link.clicked() {
        show_object(actions, object);
    }
    used
}

/// Shows an object in Objects.
pub(super) fn show_object(actions: &mut UiActions, object: u32) {
    actions.push(PanelAction::DriverObject(object));
    actions.run_command("show-objects");
}

/// Shows the addresses of an object in Address space.
pub(super) fn show_in_address_space(actions: &mut UiActions, object: u32) {
    actions.push(PanelAction::ObjectAddresses(object));
    actions.run_command("show-address-space");
}

/// Describes an object in a few lines: what it is, its size, who asked for it, its life time.
pub(super) fn describe_object(doc: &Document, data: &DriverData, object: u32) -> String {
    let index = object as usize;
    let (Some(t), Some(o)) = (
        ObjectText::new(&doc.recording, &data.trace, index),
        data.trace.objects().get(index),
    ) else {
        return String::new();
    };
    let mut lines = vec![format!("{} {}", t.name(), t.class()).trim_end().to_owned()];
    if let Some(bytes) = o.bytes {
        let place = match t.place() {
            "" => String::new(),
            place => format!(" in {place} memory"),
        };
        lines.push(format!("{bytes:#x} bytes ({}){place}", text::bytes(bytes)));
    }
    let caller = match t.caller() {
        "" => String::new(),
        caller => format!(" by {caller}"),
    };
    lines.push(match o.alloc_event {
        Some(event) => format!("allocated{caller} at event {}", text::count(event)),
        None => "existed before the recording, or is only named in it".to_owned(),
    });
    lines.push(match o.free_event {
        Some(event) => format!("freed at event {}", text::count(event)),
        None => "not freed in the recording".to_owned(),
    });
    lines.join("\n")
}
