//! The table of copies: a row for each input, in their order.

use super::bar::{state_colour, state_mark};
use super::navigation::go_copy;
use super::view::View;
use crate::panels::common::actions::UiActions;
use crate::panels::common::copy_menu;
use crate::theme::columns::{Column, Table};
use crate::theme::{body, focus, icons, mono, palette, widgets};
use egui::accesskit::Role;
use egui::{EventFilter, Key, Rect, Sense, Ui, WidgetInfo};
use kinescope_files::scene::Selection;
use kinescope_session::wasm_run::{CopyState, WasmRunData, call_count, describe_end};
use kinescope_session::{Document, text};
use std::sync::Arc;
use wasm_recording::{CopyEnd, CopyStream, RecordedCopy};
use wasm_run::RunEnd;

/// Name of the table in the workspace.
const TABLE: &str = "wasm-copies";

fn columns(data: &WasmRunData) -> [Column; 5] {
    [
        Column::new("input", "input", 70.0).stretch(1.0),
        Column::new("end", "end", 96.0).stretch(0.8),
        Column::new("calls", "calls", 40.0)
            .number()
            .fit_count(data.max_calls())
            .hide_order(2),
        Column::new("read", "input bytes", 66.0).number().hide_order(3),
        Column::new("output", "output", 56.0).number().hide_order(1),
    ]
}

/// Returns the number of bytes of a stream.
pub(super) fn stream_bytes(copy: &RecordedCopy, stream: CopyStream) -> u64 {
    copy.stream_bytes.get(stream as usize).copied().unwrap_or(0)
}

fn output_bytes(copy: &RecordedCopy) -> u64 {
    stream_bytes(copy, CopyStream::Output).saturating_add(stream_bytes(copy, CopyStream::Error))
}

/// Draws the table.
pub(super) fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, data: &Arc<WasmRunData>) {
    view.update_chosen(data);
    let count = view.listed(data);
    let table = Table::head(ui, actions.tables.state(TABLE), TABLE, &columns(data));
    keyed(doc, view, ui, data, count);
    if count == 0 {
        let message = match data.run().copies().is_empty() {
            true => "The run had no input, so no copy ran.",
            false => "No copy has this state and name.",
        };
        widgets::empty_state(ui, icons::CPU, message, None);
        return;
    }
    let mut rows = view.copies;
    let (mut go, mut trap) = (None, None);
    rows.show(ui, "Copies", count, |ui, row, rect| {
        let Some(number) = view.copy_in_row(row) else { return };
        let (Some(copy), Some(state)) = (data.copy(number), data.state(number)) else {
            return;
        };
        let r = ui.interact(rect, ui.scope_id().with(("copy", number)), Sense::CLICK);
        let selected = view.copy == Some(number);
        let label = format!("copy {} {}", copy.name, state.name());
        r.widget_info(|| WidgetInfo::selected(Role::Row, true, selected, &label));
        cells(ui, &table, rect, (copy, state), (selected, r.hovered()));
        let own = [("name of the input", copy.name.clone()), ("end", copy.end.to_string())];
        copy_menu::at(
            &r,
            doc,
            actions,
            &own,
            &Selection::Event,
            copy.events.end.checked_sub(1),
        );
        let r = match state {
            CopyState::Trapped => r.on_hover_text(format!("{}\nDouble click: go to the line", copy.end)),
            _ => r,
        };
        if r.double_clicked() {
            trap = Some(number);
        }
        if r.clicked() {
            go = Some(number);
        }
    });
    table.finish(ui, actions.tables.state(TABLE));
    view.copies = rows;
    if let Some(copy) = go {
        go_copy(doc, view, data, copy);
        ui.memory_mut(|m| m.request_focus(keys_id()));
    }
    if let Some(copy) = trap {
        view.go_trap(data, copy);
    }
}

fn cells(
    ui: &Ui,
    table: &Table,
    rect: Rect,
    (copy, state): (&RecordedCopy, CopyState),
    (selected, hovered): (bool, bool),
) {
    let p = palette(ui);
    if selected {
        widgets::select(ui, rect);
    } else if hovered {
        ui.painter().rect_filled(rect, 0.0, p.raised);
    }
    table.text_middle(ui, "input", rect, &copy.name, p.text);
    let failed = state == CopyState::Done && copy.end != CopyEnd::Ended(RunEnd::Exit(0));
    let ink = match state {
        CopyState::Done if failed => p.warning,
        CopyState::Done => p.quiet,
        state => state_colour(p, state),
    };
    let mark = if failed { "!" } else { state_mark(state) };
    let end = describe_end(copy);
    table.text(ui, "end", rect, &format!("{mark} {end}"), body(), ink);
    let calls = text::count(call_count(copy));
    table.text(ui, "calls", rect, &calls, mono(), p.quiet);
    let read = text::bytes(stream_bytes(copy, CopyStream::Input));
    table.text(ui, "read", rect, &read, mono(), p.quiet);
    let output = text::bytes(output_bytes(copy));
    table.text(ui, "output", rect, &output, mono(), p.text);
}

fn keys_id() -> egui::Id {
    egui::Id::unique("wasm-copies-keys")
}

/// Handles keys: arrows go from copy to copy, Enter goes to the line of the trap.
fn keyed(doc: &mut Document, view: &mut View, ui: &Ui, data: &Arc<WasmRunData>, count: u64) {
    let id = keys_id();
    let area = ui.available_rect_before_wrap();
    let r = focus::area(ui, area, id);
    r.widget_info(|| WidgetInfo::labeled(Role::Table, true, "Table of copies"));
    if !ui.memory(|m| m.focused() == Some(id)) {
        return;
    }
    let filter = EventFilter {
        vertical_arrows: true,
        ..Default::default()
    };
    ui.memory_mut(|m| m.set_focus_lock_filter(id, filter));
    let pressed = |k: Key| ui.input(|i| i.key_pressed(k) && i.modifiers.is_none());
    if pressed(Key::Enter)
        && let Some(copy) = view.copy
    {
        view.go_trap(data, copy);
        return;
    }
    let page = ((area.height() / crate::theme::ROW) as i64).max(1);
    let moves = [
        (Key::ArrowUp, -1),
        (Key::ArrowDown, 1),
        (Key::PageUp, -page),
        (Key::PageDown, page),
    ];
    let Some((_, by)) = moves.into_iter().find(|(k, _)| pressed(*k)) else {
        return;
    };
    let here = view.copy.and_then(|copy| view.row_of(copy));
    let to = match here {
        Some(row) => row.saturating_add_signed(by).min(count.saturating_sub(1)),
        None => 0,
    };
    if let Some(copy) = view.copy_in_row(to).filter(|_| count > 0) {
        go_copy(doc, view, data, copy);
    }
}
