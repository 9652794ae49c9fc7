//! The chart: events from left to right, addresses from top to bottom, a rectangle for each range while it exists.
//!
//! The cost of a frame depends on the pixels: only rows in view are drawn, and ranges that share a pixel are one mark.

use super::style::place_ink;
use super::view::{SCALES, View};
use crate::panels::driver_trace::links;
use crate::theme::widgets::{paint_middle, paint_text};
use crate::theme::{Palette, mono_small, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Painter, Rect, Response, Sense, Stroke, StrokeKind, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::driver_data::{AddressRow, AddressRowKind, DriverData, ObjectText};
use kinescope_session::{Document, text};
use std::ops::Range;

/// Width of the addresses at the left, points.
const GUTTER: f32 = 118.0;
/// Height of the ruler of events, points.
const RULER: f32 = 20.0;
/// Minimum height of a row with a text, points.
const TEXT_HEIGHT: f32 = 11.0;
/// Minimum height of a gap with a text, points. The rows around it leave it some room.
const GAP_TEXT_HEIGHT: f32 = 9.0;
/// Minimum width of a rectangle with a text, points.
const TEXT_WIDTH: f32 = 44.0;
/// Distance from a rectangle in which the pointer still finds it, points.
const NEAR: f32 = 3.0;
/// Minimum distance of numbers on the ruler, points.
const TICK_GAP: f32 = 90.0;

/// Geometry of the chart in this frame.
struct Chart<'a> {
    doc: &'a Document,
    data: &'a DriverData,
    /// The part with rectangles.
    area: Rect,
    /// First and last visible event.
    events: (f64, f64),
    /// Height of a page's row, points.
    scale: f32,
    top: f64,
}

/// Draws the chart.
pub(super) fn ui(doc: &mut Document, view: &mut View, ui: &mut Ui, data: &DriverData) {
    let full = ui.available_rect_before_wrap();
    let area = Rect::from_min_max(full.min + vec2(GUTTER, RULER), full.max - vec2(10.0, 4.0));
    if area.width() < 40.0 || area.height() < 20.0 {
        return;
    }
    let id = ui.scope_id().with("chart");
    let r = ui.interact(area, id, Sense::CLICK | Sense::DRAG);
    r.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Addresses over time"));
    let scale = view.scale_for(data.addresses.height, area.height());
    handle_input(doc, view, ui, (&r, area), data, scale);
    let scale = view.scale_for(data.addresses.height, area.height());
    let shown = f64::from(area.height() / scale);
    if std::mem::take(&mut view.reveal)
        && let Some(row) = view.selected.and_then(|range| data.addresses.row_of_range(range))
        && let Some(row) = data.addresses.rows.get(row)
        && (row.top < view.top || row.top + 1.0 > view.top + shown)
    {
        view.top = row.top - shown / 3.0;
    }
    view.top = view.top.clamp(0.0, (data.addresses.height - shown).max(0.0));
    let chart = Chart {
        doc,
        data,
        area,
        events: view.visible_events(doc.len()),
        scale,
        top: view.top,
    };
    let p = palette(ui);
    let painter = ui.painter().with_clip_rect(full.intersect(ui.clip_rect()));
    painter.rect_filled(area, 0.0, p.background);
    chart.draw_ruler(ui, &painter, full);
    chart.draw_rows(ui, full, view.selected);
    chart.draw_cursor(&painter, p);
    draw_scroll_bar(view, ui, full, area, (data.addresses.height, shown));
    let hit = r.hover_pos().and_then(|at| chart.find_range(at));
    if r.clicked()
        && let Some(at) = r.interact_pointer_pos()
    {
        let event = chart.event_at(at.x);
        view.selected = hit;
        view.without_address = None;
        doc.go(event);
    } else if let Some(range) = hit.filter(|_| !r.dragged()) {
        let text = describe_range(doc, data, range);
        r.on_hover_text_at_pointer(text);
    }
}

