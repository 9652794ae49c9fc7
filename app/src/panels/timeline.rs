//! Timeline: what happened when, in lanes, over a minimap of the whole recording.

use crate::document::Document;
use crate::document::axis::AxisKind;
use crate::document::moment::Selection;
use crate::theme::{Palette, body, icons, mono_small, palette, small, text, widgets};
use crate::window::Asks;
use egui::accesskit::Role;
use egui::{Align2, Color32, Mesh, Rect, Response, Sense, Shape, Stroke, Ui, WidgetInfo, pos2, vec2};

mod lanes;

pub use lanes::severity_colour;

/// Height of a lane, points.
pub(super) const LANE: f32 = 24.0;
/// Width of the lanes' names, points.
const NAMES: f32 = 96.0;
const MINIMAP: f32 = 44.0;
const RULER: f32 = 22.0;
/// Seconds that a zoom takes.
const ZOOM_S: f64 = 0.12;

/// What the timeline shows.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Axis.
    pub axis: AxisKind,
    /// Part of the axis in view; `None`: all.
    pub range: Option<(f64, f64)>,
    /// Where a zoom began, and when; it ends at `range`.
    from: Option<((f64, f64), f64)>,
    /// Positions between which the person measures.
    pub measure: Option<(f64, f64)>,
    seen_jump: u64,
    /// First lane in view, when not all fit.
    scroll: f32,
}

impl View {
    /// Shows a part of the axis.
    pub fn show(&mut self, range: Option<(f64, f64)>, from: (f64, f64), now: f64) {
        self.from = Some((from, now));
        self.range = range;
    }
}

impl Document {
    /// Part of the axis that the timeline shows.
    #[must_use]
    pub fn timeline_range(&self) -> (f64, f64) {
        let end = self.facts.axis.end(self.timeline.axis);
        self.timeline.range.unwrap_or((0.0, end))
    }

    /// Zooms the timeline about a position, `factor` above 1 showing less.
    pub fn timeline_zoom(&mut self, factor: f64, about: Option<f64>, now: f64) {
        let (a, b) = self.timeline_range();
        let end = self.facts.axis.end(self.timeline.axis);
        let moment = self.facts.axis.position(self.timeline.axis, self.moment());
        let about = about.unwrap_or(if (a..=b).contains(&moment) {
            moment
        } else {
            (a + b) / 2.0
        });
        let least = if self.timeline.axis == AxisKind::Order {
            4.0
        } else {
            100.0
        };
        let width = ((b - a) / factor).clamp(least, end.max(least));
        let part = (about - a) / (b - a).max(f64::MIN_POSITIVE);
        let start = (about - part * width).clamp(0.0, (end - width).max(0.0));
        let to = if width >= end {
            None
        } else {
            Some((start, start + width))
        };
        self.timeline.show(to, (a, b), now);
    }

    /// Moves the timeline by a part of its width.
    pub fn timeline_pan(&mut self, part: f64, now: f64) {
        let (a, b) = self.timeline_range();
        let end = self.facts.axis.end(self.timeline.axis);
        let start = (a + (b - a) * part).clamp(0.0, (end - (b - a)).max(0.0));
        self.timeline.show(Some((start, start + (b - a))), (a, b), now);
    }

    /// Shows the whole recording.
    pub fn timeline_fit(&mut self, now: f64) {
        let from = self.timeline_range();
        self.timeline.show(None, from, now);
    }

    /// Chooses the axis; the moment stays where it is on the screen when it can.
    pub fn timeline_axis(&mut self, axis: AxisKind) {
        if self.timeline.axis == axis {
            return;
        }
        let (a, b) = self.timeline_range();
        let old = self.timeline.axis;
        let events = (self.facts.axis.event_at(old, a), self.facts.axis.event_at(old, b));
        let whole = self.timeline.range.is_none();
        self.timeline.axis = axis;
        self.timeline.measure = None;
        self.timeline.from = None;
        let (a, b) = (
            self.facts.axis.position(axis, events.0),
            self.facts.axis.position(axis, events.1),
        );
        self.timeline.range = if whole || b - a < 4.0 { None } else { Some((a, b)) };
    }
}

