//! Chains of job descriptors, as every family decodes them.

use crate::GpuVa;
use serde::Serialize;

/// Why a chain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainEnd {
    /// At a job without a successor.
    End,
    /// At a job that was already in the chain.
    Loop(GpuVa),
    /// At a job whose header is unmapped or without content.
    Unreadable(GpuVa),
    /// At a job whose header does not decode; that job is the last of the list.
    Undecoded(GpuVa),
    /// After the maximum number of jobs of the family.
    Limit,
}

/// A chain of job descriptors.
pub struct JobChain {
    /// The jobs, in chain order. A job whose header could not be read or decoded is the last.
    pub jobs: Vec<Box<dyn ChainJob>>,
    /// Why the chain ended.
    pub end: ChainEnd,
}

/// The dispatch of a shader: workgroup counts and sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Dispatch {
    /// Number of workgroups along x, y, z; each at least 1.
    pub workgroups: [u32; 3],
    /// Invocations per workgroup along x, y, z; each at least 1.
    pub size: [u32; 3],
}

impl Dispatch {
    /// Returns the total number of invocations.
    #[must_use]
    pub fn invocations(&self) -> u128 {
        self.size
            .iter()
            .chain(&self.workgroups)
            .map(|n| u128::from(*n))
            .product()
    }
}

/// The pipeline stage of a shader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShaderStage {
    /// A compute shader.
    Compute,
    /// A vertex shader.
    Vertex,
    /// A geometry shader.
    Geometry,
    /// A fragment shader.
    Fragment,
}

impl ShaderStage {
    /// Returns the stage's name in JSON and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Vertex => "vertex",
            Self::Geometry => "geometry",
            Self::Fragment => "fragment",
        }
    }
}

/// The kind of work that a job does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobWork {
    /// It runs a compute shader.
    Compute,
    /// It draws: vertices, primitives or fragments.
    Draw,
    /// It runs no shader, or does not decode.
    #[default]
    Other,
}

/// A job of a chain.
pub trait ChainJob {
    /// Returns the address of the job.
    fn va(&self) -> GpuVa;
    /// Returns the address of the job's shader, if it runs one. For a job with two shaders, that of the earlier stage.
    fn shader_va(&self) -> Option<GpuVa>;
    /// Returns all shaders that the job runs: stage and address of the code.
    fn shaders(&self) -> Vec<(ShaderStage, GpuVa)>;
    /// Returns the dispatch of the job's shader, if it runs one.
    fn dispatch(&self) -> Option<Dispatch>;
    /// Returns the name of the job's type, or `None` if the header does not decode.
    fn type_name(&self) -> Option<&'static str>;
    /// Returns the kind of work that the job does.
    fn work(&self) -> JobWork;
    /// Returns the fields of the header, name and value in words. Empty if the header does not decode.
    fn fields(&self) -> Vec<(&'static str, String)>;
    /// Returns whether the header decodes.
    fn is_decoded(&self) -> bool {
        self.type_name().is_some()
    }
    /// Returns why the header does not decode, or `None` if it does.
    fn error(&self) -> Option<String>;
    /// Returns whether the bytes of the header are text.
    fn is_text(&self) -> bool;
    /// Returns why no driver would write the header, although it decodes.
    fn doubt(&self) -> Option<String>;
    /// Returns the descriptors of the job, the header first: the name of the layout in the register map, and the
    /// address.
    fn descriptors(&self) -> Vec<(&'static str, GpuVa)>;
}
