//! A row of the details: a name, and the values of both sides.

use crate::theme::widgets::paint_text;
use crate::theme::{ROW, body, mono, palette, strong};
use egui::accesskit::Role;
use egui::{Align2, Color32, FontId, Rect, Sense, Ui, WidgetInfo, pos2, vec2};

pub(super) fn or_placeholder(text: &str) -> &str {
    if text.is_empty() { "–" } else { text }
}

/// Draws a row of three cells: a name, and the values of both sides.
pub(super) fn three_column_row(ui: &mut Ui, name: &str, cells: [(String, FontId, Color32); 3]) {
    let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::hover());
    r.widget_info(|| WidgetInfo::labeled(Role::Row, true, name));
    let at = [0.0, 0.34, 0.67, 1.0].map(|f| rect.left() + rect.width() * f);
    // Without a third cell, the second cell takes its room too.
    let last = if cells[2].0.is_empty() { at[3] } else { at[2] };
    for ((t, font, ink), ends) in cells.into_iter().zip([[at[0], at[1]], [at[1], last], [at[2], at[3]]]) {
        let cell = Rect::from_min_max(pos2(ends[0], rect.top()), pos2(ends[1] - 6.0, rect.bottom()));
        paint_text(ui, cell, Align2::LEFT_CENTER, &t, font, ink);
    }
    r.on_hover_text(name);
}

/// Draws a field with the values of both sides; a field that differs stands out.
pub(super) fn field(ui: &mut Ui, name: &str, a: &str, b: &str) {
    let p = palette(ui);
    let differs = a != b;
    let ink = if differs { p.error } else { p.quiet };
    let shown = if differs {
        format!("≠ {name}")
    } else {
        format!("   {name}")
    };
    let font = if differs { strong() } else { body() };
    let value = if differs { p.text } else { p.quiet };
    let label = format!("field {name}: A {}, B {}", or_placeholder(a), or_placeholder(b));
    let cells = [
        (shown, font, ink),
        (or_placeholder(a).to_owned(), mono(), value),
        (or_placeholder(b).to_owned(), mono(), value),
    ];
    three_column_row(ui, &label, cells);
}
