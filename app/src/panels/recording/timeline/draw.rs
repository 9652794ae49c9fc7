//! Drawing of each lane. A lane draws at most a few items a pixel; items that share a pixel are merged.

use super::label::{LANE, SHORTEST, describe_count};
use super::lane::Lane;
use super::named_span::draw_named_span;
use super::scale::{Scale, SingleEvent, event_x};
use super::{program_ranges, reference_lane, streams};
use crate::theme::{Palette, SOFT, mono_small, palette, small, widgets};
use egui::{Align2, Color32, Mesh, Rect, Shape, Stroke, StrokeKind, Ui, pos2, vec2};
use kinescope_files::scene::Selection;
use kinescope_session::jobs::JobFact;
use kinescope_session::{Document, text};
use trace_core::RegOffset;
use trace_core::timeline::merge_spans;

/// Draws a lane into its row.
pub fn lane(doc: &Document, ui: &Ui, scale: &Scale, single: &[SingleEvent], lane: &Lane, row: Rect) {
    let p = palette(ui);
    match lane {
        Lane::References => reference_lane::draw(doc, ui, scale, row),
        Lane::Phases => phases(doc, ui, scale, row),
        Lane::Jobs => jobs(doc, ui, scale, row, p),
        Lane::Interrupts => pins(ui, scale, row, p),
        Lane::Polls => polls(doc, ui, scale, row, p),
        Lane::Block(i) => block(doc, ui, scale, single, row, *i),
        Lane::Stream(n) => {
            if let Some(lanes) = streams::list_streams(doc).get(*n).copied() {
                streams::stream(doc, ui, scale, single, lanes, row);
            }
        }
        Lane::Ranges(level) => program_ranges::draw(doc, ui, scale, row, *level),
        Lane::MemoryUse => streams::draw_memory_use(doc, ui, scale, row),
        Lane::Failed => {
            let list = doc.derived.api_trace.as_ref().map_or(&[][..], |c| c.failed_calls());
            let merged = merge_spans(list, &scale.pixels.edges, |e| (*e, *e));
            for m in &merged {
                let x = event_x(doc, scale, m.first);
                ui.painter()
                    .text(pos2(x, row.center().y), Align2::CENTER_CENTER, "▲", small(), p.error);
            }
        }
        Lane::Pin(r) => values(ui, scale, row, *r, p),
        Lane::Divergences => {
            let list = doc.replay.outcome.as_ref().map_or(&[][..], |o| &o.divergences);
            let merged = merge_spans(list, &scale.pixels.edges, |d| (d.event, d.event));
            ticks(doc, ui, scale, row, merged.iter().map(|m| m.first), p.error);
        }
        Lane::Differences => {
            let differ = scale.filled_pixels().filter(|(_, a, b)| doc.differs_within(*a, *b));
            ticks(doc, ui, scale, row, differ.map(|(_, a, _)| a), p.error);
        }
        Lane::Notes => ticks(doc, ui, scale, row, scale.list_noted_events(doc).into_iter(), p.edited),
        Lane::FilterMatches(text) => {
            if let Some(why) = doc.lanes.error(text) {
                widgets::paint_text(ui, row, Align2::LEFT_CENTER, &format!("▲ {why}"), small(), p.error);
            }
            let Some(rows) = doc.lanes.rows(text) else { return };
            // A search finds the first one of each pixel.
            let first = |(_, a, b): (usize, u64, u64)| rows.get(rows.rank(a)).filter(|e| *e < b);
            ticks(doc, ui, scale, row, scale.filled_pixels().filter_map(first), p.accent);
        }
    }
}

fn phases(doc: &Document, ui: &Ui, scale: &Scale, row: Rect) {
    let cursor_x = event_x(doc, scale, doc.current_event());
    for ph in &doc.derived.phases {
        let (x0, x1) = (event_x(doc, scale, ph.first), event_x(doc, scale, ph.last + 1));
        draw_named_span(ui, row, (x0, x1), cursor_x, (&ph.name, 6.0));
    }
}