/// Handles wheel, drag and double click.
fn handle_input(doc: &Document, view: &mut View, ui: &Ui, (r, area): (&Response, Rect), data: &DriverData, scale: f32) {
    let count = doc.len();
    let (first, last) = view.visible_events(count);
    let per_point = (last - first) / f64::from(area.width());
    if r.double_clicked() {
        (view.events, view.scale, view.top) = (None, None, 0.0);
        return;
    }
    if r.dragged() {
        let by = r.drag_delta();
        view.pan(count, -f64::from(by.x) * per_point);
        view.top -= f64::from(by.y / scale);
    }
    let Some(at) = r.hover_pos() else { return };
    let (delta, modifiers) = ui.input(|i| (i.smooth_scroll_delta(), i.modifiers));
    let wheel = if delta.y == 0.0 { delta.x } else { delta.y };
    if wheel == 0.0 {
        return;
    }
    if modifiers.shift {
        view.pan(count, -f64::from(wheel) * per_point);
    } else if modifiers.alt {
        let fixed = view.top + f64::from((at.y - area.top()) / scale);
        let to = (scale * (wheel / 200.0).exp()).clamp(*SCALES.start(), *SCALES.end());
        view.scale = Some(to);
        view.top = (fixed - f64::from((at.y - area.top()) / to)).clamp(0.0, data.addresses.height);
    } else {
        let about = first + f64::from(at.x - area.left()) * per_point;
        view.zoom(count, f64::from(wheel / 200.0).exp(), about);
    }
}

