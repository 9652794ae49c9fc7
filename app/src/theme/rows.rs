//! A list of any length that costs only what is in view: it scrolls by row number, exact for billions of rows.

use super::focus::{self, LongRow};
use super::{ROW, palette};
use egui::accesskit::Role;
use egui::{EventFilter, Id, Key, Modifiers, Rect, Sense, Ui, WidgetInfo, pos2, vec2};

/// Scroll position of a long list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rows {
    /// First row in view; the fraction is hidden above.
    pub top: f64,
    /// Number of rows that fitted in the last frame.
    fitted: u64,
    /// The row that Tab stops at.
    stop: u64,
    /// The widget of that row while it has the keyboard.
    focused: Option<Id>,
    /// Maximum of `top` in the last frame.
    max: f64,
    /// The list shows its last row, also when it grows.
    sticks: bool,
}

/// Width of the scroll bar, points.
const BAR: f32 = 8.0;

impl Rows {
    /// Brings a row into view, in the upper third if it was out of view.
    pub fn reveal(&mut self, row: u64) {
        let (row, fitted) = (row as f64, self.fitted.max(6) as f64);
        if row < self.top || row >= self.top + fitted - 1.0 {
            self.top = (row - (fitted / 3.0).floor()).max(0.0);
            self.sticks = false;
        }
    }

