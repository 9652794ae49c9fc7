//! A list of any length that costs only what is in view: own scrolling by row number, exact for billions of rows.

use super::{ROW, palette};
use egui::accesskit::Role;
use egui::{Id, Rect, Sense, Ui, WidgetInfo, pos2, vec2};

/// Where a long list is scrolled to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rows {
    /// First row in view; the fraction is hidden above.
    pub top: f64,
    /// Rows that fitted when it was last shown.
    fitted: u64,
}

/// Width of the scroll bar, points.
const BAR: f32 = 8.0;

impl Rows {
    /// Brings a row into view, in the upper third when it was out of it.
    pub fn reveal(&mut self, row: u64) {
        let (row, fitted) = (row as f64, self.fitted.max(6) as f64);
        if row < self.top || row >= self.top + fitted - 1.0 {
            self.top = (row - (fitted / 3.0).floor()).max(0.0);
        }
    }

    /// Shows rows `0..count` in what is left of `ui`, each in a rectangle of [`ROW`] height. `name` tells the list
    /// from others in the panel.
    pub fn show(&mut self, ui: &mut Ui, name: &str, count: u64, mut row: impl FnMut(&mut Ui, u64, Rect)) {
        let size = ui.available_size_before_wrap().max(vec2(16.0, ROW));
        let (area, response) = ui.allocate_exact_size(size, Sense::hover());
        response.widget_info(|| WidgetInfo::labeled(Role::List, true, name));
        let fitted = f64::from(area.height() / ROW);
        self.fitted = fitted as u64;
        let most = (count as f64 - fitted).max(0.0);
        if response.contains_pointer() {
            let delta = ui.input(|i| i.smooth_scroll_delta().y);
            if delta != 0.0 {
                self.top -= f64::from(delta / ROW);
            }
        }
        let lists = count as f64 > fitted;
        let track = Rect::from_min_max(pos2(area.right() - BAR, area.top()), area.max);
        if lists {
            let id: Id = ui.scope_id().with((name, "bar"));
            let bar = ui.interact(track, id, Sense::click_and_drag());
            let handle = (area.height() * (fitted / count as f64) as f32).max(24.0);
            if let Some(at) = bar.interact_pointer_pos().filter(|_| bar.dragged() || bar.clicked()) {
                let part = (at.y - track.top() - handle / 2.0) / (track.height() - handle).max(1.0);
                self.top = f64::from(part.clamp(0.0, 1.0)) * most;
            }
            self.top = self.top.clamp(0.0, most);
            let y = track.top() + (track.height() - handle) * (self.top / most.max(1.0)) as f32;
            let p = palette(ui);
            let colour = if bar.hovered() || bar.dragged() {
                p.quiet
            } else {
                p.line
            };
            let grip = Rect::from_min_size(pos2(track.left() + 2.0, y), vec2(BAR - 3.0, handle));
            ui.painter().rect_filled(grip, 2.0, colour);
        }
        self.top = self.top.clamp(0.0, most);
        let inner = Rect::from_min_max(
            area.min,
            pos2(area.right() - if lists { BAR } else { 0.0 }, area.bottom()),
        );
        let first = self.top.floor() as u64;
        let shift = ((self.top - self.top.floor()) as f32 * ROW).round();
        let clip = ui.clip_rect();
        ui.set_clip_rect(clip.intersect(inner));
        for i in 0..=(fitted.ceil() as u64) {
            let n = first + i;
            if n >= count {
                break;
            }
            let y = inner.top() + i as f32 * ROW - shift;
            let rect = Rect::from_min_size(pos2(inner.left(), y), vec2(inner.width(), ROW));
            if rect.top() < inner.bottom() {
                row(ui, n, rect);
            }
        }
        ui.set_clip_rect(clip);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_out_of_view_is_brought_in_and_one_in_view_stays() {
        let mut r = Rows { top: 0.0, fitted: 30 };
        r.reveal(10);
        assert_eq!(r.top, 0.0);
        r.reveal(4_000_000_000);
        assert_eq!(r.top, 4_000_000_000.0 - 10.0);
        r.reveal(2);
        assert_eq!(r.top, 0.0);
    }
}
