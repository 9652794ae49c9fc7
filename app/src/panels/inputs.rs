//! Inputs: the buffers of a recording, what is in them, and what the person makes of them.

use crate::document::changes::Change;
use crate::document::moment::Selection;
use crate::document::{Document, values, words};
use crate::theme::rows::Rows;
use crate::theme::widgets::{self, Part, paint_text};
use crate::theme::{icons, mono, palette, small, text};
use crate::window::{Asks, Pick};
use egui::accesskit::Role;
use egui::{Align2, Color32, Rect, RichText, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use std::sync::Arc;
use trace_core::recording::{Buffer, BufferRole, ElementType};

/// What the panel shows.
#[derive(Clone, Default)]
pub struct View {
    /// Name of the buffer that is shown.
    pub buffer: String,
    /// Index of the element that is edited.
    pub editing: Option<u64>,
    /// Text of the element's field.
    pub field: String,
    /// What is wrong with it.
    pub wrong: Option<String>,
    /// Elements are shown as hex.
    pub hex: bool,
    grid: Rows,
    cache: Option<Arc<Shown>>,
    focus: bool,
}

/// A buffer's content as shown, kept until the buffer or its type changes.
struct Shown {
    name: String,
    element: ElementType,
    revision: u64,
    bytes: Vec<u8>,
    edited: bool,
    changed: u64,
    range: Option<(f64, f64)>,
    picture: Option<egui::ColorImage>,
    /// Bytes that the recording does not hold.
    unknown: u64,
}

/// The buffers in the order in which they are listed: inputs, outputs, the others.
fn ordered(doc: &Document) -> Vec<Buffer> {
    let mut list = doc.recording.facts.buffers.clone();
    list.sort_by_key(|b| match b.role {
        BufferRole::Input => 0,
        BufferRole::Output => 1,
        _ => 2,
    });
    list
}

/// The buffer that is meant.
#[must_use]
pub fn meant(doc: &Document) -> Option<Buffer> {
    let name = match doc.selection() {
        Selection::Buffer(n) => n,
        _ => &doc.inputs.buffer,
    };
    doc.recording
        .buffer(name)
        .cloned()
        .or_else(|| ordered(doc).into_iter().next())
}

/// Draws the panel.
pub fn ui(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    let Some(buffer) = meant(doc) else {
        widgets::empty(
            ui,
            icons::PENCIL_SIMPLE,
            "This recording names no buffers. Nothing can be edited by name; Memory shows what there is.",
            None,
        );
        return;
    };
    if doc.inputs.buffer != buffer.name {
        doc.inputs.buffer = buffer.name.clone();
        doc.inputs.editing = None;
        doc.inputs.wrong = None;
        doc.inputs.grid = Rows::default();
    }
    let full = ui.available_rect_before_wrap();
    let left = Rect::from_min_max(full.min, pos2(full.left() + 210.0, full.bottom()));
    let right = Rect::from_min_max(pos2(left.right(), full.top()), full.max);
    ui.painter()
        .vline(right.left(), right.y_range(), Stroke::new(1.0, p.line));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(left.shrink2(vec2(12.0, 0.0))));
    egui::ScrollArea::vertical()
        .id_salt("buffers")
        .auto_shrink(false)
        .show(&mut child, |ui| buffers(doc, ui, &buffer));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(right.shrink2(vec2(12.0, 6.0))));
    content(doc, asks, &mut child, &buffer);
    ui.advance_cursor_after_rect(full);
}

fn buffers(doc: &mut Document, ui: &mut Ui, now: &Buffer) {
    let p = palette(ui);
    ui.spacing_mut().item_spacing.y = 0.0;
    for (role, title) in [
        (Some(BufferRole::Input), "Inputs"),
        (Some(BufferRole::Output), "Outputs"),
        (None, "Other buffers"),
    ] {
        let list: Vec<Buffer> = ordered(doc)
            .into_iter()
            .filter(|b| match role {
                Some(r) => b.role == r,
                None => !matches!(b.role, BufferRole::Input | BufferRole::Output),
            })
            .collect();
        if list.is_empty() {
            continue;
        }
        widgets::section(ui, title);
        for b in list {
            let edited = doc.changes().inputs().contains_key(&b.name);
            let mut left = Part::words(if edited {
                format!("● {}", b.name)
            } else {
                b.name.clone()
            });
            if edited {
                left = left.colour(p.edited);
            }
            let right = Part::mono(words::buffer_kind(doc, &b));
            let on = now.name == b.name;
            if widgets::list_row(ui, &format!("input {}", b.name), on, 0.0, left, right).clicked() {
                doc.inputs.buffer = b.name.clone();
                doc.select(Selection::Buffer(b.name));
            }
        }
    }
}

