//! Values as step lines over events or time, with the current event, zoom and pan; points are computed once for each
//! view.

use super::results::{DrawnLines, LinesKey, Step};
use super::view::View;
use super::{legend, line_names};
use crate::theme::plot::{pad_range, quiet_plot};
use crate::theme::{mono_small, palette};
use egui::accesskit::Role;
use egui::{Rect, Response, Sense, Ui, WidgetInfo, pos2, vec2};
use egui_plot::{GridInput, GridMark, PlotPoint, PlotTransform, VLine};
use kinescope_files::changes::PlotLine;
use kinescope_session::axis::{Axis, AxisKind};
use kinescope_session::{Document, text};
use std::sync::Arc;
use trace_core::values::Values;

/// Minimum width of the plot, points; with less room the legend is under it.
const MIN_PLOT_WIDTH: f32 = 300.0;
/// Width of the legend at the side of the plot, points.
const LEGEND: f32 = 272.0;
/// Length of a dash, points.
const DASH: f32 = 5.0;
/// Part of a line's band that the line fills, if lines have separate bands.
const BAND: f64 = 0.72;

/// Returns the lines whose values are known, with their colour index.
fn list_loaded_lines(doc: &Document, view: &View) -> Vec<(u8, PlotLine, Arc<Values>)> {
    let plots = doc.changes().plots().iter();
    let known = plots.filter_map(|(slot, l)| Some((*slot, l.clone(), Arc::clone(view.values_of(l)?))));
    known.collect()
}

/// Returns whether each line has its own band: by the user's choice, or if one scale would flatten a line.
pub(super) fn has_split_axes(doc: &Document, view: &View) -> bool {
    view.split_axes.unwrap_or_else(|| {
        let ranges: Vec<(u64, u64)> = list_loaded_lines(doc, view)
            .iter()
            .filter_map(|k| k.2.range())
            .collect();
        let lo = ranges.iter().map(|r| r.0).min().unwrap_or(0);
        let hi = ranges.iter().map(|r| r.1).max().unwrap_or(0);
        let flat = |r: &(u64, u64)| r.1 > r.0 && (r.1 - r.0) as f64 * 20.0 < (hi - lo) as f64;
        ranges.len() > 1 && ranges.iter().any(flat)
    })
}

/// Returns the steps of a line; the last one is its end.
fn steps(v: &Values, axis: &Axis, key: &LinesKey, y: &dyn Fn(u64) -> f64) -> Vec<Step> {
    let place = |event: u64| axis.position(key.axis, event);
    let (before, pieces) = v.pieces(&place, key.range.0, key.range.1, key.columns);
    let mut out: Vec<Step> = Vec::with_capacity(pieces.len() + 2);
    let level = |x: f64, at: f64| Step {
        x,
        low: at,
        high: at,
        end: at,
    };
    out.extend(before.map(|v| level(key.range.0, y(v))));
    for p in &pieces {
        let from = out.last().map_or(y(p.begin), |s| s.end);
        out.push(Step {
            x: p.from,
            low: y(p.min).min(from),
            high: y(p.max).max(from),
            end: y(p.end),
        });
    }
    if let Some(at) = out.last().map(|s| s.end) {
        out.push(level(key.range.1.min(axis.end(key.axis)), at));
    }
    out
}

