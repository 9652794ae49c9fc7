//! Details of the selected difference: both sides by field, its cause, and rules that ignore it.

use super::field::{field, three_column_row};
use super::line::{line, open_line};
use super::style::label_change;
use super::view::{Section, View};
use super::{calls, causes, errors, rules};
use crate::panels::common::actions::UiActions;
use crate::theme::{mono, mono_small, palette, strong, widgets};
use egui::accesskit::Role;
use egui::{Ui, WidgetInfo};
use kinescope_session::comparison::Comparison;
use kinescope_session::difference::{DifferenceRef, buffers};
use kinescope_session::{Document, field_pairs, text};
use std::sync::Arc;
use trace_core::diff::ChangeKind;

/// Draws the details of the selected difference: both sides field by field, its cause, and rules that ignore it.
pub(super) fn ui(
    doc: &mut Document,
    c: &Arc<Comparison>,
    meant: &DifferenceRef,
    view: &mut View,
    actions: &mut UiActions,
    ui: &mut Ui,
) {
    ui.spacing_mut().item_spacing.y = 0.0;
    if view.section == Section::Events {
        step_head(doc, c, ui);
    }
    egui::ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        ui.spacing_mut().item_spacing.y = 0.0;
        match meant {
            DifferenceRef::Events(None, None) => {
                step_fields(doc, c, ui, true);
                return step_fields(doc, c, ui, false);
            }
            DifferenceRef::Events(a, b) => match c.diff.calls.find(*a, *b) {
                Some(d) => calls::call(doc, c, d, ui),
                None => step_fields(doc, c, ui, true),
            },
            DifferenceRef::Call(n) => calls::ui(doc, c, *n, ui),
            DifferenceRef::Register(n) => {
                let fields = c.diff.registers.get(*n).map_or(&[][..], |r| &r.fields);
                for (name, a, b) in fields {
                    field(ui, name, a, b);
                }
            }
            DifferenceRef::Descriptor(n) => {
                let fields = c.diff.descriptors.list.get(*n).map_or(&[][..], |d| &d.fields);
                for (name, a, b) in fields {
                    field(ui, name, a, b);
                }
            }
            DifferenceRef::Memory(n) => {
                if let Some(e) = buffers(c).nth(*n).and_then(|b| b.elements.as_ref()) {
                    errors::ui(e, ui);
                }
            }
            DifferenceRef::Write(_) | DifferenceRef::Mapping(_) | DifferenceRef::Byte(..) => {}
        }
        let row = view.selected.filter(|_| {
            matches!(
                meant,
                DifferenceRef::Memory(_)
                    | DifferenceRef::Write(_)
                    | DifferenceRef::Descriptor(_)
                    | DifferenceRef::Call(_)
            )
        });
        let p = palette(ui);
        if let Some(l) = row
            .and_then(|row| line(doc, c, view.section, row, p))
            .filter(|l| l.memory.is_some())
        {
            ui.add_space(4.0);
            let words = match meant {
                DifferenceRef::Call(_) => "Show in Memory",
                _ => "Bytes side by side",
            };
            if ui.button(words).on_hover_text("Enter").clicked() {
                open_line(doc, c, view, actions, &l, true);
            }
        }
        causes::ui(doc, c, meant, view, actions, ui);
        ignore_rule_buttons(doc, c, meant, view, actions, ui);
        // Fields that are the same come last: the list may be long.
        if matches!(meant, DifferenceRef::Events(..)) {
            step_fields(doc, c, ui, false);
        }
    });
}

/// Draws the rules that would ignore a difference, each as a button that adds the rule.
fn ignore_rule_buttons(
    doc: &mut Document,
    c: &Comparison,
    meant: &DifferenceRef,
    view: &mut View,
    actions: &mut UiActions,
    ui: &mut Ui,
) {
    let rules = meant.rules(doc, c);
    if rules.is_empty() {
        return;
    }
    widgets::section(ui, "Rules to ignore this difference");
    for rule in rules {
        let words = rule.to_string();
        let shown = widgets::truncate_middle(ui, ui.available_width() - 12.0, &words, &mono_small());
        let button = ui.add(egui::Button::new(egui::RichText::new(shown).font(mono_small())).truncate());
        button.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("Rule: {words}")));
        if button
            .on_hover_text(format!("Adds the rule and compares again:\n{words}"))
            .clicked()
        {
            rules::add(doc, view, actions, &rule);
        }
        ui.add_space(3.0);
    }
}

/// Draws the head of the current step: what changed, and its location on both sides.
fn step_head(doc: &Document, c: &Comparison, ui: &mut Ui) {
    let p = palette(ui);
    let Some(step) = doc.step().and_then(|s| c.steps.at(s)) else {
        return;
    };
    let (sign, word, ink) = label_change(p, step.change);
    let event = |e: Option<u64>, at: u64| match e {
        Some(e) => text::count(e),
        None => format!("before {}", text::count(at)),
    };
    let (a, b) = (event(step.a, step.at_a), event(step.b, step.at_b));
    let mark = format!("{sign} {word}");
    let name = format!("{mark}: event A {a}, event B {b}");
    let cells = [
        (mark, strong(), ink),
        (format!("A {a}"), mono(), p.only_a),
        (format!("B {b}"), mono(), p.only_b),
    ];
    three_column_row(ui, &name, cells);
}

/// Draws the fields of the current step that differ, or those that are the same.
fn step_fields(doc: &Document, c: &Comparison, ui: &mut Ui, differ: bool) {
    let Some(step) = doc.step().and_then(|s| c.steps.at(s)) else {
        return;
    };
    let all = field_pairs::list_field_pairs(doc, c, step.a, step.b);
    let mut shown = all
        .iter()
        .filter(|f| f.differs() == differ && !(f.a.is_empty() && f.b.is_empty()));
    let mut first = shown.next();
    if first.is_some() && !differ && step.change != ChangeKind::Equal {
        widgets::section(ui, "Equal fields");
    }
    while let Some(f) = first {
        field(ui, &f.name, &f.a, &f.b);
        first = shown.next();
    }
}
