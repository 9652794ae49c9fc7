//! The Plots panel: values of registers and fields as lines and histograms, and statistics of filter matches as
//! charts.

mod bars;
mod choose;
mod counts;
mod histogram;
mod intervals;
mod legend;
mod line_names;
mod lines;
mod results;
pub mod view;

pub use view::{ByKind, Section, View};

use super::events;
use crate::panels::common::actions::UiActions;
use crate::theme::{PAD, icons, palette, widgets};
use egui::accesskit::Role;
use egui::{RichText, Ui, WidgetInfo, vec2};
use kinescope_session::Document;
use kinescope_session::axis::AxisKind;
use kinescope_session::derived_data::Stage;
use std::sync::Arc;
use trace_core::registers::Accesses;
use trace_core::values::{self, AccessFilter};
use trace_query::GroupBy;
use view::{Key, WorkState};

/// Draws the panel. `events`: the view with the filter whose matches are counted.
pub fn ui(doc: &mut Document, view: &mut View, events: &mut events::View, actions: &mut UiActions, ui: &mut Ui) {
    if doc.is_empty() {
        let message =
            "This recording holds no events: it was made from a memory dump. There are no values over time to plot.";
        widgets::empty_state(ui, icons::CHART_BAR, message, None);
        return;
    }
    let full = ui.available_rect_before_wrap().shrink2(vec2(PAD, 2.0));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(full));
    child.spacing_mut().item_spacing.y = 2.0;
    bar(doc, view, &mut child);
    let ui = &mut child;
    match view.section {
        Section::Lines | Section::Values => plotted(doc, view, actions, ui),
        Section::Counts => counts::ui(doc, view, events, actions, ui),
        Section::Between => intervals::ui(doc, view, actions, ui),
    }
}

/// Draws the sections about chosen registers and fields.
fn plotted(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    if !doc.derived.has_stage(Stage::Registers) {
        let message = "Sorting accesses by register …";
        widgets::empty_state(ui, icons::HOURGLASS_SIMPLE_MEDIUM, message, None);
        return;
    }
    if doc.derived.registers.is_empty() {
        let message = "This recording holds no register accesses, so there are no values to plot. The event table \
                       lists its events.";
        widgets::empty_state(ui, icons::CHART_BAR, message, None);
        return;
    }
    gather_values(doc, view, actions);
    if doc.changes().plots().is_empty() {
        choose::inline(doc, view, ui);
        return;
    }
    match view.section {
        Section::Values => histogram::ui(doc, view, actions, ui),
        _ => lines::ui(doc, view, ui),
    }
}

/// Draws one of several choices that exclude each other.
fn choice<T: Copy + PartialEq>(ui: &mut Ui, now: &mut T, this: T, word: &str, label: &str) -> bool {
    let p = palette(ui);
    let on = *now == this;
    let ink = if on { p.text } else { p.quiet };
    let r = ui.selectable_label(on, RichText::new(word).color(ink));
    r.widget_info(|| WidgetInfo::selected(Role::Button, true, on, label));
    if r.clicked() {
        *now = this;
    }
    r.clicked()
}

/// Draws a line between groups of choices.
fn separator(ui: &mut Ui) {
    let p = palette(ui);
    let (rect, _) = ui.allocate_exact_size(vec2(9.0, 20.0), egui::Sense::hover());
    let line = rect.top() + 3.0..=rect.bottom() - 3.0;
    ui.painter()
        .vline(rect.center().x.round(), line, egui::Stroke::new(1.0, p.line));
}

