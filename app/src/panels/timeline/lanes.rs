//! The lanes of the timeline: which there are, how each is drawn, what a click on one selects.

use super::{Scale, lane_font, x_of};
use crate::document::Document;
use crate::document::facts::count_in;
use crate::document::moment::Selection;
use crate::theme::{Palette, mono_small, palette, small, text, widgets};
use egui::accesskit::Role;
use egui::{Align2, Color32, Mesh, Rect, Sense, Shape, Stroke, StrokeKind, Ui, WidgetInfo, pos2, vec2};
use trace_core::check::Severity;

/// Most things of a lane that are drawn one by one; more merge into pixels.
const ONE_BY_ONE: usize = 3_000;

/// A lane.
#[derive(Clone, Debug, PartialEq)]
pub enum Lane {
    /// Boot, setup, compute, teardown.
    Phases,
    /// Jobs from submit to interrupt.
    Jobs,
    /// Interrupts.
    Interrupts,
    /// Folded polls.
    Polls,
    /// Accesses of a block of registers, by its index.
    Block(usize),
    /// Values of one register.
    Pin(u32),
    /// Divergences of the last replay.
    Divergences,
    /// Notes.
    Notes,
}

/// The colour of findings of a severity.
#[must_use]
pub fn severity_colour(p: &Palette, s: Severity) -> Color32 {
    match s {
        Severity::Error => p.error,
        Severity::Warning => p.warning,
        Severity::Note => p.quiet,
    }
}

/// The lanes that have something in view, in order.
pub fn visible(doc: &Document, scale: &Scale) -> Vec<Lane> {
    let (a, b) = scale.events();
    let f = &doc.facts;
    let mut out = Vec::new();
    if !f.phases.is_empty() {
        out.push(Lane::Phases);
    }
    if f.jobs.iter().any(|j| j.submit < b && j.done.is_none_or(|d| d >= a)) {
        out.push(Lane::Jobs);
    }
    let n = f.interrupts.partition_point(|i| i.event < b) - f.interrupts.partition_point(|i| i.event < a);
    if n > 0 {
        out.push(Lane::Interrupts);
    }
    if doc.replay.outcome.as_ref().is_some_and(|o| !o.divergences.is_empty()) {
        out.push(Lane::Divergences);
    }
    if !doc.changes().notes().is_empty() {
        out.push(Lane::Notes);
    }
    out.extend(doc.changes().pins().iter().map(|r| Lane::Pin(*r)));
    let first = f.polls.partition_point(|x| x.last < a);
    if f.polls.get(first).is_some_and(|x| x.first < b) {
        out.push(Lane::Polls);
    }
    for (i, l) in f.lanes.iter().enumerate() {
        if count_in(&l.reads, a, b) + count_in(&l.writes, a, b) > 0 {
            out.push(Lane::Block(i));
        }
    }
    out
}

fn name(doc: &Document, lane: &Lane) -> String {
    match lane {
        Lane::Phases => "phases".into(),
        Lane::Jobs => "jobs".into(),
        Lane::Interrupts => "interrupts".into(),
        Lane::Polls => "polls".into(),
        Lane::Block(i) => doc.facts.lanes.get(*i).map(|l| l.name.clone()).unwrap_or_default(),
        Lane::Pin(r) => doc.facts.register_name(*r),
        Lane::Divergences => "differs".into(),
        Lane::Notes => "notes".into(),
    }
}

/// Draws a lane in a rectangle that holds its name too.
pub fn draw(doc: &mut Document, ui: &mut Ui, scale: &Scale, lane: &Lane, rect: Rect) {
    let p = palette(ui);
    let label = name(doc, lane);
    let names = Rect::from_min_max(
        pos2(rect.left() + 12.0, rect.top()),
        pos2(scale.area.left() - 6.0, rect.bottom()),
    );
    let response = ui.interact(names, ui.scope_id().with(("lane", &label)), Sense::click());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("Lane {label}")));
    let font = if matches!(lane, Lane::Pin(_)) {
        mono_small()
    } else {
        lane_font()
    };
    let colour = if matches!(lane, Lane::Pin(_)) { p.text } else { p.quiet };
    widgets::paint_text(ui, names, Align2::LEFT_CENTER, &label, font, colour);
    if let Lane::Pin(r) = lane
        && response.on_hover_text("click to unpin").clicked()
    {
        doc.pin(*r);
    }
    let clip = ui.clip_rect();
    let row = Rect::from_min_max(
        pos2(scale.area.left(), rect.top()),
        pos2(scale.area.right(), rect.bottom()),
    );
    ui.set_clip_rect(clip.intersect(row));
    match lane {
        Lane::Phases => phases(doc, ui, scale, row, p),
        Lane::Jobs => jobs(doc, ui, scale, row, p),
        Lane::Interrupts => interrupts(doc, ui, scale, row, p),
        Lane::Polls => polls(doc, ui, scale, row, p),
        Lane::Block(i) => block(doc, ui, scale, row, *i, p),
        Lane::Pin(r) => pin(doc, ui, scale, row, *r, p),
        Lane::Divergences => {
            let events: Vec<u64> = doc
                .replay
                .outcome
                .iter()
                .flat_map(|o| o.divergences.iter().map(|d| d.event))
                .collect();
            ticks(doc, ui, scale, row, &events, p.error);
        }
        Lane::Notes => {
            let events: Vec<u64> = doc.changes().notes().keys().copied().collect();
            ticks(doc, ui, scale, row, &events, p.edited);
        }
    }
    ui.set_clip_rect(clip);
}

