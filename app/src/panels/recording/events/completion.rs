//! Completion for the filter's field: candidates at the cursor, shown below the field, taken by keyboard or pointer.

use crate::theme::widgets::{paint_middle, paint_text};
use crate::theme::{ROW, mono, palette, small};
use egui::accesskit::Role;
use egui::text::{CCursor, CCursorRange};
use egui::text_edit::TextEditState;
use egui::{Align2, Id, Key, Modifiers, PopupAnchor, Response, RichText, Sense, Ui, WidgetInfo, vec2};
use trace_core::Recording;
use trace_core::filter::{Completions, complete};

/// Number of candidates that are shown at once.
const SHOWN: usize = 10;

/// The state of the completion list.
#[derive(Clone, Default)]
pub struct Completion {
    /// Whether the user is writing and did not dismiss the list.
    open: bool,
    /// Text and cursor that `offered` was computed for.
    of: (String, usize),
    offered: Completions,
    /// Whether there was something to show in the last frame.
    shown: bool,
    /// The candidate that the keyboard selected; `None`: Enter belongs to the field.
    at: Option<usize>,
    first: usize,
}

impl Completion {
    /// Returns whether a list is shown, which handles keys of its own.
    pub fn is_open(&self) -> bool {
        self.shown
    }

    /// Takes the keys of the list before the field sees them: up, down, Tab, and Enter if the keyboard is in the list;
    /// Escape dismisses it.
    pub fn keys(&mut self, text: &mut String, id: Id, ui: &Ui) {
        let count = self.offered.candidates.len();
        if !self.shown || count == 0 || !ui.memory(|m| m.has_focus(id)) {
            return;
        }
        let pressed = |key| ui.input_mut(|i| i.consume_key(Modifiers::NONE, key));
        if pressed(Key::ArrowDown) {
            self.at = Some(self.at.map_or(0, |n| (n + 1).min(count - 1)));
        }
        if pressed(Key::ArrowUp) {
            self.at = self.at.and_then(|n| n.checked_sub(1));
        }
        if let Some(at) = self.at {
            self.first = self.first.clamp((at + 1).saturating_sub(SHOWN), at);
        }
        if pressed(Key::Escape) {
            self.open = false;
        } else if pressed(Key::Tab) || (self.at.is_some() && pressed(Key::Enter)) {
            self.take(self.at.unwrap_or(0), text, id, ui);
        }
    }

    /// Replaces the word at the cursor by a candidate.
    fn take(&mut self, which: usize, text: &mut String, id: Id, ui: &Ui) {
        let Some(c) = self.offered.candidates.get(which) else {
            return;
        };
        let range = self.offered.replace.clone();
        if self.of.0 != *text || text.get(range.clone()).is_none() {
            return;
        }
        text.replace_range(range.clone(), &c.text);
        let cursor = text
            .get(..range.start + c.text.len())
            .unwrap_or_default()
            .chars()
            .count();
        if let Some(mut state) = TextEditState::load(ui.ctx(), id) {
            let at = CCursor::new(cursor);
            state.cursor.set_char_range(Some(CCursorRange::one(at)));
            state.store(ui.ctx(), id);
        }
        self.open = false;
        self.at = None;
        ui.memory_mut(|m| m.request_focus(id));
    }

    /// Shows the list below the field while the user writes there.
    pub fn show(&mut self, field: &Response, text: &mut String, recording: &Recording, ui: &Ui) {
        if field.changed() {
            self.open = true;
            self.at = None;
            self.first = 0;
        }
        if !field.has_focus() {
            // A click on the list takes the keyboard from the field for one frame.
            self.open &= field.lost_focus();
        }
        let state = TextEditState::load(ui.ctx(), field.id);
        let cursor = state
            .and_then(|s| s.cursor.char_range())
            .map_or(0, |r| r.primary.index.into());
        self.shown = false;
        if !self.open {
            return;
        }
        if self.of != (text.clone(), cursor) {
            let byte = text.char_indices().nth(cursor).map_or(text.len(), |(at, _)| at);
            self.offered = complete(text, byte, recording);
            self.of = (text.clone(), cursor);
        }
        let typed = text.get(self.offered.replace.clone()).unwrap_or_default();
        let done = self.offered.candidates.first().is_some_and(|c| c.text == typed);
        if self.offered.candidates.is_empty() || done && self.at.is_none() {
            return;
        }
        self.shown = true;
        let p = palette(ui);
        let mut taken = None;
        egui::Popup::new(
            field.id.with("completion"),
            ui.ctx().clone(),
            PopupAnchor::from(field),
            ui.layer_id(),
        )
        .kind(egui::PopupKind::Menu)
        .open(true)
        .show(|ui| {
            ui.set_min_width(field.rect.width().max(360.0));
            let shown = self.offered.candidates.iter().enumerate().skip(self.first).take(SHOWN);
            for (n, c) in shown {
                if row(ui, &c.text, &c.description, self.at == Some(n)).clicked() {
                    taken = Some(n);
                }
            }
            let more = self.offered.candidates.len().saturating_sub(SHOWN);
            let keys = "↓ ↑ choose · Tab accepts · Esc hides";
            let message = if more > 0 {
                format!("{keys} · {} in all", more + SHOWN)
            } else {
                keys.to_owned()
            };
            ui.add_space(2.0);
            ui.label(RichText::new(message).font(small()).color(p.quiet));
        });
        if let Some(n) = taken {
            self.take(n, text, field.id, ui);
        }
    }
}

/// Selects all text of a field, so that the next input replaces it.
pub fn select_all(text: &str, id: Id, ui: &Ui) {
    let mut state = TextEditState::load(ui.ctx(), id).unwrap_or_default();
    let all = CCursorRange::two(CCursor::new(0), CCursor::new(text.chars().count()));
    state.cursor.set_char_range(Some(all));
    state.store(ui.ctx(), id);
}

/// Part of the list's width for names.
const NAMES: f32 = 0.42;

/// Draws a candidate and its meaning in two columns.
fn row(ui: &mut Ui, name: &str, means: &str, on: bool) -> Response {
    let p = palette(ui);
    let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::click());
    r.widget_info(|| WidgetInfo::selected(Role::ListBoxOption, true, on, name));
    if on || r.hovered() {
        let ink = if on { p.selection } else { p.raised };
        ui.painter().rect_filled(rect, 3.0, ink);
    }
    let inner = rect.shrink2(vec2(6.0, 0.0));
    let (left, right) = inner.split_left_right_at_fraction(NAMES);
    let left = left.with_max_x(left.right() - 8.0);
    paint_middle(ui, left, Align2::LEFT_CENTER, name, mono(), p.text);
    paint_text(ui, right, Align2::LEFT_CENTER, means, small(), p.quiet);
    r
}
