//! A lane of the timeline with its name: the target of a click, and the tooltip.

use super::draw;
use super::label::{describe_count, lane_font};
use super::lane::{Lane, name};
use super::scale::{Scale, SingleEvent, event_x};
use super::{program_ranges, streams};
use crate::theme::{mono_small, palette, small, widgets};
use egui::accesskit::Role;
use egui::{Align2, Rect, Sense, Ui, WidgetInfo, pos2};
use kinescope_files::changes::SavedFilter;
use kinescope_files::scene::Selection;
use kinescope_session::jobs::JobFact;
use kinescope_session::{Document, descriptions, text};
use trace_core::diff::DiffSide;
use trace_core::xref::XrefTarget;

/// Draws a lane in a rectangle that holds its name too.
pub fn row(doc: &mut Document, ui: &mut Ui, scale: &Scale, single: &[SingleEvent], lane: &Lane, rect: Rect) {
    let p = palette(ui);
    let (label, kind) = name(doc, lane);
    let names = Rect::from_min_max(
        pos2(rect.left() + 12.0, rect.top()),
        pos2(scale.area.left() - 6.0, rect.bottom()),
    );
    let first = *lane == Lane::References;
    let response = ui.interact(names, ui.scope_id().with(("lane", first, &label)), Sense::click());
    let called = if first { "Trail of" } else { "Lane" };
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{called} {label}")));
    let pin = matches!(lane, Lane::Pin(_) | Lane::FilterMatches(_))
        || *lane == Lane::References && doc.xref_target().is_some();
    let (font, colour) = if pin {
        (mono_small(), p.text)
    } else {
        (lane_font(), p.quiet)
    };
    let short = if pin {
        text::truncate_middle(&label, PINNED)
    } else {
        label.clone()
    };
    let used = widgets::paint_text(ui, names, Align2::LEFT_CENTER, &short, font, colour);
    let rest = Rect::from_min_max(pos2(names.left() + used + 5.0, names.top()), names.max);
    if !kind.is_empty() && rest.width() > 24.0 {
        widgets::paint_text(ui, rest, Align2::LEFT_CENTER, kind, small(), p.quiet);
    }
    if let Lane::Pin(r) = lane {
        if response.on_hover_text(format!("{label}: click to unpin")).clicked() {
            doc.pin(*r);
        }
    } else if let Lane::FilterMatches(text) = lane {
        let message = match (doc.lanes.rows(text), doc.lanes.error(text)) {
            (Some(rows), _) => format!("{} of {}", describe_count(rows.len(), "event"), text::count(doc.len())),
            (None, Some(why)) => format!("does not fit this recording: {why}"),
            (None, None) => "searching…".into(),
        };
        let message = format!("{text}\n{message}\nclick to remove the lane");
        if response.on_hover_text(message).clicked()
            && let Some(saved) = doc.changes().filter(text).cloned()
        {
            doc.save_filter(text, Some(SavedFilter { lane: false, ..saved }));
        }
    } else if let Some(description) = super::lane::describe(doc, lane) {
        response.on_hover_text(description);
    } else if used >= names.width() - 1.0 {
        response.on_hover_text(label);
    }
    let clip = ui.clip_rect();
    let inner = Rect::from_min_max(
        pos2(scale.area.left(), rect.top()),
        pos2(scale.area.right(), rect.bottom()),
    );
    ui.set_clip_rect(clip.intersect(inner));
    draw::lane(doc, ui, scale, single, lane, inner);
    ui.set_clip_rect(clip);
}

/// Maximum number of characters of a pinned register's name, left of its lane.
const PINNED: usize = 14;

/// Maximum distance of a click from an item, points.
const NEAR: f32 = 4.0;

