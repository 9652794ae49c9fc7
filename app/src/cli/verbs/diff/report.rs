//! The report of `diff --json`, which is also the source of its text and its page.

use super::calls::{self, CallComparison, describe_call};
use super::describe::{describe_descriptor, describe_event, describe_host_write, job_name};
use super::sides::{Element, FieldPair, Sides};
use crate::cli::format_hex;
use crate::cli::out::format_count;
use crate::cli::source::SourceRecording;
use serde::Serialize;
use std::borrow::Cow;
use trace_core::diff::{
    self, BufferDiff, ChangeKind, DescriptorDifference, Diff, Effect, Errors, EventAlignment, EventDifference,
    HostWriteDiff, JobPair, Link, MappingDifference, NotComputed, OneSided, PageDifference, RegisterDiff, Rules,
    Summary, Tolerance, address_kind, kind_name,
};
use trace_core::recording::EventKind;
use trace_core::registers::{format_location, has_several_spaces};

/// The comparison of two recordings, which the engine returns in several values.
#[derive(Serialize)]
pub struct Report<'a> {
    /// Whether no part below differs.
    pub same: bool,
    /// The comparison in one sentence: the earliest cause, its consequences, and what is the same.
    pub summary: &'a str,
    /// What could not be compared, in one sentence; empty if everything was.
    pub not_compared: &'a str,
    /// Number of jobs that were not computed, `a` and `b`. If there are any, buffers whose role is output are not
    /// compared.
    pub not_computed: NotComputed,
    /// Where the recordings part; `null` if nothing differs.
    pub first_difference: Option<First>,
    /// Number of jobs, `a` and `b`.
    pub jobs: Sides<u64>,
    /// The alignment of the events.
    pub events: Events<'a>,
    /// One row for each field that differs where the histories of a register part.
    pub registers: Vec<Register<'a>>,
    /// For two API traces, else `null`.
    pub calls: Option<CallComparison<'a>>,
    /// Bytes that the CPU wrote.
    pub host_writes: &'a HostWriteDiff,
    /// Inputs of jobs.
    pub descriptors: Descriptors<'a>,
    /// Page tables at the end.
    pub mappings: Mappings,
    /// Memory at the end.
    pub memory: Memory<'a>,
    /// Causes of the differences.
    pub causes: Vec<Cause>,
    /// The applied rules, in the form of `--rules`.
    pub rules: Vec<String>,
}

/// The first divergence of the recordings, with the text of its events.
#[derive(Serialize)]
pub struct First {
    /// The events; `null` if only the end differs.
    pub a_event: Option<u64>,
    pub b_event: Option<u64>,
    /// What differs, in words.
    pub what: String,
}

/// The alignment of the events. The engine has pairs of both sides, and events without names.
#[derive(Serialize)]
pub struct Events<'a> {
    /// Number of events by result of the alignment.
    pub equal: u64,
    pub changed: u64,
    pub inserted: u64,
    pub deleted: u64,
    pub moved: u64,
    pub relocated: u64,
    pub uncompared: u64,
    /// `a`, `b`: reads of a wait that a later read of the same wait represents.
    pub folded: Sides<u64>,
    /// Pairs of jobs whose alignment may not be the shortest: `a`, `b`.
    pub cut_short: &'a [JobPair],
    /// Events of a kind that one side does not have at all: `kind`, `a`, `b`. They are not compared.
    pub one_sided: &'a [OneSided],
    /// `a`, `b`: accesses to memory of the machine and configuration space that the other side does not have. They are
    /// not compared.
    pub foreign: Sides<u64>,
    /// `a`, `b`: calls that no replay makes. They are not compared if one side is a replay.
    pub not_played: Sides<u64>,
    /// The events that differ.
    pub list: Vec<Event>,
}

/// The cause of a difference, step by step back. The engine has the events without their text.
#[derive(Serialize)]
pub struct Cause {
    /// The events that differ.
    pub a_event: Option<u64>,
    pub b_event: Option<u64>,
    /// Instead of events: a byte or a mapping.
    pub address_space: Option<u32>,
    pub va: Option<String>,
    pub buffer: Option<String>,
    /// The difference in words.
    pub what: String,
    /// The steps back from it, the earliest last.
    pub steps: Vec<CauseStep>,
}

