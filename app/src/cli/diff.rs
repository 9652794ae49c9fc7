//! `diff`: where two recordings differ.

use super::out::counted;
use super::source::{Opened, Source};
use super::{Exit, Failure, Out, Verb, hex};
use clap::{Args, FromArgMatches as _};
use serde::Serialize;
use std::borrow::Cow;
use std::path::PathBuf;
use trace_core::diff::{self, Diff, EventDifference, HostWriteDifference, JobPair, MappingDifference, OtherDiff};

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
    jobs: Sides,
    events: Counts<Event>,
    registers: Vec<Register<'a>>,
    undecoded: Others<'a>,
    dma_maps: Others<'a>,
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

#[derive(Serialize)]
struct Counts<T> {
    same: u64,
    changed: u64,
    only_a: u64,
    only_b: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    relocated: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uncompared: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    folded: Option<Sides>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_short: Option<Vec<JobPair>>,
    list: Vec<T>,
}

#[derive(Serialize)]
struct Event {
    job: JobPair,
    a: Option<u64>,
    b: Option<u64>,
    kind: &'static str,
    offset: String,
    register: Option<String>,
    value_a: Option<String>,
    value_b: Option<String>,
}

#[derive(Serialize)]
struct Register<'a> {
    name: &'a str,
    offset: String,
    count: u64,
    first: Sides,
    fields: Vec<Field<'a>>,
}

#[derive(Serialize)]
struct Field<'a> {
    name: &'a str,
    a: &'a str,
    b: &'a str,
}

/// Events beside accesses.
#[derive(Serialize)]
struct Others<'a> {
    same: u64,
    only_a: u64,
    only_b: u64,
    uncompared: Sides,
    cut_short: bool,
    list: Vec<Other<'a>>,
}

