//! A comparison as a self-contained HTML page: no script, no other file, light or dark like the reader's system.

use super::calls::{describe_call, describe_code};
use super::describe::{
    describe_buffer, describe_descriptor, describe_event, describe_host_write, describe_mapping, job_name,
};
use super::report::{Cause, Report};
use crate::cli::out::format_count;
use kinescope_session::html;
use maud::{Markup, html};
use trace_core::diff::kind_name;

/// Maximum number of table rows on the page; the page also shows the total.
const MAX_TABLE_ROWS: usize = 200;

/// Renders the page; `a` and `b` are the files as they were given.
pub fn page(r: &Report<'_>, a: &str, b: &str) -> String {
    let verdict = if r.same { "No difference" } else { "They differ" };
    let whole = r.same && r.not_compared.is_empty();
    let body = html! {
        h1 class=[whole.then_some("same")] { @if r.same { "= " } @else { "≠ " } (verdict) }
        p class="part" { (r.summary) @if !r.not_compared.is_empty() { " " (r.not_compared) } }
        p class="files" { "first " code { (a) } ", second " code { (b) } }
        @if let Some(f) = &r.first_difference {
            p class="part" {
                "First difference"
                @if (f.a_event, f.b_event) != (None, None) { " " (format_events(f.a_event, f.b_event)) }
                ": " code { (f.what) }
            }
        }
        (cards(r))
        (notes(r))
        @if !r.causes.is_empty() {
            h2 { "Causes that the recordings show" }
            @for c in r.causes.iter().take(MAX_TABLE_ROWS) { (cause(c)) }
        }
        (registers(r))
        (render_table("Events", r.events.list.len(), r.events.list.iter().map(|e| {
            (format_events(e.a_event, e.b_event), job_name(e.job), sign(e.what), describe_event(e))
        })))
        @if let Some(c) = &r.calls {
            (render_table("Calls", c.list.len(), c.list.iter().map(|d| {
                (format_events(Some(d.a_event), Some(d.b_event)), String::new(), sign("changed"), describe_call(d))
            })))
            (render_table("Code of launched functions", c.code.len(), c.code.iter().map(|d| {
                (format_events(Some(d.a_event), Some(d.b_event)), String::new(), sign("changed"), describe_code(d))
            })))
        }
        (render_table("CPU writes", r.host_writes.list.len(), r.host_writes.list.iter().map(|h| {
            (format_events(h.a, h.b), job_name(h.job), sides(h.a.is_some(), h.b.is_some()), describe_host_write(h, r.host_writes.physical))
        })))
        (descriptors(r))
        (render_table("Mapped pages", r.mappings.list.len(), r.mappings.list.iter().map(|m| {
            let what = match m.moved_to {
                Some(_) => sign("moved"),
                None => sides(m.rights_a.is_some(), m.rights_b.is_some()),
            };
            (m.va.clone(), format!("address space {}", m.address_space), what, describe_mapping(m))
        })))
        (buffers(r))
        (render_table("Pages", r.memory.pages.len(), r.memory.pages.iter().map(|p| {
            let from = p.first_byte.map_or(String::new(), |b| format!("from byte {b:#x} on"));
            (p.va.to_string(), format!("address space {}", p.address_space), sides(p.in_a, p.in_b), from)
        })))
    };
    html::page(&format!("{verdict}: {a} and {b}"), &body)
}

fn format_events(a: Option<u64>, b: Option<u64>) -> String {
    let n = |side: Option<u64>| side.map_or_else(|| "–".into(), |n| n.to_string());
    match (a, b) {
        (None, None) => String::new(),
        (a, b) => format!("at events {} and {}", n(a), n(b)),
    }
}