fn shown(doc: &mut Document, buffer: &Buffer) -> Option<Arc<Shown>> {
    let (element, revision) = (doc.element(buffer), doc.changes().revision());
    if let Some(c) = doc.inputs.cache.as_ref()
        && c.name == buffer.name
        && c.element == element
        && c.revision == revision
    {
        return Some(Arc::clone(c));
    }
    let (bytes, edited) = doc.buffer_now(&buffer.name)?;
    let size = element.bytes();
    let changed = if edited {
        let recorded = crate::document::derive::buffer_bytes(&doc.recording, buffer)?;
        bytes
            .chunks(size)
            .zip(recorded.chunks(size))
            .filter(|(a, b)| a != b)
            .count() as u64
    } else {
        0
    };
    let mut range: Option<(f64, f64)> = None;
    for v in bytes
        .chunks_exact(size)
        .filter_map(|c| values::element_f64(element, c))
        .filter(|v| v.is_finite())
    {
        let r = range.get_or_insert((v, v));
        *r = (r.0.min(v), r.1.max(v));
    }
    let picture = range.filter(|r| r.0 < r.1).and_then(|r| picture(&bytes, element, r));
    let unknown = crate::document::derive::memory_at(&doc.recording, buffer.address_space, 0).map_or(0, |m| {
        m.read_buffer(buffer).holes.iter().map(|h| h.0.end - h.0.start).sum()
    });
    let s = Arc::new(Shown {
        name: buffer.name.clone(),
        element,
        revision,
        bytes,
        edited,
        changed,
        range,
        picture,
        unknown,
    });
    doc.inputs.cache = Some(Arc::clone(&s));
    Some(s)
}

/// A picture of the elements where their number suggests one: a square, of one or of three channels.
fn picture(bytes: &[u8], element: ElementType, range: (f64, f64)) -> Option<egui::ColorImage> {
    let n = bytes.len() / element.bytes();
    let square = |n: usize| {
        let s = (n as f64).sqrt().round() as usize;
        (s * s == n && (4..=1024).contains(&s)).then_some(s)
    };
    let span = if range.1 > range.0 { range.1 - range.0 } else { 1.0 };
    let level = |i: usize| {
        let at = i * element.bytes();
        let v = bytes
            .get(at..)
            .and_then(|b| values::element_f64(element, b))
            .unwrap_or(0.0);
        ((v - range.0) / span * 255.0).clamp(0.0, 255.0) as u8
    };
    if let Some(s) = n.is_multiple_of(3).then(|| square(n / 3)).flatten() {
        // Planes, as the framework of the recordings at hand lays images out.
        let plane = s * s;
        let pixels = (0..plane)
            .map(|i| Color32::from_rgb(level(i), level(i + plane), level(i + 2 * plane)))
            .collect();
        return Some(egui::ColorImage::new([s, s], pixels));
    }
    let s = square(n)?;
    Some(egui::ColorImage::new(
        [s, s],
        (0..n).map(|i| Color32::from_gray(level(i))).collect(),
    ))
}

