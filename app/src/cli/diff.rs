//! `diff`: where two recordings differ.

use super::out::counted;
use super::source::{Opened, Source};
use super::{Exit, Failure, Out, Verb, hex};
use clap::{Args, FromArgMatches as _};
use serde::Serialize;
use std::borrow::Cow;
use std::path::PathBuf;
use trace_core::diff::{
    self, Become, Diff, EventDifference, HostWriteDifference, JobPair, MappingDifference, RegisterDiff,
};
use trace_core::recording::EventKind;

pub const VERB: Verb = Verb {
    name: "diff",
    about: "Where two recordings differ: events by job, registers by field, what the CPU wrote by byte, mappings by run, pages by digest",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    /// The first recording
    a: PathBuf,
    /// The second
    b: PathBuf,
    /// List at most this many differences of each kind as text
    #[arg(long, value_name = "N", default_value_t = 20)]
    most: usize,
}

#[derive(Serialize)]
struct Report<'a> {
    same: bool,
    first_difference: Option<First>,
    jobs: Sides,
    events: Events,
    registers: Vec<Register<'a>>,
    host_writes: HostWrites,
    mappings: Counts<Mapping>,
    pages: Counts<Page>,
    pages_by: &'static str,
}

#[derive(Serialize)]
struct Sides {
    a: u64,
    b: u64,
}

/// Where the recordings part.
#[derive(Serialize)]
struct First {
    a_event: Option<u64>,
    b_event: Option<u64>,
    what: String,
}

#[derive(Serialize)]
struct Events {
    equal: u64,
    changed: u64,
    inserted: u64,
    deleted: u64,
    moved: u64,
    relocated: u64,
    uncompared: u64,
    folded: Sides,
    cut_short: Vec<JobPair>,
    one_sided: Vec<OneSided>,
    list: Vec<Event>,
}

/// A kind of events of which one side has none at all.
#[derive(Serialize)]
struct OneSided {
    kind: &'static str,
    a: u64,
    b: u64,
}

#[derive(Serialize)]
struct Counts<T> {
    same: u64,
    changed: u64,
    only_a: u64,
    only_b: u64,
    list: Vec<T>,
}

#[derive(Serialize)]
struct Event {
    job: JobPair,
    what: &'static str,
    a_event: Option<u64>,
    b_event: Option<u64>,
    events: u64,
    kind: &'static str,
    offset: String,
    register: Option<String>,
    a: Option<String>,
    b: Option<String>,
}

/// A field of a register at the place where the register's histories part.
#[derive(Serialize)]
struct Register<'a> {
    register: &'a str,
    offset: String,
    count: u64,
    a_event: Option<u64>,
    b_event: Option<u64>,
    field: &'a str,
    a: Option<&'a str>,
    b: Option<&'a str>,
}

/// What the CPU wrote; counts are of bytes.
#[derive(Serialize)]
struct HostWrites {
    same: u64,
    already: u64,
    changed: u64,
    only_a: u64,
    only_b: u64,
    uncompared: u64,
    by: &'static str,
    list: Vec<HostWrite>,
}

#[derive(Serialize)]
struct HostWrite {
    job: JobPair,
    a: Option<u64>,
    b: Option<u64>,
    address_space: u8,
    va: String,
    bytes: u64,
    bytes_a: String,
    bytes_b: String,
}

#[derive(Serialize)]
struct Mapping {
    address_space: u8,
    va: String,
    pages: u64,
    rights_a: Option<String>,
    rights_b: Option<String>,
    attribute_a: Option<u8>,
    attribute_b: Option<u8>,
    entry_a: Option<String>,
    entry_b: Option<String>,
}

#[derive(Serialize)]
struct Page {
    address_space: u8,
    va: String,
    in_a: bool,
    in_b: bool,
    first_byte: Option<String>,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let a = Source {
        file: arguments.a.clone(),
    }
    .open_sound()?;
    let b = Source {
        file: arguments.b.clone(),
    }
    .open_sound()?;
    let diff = diff::diff(&a.recording, &b.recording);
    let report = report(&diff, &a);
    if out.json() {
        out.value(&report)?;
    } else {
        text(&report, arguments.most, out)?;
    }
    Ok(Exit::found(!report.same))
}

