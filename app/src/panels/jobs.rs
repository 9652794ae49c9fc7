//! Jobs: every submit with its chain, its dispatch, its shader, what it can reach and how long it took.

use crate::document::facts::Stage;
use crate::document::moment::Selection;
use crate::document::{Document, runs, words};
use crate::panels::desk::Asks;
use crate::theme::widgets::{self, Part, paint_text};
use crate::theme::{body, icons, mono, palette, small, text};
use egui::accesskit::Role;
use egui::{Align2, Rect, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};

pub mod view;

pub use view::View;

/// Width from which the panel explains the job beside the list, points.
const WIDE: f32 = 860.0;

/// Where the columns stand: right edges of numbers, left edges of words.
struct Columns {
    job: f32,
    submit: f32,
    slot: f32,
    duration: f32,
    kind: f32,
    dispatch: f32,
    /// Right edge of the shader's address, where there is room for it.
    shader: Option<f32>,
}

impl Columns {
    fn new(width: f32) -> Self {
        let kind = 288.0;
        let dispatch = kind + ((width - kind) * 0.3).clamp(84.0, 170.0);
        let end = width - 14.0;
        Self {
            job: 52.0,
            submit: 126.0,
            slot: 166.0,
            duration: 268.0,
            kind,
            dispatch,
            shader: (end > dispatch + 290.0).then_some(end),
        }
    }
}

/// The job that is meant: the selected one, or the one at the moment.
#[must_use]
pub fn meant(doc: &Document) -> Option<u32> {
    match doc.selection() {
        Selection::Job(j) => Some(*j),
        _ => doc.facts.job_at(doc.moment()).map(|j| j.index),
    }
}

/// Draws the panel.
pub fn ui(doc: &mut Document, view: &mut View, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    if doc.facts.jobs.is_empty() {
        let (icon, told) = if doc.facts.knows(Stage::Timeline) {
            (icons::LIGHTNING, "No job was submitted in this recording.")
        } else {
            (icons::HOURGLASS_SIMPLE_MEDIUM, "Looking for jobs among the events…")
        };
        widgets::empty(ui, icon, told, None);
        return;
    }
    let full = ui.available_rect_before_wrap();
    // The inspector explains the selected job; the panel does too where there is room for both.
    let side = if full.width() < WIDE {
        0.0
    } else {
        (full.width() * 0.34).min(380.0)
    };
    let left = Rect::from_min_max(full.min, pos2(full.right() - side, full.bottom()));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(left));
    list(doc, view, &mut child);
    if side > 0.0 {
        let right = Rect::from_min_max(pos2(left.right(), full.top()), full.max);
        ui.painter()
            .vline(right.left(), right.y_range(), Stroke::new(1.0, p.line));
        let mut child = ui.new_child(egui::UiBuilder::new().max_rect(right.shrink2(vec2(12.0, 0.0))));
        egui::ScrollArea::vertical()
            .id_salt("job")
            .auto_shrink(false)
            .show(&mut child, |ui| match meant(doc) {
                Some(j) => details(doc, asks, ui, j),
                None => {
                    widgets::empty(ui, icons::LIGHTNING, "Select a job to see its chain.", None);
                }
            });
    }
    ui.advance_cursor_after_rect(full);
}