fn content(doc: &mut Document, asks: &mut Asks, ui: &mut Ui, buffer: &Buffer) {
    let p = palette(ui);
    let Some(s) = shown(doc, buffer) else {
        widgets::empty(
            ui,
            icons::WARNING,
            "This buffer's address space is not in the recording.",
            None,
        );
        return;
    };
    ui.horizontal(|ui| {
        ui.label(RichText::new(buffer.role.name()).color(p.quiet));
        let ink = if s.edited { p.edited } else { p.text };
        ui.label(
            RichText::new(&buffer.name)
                .font(crate::theme::strong())
                .size(13.0)
                .color(ink),
        );
        let told = format!("{:#x} · {}", buffer.va.0, text::bytes(buffer.bytes));
        ui.label(RichText::new(told).font(mono()).color(p.quiet));
        if s.edited {
            ui.label(RichText::new("● edited").color(p.edited));
        }
    });
    ui.horizontal(|ui| {
        if ui
            .button("Load…")
            .on_hover_text("a raw, NPY, PNG or CSV file")
            .clicked()
        {
            load(asks, buffer);
        }
        if ui.button("Save…").on_hover_text("as raw bytes or NPY").clicked() {
            save(asks, buffer, &s);
        }
        let r = ui.add_enabled(s.edited, egui::Button::new("As recorded"));
        if r.on_hover_text("throw the edits of this buffer away; undo brings them back")
            .clicked()
        {
            asks.command("revert-input");
        }
        if ui.button("Clear").on_hover_text("make every byte zero").clicked() {
            let zero = vec![0; s.bytes.len()];
            doc.edit(&buffer.name, 0, zero);
        }
        let now = doc.element(buffer);
        let mut next = now;
        let combo = egui::ComboBox::from_id_salt("element")
            .selected_text(now.name())
            .width(48.0)
            .show_ui(ui, |ui| {
                for e in ElementType::ALL {
                    ui.selectable_value(&mut next, e, e.name());
                }
            });
        combo
            .response
            .widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, "Element type"));
        if next != now {
            let name = |e: ElementType| (e != buffer.element).then(|| e.name().to_owned());
            doc.change(Change::Element {
                buffer: buffer.name.clone(),
                old: name(now),
                new: name(next),
            });
        }
        ui.checkbox(&mut doc.inputs.hex, "hex");
    });
    ui.horizontal(|ui| {
        let size = s.element.bytes() as u64;
        let n = s.bytes.len() as u64 / size;
        let range = s
            .range
            .map_or_else(|| "none".into(), |(a, b)| format!("{} … {}", short(a), short(b)));
        let told = format!("{} values, {range}", text::count(n));
        ui.label(RichText::new(told).font(small()).color(p.quiet));
        if s.unknown > 0 && !s.edited {
            let told = format!(
                "! the recording does not hold {} of it; they count as zero",
                text::bytes(s.unknown)
            );
            ui.label(RichText::new(told).font(small()).color(p.warning));
        }
        if s.edited {
            let pages = (s.bytes.len() as u64).div_ceil(4096);
            let told = format!(
                "{} of {} changed from the recording, at most {pages} pages to send",
                text::count(s.changed),
                text::count(n)
            );
            ui.label(RichText::new(told).font(small()).color(p.edited));
        }
    });
    element_field(doc, ui, buffer, &s);
    let full = ui.available_rect_before_wrap();
    let mut grid_rect = full;
    if let Some(image) = &s.picture {
        let side = (full.width() * 0.4).min(full.height() - 20.0).clamp(80.0, 280.0);
        let at = Rect::from_min_size(full.min + vec2(0.0, 4.0), vec2(side, side));
        let id = ui.scope_id().with("picture");
        let key = (s.name.clone(), s.revision, s.element.name());
        let held: Option<((String, u64, &'static str), egui::TextureHandle)> = ui.data(|d| d.get_temp(id));
        let texture = match held {
            Some((k, t)) if k == key => t,
            _ => {
                let t = ui
                    .ctx()
                    .load_texture("buffer", image.clone(), egui::TextureOptions::NEAREST);
                ui.data_mut(|d| d.insert_temp(id, (key, t.clone())));
                t
            }
        };
        let uv = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
        ui.painter().image(texture.id(), at, uv, Color32::WHITE);
        ui.painter()
            .rect_stroke(at, 0.0, Stroke::new(1.0, p.line), egui::StrokeKind::Outside);
        let r = ui.interact(at, ui.scope_id().with("picture area"), Sense::click());
        r.widget_info(|| WidgetInfo::labeled(Role::Image, true, format!("Picture of {}", s.name)));
        if let Some(q) = r.interact_pointer_pos().filter(|_| r.clicked()) {
            let w = image.size[0] as f32;
            let (x, y) = (
                ((q.x - at.left()) / side * w) as u64,
                ((q.y - at.top()) / side * w) as u64,
            );
            start_editing(doc, &s, y * image.size[0] as u64 + x);
        }
        grid_rect = Rect::from_min_max(pos2(at.right() + 14.0, full.top()), full.max);
    }
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(grid_rect));
    grid(doc, &mut child, &s, buffer);
}

