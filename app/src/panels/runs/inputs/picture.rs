//! The values of a buffer as a picture that can be painted on.

use super::grid::start_editing;
use super::pixel;
use super::shape::{self, Shape};
use super::summary::Summary;
use super::view::{Brush, View};
use crate::theme::{icons, mono_small, palette, widgets};
use egui::accesskit::Role;
use egui::{Color32, ColorImage, Rect, Response, RichText, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_files::changes::Piece;
use kinescope_files::contents::BufferContents;
use kinescope_files::values;
use kinescope_session::{Document, text};
use std::sync::Arc;
use trace_core::recording::ElementType;

/// Draws the controls for the picture's shape, and the brush. `refusal` says why the user may not paint.
pub fn shape_bar(
    view: &mut View,
    ui: &mut Ui,
    s: &Summary,
    count: u64,
    shapes: &[Shape],
    refusal: Option<&'static str>,
) {
    let may = refusal.is_none();
    let painting = view.brush.is_some();
    let bar = |ui: &mut Ui| {
        let now = s.key.shape;
        let mut next = view
            .shape
            .clone()
            .filter(|(n, _)| *n == s.key.name)
            .map(|(_, s)| s)
            .or(now);
        let combo = egui::ComboBox::from_id_salt("shape")
            .selected_text(next.map_or_else(|| "rows of…".into(), |s| s.name()))
            .width(if painting { 96.0 } else { 130.0 })
            .truncate()
            .height(340.0)
            .show_ui(ui, |ui| {
                for shape in shapes {
                    ui.selectable_value(&mut next, Some(*shape), shape.name());
                }
                for width in [16, 32, 64, 256, 1024].into_iter().filter(|w| *w < count) {
                    let rows = shape::rows(count, width);
                    ui.selectable_value(&mut next, Some(rows), format!("rows of {width}"));
                }
            });
        combo
            .response
            .widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, "Shape of the picture"));
        if let Some(shape) = next.filter(|n| Some(*n) != now) {
            view.shape = Some((s.key.name.clone(), shape));
        }
        let paint = ui.add_enabled_ui(may, |ui| ui.selectable_label(painting, "Paint"));
        let r = paint.inner;
        r.widget_info(|| WidgetInfo::selected(Role::Button, may, painting, "Paint"));
        if r.on_hover_text("drag over the picture to paint, or with the right button to erase; a stroke is one change")
            .on_disabled_hover_text(refusal.unwrap_or_default())
            .clicked()
        {
            view.chosen = true;
            view.brush = (!painting).then_some(Brush::for_value(s.levels().1));
        }
        let colour = now.is_some_and(|s| s.is_colour());
        if let Some(b) = &mut view.brush {
            if colour {
                ui.color_edit_button_srgb(&mut b.colour);
            } else {
                let (lo, hi) = s.levels();
                let r = ui.add(
                    egui::DragValue::new(&mut b.value)
                        .speed((hi - lo) / 100.0)
                        .max_decimals(4),
                );
                r.widget_info(|| WidgetInfo::labeled(Role::SpinButton, true, "Brush value"));
            }
            let r = ui.add(egui::DragValue::new(&mut b.size).range(1..=32).suffix(" px"));
            r.widget_info(|| WidgetInfo::labeled(Role::SpinButton, true, "Brush size"));
        }
    };
    // The brush moves to a line of its own if it does not fit.
    ui.horizontal_wrapped(bar);
}

/// Size of a pixel on the screen, points, from which lines separate the pixels.
const PIXELS_APART: f32 = 10.0;

/// Where a picture is drawn: its area, the size of a pixel on the screen, points, and its size in pixels.
#[derive(Clone, Copy)]
struct Placement {
    at: Rect,
    scale: f32,
    size: [u64; 2],
}

