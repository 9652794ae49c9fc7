//! Text of the parts of the panel: wrapped text, small lines, rows of counts.

use crate::theme::{ROW, body, mono, palette, small, widgets};
use egui::accesskit::Role;
use egui::{Align2, Color32, Rect, RichText, Sense, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::text;

/// Draws text that may take several lines.
pub fn wrapped_text(ui: &mut Ui, words: impl Into<String>, colour: Color32) {
    let words = text::group_digits(&words.into());
    ui.add(egui::Label::new(RichText::new(words).color(colour)).wrap());
}

/// Draws small text on one line; the tooltip has all of it.
pub fn small_line(ui: &mut Ui, words: impl Into<String>) {
    let p = palette(ui);
    ui.add(egui::Label::new(RichText::new(words).font(small()).color(p.quiet)).truncate());
}

/// Right edge of counts in a list of the panel, points.
pub const COUNT: f32 = 46.0;
/// Left edge of what is counted, points.
pub const MARK: f32 = 56.0;

/// Draws a count, what is counted, and a word about it on the right.
pub fn count_row(
    ui: &mut Ui,
    n: u64,
    what: &str,
    word: (&str, Color32),
    ink: Option<Color32>,
    hover: &str,
) -> egui::Response {
    let p = palette(ui);
    let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::hover());
    r.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{n} {what}")));
    let y = rect.center().y;
    ui.painter().text(
        pos2(rect.left() + COUNT, y),
        Align2::RIGHT_CENTER,
        text::count(n),
        mono(),
        ink.unwrap_or(p.text),
    );
    let used = widgets::paint_text(ui, rect, Align2::RIGHT_CENTER, word.0, body(), word.1);
    let mid = Rect::from_min_max(
        pos2(rect.left() + MARK, rect.top()),
        pos2(rect.right() - used - 4.0, rect.bottom()),
    );
    widgets::paint_text(ui, mid, Align2::LEFT_CENTER, what, body(), ink.unwrap_or(p.text));
    if hover.is_empty() { r } else { r.on_hover_text(hover) }
}
