//! Jobs, interrupts, polls, gaps, problems and values of pinned registers in the pixels of a part of the axis: what
//! shares a pixel is one run.

use crate::document::Document;
use crate::document::axis::AxisKind;
use crate::document::facts::RegisterFact;
use crate::document::jobs::JobFact;
use trace_core::timeline::{Pixels, merge_spans};

/// Things of a lane that share a pixel, or one thing.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Index of the first of them.
    pub first_item: usize,
    /// How many they are.
    pub items: usize,
    /// First event.
    pub first: u64,
    /// Last event.
    pub last: u64,
    /// Position of the first event.
    pub from: f64,
    /// Position of the last event.
    pub to: f64,
    /// Position of the event after the last.
    pub end: f64,
}

/// A stretch in which a register keeps its value.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// Position of its first event.
    pub from: f64,
    /// The value.
    pub value: u64,
    /// Whether a write brought it.
    pub write: bool,
}

/// What reaches over several events.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    /// Jobs of each slot.
    pub jobs: Vec<Vec<Run>>,
    /// Interrupts.
    pub interrupts: Vec<Run>,
    /// Polls.
    pub polls: Vec<Run>,
    /// Idle gaps.
    pub gaps: Vec<Run>,
    /// Problems: errors, warnings, notes.
    pub problems: [Vec<Run>; 3],
    /// Values of pinned registers.
    pub pins: Vec<(u32, Vec<Stretch>)>,
}

impl Spans {
    /// What of a recording lies in these pixels.
    pub fn new(doc: &Document, axis: AxisKind, pixels: &Pixels) -> Self {
        let f = &doc.facts;
        let place = |event: u64| f.axis.position(axis, event);
        let job = |i: &u32| f.jobs.get(*i as usize).map_or((0, 0), JobFact::span);
        let problems = |n: usize| f.severe.get(n).map_or(&[][..], |s| &s.events);
        Self {
            jobs: f.slots.iter().map(|slot| runs(&place, pixels, slot, job)).collect(),
            interrupts: runs(&place, pixels, &f.interrupts, |i| (i.event, i.event)),
            polls: runs(&place, pixels, &f.polls, |p| (p.first, p.last)),
            gaps: runs(&place, pixels, &f.gaps, |g| (g.0, g.0)),
            problems: [0, 1, 2].map(|n| runs(&place, pixels, problems(n), |e| (*e, *e))),
            pins: doc
                .changes()
                .pins()
                .iter()
                .filter_map(|r| Some((*r, stretches(doc, axis, pixels, f.registers.get(r)?))))
                .collect(),
        }
    }
}

fn runs<T>(place: &impl Fn(u64) -> f64, pixels: &Pixels, items: &[T], span: impl Fn(&T) -> (u64, u64)) -> Vec<Run> {
    let merged = merge_spans(items, &pixels.edges, span).into_iter();
    merged
        .map(|m| Run {
            first_item: m.first_item,
            items: m.items,
            first: m.first,
            last: m.last,
            from: place(m.first),
            to: place(m.last),
            end: place(m.last.saturating_add(1)),
        })
        .collect()
}

/// The stretches of a register: for every pixel the value that it ends with.
fn stretches(doc: &Document, axis: AxisKind, pixels: &Pixels, fact: &RegisterFact) -> Vec<Stretch> {
    let events = fact.accesses.all();
    let at = |e: u64| events.before(e);
    let mut out: Vec<Stretch> = Vec::new();
    let mut put = |n: usize| {
        let Some(event) = events.get(n) else { return };
        if let Some(a) = doc.recording.events.access(event as usize)
            && out.last().is_none_or(|s| s.value != a.value)
        {
            out.push(Stretch {
                from: doc.facts.axis.position(axis, event),
                value: a.value,
                write: a.write,
            });
        }
    };
    let mut seen = at(pixels.events().0);
    if let Some(before) = seen.checked_sub(1) {
        put(before);
    }
    for end in pixels.edges.iter().skip(1) {
        let upto = at(*end);
        if upto > seen {
            put(upto - 1);
        }
        seen = upto;
    }
    out
}
