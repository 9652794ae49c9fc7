//! The picture: zoom, pan, tooltip of the pixel under the pointer, selection of a pixel.

use super::pixel;
use super::view::{PictureKind, View};
use crate::panels::common::actions::UiActions;
use crate::theme::{Palette, icons, mono_small, palette, widgets};
use egui::accesskit::Role;
use egui::{
    Color32, ColorImage, EventFilter, Key, Pos2, Rect, RichText, Sense, Stroke, StrokeKind, TextureOptions, Ui, Vec2,
    WidgetInfo, pos2, vec2,
};
use kinescope_session::screen::Screen;
use kinescope_session::{Document, text};
use trace_core::screen::{Picture, StoreState};

/// Zoom levels: display pixels for one pixel of the picture.
const ZOOMS: [f32; 17] = [
    0.125, 0.25, 0.5, 0.75, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0,
];
/// Size of a pixel from which lines separate pixels, points.
const GRID: f32 = 10.0;
/// Wheel distance for one step, points.
const WHEEL: f32 = 40.0;
/// Side of a square of the pattern for unknown content, pixels.
const SQUARE: usize = 8;
/// Maximum number of stores for which the tooltip searches the last store to a pixel.
const HOVER: u64 = 1 << 21;

impl View {
    /// Zooms in (1) or out (-1), about a position in the picture.
    pub fn zoom(&mut self, step: i32, about: Option<Pos2>) {
        let now = self.zoom.unwrap_or(self.drawn_zoom);
        let next = match step > 0 {
            true => ZOOMS.into_iter().find(|z| *z > now * 1.001),
            false => ZOOMS.into_iter().rev().find(|z| *z < now * 0.999),
        };
        let Some(next) = next else { return };
        if let (Some(at), Some(middle)) = (about, self.middle) {
            self.middle = Some(at + (middle - at) * (now / next));
        }
        self.zoom = Some(next);
    }
}

/// Draws the picture and handles input.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, screen: &Screen) {
    let Some(size) = size(view, screen) else {
        empty(doc, view, ui);
        return;
    };
    let p = palette(ui);
    let full = ui.available_rect_before_wrap();
    let ppp = ui.pixels_per_point();
    let room = (full.size() - vec2(16.0, 16.0)).max(vec2(1.0, 1.0)) * ppp;
    let fit = (room.x / size.x).min(room.y / size.y).max(0.01);
    let fit = if fit >= 1.0 { fit.floor() } else { fit };
    let zoom = view.zoom.unwrap_or(fit);
    view.drawn_zoom = zoom;
    texture(view, ui, screen, size, zoom);
    let scale = zoom / ppp;
    let half = (size / 2.0).to_pos2();
    let middle = view.middle.filter(|_| view.zoom.is_some()).unwrap_or(half);
    let middle = pos2(middle.x.clamp(0.0, size.x), middle.y.clamp(0.0, size.y));
    view.middle = Some(middle);
    // The picture starts at a full display pixel, so that all of its pixels have the same size.
    let corner = full.center() - middle.to_vec2() * scale;
    let corner = ((corner.to_vec2() * ppp).round() / ppp).to_pos2();
    let area = Rect::from_min_size(corner, size * scale);
    let response = ui.interact(full, ui.scope_id().with("screen"), Sense::click_and_drag());
    response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Screen picture"));
    let painter = ui.painter().with_clip_rect(full.intersect(ui.clip_rect()));
    if let Some((_, t)) = &view.texture {
        let uv = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
        painter.image(t.id(), area, uv, Color32::WHITE);
    }
    painter.rect_stroke(area, 0.0, Stroke::new(1.0, p.line), StrokeKind::Outside);
    grid(&painter, full, area, scale, size);
    if let Some(c) = view
        .comparison()
        .filter(|_| view.picture_kind == PictureKind::Difference)
        && let Some(b) = c.bounds
    {
        let at = |x: u32, y: u32| corner + vec2(x as f32, y as f32) * scale;
        let bounds = Rect::from_min_max(at(b.left, b.top), at(b.right + 1, b.bottom + 1)).expand(2.0);
        painter.rect_stroke(bounds, 0.0, Stroke::new(1.0, p.error), StrokeKind::Outside);
    }
    let pixel = |q: Pos2| -> Option<[u32; 2]> {
        let at = (q - corner) / scale;
        let inside = at.x >= 0.0 && at.y >= 0.0 && at.x < size.x && at.y < size.y;
        inside.then_some([at.x as u32, at.y as u32])
    };
    let place = |[x, y]: [u32; 2]| Rect::from_min_size(corner + vec2(x as f32, y as f32) * scale, vec2(scale, scale));
    if let Some(chosen) = view.pixel {
        // The mark is visible even if a pixel is smaller than a line.
        let mark = place(chosen).expand((3.0 - scale / 2.0).max(0.0) + 1.0);
        painter.rect_stroke(mark, 0.0, Stroke::new(2.0, p.background), StrokeKind::Outside);
        painter.rect_stroke(mark, 0.0, Stroke::new(1.0, p.text), StrokeKind::Outside);
    }
    let focused = response.has_focus();
    if focused {
        let frame = full.shrink(1.0);
        painter.rect_stroke(frame, 0.0, Stroke::new(1.0, p.read), StrokeKind::Inside);
        keys(doc, view, actions, ui, &response, size);
    }
    if response.dragged() {
        view.middle = Some(middle - response.drag_delta() / scale);
        view.zoom = Some(zoom);
    }
    if let Some(q) = response.hover_pos() {
        wheel(view, ui, ((q - corner) / scale).to_pos2());
    }
    if response.double_clicked() {
        // The pixel of the first click counts: the pane that opened may have moved the picture.
        if let Some(e) = find_last_store(doc, view, screen) {
            doc.go_keeping_target(e);
        }
    } else if response.clicked() {
        response.request_focus();
        let under = response.interact_pointer_pos().and_then(pixel);
        pixel::choose(doc, view, actions, under);
    }
    if let Some(at) = response.hover_pos().and_then(pixel) {
        let message = describe_pixel(doc, view, screen, at);
        painter.rect_stroke(place(at), 0.0, Stroke::new(1.0, p.read), StrokeKind::Outside);
        response.on_hover_text_at_pointer(RichText::new(message).font(mono_small()));
    }
}

