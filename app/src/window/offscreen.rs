//! Off-screen rendering: the same interface, rendered by OpenGL into a texture and read back.

pub mod gl;

pub use gl::NoAdapter;

use egui::{Color32, ColorImage, FullOutput, ImageData, Rect, TextureId, pos2, vec2};
use gl::OffscreenPainter;
use std::collections::HashMap;

/// Renders frames off-screen.
pub struct Camera {
    painter: OffscreenPainter,
    size: [f32; 2],
    scale: f32,
    last: Option<FullOutput>,
    time: f64,
    /// Current content of textures other than the font texture.
    textures: HashMap<TextureId, ColorImage>,
}

impl Camera {
    /// Creates a camera of `size` points at `scale` pixels per point.
    ///
    /// # Errors
    /// [`NoAdapter`] if there is no adapter to render with.
    pub fn new(size: [f32; 2], scale: f32) -> Result<Self, NoAdapter> {
        Ok(Self {
            painter: OffscreenPainter::new()?,
            size,
            scale,
            last: None,
            time: 0.0,
            textures: HashMap::new(),
        })
    }

    /// Runs a frame of the interface.
    pub fn frame(&mut self, ctx: &egui::Context, ui: impl FnMut(&mut egui::Ui)) {
        let mut input = egui::RawInput {
            screen_rect: Some(Rect::from_min_size(pos2(0.0, 0.0), vec2(self.size[0], self.size[1]))),
            time: Some(self.time),
            focused: true,
            ..Default::default()
        };
        if let Some(v) = input.viewports.get_mut(&egui::ViewportId::ROOT) {
            v.native_pixels_per_point = Some(self.scale);
        }
        // Longer than every animation.
        self.time += 0.25;
        let mut out = ctx.run_ui(input, ui);
        self.keep_textures(&out);
        self.painter.update_textures(&mut out.textures_delta);
        self.last = Some(out);
    }

    /// Stores the textures, for drawings that are not made of pixels.
    fn keep_textures(&mut self, out: &FullOutput) {
        for (id, deltas) in &out.textures_delta.set {
            if *id == TextureId::default() {
                continue;
            }
            for delta in deltas {
                let ImageData::Color(new) = &delta.image;
                match (delta.pos, self.textures.get_mut(id)) {
                    (None, _) => drop(self.textures.insert(*id, ColorImage::clone(new))),
                    (Some([x, y]), Some(whole)) => patch(whole, new, x, y),
                    (Some(_), None) => {}
                }
            }
        }
        for id in &out.textures_delta.free {
            self.textures.remove(id);
        }
    }

    /// Returns the drawing of the last frame within a region, as SVG; `None`: everything.
    ///
    /// # Errors
    /// When no frame was run.
    pub fn svg(&self, region: Option<Rect>) -> anyhow::Result<String> {
        let out = self
            .last
            .as_ref()
            .ok_or_else(|| anyhow::anyhow!("no frame was drawn"))?;
        let whole = Rect::from_min_size(pos2(0.0, 0.0), vec2(self.size[0], self.size[1]));
        let picture = |rect: Rect, id: TextureId, uv: Rect| {
            let image = self.textures.get(&id)?;
            let [w, h] = image.size;
            let edge = |part: f32, of: usize| ((part.clamp(0.0, 1.0) * of as f32).round() as usize).min(of);
            let (x0, x1) = (edge(uv.left(), w), edge(uv.right(), w));
            let (y0, y1) = (edge(uv.top(), h), edge(uv.bottom(), h));
            let (w, h) = (x1.checked_sub(x0)?, y1.checked_sub(y0)?);
            let png = (w > 0 && h > 0).then(|| png(&image.region_by_pixels([x0, y0], [w, h])))??;
            Some((rect, png))
        };
        Ok(super::svg::svg(out.shapes.iter(), region.unwrap_or(whole), &picture))
    }

    /// Returns the last frame as a picture.
    ///
    /// # Errors
    /// When no frame was run, or the adapter fails.
    pub fn capture(&mut self, ctx: &egui::Context) -> anyhow::Result<image::RgbaImage> {
        let out = self
            .last
            .as_ref()
            .ok_or_else(|| anyhow::anyhow!("no frame was drawn"))?;
        let ppp = ctx.pixels_per_point();
        let size = self.size.map(|side| (side * ppp).round() as u32);
        let shapes = ctx.tessellate(out.shapes.clone(), ppp);
        let mut picture = self
            .painter
            .draw(size, ppp, &shapes)
            .map_err(|e| anyhow::anyhow!("the window cannot be drawn off-screen: {e}"))?;
        picture.pixels_mut().for_each(|p| p.0[3] = 255);
        Ok(picture)
    }
}

/// Encodes a picture as PNG.
pub(super) fn png(image: &ColorImage) -> Option<Vec<u8>> {
    let [w, h] = image.size.map(|v| u32::try_from(v).ok());
    let pixels = image.pixels.iter().flat_map(Color32::to_srgba_unmultiplied).collect();
    let image = image::RgbaImage::from_raw(w?, h?, pixels)?;
    let mut out = std::io::Cursor::new(Vec::new());
    image.write_to(&mut out, image::ImageFormat::Png).ok()?;
    Some(out.into_inner())
}

fn patch(whole: &mut ColorImage, new: &ColorImage, x: usize, y: usize) {
    let ([width, _], [w, _]) = (whole.size, new.size);
    for (i, row) in new.pixels.chunks_exact(w.max(1)).enumerate() {
        let at = (y + i) * width + x;
        if let Some(to) = whole.pixels.get_mut(at..at + row.len()) {
            to.copy_from_slice(row);
        }
    }
}
