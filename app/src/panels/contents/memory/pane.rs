//! The pane under the lines: all references to a byte, or the selected values as a plot.

use super::view::{ByteReferences, PlotCache, PlotKey, View};
use super::writer;
use crate::panels::common::actions::UiActions;
use crate::theme::columns::{Column, Table};
use crate::theme::plot::{pad_range, plot_range, quiet_plot};
use crate::theme::widgets::{self, paint_text};
use crate::theme::{body, focus, icons, mono, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Sense, Stroke, Ui, WidgetInfo};
use egui_plot::{HoverPosition, Line, PlotPoints};
use kinescope_files::values;
use kinescope_session::xref_navigation::reference_selection;
use kinescope_session::xref_text::item_label;
use kinescope_session::{Document, lookup, text};
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::xref::{self, MAX_REFERENCES, Reference, ReferenceItem, XrefTarget};

/// Maximum number of values that a plot draws; of more, every nth is drawn.
const MAX_POINTS: u64 = 2048;

/// Searches for all references to a byte, and shows them under the lines.
pub fn find_references(doc: &Document, view: &mut View, actions: &mut UiActions, space: u32, va: GpuVa) {
    view.references = Some(ByteReferences {
        space,
        va,
        ..Default::default()
    });
    view.list = Default::default();
    let (recording, derived, current_event) = (
        Arc::clone(&doc.recording),
        Arc::clone(&doc.derived),
        doc.current_event(),
    );
    let path = doc.path.clone();
    actions.start_work::<View>("searching for references to the byte", move |progress| {
        let found = xref::find_references(
            &recording,
            &*derived,
            target(space, va),
            (current_event, MAX_REFERENCES),
            progress,
        );
        Box::new(move |doc, view, _| {
            if doc.path != path {
                return;
            }
            let mine = |t: &&mut ByteReferences| t.space == space && t.va == va;
            if let Some(t) = view.references.as_mut().filter(mine) {
                match found {
                    Ok(found) => t.list = Some(Arc::new(found.list)),
                    Err(_) => t.stopped = true,
                }
            }
        })
    });
}

/// Returns the target of the references to a byte.
fn target(space: u32, va: GpuVa) -> XrefTarget {
    XrefTarget::Bytes { space, va, bytes: 1 }
}

/// Name of the table in the workspace.
const TABLE: &str = "touches";

/// Returns the columns of the references to a byte.
fn columns(doc: &Document) -> [Column; 3] {
    [
        Column::new("event", "event", 58.0).number().fit_count(doc.len()),
        Column::new("kind", "kind", 78.0).hide_order(1),
        Column::new("what", "description", 120.0).stretch(1.0),
    ]
}

