//! State of the Timeline panel: the visible part of the axis, and its moves.

use super::heights::Heights;
use super::scale::ScaleCache;
use egui::Ui;
use kinescope_session::Document;
use kinescope_session::axis::AxisKind;

/// Duration of a zoom, seconds.
const ZOOM_S: f64 = 0.12;

/// Effect of a drag on the minimap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Drag {
    /// Moves the visible part; the distance from its start to where it was grabbed.
    Move(f64),
    /// Selects the visible part, from here to the pointer.
    Choose(f64),
}

/// State of the timeline.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Axis.
    pub axis: AxisKind,
    /// Visible part of the axis; `None`: all.
    pub range: Option<(f64, f64)>,
    /// Where and when a zoom started; it ends at `range`.
    from: Option<((f64, f64), f64)>,
    /// Positions between which the user measures.
    pub measure: Option<(f64, f64)>,
    seen_jump: u64,
    /// Points that are hidden above, if not all lanes fit.
    pub(super) scroll: f32,
    /// Maximum height that all lanes needed so far, points: lanes come and go with the zoom.
    pub(super) tallest: f32,
    /// Content of the pixels of the lanes, and of the minimap.
    pub(super) lanes: ScaleCache,
    pub(super) all: ScaleCache,
    /// The current drag on the minimap.
    pub(super) drag: Option<Drag>,
    /// Heights of lanes that the user chose.
    pub heights: Heights,
    /// The event under the pointer when the menu of the lanes was opened.
    pub(super) menu_at: Option<u64>,
}

impl View {
    /// Returns the height at which everything would be visible, points, including the lanes of every part that was in
    /// view; 0 before the first frame.
    #[must_use]
    pub fn tallest(&self) -> f32 {
        self.tallest
    }

    /// Shows a part of the axis.
    pub fn show(&mut self, range: Option<(f64, f64)>, from: (f64, f64), now: f64) {
        self.from = Some((from, now));
        self.range = range;
    }

    /// Ends a running zoom.
    pub fn finish_animation(&mut self) {
        self.from = None;
    }

    /// Returns whether a zoom is running.
    #[must_use]
    pub fn is_animating(&self) -> bool {
        self.from.is_some()
    }

    /// Keeps the view although the current event moved: the user clicked on what is in view.
    pub(super) fn mark_jump_seen(&mut self, jumps: u64) {
        self.seen_jump = jumps;
    }

    /// Returns the visible part of the axis.
    #[must_use]
    pub fn visible_range(&self, doc: &Document) -> (f64, f64) {
        let end = doc.derived.axis.end(self.axis);
        self.range.unwrap_or((0.0, end))
    }

    /// Returns whether the end of the axis is in view.
    #[must_use]
    pub fn is_at_end(&self, doc: &Document) -> bool {
        let end = doc.derived.axis.end(self.axis);
        // Positions are rounded when a view moves.
        self.range.is_none_or(|(_, b)| b >= end - (end * 1e-9))
    }

    /// Moves the visible part to the end of the axis. Its width stays.
    pub fn go_to_end(&mut self, doc: &Document) {
        let end = doc.derived.axis.end(self.axis);
        if let Some((a, b)) = self.range {
            self.range = self.clamp_range(doc, end - (b - a), b - a);
        }
        self.finish_animation();
    }

    /// Drops the content of the pixels: the recording has grown.
    pub fn forget_results(&mut self) {
        self.lanes = ScaleCache::default();
        self.all = ScaleCache::default();
    }

    /// Returns the minimum width of the visible part.
    fn min_width(&self, doc: &Document) -> f64 {
        let end = doc.derived.axis.end(self.axis);
        let min: f64 = if self.axis == AxisKind::Order { 4.0 } else { 100.0 };
        min.min(end)
    }

    /// Returns the part of this width that starts at `start`, moved so that it lies on the axis; `None` if it is all
    /// of it.
    fn clamp_range(&self, doc: &Document, start: f64, width: f64) -> Option<(f64, f64)> {
        let end = doc.derived.axis.end(self.axis);
        let width = width.max(self.min_width(doc));
        (width < end).then(|| {
            let start = start.clamp(0.0, end - width);
            (start, start + width)
        })
    }

