//! View commands: timeline view, themes, sides, panels.

use super::{with_document, with_panel_context};
use crate::panels;
use crate::panels::contents::memory::Side;
use crate::theme::{ThemeChoice, focus};
use crate::window::layout::FloatingPanel;
use crate::window::{App, layout};
use egui::Context;
use kinescope_session::axis::AxisKind;

fn now(ctx: &Context) -> f64 {
    ctx.input(|i| i.time)
}

pub fn fit(app: &mut App, ctx: &Context) {
    let t = now(ctx);
    with_panel_context(app, |d| d.views.timeline.fit(d.doc, t));
}

pub fn zoom_in(app: &mut App, ctx: &Context) {
    let t = now(ctx);
    with_panel_context(app, |d| d.views.timeline.zoom(d.doc, 1.6, None, t));
}

pub fn zoom_out(app: &mut App, ctx: &Context) {
    let t = now(ctx);
    with_panel_context(app, |d| d.views.timeline.zoom(d.doc, 1.0 / 1.6, None, t));
}

pub fn pan_left(app: &mut App, ctx: &Context) {
    let t = now(ctx);
    with_panel_context(app, |d| d.views.timeline.pan(d.doc, -0.2, t));
}

pub fn pan_right(app: &mut App, ctx: &Context) {
    let t = now(ctx);
    with_panel_context(app, |d| d.views.timeline.pan(d.doc, 0.2, t));
}

/// Shows the range between the cursors.
pub fn zoom_cursors(app: &mut App, ctx: &Context) {
    let t = now(ctx);
    with_panel_context(app, |d| {
        if let Some(span) = d.doc.cursor_span() {
            d.views.timeline.zoom_to_events(d.doc, span.first, span.last, t);
        }
    });
}

pub fn reset_lanes(app: &mut App, _: &Context) {
    app.views.timeline.heights.clear();
}

pub fn reset_columns(app: &mut App, _: &Context) {
    app.actions.tables.reset();
}

pub fn axis_order(app: &mut App, _: &Context) {
    with_panel_context(app, |d| d.views.timeline.set_axis(d.doc, AxisKind::Order));
}

pub fn axis_compressed(app: &mut App, _: &Context) {
    with_panel_context(app, |d| d.views.timeline.set_axis(d.doc, AxisKind::Compressed));
}

pub fn axis_time(app: &mut App, _: &Context) {
    with_panel_context(app, |d| d.views.timeline.set_axis(d.doc, AxisKind::Time));
}

pub fn next_pane(_: &mut App, ctx: &Context) {
    focus::next_pane(ctx, true);
}

pub fn previous_pane(_: &mut App, ctx: &Context) {
    focus::next_pane(ctx, false);
}

/// Cycles the number format of values in all panels.
pub fn numbers(app: &mut App, _: &Context) {
    with_document(app, |d| d.numbers = d.numbers.next());
}

pub fn toggle_theme(app: &mut App, ctx: &Context) {
    app.choose_theme(ctx, app.theme().next());
}

/// Sets the high contrast theme, or the dark theme if high contrast is already set.
pub fn high_contrast(app: &mut App, ctx: &Context) {
    let to = match app.theme() {
        ThemeChoice::Contrast => ThemeChoice::Dark,
        _ => ThemeChoice::Contrast,
    };
    app.choose_theme(ctx, to);
}

pub fn larger(app: &mut App, ctx: &Context) {
    app.rescale(ctx, Some(10));
}

pub fn smaller(app: &mut App, ctx: &Context) {
    app.rescale(ctx, Some(-10));
}

pub fn first_size(app: &mut App, ctx: &Context) {
    app.rescale(ctx, None);
}

pub fn toggle_outline(app: &mut App, _: &Context) {
    app.outline = !app.outline;
}

pub fn toggle_inspector(app: &mut App, _: &Context) {
    app.inspector = !app.inspector;
    // A user who changes this in a narrow window finds it the same in a wide one.
    app.sides.folded = false;
}

/// Returns the tab panel in front that can become a separate window.
pub fn find_floatable_panel(app: &App) -> Option<&'static str> {
    app.doc.as_ref()?;
    layout::active_panels(&app.dock).into_iter().find(|p| *p != "timeline")
}

pub fn float_panel(app: &mut App, _: &Context) {
    if let Some(id) = find_floatable_panel(app) {
        layout::close(&mut app.dock, id);
        app.floating.push(FloatingPanel::new(id));
    }
}

/// Applies a layout of the register map to the selection in Memory, or removes it.
pub fn structure(app: &mut App, _: &Context) {
    layout::show(&mut app.dock, "memory");
    with_panel_context(app, |d| {
        panels::contents::memory::toggle_structure(d.doc, &mut d.views.memory)
    });
}

/// Toggles device memory between before and after the current event, and before it only.
pub fn before_after(app: &mut App, _: &Context) {
    let side = &mut app.views.memory.device.side;
    *side = match side {
        Side::Both => Side::Before,
        _ => Side::Both,
    };
    layout::show(&mut app.dock, "memory");
}

pub fn page_map(app: &mut App, _: &Context) {
    app.views.tables.as_map ^= true;
    layout::show(&mut app.dock, "page-tables");
}

pub fn dock_back(app: &mut App, _: &Context) {
    for t in std::mem::take(&mut app.floating) {
        layout::show(&mut app.dock, t.panel);
    }
}

pub fn reset_layout(app: &mut App, _: &Context) {
    app.reset_arrangement();
}

macro_rules! show {
    ($($name:ident $id:literal)*) => {
        $(pub fn $name(app: &mut App, _: &Context) {
            layout::show(&mut app.dock, $id);
        })*
    };
}

show! {
    show_timeline "timeline"
    show_events "events"
    show_launches "launches"
    show_kernel "kernel"
    show_wasm "wasm"
    show_objects "objects"
    show_address_space "address-space"
    show_push_buffer "push-buffer"
    show_register "register"
    show_plots "plots"
    show_memory "memory"
    show_page_tables "page-tables"
    show_jobs "jobs"
    show_shader "shader"
    show_inputs "inputs"
    show_screen "screen"
    show_replay "replay"
    show_tune "tune"
    show_pipeline "pipeline"
    show_campaign "campaign"
    show_compare "compare"
    show_notebook "notebook"
    show_problems "problems"
    show_log "log"
}
