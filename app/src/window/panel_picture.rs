//! Pictures of a single panel in its current state: PNG of its pixels, SVG of its shapes.

use super::app::App;
use super::requests::{PictureFormat, PictureRequest};
use super::{layout, offscreen, svg};
use egui::{ColorImage, Context, LayerId, Rect};
use image::RgbaImage;
use kinescope_files::output;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Error for a file name with an unknown picture format.
pub const UNKNOWN_FORMAT: &str = "unknown picture format (expected .png or .svg)";

/// Maximum time to wait for the pixels of the window.
const PIXELS_TIMEOUT: Duration = Duration::from_secs(10);

/// Crops a picture of the window at `scale` pixels per point to `region`, as PNG.
///
/// # Errors
/// When the region is outside the picture.
pub fn crop_to_png(image: &RgbaImage, region: Rect, scale: f32) -> anyhow::Result<Vec<u8>> {
    let whole = Rect::from_min_size(
        egui::Pos2::ZERO,
        egui::vec2(image.width() as f32, image.height() as f32),
    );
    let r = (region * scale).intersect(whole);
    let (x, y) = (r.left().round() as u32, r.top().round() as u32);
    let (w, h) = (
        (r.right().round() as u32).saturating_sub(x),
        (r.bottom().round() as u32).saturating_sub(y),
    );
    anyhow::ensure!(w > 0 && h > 0, "nothing of the panel lies in the window");
    let part = image::imageops::crop_imm(image, x, y, w, h).to_image();
    let mut png = std::io::Cursor::new(Vec::new());
    part.write_to(&mut png, image::ImageFormat::Png)?;
    Ok(png.into_inner())
}

impl App {
    /// Requests a picture of a panel in its current state. It is written to `to` once the window delivers its pixels.
    pub fn request_picture(&mut self, ctx: &Context, panel: &'static str, to: PathBuf) {
        let Some(form) = PictureFormat::from_path(&to) else {
            self.error(
                "the picture was not saved",
                &format!("{}: {UNKNOWN_FORMAT}", to.display()),
            );
            return;
        };
        self.picture_request = Some(PictureRequest {
            panel,
            to,
            form,
            pixels: None,
            since: Instant::now(),
        });
        ctx.request_repaint();
    }

    /// Makes the requested picture once the panels of a frame are drawn. An SVG leaves out what covers them.
    pub(super) fn make_picture(&mut self, ctx: &Context) {
        let Some(mut wanted) = self.picture_request.take() else {
            return;
        };
        let Some(region) = layout::panel_rect(&self.dock, wanted.panel) else {
            self.error("the picture was not saved", "the panel is not shown in this window");
            return;
        };
        let Some(pixels) = &wanted.pixels else {
            let (to, from) = mpsc::channel();
            let again = ctx.clone();
            ctx.request_screenshot(move |image| {
                // The window may have dropped the request.
                let _ = to.send(image);
                again.request_repaint();
            });
            wanted.pixels = Some(from);
            self.picture_request = Some(wanted);
            ctx.request_repaint();
            return;
        };
        let Ok(image) = pixels.try_recv() else {
            if wanted.since.elapsed() > PIXELS_TIMEOUT {
                self.error("the picture was not saved", "the window returned no pixels in time");
            } else {
                ctx.request_repaint_after(Duration::from_millis(20));
                self.picture_request = Some(wanted);
            }
            return;
        };
        let scale = ctx.pixels_per_point();
        let made = match wanted.form {
            PictureFormat::Png => rgba_from_color(&image).and_then(|i| crop_to_png(&i, region, scale)),
            PictureFormat::Svg => {
                let part = |r: Rect, _: egui::TextureId, _: Rect| {
                    let whole = Rect::from_min_size(
                        egui::Pos2::ZERO,
                        egui::vec2(image.width() as f32, image.height() as f32),
                    );
                    let r = r.intersect(region);
                    let pixels = (r * scale).intersect(whole);
                    let png = pixels
                        .is_positive()
                        .then(|| offscreen::png(&image.region(&pixels, None)))??;
                    Some((r, png))
                };
                let shapes = ctx.graphics(|g| {
                    let list = g.get(LayerId::background());
                    list.map(|l| l.all_entries().cloned().collect::<Vec<_>>())
                        .unwrap_or_default()
                });
                Ok(svg::svg(shapes.iter(), region, &part).into_bytes())
            }
        };
        let to = wanted.to;
        let made = made.map_err(|e| format!("{e:#}"));
        self.tasks.spawn(ctx, format!("saving {}", to.display()), move |_| {
            let done = made.and_then(|bytes| output::write(&to, &bytes).map_err(|e| e.to_string()));
            Box::new(move |app| match done {
                Ok(()) => app.info(format!("saved {}", to.display())),
                Err(e) => app.error("the picture was not saved", &e),
            })
        });
    }
}

fn rgba_from_color(image: &ColorImage) -> anyhow::Result<RgbaImage> {
    let [w, h] = image.size;
    let bytes = image.pixels.iter().flat_map(|c| [c.r(), c.g(), c.b(), 255]).collect();
    let made = RgbaImage::from_raw(u32::try_from(w)?, u32::try_from(h)?, bytes);
    made.ok_or_else(|| anyhow::anyhow!("the picture of the window is incomplete"))
}
