//! What can stand at the cursor of the filter's field, offered below it and taken by keyboard or pointer.

use crate::theme::{body, mono, palette, small};
use egui::text::{CCursor, CCursorRange};
use egui::text_edit::TextEditState;
use egui::{Id, Key, Modifiers, PopupAnchor, Response, RichText, Ui};
use trace_core::Recording;
use trace_core::filter::{Completions, complete};

/// Candidates that are shown at once.
const SHOWN: usize = 10;

/// What is offered.
#[derive(Clone, Default)]
pub struct Completion {
    /// Whether the person is writing, and did not send it away.
    open: bool,
    /// Text and cursor that `offered` is of.
    of: (String, usize),
    offered: Completions,
    /// Whether there was something to show in the last frame.
    shown: bool,
    /// Which one the keyboard is at; `None`: Enter is the field's.
    at: Option<usize>,
    first: usize,
}

impl Completion {
    /// Whether a list is shown, which has keys of its own.
    pub fn is_open(&self) -> bool {
        self.shown
    }

    /// Takes the keys that are meant for the list, before the field sees them: up and down, Tab and, where the
    /// keyboard is in the list, Enter; Escape sends it away.
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

    /// Puts a candidate where the word at the cursor stands.
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

    /// Shows the list below the field while something is written there.
    pub fn show(&mut self, field: &Response, text: &mut String, recording: &Recording, ui: &Ui) {
        if field.changed() {
            self.open = true;
            self.at = None;
            self.first = 0;
        }
        if !field.has_focus() {
            // A click on the list takes the keyboard from the field for that moment.
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
                let means = RichText::new(short(&c.means)).font(small()).color(p.quiet);
                let b = egui::Button::new(RichText::new(&c.text).font(mono()))
                    .selected(self.at == Some(n))
                    .shortcut_text(means);
                if ui.add(b).clicked() {
                    taken = Some(n);
                }
            }
            let more = self.offered.candidates.len().saturating_sub(SHOWN);
            let keys = "↓ ↑ choose · Tab takes · Esc hides";
            let told = if more > 0 {
                format!("{keys} · {} in all", more + SHOWN)
            } else {
                keys.to_owned()
            };
            ui.label(RichText::new(told).font(body()).color(p.quiet));
        });
        if let Some(n) = taken {
            self.take(n, text, field.id, ui);
        }
    }
}

/// As much of a meaning as fits beside a name.
fn short(means: &str) -> String {
    const MOST: usize = 56;
    match means.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", means.get(..at).unwrap_or_default()),
        None => means.to_owned(),
    }
}
