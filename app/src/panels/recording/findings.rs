//! The Findings panel: what checking the recording found, each with its location and reason.

use crate::panels::common::actions::UiActions;
use crate::panels::common::copy_menu;
use crate::panels::common::severity::{kind_name, severity_colour, severity_label};
use crate::theme::columns::{Column, Table};
use crate::theme::rows::Rows;
use crate::theme::widgets::{self, paint_text};
use crate::theme::{ROW, body, focus, icons, mono, palette};
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Sense, Stroke, Ui, WidgetInfo, vec2};
use kinescope_files::scene::Selection;
use kinescope_session::clipboard::CopyFormat;
use kinescope_session::derived_data::Stage;
use kinescope_session::{Document, text};
use trace_core::finding::{Finding, FindingKind, Severity};

/// Height of the explanation of the selected finding, points.
const EXPLAINED: f32 = 78.0;

/// The findings that are shown, and the scroll position.
#[derive(Clone, Default)]
struct FindingsView {
    rows: Rows,
    /// Severities that are hidden.
    without: Vec<Severity>,
    /// The inputs of `passing`: number of findings, hidden severities, whether all are unfolded.
    made_of: Option<(usize, usize, bool)>,
    /// The findings that pass.
    passing: Vec<Row>,
    /// Whether findings of mapped pages without content are listed one by one.
    unfolded: bool,
    /// Number of findings of each severity.
    counts: [u64; 3],
    jumps: u64,
}

/// A row of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    /// A finding, by its index.
    One(u32),
    /// The number of findings of mapped pages without content, which follow when unfolded.
    Folded(u64),
}

/// Minimum number of findings of mapped pages without content that are folded to one row.
const MIN_GROUP_FINDINGS: u64 = 3;

const SEVERITIES: [Severity; 3] = [Severity::Error, Severity::Warning, Severity::Note];

/// Draws the panel.
pub fn ui(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) {
    if doc.derived.findings.is_empty() {
        let (icon, message) = if doc.derived.has_stage(Stage::Findings) {
            (icons::CHECK_CIRCLE, "Nothing suspicious was found in this recording.")
        } else {
            (
                icons::HOURGLASS_SIMPLE_MEDIUM,
                "The check of this recording is still running.",
            )
        };
        widgets::empty_state(ui, icon, message, None);
        return;
    }
    let id = ui.scope_id().with("problems");
    let mut view: FindingsView = ui.data_mut(|d| d.remove_temp(id)).unwrap_or_default();
    update_rows(doc, &mut view);
    chips(&mut view, ui);
    list(doc, actions, &mut view, ui);
    // The inspector already shows it.
    if !actions.inspector {
        explain_selected(doc, ui);
    }
    ui.data_mut(|d| d.insert_temp(id, view));
}

/// Updates the passing findings when the findings or the choice changed.
fn update_rows(doc: &Document, view: &mut FindingsView) {
    let findings = &doc.derived.findings;
    let empty = |f: &Finding| f.kind == FindingKind::MappedWithoutContent;
    // A finding that the user goes to must be visible.
    if let Selection::Finding(i) = *doc.selection()
        && view.jumps != doc.jumps
        && findings.get(i as usize).is_some_and(empty)
    {
        view.unfolded = true;
    }
    let now = Some((findings.len(), view.without.len(), view.unfolded));
    if view.made_of == now {
        return;
    }
    view.made_of = now;
    view.counts = SEVERITIES.map(|s| findings.iter().filter(|f| f.severity == s).count() as u64);
    let passes = |f: &Finding| !view.without.contains(&f.severity);
    let many = findings.iter().filter(|f| empty(f) && passes(f)).count() as u64;
    view.passing.clear();
    let mut is_reported = many < MIN_GROUP_FINDINGS;
    for (i, f) in (0u32..).zip(findings).filter(|(_, f)| passes(f)) {
        if empty(f) && !std::mem::replace(&mut is_reported, true) {
            view.passing.push(Row::Folded(many));
        }
        if !empty(f) || many < MIN_GROUP_FINDINGS || view.unfolded {
            view.passing.push(Row::One(i));
        }
    }
}

