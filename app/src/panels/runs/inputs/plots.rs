//! The values of a buffer as a plot by index, and as a histogram.

use super::grid::start_editing;
use super::summary::{BARS, Summary};
use super::view::View;
use crate::theme::plot::{FAR, pad_range, plot_range, quiet_plot};
use crate::theme::{icons, palette, widgets};
use egui::accesskit::Role;
use egui::{Color32, Stroke, Ui, WidgetInfo, vec2};
use egui_plot::{Bar, BarChart, GridMark, HoverPosition, Line, PlotPoints, VLine};
use kinescope_files::contents::BufferContents;
use kinescope_files::values;
use kinescope_session::{Document, text};
use trace_core::recording::ElementType;

/// Maximum number of elements that are drawn one by one.
const ONE_BY_ONE: u64 = 2048;

/// Returns the elements `from..to` one by one as points of a line, as recorded or as the user left them.
fn points(contents: &BufferContents, element: ElementType, from: u64, to: u64, recorded: bool) -> Vec<[f64; 2]> {
    let size = element.bytes();
    let len = usize::try_from(to.saturating_sub(from))
        .unwrap_or(0)
        .saturating_mul(size);
    let offset = from.saturating_mul(size as u64);
    let mut bytes = contents.part(offset, len);
    if recorded {
        contents.read_recorded(offset, &mut bytes);
    }
    bytes
        .chunks_exact(size)
        .enumerate()
        .filter_map(|(i, b)| Some([(from + i as u64) as f64, values::element_f64(element, b)?]))
        .filter(|q| q[1].is_finite())
        .collect()
}

/// Draws the values by index; a click edits the value under it.
pub fn plot(
    doc: &mut Document,
    view: &mut View,
    ui: &mut Ui,
    contents: &BufferContents,
    element: ElementType,
    s: &Summary,
) {
    let p = palette(ui);
    let count = contents.buffer().bytes / element.bytes() as u64;
    if s.range.is_none() {
        widgets::empty_state(
            ui,
            icons::CHART_BAR,
            "No value of this buffer is a finite number.",
            None,
        );
        return;
    }
    let room = ui.available_size();
    let name = s.key.name.clone();
    let edited = s.was.is_some();
    let seen = view.seen;
    let size = element.bytes();
    let label = move |h: &HoverPosition<'_>| match h {
        HoverPosition::NearDataPoint {
            plot_name, position, ..
        } => Some(format!(
            "{plot_name}\n[{}] {}",
            text::count(position.x.max(0.0).round() as u64),
            text::format_short(position.y)
        )),
        HoverPosition::Elsewhere { .. } => None,
    };
    let (lo, hi) = s.range.unwrap_or((0.0, 0.0));
    let (low, high) = pad_range(lo, hi);
    let out = quiet_plot(ui, ("values", &name, element.name()))
        .include_y(low)
        .include_y(high)
        .include_x(0.0)
        .include_x(count.max(1) as f64)
        .width(room.x)
        .height((room.y - 4.0).max(40.0))
        .label_formatter(label)
        .show(ui, |plot| {
            let (from, to) = plot_range(plot, count);
            let near = to - from <= ONE_BY_ONE;
            let max = (room.x as usize).max(64);
            let line = |recorded: bool| match (near, recorded) {
                (true, _) => points(contents, element, from, to, recorded),
                (false, true) => s.was.as_ref().map(|w| w.line(from, to, max)).unwrap_or_default(),
                (false, false) => s.now.line(from, to, max),
            };
            let draw = |name: &str, mut pts: Vec<[f64; 2]>, c: Color32| {
                pts.iter_mut().for_each(|q| q[1] = q[1].clamp(-FAR, FAR));
                Line::new(name, PlotPoints::new(pts)).color(c).width(1.2)
            };
            if edited {
                plot.line(draw("recorded", line(true), p.poll));
            }
            let (word, ink) = if edited {
                ("edited by you", p.edited)
            } else {
                ("value", p.read)
            };
            plot.line(draw(word, line(false), ink));
            if let Some(i) = seen {
                plot.vline(
                    VLine::new("selected", i as f64)
                        .color(p.text)
                        .width(1.0)
                        .allow_hover(false),
                );
            }
        });
    let r = out.response;
    r.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, format!("Plot of {name}")));
    if let Some(q) = r.interact_pointer_pos().filter(|_| r.clicked()) {
        let index = out.transform.value_from_position(q).x.round();
        if index >= 0.0 && (index as u64) < contents.buffer().bytes / size as u64 {
            view.reveal = Some(index as u64);
            start_editing(doc, view, contents, element, index as u64);
        }
    }
}

/// Draws the histogram of the values.
pub fn histogram(ui: &mut Ui, s: &Summary) {
    let p = palette(ui);
    let Some((lo, hi)) = s.range else {
        widgets::empty_state(
            ui,
            icons::CHART_BAR,
            "No value of this buffer is a finite number.",
            None,
        );
        return;
    };
    let (lo, hi) = pad_range(lo, hi);
    let width = (hi - lo) / BARS as f64;
    let room = ui.available_size();
    // Counts span many decades where most values are zero, so the axis counts digits.
    let chart = |name: &str, list: &[u64], ink: Color32| {
        let bars = list.iter().enumerate().filter(|(_, n)| **n > 0);
        let bars = bars.map(|(i, n)| {
            Bar::new(lo + (i as f64 + 0.5) * width, (*n as f64 + 1.0).log10())
                .width(width * 0.92)
                .fill(ink)
                .stroke(Stroke::NONE)
                .name(format!("{} values", text::count(*n)))
        });
        BarChart::new(name, bars.collect()).color(ink)
    };
    let now = if s.was.is_some() { p.edited } else { p.read };
    let out = quiet_plot(ui, ("histogram", &s.key.name))
        .allow_drag(false)
        .include_y(0.0)
        .set_margin_fraction(vec2(0.02, 0.06))
        .x_axis_formatter(|m: GridMark, _: &_| text::format_short(m.value))
        .y_axis_formatter(|m: GridMark, _: &_| {
            let n = 10f64.powf(m.value) - 1.0;
            if m.value.fract() == 0.0 {
                text::count((n + 1.0).round() as u64)
            } else {
                String::new()
            }
        })
        .y_grid_spacer(egui_plot::uniform_grid_spacer(|_| [1.0, 1.0, 1.0]))
        .width(room.x)
        .height((room.y - 4.0).max(40.0))
        .label_formatter(|_| None)
        .show(ui, |plot| {
            if let Some(was) = &s.bars_was {
                plot.bar_chart(chart("recorded", was, p.poll));
            }
            plot.bar_chart(chart("values", &s.bars, now.gamma_multiply(0.85)));
        });
    out.response
        .widget_info(|| WidgetInfo::labeled(Role::Canvas, true, format!("Histogram of {}", s.key.name)));
}
