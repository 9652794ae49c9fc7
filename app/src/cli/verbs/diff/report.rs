//! The report of `diff --json`, which is also the source of its text and its page.

use super::calls::{self, CallComparison, describe_call};
use super::describe::{describe_descriptor, describe_event, describe_host_write, job_name};
use crate::cli::format_hex;
use crate::cli::out::format_count;
use crate::cli::source::Opened;
use serde::Serialize;
use std::borrow::Cow;
use trace_core::diff::{
    self, BufferDiff, ChangeKind, DescriptorDifference, Diff, Effect, Errors, EventAlignment, EventDifference,
    HostWriteDifference, JobPair, Link, MappingDifference, PageDifference, RegisterDiff, Rules, Summary, Tolerance,
    kind_name,
};
use trace_core::memory::element_text;
use trace_core::recording::{ApiTraceMetadata, EventKind};
use trace_core::registers::{format_location, has_several_spaces};

#[derive(Serialize)]
pub struct Report<'a> {
    pub same: bool,
    /// The comparison in one sentence.
    pub summary: &'a str,
    /// What could not be compared, in one sentence; empty if everything was.
    pub not_compared: &'a str,
    /// Jobs that were not computed.
    pub not_computed: Sides,
    pub first_difference: Option<First>,
    pub jobs: Sides,
    pub events: Events,
    pub registers: Vec<Register<'a>>,
    /// Only for API traces; `None` for others.
    pub calls: Option<CallComparison<'a>>,
    pub host_writes: HostWrites,
    pub descriptors: Descriptors<'a>,
    pub mappings: Mappings,
    pub memory: Memory<'a>,
    /// Causes of the differences.
    pub causes: Vec<Cause>,
    /// The applied rules, one per line.
    pub rules: Vec<String>,
}

#[derive(Serialize)]
pub struct Sides {
    pub a: u64,
    pub b: u64,
}

/// The first divergence of the recordings.
#[derive(Serialize)]
pub struct First {
    pub a_event: Option<u64>,
    pub b_event: Option<u64>,
    pub what: String,
}

#[derive(Serialize)]
pub struct Events {
    pub equal: u64,
    pub changed: u64,
    pub inserted: u64,
    pub deleted: u64,
    pub moved: u64,
    pub relocated: u64,
    pub uncompared: u64,
    pub folded: Sides,
    pub cut_short: Vec<JobPair>,
    pub one_sided: Vec<OneSided>,
    pub foreign: Sides,
    pub not_played: Sides,
    pub list: Vec<Event>,
}

/// A kind of events that only one side has.
#[derive(Serialize)]
pub struct OneSided {
    pub kind: &'static str,
    pub a: u64,
    pub b: u64,
}

/// The cause of a difference, step by step back.
#[derive(Serialize)]
pub struct Cause {
    pub a_event: Option<u64>,
    pub b_event: Option<u64>,
    pub address_space: Option<u32>,
    pub va: Option<String>,
    pub buffer: Option<String>,
    pub what: String,
    pub steps: Vec<CauseStep>,
}

/// A step back from a difference.
#[derive(Serialize)]
pub struct CauseStep {
    pub link: Link,
    pub sure: bool,
    pub a_event: Option<u64>,
    pub b_event: Option<u64>,
    pub buffer: Option<String>,
    pub what: String,
}

/// Page-table mappings; counts are pages.
#[derive(Serialize)]
pub struct Mappings {
    pub same: u64,
    pub changed: u64,
    pub only_a: u64,
    pub only_b: u64,
    pub moved: u64,
    pub list: Vec<Mapping>,
}

/// Memory at the end.
#[derive(Serialize)]
pub struct Memory<'a> {
    pub by: &'static str,
    pub pages_same: u64,
    pub pages_differ: u64,
    pub pages_only_a: u64,
    pub pages_only_b: u64,
    pub pages_ignored: u64,
    /// Sides without their memory at the end.
    pub not_held: MissingSides,
    pub bytes_differ: u64,
    pub pages: Vec<Page>,
    pub buffers: Vec<Buffer<'a>>,
}

/// The sides that lack something.
#[derive(Serialize)]
pub struct MissingSides {
    pub a: bool,
    pub b: bool,
}

/// A named buffer; a buffer that only one side has has no elements.
#[derive(Serialize)]
pub struct Buffer<'a> {
    pub name: &'a str,
    pub differs: bool,
    pub a_va: Option<String>,
    pub b_va: Option<String>,
    pub a_bytes: Option<u64>,
    pub b_bytes: Option<u64>,
    pub element: Option<&'static str>,
    pub compared: u64,
    pub equal: u64,
    pub within: u64,
    pub differ: u64,
    pub unknown_bytes: u64,
    pub bytes_differ: u64,
    pub first: Option<Element>,
    pub errors: Option<&'a Errors>,
    pub tolerance: Option<Tolerance>,
}

