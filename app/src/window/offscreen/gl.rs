//! OpenGL without a display: one EGL context, and a painter that draws frames into a texture and reads them back.
#![allow(unsafe_code, reason = "EGL and OpenGL are C interfaces")]

use eframe::egui_glow::Painter;
use eframe::glow::{self, HasContext as _};
use egui::{ClippedPrimitive, TexturesDelta};
use glutin::api::egl::context::PossiblyCurrentContext;
use glutin::api::egl::device::Device;
use glutin::api::egl::display::Display;
use glutin::config::{ConfigSurfaceTypes, ConfigTemplateBuilder};
use glutin::context::{ContextApi, ContextAttributesBuilder, Version};
use glutin::display::GlDisplay as _;
use std::sync::Arc;

/// Rendering off-screen is not possible on this machine.
#[derive(Debug, thiserror::Error)]
#[error(
    "no OpenGL adapter can render off-screen ({0}); on Debian and Ubuntu the packages libegl1 and libgl1-mesa-dri \
     install one that needs no hardware"
)]
pub struct NoAdapter(String);

/// Draws frames without a display.
pub struct OffscreenPainter {
    painter: Painter,
    gl: Arc<glow::Context>,
    context: PossiblyCurrentContext,
    /// Largest width and height of a picture, pixels.
    max_side: u32,
}

impl OffscreenPainter {
    /// Creates a painter on the first adapter that works. A software adapter comes first, because it gives the same
    /// picture on every machine.
    ///
    /// # Errors
    /// [`NoAdapter`] if no adapter has OpenGL 3.0 or OpenGL ES 3.0.
    pub fn new() -> Result<Self, NoAdapter> {
        let devices = Device::query_devices().map_err(|e| NoAdapter(e.to_string()))?;
        let mut devices: Vec<Device> = devices.collect();
        devices.sort_by_key(|d| !d.extensions().contains("EGL_MESA_device_software"));
        let mut reason = "EGL lists no device".to_owned();
        for device in &devices {
            match Self::on_device(device) {
                Ok(painter) => return Ok(painter),
                Err(e) => reason = e,
            }
        }
        Err(NoAdapter(reason))
    }

    fn on_device(device: &Device) -> Result<Self, String> {
        let text = |e: glutin::error::Error| e.to_string();
        // SAFETY: no raw display handle is passed.
        let display = unsafe { Display::with_device(device, None) }.map_err(text)?;
        let template = ConfigTemplateBuilder::new()
            .with_surface_type(ConfigSurfaceTypes::empty())
            .build();
        // SAFETY: the template names no native window.
        let config = unsafe { display.find_configs(template) }.map_err(text)?.next();
        let config = config.ok_or("the adapter has no configuration")?;
        let apis = [
            ContextApi::OpenGl(Some(Version::new(3, 0))),
            ContextApi::Gles(Some(Version::new(3, 0))),
        ];
        let mut last = String::new();
        for api in apis {
            let attributes = ContextAttributesBuilder::new().with_context_api(api).build(None);
            // SAFETY: the attributes name no window and share with no other context.
            let created = unsafe { display.create_context(&config, &attributes) };
            match created.and_then(|c| c.make_current_surfaceless()) {
                Ok(context) => return Self::in_context(&display, context),
                Err(e) => last = e.to_string(),
            }
        }
        Err(last)
    }

    fn in_context(display: &Display, context: PossiblyCurrentContext) -> Result<Self, String> {
        // SAFETY: the context is current on this thread, and `display` loads functions of its API.
        let gl = unsafe { glow::Context::from_loader_function_cstr(|name| display.get_proc_address(name)) };
        let gl = Arc::new(gl);
        let painter = Painter::new(Arc::clone(&gl), "", None, false).map_err(|e| e.to_string())?;
        let max_side = u32::try_from(painter.max_texture_side()).unwrap_or(u32::MAX);
        Ok(Self {
            painter,
            gl,
            context,
            max_side,
        })
    }

