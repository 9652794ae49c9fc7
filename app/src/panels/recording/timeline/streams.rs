//! Lanes of an API trace: one for each stream with launches, copies and stream orders; allocated memory; failed calls.

use super::label::{LANE, SHORTEST};
use super::scale::{Scale, SingleEvent, event_x};
use crate::theme::{SOFT, mono_small, palette, widgets};
use egui::{Align2, Color32, Mesh, Pos2, Rect, Shape, Stroke, StrokeKind, Ui, pos2};
use kinescope_session::{Document, api_trace, text};
use trace_core::api_trace::ApiTrace;
use trace_core::recording::EventKind;
use trace_core::timeline::StreamLanes;

/// Maximum number of orders between streams that are drawn.
const MAX_EDGES: usize = 200;
/// Maximum width of the block of a launch that is drawn by itself, points.
const WIDEST: f32 = 180.0;

/// Returns the lanes of each stream in the pyramid.
pub(super) fn list_streams(doc: &Document) -> Vec<StreamLanes> {
    doc.derived.pyramid.call_lanes().map(|l| l.0).unwrap_or_default()
}

/// Returns the lanes of the pyramid that lanes of calls stand for: they are not shown as blocks of registers.
pub(super) fn list_hidden_lanes(doc: &Document) -> Vec<usize> {
    let Some((streams, memory, _)) = doc.derived.pyramid.call_lanes() else {
        return Vec::new();
    };
    let streams = streams.into_iter().flat_map(|s| [s.copies, s.launches]);
    streams.chain([memory]).flatten().collect()
}

/// Draws a stream.
pub(super) fn stream(doc: &Document, ui: &Ui, scale: &Scale, single: &[SingleEvent], lanes: StreamLanes, row: Rect) {
    let p = palette(ui);
    let middle = row.center().y;
    let mine = |lane: usize| Some(lane) == lanes.copies || Some(lane) == lanes.launches;
    if single.is_empty() {
        return merged(ui, scale, lanes, row);
    }
    for s in single.iter().filter(|s| mine(s.lane)) {
        let event = usize::try_from(s.event).unwrap_or(usize::MAX);
        let block =
            |tall: f32, wide: f32| Rect::from_min_max(pos2(s.x, middle - tall), pos2(s.x + wide, middle + tall));
        match doc.recording.events.kind(event) {
            Some(EventKind::Launch) => launch(doc, ui, scale, s, row),
            Some(EventKind::Copy) if !s.write => {
                let ink = Stroke::new(1.0, p.read);
                ui.painter()
                    .rect_stroke(block(5.0, s.width), 1.0, ink, StrokeKind::Inside);
            }
            Some(EventKind::Copy) => {
                ui.painter().rect_filled(block(6.0, s.width), 1.0, p.write);
            }
            Some(EventKind::Fill) => {
                // Lower than a copy: it transfers one value.
                ui.painter().rect_filled(block(3.0, s.width), 1.0, p.write);
            }
            _ => {
                ui.painter().vline(
                    s.x + 1.0,
                    row.top() + 3.0..=row.bottom() - 3.0,
                    Stroke::new(1.5, p.interrupt),
                );
            }
        }
    }
}

/// Draws a single launch: as wide as its event, with the kernel's name if there is room.
fn launch(doc: &Document, ui: &Ui, scale: &Scale, s: &SingleEvent, row: Rect) {
    let p = palette(ui);
    let next = event_x(doc, scale, s.event + 1);
    let wide = (next - s.x - 1.0).clamp(s.width, WIDEST);
    let r = Rect::from_min_max(pos2(s.x, row.top() + 3.0), pos2(s.x + wide, row.bottom() - 3.0));
    let (result, function) = match api_trace::launch(&doc.recording, s.event) {
        Some(l) => (l.result, l.function),
        None => (0, u32::MAX),
    };
    let ink = if result != 0 { p.error } else { p.job };
    ui.painter().rect_filled(r, 1.5, ink.gamma_multiply(SOFT));
    if doc.current_event() == s.event {
        ui.painter()
            .rect_stroke(r.expand(1.0), 2.0, Stroke::new(1.0, p.text), StrokeKind::Outside);
    }
    let seen = r.intersect(row).shrink2(egui::vec2(3.0, 0.0));
    if seen.width() < SHORTEST {
        return;
    }
    let Some(api_trace) = doc.api_trace() else { return };
    let name = api_trace::short_function_name(api_trace.function_name(function));
    let name = name.rsplit("::").next().unwrap_or(name);
    widgets::paint_text(ui, seen, Align2::LEFT_CENTER, name, mono_small(), p.on_accent);
}

/// Draws launches, copies and stream orders by pixel, if there are too many events to show one by one.
fn merged(ui: &Ui, scale: &Scale, lanes: StreamLanes, row: Rect) {
    let p = palette(ui);
    let middle = row.center().y;
    let tall = row.height() / LANE;
    let count = |pixel: usize, lane: Option<usize>| lane.map_or((0, 0), |l| scale.pixels.count(pixel, l));
    let mut mesh = Mesh::default();
    for pixel in 0..scale.pixels.len() {
        let (orders, launches) = count(pixel, lanes.launches);
        let (out, into) = count(pixel, lanes.copies);
        let (x0, x1) = (scale.left(pixel), scale.left(pixel + 1));
        let mut bar = |n: u32, from: f32, to: f32, ink: Color32| {
            if n > 0 {
                let r = Rect::from_min_max(pos2(x0, middle + from * tall), pos2(x1, middle + to * tall));
                mesh.add_colored_rect(r, ink.gamma_multiply(SOFT));
            }
        };
        // Each kind has its own height, so that none hides another.
        bar(orders, -8.0, 8.0, p.interrupt.gamma_multiply(0.35));
        bar(launches, -7.0, 1.0, p.job);
        bar(into, 2.0, 5.0, p.write);
        bar(out, 5.0, 8.0, p.read);
    }
    ui.painter().add(Shape::mesh(mesh));
}

