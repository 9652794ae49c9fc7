//! What a plotted line is called, and how its values are written.

use crate::document::changes::Plotted;
use crate::document::{Document, Numbers, lookup};
use egui::Color32;
use trace_core::registers::{Field, FieldKind};

/// `JS1_CONFIG_NEXT`, or with its field `JS1_CONFIG_NEXT.start_flush`.
pub(super) fn of(doc: &Document, line: &Plotted) -> String {
    let register = doc.facts.register_name(line.register);
    match &line.field {
        Some(f) => format!("{register}.{f}"),
        None => register,
    }
}

/// The field that a line is of.
pub(super) fn field<'a>(doc: &Document, line: &Plotted) -> Option<&'a Field> {
    lookup::register_of(&doc.recording, line.register)?
        .layout
        .field(line.field.as_deref()?)
}

/// A value by itself, as values are written now; the panel's own choice of decimal holds where that is hex.
pub(super) fn value(doc: &Document, line: &Plotted, value: u64, decimal: bool) -> String {
    let numbers = match doc.numbers {
        Numbers::Hex if decimal => Numbers::Decimal,
        other => other,
    };
    match line.field {
        None => {
            let width = lookup::register_of(&doc.recording, line.register).map_or(4, |r| r.width);
            numbers.text(value, width)
        }
        Some(_) => numbers.bare(value),
    }
}

/// What a value means, by the names of the register map; empty where it says nothing more than the value.
pub(super) fn meaning(doc: &Document, line: &Plotted, value: u64) -> String {
    let Some(def) = lookup::register_of(&doc.recording, line.register) else {
        return String::new();
    };
    match (&line.field, field(doc, line)) {
        (Some(_), Some(f)) => match f.kind {
            FieldKind::Number | FieldKind::Hex => String::new(),
            _ => f.text(value),
        },
        (Some(_), None) => String::new(),
        (None, _) => def.layout.describe(value),
    }
}

/// A value as it stands beside a line: by its name where its field has names, by itself elsewhere.
pub(super) fn told(doc: &Document, line: &Plotted, v: u64, decimal: bool) -> String {
    match (&line.field, meaning(doc, line, v)) {
        (Some(_), m) if !m.is_empty() => m,
        _ => value(doc, line, v, decimal),
    }
}

/// The colour of a line.
pub(super) fn colour(p: &crate::theme::Palette, slot: u8) -> Color32 {
    let n = p.lines.len().max(1);
    p.lines.get(usize::from(slot) % n).copied().unwrap_or(p.text)
}

/// Lines beyond the colours are dashed.
pub(super) fn dashed(p: &crate::theme::Palette, slot: u8) -> bool {
    usize::from(slot) >= p.lines.len()
}