/// Paints a step line in full pixels: a vertical stroke at a change, a horizontal one between changes.
fn paint(ui: &Ui, to: &PlotTransform, steps: &[Step], ink: egui::Color32, dashed: bool) {
    let pixel = 1.0 / ui.ctx().pixels_per_point();
    let wide = (1.5_f32 / pixel).round().max(1.0) * pixel;
    let snap = |v: f32| (v / pixel).round() * pixel;
    let at = |x: f64, y: f64| {
        let p = to.position_from_point(&PlotPoint::new(x, y));
        pos2(snap(p.x), snap(p.y))
    };
    let mut mesh = egui::Mesh::default();
    let mut rect = |from: egui::Pos2, to: egui::Pos2| mesh.add_colored_rect(Rect::from_min_max(from, to), ink);
    for (n, s) in steps.iter().enumerate() {
        let (top, bottom, on) = (at(s.x, s.high), at(s.x, s.low), at(s.x, s.end));
        rect(top, bottom + vec2(wide, wide));
        let Some(next) = steps.get(n + 1) else { continue };
        let end = at(next.x, s.end).x + wide;
        let mut x = on.x;
        while dashed && x + DASH < end {
            rect(pos2(x, on.y), pos2(x + DASH, on.y + wide));
            x += DASH * 1.7;
        }
        rect(pos2(x.min(end), on.y), pos2(end, on.y + wide));
    }
    ui.painter().with_clip_rect(*to.frame()).add(mesh);
}

/// Computes the points again if the view changed.
fn refresh(doc: &Document, view: &mut View, known: &[(u8, PlotLine, Arc<Values>)], columns: usize) -> DrawnLines {
    let end = doc.derived.axis.end(view.axis);
    let key = LinesKey {
        axis: view.axis,
        range: view.range.unwrap_or((0.0, end)),
        columns,
        apart: has_split_axes(doc, view),
        lines: known
            .iter()
            .map(|k| (k.1.clone(), Arc::as_ptr(&k.2) as usize))
            .collect(),
    };
    if let Some(d) = view.drawn.as_ref().filter(|d| d.key == key) {
        return d.clone();
    }
    let n = known.len();
    let ranges = known.iter().filter_map(|k| k.2.range());
    let whole = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or((0, 1));
    let (lo, hi) = pad_range(whole.0 as f64, whole.1 as f64);
    let lines = known.iter().enumerate();
    let lines = lines.map(|(i, (_, _, v))| {
        if !key.apart {
            return steps(v, &doc.derived.axis, &key, &|v| v as f64);
        }
        let (lo, hi) = v.range().unwrap_or((0, 1));
        let floor = (n - 1 - i) as f64 + 0.06;
        // A constant line is in the middle of its band.
        let part = |v: u64| match hi - lo {
            0 => 0.5,
            span => v.saturating_sub(lo) as f64 / span as f64,
        };
        steps(v, &doc.derived.axis, &key, &|v| floor + part(v) * BAND)
    });
    let lines = lines.collect();
    let room = (hi - lo) * 0.05;
    let height = if key.apart {
        (0.0, n as f64)
    } else {
        (lo - room, hi + room)
    };
    let values = known.iter().map(|k| Arc::clone(&k.2)).collect();
    let drawn = DrawnLines::new(key, lines, height, values);
    view.drawn = Some(drawn.clone());
    drawn
}

/// Draws the lines and the legend.
pub(super) fn ui(doc: &mut Document, view: &mut View, ui: &mut Ui) {
    let full = ui.available_rect_before_wrap();
    let beside = full.width() >= MIN_PLOT_WIDTH + LEGEND;
    let n = doc.changes().plots().len() as f32;
    let (plot, list) = if beside {
        full.split_left_right_at_x((full.right() - LEGEND).round())
    } else {
        let rows = (legend::HEAD + n * crate::theme::ROW).min(full.height() * 0.5);
        full.split_top_bottom_at_y((full.bottom() - rows).round())
    };
    let mut area = ui.new_child(egui::UiBuilder::new().max_rect(plot));
    draw(doc, view, &mut area);
    let list = if beside {
        list.with_min_x(list.left() + 12.0)
    } else {
        list
    };
    let mut area = ui.new_child(egui::UiBuilder::new().max_rect(list));
    area.shrink_clip_rect(list);
    legend::ui(doc, view, &mut area);
    ui.advance_cursor_after_rect(full);
}

