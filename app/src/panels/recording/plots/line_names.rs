//! Names of plotted lines, and the format of their values.

use egui::Color32;
use kinescope_files::changes::PlotLine;
use kinescope_files::numbers::NumberFormat;
use kinescope_session::{Document, lookup};
use trace_core::registers::{Field, FieldKind};

/// Returns the name of a line: `JS1_CONFIG_NEXT`, or with its field `JS1_CONFIG_NEXT.start_flush`.
pub(super) fn line_name(doc: &Document, line: &PlotLine) -> String {
    let register = doc.derived.register_name(line.register);
    match &line.field {
        Some(f) => format!("{register}.{f}"),
        None => register,
    }
}

/// Returns the field of a line.
pub(super) fn field<'a>(doc: &Document, line: &PlotLine) -> Option<&'a Field> {
    lookup::find_register(&doc.recording, line.register)?
        .layout
        .field(line.field.as_deref()?)
}

/// Formats a value in the current number format; if that is hex, the panel's own choice of decimal applies.
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

/// Returns the meaning of a value by the names of the register map; empty if it adds nothing to the value.
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

/// Formats the value of a line: by its name if its field has names, else as a number.
pub(super) fn format_value(doc: &Document, line: &PlotLine, v: u64, decimal: bool) -> String {
    match (&line.field, meaning(doc, line, v)) {
        (Some(_), m) if !m.is_empty() => m,
        _ => value(doc, line, v, decimal),
    }
}

/// Returns the colour of a line.
pub(super) fn line_colour(p: &crate::theme::Palette, slot: u8) -> Color32 {
    let n = p.lines.len().max(1);
    p.lines.get(usize::from(slot) % n).copied().unwrap_or(p.text)
}

/// Returns whether a line is dashed: lines beyond the number of colours are.
pub(super) fn is_dashed(p: &crate::theme::Palette, slot: u8) -> bool {
    usize::from(slot) >= p.lines.len()
}