/// Class, symbol and word of a kind of difference, so that colour is not the only sign.
type Sign = (&'static str, &'static str, &'static str);

fn sign(what: &str) -> Sign {
    match what {
        "deleted" => ("gone", "−", "only in the first"),
        "inserted" => ("more", "+", "only in the second"),
        "moved" => ("changed", "↷", "moved"),
        _ => ("changed", "≠", "changed"),
    }
}

fn sides(in_a: bool, in_b: bool) -> Sign {
    match (in_a, in_b) {
        (true, false) => sign("deleted"),
        (false, true) => sign("inserted"),
        _ => sign("changed"),
    }
}

fn card(name: &str, differ: u64, all: u64, unit: &str) -> Markup {
    html! {
        div class="card" {
            span { (name) }
            b class=(if differ == 0 { "same" } else { "changed" }) { @if differ == 0 { "= " } @else { "≠ " } (differ) }
            span { "of " (all) " " (unit) }
        }
    }
}

fn cards(r: &Report<'_>) -> Markup {
    let (e, m, p, h) = (&r.events, &r.mappings, &r.memory, &r.host_writes);
    let events = e.changed + e.inserted + e.deleted + e.moved;
    let written = h.changed + h.only_a + h.only_b;
    let mapped = m.changed + m.only_a + m.only_b + m.moved;
    let pages = p.pages_differ + p.pages_only_a + p.pages_only_b;
    let buffers = p.buffers.iter().filter(|b| b.differs).count() as u64;
    let of_events = card(
        "Events",
        events,
        events + e.equal + e.relocated + e.uncompared,
        "events",
    );
    if let Some(c) = &r.calls {
        let differ = c.copies + c.snapshots + c.fills + c.launches;
        let code = c.code.iter().filter(|c| c.differs).count() as u64;
        return html! {
            div class="cards" {
                (of_events)
                (card("Calls", differ, c.compared, "calls"))
                @if code > 0 { (card("Code", code, c.code.len() as u64, "functions")) }
            }
        };
    }
    html! {
        div class="cards" {
            (of_events)
            (card("CPU writes", written, written + h.same + h.already, "bytes"))
            (card("Page tables", mapped, mapped + m.same, "pages"))
            (card("Memory", pages, pages + p.pages_same, "pages"))
            (card("Buffers", buffers, p.buffers.len() as u64, "buffers"))
        }
    }
}

fn notes(r: &Report<'_>) -> Markup {
    let e = &r.events;
    html! {
        p class="dim" {
            @if r.calls.is_none() { (r.jobs.a) " and " (format_count(r.jobs.b, "job")) ". " }
            "Events: " (e.equal) " the same, " (e.changed) " changed, "
            (e.deleted) " only in the first, " (e.inserted) " only in the second, " (e.moved) " moved; " (e.relocated)
            " differ only by addresses, " (e.uncompared) " hold values that differ in every run."
            @for o in e.one_sided { " Events of kind " (kind_name(o.kind)) " (" (o.a) " and " (o.b) ") are not compared: one side has none." }
            @if e.foreign.a + e.foreign.b > 0 {
                " " (e.foreign.a) " and " (e.foreign.b) " accesses to spaces of the machine that one side lacks are not compared."
            }
            @if r.host_writes.unmapped > 0 {
                " " (format_count(r.host_writes.unmapped, "byte")) " written by the CPU are not compared: nothing maps their "
                "pages when the next job is submitted."
            }
            @if r.descriptors.status > 0 {
                " Status fields that the device writes (" (r.descriptors.status_fields.join(", ")) ") are not compared; they differ in "
                (format_count(r.descriptors.status, "descriptor")) "."
            }
            @if r.memory.not_held.a || r.memory.not_held.b {
                " Memory at the end is not compared: one side lacks it."
            }
            @for rule in &r.rules { br; "By rule: " code { (rule) } }
        }
    }
}

fn cause(c: &Cause) -> Markup {
    html! {
        p { code { (c.what) } " " span class="dim" { (format_events(c.a_event, c.b_event)) } }
        @if c.steps.is_empty() { p class="dim" { "no earlier difference is known to contribute to it" } }
        @else { ol {
            @for s in &c.steps {
                li {
                    (s.link.describe()) " " code { (s.what) } " " span class="dim" {
                        (format_events(s.a_event, s.b_event))
                        @if let Some(b) = &s.buffer { " " (b) }
                        @if !s.sure { " (not certain)" }
                    }
                }
            }
        } }
    }
}

fn registers(r: &Report<'_>) -> Markup {
    if r.registers.is_empty() {
        return html! {};
    }
    html! {
        h2 { "Registers, at their first difference" }
        table {
            tr { th { "Register" } th { "Field" } th { "First" } th { "Second" } th { "Events" } th class="n" { "Differences" } }
            @for f in r.registers.iter().take(MAX_TABLE_ROWS) {
                tr {
                    td { (f.register) } td { (f.field) }
                    td class="gone" { (f.a.unwrap_or("–")) } td class="more" { (f.b.unwrap_or("–")) }
                    td { (format_events(f.a_event, f.b_event)) } td class="n" { (f.count) }
                }
            }
        }
        (render_remainder(r.registers.len()))
    }
}

fn descriptors(r: &Report<'_>) -> Markup {
    let list = &r.descriptors.list;
    if list.is_empty() {
        return html! {};
    }
    html! {
        h2 { "Descriptors of jobs, by field" }
        table {
            tr { th { "Descriptor" } th { "Field" } th { "First" } th { "Second" } th { "Events" } }
            @for d in list.iter().take(MAX_TABLE_ROWS) {
                @for (n, f) in d.fields.iter().enumerate() {
                    tr {
                        td { @if n == 0 { (describe_descriptor(d)) } }
                        td { (f.field) }
                        td class="gone" { (f.a.unwrap_or("–")) } td class="more" { (f.b.unwrap_or("–")) }
                        td { @if n == 0 { (format_events(Some(d.a_event), Some(d.b_event))) } }
                    }
                }
            }
        }
        (render_remainder(list.len()))
    }
}

fn buffers(r: &Report<'_>) -> Markup {
    let differ: Vec<_> = r.memory.buffers.iter().filter(|b| b.differs || b.within > 0).collect();
    if differ.is_empty() {
        return html! {};
    }
    html! {
        h2 { "Buffers" }
        table {
            @for b in differ.iter().take(MAX_TABLE_ROWS) {
                tr {
                    td class=(if b.differs { "changed" } else { "same" }) { @if b.differs { "≠" } @else { "≈" } }
                    td {
                        (describe_buffer(b))
                        @if let Some(e) = b.errors.filter(|e| !e.histogram.is_empty()) {
                            div class="dim" {
                                "differences by size:"
                                @for d in &e.histogram { " 1e" (d.exponent) ": " (d.pairs) }
                            }
                        }
                    }
                }
            }
        }
        (render_remainder(differ.len()))
    }
}

/// Renders a table of differences: location, subject, kind of difference, and description.
fn render_table(name: &str, all: usize, rows: impl Iterator<Item = (String, String, Sign, String)>) -> Markup {
    if all == 0 {
        return html! {};
    }
    html! {
        h2 { (name) }
        table {
            @for (place, of, (class, sign, word), what) in rows.take(MAX_TABLE_ROWS) {
                tr { td class=(class) title=(word) { (sign) } td { (place) } td class="dim" { (of) } td { (what) } }
            }
        }
        (render_remainder(all))
    }
}

fn render_remainder(all: usize) -> Markup {
    let rest = all.saturating_sub(MAX_TABLE_ROWS);
    html! { @if rest > 0 { p class="dim" { "and " (rest) " more: kinescope diff --json lists all that are stored" } } }
}