/// What drawing needs: the screen, the axis, the events at every pixel.
pub(super) struct Scale {
    /// Where lanes are drawn.
    pub area: Rect,
    range: (f64, f64),
    /// First event at or after every pixel's left edge, and one more.
    pub edges: Vec<u64>,
}

impl Scale {
    fn new(doc: &Document, area: Rect, range: (f64, f64)) -> Self {
        let n = area.width().max(1.0) as usize;
        let step = (range.1 - range.0) / n as f64;
        let axis = &doc.facts.axis;
        let edges = (0..=n)
            .map(|i| axis.event_at(doc.timeline.axis, range.0 + step * i as f64))
            .collect();
        Self { area, range, edges }
    }

    /// Horizontal place of a position.
    pub fn x(&self, position: f64) -> f32 {
        let part = (position - self.range.0) / (self.range.1 - self.range.0).max(f64::MIN_POSITIVE);
        // Far outside the view precision does not matter, but overflow would.
        self.area.left() + (part.clamp(-2.0, 3.0) as f32) * self.area.width()
    }

    /// Position at a horizontal place.
    pub fn position(&self, x: f32) -> f64 {
        self.range.0 + f64::from((x - self.area.left()) / self.area.width()) * (self.range.1 - self.range.0)
    }

    /// Events in view.
    pub fn events(&self) -> (u64, u64) {
        (
            self.edges.first().copied().unwrap_or(0),
            self.edges.last().copied().unwrap_or(0),
        )
    }
}

pub(super) fn x_of(doc: &Document, scale: &Scale, event: u64) -> f32 {
    scale.x(doc.facts.axis.position(doc.timeline.axis, event))
}

/// Draws the panel.
pub fn ui(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    if doc.is_empty() {
        widgets::empty(
            ui,
            icons::CLOCK,
            "This recording holds memory and no events. Page tables and Memory show what there is.",
            None,
        );
        return;
    }
    let p = palette(ui);
    let now = ui.input(|i| i.time);
    follow_moment(doc);
    let range = animated(doc, ui, now);
    let full = ui.available_rect_before_wrap();
    ui.painter().rect_filled(full, 0.0, p.panel);
    let left = full.left() + NAMES;
    let mini = Rect::from_min_max(
        pos2(left, full.top() + 4.0),
        pos2(full.right() - 12.0, full.top() + MINIMAP),
    );
    minimap(doc, ui, mini, range);
    widgets::paint_text(
        ui,
        Rect::from_min_max(pos2(full.left() + 12.0, mini.top()), pos2(left - 4.0, mini.bottom())),
        Align2::LEFT_CENTER,
        "all events",
        small(),
        p.quiet,
    );
    let line_y = full.top() + MINIMAP + 4.0;
    ui.painter().hline(full.x_range(), line_y, Stroke::new(1.0, p.line));

    let area = Rect::from_min_max(pos2(left, line_y), pos2(full.right() - 12.0, full.bottom()));
    let scale = Scale::new(doc, area, range);
    ruler(
        doc,
        ui,
        &scale,
        Rect::from_min_size(area.min, vec2(area.width(), RULER)),
    );
    axis_choice(
        doc,
        ui,
        Rect::from_min_size(pos2(full.left() + 4.0, line_y + 1.0), vec2(NAMES - 8.0, RULER - 2.0)),
    );

    let lanes_area = Rect::from_min_max(pos2(full.left(), line_y + RULER), pos2(full.right(), full.bottom()));
    let response = ui.interact(
        Rect::from_min_max(pos2(left, lanes_area.top()), pos2(full.right() - 12.0, full.bottom())),
        ui.scope_id().with("lanes"),
        Sense::click_and_drag(),
    );
    response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Timeline lanes"));
    let list = lanes::visible(doc, &scale);
    let height = list.len() as f32 * LANE + 24.0;
    let most = (height - lanes_area.height()).max(0.0);
    let names = Rect::from_min_max(lanes_area.min, pos2(left, lanes_area.bottom()));
    if ui.rect_contains_pointer(names) {
        doc.timeline.scroll -= ui.input(|i| i.smooth_scroll_delta().y);
    }
    doc.timeline.scroll = doc.timeline.scroll.clamp(0.0, most);
    let clip = ui.clip_rect();
    ui.set_clip_rect(clip.intersect(lanes_area));
    let mut clicked_lane = None;
    for (i, lane) in list.iter().enumerate() {
        let top = lanes_area.top() + i as f32 * LANE - doc.timeline.scroll;
        let rect = Rect::from_min_max(pos2(full.left(), top), pos2(area.right(), top + LANE));
        if rect.bottom() < lanes_area.top() || rect.top() > lanes_area.bottom() {
            continue;
        }
        lanes::draw(doc, ui, &scale, lane, rect);
        if response
            .interact_pointer_pos()
            .is_some_and(|q| rect.y_range().contains(q.y))
        {
            clicked_lane = Some(lane.clone());
        }
    }
    overlay(doc, ui, &scale, lanes_area);
    ui.set_clip_rect(clip);
    flag(doc, ui, &scale, lanes_area);
    interact(doc, ui, &scale, &response, clicked_lane, now);
    response.context_menu(|ui| {
        for id in ["fit", "zoom-in", "zoom-out", "add-note", "pin-register"] {
            asks.menu_item(ui, id);
        }
    });
}

