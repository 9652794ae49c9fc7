//! The table of launches: a row each, whatever their number.

use super::view::View;
use crate::document::Document;
use crate::document::called::{self, Sort};
use crate::document::moment::Selection;
use crate::panels::copy_menu;
use crate::panels::desk::{Ask, Asks};
use crate::theme::widgets::{self, paint_middle, paint_text};
use crate::theme::{icons, mono, palette, small, text};
use egui::accesskit::Role;
use egui::{Align2, EventFilter, Key, Rect, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use trace_core::calls::Calls;
use trace_core::recording::{CALL_OF_GRAPH, LaunchRow};

/// Arguments of a launch that the list tells.
const MOST_ARGUMENTS: usize = 12;

/// A column: its head, where it is, whether numbers stand in it, what it is sorted by.
struct Column {
    head: &'static str,
    from: f32,
    to: f32,
    number: bool,
    sort: Option<Sort>,
}

/// The columns of a list of this width: what matters least goes first where there is little room.
fn columns(width: f32, changes: bool) -> Vec<Column> {
    // Negative: a part of what is left.
    let plan: [(&str, f32, bool, Option<Sort>, f32); 11] = [
        ("launch", 44.0, true, Some(Sort::Order), 0.0),
        ("event", 52.0, true, None, 520.0),
        ("kernel", -1.0, false, Some(Sort::Kernel), 0.0),
        ("grid", 74.0, true, Some(Sort::Grid), 0.0),
        ("block", 64.0, true, Some(Sort::Block), 380.0),
        ("shared", 58.0, true, Some(Sort::Shared), 640.0),
        ("stream", 92.0, false, Some(Sort::Stream), 460.0),
        ("on the host", 70.0, true, Some(Sort::Took), 580.0),
        ("result", 56.0, false, None, 1080.0),
        ("arguments", -1.4, false, None, 860.0),
        // There only where a board told, or the recorder.
        (
            "changed",
            -0.9,
            false,
            None,
            if changes { 620.0 } else { f32::INFINITY },
        ),
    ];
    let shown: Vec<_> = plan.into_iter().filter(|c| width >= c.4).collect();
    let fixed: f32 = shown.iter().map(|c| c.1.max(0.0) + 12.0).sum();
    let parts: f32 = shown.iter().map(|c| (-c.1).max(0.0)).sum();
    let rest = (width - fixed - 16.0).max(60.0);
    let mut at = 8.0;
    let of = |(head, wide, number, sort, _): (&'static str, f32, bool, Option<Sort>, f32)| {
        let wide = if wide < 0.0 { rest * -wide / parts } else { wide };
        let from = at;
        at += wide + 12.0;
        Column {
            head,
            from,
            to: from + wide,
            number,
            sort,
        }
    };
    shown.into_iter().map(of).collect()
}

/// Draws it.
pub(super) fn ui(doc: &mut Document, view: &mut View, asks: &mut Asks, ui: &mut Ui, calls: &Calls) {
    let columns = columns(ui.available_width(), calls.tells_changes());
    heads(view, ui, &columns);
    let count = view
        .rows
        .as_ref()
        .map_or(calls.launches().len() as u64, |r| r.len() as u64);
    let meant = doc.launch_meant();
    if view.seen_jump != doc.jumps {
        view.seen_jump = doc.jumps;
        if let Some(row) = meant.and_then(|n| view.row_of(n)) {
            view.list.reveal(row);
        }
    }
    keyed(doc, view, ui, calls, count);
    if count == 0 {
        widgets::empty(ui, icons::LIGHTNING, "No kernel of that name was launched.", None);
        return;
    }
    let mut rows = view.list;
    let (mut go, mut kernel) = (None, None);
    rows.show(ui, "Launches", count, |ui, row, rect| {
        let Some(n) = view.launch(row) else { return };
        let Some(l) = calls.launches().get(n as usize) else {
            return;
        };
        let Some(launch) = called::launch(&doc.recording, l.event) else {
            return;
        };
        let r = ui.interact(rect, ui.scope_id().with(("launch", n)), Sense::click());
        let selected = meant == Some(n);
        let name = calls.function_name(l.function);
        let short = called::short(name).to_owned();
        r.widget_info(|| WidgetInfo::selected(Role::Row, true, selected, format!("launch {n} {short}")));
        let p = palette(ui);
        if selected {
            widgets::select(ui, rect);
        } else if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let mut cut = false;
        for c in &columns {
            let cell = Rect::from_min_max(
                pos2(rect.left() + c.from, rect.top()),
                pos2(rect.left() + c.to, rect.bottom()),
            );
            let align = if c.number {
                Align2::RIGHT_CENTER
            } else {
                Align2::LEFT_CENTER
            };
            if c.head == "kernel" {
                cut = paint_middle(ui, cell, align, &short, mono(), p.job);
                let wide = ui.painter().layout_no_wrap(short.clone(), mono(), p.job).size().x;
                let place = Rect::from_min_max(cell.min, pos2(cell.right().min(cell.left() + wide), cell.bottom()));
                let link = ui.interact(place, ui.scope_id().with(("kernel of launch", n)), Sense::click());
                link.widget_info(|| WidgetInfo::labeled(Role::Link, true, format!("kernel of launch {n}")));
                if link.hovered() {
                    ui.painter()
                        .hline(place.x_range(), place.center().y + 7.0, Stroke::new(1.0, p.job));
                }
                let link = link.on_hover_cursor(egui::CursorIcon::PointingHand);
                if link.on_hover_text(name).clicked() {
                    kernel = Some((l.event, l.function));
                }
                continue;
            }
            if c.head == "arguments" {
                let told = arguments(doc, calls, l.event, &launch);
                paint_text(ui, cell, align, &told, mono(), p.quiet);
                continue;
            }
            if c.head == "changed" {
                let told = called::left_words(calls, l.event);
                paint_text(ui, cell, align, told.as_deref().unwrap_or("–"), mono(), p.quiet);
                continue;
            }
            let (told, ink) = cell_text(calls, c.head, n, l.event, &launch, p);
            paint_text(
                ui,
                cell,
                align,
                &told,
                if c.number { mono() } else { crate::theme::body() },
                ink,
            );
        }
        let own = [
            ("kernel", name.to_owned()),
            ("event number", l.event.to_string()),
            (
                "grid and block",
                format!("{} {}", called::dims(launch.grid), called::dims(launch.block)),
            ),
        ];
        copy_menu::at(&r, doc, asks, &own, &Selection::Event, Some(l.event));
        let r = if cut { r.on_hover_text(name) } else { r };
        if r.clicked() {
            go = Some(l.event);
        }
    });
    view.list = rows;
    if let Some((event, function)) = kernel {
        doc.go(event);
        asks.push(Ask::Kernel(function));
        asks.command("show-kernel");
        view.seen_jump = doc.jumps;
    } else if let Some(event) = go {
        doc.go(event);
        view.seen_jump = doc.jumps;
        ui.memory_mut(|m| m.request_focus(keys_id()));
    }
}

/// The arguments of a launch on one line, pointers by their buffers: as many as anybody reads in a list.
fn arguments(doc: &Document, calls: &Calls, event: u64, l: &LaunchRow) -> String {
    let all = calls.arguments(&doc.recording, event, l);
    let told: Vec<String> = all
        .iter()
        .take(MOST_ARGUMENTS)
        .map(|a| a.labelled_words(calls))
        .collect();
    let more = if all.len() > MOST_ARGUMENTS { ", …" } else { "" };
    format!("{}{more}", told.join(", "))
}

/// What a cell says, and in which colour.
fn cell_text(
    calls: &Calls,
    head: &str,
    n: u32,
    event: u64,
    l: &LaunchRow,
    p: &crate::theme::Palette,
) -> (String, egui::Color32) {
    match head {
        "launch" => (text::count(u64::from(n)), p.text),
        "event" => (text::count(event), p.quiet),
        "grid" => (called::dims(l.grid), p.text),
        "block" => (called::dims(l.block), p.text),
        "shared" if l.shared > 0 => (text::bytes(u64::from(l.shared)), p.text),
        "stream" if l.flags & CALL_OF_GRAPH != 0 => (format!("{}, graph", calls.stream_name(l.stream)), p.quiet),
        "stream" => (calls.stream_name(l.stream), p.quiet),
        // Where there is no room for results, what failed says so here.
        "on the host" if l.result != 0 => (format!("▲ {}", l.result), p.error),
        "on the host" => (text::duration(u64::from(l.took)), p.quiet),
        "result" if l.result != 0 => (format!("▲ {}", l.result), p.error),
        "result" => ("ok".to_owned(), p.quiet),
        _ => ("–".to_owned(), p.quiet),
    }
}

fn heads(view: &mut View, ui: &mut Ui, columns: &[Column]) {
    let p = palette(ui);
    let (head, _) = ui.allocate_exact_size(vec2(ui.available_width(), 22.0), Sense::hover());
    for c in columns {
        let cell = Rect::from_min_max(
            pos2(head.left() + c.from, head.top()),
            pos2(head.left() + c.to, head.bottom()),
        );
        let align = if c.number {
            Align2::RIGHT_CENTER
        } else {
            Align2::LEFT_CENTER
        };
        let Some(sort) = c.sort else {
            paint_text(ui, cell, align, c.head, small(), p.quiet);
            continue;
        };
        let r = ui.interact(
            cell.expand2(vec2(4.0, 0.0)),
            ui.scope_id().with(("sort", c.head)),
            Sense::click(),
        );
        let on = view.sort == sort && (sort != Sort::Order || view.falling);
        r.widget_info(|| WidgetInfo::selected(Role::ColumnHeader, true, on, format!("Sort by {}", c.head)));
        let mark = match (on, view.falling) {
            (false, _) => "",
            (true, true) => " ▾",
            (true, false) => " ▴",
        };
        let ink = if on || r.hovered() || r.has_focus() {
            p.text
        } else {
            p.quiet
        };
        paint_text(ui, cell, align, &format!("{}{mark}", c.head), small(), ink);
        if r.on_hover_cursor(egui::CursorIcon::PointingHand).clicked() {
            view.sort_by(sort);
        }
    }
    ui.painter()
        .hline(head.x_range(), head.bottom(), Stroke::new(1.0, p.line));
}

fn keys_id() -> egui::Id {
    egui::Id::unique("launches-keys")
}

/// Arrows go from launch to launch as they are listed; Enter shows the kernel.
fn keyed(doc: &mut Document, view: &mut View, ui: &Ui, calls: &Calls, count: u64) {
    let id = keys_id();
    let area = ui.available_rect_before_wrap();
    let r = ui.interact(area, id, Sense::focusable_noninteractive());
    r.widget_info(|| WidgetInfo::labeled(Role::Table, true, "Launches by keys"));
    if !ui.memory(|m| m.focused() == Some(id)) {
        return;
    }
    let filter = EventFilter {
        vertical_arrows: true,
        ..Default::default()
    };
    ui.memory_mut(|m| m.set_focus_lock_filter(id, filter));
    let pressed = |k: Key| ui.input(|i| i.key_pressed(k) && i.modifiers.is_none());
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
    let here = doc.launch_meant().and_then(|n| view.row_of(n)).unwrap_or(0);
    let to = here.saturating_add_signed(by).min(count.saturating_sub(1));
    let event = view
        .launch(to)
        .and_then(|n| calls.launches().get(n as usize))
        .map(|l| l.event);
    if let Some(event) = event {
        doc.go(event);
    }
}
