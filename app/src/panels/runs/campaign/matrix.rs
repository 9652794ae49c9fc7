//! The matrix of a campaign: a row for each work item, a column for each target, and a verdict in each cell.

use super::view::View;
use crate::theme::{ROW, body, mono_small, palette, small, strong, widgets};
use egui::accesskit::Role;
use egui::{Align2, Color32, Rect, ScrollArea, Sense, Stroke, StrokeKind, Ui, WidgetInfo, pos2, vec2};
use kinescope_campaign::{CellVerdict, MatrixCell, MatrixRow, Snapshot, WORK_KINDS, WorkCounts};
use kinescope_session::text;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Width of the names, and of a target, points.
const NAME: f32 = 204.0;
const TARGET: f32 = 148.0;
/// Distance to the border, points.
const MARGIN: f32 = 8.0;

/// A line of the matrix.
enum Line<'a> {
    /// The heading of a kind of work.
    Kind(&'a str),
    /// The numbers of all runs of the kind above, by target.
    Counts(&'a BTreeMap<String, WorkCounts>),
    /// A work item.
    Work(&'a MatrixRow),
}

/// The lines of a kind of work.
struct Section<'a> {
    kind: &'static str,
    /// The numbers of all its runs: its cells have only those that are done.
    counts: Option<&'a BTreeMap<String, WorkCounts>>,
    rows: &'a [Arc<MatrixRow>],
}

impl<'a> Section<'a> {
    /// Returns the number of lines.
    fn len(&self) -> usize {
        1 + usize::from(self.counts.is_some()) + self.rows.len()
    }

    fn line(&self, number: usize) -> Option<Line<'a>> {
        match (number, self.counts) {
            (0, _) => Some(Line::Kind(self.kind)),
            (1, Some(counts)) => Some(Line::Counts(counts)),
            (n, counts) => {
                let row = self.rows.get(n - 1 - usize::from(counts.is_some()))?;
                Some(Line::Work(row))
            }
        }
    }
}

/// Returns the sections of the matrix, at most one for each kind of work. Takes time logarithmic in the number of rows.
fn list_sections(snapshot: &Snapshot) -> Vec<Section<'_>> {
    let section = |kind: &'static str| {
        let counts = snapshot.counts.get(kind).filter(|_| snapshot.is_elsewhere);
        let rows = snapshot.rows_of(kind);
        (counts.is_some() || !rows.is_empty()).then_some(Section { kind, counts, rows })
    };
    WORK_KINDS.into_iter().filter_map(section).collect()
}

/// Returns a line by its number from the top.
fn find_line<'a>(sections: &[Section<'a>], number: usize) -> Option<Line<'a>> {
    let mut left = number;
    for section in sections {
        if left < section.len() {
            return section.line(left);
        }
        left -= section.len();
    }
    None
}

/// The columns in view, with the names of their targets.
struct Columns<'a> {
    targets: &'a [String],
    first: usize,
}

impl<'a> Columns<'a> {
    /// Returns the columns of a table at `left` that `clip` does not hide.
    fn in_view(targets: &'a [String], left: f32, clip: Rect) -> Self {
        let number = |x: f32| ((x - left - MARGIN - NAME) / TARGET).floor().max(0.0) as usize;
        let range: Range<usize> = number(clip.left())..number(clip.right()).saturating_add(1).min(targets.len());
        Self {
            first: range.start,
            targets: targets.get(range).unwrap_or_default(),
        }
    }

    /// Returns the name and the place of each column in a line.
    fn places(&self, rect: Rect) -> impl Iterator<Item = (&'a str, Rect)> {
        let numbered = (self.first..).zip(self.targets);
        numbered.map(move |(number, target)| (target.as_str(), column(rect, number)))
    }
}

