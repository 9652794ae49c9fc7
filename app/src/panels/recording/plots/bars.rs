//! A bar chart with the names under the bars.

use crate::theme::palette;
use crate::theme::plot::quiet_plot;
use egui::accesskit::Role;
use egui::{Color32, Stroke, Ui, WidgetInfo, vec2};
use egui_plot::{Bar, BarChart, GridMark, VLine};
use kinescope_session::text;

/// Minimum number of bars that fill the width.
const FEWEST: f64 = 7.0;

/// A bar.
pub(super) struct ChartBar {
    /// Its height.
    pub height: f64,
    /// The text under it, if there is room.
    pub short: String,
    /// The text of its tooltip.
    pub hover_text: String,
}

/// Draws bars in the available room and returns the one that was clicked. `label` is the chart's accessible name.
pub(super) fn chart(
    ui: &mut Ui,
    label: &str,
    bars: &[ChartBar],
    ink: Color32,
    chosen: Option<usize>,
    y: impl Fn(f64) -> String + 'static,
) -> Option<usize> {
    let p = palette(ui);
    let room = ui.available_size();
    let list = bars.iter().enumerate().map(|(i, b)| {
        let fill = if chosen == Some(i) {
            p.text
        } else {
            ink.gamma_multiply(0.85)
        };
        Bar::new(i as f64, b.height).width(0.86).fill(fill).stroke(Stroke::NONE)
    });
    let chart = BarChart::new(label, list.collect()).color(ink).allow_hover(false);
    let names: Vec<String> = bars.iter().map(|b| b.short.clone()).collect();
    let longest = names.iter().map(|n| n.chars().count()).max().unwrap_or(1).max(1);
    // Only every nth bar has a name, so that names do not touch.
    let each = room.x / (bars.len() as f64).max(FEWEST) as f32;
    let every = ((longest as f32 * 6.6 + 14.0).max(84.0) / each.max(0.1))
        .ceil()
        .max(1.0);
    let top = bars.iter().map(|b| b.height).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let out = quiet_plot(ui, label)
        .allow_drag(false)
        .allow_double_click_reset(false)
        .show_x(false)
        .show_y(false)
        .label_formatter(|_| None)
        .show_grid([false, true])
        .grid_spacing(10.0..=60.0)
        .x_grid_spacer(egui_plot::uniform_grid_spacer(move |_| {
            [f64::from(every), f64::from(every), f64::from(every)]
        }))
        .x_axis_formatter(move |m: GridMark, _: &_| {
            let at = m.value.round();
            let name = (at >= 0.0).then(|| names.get(at as usize)).flatten();
            name.cloned().unwrap_or_default()
        })
        .y_axis_formatter(move |m: GridMark, _: &_| if m.value < 0.0 { String::new() } else { y(m.value) })
        .y_axis_min_width(48.0)
        .width(room.x)
        .height((room.y - 4.0).max(40.0))
        .show(ui, |plot| {
            // A few bars must not grow as wide as the chart.
            let room = (FEWEST - bars.len() as f64).max(0.0) / 2.0;
            plot.set_plot_bounds_x(-0.6 - room..=bars.len() as f64 - 0.4 + room);
            plot.set_plot_bounds_y(0.0..=top * 1.06);
            plot.bar_chart(chart);
            if let Some(i) = chosen.filter(|_| bars.len() > 200) {
                plot.vline(
                    VLine::new("chosen", i as f64)
                        .color(p.text)
                        .width(1.0)
                        .allow_hover(false),
                );
            }
        });
    let r = out.response;
    r.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, label));
    let under = |at: egui::Pos2| {
        let x = out.transform.value_from_position(at).x.round();
        (x >= 0.0 && (x as usize) < bars.len()).then_some(x as usize)
    };
    let hovered = r.hover_pos().and_then(under);
    let clicked = r.interact_pointer_pos().filter(|_| r.clicked()).and_then(under);
    if let Some(b) = hovered.and_then(|i| bars.get(i)) {
        r.on_hover_text_at_pointer(&b.hover_text);
    }
    clicked
}

/// Formats the counts of an axis: integers only.
pub(super) fn format_integer(v: f64) -> String {
    if v.fract() == 0.0 {
        text::count(v as u64)
    } else {
        String::new()
    }
}

/// Splits the available room into a chart and a table at its side; under it if the width is small.
pub(super) fn split(ui: &mut Ui, table: f32, draw: impl FnOnce(&mut Ui, &mut Ui)) {
    let full = ui.available_rect_before_wrap();
    let (chart, list) = if full.width() >= table + 240.0 {
        let (a, b) = full.split_left_right_at_x((full.right() - table).round());
        (a, b.with_min_x(b.left() + 12.0))
    } else {
        full.split_top_bottom_at_y((full.top() + full.height() * 0.45).round())
    };
    let mut left = ui.new_child(egui::UiBuilder::new().max_rect(chart));
    let mut right = ui.new_child(egui::UiBuilder::new().max_rect(list));
    right.shrink_clip_rect(list);
    right.spacing_mut().item_spacing = vec2(0.0, 0.0);
    draw(&mut left, &mut right);
    ui.advance_cursor_after_rect(full);
}