/// Returns the job at a position of the jobs lane: one that runs there, or the nearest.
fn job_at<'a>(doc: &'a Document, scale: &Scale, x: f32) -> Option<&'a JobFact> {
    let axis = &doc.derived.axis;
    let at = axis.event_at(scale.axis, scale.position(x + NEAR));
    let away = |j: &JobFact| {
        let (first, last) = j.span();
        let (x0, x1) = (event_x(doc, scale, first), event_x(doc, scale, last));
        (x0 - x).max(x - x1).max(0.0)
    };
    let mut near: Vec<&JobFact> = Vec::new();
    for slot in &doc.derived.slots {
        let job = |i: &u32| doc.derived.jobs.get(*i as usize);
        let n = slot.partition_point(|i| job(i).is_some_and(|j| j.submit <= at));
        // The last two: if they share pixels, the click may be on the earlier one.
        let last = slot.get(n.saturating_sub(2)..n).unwrap_or_default();
        near.extend(last.iter().filter_map(job));
    }
    near.into_iter()
        .filter(|j| away(j) <= NEAR)
        .min_by(|a, b| away(a).total_cmp(&away(b)))
}

/// Returns the item of a sorted list whose event is nearest to a position.
fn find_nearest<'a, T>(
    doc: &Document,
    scale: &Scale,
    list: &'a [T],
    x: f32,
    event: impl Fn(&T) -> u64,
) -> Option<(usize, &'a T)> {
    let at = doc.derived.axis.event_at(scale.axis, scale.position(x));
    let n = list.partition_point(|i| event(i) < at);
    let away = |i: &T| (event_x(doc, scale, event(i)) - x).abs();
    [n.checked_sub(1), Some(n)]
        .into_iter()
        .flatten()
        .filter_map(|i| Some((i, list.get(i)?)))
        .min_by(|a, b| away(a.1).total_cmp(&away(b.1)))
}

/// Selects what lies at a position of a lane.
pub fn select_at(doc: &mut Document, scale: &Scale, lane: Option<&Lane>, x: f32) {
    let close = |doc: &Document, e: u64| (event_x(doc, scale, e) - x).abs() < NEAR + 2.0;
    match lane {
        Some(Lane::Jobs) => {
            if let Some(j) = job_at(doc, scale, x).map(|j| j.index) {
                doc.go_job(j);
            }
        }
        Some(Lane::Interrupts) => {
            let hit = find_nearest(doc, scale, &doc.derived.interrupts, x, |i| i.event).map(|i| i.1.event);
            if let Some(e) = hit.filter(|e| close(doc, *e)) {
                doc.go(e);
            }
        }
        Some(Lane::Polls) => {
            let at = doc.derived.axis.nearest(scale.axis, scale.position(x));
            if let Some(first) = doc.derived.poll_at(at).map(|p| p.first) {
                doc.go(first);
            }
        }
        Some(Lane::Divergences) => {
            let list = doc.replay.outcome.as_ref().map(|o| &o.divergences);
            let hit = list
                .and_then(|l| find_nearest(doc, scale, l, x, |d| d.event))
                .map(|(i, d)| (i, d.event));
            if let Some((i, e)) = hit {
                doc.go_with(e, Selection::Divergence(i as u32));
            }
        }
        Some(Lane::Notes) => {
            if let Some(e) = note_at(doc, scale, x) {
                doc.go_with(e, Selection::Note(e));
            }
        }
        Some(Lane::Block(i)) => {
            let at = doc.derived.axis.nearest(scale.axis, scale.position(x));
            if let Some(e) = find_event_in_pixel(doc, scale, *i, x)
                .or_else(|| doc.derived.pyramid.nearest(&doc.recording.events, *i, at))
            {
                doc.go(e);
            }
        }
        Some(Lane::Stream(n)) => {
            if let Some(e) = stream_event_at(doc, scale, *n, x) {
                doc.go(e);
            }
        }
        Some(Lane::Failed) => {
            let api_trace = doc.derived.api_trace.clone();
            let hit = api_trace.and_then(|c| find_nearest(doc, scale, c.failed_calls(), x, |e| *e).map(|(_, e)| *e));
            if let Some(e) = hit {
                doc.go(e);
            }
        }
        Some(Lane::References) => {
            if let Some(e) = super::reference_lane::find_nearest(doc, scale, x) {
                let selection = match doc.xref_target() {
                    Some(XrefTarget::Register { register, .. }) => Selection::Register(register),
                    _ => doc.selection().clone(),
                };
                doc.go_with(e, selection);
            }
        }
        Some(Lane::Differences) => {
            let at = doc.derived.axis.nearest(scale.axis, scale.position(x - NEAR));
            if let Some(c) = doc.comparison.done.clone()
                && let Some(row) = c.steps.row_at_or_behind(c.steps.step_of(DiffSide::A, at))
            {
                doc.go_row(row);
            }
        }
        Some(Lane::FilterMatches(text)) => {
            if let Some(e) = match_at(doc, scale, text, x) {
                doc.go(e);
            }
        }
        Some(Lane::Pin(r)) => {
            let at = doc.derived.axis.event_at(scale.axis, scale.position(x));
            let around = doc.derived.registers.get(r).map(|f| f.accesses.all().neighbors(at));
            let hit = nearest_of(doc, scale, x, around.into_iter().flatten().flatten());
            if let Some(e) = hit {
                doc.go_with(e, Selection::Register(*r));
            }
        }
        _ => {}
    }
}

