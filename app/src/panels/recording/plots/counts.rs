//! Accesses that match the event table's filter, counted by register, block, thread or job: a chart and a table.

use super::bars;
use super::results::{AccessCounts, CountsKey};
use super::view::View;
use crate::panels::common::actions::UiActions;
use crate::panels::recording::events;
use crate::theme::columns::{Column, Table, TableState};
use crate::theme::{focus, icons, mono, palette, small, widgets};
use egui::accesskit::Role;
use egui::{RichText, Ui, WidgetInfo};
use kinescope_session::{Document, text};
use std::sync::Arc;
use trace_query::{Count, GroupBy, Usage};

/// Width of the table, points.
const TABLE: f32 = 440.0;
/// Maximum number of groups in the chart.
const SHOWN: usize = 120;

/// Draws chart and table.
pub(super) fn ui(doc: &mut Document, view: &mut View, events: &mut events::View, actions: &mut UiActions, ui: &mut Ui) {
    // The event table may be hidden.
    events::find(doc, events, actions);
    let p = palette(ui);
    let by = view.by.0;
    ui.horizontal(|ui| {
        let message = if events.found_for.trim().is_empty() {
            "All accesses.".to_owned()
        } else {
            format!("Accesses that pass {}", events.found_for.trim())
        };
        let label = egui::Label::new(RichText::new(message).color(p.quiet)).truncate();
        ui.add(label)
            .on_hover_text("The filter of the event table selects the counted accesses");
    });
    if let Some(why) = &events.wrong {
        let message = format!("The filter cannot be read: {why}.");
        if widgets::empty_state(ui, icons::WARNING, &message, Some("Edit the filter")) {
            actions.run_command("filter");
        }
        return;
    }
    if events.found_for != events.filter || !doc.can_filter() {
        ui.label(RichText::new("filtering…").color(p.quiet));
        return;
    }
    let key: CountsKey = (events.found_for.clone(), by.label(), doc.derived.pending.len());
    start_count(doc, view, events, actions, &key);
    if let Some(why) = view.counted.error(&key) {
        let message = format!("Accesses were not counted: {why}.");
        if widgets::empty_state(ui, icons::WARNING, &message, Some("Count again")) {
            view.counted.0 = None;
        }
        return;
    }
    let Some(counted) = view.counted.result(&key).cloned() else {
        ui.label(RichText::new("counting accesses…").color(p.quiet));
        return;
    };
    if counted.groups.is_empty() && doc.recording.events.value.is_empty() {
        let calls = doc.recording.api().is_some();
        let text = if calls {
            "This recording has no register accesses to count. Launches lists its kernel launches."
        } else {
            "This recording has no register accesses to count."
        };
        if widgets::empty_state(ui, icons::CHART_BAR, text, calls.then_some("Show launches")) {
            actions.run_command("show-launches");
        }
        return;
    }
    if counted.groups.is_empty() {
        let text = "No access passes the filter.";
        if widgets::empty_state(ui, icons::CHART_BAR, text, Some("Show all events")) {
            actions.run_command("clear-filter");
        }
        return;
    }
    let in_order = view.sort_by_key;
    let mut go = None;
    let has_rates = doc.has_times() && !doc.recording.counts_ticks();
    let (rates, state) = (has_rates, actions.tables.state(TABLE_ID));
    bars::split(ui, TABLE, |left, right| {
        go = draw(left, &counted, by, in_order).or(table(view, state, right, &counted, by, rates));
    });
    if let Some(event) = go {
        doc.go(event);
    }
}

fn start_count(doc: &Document, view: &mut View, events: &events::View, actions: &mut UiActions, key: &CountsKey) {
    if view.counted.is_for(key) {
        return;
    }
    let (recording, derived) = (Arc::clone(&doc.recording), Arc::clone(&doc.derived));
    let (among, by, mine) = (events.rows.clone(), view.by.0, key.clone());
    let title = format!("counting accesses by {}", by.label());
    let progress = actions.start_work::<View>(title, move |progress| {
        let filter_data = match by {
            GroupBy::Job => derived.filter_data(),
            _ => Default::default(),
        };
        let count = Count {
            by,
            among: among.as_deref(),
            histogram: false,
        };
        let found = trace_query::usage(&recording, &filter_data, count, progress);
        let found = found.map(AccessCounts::new).map_err(|e| e.to_string());
        let own = progress.clone();
        Box::new(move |_, view, _| view.counted.finish(mine, &own, found))
    });
    view.counted.start(key.clone(), progress);
}

