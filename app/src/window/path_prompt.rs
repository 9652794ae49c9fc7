//! The drawing of the path prompt.

use super::app::App;
use super::pick::{PathCheck, PathPrompt, Pick};
use crate::theme::{body, mono, palette, small, strong, widgets};
use egui::text::{CCursor, CCursorRange};
use egui::{Align2, Context, Key, Modifiers, RichText, Ui, vec2};
use kinescope_session::text;
use std::ops::Range;

/// Selects a range of a text field, in characters; the caret goes to its end.
fn select(ctx: &Context, id: egui::Id, part: Range<usize>) {
    let mut state = egui::TextEdit::load_state(ctx, id).unwrap_or_default();
    let (from, to) = (CCursor::new(part.start), CCursor::new(part.end));
    state.cursor.set_char_range(Some(CCursorRange::two(from, to)));
    state.store(ctx, id);
}

/// Returns the range of a suggested path to select when the prompt opens: the file name without extension, which the
/// user most likely changes. Empty for a folder.
fn name_stem_range(text: &str) -> Range<usize> {
    let name = text.rfind('/').map_or(0, |at| at + 1);
    let stem = text.get(name..).and_then(|n| n.find('.').filter(|dot| *dot > 0));
    let end = stem.map_or(text.len(), |dot| name + dot);
    let chars = |bytes: usize| text.get(..bytes).map_or(0, |t| t.chars().count());
    chars(name)..chars(end)
}

/// Keys that were pressed in the prompt.
struct PromptKeys {
    /// Enter, if it did not open a folder.
    enter: bool,
    escape: bool,
    /// Whether a key completed the path or moved along the matches.
    moved: bool,
}

/// Handles the keys of the prompt: Tab completes, Enter opens a folder, Down and Up step through the matches.
fn take_keys(open: &mut PathPrompt<App>, ctx: &Context) -> PromptKeys {
    open.refresh_matches();
    let (tab, enter, escape) = ctx.input_mut(|i| {
        (
            i.consume_key(Modifiers::NONE, Key::Tab),
            i.consume_key(Modifiers::NONE, Key::Enter),
            i.consume_key(Modifiers::NONE, Key::Escape),
        )
    });
    // Enter opens a folder, unless a folder is requested.
    let chosen = open
        .chosen_entry()
        .filter(|f| tab || f.folder && open.check_path() != PathCheck::Take);
    let (mut completed, mut enter) = (tab, enter);
    if let Some(entry) = chosen.filter(|_| tab || enter) {
        open.complete(&entry);
        (completed, enter) = (true, false);
    } else if tab {
        open.complete_text();
    }
    if completed {
        open.refresh_matches();
    }
    // Down and Up step through the matches. The text becomes what a click on the match would make it.
    let step = ctx.input_mut(|i| {
        let down = i.consume_key(Modifiers::NONE, Key::ArrowDown);
        let up = i.consume_key(Modifiers::NONE, Key::ArrowUp);
        i8::from(down) - i8::from(up)
    });
    let stepped = open.step(step);
    PromptKeys {
        enter,
        escape,
        moved: completed || stepped,
    }
}

/// Draws the files and folders that match the path; a click completes it.
fn draw_matches(open: &mut PathPrompt<App>, ui: &mut Ui) {
    for (n, found) in open.found.1.clone().into_iter().enumerate() {
        let shown = if found.folder {
            format!("{}/", found.name)
        } else {
            found.name.clone()
        };
        let shown = text::truncate_middle(&shown, 60);
        let link = egui::Button::selectable(open.chosen == Some(n), RichText::new(shown).font(body()));
        if ui.add(link).clicked() {
            open.complete(&found);
            open.focused = false;
        }
    }
}

