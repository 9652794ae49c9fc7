//! The jobs of a recording: from submit to interrupt, with the chain that memory holds.

use super::lookup::memory_at;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::check::Submit;
use trace_core::jobs::{self, ChainEnd, GpuMemory, address_spaces};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{ChainReport, Recording};
use trace_core::registers::RegisterMap;

/// Maximum number of jobs of a chain that are kept.
const MAX_CHAIN_JOBS: usize = 256;

/// The type of a job that is a stream of commands.
pub const COMMAND_STREAM: &str = "command stream";

/// A job of a chain.
#[derive(Clone, Debug, Default)]
pub struct ChainJob {
    /// GPU address of its header.
    pub va: u64,
    /// Its type in words, or why the header does not decode.
    pub kind: String,
    /// Whether the header decodes.
    pub decoded: bool,
    /// Workgroups and workgroup size.
    pub dispatch: Option<([u32; 3], [u32; 3])>,
    /// Shader address.
    pub shader: Option<u64>,
    /// All shaders that it names: what each works on, where it begins.
    pub shaders: Vec<(jobs::Stage, u64)>,
    /// Fields of the header in words: name and value.
    pub fields: Vec<(String, String)>,
}

/// Work from its submit to its end.
#[derive(Clone, Debug)]
pub struct JobFact {
    /// Index in order of submit.
    pub index: u32,
    /// Job slot.
    pub slot: u8,
    /// Event of the submit write.
    pub submit: u64,
    /// First event of the handler of its interrupt.
    pub done: Option<u64>,
    /// Address of the first job of the chain.
    pub head_va: u64,
    /// Nanoseconds from submit to interrupt.
    pub duration_ns: Option<u64>,
    /// Whether it ended in a fault.
    pub failed: bool,
    /// The chain as memory holds it.
    pub chain: Arc<Chain>,
    /// How it ended where it was recorded, as the device there told it; found out with the chain.
    pub report: Option<Arc<ChainReport>>,
}

impl JobFact {
    /// Its submit alone.
    #[must_use]
    pub fn to_submit(&self) -> Submit {
        Submit {
            index: self.index,
            event: self.submit,
            head_va: GpuVa(self.head_va),
        }
    }

    /// First and last event.
    #[must_use]
    pub fn span(&self) -> (u64, u64) {
        (self.submit, self.done.unwrap_or(u64::MAX).max(self.submit))
    }
}

/// A chain of jobs as memory holds it: a list of them, and what is known of it as a whole. Jobs that run the same one
/// share it, so that a job of a million is small.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// Its jobs, the first of them that are kept.
    jobs: Vec<ChainJob>,
    /// How it ends, when not in good order.
    pub end: Option<String>,
    /// Address space that it runs in, as an index into the recording's list; `None`: not in the recording, or not
    /// found out yet.
    pub space: Option<u32>,
}

impl Chain {
    /// Of these jobs, which end in good order.
    #[must_use]
    pub fn new(jobs: Vec<ChainJob>) -> Self {
        Self {
            jobs,
            ..Self::default()
        }
    }
}

impl Deref for Chain {
    type Target = [ChainJob];

    fn deref(&self) -> &[ChainJob] {
        &self.jobs
    }
}

/// The chain of each job, read in the address space that it runs in. Jobs that run the same chain while memory is the
/// same share it.
///
/// # Errors
/// [`Cancelled`] when nobody wants it any more.
pub fn read_chains(recording: &Recording, jobs: &[JobFact], progress: &Progress) -> Result<Vec<Arc<Chain>>, Cancelled> {
    let snapshots = &recording.memory.snapshots;
    let mut known: HashMap<(u64, usize, Option<u32>), Arc<Chain>> = HashMap::new();
    let submits: Vec<u64> = jobs.iter().map(|j| j.submit).collect();
    let spaces =
        RegisterMap::for_jobs_of(recording).map_or_else(Vec::new, |map| address_spaces(recording, map, &submits));
    let mut out = Vec::with_capacity(jobs.len());
    progress.set_total(jobs.len() as u64);
    for (at, j) in jobs.iter().enumerate() {
        let space = spaces.get(at).copied().flatten();
        let snapshot = snapshots.partition_point(|s| s.event <= j.submit);
        let chain = match known.get(&(j.head_va, snapshot, space)) {
            Some(c) => Arc::clone(c),
            None => {
                let memory = || space.and_then(|s| memory_at(recording, s, j.submit));
                let mut c = match recording.has_command_streams() {
                    true => command_stream(j.head_va),
                    false => memory().map_or_else(Chain::default, |m| chain(&m, GpuVa(j.head_va))),
                };
                c.space = space;
                let c = Arc::new(c);
                known.insert((j.head_va, snapshot, space), Arc::clone(&c));
                c
            }
        };
        out.push(chain);
        progress.advance(1)?;
    }
    Ok(out)
}

/// What stands for the chain of a job that is a stream of commands.
fn command_stream(va: u64) -> Chain {
    Chain::new(vec![ChainJob {
        va,
        kind: COMMAND_STREAM.to_owned(),
        decoded: true,
        ..ChainJob::default()
    }])
}

fn chain(mem: &impl GpuMemory, head: GpuVa) -> Chain {
    let chain = jobs::read_chain(mem, head);
    let mut out = Vec::new();
    let end = match chain.end {
        ChainEnd::End => None,
        ChainEnd::Loop(va) => Some(format!("it comes back to {va}")),
        ChainEnd::Unreadable(va) => Some(format!("the recording does not hold {va}")),
        ChainEnd::Undecoded(va) => Some(format!("the header at {va} does not decode")),
        ChainEnd::Limit => Some("it is longer than any that is followed".into()),
    };
    for job in chain.jobs.iter().take(MAX_CHAIN_JOBS) {
        let mut fields = Vec::new();
        let kind = match &job.header {
            Ok(h) => {
                fields.push(("index".into(), h.index.to_string()));
                fields.push(("status".into(), jobs::exception_name(h.exception_code()).to_owned()));
                fields.push(("barrier".into(), if h.barrier { "yes" } else { "no" }.into()));
                if h.next.0 != 0 {
                    fields.push(("next".into(), h.next.to_string()));
                }
                if h.fault_pointer != 0 {
                    fields.push(("fault at".into(), format!("{:#x}", h.fault_pointer)));
                }
                job.kind()
                    .map_or_else(|| format!("type {}", h.job_type), |k| k.name().to_owned())
            }
            Err(e) => e.to_string(),
        };
        out.push(ChainJob {
            va: job.va.0,
            kind,
            decoded: job.is_decoded(),
            dispatch: job.dispatch.map(|d| (d.workgroups, d.size)),
            shader: job.shader_va.map(|s| s.0),
            shaders: jobs::find_shaders(job)
                .into_iter()
                .map(|(stage, va)| (stage, va.0))
                .collect(),
            fields,
        });
    }
    Chain {
        jobs: out,
        end,
        space: None,
    }
}
