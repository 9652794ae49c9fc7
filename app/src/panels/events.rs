//! Events: every event in order, decoded, with a filter.

use super::jobs;
use crate::document::copies::{self, Form};
use crate::document::{Document, lanes, words};
use crate::panels::desk::Asks;
use crate::theme::widgets::{self, paint_middle, paint_text};
use crate::theme::{ROW, body, icons, mono, palette, small, text};
use columns::{Cell, Columns};
use egui::accesskit::Role;
use egui::{
    Align2, EventFilter, Key, Modifiers, Rect, RichText, Sense, Stroke, StrokeKind, Ui, WidgetInfo, pos2, vec2,
};
use std::sync::Arc;
use trace_core::filter::{FilterError, Query, Selection};
use trace_core::recording::{EventKind, Events};

mod columns;
mod completion;
mod saved;
pub mod view;

pub use view::View;

/// Draws the panel.
pub fn ui(doc: &mut Document, view: &mut View, asks: &mut Asks, ui: &mut Ui) {
    if doc.is_empty() {
        widgets::empty(
            ui,
            icons::TABLE,
            "This recording holds no events: it was made from a memory dump. Page tables and Memory show what there is.",
            None,
        );
        return;
    }
    let p = palette(ui);
    bar(doc, view, asks, ui);
    find(doc, view, asks);
    let all = view.rows.clone();
    let count = all.as_ref().map_or(doc.len(), |r| r.len());
    let full = ui.available_rect_before_wrap();
    let c = Columns::new(full.width());
    let since = jobs::meant(doc)
        .and_then(|j| doc.facts.jobs.get(j as usize))
        .map(|j| j.submit);
    let (head, _) = ui.allocate_exact_size(vec2(full.width(), 22.0), Sense::hover());
    let heads = [
        ("event", Some(c.event), true),
        (if since.is_some() { "from submit" } else { "time" }, Some(c.time), true),
        ("access", Some(c.access).filter(|_| c.words), false),
        ("register", Some(c.name), false),
        ("value", Some(c.value), true),
        ("means", c.means, false),
        ("thread", c.thread, true),
        ("job", c.job, true),
    ];
    for (name, cell, right) in heads {
        let Some(cell) = cell else { continue };
        let align = if right {
            Align2::RIGHT_CENTER
        } else {
            Align2::LEFT_CENTER
        };
        paint_text(ui, cell.of(head), align, name, small(), p.quiet);
    }
    ui.painter()
        .hline(head.x_range(), head.bottom(), Stroke::new(1.0, p.line));
    if view.seen_jump != doc.jumps {
        view.seen_jump = doc.jumps;
        let m = doc.moment();
        let row = all.as_ref().map_or(m, |r| r.rank(m));
        view.list.reveal(row);
    }
    if count == 0 {
        let told = match view.wrong {
            None => "No event passes the filter.",
            Some(_) => "No event passed the last filter that could be read.",
        };
        if widgets::empty(ui, icons::MAGNIFYING_GLASS, told, Some("Show all events")) {
            asks.command("clear-filter");
        }
        return;
    }
    let mut list = view.list;
    let mut go = keyed(doc, ui, &all, count);
    let row_of = |e: u64| all.as_ref().map_or(e, |r| r.rank(e));
    if let Some(e) = go {
        list.reveal(row_of(e));
    }
    list.show(ui, "Events", count, |ui, row, rect| {
        let event = all.as_ref().map_or(row, |r| r.get(row).unwrap_or(0));
        if draw_row(doc, view, asks, ui, &c, (event, since), rect) {
            go = Some(event);
            ui.memory_mut(|m| m.request_focus(keys_id()));
        }
    });
    view.list = list;
    if let Some(e) = go {
        doc.go(e);
        view.seen_jump = doc.jumps;
    }
}

/// Where the keyboard is when it moves along the events.
fn keys_id() -> egui::Id {
    egui::Id::unique("events-keys")
}

