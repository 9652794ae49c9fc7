//! Off-screen rendering: the same interface, rendered by wgpu into a texture and read back.

use eframe::egui_wgpu::{
    self, RenderState, Renderer, RendererOptions, ScreenDescriptor, WgpuSetup, WgpuSetupCreateNew,
};
use eframe::wgpu;
use egui::{Color32, ColorImage, FullOutput, ImageData, Rect, TextureId, pos2, vec2};
use std::collections::HashMap;
use std::sync::Arc;

/// No graphics adapter is available.
#[derive(Debug, thiserror::Error)]
#[error(
    "there is no graphics adapter ({0}); on Debian and Ubuntu, install mesa-vulkan-drivers for a software renderer"
)]
pub struct NoAdapter(String);

fn setup() -> WgpuSetupCreateNew {
    let mut s = WgpuSetupCreateNew::without_display_handle();
    s.instance_descriptor.flags = wgpu::InstanceFlags::empty();
    // A software adapter gives the same picture on every machine, so it comes first.
    s.native_adapter_selector = Some(Arc::new(|adapters, _| {
        let rank = |a: &&wgpu::Adapter| match a.get_info().device_type {
            wgpu::DeviceType::Cpu => 0,
            wgpu::DeviceType::DiscreteGpu => 1,
            _ => 2,
        };
        adapters
            .iter()
            .min_by_key(rank)
            .cloned()
            .ok_or_else(|| "none was found".to_owned())
    }));
    s
}

/// Renders frames off-screen.
pub struct Camera {
    state: RenderState,
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
        let wgpu_setup = WgpuSetup::CreateNew(setup());
        let instance = pollster::block_on(wgpu_setup.new_instance());
        let config = egui_wgpu::WgpuConfiguration {
            wgpu_setup,
            ..Default::default()
        };
        let made = RenderState::create(&config, &instance, None, RendererOptions::PREDICTABLE);
        let state = pollster::block_on(made).map_err(|e| NoAdapter(e.to_string()))?;
        Ok(Self {
            state,
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
        let mut renderer = self.state.renderer.write();
        take_textures(&mut renderer, &self.state, &mut out);
        drop(renderer);
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
        let (device, queue) = (&self.state.device, &self.state.queue);
        let ppp = ctx.pixels_per_point();
        let (w, h) = ((self.size[0] * ppp).round() as u32, (self.size[1] * ppp).round() as u32);
        let screen = ScreenDescriptor {
            pixels_per_point: ppp,
            size_in_pixels: [w, h],
        };
        let jobs = ctx.tessellate(out.shapes.clone(), ppp);
        let extent = wgpu::Extent3d {
            width: w,
            height: h,
            depth_or_array_layers: 1,
        };
        let texture = device.create_texture(&wgpu::TextureDescriptor {
            label: Some("window"),
            size: extent,
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format: self.state.target_format,
            usage: wgpu::TextureUsages::RENDER_ATTACHMENT | wgpu::TextureUsages::COPY_SRC,
            view_formats: &[],
        });
        let view = texture.create_view(&wgpu::TextureViewDescriptor::default());
        let row = (w * 4).next_multiple_of(wgpu::COPY_BYTES_PER_ROW_ALIGNMENT);
        let buffer = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("picture"),
            size: u64::from(row) * u64::from(h),
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("window") });
        let mut renderer = self.state.renderer.write();
        let user = renderer.update_buffers(device, queue, &mut encoder, &jobs, &screen);
        {
            let mut pass = encoder
                .begin_render_pass(&wgpu::RenderPassDescriptor {
                    label: Some("window"),
                    color_attachments: &[Some(wgpu::RenderPassColorAttachment {
                        view: &view,
                        resolve_target: None,
                        ops: wgpu::Operations {
                            load: wgpu::LoadOp::Clear(wgpu::Color::BLACK),
                            store: wgpu::StoreOp::Store,
                        },
                        depth_slice: None,
                    })],
                    ..Default::default()
                })
                .forget_lifetime();
            renderer.render(&mut pass, &jobs, &screen);
        }
        drop(renderer);
        encoder.copy_texture_to_buffer(
            texture.as_image_copy(),
            wgpu::TexelCopyBufferInfo {
                buffer: &buffer,
                layout: wgpu::TexelCopyBufferLayout {
                    offset: 0,
                    bytes_per_row: Some(row),
                    rows_per_image: None,
                },
            },
            extent,
        );
        queue.submit(user.into_iter().chain(std::iter::once(encoder.finish())));
        let (to, from) = std::sync::mpsc::channel();
        buffer
            .slice(..)
            .map_async(wgpu::MapMode::Read, move |r| drop(to.send(r)));
        device
            .poll(wgpu::PollType::wait_indefinitely())
            .map_err(|e| anyhow::anyhow!("the adapter failed: {e}"))?;
        from.recv()??;
        let data = buffer.slice(..).get_mapped_range()?;
        let swap = matches!(
            self.state.target_format,
            wgpu::TextureFormat::Bgra8Unorm | wgpu::TextureFormat::Bgra8UnormSrgb
        );
        let mut pixels = Vec::with_capacity((w * h * 4) as usize);
        for line in data.chunks_exact(row as usize) {
            for px in line[..(w * 4) as usize].chunks_exact(4) {
                let [a, b, c] = if swap {
                    [px[2], px[1], px[0]]
                } else {
                    [px[0], px[1], px[2]]
                };
                pixels.extend([a, b, c, 255]);
            }
        }
        image::RgbaImage::from_raw(w, h, pixels).ok_or_else(|| anyhow::anyhow!("the picture is incomplete"))
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

fn take_textures(renderer: &mut Renderer, state: &RenderState, out: &mut FullOutput) {
    let mut set: Vec<_> = out.textures_delta.set.drain().collect();
    set.sort_by_key(|(id, _)| match id {
        TextureId::Managed(n) | TextureId::User(n) => *n,
    });
    for (id, images) in set {
        for image in images {
            renderer.update_texture(&state.device, &state.queue, id, &image);
        }
    }
    for id in out.textures_delta.free.drain() {
        renderer.free_texture(&id);
    }
}
