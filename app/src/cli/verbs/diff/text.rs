//! Text output of a comparison: a summary to read in ten seconds, then the differences.

use super::calls::{CallComparison, describe_call, describe_code};
use super::describe::{
    describe_buffer, describe_descriptor, describe_event, describe_host_write, describe_mapping, job_name,
};
use super::report::{Events, Memory, Report};
use crate::cli::out::format_count;
use crate::cli::{Failure, Out};
use std::collections::HashSet;
use trace_core::diff::{PageDifference, address_kind, kind_name};

/// Prints a comparison, at most `max` differences of each kind.
pub fn text(r: &Report<'_>, max: usize, out: &mut Out) -> Result<(), Failure> {
    print_summary(r, out)?;
    print_counts(r, out)?;
    print_event_notes(&r.events, r.host_writes.unmapped, out)?;
    print_other_notes(r, out)?;
    print_causes(r, max, out)?;
    print_registers(r, max, out)?;
    if let Some(calls) = &r.calls {
        print_calls(calls, max, out)?;
    }
    print_events(r, max, out)?;
    let (h, m) = (r.host_writes, &r.mappings);
    print_list("CPU writes", &h.list, max, out, |d| describe_host_write(d, h.physical))?;
    print_descriptors(r, max, out)?;
    print_list("Mapped pages", &m.list, max, out, |d| {
        format!("address space {}, {}: {}", d.address_space, d.va, describe_mapping(d))
    })?;
    let differ: Vec<_> = r.memory.buffers.iter().filter(|b| b.differs || b.within > 0).collect();
    print_list("Buffers", &differ, max, out, |b| describe_buffer(b))?;
    let by_space = r.memory.by != "physical address";
    print_list("Pages", r.memory.pages, max, out, |d| describe_page(d, by_space))
}

/// Prints a heading and one line for each of the first `max` elements; nothing for an empty list.
fn print_list<T>(
    heading: &str,
    list: &[T],
    max: usize,
    out: &mut Out,
    line: impl Fn(&T) -> String,
) -> Result<(), Failure> {
    if list.is_empty() {
        return Ok(());
    }
    out.line(format_args!("\n{heading}"))?;
    for d in list.iter().take(max) {
        out.line(format_args!("  {}", line(d)))?;
    }
    print_remainder(list.len(), max, out)
}

/// Prints how many of `listed` elements are beyond `max`, if any.
fn print_remainder(listed: usize, max: usize, out: &mut Out) -> Result<(), Failure> {
    match listed.saturating_sub(max) {
        0 => Ok(()),
        rest => Ok(out.line(format_args!(
            "  and {rest} more (--max-differences N shows more, --json all that are stored)"
        ))?),
    }
}

/// Formats the number of an event, or `-` for a side without one.
fn format_event(side: Option<u64>) -> String {
    side.map_or_else(|| "-".into(), |n| n.to_string())
}

fn print_summary(r: &Report<'_>, out: &mut Out) -> Result<(), Failure> {
    out.line(r.summary)?;
    if !r.not_compared.is_empty() {
        out.line(r.not_compared)?;
    }
    if let Some(f) = &r.first_difference {
        match (f.a_event, f.b_event) {
            (None, None) => out.line(format_args!("First difference: {}", f.what))?,
            (a, b) => out.line(format_args!(
                "First difference at events {} and {}: {}",
                format_event(a),
                format_event(b),
                f.what
            ))?,
        }
    }
    Ok(out.line("")?)
}

/// Prints the table of what is the same and what differs, and the rules.
fn print_counts(r: &Report<'_>, out: &mut Out) -> Result<(), Failure> {
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
    Ok(())
}