fn follow_moment(doc: &mut Document) {
    if doc.timeline.seen_jump == doc.jumps {
        return;
    }
    doc.timeline.seen_jump = doc.jumps;
    let (a, b) = doc.timeline_range();
    let at = doc.facts.axis.position(doc.timeline.axis, doc.moment());
    if !(a..=b).contains(&at) {
        let end = doc.facts.axis.end(doc.timeline.axis);
        let start = (at - (b - a) / 2.0).clamp(0.0, (end - (b - a)).max(0.0));
        doc.timeline.range = Some((start, start + (b - a)));
        doc.timeline.from = None;
    }
}

fn animated(doc: &mut Document, ui: &Ui, now: f64) -> (f64, f64) {
    let to = doc.timeline_range();
    let Some((from, since)) = doc.timeline.from else {
        return to;
    };
    let t = ((now - since) / ZOOM_S).clamp(0.0, 1.0);
    if t >= 1.0 {
        doc.timeline.from = None;
        return to;
    }
    ui.ctx().request_repaint();
    let ease = 1.0 - (1.0 - t) * (1.0 - t);
    (from.0 + (to.0 - from.0) * ease, from.1 + (to.1 - from.1) * ease)
}

fn interact(doc: &mut Document, ui: &Ui, scale: &Scale, response: &Response, lane: Option<lanes::Lane>, now: f64) {
    let pointer = response.hover_pos();
    if let Some(at) = pointer {
        let (scroll, zoom) = ui.input(|i| (i.smooth_scroll_delta(), i.zoom_delta()));
        let factor = f64::from(zoom) * (f64::from(scroll.y) / 240.0).exp();
        if (factor - 1.0).abs() > 1e-4 {
            doc.timeline_zoom(factor, Some(scale.position(at.x)), now);
            doc.timeline.from = None;
        }
        if scroll.x != 0.0 {
            doc.timeline_pan(f64::from(-scroll.x / scale.area.width()), now);
            doc.timeline.from = None;
        }
    }
    if response.drag_started() {
        let start = ui.input(|i| i.pointer.press_origin()).map(|q| scale.position(q.x));
        doc.timeline.measure = start.map(|s| (s, s));
    }
    if response.dragged()
        && let (Some(at), Some((a, _))) = (response.interact_pointer_pos(), doc.timeline.measure)
    {
        doc.timeline.measure = Some((a, scale.position(at.x)));
    }
    if response.clicked()
        && let Some(at) = response.interact_pointer_pos()
    {
        doc.timeline.measure = None;
        let jumps = doc.jumps;
        lanes::clicked(doc, scale, lane.as_ref(), at.x);
        if doc.jumps == jumps {
            let event = doc.facts.axis.nearest(doc.timeline.axis, scale.position(at.x));
            doc.go(event);
        }
        doc.timeline.seen_jump = doc.jumps;
    }
    if response.double_clicked() {
        doc.timeline_zoom(4.0, pointer.map(|q| scale.position(q.x)), now);
    }
    if let Some(at) = pointer.filter(|_| !response.dragged()) {
        let event = doc.facts.axis.nearest(doc.timeline.axis, scale.position(at.x));
        let line = crate::document::words::line(doc, event);
        let when = text::seconds(doc.ns(event));
        response
            .clone()
            .on_hover_text_at_pointer(format!("event {} · {when}\n{line}", text::count(event)));
    }
}

