//! The table of copies: a row for each input, in their order.

use super::navigation::go_copy;
use super::view::View;
use crate::panels::common::actions::UiActions;
use crate::panels::common::copy_menu;
use crate::panels::common::copy_state::{state_colour, state_mark};
use crate::theme::columns::{Column, Table};
use crate::theme::table_keys::{TableKey, TableKeys};
use crate::theme::{body, icons, mono, palette, widgets};
use egui::accesskit::Role;
use egui::{Color32, Rect, Sense, Ui, WidgetInfo};
use kinescope_files::scene::Selection;
use kinescope_session::wasm_run::{CopyState, RunCopies, WasmRunData, call_count, describe_end};
use kinescope_session::{Document, text};
use std::sync::Arc;
use wasm_recording::{CopyStream, RecordedCopy};

/// Name of the table in the workspace.
const TABLE: &str = "wasm-copies";

/// Minimum and maximum width of the ends of copies, points.
const END: (f32, f32) = (72.0, 196.0);

/// Minimum and maximum width of the names of inputs, and width of a character of them, points.
const NAME: (f32, f32) = (56.0, 120.0);
const DIGIT: f32 = 7.4;

/// Returns the columns. The column of ends has room for the longest one, as `ends` gives its width.
fn columns(data: &RunCopies, ends: f32) -> [Column; 5] {
    let names = data.max_name() as f32 * DIGIT;
    [
        Column::new("input", "input", names.clamp(NAME.0, NAME.1)).stretch(1.0),
        Column::new("end", "end", ends.clamp(END.0, END.1)).stretch(0.4),
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
    let ends = end_width(ui, data.copies());
    let table = Table::head(ui, actions.tables.state(TABLE), TABLE, &columns(data.copies(), ends));
    keyed(doc, view, ui, data, count);
    if count == 0 {
        let message = match data.copies().run().copies().is_empty() {
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
        let (Some(copy), Some(state)) = (data.copies().copy(number), data.copies().state(number)) else {
            return;
        };
        let r = ui.interact(rect, ui.scope_id().with(("copy", number)), Sense::CLICK);
        let selected = view.copy == Some(number);
        let label = format!("copy {} {}", copy.name, state.name());
        r.widget_info(|| WidgetInfo::selected(Role::Row, true, selected, &label));
        let cut = cells(ui, &table, rect, (copy, state), (selected, r.hovered()));
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
            _ if cut => r.on_hover_text(format!("{}\n{}", copy.name, copy.end)),
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

/// Paints the cells of a copy. Returns whether its name or its end was cut.
fn cells(
    ui: &Ui,
    table: &Table,
    rect: Rect,
    (copy, state): (&RecordedCopy, CopyState),
    (selected, hovered): (bool, bool),
) -> bool {
    let p = palette(ui);
    if selected {
        widgets::select(ui, rect);
    } else if hovered {
        ui.painter().rect_filled(rect, 0.0, p.raised);
    }
    let name = table.text_middle(ui, "input", rect, &copy.name, p.text);
    let ink = match state {
        CopyState::Done => p.quiet,
        state => state_colour(p, state),
    };
    let end = table.text(ui, "end", rect, &end_text(state, &describe_end(copy)), body(), ink);
    let calls = text::count(call_count(copy));
    table.text(ui, "calls", rect, &calls, mono(), p.quiet);
    let read = text::bytes(stream_bytes(copy, CopyStream::Input));
    table.text(ui, "read", rect, &read, mono(), p.quiet);
    let output = text::bytes(output_bytes(copy));
    table.text(ui, "output", rect, &output, mono(), p.text);
    name || end
}

fn end_text(state: CopyState, end: &str) -> String {
    format!("{} {end}", state_mark(state))
}

/// Returns the width of the longest end of a copy, points.
fn end_width(ui: &Ui, copies: &RunCopies) -> f32 {
    let measure = |text: String| ui.painter().layout_no_wrap(text, body(), Color32::WHITE).size().x;
    let widths = copies.longest_ends().map(|(state, end)| measure(end_text(state, end)));
    widths.fold(0.0, f32::max).ceil()
}

fn keys_id() -> egui::Id {
    egui::Id::unique("wasm-copies-keys")
}

/// Handles keys: up and down go from copy to copy, left and right through the parts of a copy, Enter goes to the line
/// of the trap.
fn keyed(doc: &mut Document, view: &mut View, ui: &Ui, data: &Arc<WasmRunData>, count: u64) {
    let keys = TableKeys {
        id: keys_id(),
        name: "Table of copies",
        has_parts: true,
    };
    let here = || view.copy.and_then(|copy| view.row_of(copy));
    match (keys.read(ui, here, count), view.copy) {
        (Some(TableKey::Row(row)), _) => {
            if let Some(copy) = view.copy_in_row(row) {
                go_copy(doc, view, data, copy);
            }
        }
        (Some(TableKey::Enter), Some(copy)) => view.go_trap(data, copy),
        (Some(TableKey::Part(forward)), Some(copy)) => view.step_part(data, copy, forward),
        _ => {}
    }
}
