//! Help commands, and the log for bug reports.

use crate::log;
use crate::window::{App, KeysSheet};
use egui::Context;

pub fn help(app: &mut App, _: &Context) {
    app.help = !app.help;
}

pub fn keys(app: &mut App, _: &Context) {
    app.keys_sheet = match app.keys_sheet {
        Some(_) => None,
        None => Some(KeysSheet::default()),
    };
    app.help = false;
}

pub fn copy_log(_: &mut App, ctx: &Context) {
    ctx.copy_text(log::text());
}

pub fn about(app: &mut App, _: &Context) {
    app.about = !app.about;
}

pub fn tour(app: &mut App, ctx: &Context) {
    app.begin_tour(ctx);
}