/// Returns a grid with marks at 1, 2 or 5 times a power of ten, far enough apart for their numbers.
fn few_marks(max: f64) -> impl Fn(GridInput) -> Vec<GridMark> {
    move |input| {
        let (low, high) = input.bounds;
        let min = ((high - low) / max.max(1.0)).max(1.0);
        let ten = 10f64.powf(min.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * ten).into_iter().find(|s| *s >= min);
        let step_size = step.unwrap_or(ten * 10.0);
        let first = (low.max(0.0) / step_size).ceil();
        let marks = (0..100u32).map(|n| (first + f64::from(n)) * step_size);
        let marks = marks.take_while(|v| *v <= high);
        marks.map(|value| GridMark { value, step_size }).collect()
    }
}

/// Returns the marks of a hex axis: at powers of two, so that they have few digits.
fn hex_marks(input: GridInput) -> Vec<GridMark> {
    let step = 2f64.powf(input.base_step_size.max(1.0).log2().ceil());
    let steps = [step, step * 4.0, step * 16.0];
    (egui_plot::uniform_grid_spacer(move |_| steps))(input)
}

fn draw(doc: &mut Document, view: &mut View, ui: &mut Ui) {
    let p = palette(ui);
    let lines = list_loaded_lines(doc, view);
    let room = ui.available_size();
    let drawn = refresh(doc, view, &lines, (room.x as usize).max(64));
    let (key, height) = (drawn.key.clone(), drawn.height);
    let (axis, decimal, apart) = (key.axis, view.decimal, key.apart);
    let points = Arc::clone(&drawn.lines);
    let here = doc.derived.axis.position(axis, doc.current_event());
    let ticks = doc.recording.counts_ticks();
    let names: Vec<String> = lines.iter().map(|(_, l, _)| line_names::line_name(doc, l)).collect();
    let mut plot = quiet_plot(ui, "lines")
        .allow_drag(false)
        .allow_double_click_reset(false)
        .set_margin_fraction(vec2(0.0, 0.0))
        .label_formatter(|_| None)
        .show_x(false)
        .show_y(false)
        .sense(Sense::click_and_drag())
        .width(room.x)
        .height((room.y - 4.0).max(40.0))
        .x_grid_spacer(few_marks(f64::from(room.x) / 100.0))
        .x_axis_formatter(move |m: GridMark, _: &_| match axis {
            AxisKind::Order => text::count(m.value.max(0.0).round() as u64),
            _ if ticks => text::count_ticks(m.value.max(0.0) as u64),
            _ => text::duration(m.value.max(0.0) as u64),
        });
    plot = if apart {
        plot.y_axis_formatter(|_, _: &_| String::new())
            .y_axis_min_width(8.0)
            .y_grid_spacer(egui_plot::uniform_grid_spacer(|_| [1.0, 1.0, 1.0]))
    } else if decimal {
        plot.y_axis_min_width(72.0).y_axis_formatter(|m: GridMark, _: &_| {
            if m.value < 0.0 {
                String::new()
            } else {
                text::count(m.value as u64)
            }
        })
    } else {
        plot.y_grid_spacer(hex_marks)
            .y_axis_min_width(72.0)
            .y_axis_formatter(|m: GridMark, _: &_| {
                if m.value < 0.0 {
                    String::new()
                } else {
                    format!("{:#x}", m.value as u64)
                }
            })
    };
    let inks: Vec<_> = lines
        .iter()
        .map(|l| (line_names::line_colour(p, l.0), line_names::is_dashed(p, l.0)))
        .collect();
    let out = plot.show(ui, |plot| {
        plot.set_plot_bounds_x(key.range.0..=key.range.1);
        plot.set_plot_bounds_y(height.0..=height.1);
        plot.vline(VLine::new("moment", here).color(p.text).width(1.0).allow_hover(false));
    });
    for (steps, (ink, dashed)) in points.iter().zip(&inks) {
        paint(ui, &out.transform, steps, *ink, *dashed);
    }
    if apart {
        bands(
            ui,
            &out.transform,
            &names,
            &inks.iter().map(|i| i.0).collect::<Vec<_>>(),
        );
    }
    let r = out.response;
    r.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, format!("Plot of {}", names.join(", "))));
    steer(doc, view, ui, &r, &out.transform, key.range);
    hover(doc, view, &lines, &r, &out.transform, axis);
}

