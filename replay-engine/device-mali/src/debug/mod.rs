//! Looking into jobs: one thread followed clause by clause, and the last writer of every byte.
//!
//! Both replay a plan in this process on a device that watches. Nothing of a run is kept for them beforehand: what is
//! asked for is computed again, with the same result, because neither memory nor the order of workgroups depends on
//! anything but the plan.

pub(crate) mod flows;
pub(crate) mod follow;
pub(crate) mod job_trace;
mod producers;
pub(crate) mod writers;

pub use flows::{Flow, FlowReport, PageUsage, SavedPage};
pub use follow::{Change, MemoryAccess, Step, ThreadEnd, ThreadTrace};
pub use producers::{Closure, DependencyPolicy, KeepReason, Producers};
pub use writers::{JobLocation, LastWrite, ShaderLocation, Writer};

use crate::device::SoftwareMali;
use crate::model::Model;
use job_trace::JobTrace;
use replay_engine::device::Board as _;
use replay_engine::plan::{CompileError, CompileOptions, Compiled, Edits, compile};
use replay_engine::run::{Outcome, Verdict, run};
use std::collections::BTreeSet;
use trace_core::mmu;
use trace_core::progress::{Cancelled, Progress};
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr, Recording};

/// A thread of a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread {
    /// By its place along x, y, z.
    At([u32; 3]),
    /// By its number, counted along x, then y, then z.
    Number(u32),
}

impl Thread {
    /// Its place along x, y, z in a workgroup of this size.
    #[must_use]
    pub fn coordinates(self, size: [u32; 3]) -> [u32; 3] {
        let [sx, sy, _] = size.map(|s| s.max(1));
        match self {
            Self::At(place) => place,
            Self::Number(n) => [n % sx, n / sx % sy, n / sx / sy],
        }
    }
}

/// Which thread is followed, and which of its clauses are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadQuery {
    /// The chain that it belongs to, by the number of its submit, from 0.
    pub chain: u32,
    /// The job's place in the chain, from 0.
    pub position: u32,
    /// The workgroup along x, y, z.
    pub workgroup: [u32; 3],
    /// The thread within it.
    pub thread: Thread,
    /// The first clause that is kept, counted from the thread's begin.
    pub from: u64,
    /// Most clauses that are kept.
    pub max_steps: usize,
    /// An address of which the thread's last write is looked for, kept or not.
    pub mark: Option<u64>,
}

/// Clauses that are kept when nobody says otherwise.
pub const MAX_STEPS: usize = 1 << 16;

/// Why nothing can be shown of a thread, or of who wrote a byte.
#[derive(Debug, thiserror::Error)]
pub enum DebugError {
    /// There is no plan for the device.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// Nobody wants it any more.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// The run never came to the job.
    #[error("the replay did not come to job {chain}, place {position} of its chain: {why}")]
    NotReached {
        /// Number of the submit.
        chain: u32,
        /// Place in the chain.
        position: u32,
        /// How the run ended.
        why: String,
    },
    /// The job runs no shader that this model executes.
    #[error("job {chain}, place {position} of its chain, is not followed: {why}")]
    NoShader {
        /// Number of the submit.
        chain: u32,
        /// Place in the chain.
        position: u32,
        /// Why not.
        why: String,
    },
    /// The dispatch has no such workgroup or thread.
    #[error("there is no {what} {asked:?}: {} has {has:?} along x, y, z", whose(what))]
    NoThread {
        /// `workgroup` or `thread`.
        what: &'static str,
        /// What was asked for.
        asked: [u32; 3],
        /// How many there are.
        has: [u32; 3],
    },
    /// The address space is not one of the plan's.
    #[error("the plan has no address space {0}")]
    NoSpace(u32),
    /// Nothing is mapped at the address.
    #[error("{0} is not mapped in the end")]
    Unmapped(GpuVa),
    /// More writes than are remembered. Those of one page alone may still be few enough: see [`trace_page`].
    #[error("the jobs write more often than can be remembered, so the last writer of {0} is not known")]
    TooManyWrites(GpuVa),
}

/// What has as many of them as an error says.
fn whose(what: &str) -> &'static str {
    match what {
        "thread" => "each workgroup of the job",
        _ => "the job",
    }
}

impl DebugError {
    pub(crate) fn no_shader(place: JobLocation, why: impl Into<String>) -> Self {
        Self::NoShader {
            chain: place.chain,
            position: place.position,
            why: why.into(),
        }
    }
}

/// The model that a recording was made on, or one that behaves as it.
#[must_use]
pub fn model_for_recording(recording: &Recording) -> Option<Model> {
    let id = recording.facts.identity.gpu_id;
    let map = trace_core::registers::RegisterMap::for_gpu(id)?;
    Model::ALL
        .into_iter()
        .find(|m| map.is_same_product(id, m.data().gpu_id))
}

/// The plan of a recording for a model in this process.
///
/// # Errors
/// When the recording cannot become a plan.
pub fn compile_plan(
    recording: &Recording,
    edits: &Edits,
    model: Model,
    progress: &Progress,
) -> Result<Compiled, DebugError> {
    let options = CompileOptions::default();
    Ok(compile(
        recording,
        edits,
        &SoftwareMali::new(model).info(),
        &options,
        progress,
    )?)
}

