//! Commands for shader code, and for a thread traced through it.

use super::with_panel_context;
use crate::panels::gpu::shader;
use crate::window::{App, layout};
use egui::Context;

/// Brings the panel to the front, so that the effect is visible.
fn show_panel(app: &mut App) {
    layout::show(&mut app.dock, "shader");
}

pub fn follow_thread(app: &mut App, _: &Context) {
    let seen = layout::active_panels(&app.dock).contains(&"shader");
    show_panel(app);
    // If the panel was not visible, the user wants to see the thread.
    with_panel_context(app, |d| d.views.shader.toggle_thread(!seen));
}

pub fn run_thread(app: &mut App, _: &Context) {
    show_panel(app);
    with_panel_context(app, |d| shader::run(d.doc, &mut d.views.shader, d.actions));
}

pub fn next_clause(app: &mut App, _: &Context) {
    with_panel_context(app, |d| shader::thread::step_by(&mut d.views.shader, 1));
}

pub fn previous_clause(app: &mut App, _: &Context) {
    with_panel_context(app, |d| shader::thread::step_by(&mut d.views.shader, -1));
}

pub fn forward_to_break(app: &mut App, _: &Context) {
    with_panel_context(app, |d| shader::thread::run_to_stop(&mut d.views.shader, true));
}

pub fn back_to_break(app: &mut App, _: &Context) {
    with_panel_context(app, |d| shader::thread::run_to_stop(&mut d.views.shader, false));
}

pub fn toggle_break(app: &mut App, _: &Context) {
    with_panel_context(app, |d| {
        if let Some(at) = d.views.shader.address() {
            d.views.shader.thread.stops.toggle(at);
        }
    });
}

fn to_clause(app: &mut App, forward: bool) {
    with_panel_context(app, |d| {
        if let Some(at) = d.views.shader.address() {
            shader::thread::step_to_clause(&mut d.views.shader, at, forward);
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
    show_panel(app);
    app.views.shader.focus_search = true;
}

pub fn next_unknown(app: &mut App, _: &Context) {
    show_panel(app);
    with_panel_context(app, |d| shader::next_unknown(&mut d.views.shader));
}

pub fn copy(app: &mut App, ctx: &Context) {
    if let Some(listing) = &app.views.shader.listing {
        ctx.copy_text(listing.text(0..listing.begins.len()));
    }
}

pub fn bytes(app: &mut App, _: &Context) {
    with_panel_context(app, |d| shader::show_bytes(d.doc, &d.views.shader, d.actions));
}
