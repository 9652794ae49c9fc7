//! The Timeline panel: events in lanes, below a minimap of the full recording.
//!
//! A frame costs what its pixels cost, however long the recording is: counts come from the pyramid, spans are merged
//! by pixel, and both are cached while the view stays the same.

use crate::panels::common::actions::UiActions;
use crate::theme::{focus, icons, palette, small, widgets};
use egui::accesskit::Role;
use egui::{Align2, Pos2, Rect, Response, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::axis::AxisKind;
use kinescope_session::cursors::Cursor;
use kinescope_session::{Document, lanes as filter_lanes};
use std::sync::Arc;
use trace_core::filter::Query;

mod cursors;
mod draw;
mod heights;
mod label;
mod lane;
mod lanes;
mod measure;
mod minimap;
mod named_span;
mod program_ranges;
mod reference_lane;
mod ruler;
mod scale;
mod snap;
mod spans;
mod streams;
mod trail;
pub mod view;

pub use heights::LIMITS as LANE_HEIGHTS;
pub use measure::Measure;
pub use view::View;

use label::{LANE, RULER};
use lane::Lane;
use scale::Scale;

/// Width of the names of the lanes, points.
const NAMES: f32 = 112.0;
const MINIMAP: f32 = 44.0;
/// Margin at the right of the lanes, points.
const RIGHT: f32 = 12.0;

/// Draws the panel.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    if doc.is_empty() {
        widgets::empty_state(
            ui,
            icons::CLOCK,
            "This recording holds memory and no events. Page tables and Memory show what there is.",
            None,
        );
        return;
    }
    if let Some(forward) = focus::horizontal_arrow(ui) {
        actions.run_command(if forward { "next-event" } else { "previous-event" });
    }
    let p = palette(ui);
    let now = ui.input(|i| i.time);
    // Without times there is only one axis.
    if view.axis != AxisKind::Order && !doc.has_times() {
        view.set_axis(doc, AxisKind::Order);
    }
    view.follow_cursor(doc);
    find_filter_matches(doc, actions);
    reference_lane::find_references(doc, actions);
    let range = view.animate(doc, ui, now);
    let full = ui.available_rect_before_wrap();
    ui.painter().rect_filled(full, 0.0, p.panel);
    let (left, right) = (full.left() + NAMES, full.right() - RIGHT);
    let line_y = overview(doc, view, ui, full, range);

    let area = Rect::from_min_max(pos2(left, line_y), pos2(right, full.bottom()));
    let scale = Scale::for_lanes(doc, view.axis, area, range, &mut view.lanes);
    let head = Rect::from_min_size(area.min, vec2(area.width(), RULER));
    ruler::ui(doc, ui, &scale, head);
    let axis = Rect::from_min_size(pos2(full.left() + 4.0, line_y + 1.0), vec2(NAMES - 8.0, RULER - 2.0));
    axis_choice(doc, view, ui, axis);

    let lanes_area = Rect::from_min_max(pos2(full.left(), line_y + RULER), pos2(full.right(), full.bottom()));
    let response = ui.interact(
        Rect::from_min_max(pos2(left, lanes_area.top()), pos2(right, full.bottom())),
        ui.scope_id().with("lanes"),
        Sense::click_and_drag(),
    );
    response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Timeline lanes"));
    let pointer = response.interact_pointer_pos().or(response.hover_pos());
    let clip = ui.clip_rect();
    let under = draw_lanes(doc, view, ui, &scale, (full, lanes_area), pointer);
    measure::overlay(doc, view, ui, &scale, lanes_area);
    cursors::ui(doc, actions, ui, &scale, lanes_area);
    ui.set_clip_rect(clip);
    ruler::flag(doc, ui, &scale, lanes_area);
    interact(doc, view, ui, &scale, &response, under.as_ref(), now);
    if response.secondary_clicked() {
        view.menu_at = pointer.map(|q| {
            doc.derived
                .axis
                .nearest(view.axis, snap::snap_to_edge(doc, &scale, q.x))
        });
    }
    response.context_menu(|ui| menu(doc, view, actions, ui, now));
}

