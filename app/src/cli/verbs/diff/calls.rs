//! API calls in a comparison: the part of `diff --json`, and one line of text for each call.

use super::sides::{Element, FieldPair};
use crate::cli::format_hex;
use crate::cli::out::format_count;
use serde::Serialize;
use trace_core::diff::{CallDiff, CallDifference, CallPart, CodeDifference, ContentDiff, Errors, Tolerance, TypeFrom};
use trace_core::json_forms::format_digits;

/// Alignment of API calls; counts are pairs of calls. The rows differ from the engine's.
#[derive(Serialize)]
pub struct CallComparison<'a> {
    /// Number of compared pairs of calls.
    pub compared: u64,
    /// Number of pairs that differ; `snapshots` are pieces of snapshots of memory.
    pub copies: u64,
    pub snapshots: u64,
    pub fills: u64,
    pub launches: u64,
    /// Number of copies and pieces that differ within the tolerance, and whose content is unknown on one side or both.
    pub within: u64,
    pub unknown: u64,
    /// Functions that both launched, from modules with different digests.
    pub code: Vec<Code<'a>>,
    /// Pairs of calls that differ.
    pub list: Vec<Call<'a>>,
}

/// A function that both recordings launched, with different modules. The engine has pairs of both sides.
#[derive(Serialize)]
pub struct Code<'a> {
    /// The function.
    pub function: &'a str,
    /// Whether its code may differ.
    pub differs: bool,
    /// The first launches.
    pub a_event: u64,
    pub b_event: u64,
    /// Number of launches.
    pub launches: u64,
    /// The modules: their digests, and their sizes in bytes.
    pub a_digest: &'a str,
    pub b_digest: &'a str,
    pub a_bytes: u64,
    pub b_bytes: u64,
    /// Whether the function's own instructions differ; `null` if that is unknown, as for PTX. If it is `false`,
    /// `differs` is `false` too.
    pub own_differs: Option<bool>,
}

/// Two calls that differ. The engine has pairs of both sides.
#[derive(Serialize)]
pub struct Call<'a> {
    /// `copy`, `snapshot`, `fill` or `launch`.
    pub kind: CallPart,
    /// `false` for a difference within the tolerance.
    pub differs: bool,
    /// The events.
    pub a_event: u64,
    pub b_event: u64,
    /// Names: the function, or `in0`, `out3`, `alloc 7 + 0x40`.
    pub a_name: &'a str,
    pub b_name: &'a str,
    /// Direction of a copy, else `null`.
    pub way: Option<&'a str>,
    /// Device address of the first byte; `null` for a launch.
    pub a_address: Option<String>,
    pub b_address: Option<String>,
    /// What differs besides content, in words. The fields are `grid`, `block`, `cluster`, `shared memory`, `argument 2
    /// (float)`, `argument 1 +0x8`, `value`, `element`, `bytes`, `to`, `from`, `snapshot`, `result`.
    pub fields: Vec<FieldPair<'a>>,
    /// The difference of content; `null`: the same, or unknown.
    pub content: Option<Content<'a>>,
}

/// The difference between the bytes that copies carried, with the comparison of elements at the same level.
#[derive(Serialize)]
pub struct Content<'a> {
    /// Number of compared bytes, and of differing ones.
    pub bytes: u64,
    pub bytes_differ: u64,
    /// Offset of the first differing byte in the content.
    pub first_byte: u64,
    /// At most 16 bytes from there on, as hex digits.
    pub bytes_a: String,
    pub bytes_b: String,
    /// Type of the elements.
    pub element: &'static str,
    /// The source of the type: the `signature` of a function that received the buffer, or a `guess` from the bytes.
    pub element_from: TypeFrom,
    /// As for a buffer.
    pub compared: u64,
    pub equal: u64,
    pub within: u64,
    pub differ: u64,
    pub first: Option<Element>,
    pub errors: Option<&'a Errors>,
    pub tolerance: Option<Tolerance>,
}

/// Returns the report on API calls.
pub fn calls(d: &CallDiff) -> CallComparison<'_> {
    CallComparison {
        compared: d.compared,
        copies: d.copies,
        snapshots: d.snapshots,
        fills: d.fills,
        launches: d.launches,
        within: d.within,
        unknown: d.unknown,
        code: d.code.iter().map(code).collect(),
        list: d.list.iter().map(call).collect(),
    }
}

