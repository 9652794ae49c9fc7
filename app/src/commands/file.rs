//! File commands: open, save, close.

use super::doc;
use crate::window::{App, LeaveAction, Pick, Question, TrimSheet, TrimTask};
use egui::Context;
use kinescope_files::output;
use kinescope_session::{GrowthState, plan_file, sample};
use std::sync::Arc;

pub fn open(app: &mut App, ctx: &Context) {
    app.pick(ctx, Pick::Recording, |app, ctx, path| app.open(ctx, path));
}

pub fn open_folder(app: &mut App, ctx: &Context) {
    app.pick(ctx, Pick::Folder, |app, ctx, path| app.open(ctx, path));
}

pub fn open_sample(app: &mut App, ctx: &Context) {
    if let Some(p) = sample::path() {
        app.open(ctx, p);
    }
}

/// Asks for the path of a recording that a recorder writes, and follows it.
pub fn follow(app: &mut App, _: &Context) {
    app.pick_followed();
}

/// Follows the recording again of which a part is open.
pub fn follow_again(app: &mut App, ctx: &Context) {
    if let Some(path) = doc(app).map(|d| d.path.clone()) {
        app.follow_file(ctx, path);
    }
}

pub fn stop_following(app: &mut App, _: &Context) {
    app.stop_following();
}

/// Opens the sheet that starts a program.
pub fn run_program(app: &mut App, ctx: &Context) {
    app.open_program_sheet(ctx);
}

/// Shows the output of the program that runs or has run last.
pub fn show_program(app: &mut App, _: &Context) {
    app.show_program();
}

/// Asks the program to end; again: ends it at once.
pub fn stop_program(app: &mut App, _: &Context) {
    app.stop_program();
}

pub fn save_snapshot(app: &mut App, ctx: &Context) {
    app.save_snapshot(ctx);
}

/// Saves a copy as recorded or with the edits. If there are edits, asks the user which. Of a recording that grows, saves
/// a snapshot.
pub fn save_kine(app: &mut App, ctx: &Context) {
    let Some(d) = doc(app) else { return };
    if d.growth() != GrowthState::Complete {
        app.save_snapshot(ctx);
    } else if d.changes().inputs().is_empty() {
        app.save_copy(ctx, false);
    } else {
        app.question = Some(Question::SaveCopy);
    }
}

pub(super) fn save_bytes(app: &mut App, ctx: &Context, name: String, what: &'static str, bytes: Vec<u8>) {
    app.pick(ctx, Pick::Save(name), move |app, ctx, path| {
        app.tasks.spawn(ctx, format!("saving {}", path.display()), move |_| {
            let done = output::write(&path, &bytes).map_err(|e| e.to_string());
            Box::new(move |app| match done {
                Ok(()) => app.info(format!("saved {}", path.display())),
                Err(e) => app.error(&format!("the {what} was not saved"), &e),
            })
        });
    });
}

/// Opens the sheet that trims the recording.
pub fn trim(app: &mut App, _: &Context) {
    app.trim_sheet = doc(app).map(|d| TrimSheet::new(d, TrimTask::Trim));
}

pub fn save_outcome(app: &mut App, ctx: &Context) {
    let Some((name, bytes)) =
        doc(app).and_then(|d| Some((d.title.clone(), d.replay.outcome.as_ref()?.recording.clone())))
    else {
        return;
    };
    let name = format!("{}-outcome.kine", name.strip_suffix(".kine").unwrap_or(&name));
    save_bytes(app, ctx, name, "outcome", bytes);
}

pub fn save_plan(app: &mut App, ctx: &Context) {
    let Some((name, plan)) = doc(app).and_then(|d| Some((d.title.clone(), Arc::clone(&d.replay.plan.as_ref()?.0))))
    else {
        return;
    };
    let name = format!("{}.plan.txt", name.strip_suffix(".kine").unwrap_or(&name));
    app.pick(ctx, Pick::Save(name), move |app, ctx, path| {
        app.tasks.spawn(ctx, format!("saving {}", path.display()), move |_| {
            let bytes = plan_file::to_bytes(&path, &plan).map_err(|e| e.to_string());
            let done = bytes.and_then(|bytes| output::write(&path, &bytes).map_err(|e| e.to_string()));
            Box::new(move |app| match done {
                Ok(()) => app.info(format!("saved {}", path.display())),
                Err(e) => app.error("the plan was not saved", &e),
            })
        });
    });
}

pub fn reload(app: &mut App, ctx: &Context) {
    if let Some(p) = doc(app).map(|d| d.path.clone()) {
        app.open(ctx, p);
    }
}

pub fn close(app: &mut App, ctx: &Context) {
    app.leave(ctx, LeaveAction::Close);
}

pub fn quit(app: &mut App, ctx: &Context) {
    app.leave(ctx, LeaveAction::Quit);
}
