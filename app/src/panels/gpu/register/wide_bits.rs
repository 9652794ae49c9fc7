//! A register's value over the width of the panel: its bits, and under them its fields with their names.

use super::details::{bit_range, current_access, field_help, value_before};
use crate::theme::{mono, mono_small, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Rect, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::{Document, lookup};
use trace_core::RegOffset;
use trace_core::registers::Direction;

/// Height of the bits, points.
const BITS: f32 = 20.0;
/// Height of a line of names, points.
const LINE: f32 = 15.0;
/// Number of lines of names.
const LINES: usize = 2;
/// Width of a bit below which it has no digit, points.
const DIGIT: f32 = 7.0;

/// Draws the bits of the last access up to the current event.
pub(super) fn wide_bits(doc: &Document, ui: &mut Ui, register: RegOffset) {
    let p = palette(ui);
    let height = BITS + LINES as f32 * LINE + 2.0;
    let (full, _) = ui.allocate_exact_size(vec2(ui.available_width(), height), Sense::hover());
    let Some((event, access, held)) = current_access(doc, register) else {
        let summary = "no access before this event";
        ui.painter()
            .text(full.left_top(), Align2::LEFT_TOP, summary, small(), p.quiet);
        return;
    };
    let ink = if access.write { p.write } else { p.read };
    let before = value_before(doc, register, event);
    let width = lookup::register_width(&doc.recording, register, &access);
    let count = u32::from(width.clamp(1, 8)) * 8;
    let w = full.width() / count as f32;
    let row = Rect::from_min_size(full.min, vec2(full.width(), BITS));
    ui.painter().rect_filled(row, 2.0, p.raised);
    let left = |bit: u32| row.left() + (count - 1 - bit.min(count - 1)) as f32 * w;
    for bit in 0..count {
        let cell = Rect::from_min_size(pos2(left(bit), row.top()), vec2(w, BITS));
        let on = held >> bit & 1 == 1;
        if on {
            ui.painter().rect_filled(cell.shrink(0.5), 1.0, ink);
        }
        if before.is_some_and(|b| (b ^ held) >> bit & 1 == 1) {
            let line = cell.left() + 1.0..=cell.right() - 1.0;
            ui.painter().hline(
                line,
                row.bottom() - 2.0,
                Stroke::new(1.5, if on { p.background } else { p.text }),
            );
        }
        if bit % 8 == 7 {
            ui.painter().vline(cell.left(), row.y_range(), Stroke::new(1.5, p.line));
        }
        if w >= DIGIT {
            let (digit, ink) = if on { ("1", p.background) } else { ("0", p.quiet) };
            ui.painter()
                .text(cell.center(), Align2::CENTER_CENTER, digit, mono_small(), ink);
        }
    }
    let Some(def) = lookup::find_register(&doc.recording, register) else {
        return;
    };
    let decoded = def.layout.decode(held);
    let mut fields: Vec<_> = decoded.fields.iter().filter(|f| f.field.lo < count).collect();
    fields.sort_by_key(|f| std::cmp::Reverse(f.field.lo));
    let mut ends = [f32::MIN; LINES];
    for f in fields {
        let span = Rect::from_min_max(
            pos2(left(f.field.hi), row.top()),
            pos2(left(f.field.lo) + w, row.bottom() + 3.0),
        );
        ui.painter().hline(
            span.left() + 1.5..=span.right() - 1.5,
            row.bottom() + 2.0,
            Stroke::new(1.0, p.quiet),
        );
        let name = f.field.name.replace('_', " ").to_lowercase();
        let was = before.map(|b| f.field.extract(b)).filter(|b| *b != f.value);
        let was = was.map(|b| format!(", was {}", f.field.text(b))).unwrap_or_default();
        let r = ui.interact(span, ui.scope_id().with(("field", f.field.lo)), Sense::hover());
        let range = bit_range(f.field.lo, f.field.hi);
        let message = format!("{range} {name} {}{was}", f.text);
        r.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("bits {message}")));
        let help = field_help(f.field, f.value, Direction::Read);
        r.on_hover_text(if help.is_empty() {
            message
        } else {
            format!("{message}\n{help}")
        });
        // Names stand under the first bit of their field if there is room; otherwise the tooltip shows them.
        let galley = |t: String, font, ink| ui.painter().layout_no_wrap(t, font, ink);
        let (a, b) = (galley(name, small(), p.quiet), galley(f.text.clone(), mono(), p.text));
        let wide = a.size().x + 5.0 + b.size().x;
        let x = (span.left() + 1.0).min(full.right() - wide).max(full.left());
        let Some(line) = ends.iter().position(|e| *e + 10.0 <= x) else {
            continue;
        };
        if let Some(e) = ends.get_mut(line) {
            *e = x + wide;
        }
        let y = row.bottom() + 4.0 + line as f32 * LINE + LINE / 2.0;
        if line > 0 {
            let tick = row.bottom() + 2.0..=y - 6.0;
            ui.painter().vline(span.left() + 1.5, tick, Stroke::new(1.0, p.line));
        }
        let at = pos2(x + a.size().x + 5.0, y - b.size().y / 2.0);
        if !was.is_empty() {
            let under = at.x..=at.x + b.size().x;
            ui.painter().hline(under, y + 6.5, Stroke::new(1.0, p.text));
        }
        ui.painter().galley(pos2(x, y - a.size().y / 2.0), a, p.quiet);
        ui.painter().galley(at, b, p.text);
    }
}