/// The first element that differs.
#[derive(Serialize)]
pub struct Element {
    pub index: u64,
    pub a: String,
    pub b: String,
}

#[derive(Serialize)]
pub struct Event {
    pub job: JobPair,
    pub what: &'static str,
    pub a_event: Option<u64>,
    pub b_event: Option<u64>,
    pub events: u64,
    pub kind: &'static str,
    /// The space of an access; `None` for other kinds.
    pub space: Option<String>,
    pub offset: String,
    /// Text output for an access without a name.
    #[serde(skip)]
    pub place: String,
    pub register: Option<String>,
    /// Description of an API call.
    pub call: Option<String>,
    pub a: Option<String>,
    pub b: Option<String>,
}

/// A register field at the point where the histories of the register diverge.
#[derive(Serialize)]
pub struct Register<'a> {
    pub register: &'a str,
    pub offset: String,
    pub count: u64,
    pub a_event: Option<u64>,
    pub b_event: Option<u64>,
    pub field: &'a str,
    pub a: Option<&'a str>,
    pub b: Option<&'a str>,
}

/// CPU writes; counts are bytes.
#[derive(Serialize)]
pub struct HostWrites {
    pub same: u64,
    pub already: u64,
    pub changed: u64,
    pub only_a: u64,
    pub only_b: u64,
    pub uncompared: u64,
    pub unmapped: u64,
    pub by: &'static str,
    pub list: Vec<HostWrite>,
}

#[derive(Serialize)]
pub struct HostWrite {
    pub job: JobPair,
    pub a: Option<u64>,
    pub b: Option<u64>,
    pub address_space: u8,
    pub va: String,
    pub bytes: u64,
    pub bytes_a: String,
    pub bytes_b: String,
}

/// Inputs of jobs; counts are descriptors.
#[derive(Serialize)]
pub struct Descriptors<'a> {
    pub same: u64,
    pub changed: u64,
    pub only_a: u64,
    pub only_b: u64,
    pub relocated: u64,
    pub unknown: u64,
    pub status: u64,
    pub status_fields: &'a [String],
    pub list: Vec<Descriptor<'a>>,
}

#[derive(Serialize)]
pub struct Descriptor<'a> {
    pub job: JobPair,
    pub a_event: u64,
    pub b_event: u64,
    pub in_chain: u32,
    pub layout: &'a str,
    pub a_address_space: u8,
    pub b_address_space: u8,
    pub a_va: Option<String>,
    pub b_va: Option<String>,
    pub bytes: u32,
    pub fields: Vec<DescriptorField<'a>>,
}

#[derive(Serialize)]
pub struct DescriptorField<'a> {
    pub field: &'a str,
    pub a: Option<&'a str>,
    pub b: Option<&'a str>,
}

#[derive(Serialize)]
pub struct Mapping {
    pub address_space: u8,
    pub va: String,
    pub pages: u64,
    pub rights_a: Option<String>,
    pub rights_b: Option<String>,
    pub attribute_a: Option<u8>,
    pub attribute_b: Option<u8>,
    pub entry_a: Option<String>,
    pub entry_b: Option<String>,
    pub moved_to: Option<String>,
}

#[derive(Serialize)]
pub struct Page {
    pub address_space: u8,
    pub va: String,
    pub in_a: bool,
    pub in_b: bool,
    pub first_byte: Option<String>,
}