/// Draws the minimap with its title at the top of `full`, and the line below them. Returns where the line is.
fn overview(doc: &mut Document, view: &mut View, ui: &mut Ui, full: Rect, range: (f64, f64)) -> f32 {
    let p = palette(ui);
    let (left, right) = (full.left() + NAMES, full.right() - RIGHT);
    let mini = Rect::from_min_max(pos2(left, full.top() + 4.0), pos2(right, full.top() + MINIMAP));
    minimap::ui(doc, view, ui, mini, range);
    let title = Rect::from_min_max(
        pos2(full.left() + 12.0, mini.top()),
        pos2(left - 4.0, mini.bottom() - 8.0),
    );
    widgets::paint_text(ui, title, Align2::LEFT_CENTER, "all events", small(), p.quiet);
    let line_y = full.top() + MINIMAP + 4.0;
    ui.painter().hline(full.x_range(), line_y, Stroke::new(1.0, p.line));
    line_y
}

/// Draws the lanes in the area `lanes_area` of the panel `full`, and returns the lane under the pointer. The clip
/// rectangle stays on the lanes, for what is drawn over them.
fn draw_lanes(
    doc: &mut Document,
    view: &mut View,
    ui: &mut Ui,
    scale: &Scale,
    (full, lanes_area): (Rect, Rect),
    pointer: Option<Pos2>,
) -> Option<Lane> {
    let (left, right) = (scale.area.left(), scale.area.right());
    let list = lane::list_visible(doc, scale);
    let tall: Vec<f32> = list
        .iter()
        .map(|l| heights::lane_height(&view.heights, doc, l))
        .collect();
    let height = tall.iter().sum::<f32>() + 24.0;
    view.tallest = view.tallest.max(lanes_area.top() - full.top() + height + 2.0 * LANE);
    let max = (height - lanes_area.height()).max(0.0);
    let names = Rect::from_min_max(lanes_area.min, pos2(left, lanes_area.bottom()));
    if ui.rect_contains_pointer(names) {
        view.scroll -= ui.input(|i| i.smooth_scroll_delta().y);
    }
    view.scroll = view.scroll.clamp(0.0, max);
    let clip = ui.clip_rect();
    ui.set_clip_rect(clip.intersect(lanes_area));
    let single = scale.list_single_events(doc);
    let mut under = None;
    let mut rows = Vec::new();
    let mut edges = Vec::new();
    let mut top = lanes_area.top() - view.scroll;
    for (lane, tall) in list.iter().zip(&tall) {
        let rect = Rect::from_min_max(pos2(full.left(), top), pos2(right, top + tall));
        top += tall;
        if let Lane::Stream(n) = lane {
            rows.push((*n, rect.center().y));
        }
        if rect.bottom() < lanes_area.top() || rect.top() > lanes_area.bottom() {
            continue;
        }
        lanes::row(doc, ui, scale, &single, lane, rect);
        edges.push((lane, rect));
        if pointer.is_some_and(|q| rect.y_range().contains(q.y)) {
            under = Some(lane.clone());
        }
    }
    if !single.is_empty() && !rows.is_empty() {
        let inner = Rect::from_min_max(pos2(left, lanes_area.top()), pos2(right, lanes_area.bottom()));
        ui.set_clip_rect(clip.intersect(inner));
        streams::edges(doc, ui, scale, &rows);
        ui.set_clip_rect(clip.intersect(lanes_area));
    }
    // The edges lie over the rows, whose names take the pointer too.
    for (lane, rect) in edges {
        heights::handle(&mut view.heights, doc, ui, lane, rect, left);
    }
    under
}

/// Draws the menu of the lanes.
fn menu(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, now: f64) {
    for cursor in Cursor::ALL {
        let set = ui.button(format!("Set cursor {} here", cursor.name()));
        if set.clicked()
            && let Some(event) = view.menu_at
        {
            doc.set_cursor(cursor, event);
        }
    }
    actions.menu_item(ui, "clear-cursors");
    ui.separator();
    for id in [
        "fit",
        "zoom-in",
        "zoom-out",
        "add-note",
        "pin-register",
        "copy-as-json",
        "copy-link",
    ] {
        actions.menu_item(ui, id);
    }
    if let Some(m) = Measure::new(doc, view) {
        ui.separator();
        if ui.button("Zoom to the measured range").clicked() {
            view.zoom_to_measure(doc, now);
        }
        if ui.button("Copy the measurement").clicked() {
            ui.ctx().copy_text(m.describe());
        }
        if ui.button("Set cursors to the measured range").clicked() {
            let last = m.first + m.events.saturating_sub(1);
            doc.set_cursor(Cursor::A, m.first);
            doc.set_cursor(Cursor::B, last);
        }
    }
}

