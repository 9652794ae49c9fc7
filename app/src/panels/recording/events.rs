//! The Events panel: every event in order, decoded, with a filter.

use crate::panels::common::actions::UiActions;
use crate::panels::common::locations::current_job;
use crate::theme::columns::{Column, Table};
use crate::theme::{ROW, body, focus, icons, mono, palette, small, widgets};
use egui::accesskit::Role;
use egui::{EventFilter, Key, Modifiers, RichText, Stroke, StrokeKind, Ui, WidgetInfo};
use kinescope_session::{Document, lanes, text};
use std::sync::Arc;
use trace_core::families::find_family;
use trace_core::filter::{FilterError, Query, Selection};

mod completion;
mod row;
mod saved;
pub mod view;

pub use view::View;

/// Draws the panel.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    if doc.is_empty() {
        widgets::empty_state(
            ui,
            icons::TABLE,
            "This recording holds no events: it was made from a memory dump. Page tables and Memory show its content.",
            None,
        );
        return;
    }
    bar(doc, view, actions, ui);
    find(doc, view, actions);
    let all = view.rows.clone();
    let count = all.as_ref().map_or(doc.len(), |r| r.len());
    let since = current_job(doc)
        .and_then(|j| doc.derived.jobs.get(j as usize))
        .map(|j| j.submit);
    let columns = columns(doc, since.is_some());
    let table = Table::head(ui, actions.tables.state(TABLE), TABLE, &columns);
    if view.seen_jump != doc.jumps {
        view.seen_jump = doc.jumps;
        let m = doc.current_event();
        let row = all.as_ref().map_or(m, |r| r.rank(m));
        view.list.reveal(row);
    }
    if count == 0 {
        let message = match view.wrong {
            None => "No event passes the filter.",
            Some(_) => "No event passes the last valid filter.",
        };
        if widgets::empty_state(ui, icons::MAGNIFYING_GLASS, message, Some("Show all events")) {
            actions.run_command("clear-filter");
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
        if row::ui(doc, view, actions, ui, &table, (event, since), rect) {
            go = Some(event);
            ui.memory_mut(|m| m.request_focus(keys_id()));
        }
    });
    table.finish(ui, actions.tables.state(TABLE));
    view.list = list;
    if let Some(e) = go {
        doc.go(e);
        view.seen_jump = doc.jumps;
    }
}

/// Name of the table in the workspace.
const TABLE: &str = "events";

/// Returns the columns. Numbers keep their width; the meaning of an event is the last column to be hidden.
fn columns(doc: &Document, from_submit: bool) -> [Column; 8] {
    let events = &doc.recording.events;
    let time = if from_submit { "from submit" } else { "time" };
    [
        Column::new("event", "event", 50.0).number().fit_count(doc.len()),
        // Room for `+9 999.999 µs` and `1 234.567 890 s`.
        Column::new("time", time, 94.0)
            .number()
            .hide_order(2)
            .hide_if_empty(!doc.has_times()),
        Column::new("access", "access", 56.0).hide_order(3).compact(12.0),
        Column::new("register", "register", 104.0)
            .stretch(0.3)
            .max_width(190.0)
            .hide_if_empty(events.value.is_empty() && events.undecoded.is_empty()),
        Column::new("value", "value", 74.0)
            .number()
            .hide_if_empty(events.value.is_empty()),
        Column::new("means", "means", 96.0).stretch(1.0).hide_order(1),
        Column::new("thread", "thread", 42.0)
            .number()
            .hide_order(5)
            .hide_if_empty(!doc.has_threads),
        Column::new("job", "job", 32.0)
            .number()
            .fit_count(doc.derived.jobs.len() as u64)
            .hide_order(4)
            .hide_if_empty(doc.derived.jobs.is_empty()),
    ]
}

/// Returns the id that has the keyboard while it moves along the events.
fn keys_id() -> egui::Id {
    egui::Id::unique("events-keys")
}