impl Chart<'_> {
    fn x_of(&self, event: f64) -> f32 {
        let (first, last) = self.events;
        self.area.left() + ((event - first) / (last - first).max(1e-9)) as f32 * self.area.width()
    }

    fn event_at(&self, x: f32) -> u64 {
        let (first, last) = self.events;
        let part = f64::from((x - self.area.left()) / self.area.width()).clamp(0.0, 1.0);
        (first + part * (last - first)).floor().max(0.0) as u64
    }

    fn y_of(&self, distance: f64) -> f32 {
        self.area.top() + (distance - self.top) as f32 * self.scale
    }

    /// Returns the rectangle of a row.
    fn row_rect(&self, row: &AddressRow) -> Rect {
        let (top, bottom) = (self.y_of(row.top), self.y_of(row.top + f64::from(row.weight)));
        Rect::from_min_max(pos2(self.area.left(), top), pos2(self.area.right(), bottom))
    }

    /// Returns the rows in view.
    fn rows(&self) -> impl Iterator<Item = &AddressRow> {
        let first = self.data.addresses.row_at(self.top);
        let rows = self.data.addresses.rows.get(first..).unwrap_or_default();
        let bottom = self.top + f64::from(self.area.height() / self.scale);
        rows.iter().take_while(move |r| r.top < bottom)
    }

    fn draw_ruler(&self, ui: &Ui, painter: &Painter, full: Rect) {
        let p = palette(ui);
        let (first, last) = self.events;
        let max = (self.area.width() / TICK_GAP).max(1.0);
        let step = round_step((last - first) / f64::from(max));
        let mut event = (first / step).ceil() * step;
        while event <= last {
            let x = self.x_of(event);
            painter.vline(x, self.area.y_range(), Stroke::new(1.0, p.line.gamma_multiply(0.6)));
            let at = pos2(x + 3.0, full.top() + RULER / 2.0);
            if x + 40.0 < self.area.right() {
                painter.text(
                    at,
                    Align2::LEFT_CENTER,
                    text::count(event as u64),
                    mono_small(),
                    p.quiet,
                );
            }
            event += step;
        }
        let head = Rect::from_min_max(full.min, pos2(self.area.left() - 8.0, full.top() + RULER));
        paint_text(ui, head, Align2::RIGHT_CENTER, "event", small(), p.quiet);
        painter.hline(full.x_range(), self.area.top(), Stroke::new(1.0, p.line));
    }

    fn draw_rows(&self, ui: &Ui, full: Rect, selected: Option<u32>) {
        let p = palette(ui);
        let below_ruler = Rect::from_min_max(pos2(full.left(), self.area.top()), full.max);
        let wide = ui.painter().with_clip_rect(below_ruler.intersect(ui.clip_rect()));
        let within = ui.painter().with_clip_rect(self.area.intersect(ui.clip_rect()));
        let mut last_label = f32::NEG_INFINITY;
        for row in self.rows() {
            let rect = self.row_rect(row);
            let gutter = Rect::from_min_max(
                pos2(full.left() + 4.0, rect.top()),
                pos2(self.area.left() - 8.0, rect.top() + rect.height().min(16.0)),
            );
            let has_room = rect.height() >= TEXT_HEIGHT && rect.top() >= last_label && rect.bottom() > self.area.top();
            match &row.kind {
                AddressRowKind::Space(space) => {
                    wide.rect_filled(rect.with_min_x(full.left()), 0.0, p.raised);
                    if has_room {
                        let name =
                            space.map_or_else(|| "address space".to_owned(), |s| format!("address space {s:#x}"));
                        let at = pos2(full.left() + 8.0, rect.center().y);
                        wide.text(at, Align2::LEFT_CENTER, name, small(), p.quiet);
                    }
                }
                AddressRowKind::Gap { bytes } => {
                    draw_gap(&wide, rect, p);
                    if rect.height() >= GAP_TEXT_HEIGHT && rect.bottom() > self.area.top() + GAP_TEXT_HEIGHT {
                        let shown = format!("gap, {}", text::bytes(*bytes));
                        let at = gutter.with_max_y(rect.bottom());
                        wide.text(at.right_center(), Align2::RIGHT_CENTER, shown, small(), p.quiet);
                    }
                }
                AddressRowKind::Addresses { start, segments, .. } => {
                    if has_room {
                        let at = gutter.right_center();
                        wide.text(at, Align2::RIGHT_CENTER, start.to_string(), mono_small(), p.text);
                        last_label = rect.top() + TEXT_HEIGHT;
                    }
                    self.draw_segments(ui, &within, (row, rect), segments, selected);
                }
            }
        }
    }

    fn draw_segments(
        &self,
        ui: &Ui,
        painter: &Painter,
        (row, rect): (&AddressRow, Rect),
        segments: &Range<u32>,
        selected: Option<u32>,
    ) {
        let p = palette(ui);
        let chart = &self.data.addresses;
        let AddressRowKind::Addresses { start, end, .. } = &row.kind else {
            return;
        };
        let (first, last) = self.events;
        let mut next = chart.first_segment(segments, first.floor().max(0.0) as u64) as usize;
        let stop = segments.end as usize;
        while next < stop {
            let Some(s) = chart.segments.get(next) else { return };
            if s.from as f64 > last {
                return;
            }
            let Some(range) = chart.ranges.get(s.range as usize) else {
                return;
            };
            let left = self.x_of(s.from as f64).max(self.area.left() - 1.0);
            let right = match s.to {
                u64::MAX => self.area.right(),
                to => self.x_of(to as f64).min(self.area.right()),
            };
            let right = right.max(left + 1.0);
            let (begins, ends) = (range.va >= *start, range.end() <= *end);
            let is_selected = selected == Some(s.range);
            let top = if begins { rect.top() + 0.5 } else { rect.top() };
            let bottom = if ends { rect.bottom() - 0.5 } else { rect.bottom() };
            let cell = Rect::from_min_max(pos2(left, top), pos2(right, bottom.max(top + 1.0)));
            let ink = place_ink(p, range.place);
            let strength = if is_selected { 0.75 } else { 0.42 };
            painter.rect_filled(cell, 0.0, ink.gamma_multiply(strength));
            painter.vline(left, cell.y_range(), Stroke::new(1.0, ink));
            if begins && rect.height() > 4.0 {
                painter.hline(cell.x_range(), cell.top(), Stroke::new(1.0, ink));
            }
            if is_selected {
                painter.rect_stroke(cell, 0.0, Stroke::new(1.5, p.text), StrokeKind::Inside);
            }
            if begins && cell.width() >= TEXT_WIDTH && rect.height() >= TEXT_HEIGHT {
                self.draw_name(ui, cell, range.object);
            }
            // Ranges that end in the same pixel are one mark.
            next += 1;
            if right - left <= 1.5 {
                let after = self.event_at(right + 0.5);
                let rest = chart.segments.get(next..stop).unwrap_or_default();
                next += rest.partition_point(|s| s.from < after && s.to <= after);
            }
        }
    }

    fn draw_name(&self, ui: &Ui, cell: Rect, object: u32) {
        let p = palette(ui);
        if let Some(t) = ObjectText::new(&self.doc.recording, &self.data.trace, object as usize) {
            let rect = cell.shrink2(vec2(4.0, 0.0));
            let rect = rect.with_max_y(rect.top() + rect.height().min(18.0));
            if self.area.top() <= rect.center().y && rect.center().y <= self.area.bottom() {
                paint_middle(ui, rect, Align2::LEFT_CENTER, &t.name(), small(), p.text);
            }
        }
    }

    /// Draws the current event.
    fn draw_cursor(&self, painter: &Painter, p: &Palette) {
        let x = self.x_of(self.doc.current_event() as f64 + 0.5);
        if self.area.x_range().contains(x) {
            painter.vline(x, self.area.y_range(), Stroke::new(1.5, p.text));
        }
    }

    /// Returns the range at a position.
    fn find_range(&self, at: egui::Pos2) -> Option<u32> {
        let distance = self.top + f64::from((at.y - self.area.top()) / self.scale);
        let chart = &self.data.addresses;
        let row = chart.rows.get(chart.row_at(distance))?;
        let AddressRowKind::Addresses { segments, .. } = &row.kind else {
            return None;
        };
        let (event, before) = (self.event_at(at.x), self.event_at(at.x - NEAR));
        let after = self.event_at(at.x + NEAR);
        let first = chart.first_segment(segments, before) as usize;
        let near = chart.segments.get(first..segments.end as usize)?;
        let near = near.iter().take_while(|s| s.from <= after);
        let distance = |from: u64, to: u64| match event {
            e if e < from => from - e,
            e if e >= to => e - to + 1,
            _ => 0,
        };
        near.take(4096).min_by_key(|s| distance(s.from, s.to)).map(|s| s.range)
    }
}

