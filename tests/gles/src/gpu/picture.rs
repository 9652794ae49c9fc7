//! Drawing: pictures that programs draw into and read, and textures with four bytes per pixel.

use super::{Gpu, GpuError, Program, Texture};
use glow::HasContext;

/// A target for drawing: a texture with four bytes per pixel.
#[derive(Clone, Copy, Debug)]
pub struct Picture {
    frame: glow::Framebuffer,
    texture: glow::Texture,
    width: i32,
    height: i32,
}

fn sides(width: u32, height: u32) -> Result<(i32, i32), GpuError> {
    let side = |n: u32| i32::try_from(n).map_err(|e| GpuError::Object(format!("texture: {e}")));
    Ok((side(width)?, side(height)?))
}

impl Gpu {
    /// Compiles and links a program that draws.
    ///
    /// # Errors
    /// Returns the messages of the compiler.
    pub fn drawing_program(&self, name: &str, vertex: &str, fragment: &str) -> Result<Program, GpuError> {
        self.linked(
            name,
            &[(glow::VERTEX_SHADER, vertex), (glow::FRAGMENT_SHADER, fragment)],
        )
    }

    /// Creates a 2D texture of red, green, blue and alpha, one byte each, with a linear filter. Without `pixels`, its
    /// contents are undefined.
    ///
    /// # Errors
    /// Returns an error if the number of pixels does not match the size, or if GLES has no memory for it.
    pub fn colours(&self, width: u32, height: u32, pixels: Option<&[u8]>) -> Result<Texture, GpuError> {
        let (w, h) = sides(width, height)?;
        let expected = u64::from(width) * u64::from(height) * 4;
        if let Some(pixels) = pixels.filter(|p| p.len() as u64 != expected) {
            return Err(GpuError::Object(format!(
                "texture: {} bytes for {width}x{height}",
                pixels.len()
            )));
        }
        let t = glow::TEXTURE_2D;
        // SAFETY: the context is current on this thread, the slice contains every pixel, and GLES copies it.
        let object = unsafe {
            let object = self.gl.create_texture().map_err(GpuError::Object)?;
            self.gl.bind_texture(t, Some(object));
            self.gl.tex_storage_2d(t, 1, glow::RGBA8, w, h);
            if pixels.is_some() {
                let data = glow::PixelUnpackData::Slice(pixels);
                self.gl
                    .tex_sub_image_2d(t, 0, 0, 0, w, h, glow::RGBA, glow::UNSIGNED_BYTE, data);
            }
            for filter in [glow::TEXTURE_MIN_FILTER, glow::TEXTURE_MAG_FILTER] {
                self.gl.tex_parameter_i32(t, filter, glow::LINEAR as i32);
            }
            object
        };
        self.check_error("texture of colours")?;
        Ok(Texture(object))
    }

    /// Creates a picture to draw into.
    ///
    /// # Errors
    /// Returns an error if GLES has no memory for it, or cannot draw into such a texture.
    pub fn picture(&self, width: u32, height: u32) -> Result<Picture, GpuError> {
        let (w, h) = sides(width, height)?;
        let texture = self.colours(width, height, None)?.0;
        // SAFETY: the context is current on this thread, and this function creates the objects.
        let frame = unsafe {
            let frame = self.gl.create_framebuffer().map_err(GpuError::Object)?;
            self.gl.bind_framebuffer(glow::FRAMEBUFFER, Some(frame));
            let (at, kind) = (glow::COLOR_ATTACHMENT0, glow::TEXTURE_2D);
            self.gl
                .framebuffer_texture_2d(glow::FRAMEBUFFER, at, kind, Some(texture), 0);
            let state = self.gl.check_framebuffer_status(glow::FRAMEBUFFER);
            if state != glow::FRAMEBUFFER_COMPLETE {
                return Err(GpuError::Gles {
                    step: "framebuffer",
                    code: state,
                });
            }
            frame
        };
        self.check_error("picture")?;
        Ok(Picture {
            frame,
            texture,
            width: w,
            height: h,
        })
    }

    /// Clears a picture and draws a triangle into it. The program computes the corners from the vertex numbers.
    ///
    /// # Errors
    /// Returns an error if GLES refuses a call.
    pub fn draw(&self, picture: &Picture, program: &Program, clear: [f32; 4]) -> Result<(), GpuError> {
        let [r, g, b, a] = clear;
        // SAFETY: the context is current on this thread, and the program reads no client arrays.
        unsafe {
            self.gl.bind_framebuffer(glow::FRAMEBUFFER, Some(picture.frame));
            self.gl.viewport(0, 0, picture.width, picture.height);
            self.gl.clear_color(r, g, b, a);
            self.gl.clear(glow::COLOR_BUFFER_BIT);
            self.gl.use_program(Some(program.0));
            self.gl.draw_arrays(glow::TRIANGLES, 0, 3);
        }
        self.check_error("draw")
    }

    /// Reads a picture, four bytes per pixel, after all work that draws into it.
    ///
    /// # Errors
    /// Returns an error if GLES refuses a call.
    pub fn read_picture(&self, picture: &Picture) -> Result<Vec<u8>, GpuError> {
        let mut pixels = vec![0; picture.width as usize * picture.height as usize * 4];
        // SAFETY: the context is current on this thread, and there is room for every pixel.
        unsafe {
            self.gl.bind_framebuffer(glow::FRAMEBUFFER, Some(picture.frame));
            let into = glow::PixelPackData::Slice(Some(&mut pixels));
            let (w, h) = (picture.width, picture.height);
            self.gl.read_pixels(0, 0, w, h, glow::RGBA, glow::UNSIGNED_BYTE, into);
        }
        self.check_error("read pixels")?;
        Ok(pixels)
    }

    /// Deletes a picture.
    pub fn free_picture(&self, picture: Picture) {
        // SAFETY: the context is current on this thread.
        unsafe {
            self.gl.delete_framebuffer(picture.frame);
            self.gl.delete_texture(picture.texture);
        }
    }
}
