//! How findings and their severities are shown.

use crate::theme::Palette;
use egui::Color32;
use trace_core::finding::{FindingKind, Severity};

/// Returns the name of a finding's kind in JSON.
#[must_use]
pub fn kind_name(kind: FindingKind) -> String {
    serde_json::to_value(kind)
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// Returns the mark and word of a severity.
#[must_use]
pub fn severity_label(s: Severity) -> (&'static str, &'static str) {
    match s {
        Severity::Error => ("▲", "error"),
        Severity::Warning => ("!", "warning"),
        Severity::Note => ("·", "note"),
    }
}

/// Returns the colour of findings of a severity.
#[must_use]
pub fn severity_colour(p: &Palette, s: Severity) -> Color32 {
    match s {
        Severity::Error => p.error,
        Severity::Warning => p.warning,
        Severity::Note => p.quiet,
    }
}
