//! The table: the recorded launch, and the points in the order that a person wants.

use super::view::{Sort, View};
use crate::document::tuning::map::Axis;
use crate::theme::rows::Rows;
use crate::theme::widgets::{self, paint_text};
use crate::theme::{body, mono, palette, small, text};
use egui::accesskit::Role;
use egui::{Align2, Rect, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use replay_engine::tune::{Measured, Point, Spread, Tuned};
use std::sync::Arc;

/// A column.
#[derive(Clone, Copy, PartialEq)]
enum Column {
    Mark,
    Axis(Axis),
    Median,
    Spread,
    SpeedUp,
    Registers,
    Occupancy,
    Why,
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Self::Mark => "",
            Self::Axis(a) => a.name(),
            Self::Median => "median",
            Self::Spread => "spread",
            Self::SpeedUp => "speed-up",
            Self::Registers => "registers",
            Self::Occupancy => "occupancy",
            Self::Why => "result",
        }
    }

    fn width(self, long: bool) -> f32 {
        match self {
            Self::Mark => 20.0,
            Self::Axis(Axis::Block | Axis::Grid) if long => 96.0,
            Self::Axis(Axis::Block | Axis::Grid) => 62.0,
            Self::Axis(Axis::Registers) => 96.0,
            Self::Axis(Axis::Code) => 110.0,
            Self::Axis(_) => 66.0,
            Self::Median => 78.0,
            Self::Spread => 92.0,
            Self::SpeedUp => 70.0,
            Self::Registers => 70.0,
            Self::Occupancy => 78.0,
            Self::Why => 90.0,
        }
    }

    fn is_number(self) -> bool {
        !matches!(
            self,
            Self::Mark | Self::Spread | Self::Why | Self::Axis(Axis::Code | Axis::Cache)
        )
    }

    fn sort(self) -> Option<Sort> {
        match self {
            Self::Axis(Axis::Grid) => Some(Sort::Grid),
            Self::Axis(Axis::Block) => Some(Sort::Block),
            Self::Median | Self::SpeedUp => Some(Sort::Time),
            Self::Registers => Some(Sort::Registers),
            Self::Occupancy => Some(Sort::Occupancy),
            Self::Mark => Some(Sort::Order),
            Self::Axis(_) | Self::Spread | Self::Why => None,
        }
    }
}

/// The columns that there is room for, each with its left edge and width.
fn columns(varied: &[Axis], long: bool, room: f32) -> Vec<(Column, f32, f32)> {
    let mut all = vec![Column::Mark, Column::Axis(Axis::Grid), Column::Axis(Axis::Block)];
    let others = varied.iter().filter(|a| !matches!(a, Axis::Grid | Axis::Block));
    all.extend(others.map(|a| Column::Axis(*a)));
    all.extend([
        Column::Median,
        Column::Spread,
        Column::SpeedUp,
        Column::Registers,
        Column::Occupancy,
        Column::Why,
    ]);
    let wide = |all: &[Column]| all.iter().map(|c| c.width(long)).sum::<f32>();
    for less in [Column::Occupancy, Column::Registers, Column::Spread] {
        if wide(&all) > room {
            all.retain(|c| *c != less);
        }
    }
    let mut at = 0.0;
    all.into_iter()
        .map(|c| {
            let width = match c {
                Column::Why => (room - at).max(c.width(long)),
                _ => c.width(long),
            };
            let place = (c, at, width);
            at += width;
            place
        })
        .collect()
}

/// Draws it in what is left of `ui`.
pub(super) fn draw(view: &mut View, tuned: &Arc<Tuned>, ui: &mut Ui) {
    let p = palette(ui);
    let full = ui.available_rect_before_wrap();
    let (head, _) = ui.allocate_exact_size(vec2(full.width(), 22.0), Sense::hover());
    let (varied, slowest, long) = {
        let shown = view.shown(tuned);
        (shown.varied.clone(), shown.slowest, shown.long)
    };
    let columns = columns(&varied, long, full.width() - 10.0);
    for (column, at, width) in &columns {
        let cell = Rect::from_min_size(pos2(head.left() + at, head.top()), vec2(*width, head.height()));
        heading(view, *column, cell, ui);
    }
    ui.painter()
        .hline(head.x_range(), head.bottom(), Stroke::new(1.0, p.line));
    let selected = view.point;
    let shown = view.shown(tuned);
    let order = std::mem::take(&mut shown.order);
    let mut rows: Rows = view.rows;
    let mut hit = None;
    rows.show(ui, "Points", order.len() as u64 + 1, |ui, n, rect| {
        let place = n.checked_sub(1).and_then(|n| order.get(n as usize)).copied();
        let (point, measured) = match place {
            None => (tuned.recorded, &tuned.baseline),
            Some(place) => match tuned.points.get(place as usize) {
                Some(t) => (t.point, &t.measured),
                None => return,
            },
        };
        let of = Line {
            tuned,
            place,
            point,
            measured,
            slowest,
        };
        if row(ui, &of, &columns, rect, place.is_some() && place == selected) {
            hit = place;
        }
    });
    view.rows = rows;
    view.shown(tuned).order = order;
    view.point = hit.or(view.point);
}

