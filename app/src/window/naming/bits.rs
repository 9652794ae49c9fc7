//! The bit row of a register that is being named: bits of existing fields, and bits selected for a new field.

use crate::theme::{mono_small, palette, small};
use crate::window::name_form::FieldForm;
use crate::window::name_queue::NameSheet;
use egui::accesskit::Role;
use egui::{Align2, Rect, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};

/// Height of a row of bits, points.
const HEIGHT: f32 = 22.0;

/// Draws the bits, 32 in a row. A drag over bits creates a field.
pub(super) fn row(open: &mut NameSheet, ui: &mut Ui) {
    let p = palette(ui);
    let bits = open.form.bits();
    let rows = bits.div_ceil(32).max(1);
    let columns = bits.min(32);
    let size = vec2(ui.available_width(), rows as f32 * (HEIGHT + 12.0));
    let (rect, response) = ui.allocate_exact_size(size, Sense::click_and_drag());
    response.widget_info(|| WidgetInfo::labeled(Role::Group, true, "Bits: drag over some to add a field"));
    let w = rect.width() / columns as f32;
    let cell = |bit: u32| {
        let row = rows - 1 - bit / 32;
        let x = rect.left() + (columns - 1 - bit % 32) as f32 * w;
        Rect::from_min_size(pos2(x, rect.top() + row as f32 * (HEIGHT + 12.0)), vec2(w, HEIGHT))
    };
    let taken: Vec<Option<usize>> = (0..bits)
        .map(|b| {
            let has = |f: &FieldForm| f.bits().is_some_and(|(lo, hi)| lo <= b && b <= hi);
            open.form.fields.iter().position(has)
        })
        .collect();
    let chosen = open.dragged.map(|(a, b)| a.min(b)..=a.max(b));
    for bit in 0..bits {
        let c = cell(bit).shrink(0.5);
        let of = taken.get(bit as usize).copied().flatten();
        let ink = match of {
            _ if chosen.as_ref().is_some_and(|r| r.contains(&bit)) => p.selection,
            Some(n) if n % 2 == 0 => p.edited.gamma_multiply(0.4),
            Some(_) => p.edited.gamma_multiply(0.25),
            None => p.raised,
        };
        ui.painter().rect_filled(c, 2.0, ink);
        if bit % 8 == 0 || bit + 1 == bits || w > 14.0 {
            ui.painter().text(
                c.center(),
                Align2::CENTER_CENTER,
                bit.to_string(),
                mono_small(),
                p.quiet,
            );
        }
    }
    for f in &open.form.fields {
        let Some((lo, hi)) = f.bits().filter(|(_, hi)| *hi < bits) else {
            continue;
        };
        let (a, b) = (cell(hi), cell(lo));
        if a.top() == b.top() {
            let line = a.left() + 1.0..=b.right() - 1.0;
            ui.painter().hline(line, a.bottom() + 1.0, Stroke::new(1.5, p.edited));
            let room = Rect::from_min_max(pos2(a.left(), a.bottom() + 1.0), pos2(b.right(), a.bottom() + 13.0));
            let name = crate::theme::widgets::truncate_middle(ui, room.width(), &f.name, &small());
            ui.painter()
                .text(room.center(), Align2::CENTER_CENTER, name, small(), p.text);
        }
    }
    let under = response.interact_pointer_pos().and_then(|at| {
        let bit = (0..bits).find(|b| cell(*b).expand2(vec2(0.5, 7.0)).contains(at))?;
        Some(bit)
    });
    if let Some(bit) = under.filter(|_| response.is_pointer_button_down_on()) {
        let from = open.dragged.map_or(bit, |d| d.0);
        open.dragged = Some((from, bit));
    } else if let Some((a, b)) = open.dragged.take_if(|_| !response.is_pointer_button_down_on()) {
        let free = (a.min(b)..=a.max(b)).all(|bit| taken.get(bit as usize).copied().flatten().is_none());
        if free {
            open.form.fields.push(FieldForm::from_bits(a.min(b), a.max(b)));
            open.form.fields.sort_by_key(|f| f.bits());
            open.error = None;
        } else {
            open.error = Some("these bits belong to a field already".to_owned());
        }
    }
}