fn jobs(doc: &Document, ui: &Ui, scale: &Scale, row: Rect, p: &Palette) {
    let job = |i: &u32| doc.derived.jobs.get(*i as usize);
    let selected = match doc.selection() {
        Selection::Job(j) => Some(*j),
        _ => None,
    };
    let place = |from: f64, to: f64| {
        let x0 = scale.x(from);
        let x1 = scale.x(to).min(row.right() + 8.0).max(x0 + 3.0);
        Rect::from_min_max(pos2(x0, row.top() + 3.0), pos2(x1, row.bottom() - 3.0))
    };
    for (slot, runs) in doc.derived.slots.iter().zip(&scale.spans.jobs) {
        for m in runs {
            let r = place(m.from, m.to);
            let failed = &doc.derived.failed;
            let n = failed.partition_point(|e| *e < m.first);
            let bad = failed.get(n).is_some_and(|e| *e <= m.last);
            let colour = if bad { p.error } else { p.job };
            ui.painter().rect_filled(r, 1.5, colour.gamma_multiply(SOFT));
            let seen = r.intersect(row).shrink2(vec2(4.0, 0.0));
            if seen.width() < SHORTEST {
                continue;
            }
            let one = Some(m.first_item).filter(|_| m.items == 1);
            let label = match one.and_then(|i| slot.get(i)).and_then(job) {
                Some(j) => name_job(doc, j),
                None => format!("{} jobs", text::count(m.items as u64)),
            };
            let wide = ui.painter().layout_no_wrap(label.clone(), small(), p.on_accent);
            if wide.size().x <= seen.width() {
                widgets::paint_text(ui, seen, Align2::LEFT_CENTER, &label, small(), p.on_accent);
            }
        }
    }
    if let Some(j) = selected.and_then(|j| job(&j)) {
        let at = |event| doc.derived.axis.position(scale.axis, event);
        let (first, last) = j.span();
        let r = place(at(first), at(last));
        let colour = if j.failed { p.error } else { p.job };
        ui.painter().rect_filled(r, 1.5, colour);
        ui.painter()
            .rect_stroke(r.expand(1.0), 2.0, Stroke::new(1.0, p.text), StrokeKind::Outside);
        let seen = r.intersect(row).shrink2(vec2(4.0, 0.0));
        if seen.width() > 44.0 {
            let label = name_job(doc, j);
            widgets::paint_text(ui, seen, Align2::LEFT_CENTER, &label, small(), p.on_accent);
        }
    }
}

/// Returns the number of a job, with the name of its queue where the recording names it.
fn name_job(doc: &Document, job: &JobFact) -> String {
    match doc.recording.job_queue(job.slot) {
        Some(queue) => format!("job {} · {queue}", job.index),
        None => format!("job {}", job.index),
    }
}

fn pins(ui: &Ui, scale: &Scale, row: Rect, p: &Palette) {
    let mut last = f32::MIN;
    for m in &scale.spans.interrupts {
        let x = scale.x(m.from);
        ui.painter()
            .vline(x, row.top() + 3.0..=row.bottom() - 2.0, Stroke::new(1.5, p.interrupt));
        if x - last > 5.0 {
            ui.painter().circle_filled(pos2(x, row.top() + 5.0), 2.5, p.interrupt);
        }
        last = x;
    }
}

fn polls(doc: &Document, ui: &Ui, scale: &Scale, row: Rect, p: &Palette) {
    for m in &scale.spans.polls {
        let x0 = scale.x(m.from);
        let x1 = scale.x(m.end).max(x0 + 2.0);
        let r = Rect::from_min_max(pos2(x0, row.top() + 6.0), pos2(x1, row.bottom() - 6.0));
        ui.painter().rect_filled(r, 1.0, p.poll.gamma_multiply(0.2));
        let seen = r.intersect(row);
        if seen.width() >= 6.0 {
            let hatch = ui.painter().with_clip_rect(seen.intersect(ui.clip_rect()));
            let mut x = seen.left() - r.height();
            while x < seen.right() {
                let line = [pos2(x, r.bottom()), pos2(x + r.height(), r.top())];
                hatch.line_segment(line, Stroke::new(1.0, p.poll));
                x += 4.0;
            }
        } else if seen.width() > 0.0 {
            // Too narrow for a hatch: a single line of it.
            ui.painter()
                .vline(seen.left() + 0.5, seen.y_range(), Stroke::new(1.0, p.poll));
        }
        if seen.width() < SHORTEST {
            continue;
        }
        let one = Some(m.first_item).filter(|_| m.items == 1);
        let label = match one.and_then(|i| doc.derived.polls.get(i)) {
            Some(f) => describe_count(f.reads, "read"),
            None => format!("{} polls", text::count(m.items as u64)),
        };
        let galley = ui.painter().layout_no_wrap(label, small(), p.text);
        if galley.size().x + 12.0 <= seen.width() {
            // The hatch runs behind the text, so the text has its own background.
            let at = pos2(seen.left() + 5.0, seen.center().y - galley.size().y / 2.0);
            let back = Rect::from_min_size(at, galley.size()).expand2(vec2(3.0, 0.0));
            ui.painter().rect_filled(back, 1.0, p.panel);
            ui.painter().galley(at, galley, p.text);
        }
    }
}

