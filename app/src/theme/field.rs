//! A field for a value. All of it is selected when it gets the keyboard, so that typing replaces it. It can keep the
//! keyboard while its content is wrong. It reports whether anything was typed, because until then undo refers to
//! earlier edits and not to the field.

use super::{ROW, mono, palette, small};
use egui::text::{CCursor, CCursorRange};
use egui::text_edit::TextEditState;
use egui::{Align, Context, Event, Id, Key, Layout, Response, RichText, TextEdit, Ui, vec2};

/// The user's actions on a field in this frame.
pub struct FieldOutput {
    /// The field.
    pub response: Response,
    /// Whether Enter ended it.
    pub enter: bool,
    /// Whether Escape ended it.
    pub escape: bool,
}

impl FieldOutput {
    /// Gives the field the keyboard, with all of its text selected.
    pub fn select_all(&self) {
        take(&self.response.ctx, self.response.id);
    }
}

/// Returns the id of the field whose text must be fully selected.
fn selecting() -> Id {
    Id::unique("field to select")
}

/// Returns the id of the field that has the keyboard and in which nothing was typed.
fn waiting() -> Id {
    Id::unique("field in which nothing was typed")
}

/// Gives a field the keyboard, with all of its text selected.
fn take(ctx: &Context, id: Id) {
    ctx.memory_mut(|m| m.request_focus(id));
    ctx.data_mut(|d| d.insert_temp(selecting(), id));
    ctx.request_repaint();
}

/// Draws a field for a text that is checked elsewhere: `empty` says what an empty field means, `message` what it can
/// hold.
pub fn checked_text(ui: &mut Ui, name: &str, text: &mut String, (empty, message): (&str, &str), is_wrong: bool) {
    let p = palette(ui);
    let edit = TextEdit::singleline(text)
        .font(mono())
        .desired_width(f32::INFINITY)
        .hint_text(RichText::new(empty).font(small()).color(p.quiet));
    let edit = if is_wrong { edit.text_color(p.error) } else { edit };
    ui.add(edit).accessible_name(name).on_hover_text(message);
}

/// Draws the error of a field, below it.
pub fn error_line(ui: &mut Ui, why: Option<&str>) {
    if let Some(why) = why {
        let words = RichText::new(format!("▲ {why}")).font(small()).color(palette(ui).error);
        ui.add(egui::Label::new(words).wrap());
    }
}

/// Draws a field that `make` makes around `text`. `was` is its content until something is typed; `None`: its content
/// when it got the keyboard.
pub fn value(
    ui: &mut Ui,
    id: Id,
    name: &str,
    text: &mut String,
    was: Option<&str>,
    make: impl for<'t> FnOnce(&'t mut String) -> TextEdit<'t>,
) -> FieldOutput {
    let ctx = ui.ctx().clone();
    let mut whole = ctx.data(|d| d.get_temp::<Id>(selecting())) == Some(id);
    if whole {
        let mut state = TextEditState::load(&ctx, id).unwrap_or_default();
        let end = CCursor::new(text.chars().count());
        state
            .cursor
            .set_char_range(Some(CCursorRange::two(CCursor::new(0), end)));
        // The undo history belongs to another value.
        state.clear_undoer();
        state.store(&ctx, id);
        ctx.data_mut(|d| d.insert_temp(id.with("was"), text.clone()));
    }
    let response = ui.add(make(text).id(id)).accessible_name(name);
    if response.gained_focus() {
        take(&ctx, id);
    } else if whole {
        // A press puts the caret under the pointer; only then does the field belong to the user: a drag selects a
        // part.
        let (down, dragging) = ctx.input(|i| (i.pointer.any_down(), i.pointer.is_decidedly_dragging()));
        whole = down && !dragging && response.has_focus();
        if !whole {
            ctx.data_mut(|d| d.remove::<Id>(selecting()));
        }
    }
    let left = |key| response.lost_focus() && ui.input(|i| i.key_pressed(key));
    let (enter, escape) = (left(Key::Enter), left(Key::Escape));
    if response.has_focus() {
        ctx.data_mut(|d| {
            let was = was.map_or_else(|| d.get_temp(id.with("was")).unwrap_or_default(), str::to_owned);
            d.insert_temp(waiting(), (*text == was).then_some(id));
        });
    }
    FieldOutput {
        response,
        enter,
        escape,
    }
}

/// Returns whether the keyboard is at a field for a value in which nothing was typed up to the last frame.
#[must_use]
pub fn is_untouched(ctx: &Context) -> bool {
    let focused = ctx.memory(egui::Memory::focused);
    let waiting = ctx.data(|d| d.get_temp::<Option<Id>>(waiting())).flatten();
    focused.is_some() && focused == waiting
}

/// Returns whether an event changes the text of the field that has the keyboard.
#[must_use]
pub fn is_text_edit(event: &Event) -> bool {
    match event {
        Event::Text(_) | Event::Paste(_) | Event::Cut | Event::Ime(_) => true,
        Event::Key {
            key: Key::Backspace | Key::Delete,
            pressed,
            ..
        } => *pressed,
        _ => false,
    }
}

/// Draws the name of a field of a form, in `width` points, and the field next to it.
pub fn named<R>(ui: &mut Ui, width: f32, name: &str, add: impl FnOnce(&mut Ui) -> R) -> R {
    ui.horizontal(|ui| {
        let quiet = palette(ui).quiet;
        ui.allocate_ui_with_layout(vec2(width, ROW), Layout::left_to_right(Align::Center), |ui| {
            ui.set_min_width(width);
            ui.label(RichText::new(name).color(quiet));
        });
        add(ui)
    })
    .inner
}