    /// Returns whether the last row is in view.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.sticks || self.top + 0.5 >= self.max
    }

    /// Shows the last row, also when the list grows, until the user scrolls away from it.
    pub fn stick_to_end(&mut self) {
        self.sticks = true;
    }

    /// Scrolls by the minimum that brings the full row into view.
    fn follow(&mut self, row: u64) {
        let (row, fitted) = (row as f64, self.fitted.max(1) as f64);
        self.top = self.top.clamp((row + 1.0 - fitted).max(0.0), row);
    }

    /// Moves the keyboard along the rows. Returns the row that takes it now.
    fn step(&mut self, ui: &Ui, count: u64) -> Option<u64> {
        if count > 0 && focus::take_pane_entry(ui) {
            self.stop = self.stop.min(count - 1);
            self.follow(self.stop);
            return Some(self.stop);
        }
        let id = self.focused.filter(|id| ui.memory(|m| m.has_focus(*id)))?;
        let filter = EventFilter {
            vertical_arrows: true,
            ..EventFilter::default()
        };
        ui.memory_mut(|m| m.set_focus_lock_filter(id, filter));
        let pressed = |key| ui.input_mut(|i| i.consume_key(Modifiers::NONE, key));
        let (last, page) = (count.checked_sub(1)?, self.fitted.max(1));
        let to = if pressed(Key::ArrowUp) {
            self.stop.saturating_sub(1)
        } else if pressed(Key::ArrowDown) {
            self.stop.saturating_add(1)
        } else if pressed(Key::PageUp) {
            self.stop.saturating_sub(page)
        } else if pressed(Key::PageDown) {
            self.stop.saturating_add(page)
        } else {
            return None;
        };
        self.stop = to.min(last);
        self.follow(self.stop);
        Some(self.stop)
    }

    /// Shows rows `0..count` in the rest of `ui`, each in a rectangle of [`ROW`] height. `name` distinguishes the list
    /// from others in the panel. The rows are one stop for Tab ([`focus::row_response`]); arrow and page keys move
    /// along them.
    pub fn show(&mut self, ui: &mut Ui, name: &str, count: u64, mut row: impl FnMut(&mut Ui, u64, Rect)) {
        let size = ui.available_size_before_wrap().max(vec2(16.0, ROW));
        let (area, response) = ui.allocate_exact_size(size, Sense::hover());
        response.widget_info(|| WidgetInfo::labeled(Role::List, true, name));
        let fitted = f64::from(area.height() / ROW);
        self.fitted = fitted as u64;
        let take = self.step(ui, count);
        let max = (count as f64 - fitted).max(0.0);
        if self.sticks {
            self.top = max;
        }
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
            let bar = ui.interact(track, id, Sense::CLICK | Sense::DRAG);
            let handle = (area.height() * (fitted / count as f64) as f32).max(24.0);
            if let Some(at) = bar.interact_pointer_pos().filter(|_| bar.dragged() || bar.clicked()) {
                let part = (at.y - track.top() - handle / 2.0) / (track.height() - handle).max(1.0);
                self.top = f64::from(part.clamp(0.0, 1.0)) * max;
            }
            self.top = self.top.clamp(0.0, max);
            let y = track.top() + (track.height() - handle) * (self.top / max.max(1.0)) as f32;
            let p = palette(ui);
            let colour = if bar.hovered() || bar.dragged() {
                p.quiet
            } else {
                p.line
            };
            let grip = Rect::from_min_size(pos2(track.left() + 2.0, y), vec2(BAR - 3.0, handle));
            ui.painter().rect_filled(grip, 2.0, colour);
        }
        self.top = self.top.clamp(0.0, max);
        self.max = max;
        self.sticks &= self.top + 0.5 >= max;
        let inner = Rect::from_min_max(
            area.min,
            pos2(area.right() - if lists { BAR } else { 0.0 }, area.bottom()),
        );
        let first = self.top.floor() as u64;
        let shift = ((self.top - self.top.floor()) as f32 * ROW).round();
        let clip = ui.clip_rect();
        ui.set_clip_rect(clip.intersect(inner));
        // If the stop is scrolled out of view, Tab goes to the first row in view.
        let drawn = first..first.saturating_add(fitted.ceil() as u64);
        if !drawn.contains(&self.stop) {
            self.stop = first;
        }
        let (stop, mut focused) = (self.stop, None);
        for i in 0..=(fitted.ceil() as u64) {
            let n = first + i;
            if n >= count {
                break;
            }
            let y = inner.top() + i as f32 * ROW - shift;
            let rect = Rect::from_min_size(pos2(inner.left(), y), vec2(inner.width(), ROW));
            if rect.top() < inner.bottom() {
                let now = LongRow {
                    stop: n == stop,
                    take: take == Some(n),
                    ..LongRow::default()
                };
                let done = focus::long_row(ui, now, |ui| row(ui, n, rect));
                if done.clicked || done.focused.is_some() {
                    self.stop = n;
                }
                if done.focused.is_some() {
                    focused = done.focused;
                    focus::ring(ui.painter(), rect, 2.0, palette(ui).read);
                }
            }
        }
        self.focused = focused;
        ui.set_clip_rect(clip);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reveal_scrolls_only_to_hidden_rows() {
        let mut r = Rows {
            fitted: 30,
            ..Rows::default()
        };
        r.reveal(10);
        assert_eq!(r.top, 0.0);
        r.reveal(4_000_000_000);
        assert_eq!(r.top, 4_000_000_000.0 - 10.0);
        r.reveal(2);
        assert_eq!(r.top, 0.0);
    }

    #[test]
    fn list_sticks_to_its_end_until_it_scrolls() {
        let mut r = Rows {
            top: 70.0,
            fitted: 30,
            max: 70.0,
            ..Rows::default()
        };
        assert!(r.is_at_end());
        r.stick_to_end();
        r.max = 700.0;
        assert!(r.is_at_end(), "the next frame shows the new end");
        r.reveal(2);
        assert!(!r.is_at_end());
    }

    #[test]
    fn keyboard_selection_scrolls_by_the_minimum() {
        let mut r = Rows {
            top: 10.5,
            fitted: 20,
            ..Rows::default()
        };
        let mut to = |row| {
            r.follow(row);
            r.top
        };
        assert_eq!(to(15), 10.5, "the row is already visible");
        assert_eq!(to(10), 10.0, "the upper part of the row was hidden");
        assert_eq!(to(30), 11.0, "the row is below the last visible row");
        assert_eq!(to(2), 2.0);
        assert_eq!(to(0), 0.0);
    }
}