/// A step back from a difference, with the text of its events.
#[derive(Serialize)]
pub struct CauseStep {
    /// How the step leads to the previous one, see below.
    pub link: Link,
    /// Whether the step certainly contributed.
    pub sure: bool,
    /// Events or buffer of the step.
    pub a_event: Option<u64>,
    pub b_event: Option<u64>,
    pub buffer: Option<String>,
    /// The step in words.
    pub what: String,
}

/// Page-table mappings; counts are pages. The rows differ from the engine's.
#[derive(Serialize)]
pub struct Mappings {
    /// Number of pages by result.
    pub same: u64,
    pub changed: u64,
    pub only_a: u64,
    pub only_b: u64,
    pub moved: u64,
    /// Runs of pages that differ.
    pub list: Vec<Mapping>,
}

/// Memory at the end: pages and named buffers. The buffers differ from the engine's.
#[derive(Serialize)]
pub struct Memory<'a> {
    /// Whether pages are compared by `GPU address` or `physical address`.
    pub by: &'static str,
    /// Number of pages by result.
    pub pages_same: u64,
    pub pages_differ: u64,
    pub pages_only_a: u64,
    pub pages_only_b: u64,
    pub pages_ignored: u64,
    /// `a`, `b`: a side without page tables whose last snapshot is older than the last CPU writes. Pages are then not
    /// compared.
    pub not_held: Sides<bool>,
    /// Number of bytes that differ.
    pub bytes_differ: u64,
    /// Pages that differ.
    pub pages: &'a [PageDifference],
    /// Named buffers.
    pub buffers: Vec<Buffer<'a>>,
}

/// A named buffer, with the comparison of elements at the same level. A buffer of one side alone has no elements.
#[derive(Serialize)]
pub struct Buffer<'a> {
    /// Name of the buffer, and whether it differs.
    pub name: &'a str,
    pub differs: bool,
    /// Address and size on each side; `null`: that side has no buffer of this name.
    pub a_va: Option<String>,
    pub b_va: Option<String>,
    pub a_bytes: Option<u64>,
    pub b_bytes: Option<u64>,
    /// Type of the elements.
    pub element: Option<&'static str>,
    /// Number of elements by result.
    pub compared: u64,
    pub equal: u64,
    pub within: u64,
    pub differ: u64,
    /// Number of bytes that are not known on both sides.
    pub unknown_bytes: u64,
    /// Number of bytes that differ.
    pub bytes_differ: u64,
    /// The first element that differs: `index`, `a`, `b`.
    pub first: Option<Element>,
    /// Statistics of the elements whose bits differ.
    pub errors: Option<&'a Errors>,
    /// `absolute`, `relative`, `ulp`, where there is one.
    pub tolerance: Option<Tolerance>,
}

/// A difference of events, with the names of registers and spaces, and with calls as text.
#[derive(Serialize)]
pub struct Event {
    /// `a`, `b`: the job.
    pub job: JobPair,
    /// `changed`, `inserted`, `deleted` or `moved`.
    pub what: &'static str,
    /// The first of the events.
    pub a_event: Option<u64>,
    pub b_event: Option<u64>,
    /// Number of consecutive events.
    pub events: u64,
    /// The kind of event.
    pub kind: &'static str,
    /// Space of an access; `null` for other events.
    pub space: Option<String>,
    /// The access: its offset, and the name of the register.
    pub offset: String,
    /// Text output for an access without a name.
    #[serde(skip)]
    pub place: String,
    pub register: Option<String>,
    /// Kind of a driver call: `launch`, `copy`, `fill`, `order`, `allocation`, `call`; else `null`.
    pub call: Option<String>,
    /// Values of the first event; for a call, the call in words.
    pub a: Option<String>,
    pub b: Option<String>,
}

/// A register field at the point where the histories of the register diverge. The engine has a list for each register.
#[derive(Serialize)]
pub struct Register<'a> {
    /// Name and offset of the register.
    pub register: &'a str,
    pub offset: String,
    /// All differences of the register.
    pub count: u64,
    /// The accesses where the histories part; `null` if a side has no such access.
    pub a_event: Option<u64>,
    pub b_event: Option<u64>,
    /// Name of the field.
    pub field: &'a str,
    /// Its value on each side; `null` if a side has no such access.
    pub a: Option<&'a str>,
    pub b: Option<&'a str>,
}

