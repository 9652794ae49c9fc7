//! A buffer as a tensor: a slice of two axes as a heat map, with the scale of its colours and the value under the
//! pointer.

use super::grid::start_editing;
use super::pixel;
use super::slice::{self, Form, TensorKey, Values};
use super::view::View;
use crate::panels::common::actions::UiActions;
use crate::theme::{Palette, field, icons, mono, mono_small, palette, small, widgets};
use egui::accesskit::Role;
use egui::{Align2, Color32, ColorImage, EventFilter, Key, Modifiers, Rect, RichText, Sense, Stroke, Ui, WidgetInfo};
use egui::{pos2, vec2};
use kinescope_files::contents::BufferContents;
use kinescope_session::tensor::{ElementOrder, Tensor};
use kinescope_session::{Document, text};
use std::sync::Arc;
use trace_core::recording::ElementType;

/// Returns the colour of a position on the scale, 0 to 1: from the panel's background by blue to the text's
/// brightness, so that more is farther from the background in both themes. Values below zero have the colour of writes
/// if zero lies inside the scale.
fn ink(p: &Palette, value: f64, low: f64, high: f64) -> Color32 {
    let mix = |a: Color32, b: Color32, t: f32| a.lerp_to_gamma(b, t.clamp(0.0, 1.0));
    let ramp = |far: f32, hue: Color32| {
        if far < 0.6 {
            mix(p.panel, hue, far / 0.6)
        } else {
            mix(hue, p.text, (far - 0.6) / 0.4)
        }
    };
    if low < 0.0 && high > 0.0 {
        let max = high.max(-low);
        let far = (value.abs() / max) as f32;
        return ramp(far, if value < 0.0 { p.write } else { p.read });
    }
    let span = high - low;
    let far = if span > 0.0 { ((value - low) / span) as f32 } else { 0.5 };
    ramp(far, p.read)
}

/// Draws the tensor of the shown buffer.
pub(super) fn ui(
    doc: &mut Document,
    view: &mut View,
    actions: &mut UiActions,
    ui: &mut Ui,
    contents: &BufferContents,
    element: ElementType,
) {
    let p = palette(ui);
    let name = contents.buffer().name.clone();
    let count = contents.buffer().bytes / element.bytes() as u64;
    let mut form = view.tensor.take().filter(|f| f.buffer == name).unwrap_or_else(|| {
        let report = doc.derived.shapes.get(&name);
        let report = report.filter(|_| element.bytes() == contents.buffer().element.bytes());
        let sides = report.cloned().or_else(|| {
            let s = view.shape_of(doc, contents.buffer(), element)?;
            Some(match (s.tiles, s.is_colour()) {
                (1, false) => vec![s.height, s.width],
                (n, false) => vec![n, s.height, s.width],
                (_, true) => vec![3, s.height, s.width],
            })
        });
        let sides = sides.filter(|s| !s.is_empty()).unwrap_or_else(|| vec![count]);
        let list: Vec<String> = sides.iter().map(u64::to_string).collect();
        Form {
            buffer: name.clone(),
            shape: list.join("×"),
            ..Form::default()
        }
    });
    let tensor = bar(&mut form, ui, count);
    let tensor = match tensor {
        Ok(t) => t,
        Err(e) => {
            ui.add(egui::Label::new(RichText::new(format!("▲ {e}")).color(p.error)).wrap());
            view.tensor = Some(form);
            return;
        }
    };
    form.slice.fit(&tensor);
    axes(&mut form, &tensor, ui);
    let key = TensorKey {
        buffer: name,
        element,
        stamp: doc.changes().stamp(&form.buffer),
        tensor,
        slice: form.slice.clone(),
    };
    match values_of(view, actions, contents, &key) {
        Some(v) => map(doc, view, &mut form, ui, contents, element, &v),
        None => {
            ui.label(RichText::new("reading the slice…").color(p.quiet));
        }
    }
    view.tensor = Some(form);
}

/// Returns the values of a slice if they are known; else reads them off the interface thread.
fn values_of(
    view: &mut View,
    actions: &mut UiActions,
    contents: &BufferContents,
    key: &TensorKey,
) -> Option<Arc<Values>> {
    if let Some(v) = view.slice.as_ref().filter(|v| v.key == *key) {
        return Some(Arc::clone(v));
    }
    if view.slicing.as_ref().is_none_or(|(k, _)| k != key) {
        if let Some((_, old)) = view.slicing.take() {
            old.cancel();
        }
        let (contents, wanted) = (contents.clone(), key.clone());
        let progress = actions.start_work::<View>(format!("reading a slice of {}", key.buffer), move |progress| {
            let made = slice::read(&contents, wanted.clone(), progress);
            Box::new(move |_, view, _| {
                if view.slicing.as_ref().is_some_and(|(k, _)| *k == wanted) {
                    view.slicing = None;
                    view.slice = made.ok().map(Arc::new);
                }
            })
        });
        view.slicing = Some((key.clone(), progress));
    }
    // The previous slice, if it has the same size, is shown until the new one is there.
    let before = view.slice.as_ref()?;
    (before.key.tensor == key.tensor && before.key.buffer == key.buffer).then(|| Arc::clone(before))
}