    /// Zooms the timeline about a position, `factor` above 1 showing less.
    pub fn zoom(&mut self, doc: &Document, factor: f64, about: Option<f64>, now: f64) {
        let (a, b) = self.visible_range(doc);
        let cursor = doc.derived.axis.position(self.axis, doc.current_event());
        let in_view = (a..=b).contains(&cursor);
        let about = about.unwrap_or(if in_view { cursor } else { (a + b) / 2.0 });
        let width = ((b - a) / factor).max(self.min_width(doc));
        let part = (about - a) / (b - a).max(f64::MIN_POSITIVE);
        let to = self.clamp_range(doc, about - part * width, width);
        self.show(to, (a, b), now);
    }

    /// Moves the timeline by a part of its width.
    pub fn pan(&mut self, doc: &Document, part: f64, now: f64) {
        let (a, b) = self.visible_range(doc);
        let to = self.clamp_range(doc, a + (b - a) * part, b - a);
        self.show(to, (a, b), now);
    }

    /// Shows the whole recording.
    pub fn fit(&mut self, doc: &Document, now: f64) {
        let from = self.visible_range(doc);
        self.show(None, from, now);
    }

    /// Shows what is measured, and ends the measurement.
    pub fn zoom_to_measure(&mut self, doc: &Document, now: f64) {
        if let Some((a, b)) = self.measure.take() {
            let from = self.visible_range(doc);
            let to = self.clamp_range(doc, a.min(b), (b - a).abs());
            self.show(to, from, now);
        }
    }

    /// Shows everything between two events, with some room on both sides.
    pub fn zoom_to_events(&mut self, doc: &Document, first: u64, last: u64, now: f64) {
        let from = self.visible_range(doc);
        let place = |event| doc.derived.axis.position(self.axis, event);
        let (a, b) = (place(first), place(last));
        let room = (b - a) * 0.05;
        let to = self.clamp_range(doc, a - room, (b - a) + 2.0 * room);
        self.show(to, from, now);
    }

    /// Shows the part between two positions at once.
    pub(super) fn zoom_to_range(&mut self, doc: &Document, a: f64, b: f64) {
        self.range = self.clamp_range(doc, a.min(b), (b - a).abs());
        self.finish_animation();
    }

    /// Chooses the axis; the visible part stays in view, as far as the axis allows.
    pub fn set_axis(&mut self, doc: &Document, axis: AxisKind) {
        if self.axis == axis {
            return;
        }
        let (a, b) = self.visible_range(doc);
        let old = self.axis;
        let events = (doc.derived.axis.event_at(old, a), doc.derived.axis.event_at(old, b));
        let whole = self.range.is_none();
        self.axis = axis;
        self.measure = None;
        self.finish_animation();
        let place = |event| doc.derived.axis.position(axis, event);
        let (a, b) = (place(events.0), place(events.1));
        self.range = if whole { None } else { self.clamp_range(doc, a, b - a) };
    }

    /// Brings the current event into view after a jump.
    pub(super) fn follow_cursor(&mut self, doc: &Document) {
        if self.seen_jump == doc.jumps {
            return;
        }
        self.seen_jump = doc.jumps;
        let (a, b) = self.visible_range(doc);
        let at = doc.derived.axis.position(self.axis, doc.current_event());
        if !(a..=b).contains(&at) {
            self.range = self.clamp_range(doc, at - (b - a) / 2.0, b - a);
            self.finish_animation();
        }
    }

    /// Returns the visible part in this frame, between the start and the end of a zoom.
    pub(super) fn animate(&mut self, doc: &Document, ui: &Ui, now: f64) -> (f64, f64) {
        let to = self.visible_range(doc);
        let Some((from, since)) = self.from else {
            return to;
        };
        let t = ((now - since) / ZOOM_S).clamp(0.0, 1.0);
        if t >= 1.0 {
            self.from = None;
            return to;
        }
        ui.ctx().request_repaint();
        let ease = 1.0 - (1.0 - t) * (1.0 - t);
        (from.0 + (to.0 - from.0) * ease, from.1 + (to.1 - from.1) * ease)
    }
}
