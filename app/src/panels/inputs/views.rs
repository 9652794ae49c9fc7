//! The values of a buffer beside the table: as a picture that can be painted on, as a plot, as a histogram.

use super::grid::{short, start_editing};
use super::shape::{self, Shape};
use super::summary::{BARS, Summary};
use super::{Brush, Show};
use crate::document::changes::Piece;
use crate::document::contents::Contents;
use crate::document::{Document, values};
use crate::theme::{mono_small, palette, small, text, widgets};
use egui::accesskit::Role;
use egui::{Color32, Rect, RichText, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use egui_plot::{Bar, BarChart, GridMark, HoverPosition, Line, Plot, PlotPoints, VLine};
use std::sync::Arc;
use trace_core::recording::ElementType;

/// Draws the view that was chosen, with what chooses it.
pub fn ui(doc: &mut Document, ui: &mut Ui, contents: &Contents, element: ElementType, s: &Arc<Summary>) {
    let count = contents.buffer().bytes / element.bytes() as u64;
    let shapes = shape::candidates(count);
    let show = doc
        .inputs
        .show
        .unwrap_or(if shapes.is_empty() { Show::Plot } else { Show::Picture });
    ui.horizontal(|ui| {
        ui.set_height(24.0);
        ui.spacing_mut().item_spacing.x = 2.0;
        for (which, word) in [
            (Show::Picture, "Picture"),
            (Show::Plot, "Plot"),
            (Show::Histogram, "Histogram"),
        ] {
            let r = ui.selectable_label(show == which, word);
            r.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, show == which, format!("Values as {word}")));
            if r.clicked() {
                doc.inputs.show = Some(which);
            }
        }
    });
    match show {
        Show::Picture => {
            shape_bar(doc, ui, s, count, &shapes);
            picture(doc, ui, contents, element, s);
        }
        Show::Plot => plot(doc, ui, contents, element, s),
        Show::Histogram => histogram(ui, s),
    }
}

fn shape_bar(doc: &mut Document, ui: &mut Ui, s: &Summary, count: u64, shapes: &[Shape]) {
    let p = palette(ui);
    let painting = doc.inputs.brush.is_some();
    let mut bar = |ui: &mut Ui| {
        let now = s.key.shape;
        let mut next = doc
            .inputs
            .shape
            .clone()
            .filter(|(n, _)| *n == s.key.name)
            .map(|(_, s)| s)
            .or(now);
        let combo = egui::ComboBox::from_id_salt("shape")
            .selected_text(next.map_or_else(|| "rows of…".into(), |s| s.name()))
            .width(130.0)
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
            doc.inputs.shape = Some((s.key.name.clone(), shape));
        }
        let r = ui.selectable_label(painting, "Paint");
        r.widget_info(|| WidgetInfo::selected(Role::Button, true, painting, "Paint"));
        if r.on_hover_text("drag over the picture; a stroke is one change")
            .clicked()
        {
            let (_, hi) = s.levels();
            doc.inputs.brush = (!painting).then_some(Brush {
                value: hi,
                colour: [255; 3],
                size: 1,
            });
        }
        let colour = now.is_some_and(|s| s.colour());
        if let Some(b) = &mut doc.inputs.brush {
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
        } else {
            let told = format!("{} … {}", short(s.levels().0), short(s.levels().1));
            ui.label(RichText::new(told).font(small()).color(p.quiet));
        }
    };
    if painting {
        // The brush goes to a line of its own where it does not fit.
        ui.horizontal_wrapped(bar);
    } else {
        ui.horizontal(|ui| {
            ui.set_height(24.0);
            bar(ui);
        });
    }
}

