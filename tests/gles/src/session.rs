//! A program on a GPU: its objects, which are created once, and its dispatches, which can run many times.

use crate::compare::{Mismatch, compare};
use crate::gpu::{Buffer, Gpu, GpuError, Label, Program, Texture};
use crate::work::{Kind, Role, Tolerance, Work};

/// The reason why a program failed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The GPU refused a call.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// The program has no buffer of this name.
    #[error("there is no buffer {0}")]
    NoBuffer(String),
    /// The contents of a buffer are wrong.
    #[error("{buffer}: {mismatch}")]
    Wrong {
        /// Name of the buffer.
        buffer: String,
        /// Difference from the expected contents.
        mismatch: Mismatch,
    },
}

/// A program's objects on a GPU, which are deleted on drop.
pub struct Session<'a> {
    gpu: &'a Gpu,
    work: &'a Work,
    programs: Vec<Program>,
    buffers: Vec<Buffer>,
    textures: Vec<Texture>,
}

impl<'a> Session<'a> {
    /// Creates a program's objects, and describes its buffers to the recorder.
    ///
    /// # Errors
    /// Returns an error if a shader does not compile or if GLES has no memory.
    pub fn new(gpu: &'a Gpu, work: &'a Work) -> Result<Self, SessionError> {
        let mut s = Self {
            gpu,
            work,
            programs: Vec::new(),
            buffers: Vec::new(),
            textures: Vec::new(),
        };
        for step in &work.steps {
            s.programs.push(gpu.program(step.name, step.source)?);
        }
        for t in &work.textures {
            s.textures.push(gpu.texture(t.width, t.height, &t.pixels)?);
        }
        for b in &work.buffers {
            let created = gpu.buffer(b.kind, &b.init)?;
            s.buffers.push(created);
            if let Some(role) = b.role {
                let label = Label {
                    name: b.name,
                    role,
                    element: b.element.name(),
                    shape: &b.shape_text(),
                };
                gpu.label(&created, &label)?;
            }
        }
        Ok(s)
    }

    fn buffer(&self, name: &str) -> Result<&Buffer, SessionError> {
        let at = self.work.buffers.iter().position(|b| b.name == name);
        at.and_then(|i| self.buffers.get(i))
            .ok_or_else(|| SessionError::NoBuffer(name.to_owned()))
    }

    /// Writes a buffer.
    ///
    /// # Errors
    /// Returns an error if there is no buffer of this name, or if the contents are longer than it.
    pub fn write(&self, name: &str, contents: &[u8]) -> Result<(), SessionError> {
        Ok(self.gpu.write(self.buffer(name)?, contents)?)
    }

    /// Reads a buffer.
    ///
    /// # Errors
    /// Returns an error if there is no buffer of this name, or if it cannot be mapped.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, SessionError> {
        Ok(self.gpu.read(self.buffer(name)?)?)
    }

    /// Submits all dispatches in order, and does not wait for them.
    ///
    /// # Errors
    /// Returns an error if GLES refuses a dispatch.
    pub fn run(&self) -> Result<(), SessionError> {
        for (step, program) in self.work.steps.iter().zip(&self.programs) {
            for (data, buffer) in self.work.buffers.iter().zip(&self.buffers) {
                if step.bound.is_empty() {
                    self.gpu.bind(buffer, data.binding)?;
                }
            }
            for (binding, name) in &step.bound {
                self.gpu.bind(self.buffer(name)?, *binding)?;
            }
            for (unit, which, access) in &step.textures {
                if let Some(t) = self.textures.get(*which) {
                    self.gpu.bind_texture(t, *unit, *access)?;
                }
            }
            self.gpu.uniforms(program, &step.uniforms)?;
            self.gpu.dispatch(step.groups)?;
        }
        Ok(())
    }

    /// Waits until every dispatch is done.
    ///
    /// # Errors
    /// Returns an error if a dispatch failed.
    pub fn finish(&self) -> Result<(), SessionError> {
        Ok(self.gpu.finish()?)
    }

    /// Returns the contents of all storage buffers, compared with the expected contents. Inputs must be unchanged.
    ///
    /// # Errors
    /// Returns an error if a buffer cannot be read. A wrong buffer has an error in its own result.
    pub fn results(&self) -> Result<Vec<BufferResult>, SessionError> {
        let mut out = Vec::new();
        for b in self.work.buffers.iter().filter(|b| b.kind == Kind::Storage) {
            let contents = self.read(b.name)?;
            let session_error = |mismatch| SessionError::Wrong {
                buffer: b.name.to_owned(),
                mismatch,
            };
            let verdict = match (&b.expected, b.role) {
                (Some((expected, tolerance)), _) => Some(compare(b.element, &contents, expected, *tolerance)),
                (None, Some(Role::Input | Role::Weights)) => {
                    Some(compare(b.element, &contents, &b.init, Tolerance::Exact))
                }
                (None, _) => None,
            };
            out.push(BufferResult {
                name: b.name,
                contents,
                verdict: verdict.map(|v| v.map_err(session_error)),
            });
        }
        Ok(out)
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.gpu.free(&self.programs, &self.buffers, &self.textures);
    }
}

/// A storage buffer after a run.
#[derive(Debug)]
pub struct BufferResult {
    /// Name of the buffer.
    pub name: &'static str,
    /// Contents of the buffer.
    pub contents: Vec<u8>,
    /// Greatest difference from the expected contents, or an error. `None` if there are no expected contents.
    pub verdict: Option<Result<f64, SessionError>>,
}
