//! Frequency of each value of a plotted line: a chart in bins, and the most frequent values with their names.

use super::view::{Key, View};
use super::{bars, line_names};
use crate::panels::common::actions::UiActions;
use crate::theme::columns::{Column, Table, TableState};
use crate::theme::{focus, icons, mono, palette, widgets};
use egui::accesskit::Role;
use egui::{RichText, Ui, WidgetInfo};
use kinescope_files::changes::PlotLine;
use kinescope_session::{Document, text};
use std::sync::Arc;
use trace_query::Histogram;

/// Width of the table, points.
const TABLE: f32 = 380.0;

/// Draws the histogram of the chosen line.
pub(super) fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let plots = doc.changes().plots().to_vec();
    let chosen = view.chosen.clone().and_then(|c| plots.iter().find(|(_, l)| *l == c));
    let Some((slot, line)) = chosen.or(plots.first()).cloned() else {
        return;
    };
    ui.horizontal(|ui| {
        let r = egui::ComboBox::from_id_salt("line")
            .selected_text(RichText::new(line_names::line_name(doc, &line)).font(mono()))
            .width(220.0)
            .show_ui(ui, |ui| {
                for (_, l) in &plots {
                    let word = RichText::new(line_names::line_name(doc, l)).font(mono());
                    if ui.selectable_label(*l == line, word).clicked() {
                        view.chosen = Some(l.clone());
                    }
                }
            });
        r.response
            .widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, "Line whose values are counted"));
        if let Some(h) = view.histogram() {
            let values = text::count_noun(h.total, "value", "values");
            let message = format!("{values}, {} different", text::count(h.different));
            ui.label(RichText::new(message).color(p.quiet));
        }
    });
    let key: Key = (line.clone(), view.access_filter);
    start_count(view, actions, &key);
    if let Some(why) = view.histogram.error(&key) {
        let message = format!("The values were not counted: {why}.");
        if widgets::empty_state(ui, icons::WARNING, &message, Some("Count again")) {
            view.histogram.0 = None;
        }
        return;
    }
    let Some(h) = view.histogram.result(&key).cloned() else {
        ui.label(RichText::new("counting values…").color(p.quiet));
        return;
    };
    if h.total == 0 {
        let message = format!(
            "No chosen access has a value of {}: choose reads and writes.",
            line_names::line_name(doc, &line)
        );
        widgets::empty_state(ui, icons::CHART_BAR, &message, None);
        return;
    }
    let ink = line_names::line_colour(p, slot);
    let state = actions.tables.state(TABLE_ID);
    bars::split(ui, TABLE, |left, right| {
        draw(doc, view, left, &line, &h, ink);
        table(doc, view, state, right, &line, (&h, ink));
    });
}

/// Requests the count of the values once they are gathered.
fn start_count(view: &mut View, actions: &mut UiActions, key: &Key) {
    let Some(values) = view.values_of(&key.0).cloned() else {
        return;
    };
    if view.histogram.is_for(key) {
        return;
    }
    let mine = key.clone();
    let progress = actions.start_work::<View>("counting values", move |progress| {
        let own = progress.clone();
        let found = Ok(trace_query::histogram(values.values()));
        Box::new(move |_, view, _| view.histogram.finish(mine, &own, found))
    });
    view.histogram.start(key.clone(), progress);
}

fn draw(doc: &Document, view: &View, ui: &mut Ui, line: &PlotLine, h: &Arc<Histogram>, ink: egui::Color32) {
    let list: Vec<bars::ChartBar> = h
        .bins
        .iter()
        .map(|b| {
            let (from, to) = (
                line_names::value(doc, line, b.from, view.decimal),
                line_names::value(doc, line, b.to, view.decimal),
            );
            let range = if b.from == b.to {
                line_names::format_value(doc, line, b.from, view.decimal)
            } else {
                format!("{from} to {to}")
            };
            let short = if b.from == b.to && line.field.is_some() {
                text::truncate_middle(&range, 14)
            } else if view.decimal {
                text::count(b.from)
            } else {
                format!("{:#x}", b.from)
            };
            bars::ChartBar {
                height: b.count as f64,
                short,
                hover_text: format!("{range}\n{}", text::count_noun(b.count, "time", "times")),
            }
        })
        .collect();
    let label = format!("Histogram of {}", line_names::line_name(doc, line));
    bars::chart(ui, &label, &list, ink, None, bars::format_integer);
}

/// Name of the table in the workspace.
const TABLE_ID: &str = "values";

/// Returns the columns of the most frequent values.
fn columns() -> [Column; 4] {
    [
        Column::new("value", "value", 98.0),
        Column::new("means", "means", 80.0).stretch(1.0),
        Column::new("times", "times", 56.0).number(),
        Column::new("share", "share", 50.0).number().hide_order(1),
    ]
}

/// Draws the most frequent values.
fn table(
    doc: &mut Document,
    view: &mut View,
    state: &mut TableState,
    ui: &mut Ui,
    line: &PlotLine,
    (h, ink): (&Arc<Histogram>, egui::Color32),
) {
    let p = palette(ui);
    let table = Table::head(ui, state, TABLE_ID, &columns());
    let mut rows = view.rows;
    let max = h.common.first().map_or(1, |c| c.1).max(1);
    rows.show(ui, "Most frequent values", h.common.len() as u64, |ui, row, rect| {
        let Some((v, n)) = usize::try_from(row).ok().and_then(|i| h.common.get(i)).copied() else {
            return;
        };
        let shown = line_names::value(doc, line, v, view.decimal);
        let meaning = line_names::meaning(doc, line, v);
        let r = focus::row_response(ui, rect, ui.scope_id().with(("value", v)));
        r.widget_info(|| WidgetInfo::labeled(Role::Row, true, format!("Value {shown} {meaning}, {n} times")));
        if r.hovered() || r.has_focus() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        if let Some(means) = table.cell("means", rect) {
            let bar = means.with_min_y(rect.bottom() - 3.0).with_max_y(rect.bottom() - 1.0);
            let wide = bar.width() * (n as f32 / max as f32);
            ui.painter()
                .rect_filled(bar.with_max_x(bar.left() + wide.max(1.0)), 0.0, ink);
        }
        table.text_middle(ui, "value", rect, &shown, p.text);
        table.text(ui, "means", rect, &meaning, crate::theme::body(), p.quiet);
        table.text(ui, "times", rect, &text::count(n), mono(), p.text);
        let part = format!("{:.1} %", n as f64 * 100.0 / h.total.max(1) as f64);
        table.text(ui, "share", rect, &part, mono(), p.quiet);
        let r = r.on_hover_text(format!("{shown} {meaning}"));
        widgets::add_copy_menu(
            &r,
            &[("value", shown.clone()), ("row", format!("{shown}\t{meaning}\t{n}"))],
        );
    });
    table.finish(ui, state);
    view.rows = rows;
}
