//! Chains of job descriptors, as every family decodes them.

use crate::GpuVa;

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

/// A job of a chain.
pub trait ChainJob {
    /// Returns the address of the job.
    fn va(&self) -> GpuVa;
    /// Returns the address of the job's shader, if it runs one.
    fn shader_va(&self) -> Option<GpuVa>;
    /// Returns the name of the job's type, or `None` if the header does not decode.
    fn type_name(&self) -> Option<&'static str>;
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