fn code(c: &CodeDifference) -> Code<'_> {
    Code {
        function: &c.function,
        differs: c.differs(),
        a_event: c.events.0,
        b_event: c.events.1,
        launches: c.launches,
        a_digest: &c.digests.0,
        b_digest: &c.digests.1,
        a_bytes: c.bytes.0,
        b_bytes: c.bytes.1,
        own_differs: c.own,
    }
}

/// Returns the report on two calls that differ.
pub fn call(d: &CallDifference) -> Call<'_> {
    let at = |at: u64| (d.part != CallPart::Launch).then(|| format_hex(at));
    Call {
        kind: d.part,
        differs: d.differs,
        a_event: d.events.0,
        b_event: d.events.1,
        a_name: &d.names.0,
        b_name: &d.names.1,
        way: Some(d.way.as_str()).filter(|w| !w.is_empty()),
        a_address: at(d.at.0.get()),
        b_address: at(d.at.1.get()),
        fields: d
            .fields
            .iter()
            .map(|(field, a, b)| FieldPair {
                field,
                a: Some(a),
                b: Some(b),
            })
            .collect(),
        content: d.content.as_ref().map(content),
    }
}

fn content(c: &ContentDiff) -> Content<'_> {
    let e = &c.elements;
    Content {
        bytes: c.bytes,
        bytes_differ: c.bytes_differ,
        first_byte: c.first_byte,
        bytes_a: format_digits(&c.bytes_a),
        bytes_b: format_digits(&c.bytes_b),
        element: e.element.name(),
        element_from: c.type_from,
        compared: e.compared,
        equal: e.equal,
        within: e.within,
        differ: e.differ,
        first: Element::first(e),
        errors: e.errors.as_ref(),
        tolerance: c.tolerance,
    }
}

/// Describes a difference of calls: what the call is, then what differs.
pub fn describe_call(d: &Call<'_>) -> String {
    let what = match d.kind {
        CallPart::Copy => format!("copy of {} ({})", d.a_name, d.way.unwrap_or("copy")),
        CallPart::Snapshot => format!("memory of {} in a snapshot", d.a_name),
        CallPart::Fill => format!("fill of {}", d.a_name),
        CallPart::Launch => format!("launch of {}", d.a_name),
    };
    let mut parts: Vec<String> = d
        .fields
        .iter()
        .map(|f| format!("{} {} becomes {}", f.field, f.a.unwrap_or("-"), f.b.unwrap_or("-")))
        .collect();
    parts.extend(d.content.as_ref().map(describe_content));
    format!("{what}: {}", parts.join("; "))
}

/// Describes the difference between the contents of two copies.
fn describe_content(c: &Content<'_>) -> String {
    let mut text = match c.element {
        "u8" => format!("{} of {} bytes differ", c.bytes_differ, c.bytes),
        element => format!("{} of {} {element} differ", c.differ, c.compared),
    };
    if c.within > 0 {
        text += &format!(", {} more within the tolerance", c.within);
    }
    text += &format!(", from byte {} on", format_hex(c.first_byte));
    if let Some(f) = &c.first {
        text += &format!("; first [{}]: {} becomes {}", f.index, f.a, f.b);
    }
    if let Some(e) = c.errors.filter(|e| e.pairs > 0 && c.element != "u8") {
        text += &format!(
            "; off by at most {:.3e} at [{}], relative {:.3e}",
            e.max_absolute, e.max_absolute_at, e.max_relative
        );
    }
    if let Some(e) = c.errors.filter(|e| e.not_finite > 0) {
        text += &format!("; {} with an infinity or no number", format_count(e.not_finite, "pair"));
    }
    text
}

/// Describes a function whose module differs.
pub fn describe_code(c: &Code<'_>) -> String {
    let own = match c.own_differs {
        Some(true) => "its own code differs",
        Some(false) => "its own code is the same; another part of the module differs",
        None => "its module differs",
    };
    let digest = |d: &str| d.get(..12).unwrap_or(d).to_owned();
    format!(
        "{}: {own} ({}, {} in the first; {}, {} in the second), {}",
        c.function,
        digest(c.a_digest),
        format_count(c.a_bytes, "byte"),
        digest(c.b_digest),
        format_count(c.b_bytes, "byte"),
        match c.launches {
            1 => "1 launch".to_owned(),
            n => format!("{n} launches"),
        }
    )
}
