//! Text output of a comparison: a summary to read in ten seconds, then the differences.

use super::calls::{CallComparison, describe_call, describe_code};
use super::describe::{
    describe_buffer, describe_descriptor, describe_event, describe_host_write, describe_mapping, job_name,
};
use super::report::{Memory, Report};
use crate::cli::out::format_count;
use crate::cli::{Failure, Out};
use std::collections::HashSet;
use trace_core::diff::{address_kind, kind_name};

/// Prints a comparison, at most `max` differences of each kind.
pub fn text(r: &Report<'_>, max: usize, out: &mut Out) -> Result<(), Failure> {
    out.line(r.summary)?;
    if !r.not_compared.is_empty() {
        out.line(r.not_compared)?;
    }
    if let Some(f) = &r.first_difference {
        let at = |side: Option<u64>| side.map_or_else(|| "-".into(), |n| n.to_string());
        match (f.a_event, f.b_event) {
            (None, None) => out.line(format_args!("First difference: {}", f.what))?,
            (a, b) => out.line(format_args!(
                "First difference at events {} and {}: {}",
                at(a),
                at(b),
                f.what
            ))?,
        }
    }
    out.line("")?;
    let counts = |same, changed, only_a, only_b| {
        format!("{same} the same, {changed} changed, {only_a} only in the first, {only_b} only in the second")
    };
    let (e, m, p, h) = (&r.events, &r.mappings, &r.memory, &r.host_writes);
    let d = &r.descriptors;
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let some = |n: u64, what: &str| match n {
        0 => String::new(),
        n => format!(", {n} {what}"),
    };
    let of_events = row(
        "Events",
        counts(e.equal, e.changed, e.deleted, e.inserted) + &some(e.moved, "moved"),
    );
    let all = [
        row("Jobs", format!("{} and {}", r.jobs.a, r.jobs.b)),
        of_events,
        row(
            "CPU writes",
            format!(
                "{}, by {}",
                counts(h.same, h.changed, h.only_a, h.only_b),
                address_kind(h.physical)
            ),
        ),
        row(
            "Descriptors",
            counts(d.same, d.changed, d.only_a, d.only_b) + &some(d.relocated, "differ only by addresses"),
        ),
        row(
            "Mapped pages",
            counts(m.same, m.changed, m.only_a, m.only_b) + &some(m.moved, "moved"),
        ),
        row(
            "Pages",
            format!(
                "{}{}, by {}",
                counts(p.pages_same, p.pages_differ, p.pages_only_a, p.pages_only_b),
                some(p.pages_ignored, "ignored"),
                p.by
            ),
        ),
        row("Bytes", format!("{} differ in these pages", p.bytes_differ)),
        row("Buffers", describe_buffers(p)),
    ];
    match &r.calls {
        // Leaves out what API traces do not have.
        Some(c) => {
            let [_, of_events, ..] = all;
            out.table(&[of_events, row("Calls", describe_calls(c))])?;
        }
        None => out.table(&all)?,
    }
    for rule in &r.rules {
        out.line(format_args!("By rule: {rule}"))?;
    }
    if e.relocated > 0 {
        out.line(format_args!(
            "{} writes of page-table roots and addresses differ only by the location of memory and are not counted",
            e.relocated
        ))?;
    }
    if e.uncompared > 0 {
        out.line(format_args!(
            "{} accesses hold values that differ in every run (flush ids, free-running counters, state from before the \
             recording) and are not counted",
            e.uncompared
        ))?;
    }
    if h.unmapped > 0 {
        out.line(format_args!(
            "{} written by the CPU are not compared: nothing maps their pages when the next job is submitted",
            format_count(h.unmapped, "byte")
        ))?;
    }
    if e.folded.a + e.folded.b > 0 {
        out.line(format_args!(
            "{} and {} reads repeat a poll; only its last read is compared",
            e.folded.a, e.folded.b
        ))?;
    }
    for o in e.one_sided {
        let (n, has, lacks) = if o.b == 0 {
            (o.a, "first", "second")
        } else {
            (o.b, "second", "first")
        };
        out.line(format_args!(
            "{} of kind {} of the {has} not compared: the {lacks} has none (its recorder may not see them, and a replay \
             makes none)",
            format_count(n, "event"),
            kind_name(o.kind)
        ))?;
    }
    if e.foreign.a + e.foreign.b > 0 {
        out.line(format_args!(
            "{} and {} accesses to memory of the machine and configuration space are not compared: the other side has no \
             such space (a replay omits them)",
            e.foreign.a, e.foreign.b
        ))?;
    }
    if e.not_played.a + e.not_played.b > 0 {
        out.line(format_args!(
            "{} and {} calls that no replay makes are not compared (failed calls, calls without effect, snapshots)",
            e.not_played.a, e.not_played.b
        ))?;
    }
    for pair in e.cut_short {
        out.line(format_args!(
            "{}: too different for the shortest alignment; fewer events may differ than are reported",
            job_name(*pair)
        ))?;
    }
    if d.status > 0 {
        out.line(format_args!(
            "Rule: status fields that the device writes ({}) are not compared; they differ in {}",
            d.status_fields.join(", "),
            format_count(d.status, "descriptor")
        ))?;
    }
    for (not, side) in [(p.not_held.a, "first"), (p.not_held.b, "second")] {
        if not {
            out.line(format_args!(
                "Memory at the end is not compared: the last snapshot of the {side} is older than what the CPU wrote"
            ))?;
        }
    }
    if h.already > 0 {
        out.line(format_args!(
            "not counted: {} that the CPU wrote on one side and the other side already had",
            format_count(h.already, "byte")
        ))?;
    }
    let more = |out: &mut Out, listed: usize| match listed.checked_sub(max) {
        Some(rest) if rest > 0 => out.line(format_args!(
            "  and {rest} more (--max-differences N shows more, --json all that are stored)"
        )),
        _ => Ok(()),
    };
    if !r.causes.is_empty() {
        out.line("\nCauses that the recordings show")?;
        for c in r.causes.iter().take(max) {
            out.line(format_args!(
                "  {}",
                describe_with_events(&c.what, (c.a_event, c.b_event))
            ))?;
            for s in &c.steps {
                let buffer = s.buffer.as_ref().map(|b| format!(" ({b})")).unwrap_or_default();
                let what = describe_with_events(&s.what, (s.a_event, s.b_event));
                out.line(format_args!("    {} {what}{buffer}", s.link.describe()))?;
            }
            if c.steps.is_empty() {
                out.line("    no earlier difference is known to contribute to it")?;
            }
        }
    }
    if !r.registers.is_empty() {
        out.line("\nRegisters, at their first difference")?;
        let at = |side: Option<u64>| side.map_or_else(|| "-".into(), |n| n.to_string());
        let registers: Vec<_> = r.registers.chunk_by(|x, y| x.offset == y.offset).collect();
        for fields in registers.iter().take(max) {
            let Some(d) = fields.first() else { continue };
            out.line(format_args!(
                "  {}: at events {} and {}, {} in all",
                d.register,
                at(d.a_event),
                at(d.b_event),
                format_count(d.count, "difference")
            ))?;
            for f in *fields {
                let text = |v: Option<&str>| v.unwrap_or("-").to_owned();
                out.line(format_args!("    {}: {} becomes {}", f.field, text(f.a), text(f.b)))?;
            }
        }
        more(out, registers.len())?;
    }
    if let Some(c) = &r.calls {
        if !c.list.is_empty() {
            out.line("\nCalls")?;
            for d in c.list.iter().take(max) {
                let same = if d.differs { "" } else { "within the tolerance: " };
                out.line(format_args!(
                    "  events {} and {}: {same}{}",
                    d.a_event,
                    d.b_event,
                    describe_call(d)
                ))?;
            }
            more(out, c.list.len())?;
        }
        if !c.code.is_empty() {
            out.line("\nCode of launched functions")?;
            for d in c.code.iter().take(max) {
                out.line(format_args!("  {}", describe_code(d)))?;
            }
            more(out, c.code.len())?;
        }
    }
    // A call that is listed as different is not listed twice.
    let of_calls: HashSet<_> = r
        .calls
        .iter()
        .flat_map(|c| &c.list)
        .map(|d| (Some(d.a_event), Some(d.b_event)))
        .collect();
    let events: Vec<_> = e
        .list
        .iter()
        .filter(|d| !of_calls.contains(&(d.a_event, d.b_event)))
        .collect();
    if !events.is_empty() {
        out.line("\nEvents")?;
        for d in events.iter().take(max) {
            let at = |side: Option<u64>| side.map_or_else(|| "-".into(), |n| n.to_string());
            let job = match r.calls {
                Some(_) => String::new(),
                None => format!(", {}", job_name(d.job)),
            };
            out.line(format_args!(
                "  events {} and {}{job}: {}",
                at(d.a_event),
                at(d.b_event),
                describe_event(d)
            ))?;
        }
        more(out, events.len())?;
    }
    if !h.list.is_empty() {
        out.line("\nCPU writes")?;
        for d in h.list.iter().take(max) {
            out.line(format_args!("  {}", describe_host_write(d, h.physical)))?;
        }
        more(out, h.list.len())?;
    }
    let report = &r.descriptors;
    if !report.list.is_empty() {
        out.line("\nDescriptors of jobs, by field")?;
        for d in report.list.iter().take(max) {
            out.line(format_args!("  {}", describe_descriptor(d)))?;
            for f in &d.fields {
                let text = |v: Option<&str>| v.unwrap_or("-").to_owned();
                out.line(format_args!("    {}: {} becomes {}", f.field, text(f.a), text(f.b)))?;
            }
        }
        more(out, report.list.len())?;
    }
    if !m.list.is_empty() {
        out.line("\nMapped pages")?;
        for d in m.list.iter().take(max) {
            out.line(format_args!(
                "  address space {}, {}: {}",
                d.address_space,
                d.va,
                describe_mapping(d)
            ))?;
        }
        more(out, m.list.len())?;
    }
    let differ: Vec<_> = p.buffers.iter().filter(|b| b.differs || b.within > 0).collect();
    if !differ.is_empty() {
        out.line("\nBuffers")?;
        for b in differ.iter().take(max) {
            out.line(format_args!("  {}", describe_buffer(b)))?;
        }
        more(out, differ.len())?;
    }
    if !p.pages.is_empty() {
        out.line("\nPages")?;
        for d in p.pages.iter().take(max) {
            let what = match (d.in_a, d.in_b, d.first_byte) {
                (true, false, _) => "only in the first".to_owned(),
                (false, _, _) => "only in the second".to_owned(),
                (_, _, Some(byte)) => format!("differs from byte {byte:#x} on"),
                _ => "differs".to_owned(),
            };
            if p.by == "physical address" {
                out.line(format_args!("  {}: {what}", d.va))?;
            } else {
                out.line(format_args!("  address space {}, {}: {what}", d.address_space, d.va))?;
            }
        }
        more(out, p.pages.len())?;
    }
    Ok(())
}

