//! Plots of values in the window's style, the same in every panel.

use super::{mono_small, palette};
use egui::{Ui, vec2};
use egui_plot::{GridMark, Plot};
use kinescope_session::text;

/// Limit beyond which values are drawn at the limit: a plot cannot be wider than a number.
pub const FAR: f64 = 1e300;

/// Returns bounds that hold a range with a visible extent. Values that lie too close together for a plot, for instance
/// equal ones, get room.
#[must_use]
pub fn pad_range(lo: f64, hi: f64) -> (f64, f64) {
    let (lo, hi) = (lo.clamp(-FAR, FAR), hi.clamp(-FAR, FAR));
    let room = (lo.abs().max(hi.abs()) * 1e-6).max(1.0);
    if hi - lo > room * 1e-3 || (hi > lo && room <= 1.0 && hi - lo > 1e-9) {
        (lo, hi)
    } else {
        (lo - room, hi + room)
    }
}

/// Returns a plot in the window's style.
pub fn quiet_plot<'a>(ui: &mut Ui, id: impl egui::AsIdSalt) -> Plot<'a> {
    // The marks of the axes have the size of other axes.
    ui.style_mut().text_styles.insert(egui::TextStyle::Body, mono_small());
    Plot::new(id)
        .grid_color(palette(ui).line)
        .grid_spacing(24.0..=120.0)
        .allow_scroll(false)
        .allow_zoom(false)
        .allow_boxed_zoom(false)
        .allow_drag([true, false])
        .show_background(false)
        .set_margin_fraction(vec2(0.0, 0.06))
        .x_axis_formatter(|m: GridMark, _: &_| text::count(m.value.max(0.0).round() as u64))
        .y_axis_formatter(|m: GridMark, _: &_| text::format_short(m.value))
        .y_axis_min_width(38.0)
}

/// Returns the part of `0..count` that a plot shows; the wheel zooms about the pointer, with Shift it pans.
pub fn plot_range(plot: &mut egui_plot::PlotUi<'_>, count: u64) -> (u64, u64) {
    if plot.response().contains_pointer() {
        let (wheel, shift) = plot.ctx().input(|i| {
            let d = i.smooth_scroll_delta();
            (if d.y == 0.0 { d.x } else { d.y }, i.modifiers.shift)
        });
        if wheel != 0.0 {
            if shift {
                plot.translate_bounds(vec2(-wheel, 0.0));
            } else {
                plot.zoom_bounds_around_hovered(vec2((wheel / 200.0).exp(), 1.0));
            }
        }
    }
    if plot.auto_bounds().x {
        return (0, count);
    }
    let b = plot.plot_bounds();
    let from = b.min()[0].floor().clamp(0.0, count as f64) as u64;
    let to = (b.max()[0].ceil() + 1.0).clamp(0.0, count as f64) as u64;
    (from.min(to), to)
}