impl Placement {
    /// Returns the placement of a picture of this shape in the rest of `ui`.
    fn new(ui: &Ui, shape: &Shape) -> Self {
        let [w, h] = shape.size();
        // Leaves room for the frame of the focus.
        let room = ui.available_size() - vec2(8.0, 8.0);
        let mut scale = (room.x / w as f32).min(room.y / h as f32).max(0.01);
        if scale > 2.0 {
            scale = scale.floor();
        }
        let corner = ui.cursor().min + vec2(3.0, 4.0);
        Self {
            at: Rect::from_min_size(corner, vec2(w as f32 * scale, h as f32 * scale)),
            scale,
            size: [w, h],
        }
    }

    /// Returns the pixel at a position, or `None` outside the picture.
    fn pixel_at(&self, q: egui::Pos2) -> Option<[u64; 2]> {
        let (x, y) = ((q.x - self.at.left()) / self.scale, (q.y - self.at.top()) / self.scale);
        let [w, h] = self.size;
        (x >= 0.0 && y >= 0.0 && x < w as f32 && y < h as f32).then_some([x as u64, y as u64])
    }

    /// Returns the area of a pixel.
    fn cell(&self, [x, y]: [u64; 2]) -> Rect {
        let corner = self.at.min + vec2(x as f32 * self.scale, y as f32 * self.scale);
        Rect::from_min_size(corner, vec2(self.scale, self.scale))
    }
}

/// Draws the picture and acts on it: a click selects a pixel, a double-click edits it, a brush paints.
pub fn picture(
    doc: &mut Document,
    view: &mut View,
    ui: &mut Ui,
    contents: &BufferContents,
    element: ElementType,
    s: &Arc<Summary>,
) {
    let p = palette(ui);
    let (Some(shape), Some((image, every))) = (s.key.shape, &s.picture) else {
        widgets::empty_state(ui, icons::SQUARES_FOUR, "Choose how many values make a row.", None);
        return;
    };
    let place = Placement::new(ui, &shape);
    draw_image(ui, place, s, image, *every);
    let painter = ui.painter().clone();
    let r = ui.interact(place.at, ui.scope_id().with("picture area"), Sense::click_and_drag());
    r.widget_info(|| WidgetInfo::labeled(Role::Image, true, format!("Picture of {}", s.key.name)));
    let mut chosen = None;
    if r.has_focus() {
        let frame = place.at.expand(2.0);
        painter.rect_stroke(frame, 0.0, Stroke::new(1.0, p.read), egui::StrokeKind::Outside);
        let now = view.seen.and_then(|i| shape.pixel(i));
        chosen = pixel::keys(ui, &r, &shape, now);
    }
    // With the brush, a click paints; then Ctrl-click selects.
    let selects = view.brush.is_none() || ui.input(|i| i.modifiers.command);
    if r.clicked() {
        r.request_focus();
        let under = r.interact_pointer_pos().and_then(|q| place.pixel_at(q));
        chosen = chosen.or(under.filter(|_| selects).map(pixel::PixelCommand::Pixel));
    }
    if let Some(pixel::PixelCommand::Pixel(px)) = chosen {
        pixel::choose(doc, view, contents, element, &shape, px);
    }
    // The second click selects a pixel too, so the edited pixel is the one that it chose.
    let edits = chosen == Some(pixel::PixelCommand::Edit) || r.double_clicked() && view.brush.is_none();
    if let Some(i) = view.seen.filter(|_| edits) {
        view.reveal = Some(i);
        start_editing(doc, view, contents, element, i);
    }
    if let Some(i) = view.seen.and_then(|i| shape.pixel(i)) {
        let mark = place.cell(i).expand(1.0);
        painter.rect_stroke(mark, 0.0, Stroke::new(1.5, p.edited), egui::StrokeKind::Outside);
    }
    if let Some(brush) = view.brush {
        let levels = s.levels();
        let (brush, ended) = follow_brush(view, ui, &r, place, &shape, (brush, levels), selects);
        if ended {
            stroke_ends(doc, view, contents, element, &shape, (brush, levels));
        }
        draw_brush(view, ui, &r, place, brush, brush_ink(brush, &shape, levels));
    }
    if let Some([x, y]) = r.hover_pos().and_then(|q| place.pixel_at(q))
        && let Some(e) = shape.elements(x, y)
    {
        let message = pixel_text(contents, element, &shape, [x, y], e);
        r.on_hover_text_at_pointer(RichText::new(message).font(mono_small()));
    }
}