/// The event that a key of the keyboard leads to: up and down, a page, the first and the last.
fn keyed(doc: &Document, ui: &Ui, all: &Option<Arc<Selection>>, count: u64) -> Option<u64> {
    let id = keys_id();
    let area = ui.available_rect_before_wrap();
    let r = ui.interact(area, id, Sense::focusable_noninteractive());
    r.widget_info(|| WidgetInfo::labeled(Role::Table, true, "Event table"));
    let mine = ui.memory(|m| m.focused().is_none_or(|f| f == id));
    if !mine || egui::Popup::is_any_open(ui.ctx()) {
        return None;
    }
    let vertical = EventFilter {
        vertical_arrows: true,
        ..Default::default()
    };
    ui.memory_mut(|m| m.set_focus_lock_filter(id, vertical));
    let page = ((area.height() / ROW) as i64 - 1).max(1);
    let steps = [
        (Key::ArrowUp, -1),
        (Key::ArrowDown, 1),
        (Key::PageUp, -page),
        (Key::PageDown, page),
    ];
    let by: i64 = ui.input_mut(|i| {
        let pressed =
            |(key, by): (Key, i64)| by * i64::try_from(i.count_and_consume_key(Modifiers::NONE, key)).unwrap_or(0);
        steps.map(pressed).iter().sum()
    });
    if by == 0 {
        return None;
    }
    let here = match all {
        // Between two rows the way up leads to the one before, the way down to the one behind.
        Some(rows) => {
            let n = rows.rank(doc.moment());
            let on = rows.contains(doc.moment());
            if !on && by > 0 { n.checked_sub(1) } else { Some(n) }
        }
        None => Some(doc.moment()),
    };
    let row = match here {
        Some(row) => row.saturating_add_signed(by),
        None => by.unsigned_abs() - 1,
    };
    let row = row.min(count.saturating_sub(1));
    match all {
        Some(rows) => rows.get(row),
        None => Some(row),
    }
}

/// What a filter can say, for the person: an example and its meaning.
const EXAMPLES: &[(&str, &str)] = &[
    ("write", "also: read, poll, interrupt, submit, mark"),
    ("JS1_COMMAND", "registers whose name or block holds this"),
    ("reg =~ \"^JS1_\" and write", "and, or, not, and brackets"),
    ("JS_CONFIG_NEXT.start_flush != 0", "a field of a register, of any slot"),
    ("value & 0x100", "bits that are set"),
    (
        "job in 4..=9",
        "what starts these jobs, and while they run; 4..9 leaves 9 out",
    ),
    ("value >= 0x1000", "also: event, time, offset, width, thread"),
    ("time in 1ms..2ms", "without the end; ..= includes it"),
];

fn bar(doc: &mut Document, view: &mut View, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    let wrong = view.wrong.clone();
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(8.0);
        let told = if wrong.is_some() {
            String::new()
        } else if view.filter.trim().is_empty() {
            text::counted(doc.len(), "event", "events")
        } else if view.found_for != view.filter {
            "filtering…".into()
        } else {
            let n = view.rows.as_ref().map_or(doc.len(), |r| r.len());
            let ranges = Query::parse(&view.filter)
                .map(|q| q.describe_ranges())
                .unwrap_or_default();
            let ranges = match ranges.is_empty() {
                true => String::new(),
                // Whether an end belongs to a range is best said with what was found.
                false => format!(" · {}", ranges.join(", ")),
            };
            format!("{} of {}{ranges}", text::count(n), text::count(doc.len()))
        };
        let width = (ui.available_width() - 260.0).clamp(120.0, 560.0);
        let hint = hint(doc);
        let id = egui::Id::unique("events-filter");
        view.completion.keys(&mut view.filter, id, ui);
        let wrong_at = wrong.is_some().then(|| view.wrong_at.clone());
        let mut layout = |ui: &Ui, text: &dyn egui::TextBuffer, _: f32| {
            let job = underlined(text.as_str(), wrong_at.as_ref(), p.text, p.error);
            ui.fonts_mut(|f| f.layout_job(job))
        };
        let edit = egui::TextEdit::singleline(&mut view.filter)
            .id(id)
            .font(mono())
            // The list takes Tab while it is open.
            .lock_focus(view.completion.is_open())
            .layouter(&mut layout)
            .desired_width(width)
            .hint_text(RichText::new(hint).font(body()).color(p.quiet));
        let r = ui.add(edit).accessible_name("Filter events");
        view.completion.show(&r, &mut view.filter, &doc.recording, ui);
        if wrong.is_some() {
            ui.painter()
                .rect_stroke(r.rect, 4.0, Stroke::new(1.0, p.error), StrokeKind::Inside);
        }
        // A filter that is wrong is written on, not left.
        let ended = r.lost_focus() && ui.input(|i| i.key_pressed(Key::Enter));
        if std::mem::take(&mut view.focus_filter) {
            completion::select_all(&view.filter, id, ui);
            r.request_focus();
        } else if ended && wrong.is_some() {
            r.request_focus();
        }
        if !view.filter.is_empty() && widgets::icon_button(ui, icons::X, "Clear filter").clicked() {
            asks.command("clear-filter");
        }
        saved::button(doc, view, ui);
        let help = widgets::icon_button(ui, icons::QUESTION, "What a filter can say");
        egui::Popup::menu(&help).show(|ui| {
            ui.set_min_width(360.0);
            for (example, meaning) in EXAMPLES {
                let quiet = RichText::new(*meaning).font(small()).color(p.quiet);
                let b = egui::Button::new(RichText::new(*example).font(mono())).shortcut_text(quiet);
                if ui.add(b).clicked() {
                    view.filter = (*example).to_owned();
                }
            }
        });
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            ui.add_space(10.0);
            ui.add(egui::Label::new(RichText::new(told).color(p.quiet).font(mono())).truncate());
        });
    });
    if let Some(w) = &wrong {
        ui.horizontal(|ui| {
            ui.add_space(12.0);
            let told = RichText::new(format!("▲ {w}")).color(p.error).font(small());
            ui.add(egui::Label::new(told).truncate());
        });
    }
}

