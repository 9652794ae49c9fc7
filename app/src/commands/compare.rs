//! Commands for the comparison with a second recording: next difference, cause of a difference, ignored differences.

use super::{doc, with_document, with_panel_context};
use crate::log::{self, Level};
use crate::panels;
use crate::panels::compare::Section;
use crate::window::{App, Pick, layout};
use egui::Context;
use kinescope_files::rules;
use kinescope_session::Document;
use kinescope_session::comparison::ComparisonSource;
use kinescope_session::difference::DifferenceRef;
use std::sync::Arc;
use trace_core::diff::DiffSide;

pub fn with_file(app: &mut App, ctx: &Context) {
    app.pick(ctx, Pick::Second, |app, ctx, path| {
        app.compare(ctx, ComparisonSource::File(path));
    });
}

pub fn with_folder(app: &mut App, ctx: &Context) {
    app.pick(ctx, Pick::Folder, |app, ctx, path| {
        app.compare(ctx, ComparisonSource::File(path));
    });
}

pub fn outcome(app: &mut App, ctx: &Context) {
    if let Some(o) = doc(app).and_then(|d| d.replay.outcome.clone()) {
        app.compare(ctx, ComparisonSource::Outcome(Arc::clone(&o)));
    }
}

pub fn end(app: &mut App, _: &Context) {
    with_document(app, |d| d.comparison.clear());
    app.views.compare = Default::default();
}

fn go(app: &mut App, forward: bool) {
    // In the byte comparison, the next difference is a byte.
    if app.views.compare.section == Section::Memory {
        return go_byte(app, forward);
    }
    with_document(app, |d| Document::go_difference(d, forward));
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
    with_panel_context(app, |d| {
        panels::compare::step(d.doc, &mut d.views.compare, d.actions, forward)
    });
}

pub fn next_byte(app: &mut App, _: &Context) {
    go_byte(app, true);
}

pub fn previous_byte(app: &mut App, _: &Context) {
    go_byte(app, false);
}

/// Returns the selected difference, in any section of the panel.
fn selected_difference(app: &App) -> Option<DifferenceRef> {
    let d = doc(app)?;
    let c = d.comparison.done.as_ref()?;
    panels::compare::current_difference(d, c, &app.views.compare)
}

/// Adds the widest rule that ignores the selected difference.
pub fn ignore_difference(app: &mut App, _: &Context) {
    let rule = selected_difference(app).and_then(|m| {
        let d = doc(app)?;
        m.rules(d, d.comparison.done.as_ref()?).pop()
    });
    match rule {
        Some(rule) => with_panel_context(app, |d| {
            panels::compare::add_rule(d.doc, &mut d.views.compare, d.actions, &rule);
        }),
        None => log::push(
            Level::Info,
            "no difference is selected, or no rule can exclude it: select a row in Compare".to_owned(),
        ),
    }
}

/// Goes to the earliest known step that leads to the selected difference.
pub fn cause(app: &mut App, _: &Context) {
    layout::show(&mut app.dock, "compare");
    let to = app.views.compare.cause_search.earliest_cause().map(|s| (s.a, s.b));
    with_document(app, |d| match to {
        Some((Some(a), _)) => d.go_step_of(DiffSide::A, a),
        Some((None, Some(b))) => d.go_step_of(DiffSide::B, b),
        _ => {
            "no earlier difference".clone_into(&mut d.comparison.jump_message);
        }
    });
}

pub fn show_rules(app: &mut App, _: &Context) {
    app.views.compare.select_section(Section::Rules.name());
    layout::show(&mut app.dock, "compare");
}

pub fn open_rules(app: &mut App, ctx: &Context) {
    app.pick(ctx, Pick::Rules, |app, ctx, path| match rules::read(&path) {
        Ok((_, text)) => {
            app.views.compare.rules.text = text;
            show_rules(app, ctx);
            with_panel_context(app, |d| {
                panels::compare::apply_rules(d.doc, &mut d.views.compare, d.actions);
            });
        }
        Err(e) => app.error("the rules were not loaded", &e.to_string()),
    });
}

pub fn save_rules(app: &mut App, ctx: &Context) {
    let name = doc(app).map_or_else(String::new, |d| {
        format!("{}.rules", d.title.strip_suffix(".kine").unwrap_or(&d.title))
    });
    let text = app.views.compare.rules.text.clone();
    super::file::save_bytes(app, ctx, name, "rules", text.into_bytes());
}
