//! What a plotted line is called, and how its values are written.

use crate::document::changes::PlotLine;
use crate::document::{Document, NumberFormat, lookup};
use egui::Color32;
use trace_core::registers::{Field, FieldKind};

/// `JS1_CONFIG_NEXT`, or with its field `JS1_CONFIG_NEXT.start_flush`.
pub(super) fn line_name(doc: &Document, line: &PlotLine) -> String {
    let register = doc.facts.register_name(line.register);
    match &line.field {
        Some(f) => format!("{register}.{f}"),
        None => register,
    }
}

/// The field that a line is of.
pub(super) fn field<'a>(doc: &Document, line: &PlotLine) -> Option<&'a Field> {
    lookup::find_register(&doc.recording, line.register)?
        .layout
        .field(line.field.as_deref()?)
}

/// A value by itself, as values are written now; the panel's own choice of decimal holds where that is hex.
pub(super) fn value(doc: &Document, line: &PlotLine, value: u64, decimal: bool) -> String {
    let numbers = match doc.numbers {
        NumberFormat::Hex if decimal => NumberFormat::Decimal,
        other => other,
    };
    match line.field {
        None => {
            let width = lookup::find_register(&doc.recording, line.register).map_or(4, |r| r.width);
            numbers.format(value, width)
        }
        Some(_) => numbers.format_unsized(value),
    }
}

/// What a value means, by the names of the register map; empty where it says nothing more than the value.
pub(super) fn meaning(doc: &Document, line: &PlotLine, value: u64) -> String {
    let Some(def) = lookup::find_register(&doc.recording, line.register) else {
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
pub(super) fn format_value(doc: &Document, line: &PlotLine, v: u64, decimal: bool) -> String {
    match (&line.field, meaning(doc, line, v)) {
        (Some(_), m) if !m.is_empty() => m,
        _ => value(doc, line, v, decimal),
    }
}

/// The colour of a line.
pub(super) fn line_colour(p: &crate::theme::Palette, slot: u8) -> Color32 {
    let n = p.lines.len().max(1);
    p.lines.get(usize::from(slot) % n).copied().unwrap_or(p.text)
}

/// Lines beyond the colours are dashed.
pub(super) fn is_dashed(p: &crate::theme::Palette, slot: u8) -> bool {
    usize::from(slot) >= p.lines.len()
}