/// Draws orders between streams: a line from the record in one to the wait in another. `rows`: the middle of each
/// stream's row.
pub(super) fn edges(doc: &Document, ui: &Ui, scale: &Scale, rows: &[(usize, f32)]) {
    let Some(api_trace) = doc.api_trace() else { return };
    let p = palette(ui);
    let (from, to) = scale.events();
    let y = |stream: u32| rows.iter().find(|(s, _)| *s == stream as usize).map(|(_, y)| *y);
    for e in api_trace.order().edges_in(from..to).iter().take(MAX_EDGES) {
        let (Some(y0), Some(y1)) = (y(e.from_stream), y(e.to_stream)) else {
            continue;
        };
        let (x0, x1) = (event_x(doc, scale, e.from) + 1.0, event_x(doc, scale, e.to) + 1.0);
        let ink = Stroke::new(1.0, p.interrupt);
        // Straight along the first stream's lower or upper edge, then across to where the other waits.
        let side = if y1 > y0 { 8.0 } else { -8.0 };
        let points: Vec<Pos2> = vec![pos2(x0, y0), pos2(x0, y0 + side), pos2(x1, y1 - side), pos2(x1, y1)];
        ui.painter().add(Shape::line(points, ink));
        ui.painter().circle_filled(pos2(x1, y1 - side), 2.0, p.interrupt);
    }
}

/// Draws the bytes of allocated device memory, as steps.
pub(super) fn draw_memory_use(doc: &Document, ui: &Ui, scale: &Scale, row: Rect) {
    let Some(api_trace) = doc.api_trace() else { return };
    let p = palette(ui);
    let Some((_, max)) = api_trace.allocated_bytes().range().filter(|r| r.1 > 0) else {
        return;
    };
    let (top, bottom) = (row.top() + 4.0, row.bottom() - 4.0);
    let y = |v: u64| bottom - (v as f64 / max as f64) as f32 * (bottom - top);
    let place = |e: u64| doc.derived.axis.position(scale.axis, e);
    let columns = scale.pixels.len().max(1);
    let (before, pieces) = api_trace
        .allocated_bytes()
        .pieces(&place, scale.range.0, scale.range.1, columns);
    let mut now = before.unwrap_or(0);
    let mut fill = Mesh::default();
    let mut line = vec![pos2(row.left(), y(now))];
    let mut last = row.left();
    for piece in &pieces {
        let (x0, x1) = (scale.x(piece.from), scale.x(piece.to));
        if x0 > last && now > 0 {
            let r = Rect::from_min_max(pos2(last, y(now)), pos2(x0, bottom));
            fill.add_colored_rect(r, p.quiet.gamma_multiply(0.18));
        }
        // Changes within a column are drawn over their full range there.
        line.extend([
            pos2(x0, y(now)),
            pos2(x0, y(piece.max)),
            pos2(x1, y(piece.min)),
            pos2(x1, y(piece.end)),
        ]);
        let r = Rect::from_min_max(pos2(x0, y(piece.max)), pos2(x1.max(x0), bottom));
        fill.add_colored_rect(r, p.quiet.gamma_multiply(0.18));
        (now, last) = (piece.end, x1);
    }
    if now > 0 && last < row.right() {
        let r = Rect::from_min_max(pos2(last, y(now)), pos2(row.right(), bottom));
        fill.add_colored_rect(r, p.quiet.gamma_multiply(0.18));
    }
    line.push(pos2(row.right(), y(now)));
    ui.painter().add(Shape::mesh(fill));
    ui.painter().add(Shape::line(line, Stroke::new(1.0, p.quiet)));
}

/// Describes what lies in a pixel of a stream, for the tooltip.
pub(super) fn describe_pixel(scale: &Scale, lanes: StreamLanes, pixel: usize) -> Option<String> {
    let count = |lane: Option<usize>| lane.map_or((0, 0), |l| scale.pixels.count(pixel, l));
    let ((orders, launches), (out, into)) = (count(lanes.launches), count(lanes.copies));
    if orders + launches + out + into <= 1 {
        return None;
    }
    let mut parts = Vec::new();
    for (n, one, many) in [
        (launches, "launch", "launches"),
        (
            into,
            "copy or fill of device memory",
            "copies and fills of device memory",
        ),
        (out, "readback", "readbacks"),
        (orders, "synchronization", "synchronizations"),
    ] {
        if n > 0 {
            parts.push(text::count_noun(u64::from(n), one, many));
        }
    }
    Some(parts.join("\n"))
}

/// Describes the allocated memory at an event.
pub(super) fn describe_memory_use(api_trace: &ApiTrace, event: u64) -> String {
    let now = api_trace.allocated_bytes().at(event).map_or(0, |t| t.1);
    format!("{} of device memory allocated", text::bytes(now))
}