fn interact(
    doc: &mut Document,
    view: &mut View,
    ui: &Ui,
    scale: &Scale,
    response: &Response,
    lane: Option<&Lane>,
    now: f64,
) {
    let pointer = response.hover_pos();
    if let Some(at) = pointer {
        let (scroll, zoom) = ui.input(|i| (i.smooth_scroll_delta(), i.zoom_delta()));
        let factor = f64::from(zoom) * (f64::from(scroll.y) / 240.0).exp();
        // The wheel is already smoothed: its steps are shown without animation.
        if (factor - 1.0).abs() > 1e-4 {
            view.zoom(doc, factor, Some(scale.position(at.x)), now);
            view.finish_animation();
        }
        if scroll.x != 0.0 {
            view.pan(doc, f64::from(-scroll.x / scale.area.width()), now);
            view.finish_animation();
        }
    }
    // Alt measures by pixel, without snapping.
    let free = ui.input(|i| i.modifiers.alt);
    let edge = |x: f32| {
        if free {
            scale.position(x)
        } else {
            snap::snap_to_edge(doc, scale, x)
        }
    };
    if response.drag_started() {
        let start = ui.input(|i| i.pointer.press_origin()).map(|q| edge(q.x));
        view.measure = start.map(|s| (s, s));
    }
    if response.dragged()
        && let (Some(at), Some((a, _))) = (response.interact_pointer_pos(), view.measure)
    {
        let x = at.x.clamp(scale.area.left(), scale.area.right());
        view.measure = Some((a, edge(x)));
    }
    let escape = !ui.ctx().text_edit_focused() && ui.input(|i| i.key_pressed(egui::Key::Escape));
    if escape && !response.dragged() {
        view.measure = None;
    }
    let clicked = response.interact_pointer_pos().filter(|_| response.clicked());
    if let Some(at) = clicked
        && ui.input(|i| i.modifiers.shift_only())
    {
        let event = doc
            .derived
            .axis
            .nearest(view.axis, snap::snap_to_edge(doc, scale, at.x));
        doc.set_cursor(doc.cursors.next(event), event);
    } else if let Some(at) = clicked {
        view.measure = None;
        let jumps = doc.jumps;
        lanes::select_at(doc, scale, lane, at.x);
        if doc.jumps == jumps {
            let event = doc.derived.axis.nearest(view.axis, scale.position(at.x));
            doc.go(event);
        }
        view.mark_jump_seen(doc.jumps);
    }
    if response.double_clicked() {
        view.zoom(doc, 4.0, pointer.map(|q| scale.position(q.x)), now);
    }
    if let Some(at) = pointer.filter(|_| !response.dragged()) {
        let message = lanes::describe_at(doc, scale, lane, at.x);
        response.clone().on_hover_text_at_pointer(message);
    }
}

fn axis_choice(doc: &Document, view: &mut View, ui: &mut Ui, rect: Rect) {
    let p = palette(ui);
    let now = view.axis;
    let response = ui.interact(rect, ui.scope_id().with("axis"), Sense::click());
    response.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("Axis {}", now.name())));
    let colour = if response.hovered() { p.text } else { p.quiet };
    let label = format!("{} {}", now.name(), icons::CARET_DOWN);
    let inner = Rect::from_min_max(pos2(rect.left() + 8.0, rect.top()), rect.max);
    widgets::paint_text(ui, inner, Align2::LEFT_CENTER, &label, small(), colour);
    egui::Popup::menu(&response).show(|ui| {
        for kind in AxisKind::ALL {
            let can = kind == AxisKind::Order || doc.has_times();
            let label = egui::Button::selectable(now == kind, format!("by {}", kind.name()));
            let shown = ui.add_enabled(can, label);
            let shown = shown.on_disabled_hover_text("The recording has no times.");
            if shown.clicked() {
                view.set_axis(doc, kind);
            }
        }
    });
}

/// Starts to search the matches of the lanes of saved filters, off the interface thread, if they are not known.
fn find_filter_matches(doc: &mut Document, actions: &mut UiActions) {
    if !doc.can_filter() {
        return;
    }
    for text in doc.lanes_to_find() {
        let query = match Query::parse(&text) {
            Ok(q) => q,
            Err(e) => {
                doc.lanes.set_error(text, &e);
                continue;
            }
        };
        let (recording, derived, of) = (Arc::clone(&doc.recording), Arc::clone(&doc.derived), text.clone());
        let progress = actions.start_document_work(format!("looking for {text}"), move |progress| {
            let found = filter_lanes::search(&query, &recording, &derived, progress);
            Box::new(move |doc| doc.lanes.set_result(&of, found))
        });
        doc.lanes.set_pending(text, progress);
    }
}