/// Inputs of jobs; counts are descriptors. The rows differ from the engine's.
#[derive(Serialize)]
pub struct Descriptors<'a> {
    /// Number of descriptors.
    pub same: u64,
    pub changed: u64,
    /// Descriptors of jobs in chains that only one side has.
    pub only_a: u64,
    pub only_b: u64,
    /// Number of address fields that differ only by relocation.
    pub relocated: u64,
    /// Number of descriptors that are not held, or excluded by a rule.
    pub unknown: u64,
    /// Descriptors whose status fields differ, and the names of these fields. The device writes them, and they are no
    /// difference.
    pub status: u64,
    pub status_fields: &'a [String],
    /// Descriptors that differ.
    pub list: Vec<Descriptor<'a>>,
}

/// A descriptor that differs. The engine has pairs of both sides.
#[derive(Serialize)]
pub struct Descriptor<'a> {
    /// `a`, `b`: the job.
    pub job: JobPair,
    /// The submits.
    pub a_event: u64,
    pub b_event: u64,
    /// Position of its job in the chain, from 0.
    pub in_chain: u32,
    /// Name in the register map.
    pub layout: &'a str,
    /// Number of the address space on each side.
    pub a_address_space: u8,
    pub b_address_space: u8,
    /// Address on each side; `null`: that side has none.
    pub a_va: Option<String>,
    pub b_va: Option<String>,
    /// Size of the descriptor.
    pub bytes: u32,
    /// The fields that differ: `field`, `a`, `b`.
    pub fields: Vec<FieldPair<'a>>,
}

/// A run of pages that differs. The engine has an optional mapping for each side.
#[derive(Serialize)]
pub struct Mapping {
    /// Number of the address space.
    pub address_space: u8,
    /// First address.
    pub va: String,
    /// Number of pages.
    pub pages: u64,
    /// How each side maps the pages; `null`: it does not map them.
    pub rights_a: Option<String>,
    pub rights_b: Option<String>,
    pub attribute_a: Option<u8>,
    pub attribute_b: Option<u8>,
    pub entry_a: Option<String>,
    pub entry_b: Option<String>,
    /// Where `b` has the pages that `a` has at `va`.
    pub moved_to: Option<String>,
}

/// Builds the report of a comparison; `a` is the first recording.
pub fn report<'a>(
    (diff, aligned): (&'a Diff, &EventAlignment),
    (causes, summary): (&[diff::Cause], &'a Summary),
    both: (&SourceRecording, &SourceRecording),
    rules: &Rules,
) -> Report<'a> {
    let names = EventNames::new(both);
    let is_api_trace = both.0.recording.api().is_some() && both.1.recording.api().is_some();
    let events = events(diff, &names);
    Report {
        same: summary.same,
        summary: &summary.sentence,
        not_compared: &summary.not_compared,
        not_computed: diff.not_computed,
        first_difference: find_first(diff, &events.list),
        calls: is_api_trace.then(|| calls::calls(&diff.calls)),
        jobs: diff.jobs.into(),
        events,
        registers: diff.registers.iter().flat_map(register_fields).collect(),
        host_writes: &diff.host_writes,
        descriptors: descriptors(diff),
        mappings: mappings(diff),
        memory: memory(diff),
        causes: causes.iter().map(|c| cause(c, aligned, both)).collect(),
        rules: rules.list.iter().map(ToString::to_string).collect(),
    }
}

/// What names the events of two recordings.
struct EventNames<'r> {
    both: (&'r SourceRecording, &'r SourceRecording),
    has_several_spaces: bool,
}

impl<'r> EventNames<'r> {
    fn new(both: (&'r SourceRecording, &'r SourceRecording)) -> Self {
        let (a, b) = (&both.0.recording, &both.1.recording);
        Self {
            both,
            has_several_spaces: has_several_spaces(a) || has_several_spaces(b),
        }
    }

