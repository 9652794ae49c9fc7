//! The table: the recorded launch, and the points in the user's order.

use super::view::{Sort, View};
use crate::theme::columns::{Column, Table, Tables};
use crate::theme::rows::Rows;
use crate::theme::{body, focus, mono, palette, small, widgets};
use egui::accesskit::Role;
use egui::{Rect, Stroke, Ui, WidgetInfo};
use kinescope_session::text;
use kinescope_session::tuning::map::Axis;
use replay_engine::tune::{Measurement, Point, Spread, TuneReport};
use std::sync::Arc;

/// The value in a column.
#[derive(Clone, Copy, PartialEq)]
enum Field {
    Mark,
    Axis(Axis),
    Median,
    Spread,
    SpeedUp,
    Registers,
    Occupancy,
    Why,
}

/// Name of the table in the workspace.
const TABLE: &str = "points";

impl Field {
    fn title(self) -> &'static str {
        match self {
            Self::Mark => "order",
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
            Self::Mark => 24.0,
            Self::Axis(Axis::Block | Axis::Grid) if long => 84.0,
            Self::Axis(Axis::Block | Axis::Grid) => 50.0,
            Self::Axis(Axis::Registers) => 84.0,
            Self::Axis(Axis::Code) => 98.0,
            Self::Axis(_) => 54.0,
            Self::Spread => 80.0,
            Self::Median | Self::Occupancy => 66.0,
            Self::SpeedUp | Self::Registers => 58.0,
            Self::Why => 78.0,
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

    /// Returns the column of the table. `now`: the sort key of the table, and whether the order is reversed.
    fn column(self, long: bool, now: (Sort, bool)) -> Column {
        let column = Column::new(self.title(), self.title(), self.width(long));
        let column = match self {
            Self::Why => column.stretch(1.0),
            Self::Occupancy => column.hide_order(3),
            Self::Registers => column.hide_order(2),
            Self::Spread => column.hide_order(1),
            _ => column,
        };
        let column = if self.is_number() { column.number() } else { column };
        match self.sort() {
            // Times also give the order of speed-ups; only one of the two headers shows it.
            Some(sort) => column.sortable((sort == now.0 && self != Self::SpeedUp).then_some(!now.1)),
            None => column,
        }
    }
}

/// Returns the columns for points that differ along `varied`.
fn fields(varied: &[Axis]) -> Vec<Field> {
    let mut all = vec![Field::Mark, Field::Axis(Axis::Grid), Field::Axis(Axis::Block)];
    let others = varied.iter().filter(|a| !matches!(a, Axis::Grid | Axis::Block));
    all.extend(others.map(|a| Field::Axis(*a)));
    all.extend([
        Field::Median,
        Field::Spread,
        Field::SpeedUp,
        Field::Registers,
        Field::Occupancy,
        Field::Why,
    ]);
    all
}

/// Draws the table in the rest of `ui`.
pub(super) fn draw(view: &mut View, tuned: &Arc<TuneReport>, tables: &mut Tables, ui: &mut Ui) {
    let (varied, slowest, long) = {
        let shown = view.update_drawn(tuned);
        (shown.varied.clone(), shown.slowest, shown.long)
    };
    let fields = fields(&varied);
    let columns: Vec<Column> = fields.iter().map(|f| f.column(long, view.sort)).collect();
    let table = Table::head(ui, tables.state(TABLE), TABLE, &columns);
    let sorted = table.sorted.and_then(|id| fields.iter().find(|f| f.title() == id));
    if let Some(sort) = sorted.and_then(|f| f.sort()) {
        view.sort = (sort, view.sort.0 == sort && !view.sort.1);
    }
    let selected = view.point;
    let shown = view.update_drawn(tuned);
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
        if row(ui, &of, (&table, &fields), rect, place.is_some() && place == selected) {
            hit = place;
        }
    });
    table.finish(ui, tables.state(TABLE));
    view.rows = rows;
    view.update_drawn(tuned).order = order;
    view.point = hit.or(view.point);
}

/// A line of the table.
struct Line<'a> {
    tuned: &'a Arc<TuneReport>,
    /// `None`: the recorded launch.
    place: Option<u32>,
    point: Point,
    measured: &'a Measurement,
    slowest: u64,
}

