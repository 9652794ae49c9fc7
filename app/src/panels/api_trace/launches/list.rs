//! The table of launches, one row each, for any number of launches.

use super::view::View;
use crate::panels::common::actions::{PanelAction, UiActions};
use crate::panels::common::copy_menu;
use crate::theme::columns::{Column, Table};
use crate::theme::table_keys::{TableKey, TableKeys};
use crate::theme::widgets::{self, paint_middle};
use crate::theme::{icons, mono, palette};
use egui::accesskit::Role;
use egui::{Align2, Rect, Sense, Stroke, Ui, WidgetInfo, pos2};
use kinescope_files::scene::Selection;
use kinescope_session::api_trace::{self, LaunchSort};
use kinescope_session::{Document, text};
use trace_core::api_trace::ApiTrace;
use trace_core::recording::{CALL_OF_GRAPH, LaunchRow};

/// Maximum number of arguments of a launch that the list shows.
const MAX_ARGUMENTS: usize = 12;

/// Name of the table in the workspace.
const TABLE: &str = "launches";

/// Returns the columns. Results appear only if a call failed, changes and device times only if a target or the recorder
/// reported them.
fn columns(doc: &Document, view: &View, api_trace: &ApiTrace) -> [Column; 12] {
    let sorts = |c: Column, sort: LaunchSort| {
        let now = view.sort == sort && (sort != LaunchSort::Order || view.falling);
        c.sortable(now.then_some(view.falling))
    };
    [
        sorts(
            Column::new("launch", "launch", 44.0)
                .number()
                .fit_count(api_trace.launches().len() as u64),
            LaunchSort::Order,
        ),
        Column::new("event", "event", 52.0)
            .number()
            .fit_count(doc.len())
            .hide_order(5),
        sorts(Column::new("kernel", "kernel", 80.0).stretch(1.0), LaunchSort::Kernel),
        sorts(
            Column::new("grid", "grid", 74.0).number().hide_order(1),
            LaunchSort::Grid,
        ),
        sorts(
            Column::new("block", "block", 64.0).number().hide_order(2),
            LaunchSort::Block,
        ),
        sorts(
            Column::new("shared", "shared", 58.0).number().hide_order(8),
            LaunchSort::Shared,
        ),
        sorts(Column::new("stream", "stream", 92.0).hide_order(4), LaunchSort::Stream),
        sorts(
            Column::new("host", "host time", 70.0).number().hide_order(6),
            LaunchSort::Duration,
        ),
        Column::new("device", "device time", 78.0)
            .number()
            .hide_order(3)
            .hide_if_empty(doc.launch_times.done.is_none()),
        Column::new("result", "result", 56.0)
            .hide_order(7)
            .hide_if_empty(api_trace.failed_calls().is_empty()),
        Column::new("arguments", "arguments", 180.0).stretch(1.4).hide_order(3),
        Column::new("changed", "changed", 110.0)
            .stretch(0.9)
            .hide_order(3)
            .hide_if_empty(!api_trace.has_changes()),
    ]
}

fn sort_of(column: &str) -> Option<LaunchSort> {
    Some(match column {
        "launch" => LaunchSort::Order,
        "kernel" => LaunchSort::Kernel,
        "grid" => LaunchSort::Grid,
        "block" => LaunchSort::Block,
        "shared" => LaunchSort::Shared,
        "stream" => LaunchSort::Stream,
        "host" => LaunchSort::Duration,
        _ => return None,
    })
}