fn short(v: f64) -> String {
    if v == 0.0 {
        "0".into()
    } else if v.abs() >= 1e6 || v.abs() < 1e-3 {
        format!("{v:.3e}")
    } else if v.fract() == 0.0 {
        format!("{v}")
    } else {
        format!("{v:.4}")
    }
}

fn start_editing(doc: &mut Document, s: &Shown, index: u64) {
    let size = s.element.bytes();
    let at = index as usize * size;
    let Some(b) = s.bytes.get(at..at + size) else { return };
    doc.inputs.editing = Some(index);
    doc.inputs.field = field_text(doc.inputs.hex, s.element, b);
    doc.inputs.wrong = None;
    doc.inputs.focus = true;
}

fn field_text(hex: bool, element: ElementType, b: &[u8]) -> String {
    if hex {
        b.iter().map(|x| format!("{x:02x}")).collect::<Vec<_>>().join(" ")
    } else {
        values::element_text(element, b)
    }
}

fn element_field(doc: &mut Document, ui: &mut Ui, buffer: &Buffer, s: &Shown) {
    let p = palette(ui);
    let Some(index) = doc.inputs.editing else {
        ui.label(
            RichText::new("click a value to edit it; several at once with spaces between")
                .font(small())
                .color(p.quiet),
        );
        return;
    };
    ui.horizontal(|ui| {
        ui.label(
            RichText::new(format!("[{}]", text::count(index)))
                .font(mono())
                .color(p.quiet),
        );
        let edit = egui::TextEdit::singleline(&mut doc.inputs.field)
            .font(mono())
            .desired_width(180.0);
        let r = ui.add(edit).accessible_name("Value");
        if std::mem::take(&mut doc.inputs.focus) {
            r.request_focus();
        }
        let enter = r.lost_focus() && ui.input(|i| i.key_pressed(egui::Key::Enter));
        if ui.button("Set").clicked() || enter {
            match parse_field(doc.inputs.hex, s.element, &doc.inputs.field) {
                Ok(new) => {
                    let offset = index.saturating_mul(s.element.bytes() as u64);
                    let fits = doc.edit(&buffer.name, offset, new);
                    doc.inputs.wrong = (!fits).then(|| "that reaches past the end of the buffer".into());
                }
                Err(e) => doc.inputs.wrong = Some(e),
            }
        }
        if ui.button("Cancel").clicked() {
            doc.inputs.editing = None;
        }
        if let Some(w) = &doc.inputs.wrong {
            ui.label(RichText::new(w).font(small()).color(p.error));
        }
    });
}

/// The bytes that a field's text means: hex digits, or elements with spaces between.
///
/// # Errors
/// What is wrong with it, in words.
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

