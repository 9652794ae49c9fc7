//! The list of buffers in order of appearance, each with the parts that the program named. Buffers that do not exist at
//! the current event are dimmed.

use super::super::view::View;
use super::content::event_of_side;
use crate::panels::common::actions::UiActions;
use crate::theme::columns::{Column, Table};
use crate::theme::widgets::{self, paint_middle};
use crate::theme::{body, focus, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Ui, WidgetInfo};
use kinescope_files::scene::Selection;
use kinescope_session::{Document, text};
use trace_core::api_trace::{ApiTrace, BufferKind};

/// Name of the table in the workspace.
const TABLE: &str = "buffers";

/// Indent of a part of a buffer, points.
const PART_INDENT: f32 = 12.0;

/// Returns the columns.
fn columns() -> [Column; 2] {
    [
        Column::new("buffer", "buffer", 80.0).stretch(1.0),
        Column::new("size", "size", 52.0).number().hide_order(1),
    ]
}

/// Draws the list.
pub(super) fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, api_trace: &ApiTrace) {
    let p = palette(ui);
    let table = Table::head(ui, actions.tables.state(TABLE), TABLE, &columns());
    let at = event_of_side(doc, view.device.side);
    let buffers = api_trace.buffers();
    let all = buffers.rows();
    let mut rows = view.device.list;
    let mut chosen = None;
    rows.show(ui, "Buffers", all.len() as u64, |ui, row, rect| {
        let Some(memory) = all.get(row as usize) else { return };
        let (Some(b), Some((from, bytes))) = (buffers.get(memory.buffer), buffers.row_memory(*memory)) else {
            return;
        };
        let on = !memory.is_part() && view.device.buffer == Some(memory.buffer);
        let name = buffers.name_row(*memory, at);
        let indent = if memory.is_part() { PART_INDENT } else { 0.0 };
        let r = focus::row_response(ui, rect, ui.scope_id().with(("buffer", row)));
        r.widget_info(|| WidgetInfo::selected(Role::Row, true, on, format!("device buffer {name}")));
        if on {
            widgets::select(ui, rect);
        } else if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let here = b.is_live_at(at);
        let ink = if here { p.text } else { p.quiet };
        if let Some(cell) = table.cell("buffer", rect) {
            table.note(ui, "buffer", name, &body(), indent);
            let cell = egui::Rect::from_min_max(cell.min + egui::vec2(indent, 0.0), cell.max);
            paint_middle(ui, cell, Align2::LEFT_CENTER, name, body(), ink);
        }
        table.text(ui, "size", rect, &text::bytes(bytes), small(), p.quiet);
        let mut message = match memory.is_part() {
            true => format!("{from:#x} · a part of {}", b.name),
            false => format!("{from:#x} · {}", b.kind.name()),
        };
        if b.kind != BufferKind::Variable {
            message.push_str(&format!("\nallocated at event {}", text::count(b.from)));
        }
        if let Some(to) = b.to {
            message.push_str(&format!(", freed at event {}", text::count(to)));
        }
        if !here {
            message.push_str("\nnot allocated at the current event");
        }
        let r = r.on_hover_text(message);
        widgets::add_copy_menu(&r, &[("name", name.to_owned()), ("address", format!("{from:#x}"))]);
        if r.clicked() {
            chosen = Some((memory.buffer, from));
        }
    });
    table.finish(ui, actions.tables.state(TABLE));
    view.device.list = rows;
    if let Some((buffer, va)) = chosen {
        doc.select(Selection::Memory { space: 0, va, bytes: 1 });
        let d = &mut view.device;
        d.buffer = Some(buffer);
        d.reveal = Some(va.get());
        d.seen_jump = doc.jumps;
    }
}