/// Draws the table.
pub(super) fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, api_trace: &ApiTrace) {
    let columns = columns(doc, view, api_trace);
    let table = Table::head(ui, actions.tables.state(TABLE), TABLE, &columns);
    if let Some(sort) = table.sorted.and_then(sort_of) {
        view.sort_by(sort);
    }
    let count = view
        .rows
        .as_ref()
        .map_or(api_trace.launches().len() as u64, |r| r.len() as u64);
    let meant = doc.current_launch();
    if view.seen_jump != doc.jumps {
        view.seen_jump = doc.jumps;
        if let Some(row) = meant.and_then(|n| view.row_of(n)) {
            view.list.reveal(row);
        }
    }
    keyed(doc, view, actions, ui, api_trace, count);
    if count == 0 {
        widgets::empty_state(ui, icons::LIGHTNING, "No kernel of that name was launched.", None);
        return;
    }
    let mut rows = view.list;
    let (mut go, mut kernel) = (None, None);
    rows.show(ui, "Launches", count, |ui, row, rect| {
        let Some(n) = view.launch(row) else { return };
        let Some(l) = api_trace.launches().get(n as usize) else {
            return;
        };
        let Some(launch) = api_trace::launch(&doc.recording, l.event) else {
            return;
        };
        let r = ui.interact(rect, ui.scope_id().with(("launch", n)), Sense::CLICK);
        let selected = meant == Some(n);
        let name = api_trace.function_name(l.function);
        let short = api_trace::short_function_name(name).to_owned();
        r.widget_info(|| WidgetInfo::selected(Role::Row, true, selected, format!("launch {n} {short}")));
        let p = palette(ui);
        if selected {
            widgets::select(ui, rect);
        } else if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let mut cut = None;
        if let Some(cell) = table.cell("kernel", rect) {
            let (is_cut, clicked) = kernel_cell(ui, &table, cell, n, (name, &short));
            if is_cut {
                cut = Some(name.to_owned());
            }
            if clicked {
                kernel = Some((l.event, l.function));
            }
        }
        cut = other_cells(doc, ui, &table, api_trace, (n, l.event), &launch, rect).or(cut);
        let own = [
            ("kernel", name.to_owned()),
            ("event number", l.event.to_string()),
            (
                "grid and block",
                format!(
                    "{} {}",
                    api_trace::format_dims(launch.grid),
                    api_trace::format_dims(launch.block)
                ),
            ),
        ];
        copy_menu::at(&r, doc, actions, &own, &Selection::Event, Some(l.event));
        let r = match cut {
            Some(whole) => r.on_hover_text(whole),
            None => r,
        };
        if r.clicked() {
            go = Some(l.event);
        }
    });
    table.finish(ui, actions.tables.state(TABLE));
    view.list = rows;
    if let Some((event, function)) = kernel {
        doc.go(event);
        show_kernel(actions, function);
        view.seen_jump = doc.jumps;
    } else if let Some(event) = go {
        doc.go(event);
        view.seen_jump = doc.jumps;
        ui.memory_mut(|m| m.request_focus(keys_id()));
    }
}

/// Draws the name of a kernel as a link. Returns whether the name was cut, and whether the link was clicked.
fn kernel_cell(ui: &Ui, table: &Table, cell: Rect, n: u32, (name, short): (&str, &str)) -> (bool, bool) {
    let ink = palette(ui).job;
    table.note(ui, "kernel", short, &mono(), 0.0);
    let is_cut = paint_middle(ui, cell, Align2::LEFT_CENTER, short, mono(), ink);
    let wide = ui.painter().layout_no_wrap(short.to_owned(), mono(), ink).size().x;
    let place = Rect::from_min_max(cell.min, pos2(cell.right().min(cell.left() + wide), cell.bottom()));
    let link = ui.interact(place, ui.scope_id().with(("kernel of launch", n)), Sense::CLICK);
    link.widget_info(|| WidgetInfo::labeled(Role::Link, true, format!("kernel of launch {n}")));
    if link.hovered() {
        ui.painter()
            .hline(place.x_range(), place.center().y + 7.0, Stroke::new(1.0, ink));
    }
    let link = link.on_hover_cursor(egui::CursorIcon::PointingHand);
    (is_cut, link.on_hover_text(name).clicked())
}

