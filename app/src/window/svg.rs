//! SVG 1.1 output of a frame: shapes as shapes, letters as font outlines, pictures embedded.

use crate::theme::fonts;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use egui::epaint::{
    CircleShape, ClippedShape, ColorMode, CornerRadius, EllipseShape, Mesh, PathShape, PathStroke, RectShape,
    StrokeKind, TextShape,
};
use egui::{Color32, FontFamily, Pos2, Rect, Shape, Stroke, TextureId, pos2};
use skrifa::instance::{LocationRef, Size};
use skrifa::outline::{DrawSettings, OutlinePen};
use skrifa::{FontRef, MetadataProvider as _};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Returns the part of a texture (`uv`, 0 to 1) that fills a rectangle, as PNG, and its rectangle; `None`: unknown
/// texture.
pub type Pictures<'a> = &'a dyn Fn(Rect, TextureId, Rect) -> Option<(Rect, Vec<u8>)>;

/// Maximum nesting depth of shapes.
const MAX_DEPTH: usize = 32;

/// Returns the shapes within a region of the window, in drawing order, as an SVG of the region's size.
#[must_use]
pub fn svg<'s>(shapes: impl Iterator<Item = &'s ClippedShape>, region: Rect, pictures: Pictures<'_>) -> String {
    let mut w = Writer {
        body: String::new(),
        defs: String::new(),
        glyphs: BTreeMap::new(),
        clips: BTreeMap::new(),
        blurs: BTreeMap::new(),
        pictures,
    };
    let mut open = None;
    for clipped in shapes {
        let clip = clipped.clip_rect.intersect(region);
        if !clip.is_positive() || !clipped.shape.visual_bounding_rect().intersects(clip) {
            continue;
        }
        let id = (!clip.contains_rect(region)).then(|| w.clip(clip));
        if open != Some(id) {
            w.close(open);
            if let Some(id) = id {
                let _ = write!(w.body, "<g clip-path=\"url(#c{id})\">");
            }
            open = Some(id);
        }
        w.shape(&clipped.shape, 0);
    }
    w.close(open);
    let (x, y) = (format_number(region.left()), format_number(region.top()));
    let (width, height) = (format_number(region.width()), format_number(region.height()));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" width=\"{width}\" \
         height=\"{height}\" viewBox=\"{x} {y} {width} {height}\">\n<defs>{}</defs>\n{}\n</svg>\n",
        w.defs, w.body
    )
}

struct Writer<'a> {
    body: String,
    defs: String,
    /// Number of each outline, by font and glyph; `None`: the glyph has no outline.
    glyphs: BTreeMap<(&'static str, u32), Option<(usize, f32)>>,
    clips: BTreeMap<[u32; 4], usize>,
    blurs: BTreeMap<u32, usize>,
    pictures: Pictures<'a>,
}

