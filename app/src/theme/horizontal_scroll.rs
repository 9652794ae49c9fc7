//! Horizontal scrolling of lists that are wider than their panel, by Shift and the wheel, a touchpad, or the bar
//! below.

use super::palette;
use egui::accesskit::Role;
use egui::{Rect, Sense, Ui, WidgetInfo, pos2, vec2};

/// Height of the bar, points.
const BAR: f32 = 8.0;

/// Horizontal offset of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HorizontalScroll {
    offset: f32,
}

impl HorizontalScroll {
    /// Moves a list of this width in `area` by the pointer's input, and returns its offset to the left, points.
    pub fn scroll(&mut self, ui: &Ui, area: Rect, width: f32) -> f32 {
        let max = (width - area.width()).max(0.0);
        if max > 0.0 && ui.rect_contains_pointer(area) {
            self.offset -= ui.input(|i| i.smooth_scroll_delta().x);
        }
        self.offset = self.offset.clamp(0.0, max);
        self.offset
    }

    /// Draws the bar at the lower edge of `area` if the list is wider than it. `name` distinguishes it from others.
    pub fn bar(&mut self, ui: &Ui, name: &str, area: Rect, width: f32) {
        let max = width - area.width();
        if max <= 0.5 {
            return;
        }
        let track = Rect::from_min_max(pos2(area.left(), area.bottom() - BAR), area.max);
        let id = ui.scope_id().with((name, "sideways"));
        let r = ui.interact(track, id, Sense::CLICK | Sense::DRAG);
        r.widget_info(|| WidgetInfo::labeled(Role::ScrollBar, true, format!("{name} sideways")));
        let handle = (track.width() * area.width() / width).max(24.0);
        let room = (track.width() - handle).max(1.0);
        if let Some(at) = r.interact_pointer_pos().filter(|_| r.dragged() || r.clicked()) {
            let part = ((at.x - track.left() - handle / 2.0) / room).clamp(0.0, 1.0);
            self.offset = part * max;
        }
        let p = palette(ui);
        let x = track.left() + room * (self.offset / max).clamp(0.0, 1.0);
        let grip = Rect::from_min_size(pos2(x, track.top() + 2.0), vec2(handle, BAR - 3.0));
        let colour = if r.hovered() || r.dragged() { p.quiet } else { p.line };
        ui.painter().rect_filled(grip, 2.0, colour);
    }
}