fn report<'a>(diff: &'a Diff, a: &Opened) -> Report<'a> {
    // What the first recording accesses there; an access that only the second has is told by its offset alone.
    let register = |d: &EventDifference| match d.a.and_then(|e| usize::try_from(e).ok()) {
        Some(e) => {
            let access = a.recording.events.access(e)?;
            a.device?.name_of(&access).map(Cow::into_owned)
        }
        None if matches!(d.kind, EventKind::Read | EventKind::Write) => {
            a.map.and_then(|m| m.at(d.offset)).map(|r| r.name.clone())
        }
        None => None,
    };
    let event = |d: &EventDifference| Event {
        job: d.job,
        what: became(d.what),
        a_event: d.a,
        b_event: d.b,
        events: d.events,
        kind: kind(d.kind),
        offset: hex(u64::from(d.offset)),
        register: register(d),
        a: d.value_a.map(hex),
        b: d.value_b.map(hex),
    };
    let (e, m, p, h) = (&diff.events, &diff.mappings, &diff.pages, &diff.host_writes);
    let list: Vec<Event> = e.list.iter().map(event).collect();
    let host_list: Vec<HostWrite> = h.list.iter().map(host_write).collect();
    let fields = |r: &'a RegisterDiff| {
        r.fields.iter().map(move |(field, x, y)| Register {
            register: &r.name,
            offset: hex(u64::from(r.offset)),
            count: r.count,
            a_event: r.first.0,
            b_event: r.first.1,
            field,
            a: r.first.0.map(|_| x.as_str()),
            b: r.first.1.map(|_| y.as_str()),
        })
    };
    Report {
        same: diff.is_empty(),
        first_difference: first(diff, &list, &host_list),
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
                    kind: kind(o.kind),
                    a: o.a,
                    b: o.b,
                })
                .collect(),
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
            by: addresses(h.physical),
            list: host_list,
        },
        mappings: Counts {
            same: m.same,
            changed: m.changed,
            only_a: m.only_a,
            only_b: m.only_b,
            list: m.list.iter().map(mapping).collect(),
        },
        pages: Counts {
            same: p.same,
            changed: p.changed,
            only_a: p.only_a,
            only_b: p.only_b,
            list: p
                .list
                .iter()
                .map(|d| Page {
                    address_space: d.address_space,
                    va: hex(d.va.0),
                    in_a: d.in_a,
                    in_b: d.in_b,
                    first_byte: d.first_byte.map(|b| hex(u64::from(b))),
                })
                .collect(),
        },
        pages_by: addresses(p.physical),
    }
}

/// Where the recordings part: the first event that differs, or, where none does, what is different in the end.
fn first(diff: &Diff, events: &[Event], host_writes: &[HostWrite]) -> Option<First> {
    let of_event = events.first().map(|e| First {
        a_event: e.a_event,
        b_event: e.b_event,
        what: told(e),
    });
    let by = addresses(diff.host_writes.physical);
    let of_write = host_writes.first().map(|h| First {
        a_event: h.a,
        b_event: h.b,
        what: format!("the CPU wrote otherwise: {}", written(h, by)),
    });
    let place = |f: &First| f.a_event.into_iter().chain(f.b_event).min();
    let in_the_end = || {
        let (m, p) = (&diff.mappings, &diff.pages);
        let what = if m.changed + m.only_a + m.only_b > 0 {
            "mapped pages in the end"
        } else if p.changed + p.only_a + p.only_b > 0 {
            "memory in the end"
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
        .min_by_key(place)
        .or_else(in_the_end)
}

fn became(what: Become) -> &'static str {
    match what {
        Become::Equal => "equal",
        Become::Changed => "changed",
        Become::Deleted => "deleted",
        Become::Inserted => "inserted",
        Become::MovedFrom | Become::MovedTo => "moved",
    }
}

fn kind(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Read => "read",
        EventKind::Write => "write",
        EventKind::Interrupt => "interrupt",
        EventKind::Submit => "submit",
        EventKind::Undecoded => "undecoded",
        EventKind::DmaMap => "dma-map",
        EventKind::Mark => "mark",
        EventKind::HostWrite => "host-write",
    }
}

/// What became of an event, in words.
fn told(e: &Event) -> String {
    let value = |v: &Option<String>| v.clone().unwrap_or_else(|| "-".into());
    let name = match e.kind {
        "interrupt" => format!("interrupt line {}", e.offset),
        "dma-map" => "memory given to the device".to_owned(),
        kind => format!("{kind} {}", e.register.as_deref().unwrap_or(&e.offset)),
    };
    let more = |side: &str, v: &Option<String>| match e.events {
        1 => format!("{name} {} only in the {side}", value(v)),
        n => format!("{name} {} and {} only in the {side}", value(v), counted(n - 1, "event")),
    };
    match (e.what, &e.a, &e.b) {
        ("deleted", a, _) => more("first", a),
        ("inserted", _, b) => more("second", b),
        ("moved", a, _) => format!("{} from {name} {} on, moved", counted(e.events, "event"), value(a)),
        (_, a, b) => format!("{name} {} becomes {}", value(a), value(b)),
    }
}

