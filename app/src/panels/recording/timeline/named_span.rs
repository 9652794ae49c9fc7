//! A span of events with a name in a lane of the timeline: a phase, or a range of the program.

use crate::theme::{palette, small, widgets};
use egui::{Align2, Color32, Rect, Stroke, StrokeKind, Ui, pos2, vec2};

/// Minimum width of a span with a name, points.
const MIN_NAMED_WIDTH: f32 = 36.0;

/// Draws a span of events between these positions, from left to right. Its name has this padding, points.
pub(super) fn draw_named_span(ui: &Ui, row: Rect, (x0, x1): (f32, f32), cursor_x: f32, (name, padding): (&str, f32)) {
    let p = palette(ui);
    let whole = Rect::from_min_max(
        pos2(x0, row.top() + 4.0),
        pos2((x1 - 1.0).max(x0 + 1.0), row.bottom() - 4.0),
    );
    let seen = whole.intersect(row);
    if seen.width() <= 0.0 {
        return;
    }
    ui.painter()
        .rect(seen, 2.0, p.raised, Stroke::new(1.0, p.poll), StrokeKind::Inside);
    if seen.width() > MIN_NAMED_WIDTH {
        let inner = place_name_clear_of_cursor(ui, seen.shrink2(vec2(padding, 0.0)), cursor_x, name);
        widgets::paint_text(ui, inner, Align2::LEFT_CENTER, name, small(), p.quiet);
    }
}

/// Returns the position of a name that the line of the current event does not cross: after the line, or before it.
fn place_name_clear_of_cursor(ui: &Ui, inner: Rect, cursor_x: f32, name: &str) -> Rect {
    let galley = ui.painter().layout_no_wrap(name.to_owned(), small(), Color32::WHITE);
    let wide = galley.size().x;
    let crossed = cursor_x > inner.left() - 3.0 && cursor_x < inner.left() + wide + 3.0;
    let behind = cursor_x + 6.0;
    if crossed && inner.right() - behind >= wide {
        return Rect::from_min_max(pos2(behind, inner.top()), inner.max);
    }
    inner
}
