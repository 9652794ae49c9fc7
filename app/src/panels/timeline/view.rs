//! Which part of the axis the timeline shows, and how a person moves it.

use super::minimap::Drag;
use super::scale::Kept;
use crate::document::Document;
use crate::document::axis::AxisKind;
use egui::Ui;

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
    /// Points that are hidden above, when not all lanes fit.
    pub(super) scroll: f32,
    /// What lies in the pixels of the lanes, and of the minimap.
    pub(super) lanes: Kept,
    pub(super) all: Kept,
    /// What a drag on the minimap does.
    pub(super) drag: Option<Drag>,
}

impl View {
    /// Shows a part of the axis.
    pub fn show(&mut self, range: Option<(f64, f64)>, from: (f64, f64), now: f64) {
        self.from = Some((from, now));
        self.range = range;
    }

    /// Ends a zoom that is going on.
    pub fn at_once(&mut self) {
        self.from = None;
    }

    /// Whether a zoom is going on.
    #[must_use]
    pub fn moving(&self) -> bool {
        self.from.is_some()
    }

    /// Stays where it is although the moment moved: the person clicked on what is in view.
    pub(super) fn stay(&mut self, jumps: u64) {
        self.seen_jump = jumps;
    }
}

impl Document {
    /// Part of the axis that the timeline shows.
    #[must_use]
    pub fn timeline_range(&self) -> (f64, f64) {
        let end = self.facts.axis.end(self.timeline.axis);
        self.timeline.range.unwrap_or((0.0, end))
    }

    /// The least of the axis that can be shown.
    fn timeline_least(&self) -> f64 {
        let end = self.facts.axis.end(self.timeline.axis);
        let least: f64 = if self.timeline.axis == AxisKind::Order {
            4.0
        } else {
            100.0
        };
        least.min(end)
    }

    /// The part of this width that begins at `start`, moved so that it lies on the axis; `None` when it is all of it.
    fn timeline_part(&self, start: f64, width: f64) -> Option<(f64, f64)> {
        let end = self.facts.axis.end(self.timeline.axis);
        let width = width.max(self.timeline_least());
        (width < end).then(|| {
            let start = start.clamp(0.0, end - width);
            (start, start + width)
        })
    }

    /// Zooms the timeline about a position, `factor` above 1 showing less.
    pub fn timeline_zoom(&mut self, factor: f64, about: Option<f64>, now: f64) {
        let (a, b) = self.timeline_range();
        let moment = self.facts.axis.position(self.timeline.axis, self.moment());
        let in_view = (a..=b).contains(&moment);
        let about = about.unwrap_or(if in_view { moment } else { (a + b) / 2.0 });
        let width = ((b - a) / factor).max(self.timeline_least());
        let part = (about - a) / (b - a).max(f64::MIN_POSITIVE);
        let to = self.timeline_part(about - part * width, width);
        self.timeline.show(to, (a, b), now);
    }

    /// Moves the timeline by a part of its width.
    pub fn timeline_pan(&mut self, part: f64, now: f64) {
        let (a, b) = self.timeline_range();
        let to = self.timeline_part(a + (b - a) * part, b - a);
        self.timeline.show(to, (a, b), now);
    }

    /// Shows the whole recording.
    pub fn timeline_fit(&mut self, now: f64) {
        let from = self.timeline_range();
        self.timeline.show(None, from, now);
    }

    /// Shows what is measured, and measures no more.
    pub fn timeline_zoom_to_measure(&mut self, now: f64) {
        if let Some((a, b)) = self.timeline.measure.take() {
            let from = self.timeline_range();
            let to = self.timeline_part(a.min(b), (b - a).abs());
            self.timeline.show(to, from, now);
        }
    }

    /// Shows the part between two positions at once.
    pub(super) fn timeline_between(&mut self, a: f64, b: f64) {
        self.timeline.range = self.timeline_part(a.min(b), (b - a).abs());
        self.timeline.at_once();
    }

    /// Chooses the axis; what is in view stays in view, as far as the axis allows.
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
        self.timeline.at_once();
        let place = |event| self.facts.axis.position(axis, event);
        let (a, b) = (place(events.0), place(events.1));
        self.timeline.range = if whole { None } else { self.timeline_part(a, b - a) };
    }
}

/// Brings the moment into view after a jump.
pub(super) fn follow_moment(doc: &mut Document) {
    if doc.timeline.seen_jump == doc.jumps {
        return;
    }
    doc.timeline.seen_jump = doc.jumps;
    let (a, b) = doc.timeline_range();
    let at = doc.facts.axis.position(doc.timeline.axis, doc.moment());
    if !(a..=b).contains(&at) {
        doc.timeline.range = doc.timeline_part(at - (b - a) / 2.0, b - a);
        doc.timeline.at_once();
    }
}

/// The part that is shown in this frame, on the way from where a zoom began to where it ends.
pub(super) fn animated(doc: &mut Document, ui: &Ui, now: f64) -> (f64, f64) {
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
