//! A GLES 3.1 context without a window, and the part of GLES that compute programs use.
//!
//! This is the only module with `unsafe` in this crate. EGL, GLES and the recorder's marker are C functions that are
//! looked up at run time.
#![allow(
    unsafe_code,
    reason = "calls to EGL, GLES and the recorder's marker are foreign calls; each has a comment on its soundness"
)]

use crate::work::{Access, Kind, Role, Uniform};
use glow::HasContext;
use khronos_egl as egl;
use std::ffi::{CString, c_char, c_int, c_void};

mod picture;

pub use picture::Picture;

type Egl = egl::DynamicInstance<egl::EGL1_5>;

/// EGL's platform without a window system (extension `EGL_MESA_platform_surfaceless`).
const SURFACELESS: egl::Enum = 0x31DD;

/// `kinescope_buffer(address, bytes, name, role, element type, shape)` of the recorder: names a buffer by its address.
/// Returns 0 or an error number.
type Marker = unsafe extern "C" fn(*const c_void, usize, *const c_char, c_int, *const c_char, *const c_char) -> c_int;

/// The reason why there is no GPU, or the call that it refused.
#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    /// There is no EGL library.
    #[error("EGL cannot be loaded (Debian: libegl1): {0}")]
    Library(String),
    /// EGL refused a step of the creation of a context.
    #[error("EGL {step}: {error}")]
    Egl {
        /// The requested operation.
        step: &'static str,
        /// The error.
        error: String,
    },
    /// A shader does not compile or link.
    #[error("{name}: {log}")]
    Shader {
        /// Name of the shader.
        name: String,
        /// Messages of the compiler.
        log: String,
    },
    /// GLES refused a call.
    #[error("GLES {step}: error {code:#x}")]
    Gles {
        /// The refused operation.
        step: &'static str,
        /// The error number.
        code: u32,
    },
    /// GLES cannot create an object or map its memory.
    #[error("GLES {0}")]
    Object(String),
    /// The recorder refused the name of a buffer.
    #[error("the recorder refuses the buffer {name}: error {code}")]
    Marker {
        /// The name of the buffer.
        name: String,
        /// The error number.
        code: c_int,
    },
    /// A name is not a valid C string.
    #[error("the name {0:?} has a zero in it")]
    Name(String),
}

/// A linked compute shader.
#[derive(Clone, Copy, Debug)]
pub struct Program(glow::Program);

/// A buffer of the GPU.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    object: glow::Buffer,
    kind: Kind,
    bytes: i32,
}

/// A texture of the GPU.
#[derive(Clone, Copy, Debug)]
pub struct Texture(glow::Texture);

/// Description of a buffer for a recording.
#[derive(Clone, Copy, Debug)]
pub struct Label<'a> {
    /// Name of the buffer.
    pub name: &'a str,
    /// Purpose of the buffer.
    pub role: Role,
    /// Type of its elements, with the name that recordings use.
    pub element: &'a str,
    /// Shape in the notation of recordings: `8x8`.
    pub shape: &'a str,
}

/// A GLES 3.1 context. It is always current on the thread that opened it, so the type is not `Send`.
pub struct Gpu {
    egl: Egl,
    display: egl::Display,
    context: egl::Context,
    gl: glow::Context,
    marker: Option<Marker>,
    _here: std::marker::PhantomData<*mut ()>,
}

fn target(kind: Kind) -> u32 {
    match kind {
        Kind::Storage => glow::SHADER_STORAGE_BUFFER,
        Kind::Uniform => glow::UNIFORM_BUFFER,
    }
}

fn egl_error(step: &'static str) -> impl FnOnce(egl::Error) -> GpuError {
    move |e| GpuError::Egl {
        step,
        error: e.to_string(),
    }
}

