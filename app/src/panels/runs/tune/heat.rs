//! The heat map: a cell for each pair of values, stronger if it is faster. Cells that are not in view cost nothing.

use super::view::View;
use crate::theme::{contrast, mono_small, palette, small, widgets};
use egui::accesskit::Role;
use egui::{Align2, Color32, Pos2, Rect, RichText, ScrollArea, Sense, Stroke, StrokeKind, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::text;
use kinescope_session::tuning::map::{Axis, Cell, TuningMap, explain_rejection};
use replay_engine::tune::TuneReport;
use std::sync::Arc;

/// Room for the labels of rows and of columns, points.
const LEFT: f32 = 68.0;
const BELOW: f32 = 18.0;
/// Minimum and maximum width of a cell, points.
const WIDE: std::ops::RangeInclusive<f32> = 26.0..=92.0;
const HIGH: f32 = 20.0;
/// Width from which a cell has room for its time, and for its ratio to the fastest, points.
const FOR_TIME: f32 = 58.0;
const FOR_RATIO: f32 = 34.0;
/// Minimum and maximum strength of the colour of a valid cell.
const INK: (f32, f32) = (0.14, 0.86);

/// Mixes two colours, 0 to 1.
fn mix_colours(a: Color32, b: Color32, part: f32) -> Color32 {
    a.lerp_to_gamma(b, part.clamp(0.0, 1.0))
}

/// Returns the height of a map with its headers and labels.
pub(super) fn height(map: &TuningMap) -> f32 {
    26.0 + map.rows.len() as f32 * HIGH + BELOW + 10.0
}

/// Draws the map in the rest of `ui`.
pub(super) fn draw(view: &mut View, tuned: &Arc<TuneReport>, ui: &mut Ui) {
    heads(view, tuned, ui);
    let selected = view.point;
    let shown = view.update_drawn(tuned);
    let map = &shown.map;
    let (columns, rows) = (map.columns.len(), map.rows.len());
    if columns == 0 || rows == 0 {
        return;
    }
    let full = ui.available_rect_before_wrap();
    let left = if map.y.is_some() { LEFT } else { 0.0 };
    let area = Rect::from_min_max(
        pos2(full.left() + left, full.top()),
        pos2(full.right(), full.bottom() - BELOW),
    );
    let wide = (area.width() / columns as f32)
        .clamp(*WIDE.start(), *WIDE.end())
        .floor();
    let mut child = ui.new_child(egui::UiBuilder::new().id_salt("cells").max_rect(area));
    let mut hit = None;
    let out = ScrollArea::both()
        .id_salt("map of points")
        .auto_shrink([false, false])
        .show_viewport(&mut child, |ui, seen| {
            ui.set_width(wide * columns as f32);
            ui.set_height(HIGH * rows as f32);
            let origin = ui.min_rect().min;
            let in_view = |from: f32, to: f32, size: f32, count: usize| {
                let first = (from / size).floor().max(0.0) as usize;
                first..((to / size).ceil().max(0.0) as usize).min(count)
            };
            for row in in_view(seen.top(), seen.bottom(), HIGH, rows) {
                for column in in_view(seen.left(), seen.right(), wide, columns) {
                    let Some(cell) = map.cell(column, row) else { continue };
                    let at = origin + vec2(column as f32 * wide, row as f32 * HIGH);
                    let rect = Rect::from_min_size(at, vec2(wide, HIGH));
                    if draw_cell(ui, tuned, map, &cell, rect, selected == Some(cell.place)) {
                        hit = Some(cell.place);
                    }
                }
            }
        });
    labels(ui, map, area, out.state.clamped_offset(), wide);
    if let Some(place) = hit {
        view.point = Some(place);
        let order = view.update_drawn(tuned).order.iter().position(|n| *n == place);
        if let Some(row) = order {
            view.rows.reveal(row as u64 + 1);
        }
    }
}

/// Draws the choice of both axes, and the meaning of the marks.
fn heads(view: &mut View, tuned: &Arc<TuneReport>, ui: &mut Ui) {
    let p = palette(ui);
    let (x, y, varied) = {
        let shown = view.update_drawn(tuned);
        (shown.map.x, shown.map.y, shown.varied.clone())
    };
    ui.horizontal(|ui| {
        ui.set_height(22.0);
        ui.spacing_mut().item_spacing.x = 6.0;
        let choice = |ui: &mut Ui, label: &str, now: Option<Axis>| -> Option<Axis> {
            let mut taken = None;
            if varied.len() < 3 {
                ui.label(RichText::new(now.map_or("", Axis::name)).font(small()).color(p.quiet));
                return None;
            }
            let combo = egui::ComboBox::from_id_salt(label)
                .selected_text(RichText::new(now.map_or("", Axis::name)).font(small()))
                .show_ui(ui, |ui| {
                    for axis in &varied {
                        if ui.selectable_label(now == Some(*axis), axis.name()).clicked() {
                            taken = Some(*axis);
                        }
                    }
                });
            combo
                .response
                .widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, label));
            taken
        };
        if let Some(axis) = choice(ui, "Across", x) {
            // Two axes of one kind show nothing, so the other axis takes the old kind of this one.
            view.axes = (Some(axis), if y == Some(axis) { x } else { y });
        }
        if y.is_some() {
            ui.label(RichText::new("×").font(small()).color(p.quiet));
            if let Some(axis) = choice(ui, "Down", y) {
                view.axes = (if x == Some(axis) { y } else { x }, Some(axis));
            }
        }
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            ui.add_space(8.0);
            let words = "strong: fast · frame: best · ◆ recorded · ▲ rejected";
            ui.add(egui::Label::new(RichText::new(words).font(small()).color(p.quiet)).truncate());
        });
    });
}