fn list(doc: &mut Document, view: &mut View, ui: &mut Ui) {
    let p = palette(ui);
    let full = ui.available_rect_before_wrap();
    let (head, _) = ui.allocate_exact_size(vec2(full.width(), 22.0), Sense::hover());
    let w = full.width();
    let c = Columns::new(w);
    let heads = [
        ("job", c.job, true),
        ("submit", c.submit, true),
        ("slot", c.slot, true),
        ("duration", c.duration, true),
        ("kind", c.kind, false),
        ("dispatch", c.dispatch, false),
        ("shader", c.shader.unwrap_or(0.0), true),
    ];
    for (name, x, right) in heads {
        if name == "shader" && c.shader.is_none() {
            continue;
        }
        let align = if right {
            Align2::RIGHT_CENTER
        } else {
            Align2::LEFT_CENTER
        };
        ui.painter()
            .text(pos2(full.left() + x, head.center().y), align, name, small(), p.quiet);
    }
    ui.painter()
        .hline(head.x_range(), head.bottom(), Stroke::new(1.0, p.line));
    let now = meant(doc);
    if view.seen_jump != doc.jumps {
        view.seen_jump = doc.jumps;
        if let Some(j) = now {
            view.list.reveal(u64::from(j));
        }
    }
    let mut rows = view.list;
    let mut go = None;
    let longest = doc.facts.longest_ns.max(1);
    rows.show(ui, "Jobs", doc.facts.jobs.len() as u64, |ui, row, rect| {
        let Some(j) = doc.facts.jobs.get(row as usize) else {
            return;
        };
        let r = ui.interact(rect, ui.scope_id().with(("job", j.index)), Sense::click());
        let selected = now == Some(j.index);
        r.widget_info(|| WidgetInfo::selected(Role::Row, true, selected, format!("job {}", j.index)));
        if selected {
            ui.painter().rect_filled(rect, 0.0, p.selection);
        } else if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let (x, y) = (rect.left(), rect.center().y);
        let ink = if j.failed { p.error } else { p.job };
        let number = |at: f32, dy: f32, t: String, colour| {
            let place = pos2(x + at, y + dy);
            ui.painter().text(place, Align2::RIGHT_CENTER, t, mono(), colour);
        };
        number(c.job, 0.0, text::count(u64::from(j.index)), ink);
        number(c.submit, 0.0, text::count(j.submit), p.quiet);
        number(c.slot, 0.0, j.slot.to_string(), p.quiet);
        if let Some(d) = j.duration_ns {
            let part = (d as f64 / longest as f64).sqrt() as f32;
            let end = x + c.duration;
            let bar = Rect::from_min_max(pos2(end - 70.0 * part, y + 7.0), pos2(end, y + 9.0));
            ui.painter().rect_filled(bar, 0.0, p.job.gamma_multiply(0.8));
        }
        let took = j.duration_ns.map_or_else(|| "no end".into(), text::duration);
        number(c.duration, -1.0, took, p.text);
        let kind = Rect::from_min_max(pos2(x + c.kind, rect.top()), pos2(x + c.dispatch - 8.0, rect.bottom()));
        let bad = j.chain.iter().any(|c| !c.decoded) || j.end.is_some();
        let (word, colour) = match bad {
            _ if !doc.facts.knows(Stage::Chains) => ("…".to_owned(), p.quiet),
            true => (format!("▲ {}", words::job_kind(j)), p.error),
            false => (words::job_kind(j), p.text),
        };
        paint_text(ui, kind, Align2::LEFT_CENTER, &word, body(), colour);
        let end = c.shader.map_or(w - 10.0, |s| s - 118.0);
        let cell = Rect::from_min_max(pos2(x + c.dispatch, rect.top()), pos2(x + end, rect.bottom()));
        if let Some(d) = j.chain.first().and_then(|c| c.dispatch) {
            paint_text(ui, cell, Align2::LEFT_CENTER, &words::dispatch(d), mono(), p.text);
        }
        if let Some((s, at)) = j.chain.first().and_then(|c| c.shader).zip(c.shader) {
            number(at, 0.0, format!("{s:#x}"), p.quiet);
        }
        if r.clicked() {
            go = Some(j.index);
        }
    });
    view.list = rows;
    if let Some(j) = go {
        doc.go_job(j);
        view.seen_jump = doc.jumps;
    }
}

