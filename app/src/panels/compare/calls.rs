//! Details of driver calls that differ between both recordings.

use super::errors;
use super::field::field;
use crate::theme::{ROW, mono, palette, small, widgets};
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Sense, Ui, WidgetInfo, vec2};
use kinescope_session::comparison::Comparison;
use kinescope_session::{Document, text};
use trace_core::diff::{CallDifference, CodeDifference, ContentDiff, TypeFrom};
use trace_core::recording::{CallEvent, Recording};

/// Bytes in a row, for each side.
const ACROSS: u64 = 8;
/// Number of rows of bytes.
const LINES: u64 = 8;

/// Draws the details of a row.
pub(super) fn ui(doc: &Document, c: &Comparison, at: usize, ui: &mut Ui) {
    let calls = &c.diff.calls;
    match calls.list.get(at) {
        Some(d) => call(doc, c, d, ui),
        None => {
            let code = at.checked_sub(calls.list.len()).and_then(|n| calls.code.get(n));
            if let Some(code) = code {
                code_fields(code, ui);
            }
        }
    }
}

/// Draws the details of two calls that differ: differences outside the content, then elements, then bytes.
pub(super) fn call(doc: &Document, c: &Comparison, d: &CallDifference, ui: &mut Ui) {
    for (name, a, b) in &d.fields {
        field(ui, name, a, b);
    }
    if d.names.0 != d.names.1 && !d.names.1.is_empty() {
        field(ui, "name", &d.names.0, &d.names.1);
    }
    let Some(content) = &d.content else { return };
    if !d.fields.is_empty() {
        ui.add_space(4.0);
    }
    errors::ui(&content.elements, ui);
    let p = palette(ui);
    let message = match content.type_from {
        TypeFrom::Signature => "The type comes from the signature of a function that received the buffer.",
        TypeFrom::Guess => "The type is a guess from the bytes.",
    };
    ui.add(egui::Label::new(RichText::new(message).font(small()).color(p.quiet)).wrap());
    bytes(doc, c, d, content, ui);
}

fn code_fields(c: &CodeDifference, ui: &mut Ui) {
    field(ui, "module", &c.digests.0, &c.digests.1);
    field(ui, "bytes", &text::bytes(c.bytes.0), &text::bytes(c.bytes.1));
    let own = match c.own {
        Some(true) => "The function's own code differs.",
        Some(false) => "The function's own code is the same: another part of the module differs.",
        None => "The function's own code cannot be separated from the rest of the module.",
    };
    let p = palette(ui);
    ui.add(egui::Label::new(RichText::new(own).font(small()).color(p.quiet)).wrap());
}

/// Reads what the copy of one side carried, from `offset` on.
fn part(recording: &Recording, event: u64, offset: u64, out: &mut [u8]) -> bool {
    let call = usize::try_from(event).ok().and_then(|e| recording.events.call(e));
    matches!(call, Some(CallEvent::Copy(row)) if recording.read_copy_content(&row, offset, out))
}

/// Draws the bytes of both sides around the first one that differs.
fn bytes(doc: &Document, c: &Comparison, d: &CallDifference, content: &ContentDiff, ui: &mut Ui) {
    widgets::section(ui, "Bytes from the first difference");
    let p = palette(ui);
    let digit = ui.painter().layout_no_wrap("0".into(), mono(), p.text).size().x;
    let begin = content.first_byte / ACROSS * ACROSS;
    for n in 0..LINES {
        let at = begin.saturating_add(n * ACROSS);
        let len = content.bytes.saturating_sub(at).min(ACROSS) as usize;
        let (mut x, mut y) = ([0; ACROSS as usize], [0; ACROSS as usize]);
        let (Some(one), Some(two)) = (x.get_mut(..len), y.get_mut(..len)) else {
            return;
        };
        let held = part(&doc.recording, d.events.0, at, one) && part(&c.other.recording, d.events.1, at, two);
        if len == 0 || !held {
            return;
        }
        let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::hover());
        let differ = one.iter().zip(two.iter()).filter(|(a, b)| a != b).count();
        r.widget_info(|| WidgetInfo::labeled(Role::Row, true, format!("bytes at {at:#x}: {differ} differ")));
        widgets::paint_text(ui, rect, Align2::LEFT_CENTER, &format!("+{at:#x}"), mono(), p.quiet);
        let half = ACROSS as f32 * 3.0 * digit;
        let starts = [rect.left() + 9.0 * digit, rect.left() + 9.0 * digit + half + digit];
        for (k, (a, b)) in one.iter().zip(two.iter()).enumerate() {
            for (byte, start) in [a, b].into_iter().zip(starts) {
                let left = start + k as f32 * 3.0 * digit;
                let cell = Rect::from_min_size(egui::pos2(left, rect.top()), vec2(3.0 * digit, rect.height()));
                let ink = if a == b { p.text } else { p.error };
                widgets::paint_text(ui, cell, Align2::LEFT_CENTER, &format!("{byte:02x}"), mono(), ink);
                if a != b {
                    // The mark must not depend on colour alone.
                    let under = left..=left + 2.0 * digit;
                    ui.painter()
                        .hline(under, rect.bottom() - 2.0, egui::Stroke::new(1.0, p.error));
                }
            }
        }
    }
}