/// Builds the report of a comparison; `a` is the first recording.
pub fn report<'a>(
    (diff, aligned): (&'a Diff, &EventAlignment),
    (causes, summary): (&[diff::Cause], &'a Summary),
    (a, b): (&Opened, &Opened),
    rules: &Rules,
) -> Report<'a> {
    // The access of the first recording, or that of the second if only it has the event.
    let side = |d: &EventDifference| match (d.a, d.b) {
        (Some(e), _) => Some((a, usize::try_from(e).ok()?)),
        (None, e) => Some((b, usize::try_from(e?).ok()?)),
    };
    let register = |d: &EventDifference| {
        let (of, event) = side(d)?;
        let access = of.recording.events.access(event)?;
        of.device?.name_of(&access).map(Cow::into_owned)
    };
    let several = has_several_spaces(&a.recording) || has_several_spaces(&b.recording);
    let space = |d: &EventDifference| {
        let (of, event) = side(d)?;
        let places = matches!(d.kind, EventKind::Read | EventKind::Write | EventKind::Undecoded);
        let number = of.recording.events.space.get(event).filter(|_| places)?;
        of.recording
            .metadata
            .spaces
            .get(usize::from(number))
            .map(|s| s.name.clone())
    };
    let metadata = (a.recording.api_trace_metadata(), b.recording.api_trace_metadata());
    let called = |opened: &Opened, metadata: &Option<ApiTraceMetadata>, event: Option<u64>| {
        let call = opened.recording.events.call(usize::try_from(event?).ok()?)?;
        Some(call.describe(metadata.as_ref()))
    };
    let event = |d: &EventDifference| {
        let is_call = d.kind.is_call();
        let text =
            |value: Option<u64>, of: &Opened, metadata: &Option<ApiTraceMetadata>, event: Option<u64>| match is_call {
                true => called(of, metadata, event),
                false => value.map(format_hex),
            };
        Event {
            job: d.job,
            what: change_name(d.what),
            a_event: d.a,
            b_event: d.b,
            events: d.events,
            kind: kind_name(d.kind),
            offset: format_hex(u64::from(d.offset)),
            place: match space(d).filter(|_| several) {
                Some(space) => format!("{space}+{:#x}", d.offset),
                None => format_hex(u64::from(d.offset)),
            },
            space: space(d),
            register: register(d),
            call: d.kind.call_name().map(str::to_owned),
            a: text(d.value_a, a, &metadata.0, d.a),
            b: text(d.value_b, b, &metadata.1, d.b),
        }
    };
    let (e, m, p, h) = (&diff.events, &diff.mappings, &diff.pages, &diff.host_writes);
    let d = &diff.descriptors;
    let list: Vec<Event> = e.list.iter().map(event).collect();
    let host_list: Vec<HostWrite> = h.list.iter().map(host_write).collect();
    let fields = |r: &'a RegisterDiff| {
        r.fields.iter().map(move |(field, x, y)| Register {
            register: &r.name,
            offset: format_hex(u64::from(r.offset)),
            count: r.count,
            a_event: r.first.0,
            b_event: r.first.1,
            field,
            a: r.first.0.map(|_| x.as_str()),
            b: r.first.1.map(|_| y.as_str()),
        })
    };
    Report {
        same: summary.same,
        summary: &summary.sentence,
        not_compared: &summary.not_compared,
        not_computed: Sides {
            a: diff.not_computed.a,
            b: diff.not_computed.b,
        },
        first_difference: find_first(diff, &list, &host_list),
        calls: (metadata.0.is_some() && metadata.1.is_some()).then(|| calls::calls(&diff.calls)),
        jobs: Sides {
            a: diff.jobs.0,
            b: diff.jobs.1,
        },
        events: Events {
            equal: e.equal,
            changed: e.changed,
            inserted: e.inserted,
            deleted: e.deleted,
            moved: e.moved,
            relocated: e.relocated,
            uncompared: e.uncompared,
            folded: Sides {
                a: e.folded.0,
                b: e.folded.1,
            },
            cut_short: e.cut_short.clone(),
            one_sided: e
                .one_sided
                .iter()
                .map(|o| OneSided {
                    kind: kind_name(o.kind),
                    a: o.a,
                    b: o.b,
                })
                .collect(),
            foreign: Sides {
                a: e.foreign.0,
                b: e.foreign.1,
            },
            not_played: Sides {
                a: e.not_played.0,
                b: e.not_played.1,
            },
            list,
        },
        registers: diff.registers.iter().flat_map(fields).collect(),
        host_writes: HostWrites {
            same: h.same,
            already: h.already,
            changed: h.changed,
            only_a: h.only_a,
            only_b: h.only_b,
            uncompared: h.uncompared,
            unmapped: h.unmapped,
            by: address_kind(h.physical),
            list: host_list,
        },
        descriptors: Descriptors {
            same: d.same,
            changed: d.changed,
            only_a: d.only_a,
            only_b: d.only_b,
            relocated: d.relocated,
            unknown: d.unknown,
            status: d.status,
            status_fields: &d.status_fields,
            list: d.list.iter().map(descriptor).collect(),
        },
        mappings: Mappings {
            same: m.same,
            changed: m.changed,
            only_a: m.only_a,
            only_b: m.only_b,
            moved: m.moved,
            list: m.list.iter().map(mapping).collect(),
        },
        memory: Memory {
            by: address_kind(p.physical),
            pages_same: p.same,
            pages_differ: p.changed,
            pages_only_a: p.only_a,
            pages_only_b: p.only_b,
            pages_ignored: p.ignored,
            not_held: MissingSides {
                a: p.not_held.0,
                b: p.not_held.1,
            },
            bytes_differ: p.bytes_differ,
            pages: p.list.iter().map(page).collect(),
            buffers: diff.buffers.iter().map(buffer).collect(),
        },
        causes: causes.iter().map(|c| cause(c, aligned, (a, b))).collect(),
        rules: rules.list.iter().map(ToString::to_string).collect(),
    }
}