    /// Applies changes of textures, in the order of frames.
    pub fn update_textures(&mut self, delta: &mut TexturesDelta) {
        if self.make_current().is_err() {
            return;
        }
        let mut set: Vec<_> = delta.set.drain().collect();
        set.sort_by_key(|(id, _)| match id {
            egui::TextureId::Managed(n) | egui::TextureId::User(n) => *n,
        });
        for (id, images) in set {
            for image in images {
                self.painter.set_texture(id, &image);
            }
        }
        for id in delta.free.drain() {
            self.painter.free_texture(id);
        }
    }

    /// Draws a frame of `width` by `height` pixels; pixels that no shape covers are transparent.
    ///
    /// # Errors
    /// When the picture is larger than the adapter's textures, or the adapter fails; as a message.
    pub fn draw(
        &mut self,
        [width, height]: [u32; 2],
        pixels_per_point: f32,
        shapes: &[ClippedPrimitive],
    ) -> Result<image::RgbaImage, String> {
        if width == 0 || height == 0 || width > self.max_side || height > self.max_side {
            return Err(format!(
                "the adapter cannot draw a picture of {width} by {height} pixels (its limit is {0} by {0})",
                self.max_side
            ));
        }
        self.make_current()?;
        let target = RenderTarget::new(&self.gl, width, height)?;
        self.painter.clear([width, height], [0.0; 4]);
        self.painter.paint_primitives([width, height], pixels_per_point, shapes);
        let picture = self.painter.read_screen_rgba([width, height]);
        drop(target);
        let pixels = picture.pixels.iter().flat_map(|p| p.to_array()).collect();
        image::RgbaImage::from_raw(width, height, pixels)
            .ok_or_else(|| "the adapter returned too few pixels".to_owned())
    }

    fn make_current(&self) -> Result<(), String> {
        self.context.make_current_surfaceless().map_err(|e| e.to_string())
    }
}

impl Drop for OffscreenPainter {
    fn drop(&mut self) {
        // Without its context the painter's objects are gone with it.
        if self.make_current().is_ok() {
            self.painter.destroy();
        }
    }
}

/// A texture that a framebuffer draws into. It is bound while it lives.
struct RenderTarget<'a> {
    gl: &'a glow::Context,
    framebuffer: glow::Framebuffer,
    texture: glow::Texture,
}

impl<'a> RenderTarget<'a> {
    fn new(gl: &'a glow::Context, width: u32, height: u32) -> Result<Self, String> {
        let (width, height) = (
            i32::try_from(width).map_err(|e| e.to_string())?,
            i32::try_from(height).map_err(|e| e.to_string())?,
        );
        // SAFETY: the context of `gl` is current, and no pointer is passed.
        unsafe {
            let texture = gl.create_texture()?;
            let framebuffer = gl.create_framebuffer().inspect_err(|_| gl.delete_texture(texture))?;
            gl.bind_texture(glow::TEXTURE_2D, Some(texture));
            gl.tex_storage_2d(glow::TEXTURE_2D, 1, glow::RGBA8, width, height);
            gl.bind_texture(glow::TEXTURE_2D, None);
            gl.bind_framebuffer(glow::FRAMEBUFFER, Some(framebuffer));
            gl.framebuffer_texture_2d(
                glow::FRAMEBUFFER,
                glow::COLOR_ATTACHMENT0,
                glow::TEXTURE_2D,
                Some(texture),
                0,
            );
            let target = Self {
                gl,
                framebuffer,
                texture,
            };
            match gl.check_framebuffer_status(glow::FRAMEBUFFER) {
                glow::FRAMEBUFFER_COMPLETE => Ok(target),
                status => Err(format!("the adapter refuses the framebuffer (status {status:#x})")),
            }
        }
    }
}

impl Drop for RenderTarget<'_> {
    fn drop(&mut self) {
        // SAFETY: the context is current, and both objects were created in it.
        unsafe {
            self.gl.bind_framebuffer(glow::FRAMEBUFFER, None);
            self.gl.delete_framebuffer(self.framebuffer);
            self.gl.delete_texture(self.texture);
        }
    }
}
