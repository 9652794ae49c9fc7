//! Job chains, from the submitted head to the last job.

use super::header::{HEADER_BYTES, HEADER_LAYOUT, HeaderError, JobHeader, JobType, Soundness, exception_name};
use super::payload::{Compute, Payload, decode_payload};
use crate::GpuVa;
use crate::families::chain::{ChainEnd, ChainJob, Dispatch, JobWork, ShaderStage};
use crate::memory::GpuMemory;
use std::collections::HashSet;

/// Maximum number of jobs that are followed in a chain.
pub const MAX_JOBS: usize = 65536;

/// A job of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Address of the job.
    pub va: GpuVa,
    /// Its header, or why the bytes are not one.
    pub header: Result<JobHeader, HeaderError>,
    /// Invocation counts of the job's shader, if it runs one.
    pub dispatch: Option<Dispatch>,
    /// Address of the job's shader, if it runs one. For a job with two shaders, the vertex shader.
    pub shader_va: Option<GpuVa>,
    /// The payload after the header.
    pub payload: Payload,
}

impl Job {
    /// Returns the job's type, if its header decodes.
    #[must_use]
    pub fn kind(&self) -> Option<JobType> {
        self.header.as_ref().ok()?.kind()
    }

    /// Returns whether the header decodes.
    #[must_use]
    pub fn is_decoded(&self) -> bool {
        self.header.is_ok()
    }
}

impl ChainJob for Job {
    fn va(&self) -> GpuVa {
        self.va
    }

    fn shader_va(&self) -> Option<GpuVa> {
        self.shader_va
    }

    fn shaders(&self) -> Vec<(ShaderStage, GpuVa)> {
        find_shaders(self)
    }

    fn dispatch(&self) -> Option<Dispatch> {
        self.dispatch
    }

    fn type_name(&self) -> Option<&'static str> {
        self.kind().map(JobType::name)
    }

    fn work(&self) -> JobWork {
        match self.kind() {
            Some(JobType::Compute) => JobWork::Compute,
            Some(
                JobType::Vertex
                | JobType::Geometry
                | JobType::Tiler
                | JobType::Fused
                | JobType::Fragment
                | JobType::IndexedVertex,
            ) => JobWork::Draw,
            Some(JobType::Null | JobType::WriteValue | JobType::CacheFlush) | None => JobWork::Other,
        }
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let Ok(h) = &self.header else { return Vec::new() };
        let mut fields = vec![
            ("index", h.index.to_string()),
            ("status", exception_name(h.exception_code()).to_owned()),
            ("barrier", if h.barrier { "yes" } else { "no" }.to_owned()),
        ];
        if h.next.get() != 0 {
            fields.push(("next", h.next.to_string()));
        }
        if h.fault_pointer != GpuVa::ZERO {
            fields.push(("fault at", format!("{:#x}", h.fault_pointer)));
        }
        fields
    }

    fn error(&self) -> Option<String> {
        self.header.as_ref().err().map(ToString::to_string)
    }

    fn is_text(&self) -> bool {
        matches!(self.header, Err(HeaderError::Text { .. }))
    }

    fn doubt(&self) -> Option<String> {
        match self.header.as_ref().ok()?.check_soundness() {
            Soundness::Doubtful(why) => Some(why),
            Soundness::Sound => None,
        }
    }

    fn descriptors(&self) -> Vec<(&'static str, GpuVa)> {
        let mut out = vec![(HEADER_LAYOUT, self.va)];
        let behind = self.va.saturating_add(HEADER_BYTES as u64);
        match &self.payload {
            Payload::WriteValue(_) => out.push(("write-value", behind)),
            Payload::CacheFlush(_) => out.push(("cache-flush", behind)),
            Payload::Compute(c) => {
                out.push(("compute-invocation", behind));
                out.push(("draw", c.draw));
                out.extend(c.renderer.map(|_| ("renderer-state", c.state)));
            }
            Payload::IndexedVertex { vertex, fragment } => {
                out.push(("compute-invocation", behind));
                for c in [vertex, fragment] {
                    out.push(("draw", c.draw));
                    out.extend(c.renderer.map(|_| ("renderer-state", c.state)));
                }
            }
            Payload::None | Payload::Fragment { .. } | Payload::NotRead | Payload::Unreadable => {}
        }
        out
    }
}

/// Returns the shaders that a job's descriptors point to, each with the address of its code.
#[must_use]
pub fn find_shaders(job: &Job) -> Vec<(ShaderStage, GpuVa)> {
    let named = |stage, c: &Compute| {
        let state = c.renderer.filter(|s| s.shader.get() != 0)?;
        Some((stage, state.shader))
    };
    let all = match (&job.payload, job.kind()) {
        (Payload::Compute(c), Some(JobType::Compute)) => [named(ShaderStage::Compute, c), None],
        (Payload::Compute(c), Some(JobType::Vertex)) => [named(ShaderStage::Vertex, c), None],
        // The renderer state of a tiler job belongs to the fragments that its primitives will cover.
        (Payload::Compute(c), Some(JobType::Tiler)) => [named(ShaderStage::Fragment, c), None],
        (Payload::IndexedVertex { vertex, fragment }, _) => [
            named(ShaderStage::Vertex, vertex),
            named(ShaderStage::Fragment, fragment),
        ],
        _ => [None, None],
    };
    all.into_iter().flatten().collect()
}

/// A chain of jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The jobs, in chain order. A job whose header could not be read or decoded is the last.
    pub jobs: Vec<Job>,
    /// Why the chain ended.
    pub end: ChainEnd,
}

/// Reads one job.
#[must_use]
pub fn read_job(mem: &(impl GpuMemory + ?Sized), va: GpuVa) -> Job {
    let mut bytes = [0; HEADER_BYTES];
    let header = if mem.read(va, &mut bytes) {
        JobHeader::decode(&bytes)
    } else {
        Err(HeaderError::Unreadable { at: va })
    };
    let (payload, dispatch) = match &header {
        Ok(h) => decode_payload(mem, va, h),
        Err(_) => (Payload::None, None),
    };
    let state = match &payload {
        Payload::Compute(c) | Payload::IndexedVertex { vertex: c, .. } => c.renderer,
        _ => None,
    };
    let shader_va = state.map(|s| s.shader).filter(|s| s.get() != 0);
    Job {
        va,
        header,
        dispatch,
        shader_va,
        payload,
    }
}

/// Follows a chain from its head.
#[must_use]
pub fn read_chain(mem: &(impl GpuMemory + ?Sized), head: GpuVa) -> Chain {
    let mut jobs = Vec::new();
    let mut seen = HashSet::new();
    let mut at = head;
    let end = loop {
        if jobs.len() >= MAX_JOBS {
            break ChainEnd::Limit;
        }
        if !seen.insert(at) {
            break ChainEnd::Loop(at);
        }
        let this = read_job(mem, at);
        let next = match &this.header {
            Ok(h) => Ok(h.next),
            Err(HeaderError::Unreadable { .. }) => Err(ChainEnd::Unreadable(at)),
            Err(_) => Err(ChainEnd::Undecoded(at)),
        };
        jobs.push(this);
        match next {
            Ok(GpuVa::ZERO) => break ChainEnd::End,
            Ok(next) => at = next,
            Err(end) => break end,
        }
    };
    Chain { jobs, end }
}