/// Draws the cells after the kernel's name. Returns the whole text of the last cell that was cut, of the arguments and
/// the changes.
fn other_cells(
    doc: &Document,
    ui: &Ui,
    table: &Table,
    api_trace: &ApiTrace,
    (n, event): (u32, u64),
    launch: &LaunchRow,
    rect: Rect,
) -> Option<String> {
    let p = palette(ui);
    let mut cut = None;
    for id in ["launch", "event", "grid", "block", "shared", "host"] {
        let (message, ink) = cell_text(api_trace, id, n, event, launch, p);
        table.text(ui, id, rect, &message, mono(), ink);
    }
    if table.has("device") {
        let time = doc
            .launch_times
            .find_duration_ns(event)
            .map_or_else(|| "–".to_owned(), text::duration);
        table.text(ui, "device", rect, &time, mono(), p.text);
    }
    for id in ["stream", "result"] {
        let (message, ink) = cell_text(api_trace, id, n, event, launch, p);
        table.text(ui, id, rect, &message, crate::theme::body(), ink);
    }
    if table.has("arguments") {
        let message = arguments(doc, api_trace, event, launch);
        if table.text(ui, "arguments", rect, &message, mono(), p.quiet) {
            cut = Some(message);
        }
    }
    if table.has("changed") {
        let summary = api_trace::describe_launch_changes(api_trace, event);
        let line_text = summary.as_deref().unwrap_or("–");
        if table.text(ui, "changed", rect, line_text, mono(), p.quiet) {
            cut = Some(line_text.to_owned());
        }
    }
    cut
}

/// Formats the arguments of a launch on one line, pointers by their buffers, as many as are useful in a list.
fn arguments(doc: &Document, api_trace: &ApiTrace, event: u64, l: &LaunchRow) -> String {
    let all = api_trace.arguments(&doc.recording, event, l);
    let messages: Vec<String> = all
        .iter()
        .take(MAX_ARGUMENTS)
        .map(|a| a.describe_labelled(api_trace))
        .collect();
    let more = if all.len() > MAX_ARGUMENTS { ", …" } else { "" };
    format!("{}{more}", messages.join(", "))
}

/// Returns the text of a cell, and its colour.
fn cell_text(
    api_trace: &ApiTrace,
    head: &str,
    n: u32,
    event: u64,
    l: &LaunchRow,
    p: &crate::theme::Palette,
) -> (String, egui::Color32) {
    match head {
        "launch" => (text::count(u64::from(n)), p.text),
        "event" => (text::count(event), p.quiet),
        "grid" => (api_trace::format_dims(l.grid), p.text),
        "block" => (api_trace::format_dims(l.block), p.text),
        "shared" if l.shared > 0 => (text::bytes(u64::from(l.shared)), p.text),
        "stream" if l.flags & CALL_OF_GRAPH != 0 => (format!("{}, graph", api_trace.stream_name(l.stream)), p.quiet),
        "stream" => (api_trace.stream_name(l.stream), p.quiet),
        // If there is no room for the result column, this column shows the failure.
        "host" if l.result != 0 => (format!("▲ {}", l.result), p.error),
        "host" => (text::duration(u64::from(l.took)), p.quiet),
        "result" if l.result != 0 => (format!("▲ {}", l.result), p.error),
        "result" => ("ok".to_owned(), p.quiet),
        _ => ("–".to_owned(), p.quiet),
    }
}

fn keys_id() -> egui::Id {
    egui::Id::unique("launches-keys")
}

/// Handles keys: arrows go from launch to launch in list order; Enter shows the kernel.
fn keyed(doc: &mut Document, view: &View, actions: &mut UiActions, ui: &Ui, api_trace: &ApiTrace, count: u64) {
    let keys = TableKeys {
        id: keys_id(),
        name: "Launch table",
        has_parts: false,
    };
    let here = || doc.current_launch().and_then(|n| view.row_of(n));
    let launch = |row: Option<u64>| api_trace.launches().get(view.launch(row?)? as usize);
    match keys.read(ui, here, count) {
        Some(TableKey::Row(row)) => {
            if let Some(launch) = launch(Some(row)) {
                doc.go(launch.event);
            }
        }
        Some(TableKey::Enter) => {
            if let Some(launch) = launch(here()) {
                show_kernel(actions, launch.function);
            }
        }
        Some(TableKey::Part(_)) | None => {}
    }
}

fn show_kernel(actions: &mut UiActions, function: u32) {
    actions.push(PanelAction::Kernel(function));
    actions.run_command("show-kernel");
}