/// Draws the pixels, their frame, and lines between large pixels. `every`: pixels of the picture for one of the image.
fn draw_image(ui: &Ui, place: Placement, s: &Arc<Summary>, image: &ColorImage, every: u64) {
    let p = palette(ui);
    let Placement {
        at,
        scale,
        size: [w, h],
    } = place;
    let id = ui.scope_id().with("picture");
    let texture = match ui.data(|d| d.get_temp::<(usize, egui::TextureHandle)>(id)) {
        Some((made, t)) if made == Arc::as_ptr(s) as usize => t,
        _ => {
            let t = ui
                .ctx()
                .load_texture("buffer", image.clone(), egui::TextureOptions::NEAREST);
            ui.data_mut(|d| d.insert_temp(id, (Arc::as_ptr(s) as usize, t.clone())));
            t
        }
    };
    let painter = ui.painter();
    painter.rect_filled(at, 0.0, p.background);
    let (iw, ih) = (image.size[0] as f32 * every as f32, image.size[1] as f32 * every as f32);
    let uv = Rect::from_min_max(pos2(0.0, 0.0), pos2(w as f32 / iw, h as f32 / ih));
    painter.image(texture.id(), at, uv, Color32::WHITE);
    painter.rect_stroke(at, 0.0, Stroke::new(1.0, p.line), egui::StrokeKind::Outside);
    if scale >= PIXELS_APART {
        for x in 1..w {
            painter.vline(at.left() + x as f32 * scale, at.y_range(), Stroke::new(1.0, p.line));
        }
        for y in 1..h {
            painter.hline(at.x_range(), at.top() + y as f32 * scale, Stroke::new(1.0, p.line));
        }
    }
}

/// Adds what the pointer painted since the last frame to the stroke. Returns the brush, which may erase, and whether
/// the stroke ended.
fn follow_brush(
    view: &mut View,
    ui: &Ui,
    r: &Response,
    place: Placement,
    shape: &Shape,
    (mut brush, levels): (Brush, (f64, f64)),
    selects: bool,
) -> (Brush, bool) {
    let held = r.is_pointer_button_down_on();
    // A stroke may start and end, or start and move, between two frames.
    let touched = view.last.is_none() && (r.clicked() || r.secondary_clicked() || r.drag_stopped());
    let paints = !selects || !view.stroke.is_empty();
    let down = (paints && (held || touched))
        .then(|| r.interact_pointer_pos())
        .flatten();
    if let Some(q) = down {
        if view.stroke.is_empty() {
            view.erases = ui.input(|i| i.pointer.secondary_down() || i.pointer.secondary_released());
        }
        let begun = ui.input(|i| i.events.iter().find_map(|e| pressed_at(e, place.at)));
        let from = view.last.replace(q).or(begun).unwrap_or(q);
        // The pointer is assumed to move straight between two frames.
        let steps = ((q - from).length() / place.scale).ceil().clamp(1.0, 4096.0);
        for n in 0..=steps as u32 {
            if let Some(px) = place.pixel_at(from + (q - from) * (n as f32 / steps)) {
                dab(view, shape, px, brush.size);
            }
        }
    }
    if view.erases && (down.is_some() || !view.stroke.is_empty()) {
        (brush.value, brush.colour) = (levels.0, [0; 3]);
    }
    let ended = (!held || down.is_none()) && (!view.stroke.is_empty() || view.last.is_some());
    (brush, ended)
}

/// Draws the current stroke, and the outline of the brush under the pointer.
fn draw_brush(view: &View, ui: &Ui, r: &Response, place: Placement, brush: Brush, ink: Color32) {
    let painter = ui.painter();
    for px in &view.stroke {
        painter.rect_filled(place.cell(*px), 0.0, ink);
    }
    if let Some(q) = r.hover_pos().and_then(|q| place.pixel_at(q)) {
        let half = u64::from(brush.size) / 2;
        let a = place.cell([q[0].saturating_sub(half), q[1].saturating_sub(half)]);
        let side = brush.size as f32 * place.scale;
        let outline = Rect::from_min_size(a.min, vec2(side, side));
        let ink = palette(ui).edited;
        painter.rect_stroke(outline, 0.0, Stroke::new(1.0, ink), egui::StrokeKind::Outside);
    }
}

