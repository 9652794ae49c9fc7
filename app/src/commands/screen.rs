//! Screen commands: pictures as files, stores to the selected pixel.

use super::with_document;
use crate::window::{App, Pick};
use egui::Context;
use kinescope_files::output;
use kinescope_session::screen::files::{self, FileError};

/// Number of frames of an animation.
const FRAMES: u32 = 60;

fn file_name(app: &App, what: &str) -> Option<String> {
    let d = app.doc.as_ref()?;
    let title = d.title.split('.').next().unwrap_or("recording");
    Some(format!("{title}-{what}.png"))
}

/// Asks for a path and writes the picture that the stores produced.
pub fn save_picture(app: &mut App, ctx: &Context) {
    let (Some(drawn), Some(name)) = (app.views.screen.drawn().cloned(), file_name(app, "screen")) else {
        return;
    };
    app.pick(ctx, Pick::Save(name), move |app, ctx, path| {
        app.tasks.spawn(ctx, format!("saving {}", path.display()), move |_| {
            let made = files::png(drawn.width(), drawn.height(), &drawn.to_rgba()).map_err(|e| e.to_string());
            let done = made.and_then(|png| output::write(&path, &png).map_err(|e| e.to_string()));
            Box::new(move |app| match done {
                Ok(()) => app.info(format!("the screen saved as {}", path.display())),
                Err(e) => app.error("the screen was not saved", &e),
            })
        });
    });
}

/// Asks for a path and writes the screen as an animated PNG, from the first event with a screen to the current event.
pub fn save_animation(app: &mut App, ctx: &Context) {
    let (Some(screen), Some(name)) = (app.views.screen.screen().cloned(), file_name(app, "film")) else {
        return;
    };
    let Some(last) = app.doc.as_ref().map(|d| d.current_event()) else {
        return;
    };
    let source = app.views.screen.source();
    app.pick(ctx, Pick::Save(name), move |app, ctx, path| {
        let title = format!("saving {}", path.display());
        app.tasks.spawn(ctx, title, move |progress| {
            let events = screen.frame_events(last, FRAMES);
            let done: Result<(), FileError> = output::write_with(&path, |mut file| {
                files::film(&screen, source, &events, &mut file, progress)
            });
            Box::new(move |app| match done {
                Ok(()) => app.info(format!("{} pictures saved as {}", events.len(), path.display())),
                Err(e) => app.error("the film was not saved", &e.to_string()),
            })
        });
    });
}

pub fn next_store(app: &mut App, _: &Context) {
    step(app, true);
}

pub fn previous_store(app: &mut App, _: &Context) {
    step(app, false);
}

fn step(app: &mut App, forward: bool) {
    let to = app
        .doc
        .as_ref()
        .and_then(|d| app.views.screen.find_next_store(d, forward));
    if let Some(e) = to {
        with_document(app, |d| d.go_keeping_target(e));
    }
}