/// Formats a number for SVG with two decimals. Non-finite values become 0.
fn format_number(v: f32) -> String {
    if !v.is_finite() {
        return "0".into();
    }
    let text = format!("{v:.2}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" { "0".into() } else { short.to_owned() }
}

/// Formats the attributes of a colour: `fill` or `stroke`.
fn colour(what: &str, c: Color32) -> String {
    let [r, g, b, a] = c.to_srgba_unmultiplied();
    match a {
        0 => format!(" {what}=\"none\""),
        255 => format!(" {what}=\"#{r:02x}{g:02x}{b:02x}\""),
        _ => {
            let part = format_number(f32::from(a) / 255.0);
            format!(" {what}=\"#{r:02x}{g:02x}{b:02x}\" {what}-opacity=\"{part}\"")
        }
    }
}

fn stroke_attributes(width: f32, c: Color32) -> String {
    if width <= 0.0 || c == Color32::TRANSPARENT {
        return String::new();
    }
    format!("{} stroke-width=\"{}\"", colour("stroke", c), format_number(width))
}

fn stroke(s: Stroke) -> String {
    stroke_attributes(s.width, s.color)
}

/// Formats the stroke of a path. A position-dependent colour is replaced by the colour of its middle.
fn path_stroke(s: &PathStroke, bounds: Rect) -> String {
    match &s.color {
        ColorMode::Solid(c) => stroke_attributes(s.width, *c),
        ColorMode::UV(f) => stroke_attributes(s.width, f(bounds, bounds.center())),
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            // XML 1.0 does not allow these characters.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

impl Writer<'_> {
    fn close(&mut self, open: Option<Option<usize>>) {
        if let Some(Some(_)) = open {
            self.body.push_str("</g>\n");
        }
    }

    fn clip(&mut self, r: Rect) -> usize {
        let key = [r.left(), r.top(), r.right(), r.bottom()].map(f32::to_bits);
        let next = self.clips.len();
        *self.clips.entry(key).or_insert_with(|| {
            let _ = write!(
                self.defs,
                "<clipPath id=\"c{next}\"><rect{}/></clipPath>",
                rect_attributes(r)
            );
            next
        })
    }

    fn shape(&mut self, shape: &Shape, depth: usize) {
        match shape {
            Shape::Noop | Shape::Callback(_) => {}
            Shape::Vec(all) if depth < MAX_DEPTH => all.iter().for_each(|s| self.shape(s, depth + 1)),
            Shape::Vec(_) => {}
            Shape::Circle(c) => self.circle(c),
            Shape::Ellipse(e) => self.ellipse(e),
            Shape::LineSegment { points, stroke: s } => self.path(&d(points, false), Color32::TRANSPARENT, &stroke(*s)),
            Shape::Path(p) => self.points(p),
            Shape::Band(b) => {
                let upper = b.points.iter().map(|p| pos2(p.x, p.y.min));
                let lower = b.points.iter().rev().map(|p| pos2(p.x, p.y.max));
                let all: Vec<Pos2> = upper.chain(lower).collect();
                self.path(&d(&all, true), b.fill, &stroke(b.stroke));
            }
            Shape::Rect(r) => self.rect(r),
            Shape::Text(t) => self.text(t),
            Shape::Mesh(m) => self.mesh(m),
            Shape::QuadraticBezier(q) => {
                let [a, b, c] = q.points.map(format_point);
                let line = path_stroke(&q.stroke, q.visual_bounding_rect());
                self.path(
                    &format!("M{a}Q{b} {c}{}", if q.closed { "Z" } else { "" }),
                    q.fill,
                    &line,
                );
            }
            Shape::CubicBezier(q) => {
                let [a, b, c, e] = q.points.map(format_point);
                let line = path_stroke(&q.stroke, q.visual_bounding_rect());
                self.path(
                    &format!("M{a}C{b} {c} {e}{}", if q.closed { "Z" } else { "" }),
                    q.fill,
                    &line,
                );
            }
        }
    }

    fn path(&mut self, d: &str, fill: Color32, stroke: &str) {
        let _ = write!(self.body, "<path d=\"{d}\"{}{stroke}/>", colour("fill", fill));
    }

    fn points(&mut self, p: &PathShape) {
        let line = path_stroke(&p.stroke, p.visual_bounding_rect());
        self.path(&d(&p.points, p.closed), p.fill, &line);
    }

    fn circle(&mut self, c: &CircleShape) {
        let (x, y, r) = (
            format_number(c.center.x),
            format_number(c.center.y),
            format_number(c.radius),
        );
        let paint = colour("fill", c.fill) + &stroke(c.stroke);
        let _ = write!(self.body, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\"{paint}/>");
    }

    fn ellipse(&mut self, e: &EllipseShape) {
        let (x, y, rx, ry) = (
            format_number(e.center.x),
            format_number(e.center.y),
            format_number(e.radius.x),
            format_number(e.radius.y),
        );
        let paint = colour("fill", e.fill) + &stroke(e.stroke);
        let _ = write!(
            self.body,
            "<ellipse cx=\"{x}\" cy=\"{y}\" rx=\"{rx}\" ry=\"{ry}\"{paint}/>"
        );
    }

    fn rect(&mut self, r: &RectShape) {
        if let Some(brush) = r.brush.as_deref().filter(|b| b.uv != Rect::ZERO) {
            self.picture(r.rect, brush.fill_texture_id, brush.uv);
            return;
        }
        // An SVG stroke lies half inside and half outside.
        let half = r.stroke.width / 2.0;
        let rect = match r.stroke_kind {
            _ if r.stroke.is_empty() => r.rect,
            StrokeKind::Inside => r.rect.shrink(half),
            StrokeKind::Outside => r.rect.expand(half),
            StrokeKind::Middle => r.rect,
        };
        let mut paint = colour("fill", r.fill) + &stroke(r.stroke);
        if r.blur_width > 0.0 {
            let next = self.blurs.len();
            let id = *self.blurs.entry(r.blur_width.to_bits()).or_insert_with(|| {
                let deviation = format_number(r.blur_width / 2.0);
                let _ = write!(
                    self.defs,
                    "<filter id=\"b{next}\"><feGaussianBlur stdDeviation=\"{deviation}\"/></filter>"
                );
                next
            });
            let _ = write!(paint, " filter=\"url(#b{id})\"");
        }
        let CornerRadius { nw, ne, sw, se } = r.corner_radius;
        if nw == ne && ne == sw && sw == se {
            let round = if nw == 0 {
                String::new()
            } else {
                format!(" rx=\"{nw}\"")
            };
            let _ = write!(self.body, "<rect{}{round}{paint}/>", rect_attributes(rect));
            return;
        }
        let (w, h) = (rect.width(), rect.height());
        let max = (w.min(h) / 2.0).max(0.0);
        let [nw, ne, sw, se] = [nw, ne, sw, se].map(|v| f32::from(v).min(max));
        let arc = |r: f32, x: f32, y: f32| {
            format!(
                "a{0} {0} 0 0 1 {1} {2}",
                format_number(r),
                format_number(x),
                format_number(y)
            )
        };
        let _ = write!(
            self.body,
            "<path d=\"M{}h{}{}v{}{}h{}{}v{}{}Z\"{paint}/>",
            format_point(pos2(rect.left() + nw, rect.top())),
            format_number(w - nw - ne),
            arc(ne, ne, ne),
            format_number(h - ne - se),
            arc(se, -se, se),
            format_number(-(w - se - sw)),
            arc(sw, -sw, -sw),
            format_number(-(h - sw - nw)),
            arc(nw, nw, -nw),
        );
    }

    fn picture(&mut self, rect: Rect, texture: TextureId, uv: Rect) {
        let Some((rect, png)) = (self.pictures)(rect, texture, uv) else {
            let _ = write!(
                self.body,
                "<rect{} fill=\"#808080\" fill-opacity=\"0.4\"/>",
                rect_attributes(rect)
            );
            return;
        };
        let _ = write!(
            self.body,
            "<image{} preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\" \
             xlink:href=\"data:image/png;base64,{}\"/>",
            rect_attributes(rect),
            BASE64.encode(png)
        );
    }

    fn mesh(&mut self, m: &Mesh) {
        if m.texture_id != TextureId::default() {
            let (mut rect, mut uv) = (Rect::NOTHING, Rect::NOTHING);
            for v in &m.vertices {
                rect.extend_with(v.pos);
                uv.extend_with(v.uv);
            }
            if rect.is_positive() {
                self.picture(rect, m.texture_id, uv);
            }
            return;
        }
        // One path for each run of triangles of one colour.
        let (mut run, mut of) = (String::new(), None);
        for t in m.indices.chunks_exact(3) {
            let corners: Vec<_> = t.iter().filter_map(|i| m.vertices.get(*i as usize)).collect();
            let [a, b, c] = corners.as_slice() else { continue };
            let mix = |f: fn(Color32) -> u8| {
                let sum: u32 = [a, b, c].iter().map(|v| u32::from(f(v.color))).sum();
                (sum / 3) as u8
            };
            let ink = Color32::from_rgba_premultiplied(mix(|c| c.r()), mix(|c| c.g()), mix(|c| c.b()), mix(|c| c.a()));
            if let Some(before) = of.filter(|o| *o != ink) {
                self.path(&std::mem::take(&mut run), before, " shape-rendering=\"crispEdges\"");
            }
            of = Some(ink);
            let _ = write!(
                run,
                "M{}L{} {}Z",
                format_point(a.pos),
                format_point(b.pos),
                format_point(c.pos)
            );
        }
        if let Some(ink) = of {
            self.path(&run, ink, " shape-rendering=\"crispEdges\"");
        }
    }

    fn text(&mut self, t: &TextShape) {
        let galley = &t.galley;
        let turn = if t.angle == 0.0 {
            String::new()
        } else {
            format!(" rotate({})", format_number(t.angle.to_degrees()))
        };
        let _ = write!(
            self.body,
            "<g role=\"text\" aria-label=\"{}\" transform=\"translate({} {}){turn}\">",
            escape(galley.text()),
            format_number(t.pos.x),
            format_number(t.pos.y)
        );
        let sections = &galley.job.sections;
        let (mut byte, mut section) = (0usize, 0usize);
        let mut ink = None;
        for row in &galley.rows {
            for glyph in &row.row.glyphs {
                while sections.get(section + 1).is_some_and(|s| s.byte_range.start.0 <= byte) {
                    section += 1;
                }
                byte += glyph.chr.len_utf8();
                let Some(format) = sections.get(section).map(|s| &s.format) else {
                    continue;
                };
                let own = match format.color {
                    Color32::PLACEHOLDER => t.fallback_color,
                    c => c,
                };
                let wanted = t.override_text_color.unwrap_or(own).gamma_multiply(t.opacity_factor);
                let Some((id, units)) = self.glyph(&format.font_id.family, glyph.chr) else {
                    continue;
                };
                if ink != Some(wanted) {
                    if ink.is_some() {
                        self.body.push_str("</g>");
                    }
                    let _ = write!(self.body, "<g{}>", colour("fill", wanted));
                    ink = Some(wanted);
                }
                let (x, y) = (row.pos.x + glyph.pos.x, row.pos.y + glyph.pos.y);
                let scale = format.font_id.size / units;
                let _ = write!(
                    self.body,
                    "<use xlink:href=\"#g{id}\" transform=\"translate({} {}) scale({scale:.5})\"/>",
                    format_number(x),
                    format_number(y)
                );
            }
            byte += usize::from(row.ends_with_newline);
        }
        self.body.push_str(if ink.is_some() { "</g></g>" } else { "</g>" });
    }

    /// Returns the number of a character's outline, and the units per em of its font.
    fn glyph(&mut self, family: &FontFamily, c: char) -> Option<(usize, f32)> {
        if c.is_whitespace() {
            return None;
        }
        fonts::for_family(family).into_iter().find_map(|(name, bytes)| {
            let font = FontRef::new(bytes).ok()?;
            let id = font.charmap().map(c)?;
            let known = self.glyphs.get(&(name, id.to_u32()));
            if let Some(known) = known {
                return Some(*known);
            }
            let outline = font.outline_glyphs().get(id).and_then(|g| {
                let mut pen = Pen::default();
                let settings = DrawSettings::unhinted(Size::unscaled(), LocationRef::default());
                g.draw(settings, &mut pen).ok()?;
                Some(pen.d)
            });
            let units = f32::from(
                font.metrics(Size::unscaled(), LocationRef::default())
                    .units_per_em
                    .max(1),
            );
            let made = outline.filter(|d| !d.is_empty()).map(|d| {
                let next = self.glyphs.len();
                let _ = write!(self.defs, "<path id=\"g{next}\" d=\"{d}\"/>");
                (next, units)
            });
            self.glyphs.insert((name, id.to_u32()), made);
            Some(made)
        })?
    }
}

/// Formats the attributes of a rectangle's position.
fn rect_attributes(r: Rect) -> String {
    let (x, y) = (format_number(r.left()), format_number(r.top()));
    let (w, h) = (format_number(r.width().max(0.0)), format_number(r.height().max(0.0)));
    format!(" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"")
}

fn format_point(p: Pos2) -> String {
    format!("{} {}", format_number(p.x), format_number(p.y))
}

fn d(points: &[Pos2], closed: bool) -> String {
    let mut out = String::new();
    for (i, p) in points.iter().enumerate() {
        let _ = write!(out, "{}{}", if i == 0 { 'M' } else { 'L' }, format_point(*p));
    }
    if closed {
        out.push('Z');
    }
    out
}

/// Converts an outline to path data. The y axis of fonts points up, that of SVG down.
#[derive(Default)]
struct Pen {
    d: String,
}

impl OutlinePen for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        let _ = write!(self.d, "M{}", format_point(pos2(x, -y)));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let _ = write!(self.d, "L{}", format_point(pos2(x, -y)));
    }

    fn quad_to(&mut self, cx: f32, cy: f32, x: f32, y: f32) {
        let _ = write!(self.d, "Q{} {}", format_point(pos2(cx, -cy)), format_point(pos2(x, -y)));
    }

    fn curve_to(&mut self, cx0: f32, cy0: f32, cx1: f32, cy1: f32, x: f32, y: f32) {
        let (a, b) = (format_point(pos2(cx0, -cy0)), format_point(pos2(cx1, -cy1)));
        let _ = write!(self.d, "C{a} {b} {}", format_point(pos2(x, -y)));
    }

    fn close(&mut self) {
        self.d.push('Z');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui::{FontId, vec2};

    fn drawn(add: impl Fn(&mut egui::Ui)) -> String {
        let ctx = egui::Context::default();
        crate::theme::install(&ctx, crate::theme::ThemeChoice::Dark);
        let input = || egui::RawInput {
            screen_rect: Some(Rect::from_min_size(Pos2::ZERO, vec2(200.0, 100.0))),
            ..Default::default()
        };
        // Fonts are available from the second frame on.
        let mut out = ctx.run_ui(input(), |ui| add(ui));
        out.textures_delta.clear();
        let mut out = ctx.run_ui(input(), |ui| add(ui));
        out.textures_delta.clear();
        let region = Rect::from_min_size(Pos2::ZERO, vec2(200.0, 100.0));
        svg(out.shapes.iter(), region, &|r, _, _| Some((r, vec![1, 2, 3])))
    }

    #[test]
    fn svg_text_is_coloured_outlines_with_a_label() {
        let text = drawn(|ui| {
            let mut job = egui::text::LayoutJob::default();
            for (t, c) in [("a<", Color32::RED), ("ba", Color32::GREEN)] {
                job.append(t, 0.0, egui::TextFormat::simple(FontId::monospace(12.0), c));
            }
            let galley = ui.painter().layout_job(job);
            ui.painter().galley(pos2(5.0, 5.0), galley, Color32::WHITE);
        });
        assert!(text.contains("aria-label=\"a&lt;ba\""), "{text}");
        assert_eq!(
            text.matches("<path id=\"g").count(),
            3,
            "each outline is defined once: {text}"
        );
        assert_eq!(text.matches("<use ").count(), 4);
        let (red, green) = (text.find("#ff0000").unwrap(), text.find("#00ff00").unwrap());
        assert!(red < green);
    }

    #[test]
    fn svg_omits_outside_shapes_and_clips_partial_ones() {
        let text = drawn(|ui| {
            let inside = Rect::from_min_size(pos2(10.0, 10.0), vec2(20.0, 20.0));
            ui.painter().rect_filled(inside, 0.0, Color32::from_rgb(1, 2, 3));
            ui.painter()
                .rect_filled(inside.translate(vec2(500.0, 0.0)), 0.0, Color32::from_rgb(4, 5, 6));
            let narrow = ui.painter().with_clip_rect(inside.shrink(5.0));
            narrow.circle_filled(inside.center(), 30.0, Color32::from_rgb(7, 8, 9));
        });
        assert!(
            text.contains("#010203") && !text.contains("#040506") && text.contains("#070809"),
            "{text}"
        );
        assert!(
            text.contains("<clipPath id=\"c0\"><rect x=\"15\" y=\"15\" width=\"10\" height=\"10\"/>"),
            "{text}"
        );
    }

    #[test]
    fn pictures_are_embedded_in_the_svg() {
        let text = drawn(|ui| {
            let rect = Rect::from_min_size(pos2(10.0, 10.0), vec2(20.0, 20.0));
            let uv = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
            ui.painter().image(TextureId::User(7), rect, uv, Color32::WHITE);
        });
        assert!(text.contains("data:image/png;base64,AQID"), "{text}");
    }
}
