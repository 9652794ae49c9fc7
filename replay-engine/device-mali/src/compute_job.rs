//! Runner of one compute job: it reads the descriptors, checks that the shader can run, and runs it.

#[cfg(test)]
mod image_tests;
#[cfg(test)]
mod recorded_programs;

use crate::address_space::Translation;
use crate::budget::Budget;
use crate::compute::descriptors::ComputeJob;
use crate::compute::dispatch::{self, DispatchResult, dispatch};
use crate::compute::stop::{ReadMeter, Stats, Stop};
use crate::compute::trace::Trace;
use crate::compute::view::{ChunkMode, View};
use crate::memory::ArenaMemory;
use crate::model::ModelData;
use crate::shader::block::{ShaderInputs, UnknownOperation};
use crate::shader::group::Shader;
use crate::shader::program::{Program, ProgramLoadError, ShaderContext};
use std::collections::BTreeMap;
use trace_core::GpuVa;
use trace_core::progress::Progress;

/// Parameters of a compute job.
#[derive(Clone, Copy)]
pub(crate) struct ComputeParams<'a> {
    pub translation: Translation,
    pub model: &'a ModelData,
    pub budget: Budget,
    /// Progress through which the job can be cancelled.
    pub progress: Option<&'a Progress>,
    /// Counters that a shader can read: nanoseconds and cycles.
    pub clock: [u64; 2],
}

/// Result of a compute job.
#[derive(Debug)]
pub(crate) enum ComputeEnd {
    /// Every thread ran to completion.
    Computed,
    /// The shader did not start, with the reason.
    NotRun(Box<str>),
    /// The shader was stopped.
    Stopped(Stop),
}

/// Summary of what a compute job did.
#[derive(Debug)]
pub(crate) struct ComputeRun<T> {
    pub end: ComputeEnd,
    /// Whether the shader was read, so that its threads started.
    pub begun: bool,
    pub stats: Stats,
    /// Number of accesses outside the device's memory.
    pub outside: u64,
    /// Number of writes refused because the device's memory limit was reached.
    pub refused: u64,
    /// Trace of the accesses.
    pub trace: T,
}

/// Maximum number of unsupported operations that are listed. The others are counted.
const MAX_LISTED: usize = 32;

/// Runs the compute job at `va`.
///
/// A shader that can reach an unknown operation does not start, because its results would be wrong. The job is then
/// done from its driver's point of view.
pub(crate) fn run<T: Trace>(memory: &mut ArenaMemory, va: GpuVa, terms: ComputeParams<'_>) -> ComputeRun<T> {
    let mut view: View<'_> = View::new(memory, terms.translation, ChunkMode::InOrder);
    let mut reading = ReadMeter::new(terms.budget.read, terms.progress);
    let prepared = load_job(&mut view, va, terms.model, &mut reading);
    let left = view.finish();
    let read_before = if T::PAGES { left.slots } else { Vec::new() };
    let mut ran = ComputeRun {
        end: ComputeEnd::Computed,
        begun: false,
        stats: Stats {
            read: reading.read,
            ..Stats::default()
        },
        outside: left.outside,
        refused: left.refused,
        trace: T::default(),
    };
    let (job, program) = match prepared {
        Ok(ready) => ready,
        Err(end) => {
            ran.end = end;
            if T::PAGES {
                ran.trace.add_pages(&read_before);
            }
            return ran;
        }
    };
    let running = ShaderContext {
        program: &program,
        job: &job,
        warp: u32::from(terms.model.warp_width),
        clock: terms.clock,
    };
    let dispatched = dispatch::DispatchParams {
        translation: terms.translation,
        groups: job.dispatch.workgroups,
        budget: terms.budget,
        progress: terms.progress,
    };
    let done: DispatchResult<T> = dispatch(memory, dispatched, || Shader::new(&running));
    ran.begun = true;
    ran.stats += done.stats;
    ran.outside += done.outside;
    ran.refused += done.refused;
    ran.trace = done.trace;
    if T::PAGES {
        // The descriptors and the code were read before the threads wrote anything.
        ran.trace.add_earlier_reads(&read_before);
    }
    if let Some((_, stop)) = done.stop {
        ran.end = ComputeEnd::Stopped(stop);
    }
    ran
}

/// Reads a job and prepares its shader, or returns how the job ends without one. The reads are not counted: they are at
/// most one shader.
pub(crate) fn prepare(view: &mut View<'_>, va: GpuVa, model: &ModelData) -> Result<(ComputeJob, Program), ComputeEnd> {
    load_job(view, va, model, &mut ReadMeter::new(u64::MAX, None))
}

fn load_job(
    view: &mut View<'_>,
    va: GpuVa,
    model: &ModelData,
    reading: &mut ReadMeter<'_>,
) -> Result<(ComputeJob, Program), ComputeEnd> {
    let job = ComputeJob::read(view, va, model).map_err(ComputeEnd::Stopped)?;
    let given = ShaderInputs {
        push: job.push_uniforms.clone(),
        shared_base: job.storage.group_base,
    };
    match Program::load(job.shader, &given, || reading.clause(), |at| view.fetch(at)) {
        Ok(program) => Ok((job, program)),
        Err(ProgramLoadError::Fetch(stop)) => Err(ComputeEnd::Stopped(stop)),
        Err(ProgramLoadError::Unknown(missing)) => Err(ComputeEnd::NotRun(describe_unknown(&missing))),
    }
}

/// Lists the unknown operations of a shader, each once, with the number of its occurrences in the code.
fn describe_unknown(missing: &[UnknownOperation]) -> Box<str> {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for m in missing {
        *all.entry(&m.operation).or_insert(0) += 1;
    }
    let list: Vec<String> = all
        .iter()
        .take(MAX_LISTED)
        .map(|(what, times)| match times {
            1 => (*what).to_owned(),
            n => format!("{what} ({n} times)"),
        })
        .collect();
    let more = match all.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        n => format!(", and {n} more"),
    };
    let place = missing.iter().map(|m| m.clause).min().unwrap_or_default();
    format!(
        "the shader has unsupported instructions, first in the clause at {place}: {}{more}",
        list.join(", ")
    )
    .into_boxed_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Model;
    use crate::compute::trace::NoTrace;
    use replay_engine::device::Arena;
    use trace_core::PhysAddr;

    #[test]
    fn cancelled_job_does_not_read_its_shader() {
        let mut memory = ArenaMemory::new(Arena {
            base: PhysAddr::ZERO,
            pages: 16,
        });
        let (job, state) = (0x1000u64, 0x2000u64);
        let mut put = |at: u64, word: u64| memory.write(PhysAddr::new(at), &word.to_le_bytes()).unwrap();
        put(job + 64 + 14 * 4, state);
        put(state, 0x3000);
        let progress = Progress::new();
        let terms = ComputeParams {
            translation: Translation::Identity,
            model: Model::G71.data(),
            budget: Model::G71.data().budget,
            progress: Some(&progress),
            clock: [0; 2],
        };
        let ran = run::<NoTrace>(&mut memory, GpuVa::new(job), terms);
        assert!(matches!(ran.end, ComputeEnd::NotRun(_)), "{:?}", ran.end);
        assert_eq!(ran.stats.read, 1);
        progress.cancel();
        let ran = run::<NoTrace>(&mut memory, GpuVa::new(job), terms);
        assert!(matches!(ran.end, ComputeEnd::Stopped(Stop::Cancelled)), "{:?}", ran.end);
        assert_eq!(ran.stats.read, 0);
    }
}