fn phases(doc: &Document, ui: &Ui, scale: &Scale, row: Rect, p: &Palette) {
    for ph in &doc.facts.phases {
        let (x0, x1) = (x_of(doc, scale, ph.first), x_of(doc, scale, ph.last + 1));
        let r = Rect::from_min_max(
            pos2(x0, row.top() + 4.0),
            pos2((x1 - 1.0).max(x0 + 1.0), row.bottom() - 4.0),
        );
        let seen = r.intersect(row);
        if seen.width() <= 0.0 {
            continue;
        }
        ui.painter().rect_filled(seen, 2.0, p.raised);
        if seen.width() > 36.0 {
            widgets::paint_text(
                ui,
                seen.shrink2(vec2(6.0, 0.0)),
                Align2::LEFT_CENTER,
                &ph.name,
                small(),
                p.quiet,
            );
        }
    }
}

fn jobs(doc: &Document, ui: &Ui, scale: &Scale, row: Rect, p: &Palette) {
    let (a, b) = scale.events();
    let from = doc.facts.jobs.partition_point(|j| j.submit < a).saturating_sub(8);
    let to = doc.facts.jobs.partition_point(|j| j.submit < b);
    let list = &doc.facts.jobs[from.min(to)..to];
    let selected = if let Selection::Job(j) = doc.selection() {
        Some(*j)
    } else {
        None
    };
    let step = list.len().div_ceil(ONE_BY_ONE).max(1);
    for j in list.iter().step_by(step) {
        let x0 = x_of(doc, scale, j.submit);
        let x1 = j.done.map_or(row.right(), |d| x_of(doc, scale, d)).max(x0 + 3.0);
        let r = Rect::from_min_max(pos2(x0, row.top() + 3.0), pos2(x1, row.bottom() - 3.0));
        let colour = if j.failed { p.error } else { p.job };
        ui.painter().rect_filled(
            r,
            1.5,
            colour.gamma_multiply(if selected == Some(j.index) { 1.0 } else { 0.72 }),
        );
        if selected == Some(j.index) {
            ui.painter()
                .rect_stroke(r.expand(1.0), 2.0, Stroke::new(1.0, p.text), StrokeKind::Outside);
        }
        if r.width() > 44.0 {
            let label = format!("job {}", j.index);
            let seen = r.intersect(row).shrink2(vec2(4.0, 0.0));
            widgets::paint_text(ui, seen, Align2::LEFT_CENTER, &label, small(), p.on_accent);
        }
    }
}

fn interrupts(doc: &Document, ui: &Ui, scale: &Scale, row: Rect, p: &Palette) {
    let (a, b) = scale.events();
    let list = &doc.facts.interrupts;
    let (from, to) = (
        list.partition_point(|i| i.event < a),
        list.partition_point(|i| i.event < b),
    );
    let step = (to - from).div_ceil(ONE_BY_ONE).max(1);
    let mut last = f32::MIN;
    for i in list[from..to].iter().step_by(step) {
        let x = x_of(doc, scale, i.event);
        if x - last < 1.0 {
            continue;
        }
        ui.painter()
            .vline(x, row.top() + 3.0..=row.bottom() - 2.0, Stroke::new(1.5, p.interrupt));
        if x - last > 5.0 {
            ui.painter().circle_filled(pos2(x, row.top() + 5.0), 2.5, p.interrupt);
        }
        last = x;
    }
}

