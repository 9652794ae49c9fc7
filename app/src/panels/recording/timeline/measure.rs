//! The measurement that the user drags across the lanes, and the overlay: the current event, the selected job.

use super::label::{describe_count, note_at};
use super::scale::{Scale, event_x};
use super::view::View;
use crate::theme::palette;
use egui::accesskit::Role;
use egui::{Rect, Sense, Shape, Stroke, Ui, WidgetInfo, pos2};
use kinescope_files::scene::Selection;
use kinescope_session::axis::{AxisKind, time_at};
use kinescope_session::{Document, text};

/// The content between two positions of the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// First event.
    pub first: u64,
    /// Number of events.
    pub events: u64,
    /// Nanoseconds from the first to the last of them.
    pub ns: u64,
    /// Nanoseconds from edge to edge as drawn; `None` if the axis does not show time.
    pub span_ns: Option<u64>,
    /// Whether the recording has times.
    pub has_times: bool,
    /// Whether its clock counts ticks.
    pub counts_ticks: bool,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Jobs that were submitted.
    pub jobs: u64,
}

impl Measure {
    /// Returns what the user measures now.
    #[must_use]
    pub fn new(doc: &Document, view: &View) -> Option<Self> {
        let (a, b) = view.measure?;
        let (axis, kind) = (&doc.derived.axis, view.axis);
        let (from, to) = (a.min(b), a.max(b));
        let has_times = doc.has_times();
        let time = kind != AxisKind::Order && has_times;
        // Events have no width on an axis of time: one at the right edge belongs to the measurement.
        let beyond = if time { to.floor() + 1.0 } else { to };
        let (first, end) = (axis.event_at(kind, from), axis.event_at(kind, beyond));
        let span = time_at(axis, kind, to) - time_at(axis, kind, from);
        let marks = doc.derived.pyramid.lanes().iter().map(|l| l == "marks");
        let counts = doc.derived.pyramid.count(&doc.recording.events, first..end);
        let (mut reads, mut writes) = (0, 0);
        for ((r, w), marks) in counts.into_iter().zip(marks) {
            reads += if marks { 0 } else { u64::from(r) };
            writes += u64::from(w);
        }
        let submits = |e: u64| doc.derived.jobs.partition_point(|j| j.submit < e);
        Some(Self {
            first,
            events: end.saturating_sub(first),
            ns: axis.ns(end.saturating_sub(1).max(first)).saturating_sub(axis.ns(first)),
            span_ns: time.then(|| span.max(0.0).round() as u64),
            has_times,
            counts_ticks: doc.recording.counts_ticks(),
            reads,
            writes,
            jobs: (submits(end) - submits(first)) as u64,
        })
    }

    /// Describes the measurement.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut parts = vec![self.length()];
        if self.span_ns.is_some() && self.events > 1 {
            parts.push(format!("first to last event {}", self.format_interval(self.ns)));
        }
        if self.events == 0 {
            parts.push("no events".to_owned());
        } else {
            parts.push(describe_count(self.events, "event"));
            parts.push(format!(
                "{}, {}",
                describe_count(self.reads, "read"),
                describe_count(self.writes, "write")
            ));
        }
        if self.jobs > 0 {
            parts.push(describe_count(self.jobs, "job"));
        }
        parts.retain(|part| !part.is_empty());
        parts.join(" · ")
    }

    /// Formats the length: from edge to edge on an axis of time, from the first to the last event on an axis of order;
    /// empty for a recording without times.
    fn length(&self) -> String {
        match self.span_ns {
            _ if !self.has_times => String::new(),
            Some(ns) => self.format_interval(ns),
            None => self.format_interval(self.ns),
        }
    }

    fn format_interval(&self, n: u64) -> String {
        match self.counts_ticks {
            true => text::count_ticks(n),
            false => text::duration(n),
        }
    }
}

/// Draws the current event, the selected job's end, and the measurement.
pub fn overlay(doc: &Document, view: &View, ui: &Ui, scale: &Scale, lanes: Rect) {
    let p = palette(ui);
    let x = event_x(doc, scale, doc.current_event()).round() + 0.5;
    if (scale.area.left() - 1.0..=scale.area.right() + 1.0).contains(&x) {
        ui.painter().vline(x, lanes.y_range(), Stroke::new(1.5, p.text));
    }
    if let Some((m, (a, b))) = Measure::new(doc, view).zip(view.measure) {
        measured(ui, scale, lanes, &m, (a.min(b), a.max(b)));
    } else if let Selection::Job(j) = doc.selection()
        && let Some(job) = doc.derived.jobs.get(*j as usize)
        && let (Some(done), Some(ns)) = (job.done, job.duration_ns)
    {
        let (x0, x1) = (event_x(doc, scale, job.submit), event_x(doc, scale, done));
        let end = [pos2(x1, lanes.top()), pos2(x1, lanes.bottom())];
        let dashes = Shape::dashed_line(&end, Stroke::new(1.0, p.quiet), 3.0, 3.0);
        ui.painter().add(dashes);
        let seen = (scale.area.left()..=scale.area.right()).contains(&x1);
        let n = describe_count(done - job.submit, "event");
        let note = if doc.has_times() {
            format!("{} to its interrupt, {n}", doc.format_interval(ns))
        } else {
            format!("{n} to its interrupt")
        };
        if seen {
            note_at(
                ui,
                pos2(x1.max(x0) + 6.0, lanes.bottom() - 10.0),
                scale.area.right(),
                &note,
            );
        }
    }
}

fn measured(ui: &Ui, scale: &Scale, lanes: Rect, m: &Measure, (a, b): (f64, f64)) {
    let p = palette(ui);
    let clamp = |x: f32| x.clamp(scale.area.left(), scale.area.right());
    let (x0, x1) = (clamp(scale.x(a)), clamp(scale.x(b)));
    let band = Rect::from_min_max(pos2(x0, lanes.top()), pos2(x1, lanes.bottom()));
    ui.painter().rect_filled(band, 0.0, p.read.gamma_multiply(0.12));
    for x in [x0, x1] {
        ui.painter().vline(x, lanes.y_range(), Stroke::new(1.0, p.read));
    }
    let y = lanes.bottom() - 8.0;
    ui.painter().hline(x0..=x1, y, Stroke::new(1.0, p.text));
    for x in [x0, x1] {
        ui.painter().vline(x, y - 4.0..=y + 4.0, Stroke::new(1.0, p.text));
    }
    let words = m.describe();
    let response = ui.interact(band, ui.scope_id().with("measured"), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("Measured {words}")));
    note_at(ui, pos2(x0 + 6.0, y - 11.0), scale.area.right(), &words);
}