fn axis_choice(doc: &mut Document, ui: &mut Ui, rect: Rect) {
    let p = palette(ui);
    let now = doc.timeline.axis;
    let response = ui.interact(rect, ui.scope_id().with("axis"), Sense::click());
    response.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("Axis {}", now.name())));
    let colour = if response.hovered() { p.text } else { p.quiet };
    let label = format!("{} {}", now.name(), icons::CARET_DOWN);
    widgets::paint_text(
        ui,
        rect.shrink2(vec2(8.0, 0.0)),
        Align2::LEFT_CENTER,
        &label,
        small(),
        colour,
    );
    egui::Popup::menu(&response).show(|ui| {
        for kind in AxisKind::ALL {
            if ui
                .selectable_label(now == kind, format!("by {}", kind.name()))
                .clicked()
            {
                doc.timeline_axis(kind);
            }
        }
    });
}

fn tick_step(width: f64, pixels: f64) -> f64 {
    let rough = width / (pixels / 90.0).max(1.0);
    let power = 10f64.powf(rough.log10().floor());
    let m = rough / power;
    let step = if m <= 1.0 {
        1.0
    } else if m <= 2.0 {
        2.0
    } else if m <= 5.0 {
        5.0
    } else {
        10.0
    };
    step * power
}

fn ruler(doc: &Document, ui: &Ui, scale: &Scale, rect: Rect) {
    let p = palette(ui);
    let order = doc.timeline.axis == AxisKind::Order;
    let step = tick_step(scale.range.1 - scale.range.0, f64::from(rect.width())).max(if order { 1.0 } else { 10.0 });
    let mut at = (scale.range.0 / step).ceil() * step;
    let moment = x_of(doc, scale, doc.moment());
    for _ in 0..200 {
        if at > scale.range.1 {
            break;
        }
        let x = scale.x(at).round() + 0.5;
        ui.painter()
            .vline(x, rect.bottom()..=scale.area.bottom(), Stroke::new(1.0, p.line));
        let label = if order {
            text::count(at as u64)
        } else {
            tick_time(at, step)
        };
        if (x - moment).abs() > 52.0 && x < rect.right() - 30.0 {
            ui.painter().text(
                pos2(x + 4.0, rect.center().y),
                Align2::LEFT_CENTER,
                label,
                mono_small(),
                p.quiet,
            );
        }
        at += step;
    }
    ui.painter()
        .hline(rect.x_range(), rect.bottom(), Stroke::new(1.0, p.line));
}

fn tick_time(ns: f64, step: f64) -> String {
    if step >= 1e8 {
        format!("{:.1} s", ns / 1e9)
    } else if step >= 1e6 {
        format!("{:.3} s", ns / 1e9)
    } else {
        format!("{:.6} s", ns / 1e9)
    }
}