/// Draws the buttons, and what prevents the first one or what it replaces.
fn draw_buttons(open: &PathPrompt<App>, ui: &mut Ui, can: PathCheck, done: &mut bool, keep: &mut bool) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        let (label, name) = match (&open.what, can) {
            (_, PathCheck::Replace) => ("Replace", "Replace the file"),
            (Pick::Save(_), _) => ("Save", "Save there"),
            (Pick::Follow, _) => ("Follow", "Follow this recording"),
            (Pick::Buffer, _) => ("Load", "Load this file"),
            (Pick::Rules, _) => ("Open", "Open these rules"),
            (Pick::Code, _) => ("Try", "Try this code"),
            (Pick::Program, _) => ("Use", "Use this program"),
            (Pick::ExpectedOutput | Pick::ExpectedScreen | Pick::Plan, _) => ("Use", "Use this file"),
            _ => ("Open", "Open this path"),
        };
        let enabled = !matches!(can, PathCheck::Invalid(_));
        *done |= widgets::primary_button(ui, label, name, enabled).clicked();
        *keep &= !ui.button("Cancel").clicked();
        match can {
            PathCheck::Invalid(why) => drop(ui.label(RichText::new(why).font(small()).color(p.quiet))),
            PathCheck::Replace => {
                let what = RichText::new("! The file is there already.")
                    .font(strong())
                    .color(p.warning);
                ui.label(what);
            }
            PathCheck::Take if open.what == Pick::Follow && !open.path().exists() => {
                ui.label(RichText::new("No file yet").font(small()).color(p.quiet));
            }
            PathCheck::Take if matches!(open.what, Pick::Save(_)) => {
                ui.label(RichText::new("New file").font(small()).color(p.quiet));
            }
            PathCheck::Take => {}
        }
    });
}

/// Draws the prompt if it is open.
pub(super) fn draw(app: &mut App, ctx: &Context) {
    let Some(mut open) = app.path_prompt.take() else { return };
    let keys = take_keys(&mut open, ctx);
    let can = open.check_path();
    let mut done = keys.enter && can == PathCheck::Take;
    let mut keep = !keys.escape;
    let width = 560.0_f32.min(ctx.content_rect().width() - 40.0);
    // Above everything, including menus: nothing below it receives a click or a key.
    egui::Modal::new(egui::Id::unique("path"))
        .area(egui::Modal::default_area(egui::Id::unique("path")).anchor(Align2::CENTER_TOP, vec2(0.0, 60.0)))
        .show(ctx, |ui| {
            ui.set_width(width);
            let p = palette(ui);
            ui.label(RichText::new(open.title()).font(strong()).size(14.0));
            ui.add_space(6.0);
            let why = match open.what {
                Pick::Follow => "The file that a recorder writes, or will write. The window waits for it.",
                _ => "This desktop has no file dialog for programs (neither a portal nor zenity), so type the path.",
            };
            ui.label(RichText::new(why).font(small()).color(p.quiet));
            ui.add_space(6.0);
            let edit = egui::TextEdit::singleline(&mut open.text)
                .id(egui::Id::unique("typed-path"))
                .font(mono())
                .desired_width(f32::INFINITY)
                // Tab completes the path and keeps the focus.
                .lock_focus(true)
                .margin(vec2(8.0, 6.0));
            let r = ui.add(edit).accessible_name("Path");
            if !open.focused || keys.enter || keys.moved {
                let end = open.text.chars().count();
                let part = match (&open.what, open.offered) {
                    (Pick::Save(_), true) => name_stem_range(&open.text),
                    _ => end..end,
                };
                select(ui.ctx(), r.id, part);
                r.request_focus();
                (open.focused, open.offered) = (true, false);
            }
            ui.add_space(4.0);
            draw_matches(&mut open, ui);
            ui.add_space(8.0);
            draw_buttons(&open, ui, can, &mut done, &mut keep);
        });
    if done {
        let path = open.path();
        (open.act)(app, ctx, path);
    } else if keep {
        app.path_prompt = Some(open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggested_path_selects_only_the_file_stem() {
        let selected_part = |text: &str| {
            let part = name_stem_range(text);
            let chars: Vec<char> = text.chars().collect();
            chars[part].iter().collect::<String>()
        };
        assert_eq!(selected_part("/traces/digits-edited.kine"), "digits-edited");
        assert_eq!(selected_part("/tr\u{e4}ces/log.txt.kine"), "log");
        assert_eq!(selected_part("/traces/plan"), "plan");
        assert_eq!(selected_part("/traces/.hidden"), ".hidden");
        assert_eq!(selected_part("/traces/"), "");
    }
}
