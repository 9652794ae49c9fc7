//! The elements as a table of numbers or hex digits, and the field that edits them.

use super::pixel;
use super::view::View;
use crate::theme::widgets::paint_text;
use crate::theme::{field, focus, mono, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Sense, Ui, WidgetInfo, pos2, vec2};
use kinescope_files::contents::BufferContents;
use kinescope_files::scene::Selection;
use kinescope_files::values;
use kinescope_session::{Document, text};
use trace_core::recording::ElementType;

fn format_element(hex: bool, element: ElementType, b: &[u8]) -> String {
    if hex {
        return field_text(true, element, b);
    }
    if element.is_float() {
        values::element_f64(element, b)
            .map(text::format_short)
            .unwrap_or_default()
    } else {
        values::format_element(element, b)
    }
}

fn field_text(hex: bool, element: ElementType, b: &[u8]) -> String {
    if hex {
        b.iter().map(|x| format!("{x:02x}")).collect::<Vec<_>>().join(" ")
    } else {
        values::format_element(element, b)
    }
}

/// Puts an element in the field and selects its bytes everywhere.
pub fn start_editing(doc: &mut Document, view: &mut View, contents: &BufferContents, element: ElementType, index: u64) {
    let size = element.bytes();
    let Some(offset) = index.checked_mul(size as u64) else {
        return;
    };
    let b = contents.part(offset, size);
    if b.len() != size {
        return;
    }
    if !contents.is_editable() {
        pixel::choose_element(doc, view, contents, element, index);
        return;
    }
    view.editing = Some(index);
    view.field = field_text(view.hex, element, &b);
    view.was.clone_from(&view.field);
    view.wrong = None;
    view.focus = true;
    view.seen = Some(index);
    let buffer = contents.buffer();
    doc.select(Selection::Memory {
        space: buffer.address_space,
        va: contents.address_of(offset).unwrap_or(buffer.va),
        bytes: size as u64,
    });
    view.seen_jump = doc.jumps;
}

/// Draws the field of the element that is edited.
pub fn editor(doc: &mut Document, view: &mut View, ui: &mut Ui, contents: &BufferContents, element: ElementType) {
    let p = palette(ui);
    let Some(index) = view.editing else {
        ui.horizontal(|ui| {
            ui.set_height(24.0);
            let message = match doc.edit_obstacle() {
                Some(obstacle) => obstacle,
                None if contents.is_editable() => "Click a value to edit it; separate several values with spaces.",
                None => "A replay computes these values: edit an input and replay.",
            };
            ui.label(RichText::new(message).font(small()).color(p.quiet));
        });
        return;
    };
    let id = egui::Id::unique("value of an element");
    if follow(view, contents, element, index) && ui.memory(|m| m.has_focus(id)) {
        view.focus = true;
    }
    ui.horizontal(|ui| {
        ui.set_height(24.0);
        let place = format!("[{}]", text::count(index));
        ui.label(RichText::new(place).font(mono()).color(p.quiet));
        let ink = view.wrong.as_ref().map(|_| p.error);
        let r = field::value(ui, id, "Value", &mut view.field, Some(&view.was), |text| {
            let edit = egui::TextEdit::singleline(text).font(mono()).desired_width(160.0);
            edit.text_color_opt(ink)
        });
        if r.response.changed() {
            view.wrong = None;
        }
        if r.escape {
            view.editing = None;
            view.wrong = None;
        }
        let set = ui
            .button("Set")
            .on_hover_text("Enter sets it and goes to the next")
            .clicked();
        if set || r.enter {
            // The keyboard stays here, whether the text is right or wrong.
            view.focus = true;
            match parse_field(view.hex, element, &view.field) {
                Ok(new) => {
                    let offset = index.saturating_mul(element.bytes() as u64);
                    let written = (new.len() / element.bytes()).max(1) as u64;
                    let fits = doc.edit(&contents.buffer().name, offset, new);
                    view.wrong =
                        (!fits).then(|| "the values reach past the end of the buffer: write fewer values".into());
                    if let Some(now) = doc.contents(&contents.buffer().name).filter(|_| fits) {
                        let next = index.saturating_add(if r.enter { written } else { 0 });
                        view.field.clone_from(&view.was);
                        start_editing(doc, view, &now, element, next);
                    }
                }
                Err(e) => view.wrong = Some(e),
            }
        }
        if ui.button("Done").clicked() {
            view.editing = None;
            view.wrong = None;
        }
        if std::mem::take(&mut view.focus) && view.editing.is_some() {
            r.select_all();
        }
        if let Some(w) = &view.wrong {
            let rich_text = RichText::new(format!("▲ {w}")).font(small()).color(p.error);
            ui.add(egui::Label::new(rich_text).truncate()).on_hover_text(w);
        }
    });
}

/// Keeps the field at its element while nothing is typed: undo, or an edit made elsewhere, may change the element.
/// Returns `true` if the field shows something else now.
fn follow(view: &mut View, contents: &BufferContents, element: ElementType, index: u64) -> bool {
    let size = element.bytes();
    let Some(offset) = index.checked_mul(size as u64) else {
        return false;
    };
    let now = field_text(view.hex, element, &contents.part(offset, size));
    if now == view.was {
        return false;
    }
    let follows = view.field == view.was;
    if follows {
        view.field.clone_from(&now);
    }
    view.was = now;
    follows
}

