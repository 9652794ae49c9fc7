//! The sheet for changing shortcuts: all commands by menu, a search field, and key capture for a row.

use super::app::App;
use super::command::Menu;
use super::key_capture::{KeyCapture, KeysSheet};
use super::keymap::Keymap;
use super::sheets::show_sheet;
use super::shortcut::{Shortcut, is_modifier};
use crate::log::{self, Level};
use crate::theme::{body, mono, palette, small, strong, widgets};
use egui::accesskit::Role;
use egui::{Align2, Context, Event, Key, Modifiers, Rect, RichText, Sense, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::text;

/// Width of the sheet, points.
const WIDTH: f32 = 620.0;

/// A row of the list.
enum Row {
    Menu(Menu),
    Command(&'static str, String),
}

fn rows(app: &App, search: &str) -> Vec<Row> {
    let search = search.trim().to_lowercase();
    let fits = |words: &str| words.to_lowercase().contains(&search);
    let mut out = Vec::new();
    for menu in Menu::ALL {
        let all = app.commands.iter().filter(|c| c.menu == menu);
        let mut of_menu = all
            .filter(|c| fits(&c.full_title()) || fits(c.id) || fits(&app.keys.text(c.id)) || fits(menu.title()))
            .map(|c| Row::Command(c.id, c.full_title()))
            .peekable();
        if of_menu.peek().is_some() {
            out.push(Row::Menu(menu));
            out.extend(of_menu);
        }
    }
    out
}

impl App {
    /// Applies changed shortcuts to menus and tooltips, and saves them to the file.
    pub fn apply_keymap(&mut self) {
        self.actions.set_keys(|id| self.keys.text(id));
        let Some(folder) = self.settings.folder() else { return };
        match self.keys.save(folder) {
            Ok(None) => {}
            Ok(Some(aside)) => self.info(format!("the keys that could not be read are in {}", aside.display())),
            Err(e) => {
                let message = format!("keys were not saved in {}: {e}", folder.display());
                log::push(Level::Warning, &message);
                if let Some(open) = &mut self.keys_sheet {
                    open.message = format!("▲ {message}");
                }
            }
        }
    }

    /// Reports the ignored parts of the user's key file.
    pub(super) fn report_keymap_problems(&mut self) {
        let (Some(folder), false) = (self.settings.folder(), self.keys.problems.is_empty()) else {
            return;
        };
        let file = folder.join(super::keymap::FILE).display().to_string();
        let details = format!("{file}: {}", self.keys.problems.join("; "));
        log::push(Level::Warning, details.clone());
        self.notice = Some(("Some keys were ignored".into(), details));
    }

    /// Starts to capture a key for a command.
    fn begin_capture(&mut self, id: &'static str, more: bool) {
        if let Some(open) = &mut self.keys_sheet {
            open.chosen = Some(id);
            open.message.clear();
            open.sure = false;
            open.listening = Some(KeyCapture { id, more, asked: None });
        }
    }

    /// Applies a key press to the row that waits for a key.
    fn assign_key(&mut self, key: Shortcut) {
        let Some((open, at)) = self.keys_sheet.as_mut().and_then(|o| o.listening.map(|l| (o, l))) else {
            return;
        };
        let title = self.commands.iter().find(|c| c.id == at.id).map_or("", |c| c.title);
        let first = self.keys.first(at.id);
        let alone = |k| key == Shortcut::from_press(k, Modifiers::NONE);
        // Backspace removes the keys, Delete restores the default. Neither can be assigned.
        let wanted = match key.key {
            _ if alone(Key::Backspace) => None,
            _ if alone(Key::Delete) => Some(first),
            Key::Escape if alone(Key::Escape) && first != Some(key) => {
                open.listening = None;
                return;
            }
            _ => Some(Some(key)),
        };
        let Some(wanted) = wanted.flatten() else {
            self.keys.set(at.id, &[]);
            open.listening = None;
            open.message = format!("{title} has no key now.");
            return self.apply_keymap();
        };
        if let Some(why) = wanted.reserved_reason().filter(|_| first != Some(wanted)) {
            open.message = format!("! {} {why}: press another key.", wanted.text());
            return;
        }
        if let Some((id, other)) = self.keys.find_owner(wanted).filter(|o| o.0 != at.id)
            && at.asked != Some(wanted)
        {
            // The user confirms with the same key, or with Delete if Delete requested the default.
            let again = if alone(Key::Delete) {
                "Delete".to_owned()
            } else {
                wanted.text()
            };
            open.message = format!("! {} runs {other}. Press {again} again to move it.", wanted.text());
            open.listening = Some(KeyCapture {
                asked: Some(wanted),
                ..at
            });
            debug_assert!(id != at.id);
            return;
        }
        let lost = self
            .keys
            .find_owner(wanted)
            .filter(|o| o.0 != at.id)
            .map(|o| o.1.to_owned());
        let fits = !at.more || self.keys.add(at.id, wanted);
        if !at.more {
            self.keys.set(at.id, &[wanted]);
        }
        open.listening = None;
        open.message = match (fits, lost) {
            (false, _) => format!("! {title} already has the maximum number of keys."),
            (true, None) => format!("{} now runs {title}.", wanted.text()),
            (true, Some(other)) => format!("{} now runs {title}, and no longer {other}.", wanted.text()),
        };
        self.apply_keymap();
    }
}

/// Sends keyboard events to the row that waits for a key. Returns `true` if a row waits; the events then go nowhere
/// else.
pub(super) fn capture_key(app: &mut App, ctx: &Context) -> bool {
    if app.keys_sheet.as_ref().is_none_or(|o| o.listening.is_none()) {
        return false;
    }
    let mut heard = Vec::new();
    ctx.input_mut(|i| {
        i.events.retain(|event| {
            let clipboard = |key| Some(Shortcut::from_press(key, Modifiers::COMMAND));
            let key = match event {
                Event::Key { key, repeat: false, .. } if !is_modifier(*key) => Shortcut::from_event(event),
                Event::Copy => clipboard(Key::C),
                Event::Cut => clipboard(Key::X),
                Event::Paste(_) => clipboard(Key::V),
                Event::Key { .. } | Event::Text(_) => None,
                _ => return true,
            };
            heard.extend(key);
            false
        });
    });
    for key in heard {
        app.assign_key(key);
    }
    true
}

/// Input that the user gave on the sheet in this frame.
#[derive(Default)]
struct SheetInput {
    listen: Option<(&'static str, bool)>,
    press: Option<Key>,
    reset_all: bool,
}

/// Draws the sheet if it is open.
pub(super) fn draw(app: &mut App, ctx: &Context) {
    let Some(mut open) = app.keys_sheet.take() else { return };
    let list = rows(app, &open.search);
    let mut did = SheetInput::default();
    if open.listening.is_none() && app.question.is_none() && app.confirm.is_none() {
        move_selection(ctx, &list, &mut open, &mut did);
    }
    let mut stays = true;
    show_sheet(ctx, "Keys", &mut stays, WIDTH, |ui| {
        let p = palette(ui);
        ui.horizontal(|ui| {
            let hint = RichText::new("Search commands and keys").color(p.quiet);
            let edit = egui::TextEdit::singleline(&mut open.search)
                .id(egui::Id::unique("keys-search"))
                .font(body())
                .desired_width(ui.available_width() - 150.0)
                .margin(vec2(8.0, 5.0))
                .hint_text(hint);
            let r = ui.add(edit).accessible_name("Search keys");
            if !open.focused {
                r.request_focus();
                open.focused = true;
            }
            let n = app.keys.count_changed();
            let words = if open.sure {
                "Confirm the reset"
            } else {
                "Reset all keys"
            };
            let b = ui.add_enabled(n > 0, egui::Button::new(words));
            let message = format!(
                "{} keys other than the defaults",
                text::count_noun(n as u64, "command has", "commands have")
            );
            if b.on_hover_text(&message).clicked() {
                did.reset_all = std::mem::replace(&mut open.sure, true);
                open.message = format!("! {message}. Press again to reset them.");
            }
        });
        for problem in app.keys.problems.iter().take(3) {
            ui.label(
                RichText::new(format!("! keys.toml: {problem}"))
                    .font(small())
                    .color(p.warning),
            );
        }
        if let Some(more) = app.keys.problems.len().checked_sub(3).filter(|n| *n > 0) {
            ui.label(
                RichText::new(format!("! and {more} more in the log"))
                    .font(small())
                    .color(p.warning),
            );
        }
        ui.add_space(4.0);
        let size = vec2(ui.available_width(), (ui.available_height() - 58.0).max(80.0));
        let (place, _) = ui.allocate_exact_size(size, Sense::hover());
        let mut inner = ui.new_child(egui::UiBuilder::new().max_rect(place));
        if list.is_empty() {
            inner.label(RichText::new("no command of that name").font(small()).color(p.quiet));
        }
        let (listening, chosen) = (open.listening, open.chosen);
        open.rows.show(
            &mut inner,
            "Commands",
            list.len() as u64,
            |ui, n, rect| match usize::try_from(n).ok().and_then(|n| list.get(n)) {
                Some(Row::Menu(menu)) => {
                    widgets::paint_text(ui, rect, Align2::LEFT_CENTER, menu.title(), strong(), p.quiet);
                }
                Some(Row::Command(id, title)) => {
                    let at = listening.filter(|l| l.id == *id);
                    if row(ui, &app.keys, id, title, at, chosen == Some(*id), rect) {
                        did.listen = Some((*id, false));
                    }
                }
                None => {}
            },
        );
        draw_footer(app, ui, &open, &mut did);
    });
    let closes = !stays;
    app.keys_sheet = (!closes).then_some(open);
    if let Some((id, more)) = did.listen {
        app.begin_capture(id, more);
    }
    if let Some(key) = did.press {
        if let Some(id) = app.keys_sheet.as_ref().and_then(|o| o.chosen) {
            app.begin_capture(id, false);
        }
        app.assign_key(Shortcut::from_press(key, Modifiers::NONE));
    }
    if did.reset_all {
        app.keys.reset_all();
        if let Some(open) = &mut app.keys_sheet {
            open.sure = false;
            open.message = "Every command has its default key.".into();
        }
        app.apply_keymap();
    }
}

/// Handles keys: arrow and Page keys select a row, Enter captures its key, Shift+Enter captures an additional key.
fn move_selection(ctx: &Context, list: &[Row], open: &mut KeysSheet, did: &mut SheetInput) {
    let ids: Vec<(usize, &'static str)> = list
        .iter()
        .enumerate()
        .filter_map(|(n, r)| match r {
            Row::Command(id, _) => Some((n, *id)),
            Row::Menu(_) => None,
        })
        .collect();
    let at = ids.iter().position(|i| Some(i.1) == open.chosen);
    if at.is_none() {
        open.chosen = ids.first().map(|i| i.1);
    }
    let at = at.unwrap_or(0);
    // Enter presses a button that has the focus.
    let writing = ctx.text_edit_focused() || ctx.memory(|m| m.focused().is_none());
    let (step, enter, more) = ctx.input_mut(|i| {
        let mut by = 0_isize;
        for (key, n) in [
            (Key::ArrowDown, 1),
            (Key::ArrowUp, -1),
            (Key::PageDown, 12),
            (Key::PageUp, -12),
        ] {
            by += n * isize::try_from(i.count_and_consume_key(Modifiers::NONE, key)).unwrap_or(0);
        }
        // Shift comes first: egui also accepts a press with more modifiers than requested.
        let more = writing && i.consume_key(Modifiers::SHIFT, Key::Enter);
        (by, writing && i.consume_key(Modifiers::NONE, Key::Enter), more)
    });
    let to = at.saturating_add_signed(step).min(ids.len().saturating_sub(1));
    if let Some((row, id)) = ids.get(to).filter(|_| step != 0) {
        open.chosen = Some(*id);
        // The header of its menu stays visible too.
        open.rows.reveal(row.saturating_sub(1) as u64);
        open.rows.reveal(*row as u64);
    }
    if let Some(id) = open.chosen.filter(|_| enter || more) {
        did.listen = Some((id, more));
    }
}

fn row(
    ui: &Ui,
    keys: &Keymap,
    id: &'static str,
    title: &str,
    listening: Option<KeyCapture>,
    chosen: bool,
    rect: Rect,
) -> bool {
    let p = palette(ui);
    let r = ui.interact(rect, ui.scope_id().with(id), Sense::click());
    let (text, changed) = (keys.text(id), keys.is_changed(id));
    let message = match (text.is_empty(), changed) {
        (true, false) => format!("{title}: no key"),
        (true, true) => format!("{title}: no key, changed"),
        (false, false) => format!("{title}: {text}"),
        (false, true) => format!("{title}: {text}, changed"),
    };
    r.widget_info(|| WidgetInfo::selected(Role::ListItem, true, chosen, &message));
    if chosen || r.hovered() {
        let fill = if chosen { p.selection } else { p.raised };
        ui.painter().rect_filled(rect, 3.0, fill);
    }
    let inner = rect.shrink2(vec2(10.0, 0.0));
    let (shown, ink) = match listening {
        Some(l) if l.more => (format!("{text} and …"), p.edited),
        Some(_) => ("press a key".to_owned(), p.edited),
        None if changed && text.is_empty() => ("● no key".to_owned(), p.edited),
        None if changed => (format!("● {text}"), p.edited),
        None => (text, p.quiet),
    };
    let used = widgets::paint_text(ui, inner, Align2::RIGHT_CENTER, &shown, mono(), ink);
    let left = Rect::from_min_max(inner.min, pos2(inner.right() - used - 8.0, inner.bottom()));
    widgets::paint_text(ui, left, Align2::LEFT_CENTER, title, body(), p.text);
    r.on_hover_text(format!("in keys.toml: {id}")).clicked()
}

/// Draws the status and the actions for the selected row.
fn draw_footer(app: &App, ui: &mut Ui, open: &KeysSheet, did: &mut SheetInput) {
    let p = palette(ui);
    let title = |id: &str| {
        let c = app.commands.iter().find(|c| c.id == id);
        c.map_or_else(String::new, super::command::Command::full_title)
    };
    ui.add_space(4.0);
    let first = |id: &str| app.keys.first(id).map_or_else(|| "no key".to_owned(), Shortcut::text);
    let (words, ink) = match (open.listening, open.message.as_str()) {
        (_, message) if message.starts_with('!') => (message.to_owned(), p.warning),
        (_, message) if message.starts_with('▲') => (message.to_owned(), p.error),
        (Some(l), _) => (
            format!(
                "Press the key for {}. Backspace: no key. Delete: {}. Escape: no change.",
                title(l.id),
                first(l.id)
            ),
            p.edited,
        ),
        (None, "") => (
            "Press Enter or click, then press the key. Shift Enter: add a key. Arrows: select.".to_owned(),
            p.quiet,
        ),
        (None, message) => (message.to_owned(), p.text),
    };
    ui.add(egui::Label::new(RichText::new(&words).color(ink)).truncate());
    ui.horizontal(|ui| {
        let Some(id) = open.chosen.filter(|_| open.listening.is_none()) else {
            ui.label("");
            return;
        };
        let name = title(id);
        let button = |ui: &mut Ui, words: &str, label: String, enabled: bool| {
            let r = ui.add_enabled(enabled, egui::Button::new(words));
            r.widget_info(|| WidgetInfo::labeled(Role::Button, enabled, &label));
            r.on_hover_text(label).clicked()
        };
        let has = !app.keys.shortcuts(id).is_empty();
        if button(ui, "Change", format!("Change the key of {name}"), true) {
            did.listen = Some((id, false));
        }
        if button(ui, "Add", format!("Add a key for {name}"), has) {
            did.listen = Some((id, true));
        }
        if button(ui, "Remove", format!("Remove the keys of {name}"), has) {
            did.press = Some(Key::Backspace);
        }
        if button(
            ui,
            "Reset",
            format!("Reset {name}: {}", first(id)),
            app.keys.is_changed(id),
        ) {
            did.press = Some(Key::Delete);
        }
    });
}