/// Draws a line. Returns `true` if it was clicked.
fn row(ui: &Ui, of: &Line<'_>, (table, fields): (&Table, &[Field]), rect: Rect, selected: bool) -> bool {
    let p = palette(ui);
    let label = match of.place {
        None => "recorded launch".to_owned(),
        Some(_) => format!("point {}", of.point),
    };
    let r = focus::row_response(ui, rect, ui.scope_id().with(("point", of.place)));
    r.widget_info(|| WidgetInfo::selected(Role::Row, true, selected, &label));
    if selected {
        widgets::select(ui, rect);
    } else if r.hovered() {
        ui.painter().rect_filled(rect, 0.0, p.raised);
    }
    let spread = of.measured.spread();
    let is_best = of.place.is_some() && of.place == of.tuned.best;
    let ink = if spread.is_none() { p.quiet } else { p.text };
    for field in fields {
        let id = field.title();
        let Some(cell) = table.cell(id, rect) else { continue };
        let number = |t: &str| {
            table.text(ui, id, rect, t, mono(), ink);
        };
        match field {
            Field::Mark => {
                let (word, ink) = match (of.place, is_best, &of.measured.rejected) {
                    (None, ..) => ("◆", p.text),
                    (_, true, _) => ("★", p.job),
                    (_, _, Some(_)) => ("▲", p.error),
                    _ => ("", p.text),
                };
                table.text(ui, id, rect, word, body(), ink);
            }
            Field::Axis(axis) => number(&axis.label(of.tuned, &of.point)),
            Field::Median => {
                if let Some(s) = &spread {
                    number(&text::duration(s.median));
                }
            }
            Field::Spread => {
                if let Some(s) = &spread {
                    bars(ui, s, of.slowest, cell);
                }
            }
            Field::SpeedUp => match of.place {
                None if spread.is_some() => number("1.00"),
                _ => {
                    if let Some(s) = of.tuned.speed_up(of.measured) {
                        number(&format!("{s:.2}"));
                    }
                }
            },
            Field::Registers => {
                if let Some(r) = &of.measured.resources {
                    number(&r.registers.to_string());
                }
            }
            Field::Occupancy => {
                if let Some(r) = of.measured.resources.filter(|r| r.blocks > 0) {
                    number(&format!("{:.0} %", r.occupancy * 100.0));
                }
            }
            Field::Why => {
                let (words, ink) = match &of.measured.rejected {
                    Some(why) => (why.to_string(), p.error),
                    None if of.place.is_none() => ("as recorded".to_owned(), p.quiet),
                    None if is_best => ("fastest correct".to_owned(), p.job),
                    None => ("correct".to_owned(), p.quiet),
                };
                let first = words.lines().next().unwrap_or_default();
                table.text(ui, id, rect, first, small(), ink);
            }
        }
    }
    let clicked = r.clicked();
    if let Some(why) = &of.measured.rejected {
        r.on_hover_text(format!("▲ {why}"));
    } else if let Some(s) = spread {
        let range = format!("{} to {}", text::duration(s.min), text::duration(s.max));
        let message = format!(
            "{}\n{} median of {}, {range}, standard deviation {}",
            of.point,
            text::duration(s.median),
            s.count,
            text::duration(s.stdev as u64)
        );
        r.on_hover_text(message);
    }
    clicked
}

/// Draws the range from the shortest to the longest time, and the median, on a scale from zero to the slowest.
fn bars(ui: &Ui, s: &Spread, slowest: u64, cell: Rect) {
    let p = palette(ui);
    let max = slowest.max(1) as f32;
    let x = |ns: u64| cell.left() + (ns as f32 / max).min(1.0) * cell.width();
    let y = cell.center().y.round();
    let painter = ui.painter();
    painter.hline(cell.x_range(), y, Stroke::new(1.0, p.line));
    painter.hline(x(s.min)..=x(s.max).max(x(s.min) + 1.0), y, Stroke::new(3.0, p.poll));
    painter.vline(x(s.median), y - 5.0..=y + 5.0, Stroke::new(2.0, p.job));
}