/// Draws the references to the requested byte.
pub fn references_ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let Some(t) = view.references.clone() else { return };
    let mut close = false;
    ui.horizontal(|ui| {
        ui.set_height(26.0);
        ui.add_space(8.0);
        let message = match &t.list {
            Some(l) => match l.iter().filter(|t| !t.is_page_only && t.event.is_some()).count() as u64 {
                0 => "has no reference in the recording".to_owned(),
                n => format!("has references in {}", text::count_noun(n, "event", "events")),
            },
            None if t.stopped => "the search was stopped".into(),
            None => "searching for references".into(),
        };
        let at = format!("{:#x}", t.va);
        let r = widgets::link(ui, "the referenced byte", &at);
        if widgets::add_copy_menu(&r, &[("address", at)]).clicked() {
            view.show(doc, t.space, t.va, 1);
        }
        ui.label(RichText::new(message).color(p.quiet));
        writer::ui(doc, view, actions, ui, &t);
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            ui.add_space(4.0);
            close = widgets::icon_button(ui, icons::X, "Close references").clicked();
        });
    });
    if close {
        view.references = None;
        return;
    }
    let Some(list) = t.list else { return };
    let mut rows = view.list;
    let mut go: Option<Reference> = None;
    let target = target(t.space, t.va);
    let own = list.partition_point(|t| !t.is_page_only);
    let of_page = list.len() - own;
    let fold = usize::from(of_page > 0);
    let count = own + fold + if t.unfolded { of_page } else { 0 };
    let mut toggle = false;
    let table = Table::head(ui, actions.tables.state(TABLE), TABLE, &columns(doc));
    rows.show(ui, "References", count as u64, |ui, row, rect| {
        let row = row as usize;
        if fold == 1 && row == own {
            toggle |= folded(ui, rect, of_page, t.unfolded);
            return;
        }
        let Some(t) = list.get(if row < own { row } else { row - fold }) else {
            return;
        };
        let r = focus::row_response(ui, rect, ui.scope_id().with(("touch", row)));
        let (kind, description) = (item_label(&t.item), doc.describe_reference(target, t));
        r.widget_info(|| WidgetInfo::labeled(Role::Link, true, format!("reference {kind} {description}")));
        let here = t.event.is_some_and(|e| e == doc.current_event());
        if here {
            ui.painter().rect_filled(rect, 0.0, p.selection);
        } else if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let ink = match t.item {
            ReferenceItem::AddressRegister { .. } => p.write,
            ReferenceItem::Job { .. } => p.job,
            ReferenceItem::Finding(_) => p.warning,
            _ => p.quiet,
        };
        let event = t.event.map_or_else(String::new, text::count);
        table.text(ui, "event", rect, &event, mono(), p.read);
        table.text(ui, "kind", rect, kind, body(), ink);
        table.text(ui, "what", rect, &description, body(), p.text);
        if r.clicked() {
            go = Some(*t);
        }
        let mut forms = vec![("row", format!("{event}\t{kind}\t{description}"))];
        if let Some(e) = t.event {
            forms.push(("event", e.to_string()));
        }
        widgets::add_copy_menu(&r, &forms).on_hover_text(&description);
    });
    table.finish(ui, actions.tables.state(TABLE));
    view.list = rows;
    if let Some(t) = view.references.as_mut().filter(|_| toggle) {
        t.unfolded = !t.unfolded;
    }
    if let Some(t) = go {
        let event = t.event.unwrap_or(doc.current_event());
        match t.item {
            ReferenceItem::Buffer { .. } => actions.run_command("show-inputs"),
            ReferenceItem::WalkStep { .. } | ReferenceItem::Mapping { .. } | ReferenceItem::PageTable(_) => {
                actions.run_command("show-page-tables");
            }
            _ => {}
        }
        let selection = reference_selection(&doc.recording, target, &t);
        doc.go_with(event, selection);
    }
}

/// Draws the row for all references that concern the page and not the byte. Returns whether it was clicked.
fn folded(ui: &mut Ui, rect: Rect, n: usize, open: bool) -> bool {
    let p = palette(ui);
    let r = ui.interact(rect, ui.scope_id().with("of the page"), Sense::click());
    r.widget_info(|| WidgetInfo::selected(Role::Button, true, open, "References to the page"));
    if r.hovered() || r.has_focus() {
        ui.painter().rect_filled(rect, 0.0, p.raised);
    }
    let caret = if open { icons::CARET_DOWN } else { icons::CARET_RIGHT };
    let message = format!("{caret} {} more on its page", text::count(n as u64));
    let cell = rect.with_min_x(rect.left() + 84.0);
    paint_text(ui, cell, Align2::LEFT_CENTER, &message, body(), p.quiet);
    r.on_hover_cursor(egui::CursorIcon::PointingHand).clicked()
}

