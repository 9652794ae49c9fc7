//! Commands for the notebook, and links to events.

use super::{COMMANDS, doc, with_document};
use crate::log::{self, Level};
use crate::panels::recording::notebook::current_note;
use crate::window::{App, Pick, Shot, layout, write_notebook};
use egui::Context;
use kinescope_files::scene::Selection;
use kinescope_session::text;

/// Size of the notebook pictures, points.
const PICTURE: [f32; 2] = [1280.0, 800.0];

fn step(app: &mut App, forward: bool) {
    with_document(app, |d| {
        let here = current_note(d).unwrap_or(d.current_event());
        let notes = d.changes().notes();
        let next = if forward {
            notes.range(here.saturating_add(1)..).next()
        } else {
            notes.range(..here).next_back()
        };
        // Wraps around at the end, as findings do.
        let round = if forward {
            notes.iter().next()
        } else {
            notes.iter().next_back()
        };
        if let Some(event) = next.or(round).map(|n| *n.0) {
            d.go_with(event, Selection::Note(event));
        }
    });
}

pub fn next(app: &mut App, _: &Context) {
    step(app, true);
}

pub fn previous(app: &mut App, _: &Context) {
    step(app, false);
}

/// Shows what the selected note was made from.
pub fn open(app: &mut App, _: &Context) {
    let scene = doc(app).and_then(|d| {
        let event = current_note(d)?;
        Some(d.changes().notes().get(&event)?.scene(event))
    });
    if let Some(scene) = scene {
        app.show_scene(&scene);
    }
}

pub fn keep_view(app: &mut App, _: &Context) {
    let panels = layout::active_panels(&app.dock);
    with_document(app, |d| {
        let Some(event) = current_note(d) else { return };
        if event != d.current_event() {
            d.go_with(event, d.selection().clone());
        }
        if d.note_scene("", &panels) {
            log::push(
                Level::Info,
                format!("the note at event {} keeps this view", text::count(event)),
            );
        }
    });
}

pub fn copy_link(app: &mut App, ctx: &Context) {
    if let Some(link) = app.link() {
        let link = link.to_string();
        log::push(Level::Info, format!("copied {}", text::truncate_middle(&link, 80)));
        ctx.copy_text(link);
    }
}

/// Asks for a path and writes the notebook with a picture for each entry. The file name selects the format.
pub fn export(app: &mut App, ctx: &Context) {
    let Some(d) = doc(app) else { return };
    let name = format!("{}-notes.html", d.title.strip_suffix(".kine").unwrap_or(&d.title));
    app.pick(ctx, Pick::Save(name), |app, ctx, path| {
        let theme = app.theme();
        let Some(copy) = doc(app).map(kinescope_session::Document::copy) else {
            return;
        };
        app.tasks
            .spawn(ctx, format!("writing {}", path.display()), move |progress| {
                let shot = Shot {
                    size: PICTURE,
                    scale: 1.0,
                    theme,
                    commands: COMMANDS,
                };
                let done = write_notebook(copy, &path, Some(&shot), progress);
                let stopped = progress.check().is_err();
                Box::new(move |app| match done {
                    Ok(w) => {
                        let notes = text::count_noun(w.notes, "note", "notes");
                        let pictures = text::count_noun(w.pictures, "picture", "pictures");
                        app.info(format!("exported {}: {notes}, {pictures}", path.display()));
                        if let Some(why) = w.no_pictures_reason {
                            log::push(Level::Warning, format!("the notebook has no pictures: {why}"));
                        }
                    }
                    Err(_) if stopped => app.info(format!("writing {} was stopped", path.display())),
                    Err(e) => app.error("the notebook was not exported", &e.to_string()),
                })
            });
    });
}
