//! Draws the field for a path.

use super::app::App;
use super::pick::{Can, Pick};
use crate::theme::{body, mono, palette, small, strong, text, widgets};
use egui::{Context, Key, Modifiers, RichText, vec2};

/// Puts the caret of a field behind its text.
fn at_the_end(ctx: &Context, id: egui::Id, text: &str) {
    let mut state = egui::TextEdit::load_state(ctx, id).unwrap_or_default();
    let end = egui::text::CCursor::new(text.chars().count());
    state.cursor.set_char_range(Some(egui::text::CCursorRange::one(end)));
    state.store(ctx, id);
}

/// Draws the field when it is open.
pub(super) fn draw(app: &mut App, ctx: &Context) {
    let Some(mut open) = app.typed.take() else { return };
    open.look();
    let (tab, enter, escape) = ctx.input_mut(|i| {
        (
            i.consume_key(Modifiers::NONE, Key::Tab),
            i.consume_key(Modifiers::NONE, Key::Enter),
            i.consume_key(Modifiers::NONE, Key::Escape),
        )
    });
    if let Some(first) = open.found.1.first().cloned().filter(|_| tab) {
        open.complete(&first);
        open.look();
    }
    let can = open.can();
    let mut done = enter && can == Can::Take;
    let mut keep = !escape;
    let width = 560.0_f32.min(ctx.content_rect().width() - 40.0);
    egui::Window::new(open.title())
        .collapsible(false)
        .resizable(false)
        .default_pos(egui::pos2((ctx.content_rect().width() - width) / 2.0, 60.0))
        .fixed_size(vec2(width, 0.0))
        .show(ctx, |ui| {
            let p = palette(ui);
            let why = "This desktop has no file dialog for programs (neither a portal nor zenity), so type the path.";
            ui.label(RichText::new(why).font(small()).color(p.quiet));
            ui.add_space(6.0);
            let edit = egui::TextEdit::singleline(&mut open.text)
                .id(egui::Id::unique("typed-path"))
                .font(mono())
                .desired_width(f32::INFINITY)
                .margin(vec2(8.0, 6.0));
            let r = ui.add(edit).accessible_name("Path");
            if !open.focused || tab || enter {
                at_the_end(ui.ctx(), r.id, &open.text);
                r.request_focus();
                open.focused = true;
            }
            ui.add_space(4.0);
            for found in open.found.1.clone() {
                let shown = if found.folder {
                    format!("{}/", found.name)
                } else {
                    found.name.clone()
                };
                let shown = text::middle(&shown, 60);
                let link = egui::Button::new(RichText::new(shown).font(body())).frame(false);
                if ui.add(link).clicked() {
                    open.complete(&found);
                    open.focused = false;
                }
            }
            if open.found.1.is_empty() {
                ui.label(RichText::new("nothing lies there").font(small()).color(p.quiet));
            }
            ui.add_space(8.0);
            ui.horizontal(|ui| {
                let (label, name) = match (&open.what, can) {
                    (_, Can::Replace) => ("Replace", "Replace the file"),
                    (Pick::Save(_), _) => ("Save", "Save there"),
                    (Pick::Buffer, _) => ("Load", "Load this file"),
                    (Pick::Rules, _) => ("Open", "Open these rules"),
                    (Pick::Code, _) => ("Try", "Try this code"),
                    _ => ("Open", "Open this path"),
                };
                let enabled = !matches!(can, Can::Nothing(_));
                done |= widgets::primary_button(ui, label, name, enabled).clicked();
                keep &= !ui.button("Cancel").clicked();
                match can {
                    Can::Nothing(why) => drop(ui.label(RichText::new(why).font(small()).color(p.quiet))),
                    Can::Replace => {
                        let what = RichText::new("! The file is there already.")
                            .font(strong())
                            .color(p.warning);
                        ui.label(what);
                    }
                    Can::Take => {}
                }
            });
        });
    if done {
        let path = open.path();
        (open.act)(app, ctx, path);
    } else if keep {
        app.typed = Some(open);
    }
}