/// Draws a switch for each severity that occurs.
fn chips(view: &mut FindingsView, ui: &mut Ui) {
    let p = palette(ui);
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 30.0), Sense::hover());
    let mut child = ui.new_child(
        egui::UiBuilder::new()
            .id_salt("severities")
            .max_rect(rect.shrink2(vec2(12.0, 3.0)))
            .layout(egui::Layout::left_to_right(egui::Align::Center)),
    );
    for (s, n) in SEVERITIES.into_iter().zip(view.counts) {
        if n == 0 {
            continue;
        }
        let (mark, word) = severity_label(s);
        let on = !view.without.contains(&s);
        let words = format!("{mark} {} {word}{}", text::count(n), if n == 1 { "" } else { "s" });
        let colour = if on { severity_colour(p, s) } else { p.quiet };
        let r = child.selectable_label(on, RichText::new(words).color(colour));
        if r.on_hover_text("show or hide").clicked() {
            match view.without.iter().position(|w| *w == s) {
                Some(i) => drop(view.without.remove(i)),
                None => view.without.push(s),
            }
            view.made_of = None;
        }
    }
}

/// Name of the table in the workspace.
const TABLE: &str = "problems";

/// Returns the columns. The reason is the last to be hidden.
fn columns() -> [Column; 4] {
    [
        Column::new("severity", "severity", 68.0).hide_order(3).compact(12.0),
        Column::new("kind", "kind", 116.0)
            .stretch(0.1)
            .max_width(170.0)
            .hide_order(4),
        Column::new("place", "location", 84.0)
            .stretch(0.1)
            .max_width(220.0)
            .hide_order(2),
        Column::new("what", "message", 140.0).stretch(1.0),
    ]
}

fn list(doc: &mut Document, actions: &mut UiActions, view: &mut FindingsView, ui: &mut Ui) {
    let p = palette(ui);
    let full = ui.available_rect_before_wrap();
    let table = Table::head(ui, actions.tables.state(TABLE), TABLE, &columns());
    let room = if matches!(doc.selection(), Selection::Finding(_)) && !actions.inspector {
        EXPLAINED
    } else {
        0.0
    };
    let height = (ui.available_height() - room).max(3.0 * ROW);
    let rect = Rect::from_min_size(ui.cursor().min, vec2(full.width(), height));
    let mut child = ui.new_child(egui::UiBuilder::new().id_salt("list").max_rect(rect));
    if let Selection::Finding(i) = *doc.selection()
        && view.jumps != doc.jumps
        && let Some(row) = view.passing.iter().position(|r| *r == Row::One(i))
    {
        view.rows.reveal(row as u64);
    }
    view.jumps = doc.jumps;
    let mut go = None;
    let mut fold = false;
    let FindingsView {
        rows,
        passing,
        unfolded,
        ..
    } = view;
    let derived = std::sync::Arc::clone(&doc.derived);
    rows.show(&mut child, "Findings", passing.len() as u64, |ui, row, rect| {
        let index = match usize::try_from(row).ok().and_then(|r| passing.get(r)).copied() {
            Some(Row::One(i)) => i,
            Some(Row::Folded(n)) => {
                fold |= folded(doc, ui, rect, &table, n, *unfolded);
                return;
            }
            None => return,
        };
        let Some(f) = derived.findings.get(index as usize) else {
            return;
        };
        let r = focus::row_response(ui, rect, ui.scope_id().with(("finding", index)));
        let selected = *doc.selection() == Selection::Finding(index);
        let kind = kind_name(f.kind);
        r.widget_info(|| WidgetInfo::selected(Role::Row, true, selected, format!("finding {index} {kind}")));
        if selected || r.hovered() {
            let fill = if selected { p.selection } else { p.raised };
            ui.painter().rect_filled(rect, 0.0, fill);
        }
        let r = match finding(ui, rect, &table, f, &kind) {
            Some(whole) => r.on_hover_text(whole),
            None => r,
        };
        if r.clicked() {
            go = Some(index);
        }
        r.context_menu(|ui| {
            if ui.button("Copy").clicked() {
                ui.ctx().copy_text(format!("{kind}: {}: {}", f.place, f.message));
                ui.close();
            }
            copy_menu::forms(doc, actions, ui, &[CopyFormat::Json], &Selection::Finding(index), None);
            actions.menu_item(ui, "next-problem");
        });
    });
    ui.advance_cursor_after_rect(rect);
    table.finish(ui, actions.tables.state(TABLE));
    if fold {
        view.unfolded = !view.unfolded;
    }
    if let Some(i) = go {
        doc.go_finding(i);
    }
}

