//! The cause of a difference: the steps from it back to the earliest possible cause, each a link.

use super::view::{CauseSearch, View};
use crate::panels::common::actions::UiActions;
use crate::theme::{ROW, body, mono, palette, small, widgets};
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Sense, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::comparison::Comparison;
use kinescope_session::difference::DifferenceRef;
use kinescope_session::{Document, field_pairs, text};
use std::sync::Arc;
use trace_core::diff::{CauseStep, DiffSide, Effect, Link};

impl CauseSearch {
    /// Starts the search for the cause of a difference, unless it is known or already requested.
    fn start(&mut self, doc: &Document, c: &Arc<Comparison>, effect: Effect, actions: &mut UiActions) {
        let key = (doc.comparison.shown, effect);
        if self.key.as_ref() == Some(&key) {
            return;
        }
        if let Some(old) = self.searching.take() {
            old.cancel();
        }
        self.cause = None;
        self.key = Some(key.clone());
        let (recording, c) = (Arc::clone(&doc.recording), Arc::clone(c));
        let progress = actions.start_work::<View>("looking for the cause of a difference", move |progress| {
            let found = c.why(&recording, key.1.clone(), progress);
            Box::new(move |_, view, _| {
                let why = &mut view.cause_search;
                // The user may have selected another difference by now.
                if why.key.as_ref() == Some(&key) {
                    why.searching = None;
                    match found {
                        Ok(found) => why.cause = Some(found),
                        Err(_) => why.key = None,
                    }
                }
            })
        });
        self.searching = Some(progress);
    }

    /// Returns the earliest step.
    #[must_use]
    pub fn earliest_cause(&self) -> Option<&CauseStep> {
        self.cause.as_ref()?.steps.last()
    }
}

/// Describes how a step leads to the later one: for certain, or possibly.
fn describe_step(step: &CauseStep) -> String {
    let buffer = step.buffer.as_ref().map_or_else(String::new, |b| format!(" ({b})"));
    format!("{}{buffer}", step.link.describe())
}

/// Describes a step on one line: the access or the job, and its values on both sides.
fn line(doc: &Document, c: &Comparison, step: &CauseStep) -> (String, String) {
    let a = step
        .a
        .map(|e| field_pairs::describe_event(&doc.recording, &doc.derived, doc.numbers, e));
    let b = step
        .b
        .map(|e| field_pairs::describe_event(&c.other.recording, &c.other.derived, doc.numbers, e));
    match (a, b) {
        (Some((what, x)), Some((_, y))) if x != y => (what, format!("{x} → {y}")),
        (Some((what, x)), Some(_)) => (what, x),
        (Some((what, x)), None) => (what, format!("{x}, only in A")),
        (None, Some((what, y))) => (what, format!("{y}, only in B")),
        (None, None) => ("memory at the start of the recordings".into(), String::new()),
    }
}

/// Draws the cause of a difference.
pub(super) fn ui(
    doc: &mut Document,
    c: &Arc<Comparison>,
    meant: &DifferenceRef,
    view: &mut View,
    actions: &mut UiActions,
    ui: &mut Ui,
) {
    let p = palette(ui);
    let Some(effect) = meant.effect(doc, c) else { return };
    widgets::section(ui, "Why");
    view.cause_search.start(doc, c, effect, actions);
    let Some(cause) = &view.cause_search.cause else {
        ui.label(RichText::new("looking for the cause…").font(small()).color(p.quiet));
        return;
    };
    let mut go = None;
    for step in &cause.steps {
        let (what, values) = line(doc, c, step);
        let sure = step.link.is_certain();
        let leads = describe_step(step);
        // A certain step has a full mark, a possible one an empty mark.
        let sign = if sure { "●" } else { "○" };
        let message = if sure { leads } else { format!("{leads} · possible") };
        ui.label(RichText::new(format!("{sign} {message}")).font(small()).color(p.quiet));
        let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::click());
        let place = match (step.a, step.b) {
            (Some(a), Some(b)) => format!("A {} · B {}", text::count(a), text::count(b)),
            (Some(a), None) => format!("A {}", text::count(a)),
            (None, Some(b)) => format!("B {}", text::count(b)),
            (None, None) => String::new(),
        };
        let name = format!("cause: {message} {what} {values} {place}");
        r.widget_info(|| WidgetInfo::labeled(Role::Link, true, name.clone()));
        if r.hovered() || r.has_focus() {
            ui.painter().rect_filled(rect, 2.0, p.raised);
        }
        let left = rect.left() + 14.0;
        let row = Rect::from_min_max(pos2(left, rect.top()), rect.max);
        let ink = if step.link == Link::Held { p.text } else { p.read };
        let used = widgets::paint_text(ui, row, Align2::LEFT_CENTER, &what, mono(), ink);
        let rest = Rect::from_min_max(pos2(left + used + 10.0, rect.top()), rect.max);
        widgets::paint_text(ui, rest, Align2::LEFT_CENTER, &values, mono(), p.text);
        if r.on_hover_text(format!("{what} {values}\n{place}")).clicked() {
            go = Some((step.a, step.b));
        }
    }
    let end = match cause.steps.last().map(|s| s.link) {
        None => "No earlier difference leads to this one: the recordings diverge here.",
        Some(Link::Held) => "The recordings differ there from the start.",
        Some(_) => "No earlier difference leads to that one.",
    };
    ui.add(egui::Label::new(RichText::new(end).font(body()).color(p.quiet)).wrap());
    match go {
        Some((Some(a), _)) => doc.go_step_of(DiffSide::A, a),
        Some((None, Some(b))) => doc.go_step_of(DiffSide::B, b),
        _ => {}
    }
}