fn picture(doc: &mut Document, ui: &mut Ui, contents: &Contents, element: ElementType, s: &Arc<Summary>) {
    let p = palette(ui);
    let (Some(shape), Some((image, every))) = (s.key.shape, &s.picture) else {
        widgets::empty(
            ui,
            crate::theme::icons::SQUARES_FOUR,
            "Choose how many values make a row.",
            None,
        );
        return;
    };
    let [w, h] = shape.size();
    let room = ui.available_size() - vec2(4.0, 6.0);
    let mut scale = (room.x / w as f32).min(room.y / h as f32).max(0.01);
    if scale > 2.0 {
        scale = scale.floor();
    }
    let corner = ui.cursor().min + vec2(0.0, 4.0);
    let at = Rect::from_min_size(corner, vec2(w as f32 * scale, h as f32 * scale));
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
    let painter = ui.painter().clone();
    painter.rect_filled(at, 0.0, p.background);
    let (iw, ih) = (
        image.size[0] as f32 * *every as f32,
        image.size[1] as f32 * *every as f32,
    );
    let uv = Rect::from_min_max(pos2(0.0, 0.0), pos2(w as f32 / iw, h as f32 / ih));
    painter.image(texture.id(), at, uv, Color32::WHITE);
    painter.rect_stroke(at, 0.0, Stroke::new(1.0, p.line), egui::StrokeKind::Outside);
    let r = ui.interact(at, ui.scope_id().with("picture area"), Sense::click_and_drag());
    r.widget_info(|| WidgetInfo::labeled(Role::Image, true, format!("Picture of {}", s.key.name)));
    let pixel = |q: egui::Pos2| {
        let (x, y) = ((q.x - at.left()) / scale, (q.y - at.top()) / scale);
        (x >= 0.0 && y >= 0.0 && x < w as f32 && y < h as f32).then_some([x as u64, y as u64])
    };
    let cell = |[x, y]: [u64; 2]| {
        let corner = at.min + vec2(x as f32 * scale, y as f32 * scale);
        Rect::from_min_size(corner, vec2(scale, scale))
    };
    if let Some(i) = doc.inputs.seen.and_then(|i| shape.pixel(i)) {
        painter.rect_stroke(
            cell(i).expand(1.0),
            0.0,
            Stroke::new(1.5, p.edited),
            egui::StrokeKind::Outside,
        );
    }
    if let Some(brush) = doc.inputs.brush {
        let down = r
            .is_pointer_button_down_on()
            .then(|| r.interact_pointer_pos())
            .flatten();
        if let Some(q) = down {
            let from = doc.inputs.last.replace(q).unwrap_or(q);
            // Between two frames the pointer went straight.
            let steps = ((q - from).length() / scale).ceil().clamp(1.0, 4096.0);
            for n in 0..=steps as u32 {
                if let Some(px) = pixel(from + (q - from) * (n as f32 / steps)) {
                    dab(doc, &shape, px, brush.size);
                }
            }
        } else if !doc.inputs.stroke.is_empty() || doc.inputs.last.is_some() {
            stroke_ends(doc, contents, element, &shape, brush, s.levels());
        }
        let ink = brush_ink(brush, &shape, s.levels());
        for px in &doc.inputs.stroke {
            painter.rect_filled(cell(*px), 0.0, ink);
        }
        if let Some(q) = r.hover_pos().and_then(pixel) {
            let half = u64::from(brush.size) / 2;
            let a = cell([q[0].saturating_sub(half), q[1].saturating_sub(half)]);
            let side = brush.size as f32 * scale;
            let outline = Rect::from_min_size(a.min, vec2(side, side));
            painter.rect_stroke(outline, 0.0, Stroke::new(1.0, p.edited), egui::StrokeKind::Outside);
        }
    } else if r.clicked()
        && let Some(e) = r
            .interact_pointer_pos()
            .and_then(pixel)
            .and_then(|[x, y]| shape.elements(x, y))
    {
        doc.inputs.reveal = Some(e[0]);
        start_editing(doc, contents, element, e[0]);
    }
    if let Some([x, y]) = r.hover_pos().and_then(pixel)
        && let Some(e) = shape.elements(x, y)
    {
        let told = pixel_text(contents, element, &shape, [x, y], e);
        r.on_hover_text_at_pointer(RichText::new(told).font(mono_small()));
    }
}

fn pixel_text(contents: &Contents, element: ElementType, shape: &Shape, [x, y]: [u64; 2], e: [u64; 3]) -> String {
    let size = element.bytes();
    let value = |i: u64| values::element_text(element, &contents.part(i.saturating_mul(size as u64), size));
    let list = if shape.colour() { &e[..] } else { &e[..1] };
    let told: Vec<String> = list.iter().map(|i| value(*i)).collect();
    format!("{x}, {y} · [{}] {}", text::count(e[0]), told.join(" "))
}

fn dab(doc: &mut Document, shape: &Shape, [x, y]: [u64; 2], size: u32) {
    let (half, size) = (u64::from(size) / 2, u64::from(size));
    for dy in 0..size {
        for dx in 0..size {
            let px = (x + dx).checked_sub(half).zip((y + dy).checked_sub(half));
            if let Some((x, y)) = px.filter(|(x, y)| shape.elements(*x, *y).is_some()) {
                doc.inputs.stroke.insert([x, y]);
            }
        }
    }
}

fn brush_values(brush: Brush, shape: &Shape, (lo, hi): (f64, f64)) -> [f64; 3] {
    if shape.colour() {
        brush.colour.map(|c| lo + (hi - lo) * f64::from(c) / 255.0)
    } else {
        [brush.value; 3]
    }
}

