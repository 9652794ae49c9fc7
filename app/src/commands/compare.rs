//! Comparing the open recording with another one.

use super::{at_desk, doc, with};
use crate::document::Document;
use crate::document::comparison::With;
use crate::panels;
use crate::panels::compare::Section;
use crate::window::{App, Pick, layout};
use egui::Context;
use std::sync::Arc;

pub fn with_file(app: &mut App, ctx: &Context) {
    app.pick(ctx, Pick::Recording, |app, ctx, path| {
        app.compare(ctx, With::File(path));
    });
}

pub fn with_folder(app: &mut App, ctx: &Context) {
    app.pick(ctx, Pick::Folder, |app, ctx, path| {
        app.compare(ctx, With::File(path));
    });
}

pub fn outcome(app: &mut App, ctx: &Context) {
    if let Some(o) = doc(app).and_then(|d| d.replay.outcome.clone()) {
        app.compare(ctx, With::Outcome(Arc::clone(&o)));
    }
}

pub fn end(app: &mut App, _: &Context) {
    with(app, |d| d.comparing.clear());
    app.views.compare = Default::default();
}

fn go(app: &mut App, forward: bool) {
    // Where bytes stand side by side, the next difference is a byte.
    if app.views.compare.section == Section::Memory {
        return go_byte(app, forward);
    }
    with(app, |d| Document::go_difference(d, forward));
    layout::show(&mut app.dock, "compare");
}

pub fn next(app: &mut App, _: &Context) {
    go(app, true);
}

pub fn previous(app: &mut App, _: &Context) {
    go(app, false);
}

fn go_byte(app: &mut App, forward: bool) {
    layout::show(&mut app.dock, "compare");
    at_desk(app, |d| {
        panels::compare::step(d.doc, &mut d.views.compare, d.asks, forward)
    });
}

pub fn next_byte(app: &mut App, _: &Context) {
    go_byte(app, true);
}

pub fn previous_byte(app: &mut App, _: &Context) {
    go_byte(app, false);
}