    /// Returns the access of the first recording, or that of the second if only it has the event.
    fn side(&self, d: &EventDifference) -> Option<(&'r SourceRecording, usize)> {
        match (d.a, d.b) {
            (Some(e), _) => Some((self.both.0, usize::try_from(e).ok()?)),
            (None, e) => Some((self.both.1, usize::try_from(e?).ok()?)),
        }
    }

    fn register(&self, d: &EventDifference) -> Option<String> {
        let (of, event) = self.side(d)?;
        let access = of.recording.events.access(event)?;
        of.device?.name_of(&access).map(Cow::into_owned)
    }

    fn space(&self, d: &EventDifference) -> Option<String> {
        let (of, event) = self.side(d)?;
        let places = matches!(d.kind, EventKind::Read | EventKind::Write | EventKind::Undecoded);
        let number = of.recording.events.space.get(event).filter(|_| places)?;
        let space = of.recording.metadata.spaces.get(usize::from(number));
        space.map(|s| s.name.clone())
    }

    /// Returns the row of a difference.
    fn event(&self, d: &EventDifference) -> Event {
        let text = |value: Option<u64>, of: &SourceRecording, event: Option<u64>| {
            if !d.kind.is_call() {
                return value.map(format_hex);
            }
            of.recording.describe_call(usize::try_from(event?).ok()?)
        };
        let space = self.space(d);
        Event {
            job: d.job,
            what: change_name(d.what),
            a_event: d.a,
            b_event: d.b,
            events: d.events,
            kind: kind_name(d.kind),
            offset: format_hex(u64::from(d.offset.get())),
            place: match space.as_ref().filter(|_| self.has_several_spaces) {
                Some(space) => format!("{space}+{:#x}", d.offset),
                None => format_hex(u64::from(d.offset.get())),
            },
            space,
            register: self.register(d),
            call: d.kind.call_name().map(str::to_owned),
            a: text(d.value_a, self.both.0, d.a),
            b: text(d.value_b, self.both.1, d.b),
        }
    }
}

fn events<'a>(diff: &'a Diff, names: &EventNames<'_>) -> Events<'a> {
    let e = &diff.events;
    Events {
        equal: e.equal,
        changed: e.changed,
        inserted: e.inserted,
        deleted: e.deleted,
        moved: e.moved,
        relocated: e.relocated,
        uncompared: e.uncompared,
        folded: e.folded.into(),
        cut_short: &e.cut_short,
        one_sided: &e.one_sided,
        foreign: e.foreign.into(),
        not_played: e.not_played.into(),
        list: e.list.iter().map(|d| names.event(d)).collect(),
    }
}

/// Returns one row for each field of a register.
fn register_fields(r: &RegisterDiff) -> impl Iterator<Item = Register<'_>> {
    r.fields.iter().map(move |(field, x, y)| Register {
        register: &r.name,
        offset: format_hex(u64::from(r.offset.get())),
        count: r.count,
        a_event: r.first.0,
        b_event: r.first.1,
        field,
        a: r.first.0.map(|_| x.as_str()),
        b: r.first.1.map(|_| y.as_str()),
    })
}

fn descriptors(diff: &Diff) -> Descriptors<'_> {
    let d = &diff.descriptors;
    Descriptors {
        same: d.same,
        changed: d.changed,
        only_a: d.only_a,
        only_b: d.only_b,
        relocated: d.relocated,
        unknown: d.unknown,
        status: d.status,
        status_fields: &d.status_fields,
        list: d.list.iter().map(descriptor).collect(),
    }
}

fn mappings(diff: &Diff) -> Mappings {
    let m = &diff.mappings;
    Mappings {
        same: m.same,
        changed: m.changed,
        only_a: m.only_a,
        only_b: m.only_b,
        moved: m.moved,
        list: m.list.iter().map(mapping).collect(),
    }
}

fn memory(diff: &Diff) -> Memory<'_> {
    let p = &diff.pages;
    Memory {
        by: address_kind(p.physical),
        pages_same: p.same,
        pages_differ: p.changed,
        pages_only_a: p.only_a,
        pages_only_b: p.only_b,
        pages_ignored: p.ignored,
        not_held: p.not_held.into(),
        bytes_differ: p.bytes_differ,
        pages: &p.list,
        buffers: diff.buffers.iter().map(buffer).collect(),
    }
}

