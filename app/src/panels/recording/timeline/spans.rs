//! Jobs, interrupts, polls, gaps, findings and values of pinned registers by pixel of a part of the axis: items that
//! share a pixel are one run.

use kinescope_session::Document;
use kinescope_session::axis::AxisKind;
use kinescope_session::jobs::JobFact;
use trace_core::RegOffset;
use trace_core::registers::{RegisterAccess, history};
use trace_core::timeline::{Pixels, merge_spans};

/// Items of a lane that share a pixel, or one item.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Index of the first of them.
    pub first_item: usize,
    /// Number of items.
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
    /// Whether a write set it.
    pub write: bool,
}

/// Items that span several events.
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
    /// Findings: errors, warnings, notes.
    pub problems: [Vec<Run>; 3],
    /// Values of pinned registers.
    pub pins: Vec<(RegOffset, Vec<Stretch>)>,
}

impl Spans {
    /// Returns the items of a recording that lie in these pixels.
    pub fn new(doc: &Document, axis: AxisKind, pixels: &Pixels) -> Self {
        let f = &doc.derived;
        let place = |event: u64| f.axis.position(axis, event);
        let job = |i: &u32| f.jobs.get(*i as usize).map_or((0, 0), JobFact::span);
        let problems = |n: usize| f.by_severity.get(n).map_or(&[][..], |s| &s.events);
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
                .filter_map(|r| Some((*r, stretches(doc, axis, pixels, *r)?)))
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

/// Pixels between two samples of a value, if a register has more accesses than there are pixels: no value can be read
/// in a narrower stretch anyway.
const NARROW: usize = 3;

/// Returns the stretches of a register: each of its values, or, if it has more accesses than there are pixels, the
/// last value of every few pixels.
fn stretches(doc: &Document, axis: AxisKind, pixels: &Pixels, register: RegOffset) -> Option<Vec<Stretch>> {
    let accesses = &doc.derived.registers.get(&register)?.accesses;
    let mut out: Vec<Stretch> = Vec::new();
    let mut put = |place: usize, a: RegisterAccess| {
        let at = (place, a.event);
        let value = history::value_of(&doc.recording, doc.derived.device, register, accesses, at);
        if let Some(value) = value
            && out.last().is_none_or(|s| s.value != value)
        {
            out.push(Stretch {
                from: doc.derived.axis.position(axis, a.event),
                value,
                write: a.write,
            });
        }
    };
    let (start, end) = pixels.events();
    let (from, to) = (accesses.all().count_before(start), accesses.all().count_before(end));
    if to - from <= pixels.len() {
        let from = from.saturating_sub(1);
        (from..to)
            .zip(accesses.iter_from(from))
            .for_each(|(place, a)| put(place, a));
        return Some(out);
    }
    let mut cursor = accesses.cursor();
    let mut seen = None;
    for edge in pixels.edges.iter().step_by(NARROW).chain(pixels.edges.last()) {
        if let Some((place, a)) = cursor.last_before(*edge)
            && seen.replace(place) != Some(place)
        {
            put(place, a);
        }
    }
    Some(out)
}