/// Prints which events and CPU writes are not compared or not counted, and why.
fn print_event_notes(e: &Events<'_>, unmapped_bytes: u64, out: &mut Out) -> Result<(), Failure> {
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
    if unmapped_bytes > 0 {
        out.line(format_args!(
            "{} written by the CPU are not compared: nothing maps their pages when the next job is submitted",
            format_count(unmapped_bytes, "byte")
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
    Ok(())
}

/// Prints what is not compared or not counted besides events, and why.
fn print_other_notes(r: &Report<'_>, out: &mut Out) -> Result<(), Failure> {
    let (p, h, d) = (&r.memory, &r.host_writes, &r.descriptors);
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
    Ok(())
}

fn print_causes(r: &Report<'_>, max: usize, out: &mut Out) -> Result<(), Failure> {
    if r.causes.is_empty() {
        return Ok(());
    }
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
    Ok(())
}

fn print_registers(r: &Report<'_>, max: usize, out: &mut Out) -> Result<(), Failure> {
    if r.registers.is_empty() {
        return Ok(());
    }
    out.line("\nRegisters, at their first difference")?;
    let registers: Vec<_> = r.registers.chunk_by(|x, y| x.offset == y.offset).collect();
    for fields in registers.iter().take(max) {
        let Some(d) = fields.first() else { continue };
        out.line(format_args!(
            "  {}: at events {} and {}, {} in all",
            d.register,
            format_event(d.a_event),
            format_event(d.b_event),
            format_count(d.count, "difference")
        ))?;
        for f in *fields {
            print_field(f.field, (f.a, f.b), out)?;
        }
    }
    print_remainder(registers.len(), max, out)
}

/// Prints how a field of a register or a descriptor changes.
fn print_field(field: &str, (a, b): (Option<&str>, Option<&str>), out: &mut Out) -> Result<(), Failure> {
    let (a, b) = (a.unwrap_or("-"), b.unwrap_or("-"));
    Ok(out.line(format_args!("    {field}: {a} becomes {b}"))?)
}

fn print_calls(c: &CallComparison<'_>, max: usize, out: &mut Out) -> Result<(), Failure> {
    print_list("Calls", &c.list, max, out, |d| {
        let same = if d.differs { "" } else { "within the tolerance: " };
        format!("events {} and {}: {same}{}", d.a_event, d.b_event, describe_call(d))
    })?;
    print_list("Code of launched functions", &c.code, max, out, describe_code)
}

fn print_events(r: &Report<'_>, max: usize, out: &mut Out) -> Result<(), Failure> {
    // A call that is listed as different is not listed twice.
    let of_calls: HashSet<_> = r
        .calls
        .iter()
        .flat_map(|c| &c.list)
        .map(|d| (Some(d.a_event), Some(d.b_event)))
        .collect();
    let events: Vec<_> = r
        .events
        .list
        .iter()
        .filter(|d| !of_calls.contains(&(d.a_event, d.b_event)))
        .collect();
    print_list("Events", &events, max, out, |d| {
        let job = match r.calls {
            Some(_) => String::new(),
            None => format!(", {}", job_name(d.job)),
        };
        let (a, b) = (format_event(d.a_event), format_event(d.b_event));
        format!("events {a} and {b}{job}: {}", describe_event(d))
    })
}

fn print_descriptors(r: &Report<'_>, max: usize, out: &mut Out) -> Result<(), Failure> {
    let list = &r.descriptors.list;
    if list.is_empty() {
        return Ok(());
    }
    out.line("\nDescriptors of jobs, by field")?;
    for d in list.iter().take(max) {
        out.line(format_args!("  {}", describe_descriptor(d)))?;
        for f in &d.fields {
            print_field(f.field, (f.a, f.b), out)?;
        }
    }
    print_remainder(list.len(), max, out)
}

/// Describes how a page differs.
fn describe_page(d: &PageDifference, by_space: bool) -> String {
    let what = match (d.in_a, d.in_b, d.first_byte) {
        (true, false, _) => "only in the first".to_owned(),
        (false, _, _) => "only in the second".to_owned(),
        (_, _, Some(byte)) => format!("differs from byte {byte:#x} on"),
        _ => "differs".to_owned(),
    };
    match by_space {
        true => format!("address space {}, {}: {what}", d.address_space, d.va),
        false => format!("{}: {what}", d.va),
    }
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
    match events {
        (None, None) => what.to_owned(),
        (a, b) => format!("{what} (events {} and {})", format_event(a), format_event(b)),
    }
}