/// Draws a cell. Returns `true` if it was clicked.
fn draw_cell(ui: &Ui, tuned: &Arc<TuneReport>, map: &TuningMap, cell: &Cell, rect: Rect, selected: bool) -> bool {
    let p = palette(ui);
    let inner = rect.shrink(1.0);
    let painter = ui.painter();
    let point = tuned
        .points
        .get(cell.place as usize)
        .map(|t| t.point)
        .unwrap_or_default();
    let (fill, word) = match cell.median {
        Some(median) => {
            let strength = map.strength(median);
            let fill = mix_colours(p.panel, p.job, INK.0 + (INK.1 - INK.0) * strength);
            let word = if rect.width() >= FOR_TIME {
                text::duration(median)
            } else if rect.width() >= FOR_RATIO {
                let fastest = map.range.map_or(median, |r| r.0).max(1);
                format!("{:.2}", median as f64 / fastest as f64)
            } else {
                String::new()
            };
            (fill, word)
        }
        None if cell.rejected > 0 => (p.panel, "▲".to_owned()),
        None => (p.panel, "…".to_owned()),
    };
    painter.rect_filled(inner, 2.0, fill);
    if cell.median.is_none() && cell.rejected > 0 {
        hatch(ui, inner, mix_colours(p.panel, p.error, 0.55));
        painter.rect_stroke(
            inner,
            2.0,
            Stroke::new(1.0, mix_colours(p.panel, p.error, 0.7)),
            StrokeKind::Inside,
        );
    }
    let ink = match cell.median {
        Some(_) if contrast(p.text, fill) < contrast(p.background, fill) => p.background,
        Some(_) => p.text,
        None => p.error,
    };
    let aside = if cell.recorded { 4.0 } else { 0.0 };
    let at = inner.center() + vec2(aside, 0.0);
    if cell.median.is_none() {
        // The mark has its own background, so that it is readable on the hatch.
        painter.circle_filled(at, 8.0, p.panel);
    }
    painter.text(at, Align2::CENTER_CENTER, word, mono_small(), ink);
    if cell.recorded {
        diamond(ui, inner.left_top() + vec2(5.0, 5.0), ink);
    }
    if cell.best {
        painter.rect_stroke(inner, 2.0, Stroke::new(2.0, p.text), StrokeKind::Inside);
    } else if selected {
        painter.rect_stroke(inner, 2.0, Stroke::new(1.0, p.read), StrokeKind::Inside);
    }
    let id = ui.scope_id().with(("cell", cell.place));
    let r = ui.interact(rect, id, Sense::click());
    r.widget_info(|| WidgetInfo::labeled(Role::Cell, true, format!("cell {point}")));
    let clicked = r.clicked();
    if r.hovered() && !cell.best {
        painter.rect_stroke(inner, 2.0, Stroke::new(1.0, p.quiet), StrokeKind::Inside);
    }
    r.on_hover_ui(|ui| hover(ui, tuned, cell));
    clicked
}