/// An example of a filter, of what the recording has: calls, jobs of a Mali, or registers of any device.
fn hint(doc: &Document) -> &'static str {
    let mali = doc.recording.facts.identity.gpu_id != 0 && doc.facts.map.is_some();
    match (doc.facts.calls.is_some(), mali) {
        (true, _) => "filter, as in: launch or copy, event in 10..=20",
        (_, true) => "filter, as in: reg =~ \"JS1_\" and write and job in 4..=9",
        _ => "filter, as in: write and value & 0x100, event in 10..=20",
    }
}

/// A filter's text with what is wrong in it underlined.
fn underlined(
    text: &str,
    wrong: Option<&std::ops::Range<usize>>,
    colour: egui::Color32,
    error: egui::Color32,
) -> egui::text::LayoutJob {
    let plain = egui::TextFormat::simple(mono(), colour);
    let mut marked = egui::TextFormat::simple(mono(), error);
    marked.underline = Stroke::new(1.5, error);
    let mut job = egui::text::LayoutJob::default();
    let parts = wrong.and_then(|w| Some((text.get(..w.start)?, text.get(w.clone())?, text.get(w.end..)?)));
    match parts {
        Some((before, at, behind)) => {
            job.append(before, 0.0, plain.clone());
            job.append(at, 0.0, marked);
            job.append(behind, 0.0, plain);
        }
        None => job.append(text, 0.0, plain),
    }
    job
}

impl View {
    fn is_wrong(&mut self, e: &FilterError) {
        self.wrong = Some(e.to_string());
        self.wrong_at = e.span.clone();
    }
}

/// Has the events looked for that pass the filter, where it is another than before.
pub(super) fn find(doc: &mut Document, view: &mut View, asks: &mut Asks) {
    if view.filter == view.asked_for {
        return;
    }
    // Jobs and polls are known once they are found out; until then the filter waits.
    if !doc.can_filter() {
        return;
    }
    view.asked_for = view.filter.clone();
    // What was asked for before is wanted no more.
    if let Some(before) = view.searching.take() {
        before.cancel();
    }
    view.wrong = None;
    let query = match Query::parse(&view.filter) {
        Err(e) => return view.is_wrong(&e),
        Ok(q) => q,
    };
    if query.is_all() {
        view.rows = None;
        view.found_for.clone_from(&view.filter);
        doc.jumps += 1;
        return;
    }
    let (recording, facts, text) = (Arc::clone(&doc.recording), Arc::clone(&doc.facts), view.filter.clone());
    view.searching = Some(asks.work("filtering events", move |progress| {
        let found = lanes::search(&query, &recording, &facts, progress);
        Box::new(move |desk| {
            let view = &mut desk.views.events;
            if view.filter != text {
                return;
            }
            match found {
                Err(e) => view.is_wrong(&e),
                Ok(Ok(rows)) => {
                    view.rows = Some(Arc::new(rows));
                    view.found_for = text;
                    desk.doc.jumps += 1;
                }
                // It was sent away.
                Ok(Err(_)) => {}
            }
        })
    }));
}