/// Draws the names of lines with separate bands, each above its own.
fn bands(ui: &Ui, to: &PlotTransform, names: &[String], inks: &[egui::Color32]) {
    let p = palette(ui);
    let frame = to.frame();
    let painter = ui.painter().with_clip_rect(*frame);
    for (i, (name, ink)) in names.iter().zip(inks).enumerate() {
        let top = to.position_from_point(&PlotPoint::new(0.0, (names.len() - i) as f64)).y;
        if i > 0 {
            painter.hline(frame.x_range(), top.round(), egui::Stroke::new(1.0, p.line));
        }
        let galley = painter.layout_no_wrap(name.clone(), mono_small(), *ink);
        let at = pos2(frame.left() + 6.0, top + 2.0);
        let ground = Rect::from_min_size(at, galley.size()).expand2(vec2(3.0, 0.0));
        painter.rect_filled(ground, 2.0, p.panel);
        painter.galley(at, galley, *ink);
    }
}

/// Handles zoom, pan, and clicks, which go to the clicked event.
fn steer(doc: &mut Document, view: &mut View, ui: &Ui, r: &Response, to: &PlotTransform, shown: (f64, f64)) {
    let end = doc.derived.axis.end(view.axis);
    let width = f64::from(to.frame().width().max(1.0));
    let mut range = shown;
    let wheel = ui.input(|i| (i.smooth_scroll_delta(), i.modifiers.shift, i.zoom_delta()));
    if let Some(at) = r.hover_pos().filter(|_| r.contains_pointer()) {
        let (d, shift, pinch) = wheel;
        let by = if d.y == 0.0 { d.x } else { d.y };
        if shift && by != 0.0 {
            let step = f64::from(by) / width * (range.1 - range.0);
            range = (range.0 - step, range.1 - step);
        } else if by != 0.0 || pinch != 1.0 {
            let factor = f64::from((-by / 200.0).exp() / pinch);
            let x = to.value_from_position(at).x.clamp(range.0, range.1);
            range = (x - (x - range.0) * factor, x + (range.1 - x) * factor);
        }
    }
    if r.dragged() {
        let step = f64::from(r.drag_delta().x) / width * (range.1 - range.0);
        range = (range.0 - step, range.1 - step);
    }
    if r.double_clicked() {
        view.range = None;
    } else if range != shown {
        // A range has at least a few events or some nanoseconds, at most all; it is moved back if it leaves the
        // recording.
        let span = (range.1 - range.0).clamp(4.0_f64.min(end), end);
        let from = range.0.clamp(0.0, (end - span).max(0.0));
        view.range = (span < end).then_some((from, from + span));
        r.ctx.request_repaint();
    }
    if let Some(at) = r.interact_pointer_pos().filter(|_| r.clicked() && !r.double_clicked()) {
        let event = doc.derived.axis.nearest(view.axis, to.value_from_position(at).x);
        doc.go(event);
    }
}

/// Draws the value of each line at the event under the pointer.
fn hover(
    doc: &Document,
    view: &View,
    lines: &[(u8, PlotLine, Arc<Values>)],
    r: &Response,
    to: &PlotTransform,
    axis: AxisKind,
) {
    let Some(at) = r.hover_pos().filter(|_| !r.dragged()) else {
        return;
    };
    let event = doc.derived.axis.nearest(axis, to.value_from_position(at).x);
    let mut message = format!("event {} · {}", text::count(event), doc.format_time(event));
    for (_, line, values) in lines {
        let value = values
            .at(event)
            .map(|(_, v)| line_names::format_value(doc, line, v, view.decimal));
        message += &format!(
            "\n{} {}",
            line_names::line_name(doc, line),
            value.as_deref().unwrap_or("not known yet")
        );
    }
    r.clone().on_hover_text_at_pointer(message);
}