fn minimap(doc: &mut Document, ui: &mut Ui, rect: Rect, range: (f64, f64)) {
    let p = palette(ui);
    let axis = doc.timeline.axis;
    let end = doc.facts.axis.end(axis);
    let scale = Scale::new(doc, rect, (0.0, end));
    let response = ui.interact(rect, ui.scope_id().with("minimap"), Sense::click_and_drag());
    response.widget_info(|| WidgetInfo::labeled(Role::ScrollBar, true, "Minimap"));
    if let Some(at) = response
        .interact_pointer_pos()
        .filter(|_| response.dragged() || response.clicked())
    {
        let (a, b) = doc.timeline_range();
        let start = (scale.position(at.x) - (b - a) / 2.0).clamp(0.0, (end - (b - a)).max(0.0));
        doc.timeline.range = if b - a >= end {
            None
        } else {
            Some((start, start + (b - a)))
        };
        doc.timeline.from = None;
    }
    let facts = &doc.facts;
    let bins: Vec<usize> = scale
        .edges
        .windows(2)
        .map(|w| {
            facts
                .lanes
                .iter()
                .map(|l| crate::document::facts::count_in(&l.writes, w[0], w[1]))
                .sum()
        })
        .collect();
    let top = bins.iter().copied().max().unwrap_or(1).max(1) as f32;
    let mut mesh = Mesh::default();
    let base = rect.bottom() - 8.0;
    let tall = base - rect.top() - 2.0;
    for (i, n) in bins.iter().enumerate().filter(|(_, n)| **n > 0) {
        let h = (tall * (*n as f32 / top).sqrt()).max(2.0);
        let x = rect.left() + i as f32;
        mesh.add_colored_rect(
            Rect::from_min_max(pos2(x, base - h), pos2(x + 1.0, base)),
            p.write.gamma_multiply(0.8),
        );
    }
    let mut last = f32::MIN;
    for j in &facts.jobs {
        let (x0, x1) = (
            x_of(doc, &scale, j.submit),
            j.done.map_or(rect.right(), |d| x_of(doc, &scale, d)),
        );
        let x0 = x0.max(last);
        if x1.max(x0 + 1.0) > last {
            mesh.add_colored_rect(
                Rect::from_min_max(pos2(x0, base + 3.0), pos2(x1.max(x0 + 1.0), base + 6.0)),
                p.job,
            );
            last = x1.max(x0 + 1.0);
        }
    }
    ui.painter().add(Shape::mesh(mesh));
    for f in doc.facts.findings.iter().filter(|f| f.event.is_some()).take(2_000) {
        mark(
            ui,
            x_of(doc, &scale, f.event.unwrap_or(0)),
            rect.top(),
            severity_colour(p, f.severity),
        );
    }
    if let Some(o) = &doc.replay.outcome {
        for d in o.divergences.iter().take(2_000) {
            mark(ui, x_of(doc, &scale, d.event), rect.top(), p.error);
        }
    }
    for event in doc.changes().notes().keys().take(2_000) {
        mark(ui, x_of(doc, &scale, *event), rect.top(), p.edited);
    }
    let x = x_of(doc, &scale, doc.moment());
    ui.painter().vline(x, rect.y_range(), Stroke::new(1.0, p.text));
    if doc.timeline.range.is_some() {
        let (x0, x1) = (scale.x(range.0), scale.x(range.1));
        let x1 = x1.max(x0 + 4.0);
        let frame = Rect::from_min_max(pos2(x0, rect.top()), pos2(x1, rect.bottom()));
        ui.painter().rect_filled(frame, 2.0, p.text.gamma_multiply(0.06));
        ui.painter()
            .rect_stroke(frame, 2.0, Stroke::new(1.0, p.text), egui::StrokeKind::Inside);
    }
}

fn mark(ui: &Ui, x: f32, top: f32, colour: Color32) {
    let points = vec![pos2(x - 3.0, top), pos2(x + 3.0, top), pos2(x, top + 5.0)];
    ui.painter().add(Shape::convex_polygon(points, colour, Stroke::NONE));
}

