//! The keys of a table whose rows are selected: arrow and page keys go from row to row, Enter acts on the row.

use super::{ROW, focus, palette};
use egui::accesskit::Role;
use egui::{EventFilter, Id, Key, Modifiers, Stroke, StrokeKind, Ui, WidgetInfo};

/// What a key of a table asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKey {
    /// Select this row.
    Row(u64),
    /// Act on the selected row.
    Enter,
    /// Show the next part of the selected row (`true`), or the previous one.
    Part(bool),
}

/// The area of a table that takes the keyboard.
#[derive(Clone, Copy, Debug)]
pub struct TableKeys<'a> {
    /// The widget that has the keyboard.
    pub id: Id,
    /// Accessible name of the table.
    pub name: &'a str,
    /// Whether left and right arrows go through parts of a row.
    pub has_parts: bool,
}

impl TableKeys<'_> {
    /// Registers the rest of `ui` as the table, and returns what a key asks for. The table has `count` rows, and `here`
    /// returns the selected one.
    pub fn read(&self, ui: &Ui, here: impl FnOnce() -> Option<u64>, count: u64) -> Option<TableKey> {
        let area = ui.available_rect_before_wrap();
        let r = focus::area(ui, area, self.id);
        r.widget_info(|| WidgetInfo::labeled(Role::Table, true, self.name));
        if !ui.memory(|m| m.focused() == Some(self.id)) || egui::Popup::is_any_open(ui.ctx()) {
            return None;
        }
        let frame = Stroke::new(1.0, palette(ui).line);
        ui.painter()
            .rect_stroke(area.shrink(1.0), 0.0, frame, StrokeKind::Inside);
        let filter = EventFilter {
            vertical_arrows: true,
            horizontal_arrows: self.has_parts,
            ..Default::default()
        };
        ui.memory_mut(|m| m.set_focus_lock_filter(self.id, filter));
        let page = ((area.height() / ROW) as i64 - 1).max(1);
        let moves = [
            (Key::ArrowUp, -1),
            (Key::ArrowDown, 1),
            (Key::PageUp, -page),
            (Key::PageDown, page),
        ];
        let pressed = |key| ui.input_mut(|i| i.count_and_consume_key(Modifiers::NONE, key));
        let steps = moves.map(|(key, by)| by * i64::try_from(pressed(key)).unwrap_or(0));
        let by: i64 = steps.iter().sum();
        if by != 0 {
            let to = here().map_or(0, |row| row.saturating_add_signed(by));
            return Some(TableKey::Row(to.min(count.checked_sub(1)?)));
        }
        if pressed(Key::Enter) > 0 {
            return Some(TableKey::Enter);
        }
        if !self.has_parts {
            return None;
        }
        match (pressed(Key::ArrowLeft), pressed(Key::ArrowRight)) {
            (0, 0) => None,
            (left, right) => Some(TableKey::Part(right >= left)),
        }
    }
}