/// Draws shape, strides and order; returns the tensor that they describe.
fn bar(form: &mut Form, ui: &mut Ui, count: u64) -> Result<Tensor, String> {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(26.0);
        for (name, text, hint, width) in [
            ("Shape", &mut form.shape, "2×3×4", 130.0),
            ("Strides", &mut form.strides, "packed", 110.0),
        ] {
            ui.label(RichText::new(name.to_lowercase()).color(p.quiet));
            let id = egui::Id::unique(("tensor", name));
            let hint = RichText::new(hint).color(p.quiet);
            field::value(ui, id, &format!("{name} of the tensor"), text, None, |text| {
                egui::TextEdit::singleline(text)
                    .font(mono())
                    .desired_width(width)
                    .hint_text(hint)
            });
        }
    });
    if form.strides.trim().is_empty() {
        ui.horizontal(|ui| {
            for order in [ElementOrder::Rows, ElementOrder::Columns] {
                let on = form.order == order;
                let r = ui.selectable_label(on, order.label());
                r.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, on, order.label()));
                if r.clicked() {
                    form.order = order;
                }
            }
        });
    }
    Tensor::read(&form.shape, &form.strides, form.order, count)
}

/// Draws the choice of the two shown axes, and the position on the other axes.
fn axes(form: &mut Form, tensor: &Tensor, ui: &mut Ui) {
    if tensor.shape.len() < 2 {
        return;
    }
    let p = palette(ui);
    ui.horizontal_wrapped(|ui| {
        for (axis, n) in tensor.shape.iter().enumerate() {
            let now = (form.slice.down == Some(axis), form.slice.across == axis);
            let word = match now {
                (true, _) => format!("axis {axis} ↓"),
                (_, true) => format!("axis {axis} →"),
                _ => format!("axis {axis}"),
            };
            let on = now.0 || now.1;
            let r = ui.selectable_label(on, RichText::new(word).color(if on { p.text } else { p.quiet }));
            let message = match now {
                (true, _) => format!("Axis {axis} runs down"),
                (_, true) => format!("Axis {axis} runs across"),
                _ => format!("Show axis {axis}"),
            };
            r.widget_info(|| WidgetInfo::selected(Role::Button, true, on, &message));
            let r = r.on_hover_text("click to show this axis across and the current one down");
            if r.clicked() && !now.1 {
                form.slice.down = Some(form.slice.across);
                form.slice.across = axis;
                form.cell = (0, 0);
            }
            if !on && let Some(at) = form.slice.at.get_mut(axis) {
                let drag = egui::DragValue::new(at).range(0..=n - 1).suffix(format!(" of {n}"));
                ui.add(drag).accessible_name(format!("Index on axis {axis}"));
            }
        }
    });
}

fn map(
    doc: &mut Document,
    view: &mut View,
    form: &mut Form,
    ui: &mut Ui,
    contents: &BufferContents,
    element: ElementType,
    v: &Arc<Values>,
) {
    let p = palette(ui);
    let room = ui.available_size() - vec2(8.0, 52.0);
    if v.rows == 0 || v.columns == 0 || room.x < 8.0 || room.y < 8.0 {
        widgets::empty_state(ui, icons::SQUARES_FOUR, "This slice has no elements.", None);
        return;
    }
    let mut scale = (room.x / v.columns as f32).min(room.y / v.rows as f32).min(40.0);
    if scale > 2.0 {
        scale = scale.floor();
    }
    let corner = ui.cursor().min + vec2(0.0, 4.0);
    let at = Rect::from_min_size(corner, vec2(v.columns as f32 * scale, v.rows as f32 * scale));
    let id = ui.scope_id().with("tensor");
    let texture = slice_texture(ui, id, v);
    let whole = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
    ui.painter().image(texture.id(), at, whole, Color32::WHITE);
    ui.painter()
        .rect_stroke(at, 0.0, Stroke::new(1.0, p.line), egui::StrokeKind::Outside);
    let r = ui.interact(at, id.with("area"), Sense::click());
    r.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Slice of the tensor"));
    let (most_row, most_column) = (v.rows - 1, v.columns - 1);
    let (mut row, mut column) = form.cell;
    let mut chosen = false;
    if r.has_focus() {
        let moved = move_cell(ui, r.id, form.cell);
        chosen = moved.is_some();
        (row, column) = moved.unwrap_or(form.cell);
    }
    let cell_at = |q: egui::Pos2| {
        let x = ((q.x - at.left()) / scale).max(0.0) as u64;
        let y = ((q.y - at.top()) / scale).max(0.0) as u64;
        (y.min(most_row), x.min(most_column))
    };
    if let Some(q) = r.interact_pointer_pos().filter(|_| r.clicked()) {
        (row, column) = cell_at(q);
        chosen = true;
        r.request_focus();
    }
    (row, column) = (row.min(most_row), column.min(most_column));
    form.cell = (row, column);
    let cell = Rect::from_min_size(
        at.min + vec2(column as f32 * scale, row as f32 * scale),
        vec2(scale.max(2.0), scale.max(2.0)),
    );
    ui.painter()
        .rect_stroke(cell, 0.0, Stroke::new(1.5, p.edited), egui::StrokeKind::Outside);
    let element_of = |(row, column): (u64, u64)| {
        let index = v.key.slice.index(row * v.every.0, column * v.every.1);
        Some((v.key.tensor.element(&index)?, index))
    };
    let describe = |place: (u64, u64)| {
        let (n, index) = element_of(place)?;
        let value = v.list.get((place.0 * v.columns + place.1) as usize).copied().flatten();
        let index: Vec<String> = index.iter().map(u64::to_string).collect();
        let value = value.map_or_else(|| "not there".to_owned(), |x| x.to_string());
        Some(format!("[{}] = {value} · element {}", index.join(", "), text::count(n)))
    };
    if chosen && let Some((n, _)) = element_of((row, column)) {
        pixel::choose_element(doc, view, contents, element, n);
        if r.double_clicked() {
            start_editing(doc, view, contents, element, n);
        }
    }
    let under = r.hover_pos().map_or((row, column), cell_at);
    let line = describe(under).unwrap_or_default();
    legend(ui, p, v, at, &line);
    widgets::add_copy_menu(&r, &[("value under the pointer", line)]);
    ui.advance_cursor_after_rect(Rect::from_min_max(at.min, pos2(at.right(), at.bottom() + 46.0)));
}