/// Returns the event that is drawn nearest to a position.
fn nearest_of(doc: &Document, scale: &Scale, x: f32, events: impl Iterator<Item = u64>) -> Option<u64> {
    let away = |e: &u64| (event_x(doc, scale, *e) - x).abs();
    events.min_by(|a, b| away(a).total_cmp(&away(b)))
}

/// Returns the event of the note nearest to a position.
fn note_at(doc: &Document, scale: &Scale, x: f32) -> Option<u64> {
    let at = doc.derived.axis.event_at(scale.axis, scale.position(x));
    let notes = doc.changes().notes();
    let around = [notes.range(..at).next_back(), notes.range(at..).next()];
    nearest_of(doc, scale, x, around.into_iter().flatten().map(|n| *n.0))
}

/// Returns the launch, copy or order of a stream nearest to a position.
fn stream_event_at(doc: &Document, scale: &Scale, stream: usize, x: f32) -> Option<u64> {
    let at = doc.derived.axis.nearest(scale.axis, scale.position(x));
    let lanes = streams::list_streams(doc).get(stream).copied().unwrap_or_default();
    let found = [lanes.launches, lanes.copies].into_iter().flatten();
    let found = found.filter_map(|lane| {
        find_event_in_pixel(doc, scale, lane, x)
            .or_else(|| doc.derived.pyramid.nearest(&doc.recording.events, lane, at))
    });
    nearest_of(doc, scale, x, found)
}

/// Returns the event nearest to a position that passes the saved filter with this text.
fn match_at(doc: &Document, scale: &Scale, text: &str, x: f32) -> Option<u64> {
    let at = doc.derived.axis.event_at(scale.axis, scale.position(x));
    let rows = doc.lanes.rows(text)?;
    let n = rows.rank(at);
    let around = [n.checked_sub(1), Some(n)].into_iter().flatten();
    nearest_of(doc, scale, x, around.filter_map(|n| rows.get(n)))
}

/// Returns an event of a lane in the pixel at a position: what is on the screen there takes precedence over events
/// with near numbers.
fn find_event_in_pixel(doc: &Document, scale: &Scale, lane: usize, x: f32) -> Option<u64> {
    let pixel = ((x - scale.area.left()) / scale.area.width() * scale.pixels.len() as f32) as usize;
    let around = [
        pixel,
        pixel + 1,
        pixel.saturating_sub(1),
        pixel + 2,
        pixel.saturating_sub(2),
    ];
    let hit = around.into_iter().find(|i| scale.pixels.count(*i, lane) != (0, 0))?;
    let first = *scale.pixels.edges.get(hit)?;
    let next = doc.derived.pyramid.nearest(&doc.recording.events, lane, first)?;
    let end = *scale.pixels.edges.get(hit + 1)?;
    (first..end).contains(&next).then_some(next)
}