/// Draws accesses of a block of registers: one by one if there is room, otherwise by pixel, stronger for more
/// accesses.
fn block(doc: &Document, ui: &Ui, scale: &Scale, single: &[SingleEvent], row: Rect, lane: usize) {
    let p = palette(ui);
    let middle = row.center().y;
    // Marks grow with the lane.
    let scaled = |tall: f32| (tall * row.height() / LANE).min(row.height() / 2.0 - 2.0);
    if !single.is_empty() {
        for s in single.iter().filter(|s| s.lane == lane) {
            let tall = scaled(if s.write { 6.0 } else { 4.0 });
            let r = Rect::from_min_max(pos2(s.x, middle - tall), pos2(s.x + s.width, middle + tall));
            let polled = doc.derived.poll_at(s.event).is_some();
            if s.write {
                ui.painter().rect_filled(r, 1.0, p.write);
            } else {
                let ink = if polled { p.poll } else { p.read };
                ui.painter()
                    .rect_stroke(r, 1.0, Stroke::new(1.0, ink), StrokeKind::Inside);
            }
        }
        return;
    }
    let mut max = (1, 1);
    for pixel in 0..scale.pixels.len() {
        let (reads, writes) = scale.pixels.count(pixel, lane);
        max = (max.0.max(reads), max.1.max(writes));
    }
    // A single event is visible next to a pixel of thousands.
    let strength = |n: u32, max: u32| SOFT + (1.0 - SOFT) * (n as f32).ln_1p() / (max as f32).ln_1p();
    let mut mesh = Mesh::default();
    for pixel in 0..scale.pixels.len() {
        let (reads, writes) = scale.pixels.count(pixel, lane);
        let (x0, x1) = (scale.left(pixel), scale.left(pixel + 1));
        let mut bar = |n: u32, tall: f32, colour: Color32| {
            if n > 0 {
                let r = Rect::from_min_max(pos2(x0, middle - tall), pos2(x1, middle + tall));
                mesh.add_colored_rect(r, colour);
            }
        };
        bar(writes, scaled(7.0), p.write.gamma_multiply(strength(writes, max.1)));
        bar(reads, scaled(3.5), p.read.gamma_multiply(strength(reads, max.0)));
    }
    ui.painter().add(Shape::mesh(mesh));
}

fn values(ui: &Ui, scale: &Scale, row: Rect, register: RegOffset, p: &Palette) {
    let Some((_, list)) = scale.spans.pins.iter().find(|p| p.0 == register) else {
        return;
    };
    let (top, bottom, mid) = (row.top() + 4.0, row.bottom() - 4.0, row.center().y);
    let mut bars = Mesh::default();
    for (i, s) in list.iter().enumerate() {
        // A value from before the visible part starts left of it.
        let x0 = scale.x(s.from).max(row.left() - 8.0);
        let x1 = list.get(i + 1).map_or(row.right() + 8.0, |n| scale.x(n.from));
        let colour = if s.write { p.write } else { p.read };
        if x1 - x0 < 5.0 {
            // Too narrow for an outline: a bar, which never vanishes.
            let bar = Rect::from_min_max(pos2(x0, top), pos2(x1.max(x0 + 1.0), bottom));
            bars.add_colored_rect(bar, colour.gamma_multiply(SOFT));
            continue;
        }
        let slope = 3.0_f32.min((x1 - x0) / 2.0);
        let points = vec![
            pos2(x0, mid),
            pos2(x0 + slope, top),
            pos2(x1 - slope, top),
            pos2(x1, mid),
            pos2(x1 - slope, bottom),
            pos2(x0 + slope, bottom),
        ];
        ui.painter().add(Shape::closed_line(points, Stroke::new(1.0, colour)));
        let from = x0.max(row.left()) + 6.0;
        let seen = Rect::from_min_max(pos2(from, top), pos2(x1.min(row.right()) - 4.0, bottom));
        let label = format!("{:x}", s.value);
        let galley = ui.painter().layout_no_wrap(label, mono_small(), p.text);
        if galley.size().x <= seen.width() {
            let at = pos2(seen.left(), seen.center().y - galley.size().y / 2.0);
            ui.painter().galley(at, galley, p.text);
        } else if seen.width() > 8.0 {
            ui.painter()
                .text(seen.left_center(), Align2::LEFT_CENTER, "…", mono_small(), p.quiet);
        }
    }
    ui.painter().add(Shape::mesh(bars));
}

fn ticks(doc: &Document, ui: &Ui, scale: &Scale, row: Rect, events: impl Iterator<Item = u64>, colour: Color32) {
    for e in events {
        let x = event_x(doc, scale, e);
        ui.painter()
            .vline(x, row.top() + 5.0..=row.bottom() - 5.0, Stroke::new(2.0, colour));
    }
}