/// Returns the image of a slice, made once for its values and the theme.
fn slice_texture(ui: &Ui, id: egui::Id, v: &Arc<Values>) -> egui::TextureHandle {
    let p = palette(ui);
    let stamp = (Arc::as_ptr(v) as usize, p.background);
    match ui.data(|d| d.get_temp::<((usize, Color32), egui::TextureHandle)>(id)) {
        Some((made, t)) if made == stamp => t,
        _ => {
            let colour = |value: &Option<f64>| match value {
                Some(n) if n.is_finite() => ink(p, *n, v.low, v.high),
                Some(_) => p.warning,
                None => p.background,
            };
            let pixels: Vec<Color32> = v.list.iter().map(colour).collect();
            let image = ColorImage::new([v.columns as usize, v.rows as usize], pixels);
            let t = ui.ctx().load_texture("tensor", image, egui::TextureOptions::NEAREST);
            ui.data_mut(|d| d.insert_temp(id, (stamp, t.clone())));
            t
        }
    }
}

/// Returns the row and column that arrow keys lead to from a cell, or `None` if none was pressed.
fn move_cell(ui: &Ui, id: egui::Id, (row, column): (u64, u64)) -> Option<(u64, u64)> {
    let filter = EventFilter {
        vertical_arrows: true,
        horizontal_arrows: true,
        ..EventFilter::default()
    };
    ui.memory_mut(|m| m.set_focus_lock_filter(id, filter));
    let pressed = |k| ui.input_mut(|i| i.consume_key(Modifiers::NONE, k));
    let (down, up) = (pressed(Key::ArrowDown), pressed(Key::ArrowUp));
    let (right, left) = (pressed(Key::ArrowRight), pressed(Key::ArrowLeft));
    if !(down || up || right || left) {
        return None;
    }
    let row = if down {
        row + 1
    } else {
        row.saturating_sub(u64::from(up))
    };
    let column = if right {
        column + 1
    } else {
        column.saturating_sub(u64::from(left))
    };
    Some((row, column))
}

/// Draws the scale of the colours, and the value under the pointer.
fn legend(ui: &Ui, p: &Palette, v: &Values, at: Rect, line: &str) {
    let bar = Rect::from_min_size(pos2(at.left(), at.bottom() + 8.0), vec2(120.0, 10.0));
    for x in 0..120 {
        let value = v.low + (v.high - v.low) * f64::from(x) / 119.0;
        let x = bar.left() + x as f32;
        let strip = Rect::from_min_max(pos2(x, bar.top()), pos2(x + 1.0, bar.bottom()));
        ui.painter().rect_filled(strip, 0.0, ink(p, value, v.low, v.high));
    }
    ui.painter()
        .rect_stroke(bar, 0.0, Stroke::new(1.0, p.line), egui::StrokeKind::Outside);
    let mut message = format!("{} … {}", text::format_short(v.low), text::format_short(v.high));
    if v.every != (1, 1) {
        message += &format!(", one in {} × {} shown", v.every.0, v.every.1);
    }
    let right = bar.right_center() + vec2(8.0, 0.0);
    ui.painter().text(right, Align2::LEFT_CENTER, message, small(), p.quiet);
    let below = pos2(at.left(), bar.bottom() + 12.0);
    ui.painter()
        .text(below, Align2::LEFT_CENTER, line, mono_small(), p.text);
}