/// Returns the event that set the chosen pixel to its current value.
fn find_last_store(doc: &Document, view: &View, screen: &Screen) -> Option<u64> {
    let bytes = view.pixel_bytes()?;
    screen
        .framebuffer
        .last_store(bytes, doc.current_event().saturating_add(1))
}

fn empty(doc: &mut Document, view: &View, ui: &mut Ui) {
    if view.drawing.is_some() {
        widgets::empty_state(ui, icons::HOURGLASS_SIMPLE_MEDIUM, "Drawing the screen …", None);
        return;
    }
    let Some(Err(none)) = view.look() else { return };
    let (why, first) = (none.why.clone(), none.first);
    let message = format!("At this event there is no screen. {why}.");
    let action = match first {
        Some(e) if e != doc.current_event() => format!("Go to event {}, the first with a screen", text::count(e)),
        _ => {
            widgets::empty_state(
                ui,
                icons::FILM_STRIP,
                &format!("{message} Set its form by hand above."),
                None,
            );
            return;
        }
    };
    if widgets::empty_state(ui, icons::FILM_STRIP, &message, Some(&action))
        && let Some(e) = first
    {
        doc.go(e);
    }
}

/// Draws lines between pixels if they are large.
fn grid(painter: &egui::Painter, full: Rect, area: Rect, scale: f32, size: Vec2) {
    if scale < GRID {
        return;
    }
    let ink = Stroke::new(1.0, Color32::from_gray(128).gamma_multiply(0.35));
    let shown = area.intersect(full);
    let from = ((shown.min - area.min) / scale).floor();
    let to = ((shown.max - area.min) / scale).ceil().min(size);
    for x in from.x as i64 + 1..to.x as i64 {
        painter.vline(area.left() + x as f32 * scale, shown.y_range(), ink);
    }
    for y in from.y as i64 + 1..to.y as i64 {
        painter.hline(shown.x_range(), area.top() + y as f32 * scale, ink);
    }
}

fn wheel(view: &mut View, ui: &Ui, about: Pos2) {
    let (scroll, shift) = ui.input(|i| (i.smooth_scroll_delta(), i.modifiers.shift));
    if shift {
        if let (Some(m), Some(z)) = (view.middle, view.zoom) {
            view.middle = Some(m - vec2(scroll.x + scroll.y, 0.0) / z.max(0.01));
        }
        return;
    }
    let id = ui.scope_id().with("screen scroll");
    let sum = ui.data(|d| d.get_temp::<f32>(id)).unwrap_or(0.0) + scroll.y;
    let steps = (sum / WHEEL).trunc();
    ui.data_mut(|d| d.insert_temp(id, sum - steps * WHEEL));
    for _ in 0..(steps.abs() as u32).min(4) {
        view.zoom(steps as i32, Some(about));
    }
}

