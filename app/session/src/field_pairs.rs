//! Descriptions of an event on each side of a comparison, and its value by field.

use crate::comparison::Comparison;
use crate::derived_data::DerivedData;
use crate::{Document, descriptions};
use kinescope_files::numbers::NumberFormat;
use trace_core::diff::{CallDifference, ContentDiff};
use trace_core::memory::element_text;
use trace_core::recording::{Access, Recording};
use trace_core::registers::{Direction, Register};

/// The text of a field on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPair {
    /// Name of the field; `value` for the complete value.
    pub name: String,
    /// Meaning in the first recording; empty if the field is missing there.
    pub a: String,
    /// Meaning in the second recording.
    pub b: String,
}

impl FieldPair {
    /// Whether the two sides differ.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.a != self.b
    }
}

/// Describes an event of one side on one line: the access and the value.
#[must_use]
pub fn describe_event(
    recording: &Recording,
    derived: &DerivedData,
    numbers: NumberFormat,
    event: u64,
) -> (String, String) {
    let at = usize::try_from(event).unwrap_or(usize::MAX);
    match recording.events.access(at) {
        Some(a) => {
            let verb = if a.write { "W" } else { "R" };
            let name = derived.access_name(recording, &a);
            (format!("{verb} {name}"), numbers.format(a.value, a.width))
        }
        None => {
            let words = descriptions::format_event_in(recording, derived, event);
            match words.split_once(" · ") {
                Some((what, means)) => (what.to_owned(), means.to_owned()),
                None => (words, String::new()),
            }
        }
    }
}

/// Lists the value of a step by field on both sides, or the complete value if no field is known.
#[must_use]
pub fn list_field_pairs(doc: &Document, c: &Comparison, a: Option<u64>, b: Option<u64>) -> Vec<FieldPair> {
    if let Some(d) = c.diff.calls.find(a, b) {
        return of_call(d);
    }
    let access = |r: &Recording, e: Option<u64>| -> Option<Access> { r.events.access(usize::try_from(e?).ok()?) };
    let x = access(&doc.recording, a);
    let y = access(&c.other.recording, b);
    let text = |a: Option<Access>| a.map_or_else(String::new, |a| doc.numbers.format(a.value, a.width));
    let mut out = vec![FieldPair {
        name: "value".into(),
        a: text(x),
        b: text(y),
    }];
    let register =
        |derived: &DerivedData, a: Option<Access>| -> Option<&'static Register> { derived.device?.find_accessed(&a?) };
    let (rx, ry) = (register(&doc.derived, x), register(&c.other.derived, y));
    let whole = |r: &Register, a: &Access| a.offset == r.offset && a.width == r.width;
    let decoded = |r: Option<&'static Register>, a: Option<Access>| {
        let (r, a) = (r?, a?);
        whole(r, &a).then(|| r.layout.decode_in(a.value, Direction::new(a.write)))
    };
    let (dx, dy) = (decoded(rx, x), decoded(ry, y));
    let Some(lead) = dx.as_ref().or(dy.as_ref()) else {
        return out;
    };
    for f in &lead.fields {
        let name = f.field.name.as_str();
        let of = |d: &Option<trace_core::registers::Decoded<'_>>| {
            let found = d.as_ref().and_then(|d| d.fields.iter().find(|v| v.field.name == name));
            found.map(|v| v.text.clone()).unwrap_or_default()
        };
        out.push(FieldPair {
            name: name.to_owned(),
            a: of(&dx),
            b: of(&dy),
        });
    }
    out
}

/// Lists the differences of two calls.
fn of_call(d: &CallDifference) -> Vec<FieldPair> {
    let pair = |name: &str, a: &str, b: &str| FieldPair {
        name: name.to_owned(),
        a: a.to_owned(),
        b: b.to_owned(),
    };
    // The first entry is the complete value, which calls do not have.
    let mut out = vec![pair("value", "", "")];
    out.extend(d.fields.iter().map(|(name, a, b)| pair(name, a, b)));
    if let Some((at, a, b)) = d.content.as_ref().and_then(element_pair) {
        out.push(pair(&at, &a, &b));
    }
    out
}

/// Returns the first element that exceeds the tolerance: its position and both values.
#[must_use]
pub fn element_pair(c: &ContentDiff) -> Option<(String, String, String)> {
    let text = |bits: u64| element_text(c.elements.element, &bits.to_le_bytes()).unwrap_or_default();
    let f = c.elements.first?;
    Some((format!("[{}]", f.index), text(f.a), text(f.b)))
}
