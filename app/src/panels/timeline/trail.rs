//! The lane of what is selected: every event that read or wrote it lights up.

use super::scale::{Scale, x_of};
use crate::document::facts::Stage;
use crate::document::trail::Followed;
use crate::document::{Document, touches};
use crate::panels::desk::Asks;
use crate::theme::{palette, small, widgets};
use egui::{Align2, Rect, Stroke, StrokeKind, Ui, pos2, vec2};
use std::sync::Arc;
use trace_core::timeline::Pixels;

/// Has what touches the selection looked for, once for each.
pub fn ask(doc: &mut Document, asks: &mut Asks) {
    let followed = match doc.followed() {
        None | Some(Followed::Register(_)) => {
            doc.trail.forget();
            return;
        }
        Some(f) => f,
    };
    let known = doc.finding_out.is_none() || doc.facts.knows(Stage::Chains) && doc.facts.knows(Stage::Spaces);
    if doc.trail.is_of(followed) || !doc.can_filter() || !known {
        return;
    }
    let (recording, facts, moment) = (Arc::clone(&doc.recording), Arc::clone(&doc.facts), doc.moment());
    let progress = asks.work("looking for what touches the selection", move |progress| {
        let found = followed.find(&recording, &facts, moment, progress);
        Box::new(move |desk| desk.doc.trail.found(followed, found))
    });
    doc.trail.asked(followed, progress);
}

/// What a mark stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Write,
    Read,
    /// It is named, and neither read nor written.
    Name,
}

/// Events of the trail that share a place, drawn as one.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// The first of them.
    event: u64,
    sign: Sign,
}

/// What tells the marks of one trail from another's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key(Option<Followed>, usize);

/// The key of the trail now.
pub fn key(doc: &Document) -> Key {
    Key(doc.followed(), doc.trail.touches().len())
}

/// The marks of the trail in these pixels: one for as many pixels as a mark is wide.
pub fn marks(doc: &Document, pixels: &Pixels) -> Vec<Mark> {
    let mut edges: Vec<u64> = pixels.edges.iter().step_by(MARK as usize).copied().collect();
    edges.extend(pixels.edges.last());
    let cells = edges.windows(2).filter_map(|w| match w {
        [a, b] if a < b => Some((*a, *b)),
        _ => None,
    });
    match doc.followed() {
        Some(Followed::Register(r)) => {
            let Some(fact) = doc.facts.registers.get(&r) else {
                return Vec::new();
            };
            let mark = |(a, b)| match fact.accesses.writes().first_in(a..b) {
                Some(event) => Some(Mark {
                    event,
                    sign: Sign::Write,
                }),
                None => fact.accesses.all().first_in(a..b).map(|event| Mark {
                    event,
                    sign: Sign::Read,
                }),
            };
            cells.filter_map(mark).collect()
        }
        Some(_) => {
            let list = doc.trail.touches();
            let mark = |(a, b): (u64, u64)| {
                let from = list.partition_point(|t| t.event < Some(a));
                let end = list.partition_point(|t| t.event < Some(b));
                let here = list.get(from..end)?;
                let one = |t: &touches::Touch, sign| Some(Mark { event: t.event?, sign });
                let written = here.iter().find(|t| t.deed.writes());
                let read = here.iter().find(|t| t.deed.reads());
                match (written, read) {
                    (Some(t), _) => one(t, Sign::Write),
                    (None, Some(t)) => one(t, Sign::Read),
                    (None, None) => one(here.first()?, Sign::Name),
                }
            };
            cells.filter_map(mark).collect()
        }
        None => Vec::new(),
    }
}

/// Draws the lane: writes filled, reads as frames, what names it as a line.
pub fn draw(doc: &Document, ui: &Ui, scale: &Scale, row: Rect) {
    let p = palette(ui);
    let told = match doc.followed() {
        None if doc.facts.calls.is_some() => {
            "select a buffer or a byte of the device, and the copies and launches that touch it light up here"
        }
        None => "select a register, a byte, a pixel or a page-table entry, and what reads and writes it lights up here",
        Some(_) if doc.trail.is_looked_for() => "looking for what touches it…",
        Some(_) => "",
    };
    widgets::paint_text(ui, row, Align2::LEFT_CENTER, told, small(), p.quiet);
    for m in scale.trail.iter() {
        let x = x_of(doc, scale, m.event);
        let mark = Rect::from_min_size(pos2(x, row.top() + 5.0), vec2(MARK, row.height() - 10.0));
        match m.sign {
            Sign::Write => {
                ui.painter().rect_filled(mark, 1.0, p.write);
            }
            Sign::Read => {
                let stroke = Stroke::new(1.0, p.read);
                ui.painter().rect_stroke(mark, 1.0, stroke, StrokeKind::Inside);
            }
            Sign::Name => {
                ui.painter().vline(x + 0.5, mark.y_range(), Stroke::new(1.0, p.quiet));
            }
        }
    }
}

/// Width of a mark, points.
const MARK: f32 = 4.0;

/// What the lane says at a place, in words; empty: nothing of its own.
pub fn told(doc: &Document, scale: &Scale, x: f32) -> String {
    if matches!(doc.followed(), None | Some(Followed::Register(_))) {
        return String::new();
    }
    let list = doc.trail.touches();
    let at = doc.facts.axis.nearest(scale.axis, scale.position(x));
    let near = |t: &&touches::Touch| t.event.is_some_and(|e| (x_of(doc, scale, e) - x).abs() < MARK + 2.0);
    let n = list.partition_point(|t| t.event < Some(at)).saturating_sub(3);
    let lines = list.get(n..).unwrap_or_default().iter().take(8).filter(near);
    let lines: Vec<String> = lines
        .map(|t| format!("event {}: {}", t.event.unwrap_or(0), t.what))
        .collect();
    lines.join("\n")
}

/// The event of the trail that is nearest to a place.
pub fn nearest(doc: &Document, scale: &Scale, x: f32) -> Option<u64> {
    let at = doc.facts.axis.event_at(scale.axis, scale.position(x));
    let around: Vec<u64> = match doc.followed()? {
        Followed::Register(r) => {
            let two = doc.facts.registers.get(&r)?.accesses.all().around(at);
            two.into_iter().flatten().collect()
        }
        _ => {
            let list = doc.trail.touches();
            let n = list.partition_point(|t| t.event < Some(at));
            let two = [n.checked_sub(1), Some(n)].into_iter().flatten();
            two.filter_map(|n| list.get(n)?.event).collect()
        }
    };
    let away = |e: &u64| (x_of(doc, scale, *e) - x).abs();
    around.into_iter().min_by(|a, b| away(a).total_cmp(&away(b)))
}
