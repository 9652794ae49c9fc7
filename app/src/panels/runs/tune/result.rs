//! The result of a tuning: the answer in words, the map, the table.

use super::heat;
use super::list;
use super::view::View;
use crate::panels::common::actions::{UiAction, UiActions};
use crate::theme::{body, icons, palette, small, strong, widgets};
use egui::{Rect, RichText, Stroke, Ui, UiBuilder, pos2, vec2};
use kinescope_session::tuning::clocks;
use kinescope_session::tuning::table::Columns;
use kinescope_session::{Document, text};
use replay_engine::tune::{Health, TuneEnd, TuneReport};
use std::sync::Arc;
use trace_query::Format;

/// Maximum part of the height for the map.
const MAP: f32 = 0.5;
/// Minimum drift of the recorded launch that makes times doubtful.
const DRIFT: f64 = 0.05;

/// Draws the result.
pub(super) fn draw(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let full = ui.available_rect_before_wrap();
    let Some((tuned, target)) = doc.tuning.done.clone() else {
        show_no_result(doc, ui);
        return;
    };
    let mut head = ui.new_child(UiBuilder::new().id_salt("head").max_rect(full.shrink2(vec2(12.0, 0.0))));
    head.spacing_mut().item_spacing.y = 2.0;
    answer(doc, view, &tuned, &target, actions, &mut head);
    let mut top = head.min_rect().bottom() + 6.0;
    ui.painter().hline(full.x_range(), top, Stroke::new(1.0, p.line));
    if tuned.points.is_empty() {
        return;
    }
    let wanted = {
        let shown = view.update_drawn(&tuned);
        heat::height(&shown.map)
    };
    let high = wanted.min(((full.bottom() - top) * MAP).max(90.0));
    let area = Rect::from_min_max(
        pos2(full.left() + 12.0, top + 2.0),
        pos2(full.right() - 4.0, top + high),
    );
    let mut child = ui.new_child(UiBuilder::new().id_salt("map").max_rect(area));
    child.shrink_clip_rect(area);
    heat::draw(view, &tuned, &mut child);
    top += high + 2.0;
    ui.painter().hline(full.x_range(), top, Stroke::new(1.0, p.line));
    let area = Rect::from_min_max(pos2(full.left(), top), full.max);
    let mut child = ui.new_child(UiBuilder::new().id_salt("table").max_rect(area));
    child.shrink_clip_rect(area);
    list::draw(view, &tuned, &mut actions.tables, &mut child);
}

/// Draws the panel before the first tuning, or after one without a result.
fn show_no_result(doc: &Document, ui: &mut Ui) {
    if doc.tuning.running().is_some() {
        let message = "Each point is launched and measured in turn. The result appears here at the end.";
        widgets::empty_state(ui, icons::HOURGLASS_SIMPLE_MEDIUM, message, None);
        return;
    }
    match &doc.tuning.failure {
        Some(why) => {
            widgets::empty_state(ui, icons::WARNING_CIRCLE, &format!("The tuning failed: {why}."), None);
        }
        None => {
            let message = "Nothing was tried yet. Enter the points on the left and press Tune. Each point starts \
                           from the same memory, and counts only if it leaves the same memory as the recorded \
                           launch.";
            widgets::empty_state(ui, icons::CHART_BAR, message, None);
        }
    }
}

/// Draws the answer in words, and the buttons that use it.
fn answer(
    doc: &Document,
    view: &mut View,
    tuned: &Arc<TuneReport>,
    target: &str,
    actions: &mut UiActions,
    ui: &mut Ui,
) {
    let p = palette(ui);
    ui.add_space(6.0);
    let (words, wrong) = headline(tuned);
    let ink = if wrong { p.error } else { p.text };
    ui.horizontal(|ui| {
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            exports(tuned, actions, ui);
            ui.with_layout(egui::Layout::left_to_right(egui::Align::Center), |ui| {
                let title = RichText::new(&words).font(strong()).size(14.0).color(ink);
                ui.add(egui::Label::new(title).truncate()).on_hover_text(&words);
            });
        });
    });
    let rejected = view.update_drawn(tuned).rejected;
    let mut message = format!(
        "{} of {} points tried, {} rejected · {} · {} on {target} ({})",
        text::count(tuned.points.len() as u64),
        text::count(tuned.space),
        text::count(rejected),
        text::duration(tuned.phases.total_ns),
        tuned.function,
        tuned.device
    );
    if tuned.processes > 1 {
        message.push_str(&format!(" · {} processes", tuned.processes));
    }
    ui.add(egui::Label::new(RichText::new(&message).font(small()).color(p.quiet)).truncate())
        .on_hover_ui(|ui| phases(ui, tuned));
    let working = clocks::format_load_clocks(&tuned.load).map(|load| format!("working {load} · "));
    let states = format!(
        "{}before {} · after {}",
        working.unwrap_or_default(),
        health(&tuned.before),
        health(&tuned.after)
    );
    ui.add(egui::Label::new(RichText::new(&states).font(small()).color(p.quiet)).truncate())
        .on_hover_text(&states);
    for warning in warnings(doc, tuned) {
        ui.add(egui::Label::new(RichText::new(format!("! {warning}")).font(body()).color(p.warning)).wrap());
    }
}