/// Replays a plan up to a job and follows one of its threads.
///
/// # Errors
/// When the run does not come to the job, the job has no such thread, or its shader cannot run.
pub fn follow(
    compiled: &Compiled,
    model: Model,
    wanted: ThreadQuery,
    progress: &Progress,
) -> Result<ThreadTrace, DebugError> {
    let mut device = SoftwareMali::new(model);
    device.job_trace = JobTrace::for_thread(wanted);
    let outcome = run(&compiled.plan, &compiled.pages, &mut device, progress);
    progress.check()?;
    match std::mem::take(&mut device.job_trace) {
        JobTrace::Thread(order) => match order.result {
            Some(found) => found,
            None => Err(DebugError::NotReached {
                chain: wanted.chain,
                position: wanted.position,
                why: describe_end(&outcome),
            }),
        },
        _ => Err(DebugError::NotReached {
            chain: wanted.chain,
            position: wanted.position,
            why: describe_end(&outcome),
        }),
    }
}

fn describe_end(outcome: &Outcome) -> String {
    match (&outcome.failure, outcome.verdict) {
        (Some(why), _) => why.clone(),
        (None, Verdict::Failed) => "it failed".to_owned(),
        (None, _) => "it ended before".to_owned(),
    }
}

/// A plan replayed with every write remembered.
pub struct WriteTrace {
    /// What the replay did.
    pub outcome: Outcome,
    device: SoftwareMali,
    spaces: Vec<replay_engine::plan::PlanSpace>,
}

/// Replays a plan and remembers who wrote each byte last.
///
/// # Errors
/// [`Cancelled`] when nobody wants it any more. A run that fails is told by its outcome; what was written until then
/// is known.
pub fn trace(compiled: &Compiled, model: Model, progress: &Progress) -> Result<WriteTrace, DebugError> {
    run_traced(compiled, model, JobTrace::for_writers(None), progress)
}

/// As [`trace`], with the writers of one page alone: what it takes does not grow with what the jobs write elsewhere,
/// but for what one job writes.
///
/// # Errors
/// As [`trace`].
pub fn trace_page(
    compiled: &Compiled,
    model: Model,
    page: PhysAddr,
    progress: &Progress,
) -> Result<WriteTrace, DebugError> {
    run_traced(compiled, model, JobTrace::for_writers(Some(page.frame())), progress)
}

/// Replays a plan and finds out what jobs hand to each other: which reads what another one wrote. `keep`: the pages, by
/// the number of a chain and their frame, of which a copy is kept as that chain left them.
///
/// # Errors
/// [`Cancelled`] when nobody wants it any more.
pub fn trace_flows(
    compiled: &Compiled,
    model: Model,
    keep: BTreeSet<(u32, u64)>,
    progress: &Progress,
) -> Result<FlowReport, DebugError> {
    let mut device = SoftwareMali::new(model);
    device.job_trace = JobTrace::Flows(Box::new(flows::Flows::new(keep)));
    let outcome = run(&compiled.plan, &compiled.pages, &mut device, progress);
    progress.check()?;
    Ok(match std::mem::take(&mut device.job_trace) {
        JobTrace::Flows(f) => f.finish(outcome),
        _ => FlowReport {
            outcome,
            flows: Vec::new(),
            page_usage: Vec::new(),
            saved_pages: Vec::new(),
            truncated: false,
        },
    })
}

fn run_traced(
    compiled: &Compiled,
    model: Model,
    watch: JobTrace,
    progress: &Progress,
) -> Result<WriteTrace, DebugError> {
    let mut device = SoftwareMali::new(model);
    device.job_trace = watch;
    let outcome = run(&compiled.plan, &compiled.pages, &mut device, progress);
    progress.check()?;
    Ok(WriteTrace {
        outcome,
        device,
        spaces: compiled.plan.spaces.clone(),
    })
}

impl WriteTrace {
    /// Who wrote the byte at an address last, as the page tables stand in the end. `space` is the number of the address
    /// space in the plan's list.
    ///
    /// # Errors
    /// When there is no such address space, nothing is mapped at the address, or the jobs write more often than can be
    /// remembered.
    pub fn last_writer(&self, space: u32, va: GpuVa) -> Result<LastWrite, DebugError> {
        let pa = self.physical_address(space, va)?;
        let page = self.device.memory.frame(pa.frame()).ok_or(DebugError::Unmapped(va))?;
        let writer = match &self.device.job_trace {
            JobTrace::Writers(w) if w.is_full() => return Err(DebugError::TooManyWrites(va)),
            JobTrace::Writers(w) => w.last_writer(pa.0),
            _ => Writer::Recording,
        };
        Ok(LastWrite {
            byte: page.get(pa.in_page()).copied().unwrap_or(0),
            pa,
            writer,
        })
    }

    /// Where an address lies in the device's memory, as the page tables stand in the end.
    ///
    /// # Errors
    /// When there is no such address space, or nothing is mapped at the address.
    pub fn physical_address(&self, space: u32, va: GpuVa) -> Result<PhysAddr, DebugError> {
        let s = self.spaces.get(space as usize).ok_or(DebugError::NoSpace(space))?;
        let leaf = mmu::translate(s.format, s.root, va, &self.device.memory).map_err(|_| DebugError::Unmapped(va))?;
        leaf.target(va).ok_or(DebugError::Unmapped(va))
    }

    /// Memory that this takes, in bytes, roughly: that of the device with the writers.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let writers = match &self.device.job_trace {
            JobTrace::Writers(w) => w.bytes(),
            _ => 0,
        };
        (self.device.memory.backed_count() * PAGE_SIZE) as u64 + writers
    }

    /// Writers that are remembered.
    #[must_use]
    pub fn writer_count(&self) -> u64 {
        match &self.device.job_trace {
            JobTrace::Writers(w) => w.count(),
            _ => 0,
        }
    }
}
