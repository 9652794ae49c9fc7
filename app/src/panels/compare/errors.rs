//! Errors of the elements of a buffer: the largest, the mean, and a count by decade.

use super::field::three_column_row;
use crate::theme::{ROW, body, mono, mono_small, palette, small, widgets};
use egui::accesskit::Role;
use egui::{Align2, Rect, Sense, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::text;
use trace_core::diff::ElementDiff;

/// Width of the name of a decade, points.
const NAME: f32 = 84.0;
/// Width of the number of elements, points.
const NUMBER: f32 = 60.0;

/// Draws the errors.
pub(super) fn ui(e: &ElementDiff, ui: &mut Ui) {
    let p = palette(ui);
    let mut line = |name: &str, value: String| {
        let cells = [
            (name.to_owned(), body(), p.quiet),
            (value, mono(), p.text),
            (String::new(), mono(), p.text),
        ];
        three_column_row(ui, name, cells);
    };
    line(
        "elements",
        format!("{} × {}", text::count(e.compared), e.element.name()),
    );
    line("differ", text::count(e.differ));
    if e.within > 0 {
        line("within", format!("{} by the tolerance", text::count(e.within)));
    }
    if let Some(f) = &e.first {
        line("first", format!("[{}]", text::count(f.index)));
    }
    let Some(errors) = &e.errors else { return };
    if errors.pairs > 0 {
        line(
            "largest",
            format!("{:.3e} at [{}]", errors.max_absolute, errors.max_absolute_at),
        );
        line("mean", format!("{:.3e}", errors.mean_absolute));
        line(
            "relative",
            format!("{:.3e} at [{}]", errors.max_relative, errors.max_relative_at),
        );
        line("relative mean", format!("{:.3e}", errors.mean_relative));
        line("ulp", format!("{} at most", text::count(errors.max_ulp)));
    }
    if errors.not_finite > 0 {
        line("not finite", text::count(errors.not_finite));
    }
    let max = errors.histogram.iter().map(|d| d.pairs).max().unwrap_or(0);
    if max == 0 {
        return;
    }
    widgets::section(ui, "Error distribution");
    for d in &errors.histogram {
        let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), ROW - 4.0), Sense::hover());
        let name = format!("1e{} to 1e{}", d.exponent, d.exponent + 1);
        let n = text::count(d.pairs);
        r.widget_info(|| WidgetInfo::labeled(Role::Row, true, format!("error {name}: {n}")));
        widgets::paint_text(ui, rect, Align2::LEFT_CENTER, &name, small(), p.quiet);
        let room = Rect::from_min_max(pos2(rect.left() + NAME, rect.top() + 3.0), rect.max - vec2(NUMBER, 3.0));
        let part = (d.pairs as f64 / max as f64) as f32;
        let bar = Rect::from_min_size(room.min, vec2((room.width() * part).max(2.0), room.height()));
        ui.painter().rect_filled(bar, 1.0, p.error);
        widgets::paint_text(ui, rect, Align2::RIGHT_CENTER, &n, mono_small(), p.text);
    }
}