/// Describes what lies at a position of a lane, for the tooltip.
pub fn describe_at(doc: &Document, scale: &Scale, lane: Option<&Lane>, x: f32) -> String {
    let axis = &doc.derived.axis;
    match lane {
        Some(Lane::Jobs) => {
            if let Some(j) = job_at(doc, scale, x) {
                let took = doc.format_duration(j);
                return format!("job {} · {} · {took}", j.index, descriptions::describe_job(j));
            }
        }
        Some(Lane::Polls) => {
            let at = axis.nearest(scale.axis, scale.position(x));
            if let Some(f) = doc.derived.poll_at(at) {
                let name = doc.derived.register_name(f.offset);
                return format!(
                    "{} of {name}\nfrom event {}",
                    describe_count(f.reads, "read"),
                    text::count(f.first)
                );
            }
        }
        Some(Lane::References) => {
            let message = super::reference_lane::describe_at(doc, scale, x);
            if !message.is_empty() {
                return message;
            }
        }
        Some(Lane::FilterMatches(text)) => {
            let pixel = ((x - scale.area.left()) / scale.area.width() * scale.pixels.len() as f32) as usize;
            let edges = scale.pixels.edges.get(pixel).zip(scale.pixels.edges.get(pixel + 1));
            let found = doc.lanes.rows(text).zip(edges);
            let count = found.map_or(0, |(rows, (a, b))| rows.rank(*b).saturating_sub(rows.rank(*a)));
            if count > 1 {
                return format!("{} here", describe_count(count, "event"));
            }
        }
        Some(Lane::Stream(n)) => {
            let lanes = streams::list_streams(doc).get(*n).copied().unwrap_or_default();
            let pixel = ((x - scale.area.left()) / scale.area.width() * scale.pixels.len() as f32) as usize;
            if let Some(message) = streams::describe_pixel(scale, lanes, pixel) {
                return message;
            }
            let one = [lanes.launches, lanes.copies].into_iter().flatten();
            if let Some(e) = one.filter_map(|lane| find_event_in_pixel(doc, scale, lane, x)).next() {
                return event(doc, e);
            }
        }
        Some(Lane::MemoryUse) => {
            if let Some(api_trace) = &doc.derived.api_trace {
                let at = axis.event_at(scale.axis, scale.position(x));
                return streams::describe_memory_use(api_trace, at);
            }
        }
        Some(Lane::Ranges(level)) => {
            let at = axis.event_at(scale.axis, scale.position(x));
            if let Some(message) = program_ranges::describe(doc, *level, at) {
                return message;
            }
        }
        Some(Lane::Phases) => {
            let at = axis.nearest(scale.axis, scale.position(x));
            if let Some(ph) = doc.derived.phase_at(at) {
                return format!("{} · {}", ph.name, describe_count(ph.last - ph.first + 1, "event"));
            }
        }
        Some(Lane::Block(i)) => {
            let pixel = ((x - scale.area.left()) / scale.area.width() * scale.pixels.len() as f32) as usize;
            let (reads, writes) = scale.pixels.count(pixel, *i);
            if reads + writes > 1 {
                let (r, w) = (
                    describe_count(u64::from(reads), "read"),
                    describe_count(u64::from(writes), "write"),
                );
                return match (reads, writes) {
                    (_, 0) => format!("{r} here"),
                    (0, _) => format!("{w} here"),
                    _ => format!("{r} and {w} here"),
                };
            }
            if let Some(e) = find_event_in_pixel(doc, scale, *i, x) {
                return event(doc, e);
            }
        }
        _ => {}
    }
    event(doc, axis.nearest(scale.axis, scale.position(x)))
}

fn event(doc: &Document, event: u64) -> String {
    let when = doc.format_time(event);
    format!(
        "event {} · {when}\n{}",
        text::count(event),
        descriptions::format_event(doc, event)
    )
}