impl Gpu {
    /// Opens the GPU that EGL finds first.
    ///
    /// # Errors
    /// Returns an error if there is no EGL, or if it has no GLES 3.1 without a window.
    pub fn open() -> Result<Self, GpuError> {
        // SAFETY: this loads the system's libEGL.so.1, whose functions have the types of the crate.
        let egl = unsafe { Egl::load_required() }.map_err(|e| GpuError::Library(e.to_string()))?;
        // SAFETY: this platform requires no native display (null), and the list of attributes is terminated.
        let display = unsafe { egl.get_platform_display(SURFACELESS, std::ptr::null_mut(), &[egl::ATTRIB_NONE]) }
            .map_err(egl_error("display without a window system"))?;
        egl.initialize(display).map_err(egl_error("initialize"))?;
        egl.bind_api(egl::OPENGL_ES_API).map_err(egl_error("bind GLES"))?;
        // SAFETY: EGL_NO_CONFIG_KHR is null, which the extension allows if a program creates no surface.
        let no_config = unsafe { egl::Config::from_ptr(std::ptr::null_mut()) };
        let attributes = [egl::CONTEXT_MAJOR_VERSION, 3, egl::CONTEXT_MINOR_VERSION, 1, egl::NONE];
        let context = egl
            .create_context(display, no_config, None, &attributes)
            .map_err(egl_error("context of GLES 3.1"))?;
        egl.make_current(display, None, None, Some(context))
            .map_err(egl_error("make current"))?;
        let find = |name: &str| {
            egl.get_proc_address(name)
                .map_or(std::ptr::null(), |f| f as *const c_void)
        };
        // SAFETY: a context is current, and EGL returns its functions. Missing functions are null, which glow checks.
        let gl = unsafe { glow::Context::from_loader_function(find) };
        // SAFETY: this looks up a symbol by a name that ends in zero.
        let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"kinescope_buffer".as_ptr()) };
        // SAFETY: only the recorder has a function of this name, and it has this type.
        let marker = (!symbol.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, Marker>(symbol) });
        Ok(Self {
            egl,
            display,
            context,
            gl,
            marker,
            _here: std::marker::PhantomData,
        })
    }

    /// Returns the names of the GPU and of the GLES version, from the driver.
    #[must_use]
    pub fn names(&self) -> (String, String) {
        // SAFETY: the context is current on this thread, and both names are of strings.
        unsafe {
            (
                self.gl.get_parameter_string(glow::RENDERER),
                self.gl.get_parameter_string(glow::VERSION),
            )
        }
    }

    /// Returns whether a recorder is present, which gets the names of buffers.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.marker.is_some()
    }

    fn check_error(&self, step: &'static str) -> Result<(), GpuError> {
        // SAFETY: the context is current on this thread.
        match unsafe { self.gl.get_error() } {
            glow::NO_ERROR => Ok(()),
            code => Err(GpuError::Gles { step, code }),
        }
    }

    /// Compiles and links a compute shader.
    ///
    /// # Errors
    /// Returns the messages of the compiler.
    pub fn program(&self, name: &str, source: &str) -> Result<Program, GpuError> {
        self.linked(name, &[(glow::COMPUTE_SHADER, source)])
    }

    /// Compiles the stages of a program and links them.
    fn linked(&self, name: &str, stages: &[(u32, &str)]) -> Result<Program, GpuError> {
        let shader_error = |log| GpuError::Shader {
            name: name.to_owned(),
            log,
        };
        let gl = &self.gl;
        // SAFETY: the context is current on this thread, and this function creates the objects.
        unsafe {
            let program = gl.create_program().map_err(shader_error)?;
            for (stage, source) in stages {
                let shader = gl.create_shader(*stage).map_err(shader_error)?;
                gl.shader_source(shader, source);
                gl.compile_shader(shader);
                if !gl.get_shader_compile_status(shader) {
                    return Err(shader_error(gl.get_shader_info_log(shader)));
                }
                gl.attach_shader(program, shader);
                // GLES deletes the shader with the program.
                gl.delete_shader(shader);
            }
            gl.link_program(program);
            if !gl.get_program_link_status(program) {
                return Err(shader_error(gl.get_program_info_log(program)));
            }
            Ok(Program(program))
        }
    }

    /// Creates a buffer with these contents.
    ///
    /// # Errors
    /// Returns an error if GLES has no memory for it.
    pub fn buffer(&self, kind: Kind, contents: &[u8]) -> Result<Buffer, GpuError> {
        let bytes = i32::try_from(contents.len()).map_err(|e| GpuError::Object(format!("buffer: {e}")))?;
        // SAFETY: the context is current on this thread, and GLES copies the slice before it returns.
        let object = unsafe {
            let object = self.gl.create_buffer().map_err(GpuError::Object)?;
            self.gl.bind_buffer(target(kind), Some(object));
            self.gl.buffer_data_u8_slice(target(kind), contents, glow::STATIC_DRAW);
            object
        };
        self.check_error("buffer")?;
        Ok(Buffer { object, kind, bytes })
    }

    /// Maps a whole buffer for reading while `f` runs.
    fn mapped<T>(&self, buffer: &Buffer, f: impl FnOnce(*mut u8, usize) -> T) -> Result<T, GpuError> {
        let t = target(buffer.kind);
        // SAFETY: the context is current on this thread, and the length is the buffer's own.
        let at = unsafe {
            self.gl.bind_buffer(t, Some(buffer.object));
            self.gl.map_buffer_range(t, 0, buffer.bytes, glow::MAP_READ_BIT)
        };
        self.check_error("map a buffer")?;
        if at.is_null() {
            return Err(GpuError::Object("maps no memory for a buffer".into()));
        }
        let out = f(at, buffer.bytes as usize);
        // SAFETY: the buffer is still bound and mapped.
        unsafe { self.gl.unmap_buffer(t) };
        self.check_error("unmap a buffer")?;
        Ok(out)
    }

    /// Describes a buffer to the recorder. Returns `false` if there is no recorder.
    ///
    /// # Errors
    /// Returns an error if the buffer cannot be mapped, or if a name contains a zero.
    pub fn label(&self, buffer: &Buffer, label: &Label<'_>) -> Result<bool, GpuError> {
        let Some(marker) = self.marker else { return Ok(false) };
        let c = |s: &str| CString::new(s).map_err(|_| GpuError::Name(s.to_owned()));
        let (name, element, shape) = (c(label.name)?, c(label.element)?, c(label.shape)?);
        self.mapped(buffer, |at, bytes| {
            let role = label.role as c_int;
            // SAFETY: the range is mapped during the call, the strings end in zero, and the recorder copies them.
            unsafe {
                marker(at.cast(), bytes, name.as_ptr(), role, element.as_ptr(), shape.as_ptr());
            }
        })?;
        Ok(true)
    }

    /// Writes a buffer from its start.
    ///
    /// # Errors
    /// Returns an error if the contents are longer than the buffer.
    pub fn write(&self, buffer: &Buffer, contents: &[u8]) -> Result<(), GpuError> {
        // SAFETY: the context is current on this thread, and GLES checks the length and copies before it returns.
        unsafe {
            self.gl.bind_buffer(target(buffer.kind), Some(buffer.object));
            self.gl.buffer_sub_data_u8_slice(target(buffer.kind), 0, contents);
        }
        self.check_error("write a buffer")
    }

    /// Reads a whole buffer, after all work that writes it.
    ///
    /// # Errors
    /// Returns an error if the buffer cannot be mapped.
    pub fn read(&self, buffer: &Buffer) -> Result<Vec<u8>, GpuError> {
        // SAFETY: the context is current on this thread.
        unsafe { self.gl.memory_barrier(glow::BUFFER_UPDATE_BARRIER_BIT) };
        self.mapped(buffer, |at, bytes| {
            // SAFETY: this many bytes are mapped at `at` for reading during this call, and no other code writes them.
            unsafe { std::slice::from_raw_parts(at, bytes) }.to_vec()
        })
    }

    /// Creates a 2D texture with one unsigned 32-bit number per pixel.
    ///
    /// # Errors
    /// Returns an error if the number of pixels does not match the size, or if GLES has no memory for it.
    pub fn texture(&self, width: u32, height: u32, pixels: &[u32]) -> Result<Texture, GpuError> {
        let sides = |n: u32| i32::try_from(n).map_err(|e| GpuError::Object(format!("texture: {e}")));
        let (w, h) = (sides(width)?, sides(height)?);
        if pixels.len() as u64 != u64::from(width) * u64::from(height) {
            return Err(GpuError::Object(format!(
                "texture: {} pixels for {width}x{height}",
                pixels.len()
            )));
        }
        let bytes = crate::work::words(pixels);
        let t = glow::TEXTURE_2D;
        // SAFETY: the context is current on this thread, the slice contains every pixel, and GLES copies it.
        let object = unsafe {
            let object = self.gl.create_texture().map_err(GpuError::Object)?;
            self.gl.bind_texture(t, Some(object));
            self.gl.tex_storage_2d(t, 1, glow::R32UI, w, h);
            let data = glow::PixelUnpackData::Slice(Some(&bytes));
            self.gl
                .tex_sub_image_2d(t, 0, 0, 0, w, h, glow::RED_INTEGER, glow::UNSIGNED_INT, data);
            for filter in [glow::TEXTURE_MIN_FILTER, glow::TEXTURE_MAG_FILTER] {
                self.gl.tex_parameter_i32(t, filter, glow::NEAREST as i32);
            }
            object
        };
        self.check_error("texture")?;
        Ok(Texture(object))
    }

    /// Binds a buffer for later dispatches.
    ///
    /// # Errors
    /// Returns an error if the binding does not exist.
    pub fn bind(&self, buffer: &Buffer, binding: u32) -> Result<(), GpuError> {
        // SAFETY: the context is current on this thread.
        unsafe {
            self.gl
                .bind_buffer_base(target(buffer.kind), binding, Some(buffer.object));
        }
        self.check_error("bind a buffer")
    }

    /// Binds a texture to a unit of samplers or of images.
    ///
    /// # Errors
    /// Returns an error if the unit does not exist.
    pub fn bind_texture(&self, texture: &Texture, unit: u32, access: Access) -> Result<(), GpuError> {
        // SAFETY: the context is current on this thread.
        unsafe {
            match access {
                Access::Sampled => {
                    self.gl.active_texture(glow::TEXTURE0.saturating_add(unit));
                    self.gl.bind_texture(glow::TEXTURE_2D, Some(texture.0));
                }
                Access::Read | Access::Write => {
                    let mode = if access == Access::Read {
                        glow::READ_ONLY
                    } else {
                        glow::WRITE_ONLY
                    };
                    self.gl
                        .bind_image_texture(unit, Some(texture.0), 0, false, 0, mode, glow::R32UI);
                }
            }
        }
        self.check_error("bind a texture")
    }

    /// Makes a program current and sets its uniforms. Uniforms that the compiler removed are ignored.
    ///
    /// # Errors
    /// Returns an error if a uniform has another type.
    pub fn uniforms(&self, program: &Program, uniforms: &[(&'static str, Uniform)]) -> Result<(), GpuError> {
        // SAFETY: the context is current on this thread, and the program is linked.
        unsafe {
            self.gl.use_program(Some(program.0));
            for (name, value) in uniforms {
                let location = self.gl.get_uniform_location(program.0, name);
                match *value {
                    Uniform::F32(v) => self.gl.uniform_1_f32(location.as_ref(), v),
                    Uniform::U32(v) => self.gl.uniform_1_u32(location.as_ref(), v),
                    Uniform::U32x2([x, y]) => self.gl.uniform_2_u32(location.as_ref(), x, y),
                    Uniform::I32x2([x, y]) => self.gl.uniform_2_i32(location.as_ref(), x, y),
                }
            }
        }
        self.check_error("uniforms")
    }

    /// Runs the current program. Later dispatches see its writes.
    ///
    /// # Errors
    /// Returns an error if GLES refuses the dispatch.
    pub fn dispatch(&self, [x, y, z]: [u32; 3]) -> Result<(), GpuError> {
        // SAFETY: the context is current on this thread.
        unsafe {
            self.gl.dispatch_compute(x, y, z);
            self.gl.memory_barrier(
                glow::SHADER_STORAGE_BARRIER_BIT
                    | glow::SHADER_IMAGE_ACCESS_BARRIER_BIT
                    | glow::TEXTURE_FETCH_BARRIER_BIT,
            );
        }
        self.check_error("dispatch")
    }

    /// Waits until all requested work is done.
    ///
    /// # Errors
    /// Returns an error if a part of the work failed.
    pub fn finish(&self) -> Result<(), GpuError> {
        // SAFETY: the context is current on this thread.
        unsafe { self.gl.finish() };
        self.check_error("finish")
    }

    /// Deletes objects.
    pub fn free(&self, programs: &[Program], buffers: &[Buffer], textures: &[Texture]) {
        // SAFETY: the context is current on this thread. GLES keeps objects in use, and ignores deleted objects.
        unsafe {
            programs.iter().for_each(|p| self.gl.delete_program(p.0));
            buffers.iter().for_each(|b| self.gl.delete_buffer(b.object));
            textures.iter().for_each(|t| self.gl.delete_texture(t.0));
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // A drop cannot report errors.
        let _ = self.egl.make_current(self.display, None, None, None);
        let _ = self.egl.destroy_context(self.display, self.context);
        let _ = self.egl.terminate(self.display);
    }
}