fn cause(c: &diff::Cause, aligned: &EventAlignment, both: (&SourceRecording, &SourceRecording)) -> Cause {
    let steps = c.steps.iter().map(|s| CauseStep {
        link: s.link,
        sure: s.link.is_certain(),
        a_event: s.a,
        b_event: s.b,
        buffer: s.buffer.clone(),
        what: describe_events_at(aligned, both, (s.a, s.b)),
    });
    let mut out = Cause {
        a_event: None,
        b_event: None,
        address_space: None,
        va: None,
        buffer: None,
        what: String::new(),
        steps: steps.collect(),
    };
    match &c.effect {
        Effect::Event { a, b } => {
            (out.a_event, out.b_event) = (*a, *b);
            out.what = describe_events_at(aligned, both, (*a, *b));
        }
        Effect::Byte { spaces, a, buffer, .. } => {
            out.address_space = Some(spaces.0);
            out.va = Some(format_hex(a.get()));
            out.what = match buffer {
                Some(name) => format!("the byte at {} of {name}", format_hex(a.get())),
                None => format!("the byte at {}", format_hex(a.get())),
            };
            out.buffer.clone_from(buffer);
        }
        Effect::Mapping { spaces, a, .. } => {
            out.address_space = Some(spaces.0);
            out.va = Some(format_hex(a.get()));
            out.what = format!("the mapping at {}", format_hex(a.get()));
        }
    }
    out
}

/// Describes the events at a point of both sides; empty if there are none.
fn describe_events_at(
    aligned: &EventAlignment,
    (a, b): (&SourceRecording, &SourceRecording),
    (x, y): (Option<u64>, Option<u64>),
) -> String {
    let job = aligned
        .job_intervals()
        .iter()
        .find(|c| (x, y) != (None, None) && c.submits() == (x, y));
    if let Some(course) = job {
        return job_name(course.job);
    }
    let value = |opened: &SourceRecording, event: Option<u64>| {
        let event = usize::try_from(event?).ok()?;
        let events = &opened.recording.events;
        match events.kind(event)? {
            EventKind::Read | EventKind::Write => events.access(event).map(|a| format_hex(a.value)),
            EventKind::HostWrite => events
                .host_write(event)
                .map(|w| format_count(u64::from(w.bytes), "byte")),
            EventKind::Interrupt => events.interrupt(event).map(|i| format_hex(u64::from(i.status))),
            _ => None,
        }
    };
    let name = |opened: &SourceRecording, event: Option<u64>| {
        let event = usize::try_from(event?).ok()?;
        let events = &opened.recording.events;
        let access = events.access(event);
        Some(match (events.kind(event)?, access) {
            (EventKind::HostWrite, _) => "the CPU's store of".to_owned(),
            (kind, Some(access)) => {
                let register = opened
                    .device
                    .as_ref()
                    .and_then(|d| d.name_of(&access))
                    .map(Cow::into_owned);
                let place = || format_location(&opened.recording, access.space, access.offset);
                let register = register.unwrap_or_else(place);
                format!("{} {register}", kind_name(kind))
            }
            (kind, None) => kind_name(kind).to_owned(),
        })
    };
    let Some(name) = name(a, x).or_else(|| name(b, y)) else {
        return String::new();
    };
    match (value(a, x), value(b, y)) {
        (Some(v), Some(w)) if v == w => format!("{name} {v}"),
        (Some(v), Some(w)) => format!("{name} {v}, {w} in the second"),
        (Some(v), None) => format!("{name} {v}, only in the first"),
        (None, Some(w)) => format!("{name} {w}, only in the second"),
        (None, None) => name,
    }
}