fn polls(doc: &Document, ui: &Ui, scale: &Scale, row: Rect, p: &Palette) {
    let (a, b) = scale.events();
    let list = &doc.facts.polls;
    let (from, to) = (
        list.partition_point(|x| x.last < a),
        list.partition_point(|x| x.first < b),
    );
    let mut last = f32::MIN;
    for f in list[from.min(to)..to]
        .iter()
        .step_by((to.saturating_sub(from)).div_ceil(ONE_BY_ONE).max(1))
    {
        let x0 = x_of(doc, scale, f.first).max(last);
        let x1 = x_of(doc, scale, f.last + 1).max(x0 + 2.0);
        if x1 <= last {
            continue;
        }
        let r = Rect::from_min_max(pos2(x0, row.top() + 6.0), pos2(x1, row.bottom() - 6.0));
        ui.painter().rect_filled(r, 1.0, p.poll.gamma_multiply(0.35));
        let seen = r.intersect(row);
        let mut x = seen.left() - 6.0;
        let hatch = ui.painter().with_clip_rect(seen.intersect(ui.clip_rect()));
        while x < seen.right() {
            hatch.line_segment(
                [pos2(x, r.bottom()), pos2(x + r.height(), r.top())],
                Stroke::new(1.0, p.poll),
            );
            x += 4.0;
        }
        if seen.width() > 60.0 {
            let label = format!("{} reads", text::count(f.reads));
            widgets::paint_text(
                ui,
                seen.shrink2(vec2(4.0, 0.0)),
                Align2::LEFT_CENTER,
                &label,
                small(),
                p.text,
            );
        }
        last = x1;
    }
}

fn block(doc: &Document, ui: &Ui, scale: &Scale, row: Rect, index: usize, p: &Palette) {
    let Some(lane) = doc.facts.lanes.get(index) else { return };
    let (a, b) = scale.events();
    let wide = scale.area.width() / (b.saturating_sub(a).max(1)) as f32;
    let middle = row.center().y;
    if wide >= 5.0 && doc.timeline.axis == crate::document::axis::AxisKind::Order {
        let w = (wide - 1.5).clamp(3.0, 14.0);
        for (list, write) in [(&lane.reads, false), (&lane.writes, true)] {
            let from = list.partition_point(|e| u64::from(*e) < a);
            let to = list.partition_point(|e| u64::from(*e) < b);
            for e in &list[from..to] {
                let x = x_of(doc, scale, u64::from(*e)).round();
                if write {
                    let r = Rect::from_min_max(pos2(x, middle - 6.0), pos2(x + w, middle + 6.0));
                    ui.painter().rect_filled(r, 1.0, p.write);
                } else {
                    let r = Rect::from_min_max(pos2(x, middle - 4.0), pos2(x + w, middle + 4.0));
                    ui.painter()
                        .rect_stroke(r, 1.0, Stroke::new(1.0, p.read), StrokeKind::Inside);
                }
            }
        }
        return;
    }
    let mut mesh = Mesh::default();
    for (i, w) in scale.edges.windows(2).enumerate().filter(|(_, w)| w[0] < w[1]) {
        let x = row.left() + i as f32;
        let (reads, writes) = (count_in(&lane.reads, w[0], w[1]), count_in(&lane.writes, w[0], w[1]));
        if reads > 0 {
            let r = Rect::from_min_max(pos2(x, middle - 3.0), pos2(x + 1.0, middle + 3.0));
            mesh.add_colored_rect(r, p.read);
        }
        if writes > 0 {
            let r = Rect::from_min_max(pos2(x, middle - 7.0), pos2(x + 1.0, middle + 7.0));
            mesh.add_colored_rect(
                r,
                if reads > writes {
                    p.write.gamma_multiply(0.85)
                } else {
                    p.write
                },
            );
        }
    }
    ui.painter().add(Shape::mesh(mesh));
}