/// Handles keys: arrows move the chosen pixel, plus and minus zoom about it.
fn keys(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &Ui, response: &egui::Response, size: Vec2) {
    let filter = EventFilter {
        horizontal_arrows: true,
        vertical_arrows: true,
        ..Default::default()
    };
    ui.memory_mut(|m| m.set_focus_lock_filter(response.id, filter));
    let pressed = |k: Key| ui.input(|i| i.key_pressed(k) && i.modifiers.is_none());
    let about = view.pixel.map(|[x, y]| pos2(x as f32 + 0.5, y as f32 + 0.5));
    if pressed(Key::Plus) || pressed(Key::Equals) {
        view.zoom(1, about);
    }
    if pressed(Key::Minus) {
        view.zoom(-1, about);
    }
    let Some([x, y]) = view.pixel else { return };
    let (right, bottom) = (size.x as u32 - 1, size.y as u32 - 1);
    let to = if pressed(Key::ArrowLeft) {
        [x.saturating_sub(1), y]
    } else if pressed(Key::ArrowRight) {
        [(x + 1).min(right), y]
    } else if pressed(Key::ArrowUp) {
        [x, y.saturating_sub(1)]
    } else if pressed(Key::ArrowDown) {
        [x, (y + 1).min(bottom)]
    } else {
        return;
    };
    pixel::choose(doc, view, actions, Some(to));
}

/// Returns the tooltip of a pixel.
fn describe_pixel(doc: &Document, view: &mut View, screen: &Screen, [x, y]: [u32; 2]) -> String {
    let m = doc.current_event();
    if let Some((at, event, text)) = &view.hovered
        && (*at, *event) == ([x, y], m)
        && view.picture_kind == PictureKind::Stores
    {
        return text.clone();
    }
    let color = |c: [u8; 3]| format!("#{:02x}{:02x}{:02x}", c[0], c[1], c[2]);
    let of = |p: Option<&Picture>| p.and_then(|p| p.pixel(x, y)).map_or("none".to_owned(), color);
    let recorded = screen.expected.as_ref().and_then(|e| e.as_ref().ok());
    let message = match view.picture_kind {
        PictureKind::Recorded => of(recorded),
        PictureKind::Replayed => of(view.replayed_picture().map(|p| &**p)),
        PictureKind::Difference => {
            let with = match view.compared_with() {
                PictureKind::Replayed => format!("replayed {}", of(view.replayed_picture().map(|p| &**p))),
                _ => format!(
                    "stores {}",
                    view.drawn()
                        .and_then(|d| d.pixel(x, y))
                        .map_or("not known".into(), color)
                ),
            };
            format!("recorded {} · {with}", of(recorded))
        }
        PictureKind::Stores => {
            let message = describe_last_store(doc, view, screen, [x, y]).unwrap_or_default();
            view.hovered = Some(([x, y], m, message.clone()));
            return message;
        }
    };
    format!("{x}, {y} · {message}")
}

fn describe_last_store(doc: &Document, view: &View, screen: &Screen, [x, y]: [u32; 2]) -> Option<String> {
    let format = view.look()?.ok()?.format;
    let (drawn, at) = (view.drawn()?, format.offset(x, y)?);
    let mut parts = vec![format!("{x}, {y}"), format!("{} + {at:#x}", screen.space)];
    parts.push(match (drawn.pixel(x, y), drawn.known_at(x, y)) {
        (Some([r, g, b]), _) => format!("#{r:02x}{g:02x}{b:02x}"),
        (None, Some(StoreState::Lost)) => "stored without its value".into(),
        _ => "never stored".into(),
    });
    if screen.framebuffer.stores() <= HOVER {
        let bytes = at..at + u64::from(format.pixel.bytes());
        if let Some(e) = screen
            .framebuffer
            .last_store(bytes, doc.current_event().saturating_add(1))
        {
            parts.push(format!("event {}, {}", text::count(e), doc.format_time(e)));
        }
    }
    Some(parts.join(" · "))
}

/// Returns the size of the shown picture, pixels, or `None` if there is no picture.
fn size(view: &View, screen: &Screen) -> Option<Vec2> {
    let of = |p: &Picture| (p.width(), p.height());
    let (w, h) = match view.picture_kind {
        PictureKind::Stores => view.drawn().map(|d| (d.width(), d.height()))?,
        PictureKind::Recorded => of(recorded(screen)?),
        PictureKind::Replayed => of(view.replayed_picture()?),
        PictureKind::Difference => view.comparison().map(|d| (d.width, d.height))?,
    };
    Some(vec2(w as f32, h as f32))
}

fn recorded(screen: &Screen) -> Option<&Picture> {
    screen.expected.as_ref()?.as_ref().ok()
}

