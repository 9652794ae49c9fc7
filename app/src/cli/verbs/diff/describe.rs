//! Descriptions of differences, one line each.

use super::report::{Buffer, Descriptor, Event, Mapping};
use crate::cli::out::format_count;
use trace_core::diff::{HostWriteDifference, JobPair};
use trace_core::json_forms::format_digits;

/// Describes a difference between events.
pub fn describe_event(e: &Event) -> String {
    let value = |v: &Option<String>| v.clone().unwrap_or_else(|| "-".into());
    if e.call.is_some() {
        return describe_call_event(e);
    }
    let name = match e.kind {
        "interrupt" => format!("interrupt line {}", e.offset),
        "dma-map" => "memory given to the device".to_owned(),
        kind => format!("{kind} {}", e.register.as_deref().unwrap_or(&e.place)),
    };
    let more = |side: &str, v: &Option<String>| match e.events {
        1 => format!("{name} {} only in the {side}", value(v)),
        n => format!(
            "{name} {} and {} only in the {side}",
            value(v),
            format_count(n - 1, "event")
        ),
    };
    match (e.what, &e.a, &e.b) {
        ("deleted", a, _) => more("first", a),
        ("inserted", _, b) => more("second", b),
        ("moved", a, _) => format!("{} from {name} {} on, moved", format_count(e.events, "event"), value(a)),
        (_, a, b) => format!("{name} {} becomes {}", value(a), value(b)),
    }
}

/// Describes a difference between API calls.
fn describe_call_event(e: &Event) -> String {
    let kind = e.kind;
    let value = |v: &Option<String>| v.clone().unwrap_or_else(|| "-".into());
    let more = |side: &str, v: &Option<String>| match e.events {
        1 => format!("{kind} {} only in the {side}", value(v)),
        n => format!(
            "{kind} {} and {} only in the {side}",
            value(v),
            format_count(n - 1, "event")
        ),
    };
    match e.what {
        "deleted" => more("first", &e.a),
        "inserted" => more("second", &e.b),
        "moved" => format!(
            "{} from {kind} {} on, moved",
            format_count(e.events, "event"),
            value(&e.a)
        ),
        _ => format!("{kind} {} becomes {}", value(&e.a), value(&e.b)),
    }
}

/// Describes a difference in a run of mapped pages.
pub fn describe_mapping(d: &Mapping) -> String {
    let pages = format_count(d.pages, "page");
    if let Some(there) = &d.moved_to {
        return format!("{pages}, the same at {there} in the second");
    }
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

/// Describes which descriptor it is.
pub fn describe_descriptor(d: &Descriptor<'_>) -> String {
    let at = match (&d.a_va, &d.b_va) {
        (Some(a), Some(b)) if a != b => format!("{a} and {b}"),
        (a, b) => a.clone().or_else(|| b.clone()).unwrap_or_default(),
    };
    let of = match d.in_chain {
        0 => String::new(),
        n => format!(", {n} behind the head"),
    };
    format!("{}{of}: {} at {at}", job_name(d.job), d.layout)
}

/// Describes a difference in a range that the CPU wrote.
pub fn describe_host_write(d: &HostWriteDifference, physical: bool) -> String {
    let at = if physical {
        d.va.to_string()
    } else {
        format!("address space {}, {}", d.address_space, d.va)
    };
    let cut = |bytes: &[u8]| {
        let more = if (bytes.len() as u64) < d.bytes { "…" } else { "" };
        format!("{}{more}", format_digits(bytes))
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
    format!("{}, {at}, {}: {what}", job_name(d.job), format_count(d.bytes, "byte"))
}

/// Returns the name of the job that was running, numbered as in `jobs`.
pub fn job_name(pair: JobPair) -> String {
    let index = |submits: u32| submits.saturating_sub(1);
    match (pair.a, pair.b) {
        (Some(0), _) | (_, Some(0)) | (None, None) => "before any job".to_owned(),
        (Some(a), Some(b)) if a == b => format!("job {}", index(a)),
        (Some(a), Some(b)) => format!("jobs {} and {}", index(a), index(b)),
        (Some(a), None) => format!("job {} of the first", index(a)),
        (None, Some(b)) => format!("job {} of the second", index(b)),
    }
}

/// Describes a difference in a named buffer.
pub fn describe_buffer(d: &Buffer<'_>) -> String {
    match (d.a_bytes, d.b_bytes) {
        (Some(_), None) => return format!("{}: only in the first", d.name),
        (None, _) => return format!("{}: only in the second", d.name),
        (Some(a), Some(b)) if a != b => return format!("{}: {a} bytes become {b}", d.name),
        _ => {}
    }
    let element = d.element.unwrap_or("u8");
    let mut text = format!("{}: {} of {} {element} differ", d.name, d.differ, d.compared);
    if d.within > 0 {
        text += &format!(", {} more within the tolerance", d.within);
    }
    if let Some(f) = &d.first {
        text += &format!("; first [{}]: {} becomes {}", f.index, f.a, f.b);
    }
    if let Some(e) = d.errors {
        if e.pairs > 0 {
            text += &format!(
                "; off by at most {:.3e} at [{}], relative {:.3e} at [{}], {:.3e} on average",
                e.max_absolute, e.max_absolute_at, e.max_relative, e.max_relative_at, e.mean_absolute
            );
        }
        if e.not_finite > 0 {
            text += &format!("; {} with an infinity or NaN", format_count(e.not_finite, "pair"));
        }
    }
    if d.unknown_bytes > 0 {
        text += &format!("; {} unknown on one side", format_count(d.unknown_bytes, "byte"));
    }
    text
}