fn draw_row(
    doc: &mut Document,
    view: &mut View,
    asks: &mut Asks,
    ui: &mut Ui,
    c: &Columns,
    (event, since): (u64, Option<u64>),
    rect: Rect,
) -> bool {
    let p = palette(ui);
    let at = usize::try_from(event).unwrap_or(usize::MAX);
    let response = ui.interact(rect, ui.scope_id().with(("event", event)), Sense::click());
    let selected = doc.moment() == event;
    let damaged = doc.recording.damage.any() && doc.recording.events.is_damaged(at);
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
    let y = rect.center().y;
    let right = |cell: Cell, t: &str, colour| {
        paint_text(ui, cell.of(rect), Align2::RIGHT_CENTER, t, mono(), colour);
    };
    right(c.event, &text::count(event), p.quiet);
    if damaged {
        // Nothing that the file says of it is used.
        let from = pos2(c.access.of(rect).left(), rect.top());
        let cell = Rect::from_min_max(from, rect.right_bottom());
        paint_text(ui, cell, Align2::LEFT_CENTER, "damaged in the file", body(), p.quiet);
        return response.clicked();
    }
    let job = doc.facts.job_of(&doc.recording, event).map(|j| j.index);
    let ns = |e: u64| i64::try_from(doc.ns(e)).unwrap_or(i64::MAX);
    let time = match since {
        Some(submit) => text::offset_us(ns(event).saturating_sub(ns(submit))),
        None => text::seconds(doc.ns(event)),
    };
    right(c.time, &time, p.quiet);
    if doc.changes().notes().contains_key(&event) {
        ui.painter().circle_filled(pos2(left + 6.0, y), 3.0, p.edited);
    }
    let diverged = doc
        .replay
        .outcome
        .as_ref()
        .is_some_and(|o| o.divergences.binary_search_by_key(&event, |d| d.event).is_ok());
    if diverged {
        ui.painter()
            .text(pos2(left + 3.0, y), Align2::LEFT_CENTER, "▲", small(), p.error);
    }
    let folded = doc.facts.poll_at(event).is_some();
    let access = c.access.of(rect);
    let mark = Rect::from_center_size(pos2(access.left() + 4.0, y), vec2(8.0, 8.0));
    // What is no access has no register, and its word may stand where the register would.
    let word_to = |word: &str, to: f32, colour| {
        let from = pos2(access.left() + 13.0, rect.top());
        let cell = Rect::from_min_max(from, pos2(to, rect.bottom()));
        paint_text(ui, cell, Align2::LEFT_CENTER, word, body(), colour);
    };
    let mut cut = None;
    match doc.recording.events.access(at) {
        Some(a) => {
            let (word, colour) = if a.write { ("write", p.write) } else { ("read", p.read) };
            let (word, colour) = if folded { ("poll", p.quiet) } else { (word, colour) };
            if a.write {
                ui.painter().rect_filled(mark, 1.0, colour);
            } else {
                ui.painter()
                    .rect_stroke(mark, 1.0, Stroke::new(1.2, colour), StrokeKind::Inside);
            }
            if c.words {
                word_to(word, access.right(), colour);
            }
            let known = doc.facts.access_known(&a);
            let shown = if known { p.text } else { p.warning };
            let name = doc.facts.access_name(&doc.recording, &a);
            if paint_middle(ui, c.name.of(rect), Align2::LEFT_CENTER, &name, mono(), shown) {
                cut = Some(name);
            }
            let value = doc.numbers.text(a.value, a.width);
            paint_middle(ui, c.value.of(rect), Align2::RIGHT_CENTER, &value, mono(), p.text);
        }
        None => {
            let (word, colour) = match doc.recording.events.kind(at) {
                Some(EventKind::Interrupt) => ("interrupt", p.interrupt),
                Some(EventKind::Submit) => ("submit", p.job),
                Some(EventKind::Mark) => ("note", p.quiet),
                Some(EventKind::HostWrite) => ("CPU write", p.write),
                Some(EventKind::Undecoded) => (undecoded_word(&doc.recording.events, at), p.warning),
                Some(EventKind::DmaMap) => ("DMA memory", p.job),
                Some(EventKind::Launch) => ("launch", p.job),
                Some(EventKind::Copy | EventKind::Fill) => ("copy", p.write),
                Some(EventKind::Order) => ("order", p.interrupt),
                Some(EventKind::Allocation) => ("memory", p.quiet),
                Some(EventKind::Call) => ("call", p.quiet),
                _ => ("unknown", p.warning),
            };
            ui.painter().rect_filled(mark, 4.0, colour);
            if doc.recording.events.undecoded(at).is_some() {
                if c.words {
                    word_to(word, access.right(), colour);
                }
                let place = words::undecoded_place(doc, at);
                if paint_middle(ui, c.name.of(rect), Align2::LEFT_CENTER, &place, mono(), p.text) {
                    cut = Some(place);
                }
            } else {
                word_to(word, c.name.of(rect).right(), colour);
            }
        }
    }
    if doc.facts.interrupt_at(event).is_some() {
        ui.painter()
            .circle_filled(pos2(access.left() - 6.0, y), 2.5, p.interrupt);
    }
    if let Some(means) = c.means {
        let told = words::means(doc, event);
        paint_text(ui, means.of(rect), Align2::LEFT_CENTER, &told, body(), p.quiet);
    }
    let thread = doc.recording.events.thread.get(at).unwrap_or(0);
    if let Some(cell) = c.thread.filter(|_| thread != 0) {
        right(cell, &thread.to_string(), p.quiet);
    }
    if let Some((cell, j)) = c.job.zip(job) {
        right(cell, &text::count(u64::from(j)), p.job);
    }
    let response = match cut {
        Some(name) => response.on_hover_text(RichText::new(name).font(mono())),
        None => response,
    };
    let clicked = response.clicked();
    response.context_menu(|ui| menu(doc, view, asks, ui, event));
    clicked
}