#[derive(Serialize)]
struct Other<'a> {
    a: Option<u64>,
    b: Option<u64>,
    what: &'a str,
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
        None => a.map.and_then(|m| m.at(d.offset)).map(|r| r.name.clone()),
    };
    let event = |d: &EventDifference| Event {
        job: d.job,
        a: d.a,
        b: d.b,
        kind: if d.write { "write" } else { "read" },
        offset: hex(u64::from(d.offset)),
        register: register(d),
        value_a: d.value_a.map(hex),
        value_b: d.value_b.map(hex),
    };
    let (e, m, p, h) = (&diff.events, &diff.mappings, &diff.pages, &diff.host_writes);
    Report {
        same: diff.is_empty(),
        jobs: Sides {
            a: diff.jobs.0,
            b: diff.jobs.1,
        },
        events: Counts {
            same: e.same,
            changed: e.changed,
            only_a: e.only_a,
            only_b: e.only_b,
            relocated: Some(e.relocated),
            uncompared: Some(e.uncompared),
            folded: Some(Sides {
                a: e.folded.0,
                b: e.folded.1,
            }),
            cut_short: Some(e.cut_short.clone()),
            list: e.list.iter().map(event).collect(),
        },
        registers: diff
            .registers
            .iter()
            .map(|r| Register {
                name: &r.name,
                offset: hex(u64::from(r.offset)),
                count: r.count,
                first: Sides {
                    a: r.first.0,
                    b: r.first.1,
                },
                fields: r.fields.iter().map(|(name, a, b)| Field { name, a, b }).collect(),
            })
            .collect(),
        undecoded: others(&diff.undecoded),
        dma_maps: others(&diff.dma_maps),
        host_writes: HostWrites {
            same: h.same,
            already: h.already,
            changed: h.changed,
            only_a: h.only_a,
            only_b: h.only_b,
            uncompared: h.uncompared,
            by: addresses(h.physical),
            list: h.list.iter().map(host_write).collect(),
        },
        mappings: Counts {
            same: m.same,
            changed: m.changed,
            only_a: m.only_a,
            only_b: m.only_b,
            relocated: None,
            uncompared: None,
            folded: None,
            cut_short: None,
            list: m.list.iter().map(mapping).collect(),
        },
        pages: Counts {
            same: p.same,
            changed: p.changed,
            only_a: p.only_a,
            only_b: p.only_b,
            relocated: None,
            uncompared: None,
            folded: None,
            cut_short: None,
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

fn others(o: &OtherDiff) -> Others<'_> {
    Others {
        same: o.same,
        only_a: o.only_a,
        only_b: o.only_b,
        uncompared: Sides {
            a: o.uncompared.0,
            b: o.uncompared.1,
        },
        cut_short: o.cut_short,
        list: o
            .list
            .iter()
            .map(|d| Other {
                a: d.a,
                b: d.b,
                what: &d.what,
            })
            .collect(),
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
    let counts = |same, changed, only_a, only_b| {
        format!("{same} the same, {changed} changed, {only_a} only in the first, {only_b} only in the second")
    };
    let (e, m, p, h) = (&r.events, &r.mappings, &r.pages, &r.host_writes);
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let kinds = [
        ("Accesses without a value", &r.undecoded),
        ("Memory for the device", &r.dma_maps),
    ];
    let mut rows = vec![
        row("Jobs", format!("{} and {}", r.jobs.a, r.jobs.b)),
        row("Accesses", counts(e.same, e.changed, e.only_a, e.only_b)),
    ];
    let compared = kinds.iter().filter(|(_, o)| o.same + o.only_a + o.only_b > 0);
    rows.extend(compared.map(|(name, o)| row(name, counts(o.same, 0, o.only_a, o.only_b))));
    rows.extend([
        row(
            "CPU's bytes",
            format!("{}, by {}", counts(h.same, h.changed, h.only_a, h.only_b), h.by),
        ),
        row("Mapped pages", counts(m.same, m.changed, m.only_a, m.only_b)),
        row(
            "Pages",
            format!("{}, by {}", counts(p.same, p.changed, p.only_a, p.only_b), r.pages_by),
        ),
    ]);
    out.table(&rows)?;
    for (name, o) in &kinds {
        let (n, has, lacks) = match (o.uncompared.a, o.uncompared.b) {
            (0, 0) => continue,
            (n, 0) => (n, "first", "second"),
            (_, n) => (n, "second", "first"),
        };
        out.line(format_args!(
            "{name}: {} of the {has} not compared, since the {lacks} has none at all (its recorder may not see them, \
             and a replay does none)",
            counted(n, "event")
        ))?;
    }
    for (name, _) in kinds.iter().filter(|(_, o)| o.cut_short) {
        out.line(format_args!(
            "{name}: too different for the shortest alignment; fewer may differ than are told"
        ))?;
    }
    if let Some(n) = e.relocated.filter(|n| *n > 0) {
        out.line(format_args!(
            "{n} writes of page-table roots differ only by where the tables lie and count as neither"
        ))?;
    }
    if let Some(n) = e.uncompared.filter(|n| *n > 0) {
        out.line(format_args!(
            "{n} accesses carry what every run has for itself (flush ids, free-running counters) and count as neither"
        ))?;
    }
    if let Some(n) = e.folded.as_ref().filter(|n| n.a + n.b > 0) {
        out.line(format_args!(
            "{} and {} reads repeat a wait for a status; its last read stands for them",
            n.a, n.b
        ))?;
    }
    for pair in e.cut_short.iter().flatten() {
        out.line(format_args!(
            "{}: too different for the shortest alignment; fewer accesses may differ than are told",
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
        out.line("\nRegisters")?;
        for d in r.registers.iter().take(most) {
            out.line(format_args!(
                "  {}: {} times, first at events {} and {}",
                d.name, d.count, d.first.a, d.first.b
            ))?;
            for f in &d.fields {
                out.line(format_args!("    {}: {} becomes {}", f.name, f.a, f.b))?;
            }
        }
        more(out, r.registers.len())?;
    }
    if !e.list.is_empty() {
        out.line("\nAccesses")?;
        for d in e.list.iter().take(most) {
            let at = |side: Option<u64>| side.map_or_else(|| "-".into(), |n| n.to_string());
            let value = |v: &Option<String>| v.clone().unwrap_or_else(|| "-".into());
            out.line(format_args!(
                "  events {} and {}, {}: {} {} {} becomes {}",
                at(d.a),
                at(d.b),
                job_name(d.job),
                d.kind,
                d.register.as_deref().unwrap_or(&d.offset),
                value(&d.value_a),
                value(&d.value_b)
            ))?;
        }
        more(out, e.list.len())?;
    }
    for (name, o) in kinds.iter().filter(|(_, o)| !o.list.is_empty()) {
        out.line(format_args!("\n{name}"))?;
        for d in o.list.iter().take(most) {
            let (side, event) = match (d.a, d.b) {
                (Some(event), _) => ("first", event),
                (None, event) => ("second", event.unwrap_or_default()),
            };
            out.line(format_args!("  event {event}, only in the {side}: {}", d.what))?;
        }
        more(out, o.list.len())?;
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
