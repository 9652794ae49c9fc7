//! Conversion between positions on the axis and pixels, with the content of each pixel.

use super::spans::Spans;
use super::trail::{self, Mark};
use egui::Rect;
use kinescope_session::Document;
use kinescope_session::axis::AxisKind;
use std::sync::Arc;
use trace_core::RegOffset;
use trace_core::timeline::Pixels;

/// The content of the last visible part: a frame with the same part looks up nothing again.
#[derive(Clone, Debug, Default)]
pub struct ScaleCache {
    key: Option<Key>,
    pixels: Arc<Pixels>,
    spans: Arc<Spans>,
    trail: Option<(trail::Key, Arc<Vec<Mark>>)>,
}

/// The key of a part.
#[derive(Clone, Debug, PartialEq)]
struct Key {
    axis: AxisKind,
    range: (f64, f64),
    pixels: usize,
    /// Number of stages that are still pending: each adds content.
    pending: usize,
    pins: Vec<RegOffset>,
}

impl ScaleCache {
    fn refresh(&mut self, doc: &Document, axis: AxisKind, range: (f64, f64), pixels: usize) {
        let key = Key {
            axis,
            range,
            pixels,
            pending: doc.derived.pending.len(),
            pins: doc.changes().pins().to_vec(),
        };
        if self.key.as_ref() != Some(&key) {
            let shown = doc
                .derived
                .pyramid
                .pixels(&doc.recording.events, key.axis, range, pixels);
            self.spans = Arc::new(Spans::new(doc, key.axis, &shown));
            self.pixels = Arc::new(shown);
            self.key = Some(key);
            self.trail = None;
        }
    }

    /// Returns the marks of the followed selection.
    fn marks(&mut self, doc: &Document) -> Arc<Vec<Mark>> {
        let key = trail::key(doc);
        if let Some((of, marks)) = &self.trail
            && *of == key
        {
            return Arc::clone(marks);
        }
        let marks = Arc::new(trail::list_marks(doc, &self.pixels));
        self.trail = Some((key, Arc::clone(&marks)));
        marks
    }
}

/// Data for drawing: the screen, the axis, the events at every pixel.
pub struct Scale {
    /// Where lanes are drawn.
    pub area: Rect,
    /// Axis of the positions.
    pub axis: AxisKind,
    /// Visible part of the axis.
    pub range: (f64, f64),
    /// Events in each pixel.
    pub pixels: Arc<Pixels>,
    /// Items that span several events.
    pub spans: Arc<Spans>,
    /// Marks of the followed selection.
    pub trail: Arc<Vec<Mark>>,
}

/// An event that is drawn by itself.
pub struct SingleEvent {
    /// The event.
    pub event: u64,
    /// Lane of the pyramid.
    pub lane: usize,
    /// Whether it writes.
    pub write: bool,
    /// Left edge.
    pub x: f32,
    /// Width.
    pub width: f32,
}

impl Scale {
    /// Returns the scale of the lanes, which show a part of the axis.
    pub fn for_lanes(doc: &Document, axis: AxisKind, area: Rect, range: (f64, f64), kept: &mut ScaleCache) -> Self {
        kept.refresh(doc, axis, range, area.width().max(1.0) as usize);
        let trail = kept.marks(doc);
        Self {
            trail,
            ..Self::new(axis, area, range, kept)
        }
    }

    /// Returns the scale of the minimap. Its bars are two points wide, or as wide as an event if there are few.
    pub fn for_recording(doc: &Document, axis: AxisKind, area: Rect, kept: &mut ScaleCache) -> Self {
        let range = (0.0, doc.derived.axis.end(axis));
        let max = match axis {
            AxisKind::Order => doc.len() as f32,
            _ => f32::INFINITY,
        };
        let pixels = (area.width() / 2.0).min(max);
        kept.refresh(doc, axis, range, pixels.max(1.0) as usize);
        Self::new(axis, area, range, kept)
    }

    fn new(axis: AxisKind, area: Rect, range: (f64, f64), kept: &ScaleCache) -> Self {
        Self {
            area,
            axis,
            range,
            pixels: Arc::clone(&kept.pixels),
            spans: Arc::clone(&kept.spans),
            trail: Arc::default(),
        }
    }

    /// Returns the horizontal coordinate of a position.
    pub fn x(&self, position: f64) -> f32 {
        let part = (position - self.range.0) / (self.range.1 - self.range.0).max(f64::MIN_POSITIVE);
        // Far outside the view precision does not matter, but overflow would.
        self.area.left() + (part.clamp(-2.0, 3.0) as f32) * self.area.width()
    }

    /// Returns the position at a horizontal coordinate.
    pub fn position(&self, x: f32) -> f64 {
        self.range.0 + f64::from((x - self.area.left()) / self.area.width()) * (self.range.1 - self.range.0)
    }

    /// Returns the events in view: the first, and one past the last.
    pub fn events(&self) -> (u64, u64) {
        self.pixels.events()
    }

    /// Returns the left edge of a pixel.
    pub fn left(&self, pixel: usize) -> f32 {
        // Pixels divide the area evenly; its width need not be a whole number of them.
        self.area.left() + pixel as f32 * self.area.width() / self.pixels.len().max(1) as f32
    }

    /// Returns the pixels that hold events, each with its first event and the first event of the next pixel.
    pub fn filled_pixels(&self) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
        let edges = self.pixels.edges.windows(2).enumerate();
        edges.filter_map(|(i, w)| match w {
            [a, b] if a < b => Some((i, *a, *b)),
            _ => None,
        })
    }

    /// Returns the events with notes, at most one a pixel.
    pub fn list_noted_events(&self, doc: &Document) -> Vec<u64> {
        let notes = doc.changes().notes();
        if notes.is_empty() {
            return Vec::new();
        }
        let first = |(_, a, b): (usize, u64, u64)| notes.range(a..b).next().map(|n| *n.0);
        self.filled_pixels().filter_map(first).collect()
    }

    /// Returns the events in view, each with its position, if there are few enough to see each one.
    pub fn list_single_events(&self, doc: &Document) -> Vec<SingleEvent> {
        let (a, b) = self.events();
        let mut out: Vec<SingleEvent> = Vec::new();
        if (b.saturating_sub(a)) as f32 * 2.5 > self.area.width() {
            return out;
        }
        doc.derived
            .pyramid
            .each(&doc.recording.events, a..b, |event, lane, write| {
                let x = event_x(doc, self, event).round();
                out.push(SingleEvent {
                    event,
                    lane,
                    write,
                    x,
                    width: 0.0,
                });
            });
        let mut next = event_x(doc, self, b);
        for s in out.iter_mut().rev() {
            s.width = (next - s.x - 1.0).clamp(2.0, 14.0);
            next = s.x;
        }
        out
    }
}

/// Returns the horizontal coordinate of an event.
pub fn event_x(doc: &Document, scale: &Scale, event: u64) -> f32 {
    scale.x(doc.derived.axis.position(scale.axis, event))
}