/// Returns the name of a group.
fn group_name(u: &Usage, by: GroupBy) -> String {
    match (&u.name, by) {
        (Some(n), GroupBy::Job) => format!("job {n}"),
        (Some(n), GroupBy::Thread) => format!("thread {n}"),
        (Some(n), _) => n.clone(),
        (None, GroupBy::Register) => format!("{:#06x}", u.first_at.1),
        (None, _) => by.unknown_label().to_owned(),
    }
}

/// Formats the accesses per second.
fn rate(u: &Usage) -> String {
    match u.rate {
        None => "-".into(),
        Some(r) if r < 100.0 => format!("{r:.1}"),
        Some(r) => text::count(r.round() as u64),
    }
}

fn describe_group(u: &Usage, by: GroupBy) -> String {
    let mut out = format!(
        "{}\n{}: {} and {}\n{}\nevents {} to {}",
        group_name(u, by),
        text::count_noun(u.accesses, "access", "accesses"),
        text::count_noun(u.reads, "read", "reads"),
        text::count_noun(u.writes, "write", "writes"),
        text::count_noun(u.values, "different value", "different values"),
        text::count(u.first_event),
        text::count(u.last_event),
    );
    if u.rate.is_some() {
        out += &format!("\n{} per second", rate(u));
    }
    out
}

/// Draws the chart; returns the first event of a clicked group.
fn draw(ui: &mut Ui, counted: &AccessCounts, by: GroupBy, in_order: bool) -> Option<u64> {
    let p = palette(ui);
    let n = counted.groups.len().min(SHOWN);
    if counted.groups.len() > SHOWN {
        let message = format!("The first {SHOWN} of {}.", text::count(counted.groups.len() as u64));
        ui.label(RichText::new(message).font(small()).color(p.quiet));
    }
    let groups = || (0..n).filter_map(|i| counted.get(i, in_order));
    let list: Vec<bars::ChartBar> = groups()
        .map(|u| bars::ChartBar {
            height: u.accesses as f64,
            short: match (by, &u.name) {
                (GroupBy::Job | GroupBy::Thread, Some(number)) => number.clone(),
                _ => text::truncate_middle(&group_name(u, by), 16),
            },
            hover_text: describe_group(u, by),
        })
        .collect();
    let label = format!("Accesses by {}", by.label());
    let clicked = bars::chart(ui, &label, &list, p.read, None, bars::format_integer)?;
    counted.get(clicked, in_order).map(|u| u.first_event)
}

/// Name of the table in the workspace.
const TABLE_ID: &str = "counts";

/// Returns the columns for a grouping.
fn columns(by: GroupBy, rates: bool) -> [Column; 5] {
    [
        Column::new("group", by.label(), 90.0).stretch(1.0),
        Column::new("accesses", "accesses", 58.0).number(),
        Column::new("reads", "reads", 58.0).number().hide_order(2),
        Column::new("writes", "writes", 58.0).number().hide_order(1),
        Column::new("rate", "per second", 64.0)
            .number()
            .hide_order(3)
            .hide_if_empty(!rates),
    ]
}

/// Draws the table; returns the first event of a clicked group. `rates`: whether times are known, for accesses per
/// second.
fn table(
    view: &mut View,
    state: &mut TableState,
    ui: &mut Ui,
    counted: &AccessCounts,
    by: GroupBy,
    rates: bool,
) -> Option<u64> {
    let p = palette(ui);
    let table = Table::head(ui, state, TABLE_ID, &columns(by, rates));
    let mut go = None;
    let mut rows = view.rows;
    rows.show(ui, "Groups", counted.groups.len() as u64, |ui, row, rect| {
        let Some(u) = usize::try_from(row).ok().and_then(|i| counted.get(i, view.sort_by_key)) else {
            return;
        };
        let word = group_name(u, by);
        let r = focus::row_response(ui, rect, ui.scope_id().with(("group", row)));
        r.widget_info(|| WidgetInfo::labeled(Role::Row, true, format!("{word}, {} accesses", u.accesses)));
        if r.hovered() || r.has_focus() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        table.text_middle(ui, "group", rect, &word, p.text);
        let shown = [
            text::count(u.accesses),
            text::count(u.reads),
            text::count(u.writes),
            rate(u),
        ];
        for (id, number) in ["accesses", "reads", "writes", "rate"].into_iter().zip(&shown) {
            table.text(ui, id, rect, number, mono(), p.text);
        }
        let r = r.on_hover_text(describe_group(u, by));
        if r.clicked() {
            go = Some(u.first_event);
        }
        widgets::add_copy_menu(&r, &[("row", format!("{word}\t{}", shown.join("\t")))]);
    });
    table.finish(ui, state);
    view.rows = rows;
    go
}