/// Draws the tooltip of a cell.
fn hover(ui: &mut Ui, tuned: &TuneReport, cell: &Cell) {
    let p = palette(ui);
    let Some(tried) = tuned.points.get(cell.place as usize) else {
        return;
    };
    ui.set_max_width(420.0);
    ui.label(tried.point.to_string());
    if let Some(s) = tried.measured.spread() {
        let range = format!("{} to {}", text::duration(s.min), text::duration(s.max));
        ui.label(format!("{} median of {}, {range}", text::duration(s.median), s.count));
        if let Some(speed_up) = tuned.speed_up(&tried.measured) {
            ui.label(format!("{speed_up:.2} times as fast as recorded"));
        }
    }
    if let Some(why) = explain_rejection(tuned, cell) {
        ui.label(RichText::new(format!("▲ {why}")).color(p.error));
    }
    if cell.points > 1 {
        let rejected = match cell.rejected {
            0 => String::new(),
            n => format!(", {n} of them rejected"),
        };
        let words = format!("the fastest of {} points{rejected}", cell.points);
        ui.label(RichText::new(words).font(small()).color(p.quiet));
    }
}

fn hatch(ui: &Ui, rect: Rect, ink: Color32) {
    let painter = ui.painter().with_clip_rect(rect.intersect(ui.clip_rect()));
    let mut x = rect.left() - rect.height();
    while x < rect.right() {
        let from = pos2(x, rect.bottom());
        let to = pos2(x + rect.height(), rect.top());
        painter.line_segment([from, to], Stroke::new(1.0, ink));
        x += 7.0;
    }
}

fn diamond(ui: &Ui, at: Pos2, ink: Color32) {
    let r = 3.0;
    let points = vec![
        at + vec2(0.0, -r),
        at + vec2(r, 0.0),
        at + vec2(0.0, r),
        at + vec2(-r, 0.0),
    ];
    ui.painter().add(egui::Shape::convex_polygon(points, ink, Stroke::NONE));
}

/// Draws the labels of rows and columns in view, at the side of the cells however these are scrolled.
fn labels(ui: &Ui, map: &TuningMap, area: Rect, offset: egui::Vec2, wide: f32) {
    let p = palette(ui);
    let first = (offset.x / wide).floor().max(0.0) as usize;
    let mut at = first;
    while let Some(label) = map.columns.get(at) {
        let x = area.left() + at as f32 * wide - offset.x;
        if x + wide * 0.5 > area.right() {
            break;
        }
        if x + wide * 0.5 >= area.left() {
            let rect = Rect::from_min_size(pos2(x + 1.0, area.bottom() + 1.0), vec2(wide - 2.0, BELOW - 2.0));
            widgets::paint_text(ui, rect, Align2::CENTER_CENTER, label, mono_small(), p.quiet);
        }
        at += 1;
    }
    let mut at = (offset.y / HIGH).floor().max(0.0) as usize;
    while let Some(label) = map.rows.get(at).filter(|_| map.y.is_some()) {
        let y = area.top() + at as f32 * HIGH - offset.y;
        if y + HIGH * 0.5 > area.bottom() {
            break;
        }
        if y + HIGH * 0.5 >= area.top() {
            let rect = Rect::from_min_max(pos2(area.left() - LEFT, y), pos2(area.left() - 6.0, y + HIGH));
            widgets::paint_text(ui, rect, Align2::RIGHT_CENTER, label, mono_small(), p.quiet);
        }
        at += 1;
    }
}