/// Draws addresses that no buffer has: a line.
fn draw_gap(painter: &Painter, rect: Rect, p: &Palette) {
    let ink = Stroke::new(1.0, p.line);
    painter.hline(rect.x_range(), rect.center().y, ink);
}

/// Rounds a distance up to 1, 2 or 5 times a power of ten, at least 1.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.max(1.0).log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let factor = factors.into_iter().find(|f| f * power >= step).unwrap_or(10.0);
    (factor * power).max(1.0)
}

/// Draws the bar that shows and moves the visible part of the addresses.
fn draw_scroll_bar(view: &mut View, ui: &Ui, full: Rect, area: Rect, (height, shown): (f64, f64)) {
    if height <= shown + 0.01 {
        return;
    }
    let p = palette(ui);
    let track = Rect::from_min_max(pos2(full.right() - 8.0, area.top()), pos2(full.right(), area.bottom()));
    let r = ui.interact(track, ui.scope_id().with("chart bar"), Sense::CLICK | Sense::DRAG);
    let handle = ((shown / height) as f32 * track.height()).max(24.0);
    let room = (track.height() - handle).max(1.0);
    if let Some(at) = r.interact_pointer_pos().filter(|_| r.dragged() || r.clicked()) {
        let part = ((at.y - track.top() - handle / 2.0) / room).clamp(0.0, 1.0);
        view.top = f64::from(part) * (height - shown);
    }
    let y = track.top() + room * (view.top / (height - shown)) as f32;
    let grip = Rect::from_min_size(pos2(track.left() + 2.0, y), vec2(5.0, handle));
    let ink = if r.hovered() || r.dragged() { p.quiet } else { p.line };
    ui.painter().rect_filled(grip, 2.0, ink);
}

/// Describes a range: addresses, size, object, who asked for it, when it ends.
pub(super) fn describe_range(doc: &Document, data: &DriverData, range: u32) -> String {
    let Some(r) = data.addresses.ranges.get(range as usize) else {
        return String::new();
    };
    let end = match r.to {
        Some(to) => format!("until event {}", text::count(to)),
        None => "until the end".to_owned(),
    };
    format!(
        "{} to {}\n{:#x} bytes ({}), {}\nfrom event {} {end}\n{}",
        r.va,
        r.end(),
        r.bytes,
        text::bytes(r.bytes),
        r.place.name(),
        text::count(r.from),
        links::describe_object(doc, data, r.object)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ruler_steps_are_round_numbers() {
        let steps = [0.2, 1.0, 1.5, 3.0, 7.0, 11.0, 420.0].map(round_step);
        assert_eq!(steps, [1.0, 1.0, 2.0, 5.0, 10.0, 20.0, 500.0]);
    }
}
