//! The code of a shader, and a thread that goes along it.

use super::at_desk;
use crate::panels::shader;
use crate::window::{App, layout};
use egui::Context;

/// The panel in front, where what was done is seen.
fn shown(app: &mut App) {
    layout::show(&mut app.dock, "shader");
}

pub fn follow_thread(app: &mut App, _: &Context) {
    let seen = layout::active(&app.dock).contains(&"shader");
    shown(app);
    // Where the panel was not in view, what is asked for is to see the thread.
    at_desk(app, |d| d.views.shader.toggle_thread(!seen));
}

pub fn run_thread(app: &mut App, _: &Context) {
    shown(app);
    at_desk(app, |d| shader::run(d.doc, &mut d.views.shader, d.asks));
}

pub fn next_clause(app: &mut App, _: &Context) {
    at_desk(app, |d| shader::thread::go(&mut d.views.shader, 1));
}

pub fn previous_clause(app: &mut App, _: &Context) {
    at_desk(app, |d| shader::thread::go(&mut d.views.shader, -1));
}

pub fn on_to_break(app: &mut App, _: &Context) {
    at_desk(app, |d| shader::thread::go_on(&mut d.views.shader, true));
}

pub fn back_to_break(app: &mut App, _: &Context) {
    at_desk(app, |d| shader::thread::go_on(&mut d.views.shader, false));
}

pub fn toggle_break(app: &mut App, _: &Context) {
    at_desk(app, |d| {
        if let Some(at) = d.views.shader.address() {
            d.views.shader.thread.stops.toggle(at);
        }
    });
}

fn to_clause(app: &mut App, forward: bool) {
    at_desk(app, |d| {
        if let Some(at) = d.views.shader.address() {
            shader::thread::go_to(&mut d.views.shader, at, forward);
        }
    });
}

pub fn thread_to_clause(app: &mut App, _: &Context) {
    to_clause(app, true);
}

pub fn back_to_clause(app: &mut App, _: &Context) {
    to_clause(app, false);
}

pub fn search(app: &mut App, _: &Context) {
    shown(app);
    app.views.shader.focus_search = true;
}

pub fn next_unknown(app: &mut App, _: &Context) {
    shown(app);
    at_desk(app, |d| shader::next_unknown(&mut d.views.shader));
}

pub fn copy(app: &mut App, ctx: &Context) {
    if let Some(listing) = &app.views.shader.listing {
        ctx.copy_text(listing.text(0..listing.begins.len()));
    }
}

pub fn bytes(app: &mut App, _: &Context) {
    at_desk(app, |d| shader::show_bytes(d.doc, &d.views.shader, d.asks));
}
