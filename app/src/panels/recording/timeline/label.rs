//! Common sizes and text of the timeline: notes over lanes, numbers with what they count.

use crate::theme::{body, palette, small};
use egui::{Rect, Ui, pos2, vec2};
use kinescope_session::text;

/// Height of a lane, points.
pub const LANE: f32 = 22.0;
/// Width below which a run has no text, points: thousands of such runs a frame are not measured.
pub const SHORTEST: f32 = 16.0;
/// Height of the ruler, points.
pub const RULER: f32 = 22.0;

/// Draws a short text on a filled background, so that it is readable over lanes. It ends before `right`.
pub fn note_at(ui: &Ui, at: egui::Pos2, right: f32, note: &str) {
    let p = palette(ui);
    let galley = ui.painter().layout_no_wrap(note.to_owned(), small(), p.text);
    let x = at.x.min(right - galley.size().x - 6.0);
    let from = pos2(x, at.y - galley.size().y / 2.0);
    let back = Rect::from_min_size(from - vec2(3.0, 1.0), galley.size() + vec2(6.0, 2.0));
    ui.painter().rect_filled(back, 2.0, p.panel);
    ui.painter().galley(from, galley, p.text);
}

/// Returns the font of lane names.
pub fn lane_font() -> egui::FontId {
    let mut f = body();
    f.size = 12.0;
    f
}

/// Formats a number and what it counts: `1 event`, `12 events`.
pub fn describe_count(n: u64, what: &str) -> String {
    format!("{} {what}{}", text::count(n), if n == 1 { "" } else { "s" })
}