/// Returns the event that a key leads to: up, down, a page, the first, the last.
fn keyed(doc: &Document, ui: &Ui, all: &Option<Arc<Selection>>, count: u64) -> Option<u64> {
    let id = keys_id();
    let area = ui.available_rect_before_wrap();
    let r = focus::area(ui, area, id);
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
        // Between two rows, up leads to the row before and down to the row after.
        Some(rows) => {
            let n = rows.rank(doc.current_event());
            let on = rows.contains(doc.current_event());
            if !on && by > 0 { n.checked_sub(1) } else { Some(n) }
        }
        None => Some(doc.current_event()),
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

/// Examples of filters, each with its meaning.
const EXAMPLES: &[(&str, &str)] = &[
    ("write", "also: read, poll, interrupt, submit, mark"),
    ("JS1_COMMAND", "registers whose name or block contains this"),
    ("reg =~ \"^JS1_\" and write", "and, or, not, and brackets"),
    ("JS_CONFIG_NEXT.start_flush != 0", "a field of a register, of any slot"),
    ("value & 0x100", "bits that are set"),
    (
        "job in 4..=9",
        "events that start these jobs or happen while they run; 4..9 excludes 9",
    ),
    ("value >= 0x1000", "also: event, time, offset, width, thread"),
    ("time in 1ms..2ms", "excludes the end; ..= includes it"),
];

fn bar(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let wrong = view.wrong.clone();
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(8.0);
        let message = if wrong.is_some() {
            String::new()
        } else if view.filter.trim().is_empty() {
            text::count_noun(doc.len(), "event", "events")
        } else if view.found_for != view.filter {
            "filtering…".into()
        } else {
            let n = view.rows.as_ref().map_or(doc.len(), |r| r.len());
            let ranges = Query::parse(&view.filter)
                .map(|q| q.describe_ranges())
                .unwrap_or_default();
            let ranges = match ranges.is_empty() {
                true => String::new(),
                // The result of the search shows best whether the end of a range is included.
                false => format!(" · {}", ranges.join(", ")),
            };
            format!("{} of {}{ranges}", text::count(n), text::count(doc.len()))
        };
        // The count is never cut, because it shows where ranges end.
        let count = ui.painter().layout_no_wrap(message.clone(), mono(), p.quiet).size().x;
        let width = (ui.available_width() - count - 130.0).clamp(120.0, 560.0);
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
        // A wrong filter keeps the keyboard so that the user can correct it.
        let ended = r.lost_focus() && ui.input(|i| i.key_pressed(Key::Enter));
        if std::mem::take(&mut view.focus_filter) {
            completion::select_all(&view.filter, id, ui);
            r.request_focus();
        } else if ended && wrong.is_some() {
            r.request_focus();
        }
        if !view.filter.is_empty() && widgets::icon_button(ui, icons::X, "Clear filter").clicked() {
            actions.run_command("clear-filter");
        }
        saved::button(doc, view, ui);
        let help = widgets::icon_button(ui, icons::QUESTION, "Filter examples");
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
            ui.add(egui::Label::new(RichText::new(message).color(p.quiet).font(mono())).truncate());
        });
    });
    if let Some(w) = &wrong {
        ui.horizontal(|ui| {
            ui.add_space(12.0);
            let rich_text = RichText::new(format!("▲ {w}")).color(p.error).font(small());
            ui.add(egui::Label::new(rich_text).truncate());
        });
    }
}

/// Returns an example of a filter that suits the recording: calls, jobs of its GPU, or registers of any device.
fn hint(doc: &Document) -> String {
    let has_gpu = doc.recording.metadata.identity.gpu_id != 0 && doc.derived.map.is_some();
    let of_jobs = has_gpu.then(|| find_family(&doc.recording).filter_example()).flatten();
    let example = match (doc.recording.api().is_some(), of_jobs) {
        (true, _) => "launch or copy, event in 10..=20",
        (_, Some(example)) => example,
        _ => "write and value & 0x100, event in 10..=20",
    };
    format!("filter, for example: {example}")
}

/// Lays out a filter's text with the error underlined.
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

/// Starts a search for the events that pass the filter, if the filter changed.
pub(super) fn find(doc: &mut Document, view: &mut View, actions: &mut UiActions) {
    if view.filter == view.asked_for {
        return;
    }
    // The filter waits until jobs and polls are known.
    if !doc.can_filter() {
        return;
    }
    view.asked_for = view.filter.clone();
    // The search that was requested before is obsolete.
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
        if view.found_for != view.filter {
            view.found_for.clone_from(&view.filter);
            doc.jumps += 1;
        }
        return;
    }
    let (recording, derived, text) = (
        Arc::clone(&doc.recording),
        Arc::clone(&doc.derived),
        view.filter.clone(),
    );
    view.searching = Some(actions.start_work::<View>("filtering events", move |progress| {
        let found = lanes::search(&query, &recording, &derived, progress);
        Box::new(move |doc, view, _| {
            if view.filter != text {
                return;
            }
            match found {
                Err(e) => view.is_wrong(&e),
                Ok(Ok(rows)) => {
                    view.rows = Some(Arc::new(rows));
                    // The same filter on a recording that has grown keeps the place.
                    if view.found_for != text {
                        view.found_for = text;
                        doc.jumps += 1;
                    }
                }
                // The search was cancelled.
                Ok(Err(_)) => {}
            }
        })
    }));
}