/// The moment's number on the ruler.
fn flag(doc: &Document, ui: &Ui, scale: &Scale, lanes: Rect) {
    let p = palette(ui);
    let x = x_of(doc, scale, doc.moment()).round() + 0.5;
    if (scale.area.left() - 1.0..=scale.area.right() + 1.0).contains(&x) {
        let galley = ui
            .painter()
            .layout_no_wrap(text::count(doc.moment()), mono_small(), p.panel);
        let flag = Rect::from_center_size(pos2(x, lanes.top() - RULER / 2.0), galley.size() + vec2(14.0, 5.0));
        ui.painter().rect_filled(flag, 3.0, p.text);
        ui.painter()
            .galley(flag.center() - galley.size() / 2.0, galley, p.panel);
    }
}

/// The moment, the selected job's end, and what the person measures.
fn overlay(doc: &Document, ui: &Ui, scale: &Scale, lanes: Rect) {
    let p = palette(ui);
    let x = x_of(doc, scale, doc.moment()).round() + 0.5;
    if (scale.area.left() - 1.0..=scale.area.right() + 1.0).contains(&x) {
        ui.painter().vline(x, lanes.y_range(), Stroke::new(1.5, p.text));
    }
    if let Some((a, b)) = doc.timeline.measure {
        measured(doc, ui, scale, lanes, a.min(b), a.max(b), p);
    } else if let Selection::Job(j) = doc.selection()
        && let Some(job) = doc.facts.jobs.get(*j as usize)
        && let (Some(done), Some(ns)) = (job.done, job.duration_ns)
    {
        let (x0, x1) = (x_of(doc, scale, job.submit), x_of(doc, scale, done));
        ui.painter().add(Shape::dashed_line(
            &[pos2(x1, lanes.top()), pos2(x1, lanes.bottom())],
            Stroke::new(1.0, p.quiet),
            3.0,
            3.0,
        ));
        let y = lanes.bottom() - 10.0;
        let note = {
            let n = done - job.submit;
            format!(
                "{} to its interrupt, {n} event{}",
                text::duration(ns),
                if n == 1 { "" } else { "s" }
            )
        };
        note_at(ui, pos2(x1.max(x0) + 6.0, y), scale.area.right(), &note, p);
    }
}

fn note_at(ui: &Ui, at: egui::Pos2, right: f32, note: &str, p: &Palette) {
    let galley = ui.painter().layout_no_wrap(note.to_owned(), small(), p.text);
    let x = at.x.min(right - galley.size().x - 6.0);
    let back = Rect::from_min_size(
        pos2(x - 3.0, at.y - galley.size().y / 2.0 - 1.0),
        galley.size() + vec2(6.0, 2.0),
    );
    ui.painter().rect_filled(back, 2.0, p.panel);
    ui.painter()
        .galley(pos2(x, at.y - galley.size().y / 2.0), galley, p.text);
}

fn measured(doc: &Document, ui: &Ui, scale: &Scale, lanes: Rect, a: f64, b: f64, p: &Palette) {
    let axis = &doc.facts.axis;
    let (x0, x1) = (scale.x(a), scale.x(b));
    let band = Rect::from_min_max(pos2(x0, lanes.top()), pos2(x1, lanes.bottom()));
    ui.painter().rect_filled(band, 0.0, p.read.gamma_multiply(0.12));
    let kind = doc.timeline.axis;
    let (first, end) = (axis.event_at(kind, a), axis.event_at(kind, b));
    let last = end.saturating_sub(1).max(first);
    let ns = axis.ns(last).saturating_sub(axis.ns(first));
    let y = lanes.bottom() - 10.0;
    ui.painter().hline(x0..=x1, y, Stroke::new(1.0, p.text));
    let n = end.saturating_sub(first);
    note_at(
        ui,
        pos2(x0 + 4.0, y - 12.0),
        scale.area.right(),
        &format!("{}, {} events", text::duration(ns), text::count(n)),
        p,
    );
}

/// Font of lane names.
pub(super) fn lane_font() -> egui::FontId {
    let mut f = body();
    f.size = 12.0;
    f
}
