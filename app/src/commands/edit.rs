//! Commands for user data: changes, notes, pins and copies.

use super::{doc, with_document, with_panel_context};
use crate::log;
use crate::panels;
use crate::panels::recording::plots::Section;
use crate::panels::views::PanelContext;
use crate::window::{App, Question, layout};
use egui::Context;
use kinescope_files::changes::{PlotLine, SavedFilter};
use kinescope_files::scene::Selection;
use kinescope_session::clipboard::{self, CopyFormat};
use kinescope_session::{Document, descriptions, text};

pub fn undo(app: &mut App, ctx: &Context) {
    let undone = app.doc.as_mut().and_then(Document::undo);
    if let Some(change) = undone {
        app.revert_name(ctx, &change, true);
    }
}

pub fn redo(app: &mut App, ctx: &Context) {
    let redone = app.doc.as_mut().and_then(Document::redo);
    if let Some(change) = redone {
        app.revert_name(ctx, &change, false);
    }
}

/// Opens the naming sheet for the selection.
pub fn name(app: &mut App, _: &Context) {
    app.begin_naming();
}

pub fn edit_input(app: &mut App, _: &Context) {
    layout::show(&mut app.dock, "inputs");
    with_panel_context(app, |d| {
        let at = d.views.inputs.editing.unwrap_or(0);
        panels::runs::inputs::edit_element(d.doc, &mut d.views.inputs, at);
    });
}

pub fn revert_input(app: &mut App, _: &Context) {
    with_panel_context(app, |d| {
        if let Some(b) = d.views.inputs.current_buffer(d.doc) {
            d.doc.revert(&b.name);
        }
    });
}

pub fn add_note(app: &mut App, _: &Context) {
    app.actions.give_focus("note");
    let panels = layout::active_panels(&app.dock);
    with_document(app, |d| {
        let at = d.current_event();
        if !d.changes().notes().contains_key(&at) {
            let line = descriptions::format_event(d, at);
            d.note_scene(&line, &panels);
        }
        d.go_with(at, Selection::Note(at));
    });
    app.inspector = true;
}

pub fn remove_note(app: &mut App, _: &Context) {
    with_document(app, |d| {
        let at = d.current_event();
        d.note(at, None);
        d.go(at);
    });
}

pub fn pin_register(app: &mut App, _: &Context) {
    with_document(app, |d| {
        if let Some(r) = d.current_register() {
            d.pin(r);
        }
    });
}

/// Plots the selected register and shows the plot, or removes the register from it.
pub fn plot_register(app: &mut App, _: &Context) {
    let mut shown = false;
    with_panel_context(app, |d| {
        if let Some(register) = d.doc.current_register() {
            let line = PlotLine { register, field: None };
            shown = d.doc.plot(&line) && d.doc.is_plotted(&line);
            if shown {
                d.views.plots.section = Section::Lines;
            }
        }
    });
    if shown {
        layout::show(&mut app.dock, "plots");
    }
}

/// Copies the selection in a format.
fn copy(app: &App, ctx: &Context, form: CopyFormat) {
    let Some(what) = doc(app).and_then(|d| clipboard::format_selection(d, d.selection(), form)) else {
        return;
    };
    let line = what.lines().find(|l| !l.starts_with("/*")).unwrap_or_default();
    log::push(log::Level::Info, format!("copied {}", text::truncate_middle(line, 60)));
    ctx.copy_text(what);
}

pub fn copy_selection(app: &mut App, ctx: &Context) {
    copy(app, ctx, CopyFormat::Text);
}

pub fn copy_as_c(app: &mut App, ctx: &Context) {
    copy(app, ctx, CopyFormat::C);
}

pub fn copy_as_json(app: &mut App, ctx: &Context) {
    copy(app, ctx, CopyFormat::Json);
}

/// Copies the whole PTX that the Kernel panel shows.
pub fn copy_ptx(app: &mut App, ctx: &Context) {
    if let Some(text) = app.views.kernel.code.as_ref().and_then(|c| c.ptx.clone()) {
        ctx.copy_text(text);
    }
}

pub fn restore_edits(app: &mut App, _: &Context) {
    with_document(app, Document::accept_offered);
}

pub fn discard_edits(app: &mut App, _: &Context) {
    app.question = Some(Question::DiscardEdits);
}

/// Returns the filter of the event table, and its saved filter if there is one.
fn current_filter(d: &PanelContext<'_>) -> Option<(String, Option<SavedFilter>)> {
    let view = &d.views.events;
    let text = view.filter.trim().to_owned();
    let fits = !text.is_empty() && view.wrong.is_none();
    let saved = d.doc.changes().filter(&text).cloned();
    fits.then_some((text, saved))
}

pub fn save_filter(app: &mut App, _: &Context) {
    with_panel_context(app, |d| {
        if let Some((text, saved)) = current_filter(d) {
            let new = saved.is_none().then(SavedFilter::default);
            d.doc.save_filter(&text, new);
        }
    });
}

pub fn filter_lane(app: &mut App, _: &Context) {
    with_panel_context(app, |d| {
        if let Some((text, saved)) = current_filter(d) {
            let saved = saved.unwrap_or_default();
            let lane = !saved.lane;
            d.doc.save_filter(&text, Some(SavedFilter { lane, ..saved }));
        }
    });
}
