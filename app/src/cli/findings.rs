//! Findings as JSON and text, which several verbs print.

use serde::Serialize;
use trace_core::finding::{Finding, FindingKind, Severity};

/// A finding as JSON output. It lacks the event of a [`Finding`], which is stored with recordings.
#[derive(Serialize)]
pub struct FindingRow<'a> {
    /// Kind of the finding, as [Findings](reference/findings.md) lists it.
    kind: FindingKind,
    /// `error`, `warning` or `note`.
    severity: Severity,
    /// Where it is: a file and line, an event, or an address.
    place: &'a str,
    /// What is wrong and why it matters, in one sentence.
    message: &'a str,
}

impl<'a> From<&'a Finding> for FindingRow<'a> {
    fn from(f: &'a Finding) -> Self {
        Self {
            kind: f.kind,
            severity: f.severity,
            place: &f.place,
            message: &f.message,
        }
    }
}

/// Returns the JSON name of a kind or severity, for text output.
pub fn json_name(value: &impl Serialize) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default()
}