/// Updates the texture: as large as the picture, or as large as it is shown if that is smaller.
fn texture(view: &mut View, ui: &Ui, screen: &Screen, size: Vec2, zoom: f32) {
    let p = palette(ui);
    let number = match view.picture_kind {
        PictureKind::Stores => view.store_picture.as_ref().map_or(0, |m| m.number),
        PictureKind::Recorded => 0,
        PictureKind::Replayed => view.replayed.as_ref().map_or(0, |r| r.0),
        PictureKind::Difference => view.compared.as_ref().map_or(0, |c| c.number),
    };
    let whole = [size.x as usize, size.y as usize];
    let max = ui.input(|i| i.max_texture_side).max(1) as f32;
    let zoom = zoom.min(1.0).min(max / size.x.max(size.y));
    let target = [size.x, size.y].map(|s| ((s * zoom).round() as usize).max(1));
    let key = (view.picture_kind, number, p.background, target);
    if view.texture.as_ref().is_some_and(|(k, _)| *k == key) {
        return;
    }
    let pixels = match view.picture_kind {
        PictureKind::Stores => view.drawn().map(|d| with_unknown(d, p)),
        PictureKind::Recorded => recorded(screen).map(plain),
        PictureKind::Replayed => view.replayed_picture().map(|r| plain(r)),
        PictureKind::Difference => recorded(screen)
            .zip(view.comparison())
            .map(|(r, c)| heat(&c.difference, r, p)),
    };
    let Some(pixels) = pixels else { return };
    let image = ColorImage::new(target, downscale(pixels, whole, target));
    let options = TextureOptions {
        magnification: egui::TextureFilter::Nearest,
        ..TextureOptions::LINEAR
    };
    let texture = match view.texture.take() {
        Some((_, mut t)) => {
            t.set(image, options);
            t
        }
        None => ui.ctx().load_texture("screen", image, options),
    };
    view.texture = Some((key, texture));
}

fn plain(picture: &Picture) -> Vec<Color32> {
    let pixels = picture.rgb().as_chunks::<3>().0.iter();
    pixels.map(|[r, g, b]| Color32::from_rgb(*r, *g, *b)).collect()
}

/// Draws squares where nothing was stored, stripes where the value is unknown.
fn with_unknown(drawn: &trace_core::screen::RenderedScreen, p: &Palette) -> Vec<Color32> {
    let width = (drawn.width() as usize).max(1);
    let pixels = drawn.rgb().as_chunks::<3>().0.iter().zip(drawn.known()).enumerate();
    pixels
        .map(|(i, ([r, g, b], known))| {
            let (x, y) = (i % width, i / width);
            match known {
                StoreState::Stored => Color32::from_rgb(*r, *g, *b),
                StoreState::Never if (x / SQUARE + y / SQUARE).is_multiple_of(2) => p.line,
                StoreState::Never => p.panel,
                StoreState::Lost if (x + y) % SQUARE < SQUARE / 2 => p.warning.lerp_to_gamma(p.panel, 0.55),
                StoreState::Lost => p.panel,
            }
        })
        .collect()
}

/// Draws the recorded picture in dim greys, with differences on top: the larger, the brighter.
fn heat(difference: &[u8], under: &Picture, p: &Palette) -> Vec<Color32> {
    let pixels = under.rgb().as_chunks::<3>().0.iter().zip(difference);
    pixels
        .map(|([r, g, b], d)| {
            let grey = (u32::from(*r) * 3 + u32::from(*g) * 6 + u32::from(*b)) / 10;
            match d {
                0 => p.background.lerp_to_gamma(Color32::from_gray(grey as u8), 0.22),
                d => p.error.lerp_to_gamma(p.warning, f32::from(*d) / 255.0),
            }
        })
        .collect()
}

/// Returns the pixels of a smaller picture: each the mean of those that it covers, so that thin strokes do not vanish.
fn downscale(pixels: Vec<Color32>, [w, h]: [usize; 2], [to_w, to_h]: [usize; 2]) -> Vec<Color32> {
    if [w, h] == [to_w, to_h] {
        return pixels;
    }
    let cut = |i: usize, from: usize, to: usize| i * from / to..((i + 1) * from / to).max(i * from / to + 1).min(from);
    let mut out = Vec::with_capacity(to_w * to_h);
    for y in 0..to_h {
        let rows = cut(y, h, to_h);
        for x in 0..to_w {
            let columns = cut(x, w, to_w);
            let (mut sum, mut n) = ([0u32; 3], 0);
            for row in rows.clone() {
                for c in pixels
                    .get(row * w + columns.start..row * w + columns.end)
                    .unwrap_or_default()
                {
                    n += 1;
                    for (s, v) in sum.iter_mut().zip([c.r(), c.g(), c.b()]) {
                        *s += u32::from(v);
                    }
                }
            }
            let [r, g, b] = sum.map(|s| (s / n.max(1)) as u8);
            out.push(Color32::from_rgb(r, g, b));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downscaled_picture_averages_pixels() {
        let grey = Color32::from_gray;
        let from = vec![grey(0), grey(100), grey(7), grey(200), grey(100), grey(9)];
        assert_eq!(downscale(from.clone(), [3, 2], [3, 2]), from);
        assert_eq!(downscale(from.clone(), [3, 2], [1, 1]), [grey(69)]);
        assert_eq!(downscale(from, [3, 2], [2, 1]), [grey(100), grey(54)]);
    }
}