/// Returns where a button was pressed within an area.
fn pressed_at(event: &egui::Event, area: Rect) -> Option<egui::Pos2> {
    match event {
        egui::Event::PointerButton { pos, pressed: true, .. } if area.contains(*pos) => Some(*pos),
        _ => None,
    }
}

fn pixel_text(contents: &BufferContents, element: ElementType, shape: &Shape, [x, y]: [u64; 2], e: [u64; 3]) -> String {
    let size = element.bytes();
    let value = |i: u64| values::format_element(element, &contents.part(i.saturating_mul(size as u64), size));
    let list = if shape.is_colour() { &e[..] } else { &e[..1] };
    let messages: Vec<String> = list.iter().map(|i| value(*i)).collect();
    format!("{x}, {y} · [{}] {}", text::count(e[0]), messages.join(" "))
}

fn dab(view: &mut View, shape: &Shape, [x, y]: [u64; 2], size: u32) {
    let (half, size) = (u64::from(size) / 2, u64::from(size));
    for dy in 0..size {
        for dx in 0..size {
            let px = (x + dx).checked_sub(half).zip((y + dy).checked_sub(half));
            if let Some((x, y)) = px.filter(|(x, y)| shape.elements(*x, *y).is_some()) {
                view.stroke.insert([x, y]);
            }
        }
    }
}

fn brush_values(brush: Brush, shape: &Shape, (lo, hi): (f64, f64)) -> [f64; 3] {
    if shape.is_colour() {
        brush.colour.map(|c| lo + (hi - lo) * f64::from(c) / 255.0)
    } else {
        [brush.value; 3]
    }
}

fn brush_ink(brush: Brush, shape: &Shape, (lo, hi): (f64, f64)) -> Color32 {
    if shape.is_colour() {
        let [r, g, b] = brush.colour;
        return Color32::from_rgb(r, g, b);
    }
    Color32::from_gray(((brush.value - lo) / (hi - lo) * 255.0).clamp(0.0, 255.0) as u8)
}

/// Applies the stroke to the buffer, as one change.
fn stroke_ends(
    doc: &mut Document,
    view: &mut View,
    contents: &BufferContents,
    element: ElementType,
    shape: &Shape,
    (brush, levels): (Brush, (f64, f64)),
) {
    view.last = None;
    let stroke = std::mem::take(&mut view.stroke);
    let v = brush_values(brush, shape, levels);
    let size = element.bytes() as u64;
    let channels = if shape.is_colour() { 3 } else { 1 };
    let mut new = std::collections::BTreeMap::new();
    for [x, y] in stroke {
        let Some(e) = shape.elements(x, y) else { continue };
        for (index, value) in e.into_iter().zip(v).take(channels) {
            let offset = index.saturating_mul(size);
            if offset.saturating_add(size) <= contents.buffer().bytes {
                new.insert(offset, values::element_bytes(element, value));
            }
        }
    }
    // Neighbours are merged to one piece.
    let mut pieces: Vec<(u64, Vec<u8>)> = Vec::new();
    let painted = new.len();
    for (offset, bytes) in new {
        match pieces.last_mut() {
            Some((from, run)) if *from + run.len() as u64 == offset => run.extend(bytes),
            _ => pieces.push((offset, bytes)),
        }
    }
    let name = contents.buffer().name.clone();
    let title = format!("paint {} values of {name}", text::count(painted as u64));
    let pieces: Vec<Piece> = pieces
        .into_iter()
        .map(|(offset, new)| Piece {
            offset,
            new: new.into(),
        })
        .collect();
    if !pieces.is_empty() {
        doc.edit_pieces(&name, title, pieces);
    }
}
