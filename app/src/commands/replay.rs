//! Replays and boards.

use super::{doc, with};
use crate::document::{Document, derive};
use crate::window::{App, layout};
use egui::Context;
use std::sync::Arc;

pub fn replay(app: &mut App, ctx: &Context) {
    app.replay(ctx, 1, "replay");
}

pub fn replay_ten(app: &mut App, ctx: &Context) {
    app.replay(ctx, 10, "replay-ten");
}

pub fn plan(app: &mut App, ctx: &Context) {
    app.plan(ctx);
    layout::show(&mut app.dock, "replay");
}

pub fn cancel(app: &mut App, _: &Context) {
    app.tasks.cancel_all();
}

pub fn toggle_pace(app: &mut App, _: &Context) {
    with(app, |d| {
        d.replay.keep_gaps = !d.replay.keep_gaps;
        d.replay.plan = None;
        d.replay.verified = None;
    });
}

pub fn open_outcome(app: &mut App, ctx: &Context) {
    let Some((path, outcome)) = doc(app).and_then(|d| Some((d.path.clone(), Arc::clone(d.replay.outcome.as_ref()?))))
    else {
        return;
    };
    app.tasks.spawn(ctx, "opening the outcome", move |progress| {
        let read = trace_core::container::from_bytes(outcome.recording.clone()).map_err(|e| e.to_string());
        let made = read.and_then(|r| {
            let facts = derive::derive(&r, progress).map_err(|e| e.to_string())?;
            let name = path
                .file_name()
                .map(|n| n.to_string_lossy().into_owned())
                .unwrap_or_default();
            let stem = name.strip_suffix(".kine").unwrap_or(&name);
            Ok(Document::new(
                path.with_file_name(format!("{stem}-outcome.kine")),
                Arc::new(r),
                Arc::new(facts),
            ))
        });
        Box::new(move |app| match made {
            Ok(d) => app.take(d),
            Err(e) => app.error("the outcome was not opened", &e),
        })
    });
}

pub fn find_boards(app: &mut App, ctx: &Context) {
    app.find_boards(ctx);
}

pub fn pair(app: &mut App, ctx: &Context) {
    app.pair(ctx);
}