fn cause(c: &diff::Cause, aligned: &EventAlignment, both: (&Opened, &Opened)) -> Cause {
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
            out.va = Some(format_hex(a.0));
            out.what = match buffer {
                Some(name) => format!("the byte at {} of {name}", format_hex(a.0)),
                None => format!("the byte at {}", format_hex(a.0)),
            };
            out.buffer.clone_from(buffer);
        }
        Effect::Mapping { spaces, a, .. } => {
            out.address_space = Some(spaces.0);
            out.va = Some(format_hex(a.0));
            out.what = format!("the mapping at {}", format_hex(a.0));
        }
    }
    out
}

/// Describes the events at a point of both sides; empty if there are none.
fn describe_events_at(
    aligned: &EventAlignment,
    (a, b): (&Opened, &Opened),
    (x, y): (Option<u64>, Option<u64>),
) -> String {
    let job = aligned
        .job_intervals()
        .iter()
        .find(|c| (x, y) != (None, None) && c.submits() == (x, y));
    if let Some(course) = job {
        return job_name(course.job);
    }
    let value = |opened: &Opened, event: Option<u64>| {
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
    let name = |opened: &Opened, event: Option<u64>| {
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

fn page(d: &PageDifference) -> Page {
    Page {
        address_space: d.address_space,
        va: format_hex(d.va.0),
        in_a: d.in_a,
        in_b: d.in_b,
        first_byte: d.first_byte.map(|b| format_hex(u64::from(b))),
    }
}

fn buffer(d: &BufferDiff) -> Buffer<'_> {
    let e = d.elements.as_ref();
    let first = e.and_then(|e| {
        let text = |bits: u64| element_text(e.element, &bits.to_le_bytes()).unwrap_or_default();
        e.first.map(|f| Element {
            index: f.index,
            a: text(f.a),
            b: text(f.b),
        })
    });
    Buffer {
        name: &d.name,
        differs: d.differs(),
        a_va: d.a.map(|a| format_hex(a.0.0)),
        b_va: d.b.map(|b| format_hex(b.0.0)),
        a_bytes: d.a.map(|a| a.1),
        b_bytes: d.b.map(|b| b.1),
        element: e.map(|e| e.element.name()),
        compared: e.map_or(0, |e| e.compared),
        equal: e.map_or(0, |e| e.equal),
        within: e.map_or(0, |e| e.within),
        differ: e.map_or(0, |e| e.differ),
        unknown_bytes: d.unknown,
        bytes_differ: d.bytes_differ,
        first,
        errors: e.and_then(|e| e.errors.as_ref()),
        tolerance: d.tolerance,
    }
}

/// Returns where the recordings diverge: the first event that differs or, if none does, the first difference at the
/// end.
fn find_first(diff: &Diff, events: &[Event], host_writes: &[HostWrite]) -> Option<First> {
    let of_event = events.first().map(|e| First {
        a_event: e.a_event,
        b_event: e.b_event,
        what: match diff.calls.find(e.a_event, e.b_event) {
            Some(call) => describe_call(&calls::call(call)),
            None => describe_event(e),
        },
    });
    let by = address_kind(diff.host_writes.physical);
    let of_write = host_writes.first().map(|h| First {
        a_event: h.a,
        b_event: h.b,
        what: format!("the CPU wrote otherwise: {}", describe_host_write(h, by)),
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

fn address_kind(physical: bool) -> &'static str {
    if physical { "physical address" } else { "GPU address" }
}

fn host_write(d: &HostWriteDifference) -> HostWrite {
    let digits = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect();
    HostWrite {
        job: d.job,
        a: d.a,
        b: d.b,
        address_space: d.address_space,
        va: format_hex(d.va.0),
        bytes: d.bytes,
        bytes_a: digits(&d.bytes_a),
        bytes_b: digits(&d.bytes_b),
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
        a_va: d.a.map(|va| format_hex(va.0)),
        b_va: d.b.map(|va| format_hex(va.0)),
        bytes: d.bytes,
        fields: d
            .fields
            .iter()
            .map(|(field, a, b)| DescriptorField {
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
        va: format_hex(d.va.0),
        pages: d.pages,
        rights_a: d.a.map(|m| m.rights.to_string()),
        rights_b: d.b.map(|m| m.rights.to_string()),
        attribute_a: d.a.map(|m| m.attr_index),
        attribute_b: d.b.map(|m| m.attr_index),
        entry_a: d.a.map(|m| format_hex(m.bits)),
        entry_b: d.b.map(|m| format_hex(m.bits)),
        moved_to: d.moved_to.map(|va| format_hex(va.0)),
    }
}