/// Formats the alignment of calls in one line.
fn describe_calls(c: &CallComparison<'_>) -> String {
    let parts = [
        (c.copies, "copies"),
        (c.snapshots, "pieces of snapshots"),
        (c.fills, "fills"),
        (c.launches, "launches"),
    ];
    let differ: Vec<String> = parts
        .iter()
        .filter(|p| p.0 > 0)
        .map(|(n, what)| format!("{n} {what} differ"))
        .collect();
    let mut text = format!("{} compared, ", c.compared);
    text += &match differ.is_empty() {
        true => "none differs".to_owned(),
        false => differ.join(", "),
    };
    if c.within > 0 {
        text += &format!(", {} within the tolerance", c.within);
    }
    if c.unknown > 0 {
        text += &format!(", the content of {} is not in both", c.unknown);
    }
    let code = c.code.iter().filter(|c| c.differs).count() as u64;
    if code > 0 {
        text += &format!(", different code in {}", format_count(code, "function"));
    }
    text
}

/// Formats the named buffers in one line.
fn describe_buffers(memory: &Memory<'_>) -> String {
    let differ = memory.buffers.iter().filter(|b| b.differs).count();
    match memory.buffers.len() {
        0 => "no named buffers".to_owned(),
        n => format!("{} the same, {differ} differ", n - differ),
    }
}

/// Describes an action, and its events in both recordings.
fn describe_with_events(what: &str, events: (Option<u64>, Option<u64>)) -> String {
    let at = |side: Option<u64>| side.map_or_else(|| "-".into(), |n| n.to_string());
    match events {
        (None, None) => what.to_owned(),
        (a, b) => format!("{what} (events {} and {})", at(a), at(b)),
    }
}