fn buffer(d: &BufferDiff) -> Buffer<'_> {
    let e = d.elements.as_ref();
    Buffer {
        name: &d.name,
        differs: d.differs(),
        a_va: d.a.map(|a| format_hex(a.0.get())),
        b_va: d.b.map(|b| format_hex(b.0.get())),
        a_bytes: d.a.map(|a| a.1),
        b_bytes: d.b.map(|b| b.1),
        element: e.map(|e| e.element.name()),
        compared: e.map_or(0, |e| e.compared),
        equal: e.map_or(0, |e| e.equal),
        within: e.map_or(0, |e| e.within),
        differ: e.map_or(0, |e| e.differ),
        unknown_bytes: d.unknown,
        bytes_differ: d.bytes_differ,
        first: e.and_then(Element::first),
        errors: e.and_then(|e| e.errors.as_ref()),
        tolerance: d.tolerance,
    }
}

/// Returns where the recordings diverge: the first event that differs or, if none does, the first difference at the
/// end.
fn find_first(diff: &Diff, events: &[Event]) -> Option<First> {
    let of_event = events.first().map(|e| First {
        a_event: e.a_event,
        b_event: e.b_event,
        what: match diff.calls.find(e.a_event, e.b_event) {
            Some(call) => describe_call(&calls::call(call)),
            None => describe_event(e),
        },
    });
    let physical = diff.host_writes.physical;
    let of_write = diff.host_writes.list.first().map(|h| First {
        a_event: h.a,
        b_event: h.b,
        what: format!("the CPU wrote otherwise: {}", describe_host_write(h, physical)),
    });
    let of_descriptor = diff.descriptors.list.first().map(|d| First {
        a_event: Some(d.events.0),
        b_event: Some(d.events.1),
        what: format!("a descriptor differs: {}", describe_descriptor(&descriptor(d))),
    });
    let place = |f: &First| f.a_event.into_iter().chain(f.b_event).min();
    let in_the_end = || {
        let (m, p) = (&diff.mappings, &diff.pages);
        let what = if m.changed + m.only_a + m.only_b + m.moved > 0 {
            "mapped pages at the end"
        } else if p.changed + p.only_a + p.only_b > 0 {
            "memory at the end"
        } else if diff.buffers.iter().any(BufferDiff::differs) {
            "a buffer at the end"
        } else if diff.calls.count_differing() > 0 {
            "the code of what was launched"
        } else if diff.descriptors.count_differing() > 0 {
            "a descriptor of a job"
        } else {
            "the number of jobs"
        };
        (!diff.is_empty()).then(|| First {
            a_event: None,
            b_event: None,
            what: what.to_owned(),
        })
    };
    of_event
        .into_iter()
        .chain(of_write)
        .chain(of_descriptor)
        .min_by_key(place)
        .or_else(in_the_end)
}

fn change_name(what: ChangeKind) -> &'static str {
    match what {
        ChangeKind::Equal => "equal",
        ChangeKind::Changed => "changed",
        ChangeKind::Deleted => "deleted",
        ChangeKind::Inserted => "inserted",
        ChangeKind::MovedFrom | ChangeKind::MovedTo => "moved",
    }
}

fn descriptor(d: &DescriptorDifference) -> Descriptor<'_> {
    Descriptor {
        job: d.job,
        a_event: d.events.0,
        b_event: d.events.1,
        in_chain: d.in_chain,
        layout: &d.layout,
        a_address_space: d.spaces.0,
        b_address_space: d.spaces.1,
        a_va: d.a.map(|va| format_hex(va.get())),
        b_va: d.b.map(|va| format_hex(va.get())),
        bytes: d.bytes,
        fields: d
            .fields
            .iter()
            .map(|(field, a, b)| FieldPair {
                field,
                a: d.a.map(|_| a.as_str()),
                b: d.b.map(|_| b.as_str()),
            })
            .collect(),
    }
}

fn mapping(d: &MappingDifference) -> Mapping {
    Mapping {
        address_space: d.address_space,
        va: format_hex(d.va.get()),
        pages: d.pages,
        rights_a: d.a.map(|m| m.rights.to_string()),
        rights_b: d.b.map(|m| m.rights.to_string()),
        attribute_a: d.a.map(|m| m.attr_index),
        attribute_b: d.b.map(|m| m.attr_index),
        entry_a: d.a.map(|m| format_hex(m.bits)),
        entry_b: d.b.map(|m| format_hex(m.bits)),
        moved_to: d.moved_to.map(|va| format_hex(va.get())),
    }
}