/// Returns the values of a range, every nth so that there are at most [`MAX_POINTS`].
fn points(doc: &Document, made: PlotKey) -> PlotCache {
    let (space, va, bytes, element, current_event, _) = made;
    let size = element.bytes() as u64;
    let count = bytes / size;
    let every = count.div_ceil(MAX_POINTS).max(1);
    let value = |b: &[Result<u8, trace_core::memory::ByteState>]| {
        let known: Option<Vec<u8>> = b.iter().map(|b| b.ok()).collect();
        values::element_f64(element, &known?).filter(|v| v.is_finite())
    };
    let mut out = Vec::new();
    if every == 1 {
        let read = lookup::read(&doc.recording, space, va, current_event, (count * size) as usize);
        let parts = read.chunks_exact(size as usize).enumerate();
        out.extend(parts.filter_map(|(i, b)| Some([i as f64, value(b)?])));
    } else {
        for i in (0..count).step_by(every as usize) {
            let at = va.saturating_add(i * size);
            let read = lookup::read(&doc.recording, space, at, current_event, size as usize);
            out.extend(value(&read).map(|v| [i as f64, v]));
        }
    }
    PlotCache {
        key: made,
        points: Arc::new(out),
        every,
    }
}

/// Draws the selected values, or those in view.
pub fn plot(doc: &mut Document, view: &mut View, ui: &mut Ui) {
    let p = palette(ui);
    let Some(element) = view.element else { return };
    let size = element.bytes() as u64;
    let chosen = view.selected(doc).filter(|s| s.1 > size);
    let (va, bytes) = chosen.unwrap_or((view.top, view.shown_rows * view.per_line()));
    let made = (
        view.space,
        va,
        bytes,
        element,
        doc.current_event(),
        doc.changes().revision(),
    );
    let held = match view.plot_cache.clone().filter(|h| h.key == made) {
        Some(h) => h,
        None => {
            let h = points(doc, made);
            view.plot_cache = Some(h.clone());
            h
        }
    };
    ui.horizontal(|ui| {
        ui.set_height(22.0);
        ui.add_space(12.0);
        let what = if chosen.is_some() { "selected" } else { "in view" };
        let mut message = format!(
            "{} values of {} {what}, from {va:#x}",
            text::count(bytes / size),
            element.name()
        );
        if held.every > 1 {
            message += &format!(", one in {} drawn", text::count(held.every));
        }
        ui.label(RichText::new(message).font(small()).color(p.quiet));
    });
    if held.points.is_empty() {
        let none = "None of these values is in the recording, or none is finite.";
        widgets::empty_state(ui, icons::CHART_BAR, none, None);
        return;
    }
    let room = ui.available_size();
    let list = Arc::clone(&held.points);
    let ends = list
        .iter()
        .fold((f64::MAX, f64::MIN), |(a, b), q| (a.min(q[1]), b.max(q[1])));
    let (low, high) = pad_range(ends.0, ends.1);
    let label = |h: &HoverPosition<'_>| match h {
        HoverPosition::NearDataPoint { position, .. } => Some(format!(
            "[{}] {}",
            text::count(position.x.max(0.0).round() as u64),
            position.y
        )),
        HoverPosition::Elsewhere { .. } => None,
    };
    let out = quiet_plot(ui, ("memory values", va, bytes))
        .width(room.x - 8.0)
        .height((room.y - 4.0).max(40.0))
        .label_formatter(label)
        .include_y(low)
        .include_y(high)
        .include_x(0.0)
        .include_x((bytes / size).max(1) as f64)
        .show(ui, |plot| {
            plot_range(plot, bytes / size);
            let line = Line::new(
                "value",
                PlotPoints::new(list.iter().map(|q| [q[0], q[1].clamp(low, high)]).collect()),
            );
            plot.line(line.stroke(Stroke::new(1.2, p.read)));
        });
    let r = out.response;
    r.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Plot of memory"));
    if let Some(q) = r.interact_pointer_pos().filter(|_| r.clicked()) {
        let index = out.transform.value_from_position(q).x.round().max(0.0) as u64;
        if index < bytes / size {
            let at = va.saturating_add(index * size);
            view.top = at.align_down(16);
            view.show(doc, view.space, at, size);
        }
    }
}