fn brush_ink(brush: Brush, shape: &Shape, (lo, hi): (f64, f64)) -> Color32 {
    if shape.colour() {
        let [r, g, b] = brush.colour;
        return Color32::from_rgb(r, g, b);
    }
    Color32::from_gray(((brush.value - lo) / (hi - lo) * 255.0).clamp(0.0, 255.0) as u8)
}

/// Takes the stroke into the buffer, as one change.
fn stroke_ends(
    doc: &mut Document,
    contents: &Contents,
    element: ElementType,
    shape: &Shape,
    brush: Brush,
    levels: (f64, f64),
) {
    doc.inputs.last = None;
    let stroke = std::mem::take(&mut doc.inputs.stroke);
    let v = brush_values(brush, shape, levels);
    let size = element.bytes() as u64;
    let channels = if shape.colour() { 3 } else { 1 };
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
    // Neighbours become one piece.
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

/// Most elements that are drawn one by one.
const ONE_BY_ONE: u64 = 2048;

/// The elements `from..to` one by one as points of a line, as recorded or as the person left them.
fn points(contents: &Contents, element: ElementType, from: u64, to: u64, recorded: bool) -> Vec<[f64; 2]> {
    let size = element.bytes();
    let len = usize::try_from(to.saturating_sub(from))
        .unwrap_or(0)
        .saturating_mul(size);
    let offset = from.saturating_mul(size as u64);
    let mut bytes = contents.part(offset, len);
    if recorded {
        contents.recorded(offset, &mut bytes);
    }
    bytes
        .chunks_exact(size)
        .enumerate()
        .filter_map(|(i, b)| Some([(from + i as u64) as f64, values::element_f64(element, b)?]))
        .filter(|q| q[1].is_finite())
        .collect()
}

/// Values beyond this are drawn here: a plot cannot be wider than a number.
const FAR: f64 = 1e300;

/// Bounds that hold a range with something to see between them. Values that lie too close together for a plot, equal
/// ones for instance, get room.
#[must_use]
pub fn around(lo: f64, hi: f64) -> (f64, f64) {
    let (lo, hi) = (lo.clamp(-FAR, FAR), hi.clamp(-FAR, FAR));
    let room = (lo.abs().max(hi.abs()) * 1e-6).max(1.0);
    if hi - lo > room * 1e-3 || (hi > lo && room <= 1.0 && hi - lo > 1e-9) {
        (lo, hi)
    } else {
        (lo - room, hi + room)
    }
}

/// A plot in the window's own hand.
pub fn quiet_plot<'a>(ui: &mut Ui, id: impl egui::AsIdSalt) -> Plot<'a> {
    // Axes are marked in the size of other axes.
    ui.style_mut().text_styles.insert(egui::TextStyle::Body, mono_small());
    Plot::new(id)
        .grid_color(palette(ui).line)
        .grid_spacing(24.0..=120.0)
        .allow_scroll(false)
        .allow_zoom(false)
        .allow_boxed_zoom(false)
        .allow_drag([true, false])
        .show_background(false)
        .set_margin_fraction(vec2(0.0, 0.06))
        .x_axis_formatter(|m: GridMark, _: &_| text::count(m.value.max(0.0).round() as u64))
        .y_axis_formatter(|m: GridMark, _: &_| short(m.value))
        .y_axis_min_width(38.0)
}

/// The part of `0..count` that a plot shows; the wheel zooms about the pointer, with Shift it pans.
pub fn plot_range(plot: &mut egui_plot::PlotUi<'_>, count: u64) -> (u64, u64) {
    if plot.response().contains_pointer() {
        let (wheel, shift) = plot.ctx().input(|i| {
            let d = i.smooth_scroll_delta();
            (if d.y == 0.0 { d.x } else { d.y }, i.modifiers.shift)
        });
        if wheel != 0.0 {
            if shift {
                plot.translate_bounds(vec2(-wheel, 0.0));
            } else {
                plot.zoom_bounds_around_hovered(vec2((wheel / 200.0).exp(), 1.0));
            }
        }
    }
    if plot.auto_bounds().x {
        return (0, count);
    }
    let b = plot.plot_bounds();
    let from = b.min()[0].floor().clamp(0.0, count as f64) as u64;
    let to = (b.max()[0].ceil() + 1.0).clamp(0.0, count as f64) as u64;
    (from.min(to), to)
}

fn plot(doc: &mut Document, ui: &mut Ui, contents: &Contents, element: ElementType, s: &Summary) {
    let p = palette(ui);
    let count = contents.buffer().bytes / element.bytes() as u64;
    if s.range.is_none() {
        widgets::empty(
            ui,
            crate::theme::icons::CHART_BAR,
            "No value of this buffer is a finite number.",
            None,
        );
        return;
    }
    let room = ui.available_size();
    let name = s.key.name.clone();
    let edited = s.was.is_some();
    let seen = doc.inputs.seen;
    let size = element.bytes();
    let label = move |h: &HoverPosition<'_>| match h {
        HoverPosition::NearDataPoint {
            plot_name, position, ..
        } => Some(format!(
            "{plot_name}\n[{}] {}",
            text::count(position.x.max(0.0).round() as u64),
            short(position.y)
        )),
        HoverPosition::Elsewhere { .. } => None,
    };
    let (lo, hi) = s.range.unwrap_or((0.0, 0.0));
    let (low, high) = around(lo, hi);
    let out = quiet_plot(ui, ("values", &name, element.name()))
        .include_y(low)
        .include_y(high)
        .include_x(0.0)
        .include_x(count.max(1) as f64)
        .width(room.x)
        .height((room.y - 4.0).max(40.0))
        .label_formatter(label)
        .show(ui, |plot| {
            let (from, to) = plot_range(plot, count);
            let near = to - from <= ONE_BY_ONE;
            let most = (room.x as usize).max(64);
            let line = |recorded: bool| match (near, recorded) {
                (true, _) => points(contents, element, from, to, recorded),
                (false, true) => s.was.as_ref().map(|w| w.line(from, to, most)).unwrap_or_default(),
                (false, false) => s.now.line(from, to, most),
            };
            let draw = |name: &str, mut pts: Vec<[f64; 2]>, c: Color32| {
                pts.iter_mut().for_each(|q| q[1] = q[1].clamp(-FAR, FAR));
                Line::new(name, PlotPoints::new(pts)).color(c).width(1.2)
            };
            if edited {
                plot.line(draw("recorded", line(true), p.poll));
            }
            let (word, ink) = if edited {
                ("edited by you", p.edited)
            } else {
                ("value", p.read)
            };
            plot.line(draw(word, line(false), ink));
            if let Some(i) = seen {
                plot.vline(
                    VLine::new("selected", i as f64)
                        .color(p.text)
                        .width(1.0)
                        .allow_hover(false),
                );
            }
        });
    let r = out.response;
    r.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, format!("Plot of {name}")));
    if let Some(q) = r.interact_pointer_pos().filter(|_| r.clicked()) {
        let index = out.transform.value_from_position(q).x.round();
        if index >= 0.0 && (index as u64) < contents.buffer().bytes / size as u64 {
            doc.inputs.reveal = Some(index as u64);
            start_editing(doc, contents, element, index as u64);
        }
    }
}