/// Draws the sections, and the controls of the visible one.
fn bar(doc: &mut Document, view: &mut View, ui: &mut Ui) {
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = 2.0;
        ui.set_min_height(28.0);
        for s in Section::ALL {
            let label = format!("Section {}", s.name());
            choice(ui, &mut view.section, s, s.name(), &label);
        }
        if view.section == Section::Counts {
            separator(ui);
            for by in GroupBy::ALL {
                let label = format!("By {}", by.label());
                choice(ui, &mut view.by, ByKind(by), &format!("by {}", by.label()), &label);
            }
            separator(ui);
            choice(ui, &mut view.sort_by_key, false, "most first", "Most first");
            choice(ui, &mut view.sort_by_key, true, "in order", "In order");
        }
    });
    if !matches!(view.section, Section::Lines | Section::Values) {
        return;
    }
    // In a narrow window, the controls of the lines do not fit next to the sections, so they are always below them.
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = 2.0;
        match view.section {
            Section::Lines => {
                choose::button(doc, view, ui);
                access_filter_buttons(view, ui);
                separator(ui);
                for (axis, word) in [
                    (AxisKind::Order, "by event"),
                    (AxisKind::Time, "by time"),
                    (AxisKind::Compressed, "compressed gaps"),
                ] {
                    if choice(ui, &mut view.axis, axis, word, &format!("Plot {word}")) {
                        view.range = None;
                    }
                }
                separator(ui);
                let mut now = lines::has_split_axes(doc, view);
                if choice(ui, &mut now, false, "one scale", "One scale")
                    | choice(ui, &mut now, true, "separate scales", "Separate scales")
                {
                    view.split_axes = Some(now);
                }
                separator(ui);
                choice(ui, &mut view.decimal, false, "hex", "Values in hex");
                choice(ui, &mut view.decimal, true, "decimal", "Values in decimal");
            }
            Section::Values => {
                choose::button(doc, view, ui);
                access_filter_buttons(view, ui);
                separator(ui);
                choice(ui, &mut view.decimal, false, "hex", "Values in hex");
                choice(ui, &mut view.decimal, true, "decimal", "Values in decimal");
            }
            Section::Counts | Section::Between => {}
        }
    });
}

/// Draws the choice of accesses that give values.
fn access_filter_buttons(view: &mut View, ui: &mut Ui) {
    let r = egui::ComboBox::from_id_salt("which")
        .selected_text(view.access_filter.name())
        .width(128.0)
        .show_ui(ui, |ui| {
            for w in AccessFilter::ALL {
                ui.selectable_value(&mut view.access_filter, w, w.name());
            }
        });
    r.response
        .widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, "Plotted accesses"));
}

/// Requests the values of every line that are neither known nor requested yet, and drops those of lines that are not
/// plotted.
fn gather_values(doc: &Document, view: &mut View, actions: &mut UiActions) {
    let plots = doc.changes().plots();
    view.values.retain(|line, slot| {
        let keep = plots.iter().any(|(_, l)| l == line);
        if let (false, Some(WorkState::Pending(_, p))) = (keep, &slot.0) {
            p.cancel();
        }
        keep
    });
    for (_, line) in plots {
        let key: Key = (line.clone(), view.access_filter);
        let slot = view.values.entry(line.clone()).or_default();
        if slot.is_for(&key) {
            continue;
        }
        let (recording, derived) = (Arc::clone(&doc.recording), Arc::clone(&doc.derived));
        let field = line_names::field(doc, line);
        let missing = line.field.is_some() && field.is_none();
        let mine = key.clone();
        let title = format!("collecting the values of {}", line_names::line_name(doc, line));
        let progress = actions.start_work::<View>(title, move |progress| {
            let (line, which) = &mine;
            let own = progress.clone();
            let none = Accesses::default();
            let accesses = derived.registers.get(&line.register).map(|f| &f.accesses);
            let found = if missing {
                Err("the register map has no such field".to_owned())
            } else {
                values::collect(
                    &recording,
                    derived.device,
                    line.register,
                    field,
                    accesses.unwrap_or(&none),
                    *which,
                    progress,
                )
                .map_err(|_| "stopped".to_owned())
            };
            Box::new(move |_, view, _| {
                if let Some(slot) = view.values.get_mut(&mine.0) {
                    slot.finish(mine, &own, found);
                }
            })
        });
        slot.start(key, progress);
    }
}