fn heading(view: &mut View, column: Column, cell: Rect, ui: &mut Ui) {
    let p = palette(ui);
    let inner = Rect::from_min_max(cell.min, pos2(cell.right() - 8.0, cell.bottom()));
    let align = if column.is_number() {
        Align2::RIGHT_CENTER
    } else {
        Align2::LEFT_CENTER
    };
    let sort = column.sort();
    let mut title = match column {
        Column::Mark => "#".to_owned(),
        c => c.title().to_owned(),
    };
    let now = sort == Some(view.sort.0) && column != Column::SpeedUp;
    if now {
        title.push(if view.sort.1 { '↑' } else { '↓' });
    }
    let ink = if now { p.text } else { p.quiet };
    paint_text(ui, inner, align, &title, small(), ink);
    let Some(sort) = sort else { return };
    let label = format!(
        "Sort by {}",
        if column == Column::Mark {
            "order"
        } else {
            column.title()
        }
    );
    let r = ui.interact(cell, ui.scope_id().with(("sort", column.title())), Sense::click());
    r.widget_info(|| WidgetInfo::labeled(Role::ColumnHeader, true, &label));
    if r.on_hover_cursor(egui::CursorIcon::PointingHand).clicked() {
        let back = view.sort.0 == sort && !view.sort.1;
        view.sort = (sort, back);
    }
}

/// A line of the table.
struct Line<'a> {
    tuned: &'a Arc<Tuned>,
    /// `None`: the recorded launch.
    place: Option<u32>,
    point: Point,
    measured: &'a Measured,
    slowest: u64,
}

/// Draws a line. `true`: it was clicked.
fn row(ui: &Ui, of: &Line<'_>, columns: &[(Column, f32, f32)], rect: Rect, selected: bool) -> bool {
    let p = palette(ui);
    let label = match of.place {
        None => "recorded launch".to_owned(),
        Some(_) => format!("point {}", of.point),
    };
    let r = ui.interact(rect, ui.scope_id().with(("point", of.place)), Sense::click());
    r.widget_info(|| WidgetInfo::selected(Role::Row, true, selected, &label));
    if selected {
        widgets::select(ui, rect);
    } else if r.hovered() {
        ui.painter().rect_filled(rect, 0.0, p.raised);
    }
    let spread = of.measured.spread();
    let is_best = of.place.is_some() && of.place == of.tuned.best;
    let ink = if spread.is_none() { p.quiet } else { p.text };
    for (column, at, width) in columns {
        let cell = Rect::from_min_max(
            pos2(rect.left() + at, rect.top()),
            pos2(rect.left() + at + width - 8.0, rect.bottom()),
        );
        let align = if column.is_number() {
            Align2::RIGHT_CENTER
        } else {
            Align2::LEFT_CENTER
        };
        let number = |t: &str| {
            paint_text(ui, cell, align, t, mono(), ink);
        };
        match column {
            Column::Mark => {
                let (word, ink) = match (of.place, is_best, &of.measured.rejected) {
                    (None, ..) => ("◆", p.text),
                    (_, true, _) => ("★", p.job),
                    (_, _, Some(_)) => ("▲", p.error),
                    _ => ("", p.text),
                };
                let cell = Rect::from_min_max(
                    pos2(cell.left() + 4.0, cell.top()),
                    pos2(cell.right() + 8.0, cell.bottom()),
                );
                paint_text(ui, cell, Align2::LEFT_CENTER, word, body(), ink);
            }
            Column::Axis(axis) => number(&axis.label(of.tuned, &of.point)),
            Column::Median => {
                if let Some(s) = &spread {
                    number(&text::duration(s.median));
                }
            }
            Column::Spread => {
                if let Some(s) = &spread {
                    bars(ui, s, of.slowest, cell);
                }
            }
            Column::SpeedUp => match of.place {
                None if spread.is_some() => number("1.00"),
                _ => {
                    if let Some(s) = of.tuned.speed_up(of.measured) {
                        number(&format!("{s:.2}"));
                    }
                }
            },
            Column::Registers => {
                if let Some(r) = &of.measured.resources {
                    number(&r.registers.to_string());
                }
            }
            Column::Occupancy => {
                if let Some(r) = of.measured.resources.filter(|r| r.blocks > 0) {
                    number(&format!("{:.0} %", r.occupancy * 100.0));
                }
            }
            Column::Why => {
                let (words, ink) = match &of.measured.rejected {
                    Some(why) => (why.to_string(), p.error),
                    None if of.place.is_none() => ("as recorded".to_owned(), p.quiet),
                    None if is_best => ("fastest that is right".to_owned(), p.job),
                    None => ("right".to_owned(), p.quiet),
                };
                let first = words.lines().next().unwrap_or_default();
                paint_text(ui, cell, align, first, small(), ink);
            }
        }
    }
    let clicked = r.clicked();
    if let Some(why) = &of.measured.rejected {
        r.on_hover_text(format!("▲ {why}"));
    } else if let Some(s) = spread {
        let range = format!("{} to {}", text::duration(s.min), text::duration(s.max));
        let told = format!(
            "{}\n{} median of {}, {range}, standard deviation {}",
            of.point,
            text::duration(s.median),
            s.count,
            text::duration(s.stdev as u64)
        );
        r.on_hover_text(told);
    }
    clicked
}

/// From the shortest to the longest time, and the median, on a scale from nothing to the slowest.
fn bars(ui: &Ui, s: &Spread, slowest: u64, cell: Rect) {
    let p = palette(ui);
    let most = slowest.max(1) as f32;
    let x = |ns: u64| cell.left() + (ns as f32 / most).min(1.0) * cell.width();
    let y = cell.center().y.round();
    let painter = ui.painter();
    painter.hline(cell.x_range(), y, Stroke::new(1.0, p.line));
    painter.hline(x(s.min)..=x(s.max).max(x(s.min) + 1.0), y, Stroke::new(3.0, p.poll));
    painter.vline(x(s.median), y - 5.0..=y + 5.0, Stroke::new(2.0, p.job));
}