fn addresses(physical: bool) -> &'static str {
    if physical { "physical address" } else { "GPU address" }
}

fn host_write(d: &HostWriteDifference) -> HostWrite {
    let digits = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect();
    HostWrite {
        job: d.job,
        a: d.a,
        b: d.b,
        address_space: d.address_space,
        va: hex(d.va.0),
        bytes: d.bytes,
        bytes_a: digits(&d.bytes_a),
        bytes_b: digits(&d.bytes_b),
    }
}

fn mapping(d: &MappingDifference) -> Mapping {
    Mapping {
        address_space: d.address_space,
        va: hex(d.va.0),
        pages: d.pages,
        rights_a: d.a.map(|m| m.rights.to_string()),
        rights_b: d.b.map(|m| m.rights.to_string()),
        attribute_a: d.a.map(|m| m.attr_index),
        attribute_b: d.b.map(|m| m.attr_index),
        entry_a: d.a.map(|m| hex(m.bits)),
        entry_b: d.b.map(|m| hex(m.bits)),
    }
}

/// What became of a run of mapped pages, in words.
fn mapped(d: &Mapping) -> String {
    let pages = counted(d.pages, "page");
    match (&d.rights_a, &d.rights_b) {
        (Some(a), Some(b)) if a != b => format!("{pages}, {a} becomes {b}"),
        (Some(a), None) => format!("{pages}, {a}, mapped only in the first"),
        (None, b) => format!("{pages}, {}, mapped only in the second", b.as_deref().unwrap_or("-")),
        (Some(a), _) => {
            let what = match (d.attribute_a, d.attribute_b) {
                (Some(x), Some(y)) if x != y => format!("attribute {x} becomes {y}"),
                _ => {
                    let bits = |b: &Option<String>| b.clone().unwrap_or_else(|| "-".into());
                    format!("entry bits {} become {}", bits(&d.entry_a), bits(&d.entry_b))
                }
            };
            format!("{pages}, {a}, {what}")
        }
    }
}

/// What became of a range that the CPU wrote, in words.
fn written(d: &HostWrite, by: &str) -> String {
    let at = if by == "physical address" {
        d.va.clone()
    } else {
        format!("address space {}, {}", d.address_space, d.va)
    };
    let cut = |bytes: &str| {
        if (bytes.len() as u64) < 2 * d.bytes {
            format!("{bytes}…")
        } else {
            bytes.to_owned()
        }
    };
    let what = match (d.a, d.b) {
        (Some(a), Some(b)) => format!("{} becomes {} (events {a} and {b})", cut(&d.bytes_a), cut(&d.bytes_b)),
        (Some(a), None) => format!("{}, only in the first (event {a})", cut(&d.bytes_a)),
        (None, b) => format!(
            "{}, only in the second (event {})",
            cut(&d.bytes_b),
            b.map_or_else(|| "-".into(), |b| b.to_string())
        ),
    };
    format!("{}, {at}, {}: {what}", job_name(d.job), counted(d.bytes, "byte"))
}

/// In the course of which job, numbered as `jobs` does.
fn job_name(pair: JobPair) -> String {
    let index = |submits: u32| submits.saturating_sub(1);
    match (pair.a, pair.b) {
        (Some(0), _) | (_, Some(0)) | (None, None) => "before any job".to_owned(),
        (Some(a), Some(b)) if a == b => format!("job {}", index(a)),
        (Some(a), Some(b)) => format!("jobs {} and {}", index(a), index(b)),
        (Some(a), None) => format!("job {} of the first", index(a)),
        (None, Some(b)) => format!("job {} of the second", index(b)),
    }
}

