//! Debugger of compute jobs: the trace of a thread clause by clause, and the last writer of every byte.
//!
//! Both replay a plan in this process on a tracing device. No data of earlier runs is needed. The results are computed
//! again and are the same, because memory and the order of workgroups depend only on the plan.

mod producers;

pub use crate::job_trace::flows::{Flow, FlowReport, PageUsage, SavedPage};
pub use crate::job_trace::follow::{Change, MemoryAccess, Step, ThreadEnd, ThreadTrace};
pub use crate::job_trace::query::{DebugError, MAX_STEPS, Thread, ThreadQuery};
pub use crate::job_trace::writers::{JobLocation, LastWrite, ShaderLocation, Writer};
pub use producers::{Closure, DependencyPolicy, KeepReason, Producers};

use crate::device::SoftwareMali;
use crate::job_trace::JobTrace;
use crate::job_trace::flows::Flows;
use crate::model::Model;
use replay_engine::compile::compile;
use replay_engine::device::Target as _;
use replay_engine::plan::{CompileOptions, Compiled, Edits};
use replay_engine::run::{Outcome, Verdict, run};
use std::collections::BTreeSet;
use trace_core::mmu;
use trace_core::progress::Progress;
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr, Recording};

/// Returns the model that a recording was made on, or one that behaves like it.
#[must_use]
pub fn model_for_recording(recording: &Recording) -> Option<Model> {
    let id = recording.metadata.identity.gpu_id;
    let map = trace_core::registers::RegisterMap::for_gpu(id)?;
    Model::ALL
        .into_iter()
        .find(|m| map.is_same_product(id, m.data().gpu_id))
}

/// Compiles a recording into a plan for a model in this process.
///
/// # Errors
/// When the recording cannot be compiled.
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

/// Replays a plan up to a job and traces one of its threads.
///
/// # Errors
/// When the run does not reach the job, the thread does not exist, or the shader cannot run.
pub fn follow(
    compiled: &Compiled,
    model: Model,
    query: ThreadQuery,
    progress: &Progress,
) -> Result<ThreadTrace, DebugError> {
    let mut device = SoftwareMali::new(model);
    device.job_trace = JobTrace::for_thread(query);
    let outcome = run(&compiled.plan, &compiled.pages, &mut device, progress);
    progress.check()?;
    match std::mem::take(&mut device.job_trace) {
        JobTrace::Thread(order) => match order.result {
            Some(found) => found,
            None => Err(DebugError::NotReached {
                chain: query.chain,
                position: query.position,
                why: describe_end(&outcome),
            }),
        },
        _ => Err(DebugError::NotReached {
            chain: query.chain,
            position: query.position,
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

/// Result of a replay with last-writer tracking.
pub struct WriteTrace {
    /// Outcome of the replay.
    pub outcome: Outcome,
    device: SoftwareMali,
    spaces: Vec<replay_engine::plan::PlanSpace>,
}

/// Replays a plan and records the last writer of each byte.
///
/// # Errors
/// Returns [`DebugError::Cancelled`] when the work was cancelled. A failed run is reported in its outcome; the writes up to the
/// failure are known.
pub fn trace(compiled: &Compiled, model: Model, progress: &Progress) -> Result<WriteTrace, DebugError> {
    run_traced(compiled, model, JobTrace::for_writers(None), progress)
}

/// Does the same as [`trace`] for the writers of one page. Memory usage does not grow with writes to other pages,
/// except those of a single job.
///
/// # Errors
/// Returns the errors of [`trace`].
pub fn trace_page(
    compiled: &Compiled,
    model: Model,
    page: PhysAddr,
    progress: &Progress,
) -> Result<WriteTrace, DebugError> {
    run_traced(compiled, model, JobTrace::for_writers(Some(page.frame())), progress)
}

/// Replays a plan and finds which jobs read what other jobs wrote. `keep` lists pages, by the number of a chain and
/// their frame, of which a copy is saved as that chain left them.
///
/// # Errors
/// Returns [`DebugError::Cancelled`] when the work was cancelled.
pub fn trace_flows(
    compiled: &Compiled,
    model: Model,
    keep: BTreeSet<(u32, u64)>,
    progress: &Progress,
) -> Result<FlowReport, DebugError> {
    let mut device = SoftwareMali::new(model);
    device.job_trace = JobTrace::Flows(Box::new(Flows::new(keep)));
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
        spaces: compiled.plan.spaces().to_vec(),
    })
}

impl WriteTrace {
    /// Returns the last writer of the byte at an address, with the page tables at the end of the replay. `space` is the
    /// number of the address space in the plan's list.
    ///
    /// # Errors
    /// When the address space does not exist, nothing is mapped at the address, or the jobs write more often than can
    /// be recorded.
    pub fn last_writer(&self, space: u32, va: GpuVa) -> Result<LastWrite, DebugError> {
        let pa = self.physical_address(space, va)?;
        let page = self.device.memory.frame(pa.frame()).ok_or(DebugError::Unmapped(va))?;
        let writer = match &self.device.job_trace {
            JobTrace::Writers(w) if w.is_full() => return Err(DebugError::TooManyWrites(va)),
            JobTrace::Writers(w) => w.last_writer(pa),
            _ => Writer::Recording,
        };
        Ok(LastWrite {
            byte: page.get(pa.in_page()).copied().unwrap_or(0),
            pa,
            writer,
        })
    }

    /// Returns the physical address of an address in the device's memory, with the page tables at the end of the
    /// replay.
    ///
    /// # Errors
    /// When the address space does not exist, or nothing is mapped at the address.
    pub fn physical_address(&self, space: u32, va: GpuVa) -> Result<PhysAddr, DebugError> {
        let s = self.spaces.get(space as usize).ok_or(DebugError::NoSpace(space))?;
        let leaf = mmu::translate(s.format, s.root, va, &self.device.memory).map_err(|_| DebugError::Unmapped(va))?;
        leaf.target(va).ok_or(DebugError::Unmapped(va))
    }

    /// Returns the approximate memory usage of the device and the writers, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let writers = match &self.device.job_trace {
            JobTrace::Writers(w) => w.bytes(),
            _ => 0,
        };
        (self.device.memory.backed_count() * PAGE_SIZE) as u64 + writers
    }

    /// Returns the number of recorded writers.
    #[must_use]
    pub fn writer_count(&self) -> u64 {
        match &self.device.job_trace {
            JobTrace::Writers(w) => w.count(),
            _ => 0,
        }
    }
}