fn histogram(ui: &mut Ui, s: &Summary) {
    let p = palette(ui);
    let Some((lo, hi)) = s.range else {
        widgets::empty(
            ui,
            crate::theme::icons::CHART_BAR,
            "No value of this buffer is a finite number.",
            None,
        );
        return;
    };
    let (lo, hi) = around(lo, hi);
    let width = (hi - lo) / BARS as f64;
    let room = ui.available_size();
    // Counts go over many decades where most values are zero, so the axis counts digits.
    let chart = |name: &str, list: &[u64], ink: Color32| {
        let bars = list.iter().enumerate().filter(|(_, n)| **n > 0);
        let bars = bars.map(|(i, n)| {
            Bar::new(lo + (i as f64 + 0.5) * width, (*n as f64 + 1.0).log10())
                .width(width * 0.92)
                .fill(ink)
                .stroke(Stroke::NONE)
                .name(format!("{} values", text::count(*n)))
        });
        BarChart::new(name, bars.collect()).color(ink)
    };
    let now = if s.was.is_some() { p.edited } else { p.read };
    let out = quiet_plot(ui, ("histogram", &s.key.name))
        .allow_drag(false)
        .include_y(0.0)
        .set_margin_fraction(vec2(0.02, 0.06))
        .x_axis_formatter(|m: GridMark, _: &_| short(m.value))
        .y_axis_formatter(|m: GridMark, _: &_| {
            let n = 10f64.powf(m.value) - 1.0;
            if m.value.fract() == 0.0 {
                text::count((n + 1.0).round() as u64)
            } else {
                String::new()
            }
        })
        .y_grid_spacer(egui_plot::uniform_grid_spacer(|_| [1.0, 1.0, 1.0]))
        .width(room.x)
        .height((room.y - 4.0).max(40.0))
        .label_formatter(|_| None)
        .show(ui, |plot| {
            if let Some(was) = &s.bars_was {
                plot.bar_chart(chart("recorded", was, p.poll));
            }
            plot.bar_chart(chart("values", &s.bars, now.gamma_multiply(0.85)));
        });
    out.response
        .widget_info(|| WidgetInfo::labeled(Role::Canvas, true, format!("Histogram of {}", s.key.name)));
}