fn pin(doc: &Document, ui: &Ui, scale: &Scale, row: Rect, register: u32, p: &Palette) {
    let Some(fact) = doc.facts.registers.get(&register) else {
        return;
    };
    let (a, b) = scale.events();
    let from = fact.events.partition_point(|e| u64::from(*e) < a).saturating_sub(1);
    let to = fact.events.partition_point(|e| u64::from(*e) < b);
    let list = &fact.events[from.min(to)..to];
    let (top, bottom, mid) = (row.top() + 4.0, row.bottom() - 4.0, row.center().y);
    if list.len() > ONE_BY_ONE {
        let r = Rect::from_min_max(pos2(row.left(), top), pos2(row.right(), bottom));
        ui.painter()
            .rect_stroke(r, 0.0, Stroke::new(1.0, p.write), StrokeKind::Inside);
        let note = format!("{} accesses; zoom in for values", text::count(list.len() as u64));
        widgets::paint_text(ui, r, Align2::CENTER_CENTER, &note, small(), p.quiet);
        return;
    }
    let mut spans: Vec<(f32, u64, bool)> = Vec::new();
    for e in list {
        let Some(acc) = doc.recording.events.access(*e as usize) else {
            continue;
        };
        if spans.last().is_none_or(|s| s.1 != acc.value) {
            spans.push((x_of(doc, scale, u64::from(*e)), acc.value, acc.write));
        }
    }
    for (i, (x0, value, write)) in spans.iter().enumerate() {
        let x1 = spans.get(i + 1).map_or(row.right() + 8.0, |n| n.0);
        let colour = if *write { p.write } else { p.read };
        let s = 3.0_f32.min((x1 - x0) / 2.0);
        let points = vec![
            pos2(*x0, mid),
            pos2(x0 + s, top),
            pos2(x1 - s, top),
            pos2(x1, mid),
            pos2(x1 - s, bottom),
            pos2(x0 + s, bottom),
        ];
        ui.painter().add(Shape::closed_line(points, Stroke::new(1.0, colour)));
        let seen = Rect::from_min_max(
            pos2(x0.max(row.left()) + 6.0, top),
            pos2(x1.min(row.right()) - 4.0, bottom),
        );
        if seen.width() > 14.0 {
            widgets::paint_text(
                ui,
                seen,
                Align2::LEFT_CENTER,
                &format!("{value:x}"),
                mono_small(),
                p.text,
            );
        }
    }
}

fn ticks(doc: &Document, ui: &Ui, scale: &Scale, row: Rect, events: &[u64], colour: Color32) {
    let mut last = f32::MIN;
    for e in events {
        let x = x_of(doc, scale, *e);
        if x - last >= 1.0 {
            ui.painter()
                .vline(x, row.top() + 5.0..=row.bottom() - 5.0, Stroke::new(2.0, colour));
            last = x;
        }
    }
}

/// Selects what lies at a place of a lane.
pub fn clicked(doc: &mut Document, scale: &Scale, lane: Option<&Lane>, x: f32) {
    let near = |doc: &Document, e: u64| (x_of(doc, scale, e) - x).abs();
    match lane {
        Some(Lane::Jobs) => {
            let hit = doc
                .facts
                .jobs
                .iter()
                .find(|j| {
                    let x0 = x_of(doc, scale, j.submit);
                    let x1 = j.done.map_or(f32::INFINITY, |d| x_of(doc, scale, d)).max(x0 + 3.0);
                    (x0 - 2.0..=x1 + 2.0).contains(&x)
                })
                .map(|j| j.index);
            if let Some(j) = hit {
                doc.go_job(j);
            }
        }
        Some(Lane::Interrupts) => {
            let hit = doc
                .facts
                .interrupts
                .iter()
                .map(|i| i.event)
                .min_by(|a, b| near(doc, *a).total_cmp(&near(doc, *b)));
            if let Some(e) = hit.filter(|e| near(doc, *e) < 6.0) {
                doc.go(e);
            }
        }
        Some(Lane::Divergences) => {
            let list: Vec<u64> = doc
                .replay
                .outcome
                .iter()
                .flat_map(|o| o.divergences.iter().map(|d| d.event))
                .collect();
            let hit = (0..list.len()).min_by(|a, b| near(doc, list[*a]).total_cmp(&near(doc, list[*b])));
            if let Some(i) = hit {
                doc.go_with(list[i], Selection::Divergence(i as u32));
            }
        }
        Some(Lane::Notes) => {
            let list: Vec<u64> = doc.changes().notes().keys().copied().collect();
            if let Some(e) = list.into_iter().min_by(|a, b| near(doc, *a).total_cmp(&near(doc, *b))) {
                doc.go_with(e, Selection::Note(e));
            }
        }
        Some(Lane::Block(i)) => {
            let Some(l) = doc.facts.lanes.get(*i) else { return };
            let at = doc.facts.axis.event_at(doc.timeline.axis, scale.position(x));
            let pick = |list: &[u32]| {
                let n = list.partition_point(|e| u64::from(*e) < at);
                [n.checked_sub(1), Some(n)]
                    .into_iter()
                    .flatten()
                    .filter_map(|i| list.get(i).map(|e| u64::from(*e)))
                    .collect::<Vec<_>>()
            };
            let all = [pick(&l.reads), pick(&l.writes)].concat();
            if let Some(e) = all.into_iter().min_by(|a, b| near(doc, *a).total_cmp(&near(doc, *b))) {
                doc.go(e);
            }
        }
        _ => {}
    }
}