/// Draws the matrix, which scrolls. Only the rows and columns in view are drawn.
pub(super) fn draw(view: &mut View, snapshot: &Snapshot, ui: &mut Ui) {
    let sections = list_sections(snapshot);
    let count = sections.iter().map(Section::len).sum();
    let width = (2.0 * MARGIN + NAME + TARGET * snapshot.targets.len() as f32).max(ui.available_width());
    ScrollArea::horizontal()
        .id_salt("campaign targets")
        .auto_shrink(false)
        .show(ui, |ui| {
            ui.set_width(width);
            let columns = Columns::in_view(&snapshot.targets, ui.cursor().left(), ui.clip_rect());
            head(snapshot, &columns, width, ui);
            ScrollArea::vertical()
                .id_salt("campaign rows")
                .auto_shrink(false)
                .show_rows(ui, ROW, count, |ui, range| {
                    for line in range.filter_map(|number| find_line(&sections, number)) {
                        let (rect, _) = ui.allocate_exact_size(vec2(width, ROW), Sense::hover());
                        draw_line(view, &line, &columns, rect, ui);
                    }
                });
        });
}

fn column(rect: Rect, number: usize) -> Rect {
    let left = rect.left() + MARGIN + NAME + TARGET * number as f32;
    Rect::from_min_max(pos2(left, rect.top()), pos2(left + TARGET - 4.0, rect.bottom()))
}

/// Draws the names of the targets, with the number of their runs that are done.
fn head(snapshot: &Snapshot, columns: &Columns<'_>, width: f32, ui: &mut Ui) {
    let p = palette(ui);
    let (rect, _) = ui.allocate_exact_size(vec2(width, ROW * 2.0), Sense::hover());
    for (target, cell) in columns.places(rect) {
        let (top, bottom) = cell.split_top_bottom_at_fraction(0.5);
        let counts = snapshot.status.targets.get(target).copied().unwrap_or_default();
        let done = format!("{} of {} done", text::count(counts.done), text::count(counts.total()));
        let id = ui.scope_id().with(("campaign target", target));
        let response = ui.interact(cell, id, Sense::hover());
        response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("target {target} {done}")));
        widgets::paint_middle(ui, top, Align2::LEFT_CENTER, target, strong(), p.text);
        widgets::paint_text(ui, bottom, Align2::LEFT_CENTER, &done, small(), p.quiet);
        response.on_hover_text(target);
    }
    ui.painter()
        .hline(rect.x_range(), rect.bottom(), Stroke::new(1.0, p.line));
}

/// Returns the heading of a kind of work.
fn heading(kind: &str) -> &str {
    match kind {
        "replay" => "Replays",
        "pipeline" => "Pipelines",
        "tuning" => "Tuning",
        "wasm" => "WebAssembly programs",
        "fuzz" => "Mutated inputs",
        "bisect" => "Bisections",
        other => other,
    }
}

fn draw_line(view: &mut View, line: &Line<'_>, columns: &Columns<'_>, rect: Rect, ui: &mut Ui) {
    let p = palette(ui);
    let name = Rect::from_min_size(rect.min + vec2(MARGIN, 0.0), vec2(NAME - 8.0, rect.height()));
    let row = match line {
        Line::Kind(kind) => {
            widgets::paint_text(ui, name, Align2::LEFT_CENTER, heading(kind), strong(), p.quiet);
            return;
        }
        Line::Counts(counts) => {
            widgets::paint_text(ui, name, Align2::LEFT_CENTER, "All runs", body(), p.text);
            for (target, place) in columns.places(rect) {
                let at = place.shrink2(vec2(0.0, 1.0));
                match counts.get(target) {
                    Some(of) => draw_counts(of, at, ui),
                    None => draw_nothing(at, ui),
                }
            }
            return;
        }
        Line::Work(row) => row,
    };
    let key = &row.work;
    let title = match key.options.is_empty() {
        true => key.recording.clone(),
        false => format!("{} ({})", key.recording, key.options),
    };
    if widgets::paint_middle(ui, name, Align2::LEFT_CENTER, &title, body(), p.text) {
        let id = ui.scope_id().with(("campaign work", &title, key.kind));
        ui.interact(name, id, Sense::hover()).on_hover_text(&title);
    }
    for (target, place) in columns.places(rect) {
        let at = place.shrink2(vec2(0.0, 1.0));
        match row.cell(target) {
            Some(cell) => draw_cell(view, cell, at, ui),
            None => draw_nothing(at, ui),
        }
    }
}

/// Draws the place of a target that has no such work.
fn draw_nothing(rect: Rect, ui: &Ui) {
    widgets::paint_text(ui, rect, Align2::LEFT_CENTER, "–", small(), palette(ui).quiet);
}

