//! A row of the event table: its cells, its marks, its menu.

use super::View;
use crate::panels::common::actions::UiActions;
use crate::theme::columns::Table;
use crate::theme::widgets::{self, paint_text};
use crate::theme::{Palette, body, mono, mono_small, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Color32, Rect, RichText, Sense, Stroke, StrokeKind, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::clipboard::{self, CopyFormat};
use kinescope_session::cursors::Cursor;
use kinescope_session::times::NO_TIMES;
use kinescope_session::{Document, descriptions, text};
use trace_core::recording::{EventKind, Events};

/// Draws the row of an event. Returns whether it was clicked. Times count from the event `since`, if there is one.
pub(super) fn ui(
    doc: &mut Document,
    view: &mut View,
    actions: &mut UiActions,
    ui: &mut Ui,
    table: &Table,
    (event, since): (u64, Option<u64>),
    rect: Rect,
) -> bool {
    let p = palette(ui);
    let at = usize::try_from(event).unwrap_or(usize::MAX);
    let response = ui.interact(rect, ui.scope_id().with(("event", event)), Sense::CLICK);
    let selected = doc.current_event() == event;
    let damaged = doc.recording.damage.has_damage() && doc.recording.events.is_damaged(at);
    response.widget_info(|| {
        let words = if damaged { ", damaged" } else { "" };
        WidgetInfo::selected(Role::Row, true, selected, format!("event {event}{words}"))
    });
    if selected {
        widgets::select(ui, rect);
    } else if response.hovered() {
        ui.painter().rect_filled(rect, 0.0, p.raised);
    }
    let left = rect.left();
    table.text(ui, "event", rect, &text::count(event), mono(), p.quiet);
    if damaged {
        // The file's data about this event is not used.
        let access = table.cell("access", rect).unwrap_or(rect);
        let cell = Rect::from_min_max(pos2(access.left(), rect.top()), rect.right_bottom());
        paint_text(ui, cell, Align2::LEFT_CENTER, "damaged in the file", body(), p.quiet);
        return response.clicked();
    }
    let job = doc.derived.job_of(&doc.recording, event).map(|j| j.index);
    let ns = |e: u64| i64::try_from(doc.ns(e)).unwrap_or(i64::MAX);
    let time = match since {
        _ if !doc.has_times() => NO_TIMES.to_owned(),
        Some(submit) if doc.recording.counts_ticks() => ns(event).saturating_sub(ns(submit)).to_string(),
        Some(submit) => text::offset_us(ns(event).saturating_sub(ns(submit))),
        None => doc.time_unit().time(doc.ns(event)),
    };
    table.text(ui, "time", rect, &time, mono(), p.quiet);
    let cursor = marks(doc, ui, rect, event);
    let mut cut: Vec<String> = Vec::new();
    if let Some(access) = table.cell("access", rect) {
        access_cell(doc, ui, table, (event, at), rect, access);
    }
    register_cells(doc, ui, table, at, rect, &mut cut);
    if table.has("means") {
        let message = descriptions::describe_event(doc, event);
        if table.text(ui, "means", rect, &message, body(), p.quiet) {
            cut.push(message);
        }
    }
    let thread = doc.recording.events.thread.get(at).unwrap_or(0);
    if thread != 0 {
        table.text(ui, "thread", rect, &thread.to_string(), mono(), p.quiet);
    }
    if let Some(j) = job {
        table.text(ui, "job", rect, &text::count(u64::from(j)), mono(), p.job);
    }
    if cursor && doc.current_event() != event {
        // The row of a cursor must be visible at a glance.
        ui.painter()
            .hline(left..=rect.right(), rect.bottom() - 0.5, Stroke::new(1.0, p.line));
    }
    let response = if cut.is_empty() {
        response
    } else {
        response.on_hover_text(RichText::new(cut.join("\n")).font(mono()))
    };
    let clicked = response.clicked();
    response.context_menu(|ui| menu(doc, view, actions, ui, event));
    clicked
}

/// Draws the mark and the word of an event's kind in the cell `access`; a word without a register may extend into the
/// next column.
fn access_cell(doc: &Document, ui: &Ui, table: &Table, (event, at): (u64, usize), rect: Rect, access: Rect) {
    let p = palette(ui);
    let y = rect.center().y;
    let folded = doc.derived.poll_at(event).is_some();
    let compact = table.is_compact("access");
    let mark = Rect::from_center_size(pos2(access.left() + 4.0, y), vec2(8.0, 8.0));
    // An event without a register may have its word in the register column.
    let word_to = |word: &str, to: f32, colour| {
        table.note(ui, "access", word, &body(), 13.0);
        let from = pos2(access.left() + 13.0, rect.top());
        let cell = Rect::from_min_max(from, pos2(to, rect.bottom()));
        paint_text(ui, cell, Align2::LEFT_CENTER, word, body(), colour);
    };
    let (word, colour) = kind_label(doc, at, folded, p);
    let is_access = doc.recording.events.access(at);
    match is_access {
        Some(a) if a.write => {
            ui.painter().rect_filled(mark, 1.0, colour);
        }
        Some(_) => {
            ui.painter()
                .rect_stroke(mark, 1.0, Stroke::new(1.2, colour), StrokeKind::Inside);
        }
        None => {
            ui.painter().rect_filled(mark, 4.0, colour);
        }
    }
    let named = is_access.is_some() || doc.recording.events.undecoded(at).is_some();
    if !named {
        let room = table.cells("access", "register", rect).unwrap_or(access);
        word_to(word, room.right(), colour);
    } else if !compact {
        word_to(word, access.right(), colour);
    }
    if doc.derived.interrupt_at(event).is_some() {
        ui.painter()
            .circle_filled(pos2(access.left() - 6.0, y), 2.5, p.interrupt);
    }
}

/// Draws the register and the value of an event. Adds text that was cut to `cut`.
fn register_cells(doc: &Document, ui: &Ui, table: &Table, at: usize, rect: Rect, cut: &mut Vec<String>) {
    let p = palette(ui);
    match doc.recording.events.access(at) {
        Some(a) => {
            let known = doc.derived.is_access_named(&a);
            let shown = if known { p.text } else { p.warning };
            let name = doc.derived.access_name(&doc.recording, &a);
            if table.text_middle(ui, "register", rect, &name, shown) {
                cut.push(name);
            }
            let value = doc.numbers.format(a.value, a.width);
            if table.text_middle(ui, "value", rect, &value, p.text) {
                cut.push(value);
            }
        }
        None if doc.recording.events.undecoded(at).is_some() => {
            let place = descriptions::format_undecoded_address(doc, at);
            if table.text_middle(ui, "register", rect, &place, p.text) {
                cut.push(place);
            }
        }
        None => {}
    }
}

/// Draws the marks of a row: a note, a divergence, cursors. Returns whether a cursor is there.
fn marks(doc: &Document, ui: &Ui, rect: Rect, event: u64) -> bool {
    let p = palette(ui);
    let (left, y) = (rect.left(), rect.center().y);
    let noted = doc.changes().notes().contains_key(&event);
    let names: String = doc.cursors.at(event).map(Cursor::name).collect();
    let diverged = doc
        .replay
        .outcome
        .as_ref()
        .is_some_and(|o| o.divergences.binary_search_by_key(&event, |d| d.event).is_ok());
    if diverged {
        ui.painter()
            .text(pos2(left + 3.0, y), Align2::LEFT_CENTER, "▲", small(), p.error);
    }
    if !names.is_empty() {
        let wide = 5.0 + 6.0 * names.len() as f32;
        let flag = Rect::from_min_size(pos2(left + 1.0, y - 7.0), vec2(wide, 14.0));
        ui.painter()
            .rect(flag, 2.0, p.panel, Stroke::new(1.0, p.text), StrokeKind::Inside);
        ui.painter()
            .text(flag.center(), Align2::CENTER_CENTER, &names, mono_small(), p.text);
    }
    if noted {
        // A corner is free next to the flag of a cursor.
        let at = if names.is_empty() {
            pos2(left + 6.0, y)
        } else {
            pos2(left + 2.0, y - 7.0)
        };
        ui.painter().circle_filled(at, 3.0, p.edited);
    }
    !names.is_empty()
}

/// Returns the word for the kind of an event, and its colour.
fn kind_label(doc: &Document, at: usize, folded: bool, p: &Palette) -> (&'static str, Color32) {
    let events = &doc.recording.events;
    match (events.access(at), events.kind(at)) {
        (Some(_), _) if folded => ("poll", p.quiet),
        (Some(a), _) if a.write => ("write", p.write),
        (Some(_), _) => ("read", p.read),
        (None, Some(EventKind::Interrupt)) => ("interrupt", p.interrupt),
        (None, Some(EventKind::Submit)) => ("submit", p.job),
        (None, Some(EventKind::Mark)) => ("note", p.quiet),
        (None, Some(EventKind::HostWrite)) => ("CPU write", p.write),
        (None, Some(EventKind::Undecoded)) => (undecoded_label(events, at), p.warning),
        (None, Some(EventKind::DmaMap)) => ("DMA memory", p.job),
        (None, Some(EventKind::Launch)) => ("launch", p.job),
        (None, Some(EventKind::Copy | EventKind::Fill)) => ("copy", p.write),
        (None, Some(EventKind::Order)) => ("order", p.interrupt),
        (None, Some(EventKind::Allocation)) => ("memory", p.quiet),
        (None, Some(EventKind::Call)) => ("call", p.quiet),
        (None, Some(EventKind::Object)) => ("object", p.quiet),
        (None, Some(EventKind::RingEntry)) => ("ring entry", p.job),
        (None, Some(EventKind::SavedMemory)) => ("memory", p.write),
        _ => ("unknown", p.warning),
    }
}

/// Draws the menu of an event: what can be copied, and actions.
fn menu(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, event: u64) {
    let at = usize::try_from(event).unwrap_or(usize::MAX);
    let access = doc.recording.events.access(at);
    let means = descriptions::describe_event(doc, event);
    let mut forms = vec![
        (
            "Copy event",
            format!("{event}\t{}", descriptions::format_event(doc, event)),
        ),
        ("Copy event number", event.to_string()),
        ("Copy time in nanoseconds", doc.ns(event).to_string()),
    ];
    if let Some(a) = access {
        forms.extend([
            ("Copy register", doc.derived.access_name(&doc.recording, &a)),
            ("Copy offset", format!("{:#x}", a.offset)),
            ("Copy value", format!("{:#x}", a.value)),
            ("Copy value in decimal", a.value.to_string()),
            ("Copy value in binary", format!("{:#b}", a.value)),
        ]);
    }
    if !means.is_empty() {
        forms.push(("Copy meaning", means));
    }
    for (label, form) in [
        ("Copy event as C", CopyFormat::C),
        ("Copy event as JSON", CopyFormat::Json),
    ] {
        forms.extend(clipboard::format_event(doc, event, form).map(|copied| (label, copied)));
    }
    for (label, form) in forms {
        if ui.button(label).clicked() {
            ui.ctx().copy_text(form);
        }
    }
    ui.separator();
    if let Some(a) = access {
        let name = doc.derived.access_name(&doc.recording, &a);
        if ui.button(format!("Show only {name}")).clicked() {
            view.filter = format!("offset = {:#x}", a.offset);
            doc.go(event);
        }
    }
    for cursor in Cursor::ALL {
        if ui.button(format!("Set cursor {} here", cursor.name())).clicked() {
            doc.set_cursor(cursor, event);
        }
    }
    // The link names the current event, so the selected event becomes current first.
    if ui.button("Copy link to this event").clicked() {
        doc.go(event);
        actions.run_command("copy-link");
    }
    actions.menu_item(ui, "add-note");
    actions.menu_item(ui, "pin-register");
}

/// Returns the label of an access without a value, for the access column.
fn undecoded_label(events: &Events, at: usize) -> &'static str {
    match events.undecoded(at).and_then(|u| u.write()) {
        Some(true) => "undecoded write",
        Some(false) => "undecoded read",
        None => "undecoded access",
    }
}
