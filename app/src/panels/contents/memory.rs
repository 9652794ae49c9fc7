//! The Memory panel: GPU memory by address, as hex and ASCII or as elements, at the current event.

mod controls;
mod device;
mod fold;
mod line_width;
mod pane;
mod rows;
mod search;
mod structure;
pub mod view;
mod writer;

pub use device::last_writer_ui;
pub use device::view::Side;
pub use pane::find_references;
pub use structure::{Structure, toggle as toggle_structure};
pub use view::{ByteReferences, View};

use crate::panels::common::actions::UiActions;
use crate::panels::common::locations::parse_address;
use crate::theme::widgets::{self, paint_text};
use crate::theme::{icons, palette, small};
use controls::{go_to, view_as};
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_files::scene::Selection;
use kinescope_session::{Document, derived_data, page_runs, text, xref_text};
use std::sync::Arc;

/// Draws the panel.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    if let Some(api_trace) = doc.api_trace() {
        return device::ui(doc, view, actions, ui, &api_trace);
    }
    if doc.derived.spaces.is_empty() {
        if !doc.derived.has_stage(derived_data::Stage::Spaces) {
            widgets::empty_state(ui, icons::HOURGLASS_SIMPLE_MEDIUM, "Walking the page tables …", None);
            return;
        }
        let message = if doc.recording.driver_trace().is_some() {
            "A driver trace holds what was submitted, not the memory of the GPU. Objects and `kinescope objects` list its \
             buffers."
        } else {
            "This recording holds no address space, so there is no memory to show by GPU address."
        };
        let (action, command) = match doc.recording.driver_trace() {
            Some(_) => ("Show objects", "show-objects"),
            None => ("Show events", "show-events"),
        };
        if widgets::empty_state(ui, icons::SQUARES_FOUR, message, Some(action)) {
            actions.run_command(command);
        }
        return;
    }
    view.follow(doc);
    if !view.placed {
        view.begin(doc);
    }
    bar(doc, view, actions, ui);
    head(doc, view, ui);
    let full = ui.available_rect_before_wrap();
    let below = view.references.is_some() || view.structure.is_some() || (view.plot && view.element.is_some());
    let height = if below {
        (full.height() * 0.5).clamp(90.0, 320.0)
    } else {
        0.0
    };
    let top = Rect::from_min_max(full.min, full.max - vec2(0.0, height));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(top));
    child.shrink_clip_rect(top);
    rows::ui(doc, view, actions, &mut child);
    if below {
        let area = Rect::from_min_max(pos2(full.left(), top.bottom()), full.max);
        ui.painter()
            .hline(area.x_range(), area.top(), Stroke::new(1.0, palette(ui).line));
        let mut child = ui.new_child(egui::UiBuilder::new().max_rect(area));
        child.shrink_clip_rect(area);
        if view.references.is_some() {
            pane::references_ui(doc, view, actions, &mut child);
        } else if view.structure.is_some() {
            structure::ui(doc, view, &mut child);
        } else {
            pane::plot(doc, view, &mut child);
        }
    }
    ui.advance_cursor_after_rect(full);
}

fn bar(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(8.0);
        let derived = Arc::clone(&doc.derived);
        if derived.spaces.len() > 1 {
            let now = derived.spaces.get(view.space as usize).map_or(0, |s| s.number);
            egui::ComboBox::from_id_salt("memory-space")
                .selected_text(format!("AS {now}"))
                .width(48.0)
                .show_ui(ui, |ui| {
                    for (i, s) in derived.spaces.iter().enumerate() {
                        let name = format!("AS {} · root {:#x}", s.number, s.root);
                        ui.selectable_value(&mut view.space, i as u32, name);
                    }
                });
        }
        let found = go_to(view, ui, |view, search| parse_address(doc, view.space, search));
        if let Some((space, va)) = found {
            view.show_at_top(doc, space, va, 1);
        }
        view_as(view, ui);
        let on = view.structure.is_some();
        let r = ui.selectable_label(on, "structure");
        r.widget_info(|| WidgetInfo::selected(Role::Button, true, on, "Structure over memory"));
        if r.on_hover_text("decode the selected memory as a descriptor of the register map")
            .clicked()
        {
            structure::toggle(doc, view);
        }
        if view.element.is_some() {
            let on = view.plot;
            let r = ui.selectable_label(on, RichText::new(icons::CHART_BAR).size(14.0));
            r.widget_info(|| WidgetInfo::selected(Role::Button, true, on, "Plot the values"));
            if r.on_hover_text("plot the selected values, or those in view").clicked() {
                view.plot = !on;
            }
        }
        search::ui(doc, view, actions, ui);
    });
}

fn head(doc: &Document, view: &View, ui: &mut Ui) {
    let p = palette(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 22.0), Sense::hover());
    let va = match doc.selection() {
        Selection::Memory { va, .. } => *va,
        _ => view.top,
    };
    let space = view.space;
    let fact = doc.derived.spaces.get(space as usize);
    let mut parts = Vec::new();
    if let Some(s) = fact {
        parts.push(format!("AS {}", s.number));
    }
    parts.push(format!("{va:#x}"));
    if let Some((name, at)) = derived_data::find_name_at(&doc.recording, &doc.derived, space, va) {
        parts.push(format!("{name} + {at:#x}"));
    }
    match fact.and_then(|s| s.mapping_at(va)) {
        Some(m) => {
            let pages = text::count(m.pages);
            parts.push(format!(
                "{} · {pages} pages from {:#x}",
                page_runs::format_rights(m.rights),
                m.va
            ));
            let uses = xref_text::describe_page(&doc.recording, &doc.derived, space, va, doc.current_event());
            parts.push(format!("page: {uses}"));
        }
        None => parts.push("nothing is mapped here".into()),
    }
    if !doc.is_empty() {
        parts.push(format!("at event {}", text::count(doc.current_event())));
    }
    let what = parts.join(" · ");
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("location {what}")));
    let inner = rect.shrink2(vec2(12.0, 0.0));
    paint_text(ui, inner, Align2::LEFT_CENTER, &what, small(), p.quiet);
    ui.painter()
        .hline(rect.x_range(), rect.bottom(), Stroke::new(1.0, p.line));
    response.on_hover_text(what);
}