/// Draws the numbers of a kind of work on a target: the worst verdict, and how many runs are done.
fn draw_counts(of: &WorkCounts, rect: Rect, ui: &Ui) {
    let numbers = [
        (of.verdicts.refused, CellVerdict::Refused),
        (of.verdicts.failed, CellVerdict::Failed),
        (of.verdicts.diverged, CellVerdict::Diverged),
        (of.verdicts.matching, CellVerdict::Match),
    ];
    let present = numbers.iter().filter(|(count, _)| *count > 0);
    let words = present.map(|(count, verdict)| format!("{} {}", text::count(*count), verdict.name()));
    let mut words: Vec<String> = words.collect();
    let worst = numbers.iter().find(|(count, _)| *count > 0);
    let (word, ink) = match (worst, words.first()) {
        (Some((_, verdict)), Some(word)) => {
            let (mark, ink) = describe_verdict(*verdict, ui);
            (format!("{mark} {word}"), ink)
        }
        _ => ("waiting".to_owned(), palette(ui).quiet),
    };
    let done = format!("{} of {}", text::count(of.counts.done), text::count(of.counts.total()));
    words.push(format!("{} running", text::count(of.counts.leased)));
    words.push(format!("{} queued", text::count(of.counts.queued)));
    let label = format!(
        "{} on {}: {done} done, {}",
        heading(&of.kind),
        of.target,
        words.join(", ")
    );
    let id = ui.scope_id().with(("campaign counts", &of.kind, &of.target));
    let response = ui.interact(rect, id, Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, &label));
    ui.painter().rect_filled(rect, 4.0, ink.gamma_multiply(0.14));
    draw_pair(rect, &word, &done, ui);
    response.on_hover_text(label);
}

/// Draws a word at the left of a cell, and a smaller text at its right.
fn draw_pair(rect: Rect, word: &str, right: &str, ui: &Ui) {
    let p = palette(ui);
    let inner = rect.shrink2(vec2(6.0, 0.0));
    let used = widgets::paint_text(ui, inner, Align2::RIGHT_CENTER, right, mono_small(), p.quiet);
    let rest = Rect::from_min_max(
        inner.min,
        pos2((inner.right() - used - 6.0).max(inner.left()), inner.bottom()),
    );
    widgets::paint_truncated(ui, rest, Align2::LEFT_CENTER, word, body(), p.text);
}

/// Returns the mark and the colour of a verdict.
pub(super) fn describe_verdict(verdict: CellVerdict, ui: &Ui) -> (&'static str, Color32) {
    let p = palette(ui);
    match verdict {
        CellVerdict::Match => ("✓", p.job),
        CellVerdict::Diverged | CellVerdict::Failed => ("▲", p.error),
        CellVerdict::Refused => ("!", p.warning),
    }
}

fn draw_cell(view: &mut View, of: &MatrixCell, rect: Rect, ui: &Ui) {
    let p = palette(ui);
    let (key, cell) = (&of.key, &of.cell);
    let (mark, ink) = describe_verdict(cell.verdict, ui);
    let count = match (cell.verdict, cell.runs) {
        (_, 1) => String::new(),
        (CellVerdict::Match, n) => format!(" {n}"),
        (_, n) => format!(" {} of {n}", n.saturating_sub(cell.matches)),
    };
    let word = format!("{mark} {}{count}", cell.verdict.name());
    let time = cell.median_ns().map(text::duration).unwrap_or_default();
    let id = ui.scope_id().with(("campaign cell", key));
    let response = ui.interact(rect, id, Sense::click());
    let is_selected = view.selected.as_ref() == Some(key);
    let label = format!("{} on {}: {word} {time}", key.recording, key.target);
    response.widget_info(|| WidgetInfo::selected(Role::Button, true, is_selected, &label));
    if response.clicked() {
        view.selected = Some(key.clone());
    }
    if response.gained_focus() {
        response.scroll_to_me(None);
    }
    if ui.is_rect_visible(rect) {
        let fill = if is_selected {
            p.selection
        } else {
            ink.gamma_multiply(0.14)
        };
        ui.painter().rect_filled(rect, 4.0, fill);
        if response.has_focus() || response.hovered() {
            ui.painter()
                .rect_stroke(rect, 4.0, Stroke::new(1.0, p.read), StrokeKind::Inside);
        }
        draw_pair(rect, &word, &time, ui);
    }
    response.on_hover_text(label);
}