fn grid(doc: &mut Document, ui: &mut Ui, s: &Shown, buffer: &Buffer) {
    let p = palette(ui);
    let size = s.element.bytes();
    let n = (s.bytes.len() / size) as u64;
    let cell_w = match (doc.inputs.hex, size) {
        (true, 1) => 28.0,
        (true, 2) => 52.0,
        (true, 4) => 92.0,
        (true, _) => 170.0,
        (false, 1) => 38.0,
        (false, 2) => 66.0,
        (false, 8) if s.element != ElementType::F64 => 164.0,
        _ => 92.0,
    };
    let fit = ((ui.available_width() - 78.0) / cell_w).floor().max(1.0) as u64;
    let columns = [32u64, 16, 8, 4, 2, 1].into_iter().find(|c| *c <= fit).unwrap_or(1);
    let mut rows = doc.inputs.grid;
    let mut start = None;
    let editing = doc.inputs.editing;
    let hex = doc.inputs.hex;
    let recorded = s
        .edited
        .then(|| crate::document::derive::memory_at(&doc.recording, buffer.address_space, 0))
        .flatten();
    rows.show(ui, "Values", n.div_ceil(columns), |ui, row, rect| {
        let y = rect.center().y;
        let at = row * columns;
        ui.painter().text(
            pos2(rect.left() + 58.0, y),
            Align2::RIGHT_CENTER,
            text::count(at),
            mono(),
            p.quiet,
        );
        let mut was = vec![0; size * columns as usize];
        let compare = recorded.as_ref().map(|m| {
            let va = trace_core::GpuVa(buffer.va.0.saturating_add(at * size as u64));
            m.read_partial(va, &mut was);
        });
        for c in 0..columns.min(n - at) {
            let index = at + c;
            let Some(b) = s.bytes.get(index as usize * size..(index as usize + 1) * size) else {
                break;
            };
            let left = rect.left() + 70.0 + c as f32 * cell_w;
            let cell = Rect::from_min_max(pos2(left, rect.top()), pos2(left + cell_w - 2.0, rect.bottom()));
            let r = ui.interact(cell, ui.scope_id().with(("value", index)), Sense::click());
            r.widget_info(|| WidgetInfo::labeled(Role::Cell, true, format!("value {index}")));
            if editing == Some(index) {
                ui.painter().rect_filled(cell, 2.0, p.selection);
            } else if r.hovered() {
                ui.painter().rect_filled(cell, 2.0, p.raised);
            }
            let edited = compare.is_some() && was.get(c as usize * size..(c as usize + 1) * size) != Some(b);
            let ink = match (edited, b.iter().all(|x| *x == 0)) {
                (true, _) => p.edited,
                (false, true) => p.poll,
                _ => p.text,
            };
            let shown = if hex {
                field_text(true, s.element, b)
            } else {
                match s.element {
                    ElementType::F16 | ElementType::F32 | ElementType::F64 => {
                        values::element_f64(s.element, b).map(short).unwrap_or_default()
                    }
                    e => values::element_text(e, b),
                }
            };
            paint_text(
                ui,
                cell.shrink2(vec2(4.0, 0.0)),
                Align2::RIGHT_CENTER,
                &shown,
                mono(),
                ink,
            );
            if r.clicked() {
                start = Some(index);
            }
        }
    });
    doc.inputs.grid = rows;
    if let Some(i) = start {
        start_editing(doc, s, i);
    }
}

fn load(asks: &mut Asks, buffer: &Buffer) {
    let buffer = buffer.clone();
    asks.pick(Pick::Buffer, move |app, ctx, path| {
        let for_task = buffer.clone();
        app.tasks.spawn(ctx, format!("loading {}", path.display()), move |_| {
            let loaded = values::load(&path, &for_task);
            Box::new(move |app| match (loaded, &mut app.doc) {
                (Ok(bytes), Some(doc)) => {
                    let taken = doc.edit(&for_task.name, 0, bytes);
                    if taken {
                        app.info(format!("{} taken into {}", path.display(), for_task.name));
                    }
                }
                (Err(e), _) => app.error("the file was not taken", &e),
                _ => {}
            })
        });
    });
}

fn save(asks: &mut Asks, buffer: &Buffer, s: &Shown) {
    let (bytes, element, name) = (s.bytes.clone(), s.element, buffer.name.clone());
    asks.pick(Pick::Save(format!("{name}.npy")), move |app, ctx, path| {
        app.tasks.spawn(ctx, format!("saving {}", path.display()), move |_| {
            let done = crate::buffers::write_file(&path, element, &bytes).map_err(|e| e.to_string());
            Box::new(move |app| match done {
                Ok(()) => app.info(format!("{name} saved as {}", path.display())),
                Err(e) => app.error("the buffer was not saved", &e),
            })
        });
    });
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

    #[test]
    fn squares_of_one_and_of_three_channels_are_pictures() {
        let f = |n: usize| vec![0u8; n];
        assert_eq!(
            picture(&f(64), ElementType::U8, (0.0, 1.0)).map(|i| i.size),
            Some([8, 8])
        );
        assert_eq!(
            picture(&f(227 * 227 * 3 * 4), ElementType::F32, (0.0, 1.0)).map(|i| i.size),
            Some([227, 227])
        );
        assert!(picture(&f(1008 * 4), ElementType::F32, (0.0, 1.0)).is_none());
    }
}