/// What is known of a job, as the inspector shows it too.
pub fn details(doc: &mut Document, asks: &mut Asks, ui: &mut Ui, index: u32) {
    let p = palette(ui);
    let facts = std::sync::Arc::clone(&doc.facts);
    let Some(j) = facts.jobs.get(index as usize) else {
        return;
    };
    ui.spacing_mut().item_spacing.y = 0.0;
    widgets::section(ui, &format!("Job {index}"));
    widgets::key_value(ui, "slot", Part::mono(j.slot.to_string()));
    if widgets::key_link(ui, "submitted", &format!("event {}", text::count(j.submit))).clicked() {
        doc.go_job(index);
    }
    match j.done {
        Some(d) => {
            if widgets::key_link(ui, "done", &format!("event {}", text::count(d))).clicked() {
                doc.go_with(d, Selection::Job(index));
            }
        }
        None => {
            widgets::key_value(
                ui,
                "done",
                Part::words("never, as far as the recording tells").colour(p.warning),
            );
        }
    }
    if let Some(d) = j.duration_ns {
        widgets::key_value(ui, "took", Part::mono(text::duration(d)));
    }
    if let Some(o) = doc.replay.outcome.as_ref().and_then(|o| {
        o.jobs
            .get(o.jobs.binary_search_by_key(&j.submit, |x| x.submit_event).ok()?)
    }) {
        let told = match (o.done, o.computed) {
            (false, _) => Part::words(format!("failed, status {:?}", o.status)).colour(p.error),
            (true, Some(false)) => Part::words("done, its shader did not run").colour(p.warning),
            (true, _) => Part::words("done").colour(p.job),
        };
        widgets::key_value(ui, "replayed", told);
    }
    for (n, c) in j.chain.iter().enumerate() {
        widgets::section(
            ui,
            &if j.chain.len() > 1 {
                format!("Chain {} of {}", n + 1, j.chain.len())
            } else {
                "Header".into()
            },
        );
        if widgets::key_link(ui, "at", &format!("{:#x}", c.va)).clicked() {
            asks.memory(Some(0), c.va, 32);
            asks.command("show-memory");
        }
        let kind = if c.decoded {
            Part::words(&c.kind)
        } else {
            Part::words(format!("▲ {}", c.kind)).colour(p.error)
        };
        widgets::key_value(ui, "type", kind);
        for (k, v) in &c.fields {
            match text::parse_number(v).filter(|_| k == "next") {
                Some(next) => {
                    if widgets::key_link(ui, k, v).clicked() {
                        asks.memory(Some(0), next, 32);
                        asks.command("show-memory");
                    }
                }
                None => {
                    widgets::key_value(ui, k, Part::mono(v));
                }
            }
        }
        if let Some(d) = c.dispatch {
            widgets::key_value(ui, "dispatch", Part::mono(words::dispatch(d)));
        }
        if let Some(s) = c.shader
            && widgets::key_link(ui, "shader", &format!("{s:#x}")).clicked()
        {
            asks.memory(Some(0), s, 16);
            asks.command("show-memory");
        }
    }
    if let Some(e) = &j.end {
        ui.add(egui::Label::new(egui::RichText::new(format!("▲ the chain ends early: {e}")).color(p.error)).wrap());
    }
    reaches(doc, asks, ui);
}

fn reaches(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let recording = std::sync::Arc::clone(&doc.recording);
    let list: Vec<_> = recording.facts.buffers.iter().take(12).collect();
    if list.is_empty() {
        return;
    }
    widgets::section(ui, "Buffers it can reach");
    for b in list {
        let rights = doc
            .facts
            .spaces
            .get(b.address_space as usize)
            .and_then(|s| s.mapping_at(b.va.0))
            .map(|m| m.rights);
        let right = rights.map_or_else(|| "not mapped".into(), runs::rights_text);
        let row = widgets::list_row(
            ui,
            &format!("reach {}", b.name),
            false,
            0.0,
            Part::words(&b.name),
            Part::mono(right),
        );
        if row.clicked() {
            doc.select(Selection::Buffer(b.name.clone()));
            asks.command("show-memory");
        }
    }
}