/// Draws the row for all findings of mapped pages without content. Returns `true` if it was clicked.
fn folded(doc: &Document, ui: &mut Ui, rect: Rect, table: &Table, n: u64, open: bool) -> bool {
    let p = palette(ui);
    let r = focus::row_response(ui, rect, ui.scope_id().with("without content"));
    let kind = kind_name(FindingKind::MappedWithoutContent);
    r.widget_info(|| WidgetInfo::selected(Role::Button, true, open, format!("Unfold {kind}")));
    if r.hovered() || r.has_focus() {
        ui.painter().rect_filled(rect, 0.0, p.raised);
    }
    let pages =
        |s: &kinescope_session::spaces::SpaceFact| s.pages_with(kinescope_session::page_runs::PageContent::None);
    let pages: u64 = doc.derived.spaces.iter().map(pages).sum();
    severity_cell(ui, table, rect, Severity::Note);
    table.text(ui, "kind", rect, &kind, mono(), p.text);
    let places = text::count_noun(n, "location", "locations");
    table.text(ui, "place", rect, &places, body(), p.quiet);
    if let Some(cell) = table.cell("what", rect) {
        let caret = if open { icons::CARET_UP } else { icons::CARET_DOWN };
        let used = paint_text(ui, cell, Align2::RIGHT_CENTER, caret, body(), p.quiet);
        let message = format!(
            "{} in total; a replay starts them as zero",
            text::count_noun(pages, "page", "pages")
        );
        let wide = cell.with_max_x(cell.right() - used - 8.0);
        paint_text(ui, wide, Align2::LEFT_CENTER, &message, body(), p.text);
    }
    r.on_hover_cursor(egui::CursorIcon::PointingHand).clicked()
}

/// Draws the mark of a severity, with its word if there is room.
fn severity_cell(ui: &Ui, table: &Table, rect: Rect, s: Severity) {
    let (mark, word) = severity_label(s);
    let colour = severity_colour(palette(ui), s);
    let message = if table.is_compact("severity") {
        mark.to_owned()
    } else {
        format!("{mark} {word}")
    };
    table.text(ui, "severity", rect, &message, body(), colour);
}

/// Draws a finding. Returns its whole message if it was cut.
fn finding(ui: &Ui, rect: Rect, table: &Table, f: &Finding, kind: &str) -> Option<String> {
    let p = palette(ui);
    severity_cell(ui, table, rect, f.severity);
    let mut cut = table.text(ui, "kind", rect, kind, mono(), p.text);
    let place = f
        .event
        .map_or_else(|| f.place.clone(), |e| format!("event {}", text::count(e)));
    let ink = if f.event.is_some() { p.read } else { p.quiet };
    cut |= table.text(ui, "place", rect, &place, mono(), ink);
    let message = text::group_digits(&f.message);
    // The row for all of these shows the rest of the text.
    let short = message
        .split_once(" are mapped here")
        .filter(|_| f.kind == FindingKind::MappedWithoutContent);
    cut |= table.text(ui, "what", rect, short.map_or(&message, |s| s.0), body(), p.text);
    cut.then(|| format!("{kind} · {place}\n{message}"))
}

/// Draws the selected finding in full.
fn explain_selected(doc: &Document, ui: &mut Ui) {
    let p = palette(ui);
    let Selection::Finding(i) = *doc.selection() else {
        return;
    };
    let Some(f) = doc.derived.findings.get(i as usize) else {
        return;
    };
    let width = ui.available_rect_before_wrap().x_range();
    ui.painter().hline(width, ui.cursor().top(), Stroke::new(1.0, p.line));
    egui::Frame::new()
        .inner_margin(egui::Margin::symmetric(12, 6))
        .show(ui, |ui| {
            ui.add(egui::Label::new(RichText::new(&f.place).font(mono()).color(p.quiet)).truncate());
            ui.add(egui::Label::new(text::group_digits(&f.message)).wrap());
        });
}
