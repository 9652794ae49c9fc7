//! The minimap: the full recording in one row, with findings, differences, notes, the current event and the visible
//! part.

use super::scale::{Scale, event_x};
use super::view::{Drag, View};
use crate::panels::common::severity::severity_colour;
use crate::theme::{SOFT, palette};
use egui::accesskit::Role;
use egui::{Color32, CursorIcon, Mesh, Rect, Response, Sense, Shape, Stroke, StrokeKind, Ui, WidgetInfo, pos2};
use kinescope_session::Document;
use kinescope_session::axis::AxisKind;
use kinescope_session::derived_data::SEVERITIES;
use trace_core::timeline::merge_spans;

/// Height of the row of jobs, with its margin, points.
const JOBS: f32 = 8.0;

/// Draws the minimap and handles input.
pub fn ui(doc: &mut Document, view: &mut View, ui: &mut Ui, rect: Rect, range: (f64, f64)) {
    let scale = Scale::for_recording(doc, view.axis, rect, &mut view.all);
    let response = ui.interact(rect, ui.scope_id().with("minimap"), Sense::click_and_drag());
    response.widget_info(|| WidgetInfo::labeled(Role::ScrollBar, true, "Minimap"));
    interact(doc, view, ui, &scale, &response);
    bars(doc, ui, &scale, rect);
    marks(doc, ui, &scale, rect);
    let p = palette(ui);
    let x = event_x(doc, &scale, doc.current_event()).round() + 0.5;
    ui.painter().vline(x, rect.y_range(), Stroke::new(1.0, p.text));
    if view.range.is_some() || view.is_animating() {
        let (x0, x1) = (scale.x(range.0), scale.x(range.1));
        let frame = Rect::from_min_max(pos2(x0, rect.top()), pos2(x1.max(x0 + 4.0), rect.bottom()));
        ui.painter().rect_filled(frame, 2.0, p.text.gamma_multiply(0.06));
        ui.painter()
            .rect_stroke(frame, 2.0, Stroke::new(1.0, p.text), StrokeKind::Inside);
    }
}

fn interact(doc: &mut Document, view: &mut View, ui: &Ui, scale: &Scale, response: &Response) {
    let position = |x: f32| scale.position(x.clamp(scale.area.left(), scale.area.right()));
    let (a, b) = view.visible_range(doc);
    let narrowed = view.range.is_some();
    let inside = |at: f64| narrowed && (a..=b).contains(&at);
    if let Some(at) = response.hover_pos()
        && inside(position(at.x))
    {
        ui.ctx().set_cursor_icon(CursorIcon::Grab);
    }
    let Some(at) = response.interact_pointer_pos().map(|q| position(q.x)) else {
        return;
    };
    if response.drag_started() {
        let from = ui.input(|i| i.pointer.press_origin()).map_or(at, |q| position(q.x));
        view.drag = Some(if inside(from) {
            Drag::Move(from - a)
        } else {
            Drag::Choose(from)
        });
    }
    if response.dragged() {
        match view.drag {
            Some(Drag::Move(into)) => view.zoom_to_range(doc, at - into, at - into + (b - a)),
            // A trembling hand must not select a range.
            Some(Drag::Choose(from)) if (scale.x(at) - scale.x(from)).abs() >= 3.0 => view.zoom_to_range(doc, from, at),
            _ => {}
        }
    }
    if response.drag_stopped() {
        view.drag = None;
    }
    if response.clicked() {
        if view.range.is_some() {
            view.zoom_to_range(doc, at - (b - a) / 2.0, at + (b - a) / 2.0);
        } else {
            let event = doc.derived.axis.nearest(view.axis, at);
            doc.go(event);
            view.mark_jump_seen(doc.jumps);
        }
    }
}

/// Draws writes as bars, reads as lower ones behind them, jobs as a row below; in API traces launches are a row below
/// too.
fn bars(doc: &Document, ui: &Ui, scale: &Scale, rect: Rect) {
    let p = palette(ui);
    let launches: Vec<usize> = super::streams::list_streams(doc)
        .iter()
        .filter_map(|s| s.launches)
        .collect();
    let launched = |i: usize| {
        launches
            .iter()
            .map(|l| scale.pixels.count(i, *l).1)
            .fold(0, u32::saturating_add)
    };
    let sum = |i: usize| {
        let (reads, writes) = scale.pixels.sum(i);
        (reads, writes.saturating_sub(launched(i)))
    };
    let sums: Vec<(u32, u32)> = (0..scale.pixels.len()).map(sum).collect();
    let order = scale.axis == AxisKind::Order;
    let tallest = sums.iter().map(|s| if order { s.1 } else { s.0.max(s.1) });
    let max = tallest.max().unwrap_or(1).max(1) as f32;
    let base = rect.bottom() - JOBS;
    let tall = base - rect.top() - 2.0;
    let mut mesh = Mesh::default();
    for (i, (reads, writes)) in sums.into_iter().enumerate() {
        let (x0, x1) = (scale.left(i).round(), scale.left(i + 1).round());
        let mut bar = |n: u32, colour: Color32| {
            if n > 0 {
                let h = (tall * (n as f32 / max).sqrt()).max(2.0);
                let bar = Rect::from_min_max(pos2(x0, base - h), pos2(x1.max(x0 + 1.0), base));
                mesh.add_colored_rect(bar, colour);
            }
        };
        // By order, every pixel is full of events; by time, the bars show where events are.
        if !order {
            bar(reads, p.read.gamma_multiply(SOFT));
        }
        bar(writes, p.write.gamma_multiply(SOFT));
        if launched(i) > 0 {
            let bar = Rect::from_min_max(pos2(x0, base + 3.0), pos2(x1.max(x0 + 1.0), base + 6.0));
            mesh.add_colored_rect(bar, p.job);
        }
    }
    for m in scale.spans.jobs.iter().flatten() {
        let x0 = scale.x(m.from);
        let x1 = scale.x(m.to).min(rect.right()).max(x0 + 1.0);
        let bar = Rect::from_min_max(pos2(x0, base + 3.0), pos2(x1, base + 6.0));
        mesh.add_colored_rect(bar, p.job);
    }
    ui.painter().add(Shape::mesh(mesh));
}

/// Draws findings, divergences and notes as triangles at the top: the worst last, so that it is on top.
fn marks(doc: &Document, ui: &Ui, scale: &Scale, rect: Rect) {
    let p = palette(ui);
    let edges = &scale.pixels.edges;
    let put = |x: f32, colour: Color32| {
        let top = rect.top();
        let points = vec![pos2(x - 3.0, top), pos2(x + 3.0, top), pos2(x, top + 5.0)];
        ui.painter().add(Shape::convex_polygon(points, colour, Stroke::NONE));
    };
    if doc.comparison.done.is_some() {
        // Differences from the second recording are a line along the top.
        let y = rect.top() + 0.5;
        for (i, a, b) in scale.filled_pixels() {
            if doc.differs_within(a, b) {
                let x = scale.left(i);
                let end = scale.left(i + 1).max(x + 2.0);
                ui.painter().hline(x..=end, y, Stroke::new(2.0, p.error));
            }
        }
    }
    for event in scale.list_noted_events(doc) {
        put(event_x(doc, scale, event), p.edited);
    }
    for (runs, severity) in scale.spans.problems.iter().zip(SEVERITIES).rev() {
        for m in runs {
            put(scale.x(m.from), severity_colour(p, severity));
        }
    }
    if let Some(o) = &doc.replay.outcome {
        for m in merge_spans(&o.divergences, edges, |d| (d.event, d.event)) {
            put(event_x(doc, scale, m.first), p.error);
        }
    }
}