/// Parses a field's text to bytes: hex digits, or elements with spaces between.
///
/// # Errors
/// Returns a message if the text is invalid.
pub fn parse_field(hex: bool, element: ElementType, field: &str) -> Result<Vec<u8>, String> {
    if hex {
        return values::parse_hex(field)
            .filter(|b| !b.is_empty())
            .ok_or_else(|| "write whole bytes as hex digits".into());
    }
    let mut out = Vec::new();
    for word in field.split([' ', ',', '\t']).filter(|w| !w.is_empty()) {
        out.extend(values::parse_element(element, word)?);
    }
    if out.is_empty() {
        Err("write a value".into())
    } else {
        Ok(out)
    }
}

fn cell_width(hex: bool, element: ElementType) -> f32 {
    match (hex, element.bytes()) {
        (true, 1) => 28.0,
        (true, 2) => 52.0,
        (true, 4) => 92.0,
        (true, _) => 180.0,
        (false, 1) => 38.0,
        (false, 2) => 66.0,
        (false, 8) if element != ElementType::F64 => 164.0,
        _ => 86.0,
    }
}

/// Draws the table. Reads only the rows in view.
pub fn table(doc: &mut Document, view: &mut View, ui: &mut Ui, contents: &BufferContents, element: ElementType) {
    let p = palette(ui);
    let size = element.bytes();
    let n = contents.buffer().bytes / size as u64;
    let (hex, editing, seen) = (view.hex, view.editing, view.seen);
    let cell_w = cell_width(hex, element);
    let digits = text::count(n.saturating_sub(1)).chars().count() as f32;
    let gutter = (digits * 7.4 + 14.0).max(40.0);
    let fit = ((ui.available_width() - gutter - 16.0) / cell_w).floor().max(1.0) as u64;
    let columns = [32u64, 16, 8, 4, 2, 1].into_iter().find(|c| *c <= fit).unwrap_or(1);
    let mut rows = view.grid;
    if let Some(i) = view.reveal.take() {
        rows.reveal(i / columns);
    }
    let mut start = None;
    let edited = contents.edited().is_some();
    rows.show(ui, "Values", n.div_ceil(columns), |ui, row, rect| {
        let y = rect.center().y;
        let at = row * columns;
        let place = pos2(rect.left() + gutter - 8.0, y);
        ui.painter()
            .text(place, Align2::RIGHT_CENTER, text::count(at), mono(), p.quiet);
        let (offset, len) = (at * size as u64, columns.min(n - at) as usize * size);
        let bytes = contents.part(offset, len);
        let mut was = Vec::new();
        if edited {
            was.resize(len, 0);
            contents.read_recorded(offset, &mut was);
        }
        for (c, b) in bytes.chunks_exact(size).enumerate() {
            let index = at + c as u64;
            let left = rect.left() + gutter + c as f32 * cell_w;
            let cell = Rect::from_min_max(pos2(left, rect.top()), pos2(left + cell_w - 2.0, rect.bottom()));
            let id = ui.scope_id().with(("value", index));
            // Tab stops only at the first value of a row; the editor takes several values with spaces between.
            let r = match c {
                0 => focus::row_response(ui, cell, id),
                _ => ui.interact(cell, id, Sense::CLICK),
            };
            r.widget_info(|| WidgetInfo::labeled(Role::Cell, true, format!("value {index}")));
            if editing == Some(index) || seen == Some(index) {
                ui.painter().rect_filled(cell, 2.0, p.selection);
            } else if r.hovered() {
                ui.painter().rect_filled(cell, 2.0, p.raised);
            }
            let old = was.get(c * size..(c + 1) * size).filter(|o| *o != b);
            let ink = match (old, b.iter().all(|x| *x == 0)) {
                (Some(_), _) => p.edited,
                (None, true) => p.quiet,
                _ => p.text,
            };
            let inner = cell.shrink2(vec2(4.0, 0.0));
            paint_text(
                ui,
                inner,
                Align2::RIGHT_CENTER,
                &format_element(hex, element, b),
                mono(),
                ink,
            );
            if r.clicked() {
                start = Some(index);
            }
            if r.hovered() {
                let now = values::format_element(element, b);
                let message = old.map_or_else(
                    || format!("[{}] {now}", text::count(index)),
                    |o| {
                        format!(
                            "[{}] {now}, recorded {}",
                            text::count(index),
                            values::format_element(element, o)
                        )
                    },
                );
                r.on_hover_text(message);
            }
        }
    });
    view.grid = rows;
    if let Some(i) = start {
        start_editing(doc, view, contents, element, i);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_holds_one_value_or_several_or_bytes() {
        assert_eq!(
            parse_field(false, ElementType::U16, "1 0x2,3").unwrap(),
            [1, 0, 2, 0, 3, 0]
        );
        assert_eq!(parse_field(true, ElementType::U16, "0a0b").unwrap(), [10, 11]);
        assert!(parse_field(false, ElementType::U8, "").is_err());
        assert!(parse_field(true, ElementType::U8, "0").is_err());
    }
}