/// Returns the answer, and whether it is that no point is correct.
fn headline(tuned: &TuneReport) -> (String, bool) {
    if let Some(why) = &tuned.baseline.rejected {
        return (format!("▲ The recorded launch itself was rejected: {why}"), true);
    }
    let wrong = tuned.best.is_none();
    let words = match tuned.best() {
        None if tuned.points.is_empty() => "No point was tried".to_owned(),
        None => "▲ No tried point is correct".to_owned(),
        Some(best) if best.point == tuned.recorded => "No point is faster than the recorded launch".to_owned(),
        Some(best) => {
            let speed_up = tuned.speed_up(&best.measured).unwrap_or(1.0);
            format!("{} · {speed_up:.2} times as fast as recorded", best.point)
        }
    };
    (words, wrong)
}

/// Returns what makes the answer doubtful, or what is missing from it.
fn warnings(doc: &Document, tuned: &TuneReport) -> Vec<String> {
    let mut all = Vec::new();
    if tuned.is_unclear() {
        all.push("the difference is smaller than the spread; measure with more repeats".to_owned());
    }
    if let Some(drift) = tuned.drift().filter(|d| d.abs() > DRIFT) {
        all.push(format!(
            "the recorded launch took {:+.0} % after the points, compared with before: clocks or temperature changed",
            drift * 100.0
        ));
    }
    match &tuned.ended {
        TuneEnd::Done => {}
        TuneEnd::TimeOver => all.push("the time limit was reached before all points were tried".to_owned()),
        TuneEnd::Cancelled => all.push("the tuning was stopped before all points were tried".to_owned()),
        TuneEnd::Broken { why } => all.push(format!("the tuning ended before all points were tried: {why}")),
    }
    if let Some(why) = &doc.tuning.failure {
        all.push(format!("this result is older: the last tuning failed ({why})"));
    }
    all
}

fn health(h: &Health) -> String {
    clocks::format_clocks(h).unwrap_or_else(|| "clocks not known".to_owned())
}

fn phases(ui: &mut Ui, tuned: &TuneReport) {
    let f = &tuned.phases;
    ui.label(format!("compared with {}", tuned.reference.label()));
    for (what, ns) in [
        ("prepared", f.ready_ns),
        ("replayed up to the launch", f.before_ns),
        ("code compiled and loaded", f.code_ns),
        ("memory restored", f.restore_ns),
        ("launches", f.launch_ns),
        ("outputs compared", f.compare_ns),
    ] {
        ui.label(format!("{what} {}", text::duration(ns)));
    }
    let pages = text::count_noun(tuned.restored_pages, "page", "pages");
    ui.label(format!("{pages} restored of {}", text::bytes(tuned.memory)));
    if let Some(why) = &tuned.before.unknown {
        ui.label(format!("clocks and temperature: {why}"));
    }
}

/// Draws the export buttons of the table.
fn exports(tuned: &Arc<TuneReport>, actions: &mut UiActions, ui: &mut Ui) {
    ui.menu_button("Export…", |ui| {
        for (word, message, columns, format) in [
            ("CSV", "all columns, as comma-separated text", Columns::All, Format::Csv),
            ("Parquet", "all columns", Columns::All, Format::Parquet),
            (
                "CSV as RecordReplay",
                "with the columns of RecordReplay's tuner",
                Columns::RecordReplay,
                Format::Csv,
            ),
        ] {
            if ui.button(word).on_hover_text(message).clicked() {
                actions.push(UiAction::SaveTuned {
                    tuned: Arc::clone(tuned),
                    columns,
                    format,
                });
                ui.close();
            }
        }
    });
}