/// What can be copied of an event, and what can be done with it.
fn menu(doc: &mut Document, view: &mut View, asks: &mut Asks, ui: &mut Ui, event: u64) {
    let at = usize::try_from(event).unwrap_or(usize::MAX);
    let access = doc.recording.events.access(at);
    let means = words::means(doc, event);
    let mut forms = vec![
        ("Copy event", format!("{event}\t{}", words::line(doc, event))),
        ("Copy event number", event.to_string()),
        ("Copy time in nanoseconds", doc.ns(event).to_string()),
    ];
    if let Some(a) = access {
        forms.extend([
            ("Copy register", doc.facts.access_name(&doc.recording, &a)),
            ("Copy offset", format!("{:#x}", a.offset)),
            ("Copy value", format!("{:#x}", a.value)),
            ("Copy value in decimal", a.value.to_string()),
            ("Copy value in binary", format!("{:#b}", a.value)),
        ]);
    }
    if !means.is_empty() {
        forms.push(("Copy what it means", means));
    }
    for (label, form) in [("Copy event as C", Form::C), ("Copy event as JSON", Form::Json)] {
        forms.extend(copies::event(doc, event, form).map(|copied| (label, copied)));
    }
    for (label, form) in forms {
        if ui.button(label).clicked() {
            ui.ctx().copy_text(form);
        }
    }
    ui.separator();
    if let Some(a) = access {
        let name = doc.facts.access_name(&doc.recording, &a);
        if ui.button(format!("Show only {name}")).clicked() {
            view.filter = format!("offset = {:#x}", a.offset);
            doc.go(event);
        }
    }
    // The link is to the moment: time stands at the event that was meant.
    if ui.button("Copy a link to this event").clicked() {
        doc.go(event);
        asks.command("copy-link");
    }
    asks.menu_item(ui, "add-note");
    asks.menu_item(ui, "pin-register");
}

/// What an access without a value is called in the column of accesses.
fn undecoded_word(events: &Events, at: usize) -> &'static str {
    match events.undecoded(at).and_then(|u| u.write()) {
        Some(true) => "undecoded write",
        Some(false) => "undecoded read",
        None => "undecoded access",
    }
}
