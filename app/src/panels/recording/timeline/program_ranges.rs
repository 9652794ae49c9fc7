//! Lanes of the ranges that the recorded program named: one lane for each level of nesting.

use super::label::describe_count;
use super::named_span::draw_named_span;
use super::scale::{Scale, event_x};
use egui::{Rect, Ui};
use kinescope_session::{Document, text};
use trace_core::api_trace::{Annotations, ApiTrace, ProgramRange};
use trace_core::timeline::merge_spans;

/// Padding of the name of a range, points: many ranges are short.
const PADDING: f32 = 4.0;
/// Maximum number of levels with a lane. Deeper ranges are in the table of events.
const MAX_LEVELS: usize = 8;

fn annotations(doc: &Document) -> Option<&Annotations> {
    doc.derived.api_trace.as_deref().map(ApiTrace::annotations)
}

/// Returns the number of levels with a lane.
pub(super) fn count_levels(doc: &Document) -> usize {
    annotations(doc).map_or(0, |a| a.levels().len().min(MAX_LEVELS))
}

/// Returns the name of the lane of a level.
pub(super) fn name(level: usize) -> String {
    match level {
        0 => "ranges".to_owned(),
        n => format!("ranges {}", n + 1),
    }
}

/// Draws the ranges of a level. Ranges that share a pixel are drawn as one.
pub(super) fn draw(doc: &Document, ui: &Ui, scale: &Scale, row: Rect, level: usize) {
    let Some(all) = annotations(doc) else { return };
    let list = all.levels().get(level).map_or(&[][..], Vec::as_slice);
    let range = |i: &u32| all.ranges().get(*i as usize);
    let merged = merge_spans(list, &scale.pixels.edges, |i| {
        range(i).map_or((0, 0), |r| (r.first, r.last))
    });
    let cursor_x = event_x(doc, scale, doc.current_event());
    for m in merged {
        let places = (
            event_x(doc, scale, m.first),
            event_x(doc, scale, m.last.saturating_add(1)),
        );
        match list.get(m.first_item).and_then(range).filter(|_| m.items == 1) {
            Some(one) => draw_named_span(ui, row, places, cursor_x, (&one.name, PADDING)),
            None => {
                let many = format!("{} ranges", text::count(m.items as u64));
                draw_named_span(ui, row, places, cursor_x, (&many, PADDING));
            }
        }
    }
}

/// Describes the range of a level at an event, for the tooltip.
pub(super) fn describe(doc: &Document, level: usize, event: u64) -> Option<String> {
    let all = annotations(doc)?;
    let list = all.levels().get(level)?;
    let range = |i: &u32| all.ranges().get(*i as usize);
    let after = list.partition_point(|i| range(i).is_some_and(|r| r.first <= event));
    let found: &ProgramRange = list.get(after.checked_sub(1)?).and_then(range)?;
    if event > found.last {
        return None;
    }
    let events = describe_count(found.last - found.first + 1, "event");
    let start = doc.recording.events.time.get(usize::try_from(found.first).ok()?)?;
    let end = doc.recording.events.time.get(usize::try_from(found.last).ok()?)?;
    let time = text::duration(end.saturating_sub(start));
    let open = if found.is_ended { "" } else { " · never ended" };
    Some(format!(
        "{} · thread {} · {events} · {time}{open}",
        found.name, found.thread
    ))
}