fn text(r: &Report<'_>, most: usize, out: &mut Out) -> Result<(), Failure> {
    if let Some(f) = &r.first_difference {
        let at = |side: Option<u64>| side.map_or_else(|| "-".into(), |n| n.to_string());
        match (f.a_event, f.b_event) {
            (None, None) => out.line(format_args!("They part: {}\n", f.what))?,
            (a, b) => out.line(format_args!(
                "They part at events {} and {}: {}\n",
                at(a),
                at(b),
                f.what
            ))?,
        }
    } else {
        out.line("No difference\n")?;
    }
    let counts = |same, changed, only_a, only_b| {
        format!("{same} the same, {changed} changed, {only_a} only in the first, {only_b} only in the second")
    };
    let (e, m, p, h) = (&r.events, &r.mappings, &r.pages, &r.host_writes);
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let moved = match e.moved {
        0 => String::new(),
        n => format!(", {n} moved"),
    };
    out.table(&[
        row("Jobs", format!("{} and {}", r.jobs.a, r.jobs.b)),
        row("Events", counts(e.equal, e.changed, e.deleted, e.inserted) + &moved),
        row(
            "CPU's bytes",
            format!("{}, by {}", counts(h.same, h.changed, h.only_a, h.only_b), h.by),
        ),
        row("Mapped pages", counts(m.same, m.changed, m.only_a, m.only_b)),
        row(
            "Pages",
            format!("{}, by {}", counts(p.same, p.changed, p.only_a, p.only_b), r.pages_by),
        ),
    ])?;
    if e.relocated > 0 {
        out.line(format_args!(
            "{} writes of page-table roots and addresses differ only by where things lie and count as neither",
            e.relocated
        ))?;
    }
    if e.uncompared > 0 {
        out.line(format_args!(
            "{} accesses carry what every run has for itself (flush ids, free-running counters) and count as neither",
            e.uncompared
        ))?;
    }
    if e.folded.a + e.folded.b > 0 {
        out.line(format_args!(
            "{} and {} reads repeat a wait for a status; its last read stands for them",
            e.folded.a, e.folded.b
        ))?;
    }
    for o in &e.one_sided {
        let (n, has, lacks) = if o.b == 0 {
            (o.a, "first", "second")
        } else {
            (o.b, "second", "first")
        };
        out.line(format_args!(
            "{} of kind {} of the {has} not compared: the {lacks} has none at all (its recorder may not see them, and a \
             replay makes none)",
            counted(n, "event"),
            o.kind
        ))?;
    }
    for pair in &e.cut_short {
        out.line(format_args!(
            "{}: too different for the shortest alignment; fewer events may differ than are told",
            job_name(*pair)
        ))?;
    }
    if h.already > 0 {
        out.line(format_args!(
            "{} that the CPU wrote on one side the other had already, and count as neither",
            counted(h.already, "byte")
        ))?;
    }
    let more = |out: &mut Out, listed: usize| match listed.checked_sub(most) {
        Some(rest) if rest > 0 => out.line(format_args!(
            "  and {rest} more (--most shows more, --json all that are kept)"
        )),
        _ => Ok(()),
    };
    if !r.registers.is_empty() {
        out.line("\nRegisters, where their histories part")?;
        let at = |side: Option<u64>| side.map_or_else(|| "-".into(), |n| n.to_string());
        let registers: Vec<_> = r.registers.chunk_by(|x, y| x.offset == y.offset).collect();
        for fields in registers.iter().take(most) {
            let Some(d) = fields.first() else { continue };
            out.line(format_args!(
                "  {}: at events {} and {}, {} in all",
                d.register,
                at(d.a_event),
                at(d.b_event),
                counted(d.count, "difference")
            ))?;
            for f in *fields {
                let text = |v: Option<&str>| v.unwrap_or("-").to_owned();
                out.line(format_args!("    {}: {} becomes {}", f.field, text(f.a), text(f.b)))?;
            }
        }
        more(out, registers.len())?;
    }
    if !e.list.is_empty() {
        out.line("\nEvents")?;
        for d in e.list.iter().take(most) {
            let at = |side: Option<u64>| side.map_or_else(|| "-".into(), |n| n.to_string());
            out.line(format_args!(
                "  events {} and {}, {}: {}",
                at(d.a_event),
                at(d.b_event),
                job_name(d.job),
                told(d)
            ))?;
        }
        more(out, e.list.len())?;
    }
    if !h.list.is_empty() {
        out.line("\nWritten by the CPU")?;
        for d in h.list.iter().take(most) {
            out.line(format_args!("  {}", written(d, h.by)))?;
        }
        more(out, h.list.len())?;
    }
    if !m.list.is_empty() {
        out.line("\nMapped pages")?;
        for d in m.list.iter().take(most) {
            out.line(format_args!(
                "  address space {}, {}: {}",
                d.address_space,
                d.va,
                mapped(d)
            ))?;
        }
        more(out, m.list.len())?;
    }
    if !p.list.is_empty() {
        out.line("\nPages")?;
        for d in p.list.iter().take(most) {
            let what = match (d.in_a, d.in_b, &d.first_byte) {
                (true, false, _) => "only in the first".to_owned(),
                (false, _, _) => "only in the second".to_owned(),
                (_, _, Some(byte)) => format!("differs from byte {byte} on"),
                _ => "differs".to_owned(),
            };
            if r.pages_by == "physical address" {
                out.line(format_args!("  {}: {what}", d.va))?;
            } else {
                out.line(format_args!("  address space {}, {}: {what}", d.address_space, d.va))?;
            }
        }
        more(out, p.list.len())?;
    }
    Ok(())
}
