//! Trace of a single thread: every clause that it executes, with its register changes and memory accesses.

use super::query::{DebugError, ThreadQuery};
use super::writers::JobLocation;
use crate::compute::dispatch::{self, DispatchResult, WorkgroupRunner};
use crate::compute::stop::{Meter, Stop};
use crate::compute::trace::{AccessRange, AccessSource, ClauseExecution, Trace, Value};
use crate::compute::view::{ChunkMode, View};
use crate::compute_job::{self, ComputeEnd};
use crate::memory::ArenaMemory;
use crate::shader::group::Shader;
use crate::shader::program::ShaderContext;
use std::ops::Range;
use trace_core::GpuVa;

/// Number of registers of a thread.
pub(crate) const REGISTERS: usize = 64;
/// Number of steps between two complete register sets.
const CHECKPOINT: usize = 256;

/// Register that a clause changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Number of the register, 0 to 63.
    pub register: u8,
    /// Value before the clause.
    pub before: u32,
    /// Value after the clause.
    pub after: u32,
}

/// Memory access of a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// GPU address of the first byte.
    pub va: GpuVa,
    /// Number of bytes. If it is greater than 16, the value holds the first 16 bytes.
    pub bytes: u32,
    /// The bytes, with the first byte lowest.
    pub value: u128,
    /// Whether the access is a write.
    pub write: bool,
    /// Tuple of the clause that sent the message.
    pub tuple: u8,
}

/// Clause that the thread executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Address of the clause.
    pub clause: GpuVa,
    /// Number of threads that executed the clause together, including this thread.
    pub active_threads: u32,
    /// Number of the first thread of the wave, counted along x, then y, then z.
    pub first: u32,
    /// Threads that executed the clause, one bit each, starting at that thread.
    pub lanes: u32,
    changes: Range<usize>,
    accesses: Range<usize>,
}

/// How the thread ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadEnd {
    /// The thread ran to completion.
    Ended,
    /// The workgroup was stopped, with the reason. The last step may be an incomplete clause.
    Stopped(String),
}

/// Trace of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadTrace {
    /// GPU address of the job.
    pub job: GpuVa,
    /// GPU address of the shader.
    pub shader: GpuVa,
    /// Number of workgroups of the job along x, y, z.
    pub workgroups: [u32; 3],
    /// Number of threads of a workgroup along x, y, z.
    pub size: [u32; 3],
    /// Push uniforms, 64 bits each.
    pub uniforms: Vec<u64>,
    /// Number of the first recorded step.
    pub from: u64,
    /// The recorded steps, in order.
    pub steps: Vec<Step>,
    /// Number of clauses that the thread executed, recorded or not.
    pub executed: u64,
    /// The last step that wrote the marked byte.
    pub marked_step: Option<u64>,
    /// How the thread ended.
    pub end: ThreadEnd,
    changes: Vec<Change>,
    accesses: Vec<MemoryAccess>,
    /// Registers before every [`CHECKPOINT`]th step.
    checkpoints: Vec<[u32; REGISTERS]>,
}

impl ThreadTrace {
    /// Returns the registers that a step changed.
    #[must_use]
    pub fn changes(&self, step: usize) -> &[Change] {
        let range = self.steps.get(step).map(|s| s.changes.clone());
        range.and_then(|r| self.changes.get(r)).unwrap_or_default()
    }

    /// Returns the memory accesses of a step, in order.
    #[must_use]
    pub fn accesses(&self, step: usize) -> &[MemoryAccess] {
        let range = self.steps.get(step).map(|s| s.accesses.clone());
        range.and_then(|r| self.accesses.get(r)).unwrap_or_default()
    }

    /// Returns the registers before a step. For the step after the last one, these are the final registers.
    #[must_use]
    pub fn registers(&self, step: usize) -> [u32; REGISTERS] {
        let step = step.min(self.steps.len());
        let kept = (step / CHECKPOINT).min(self.checkpoints.len().saturating_sub(1));
        let mut now = self.checkpoints.get(kept).copied().unwrap_or([0; REGISTERS]);
        for n in kept * CHECKPOINT..step {
            for c in self.changes(n) {
                if let Some(to) = now.get_mut(usize::from(c.register)) {
                    *to = c.after;
                }
            }
        }
        now
    }

    /// Returns whether every clause of the thread is recorded.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.steps.len() as u64 == self.executed
    }
}

/// Describes why a workgroup stopped.
fn describe_stop(stop: &Stop) -> String {
    match stop {
        Stop::Fault(f) => {
            let name = trace_core::families::mali_jm::exception_name(f.code());
            format!("a fault, exception {name} ({:#04x})", f.code())
        }
        Stop::Unimplemented { pc, name } => format!("{name} at {pc} is not implemented"),
        Stop::Budget => "its budget of clauses was used up".to_owned(),
        Stop::Cancelled => "it was cancelled".to_owned(),
        Stop::Retry => "it ran ahead of its turn".to_owned(),
    }
}

/// Resolves the workgroup and thread of a query for the size of a job's dispatch.
///
/// # Errors
/// When the workgroup or thread does not exist.
fn resolve_query(query: &ThreadQuery, workgroups: [u32; 3], size: [u32; 3]) -> Result<FollowRequest, DebugError> {
    let within = |what, asked: [u32; 3], has: [u32; 3]| {
        if asked.iter().zip(&has).all(|(a, h)| a < h) {
            Ok(())
        } else {
            Err(DebugError::NoThread { what, asked, has })
        }
    };
    within("workgroup", query.workgroup, workgroups)?;
    let place = query.thread.coordinates(size);
    within("thread", place, size)?;
    let [x, y, z] = place;
    let [sx, sy, _] = size;
    // The threads of a workgroup were counted before it ran, so this cannot wrap.
    let thread = z.wrapping_mul(sy).wrapping_add(y).wrapping_mul(sx).wrapping_add(x);
    Ok(FollowRequest {
        workgroup: query.workgroup,
        thread,
        from: query.from,
        max_steps: query.max_steps,
        mark: query.mark,
    })
}

/// Runs the workgroups of a compute job up to the requested one and traces one of its threads.
///
/// # Errors
/// When the job's shader cannot run, or the workgroup or thread does not exist.
pub(crate) fn follow(
    memory: &mut ArenaMemory,
    va: GpuVa,
    terms: compute_job::ComputeParams<'_>,
    place: JobLocation,
    query: &ThreadQuery,
) -> Result<ThreadTrace, DebugError> {
    let mut view: View<'_> = View::new(memory, terms.translation, ChunkMode::InOrder);
    let prepared = compute_job::prepare(&mut view, va, terms.model);
    drop(view.finish());
    let (job, program) = prepared.map_err(|end| {
        let why = match end {
            ComputeEnd::NotRun(why) => why.into_string(),
            ComputeEnd::Stopped(stop) => describe_stop(&stop),
            ComputeEnd::Computed => String::new(),
        };
        DebugError::no_shader(place, why)
    })?;
    let dispatch_of = job.dispatch;
    let order = resolve_query(query, dispatch_of.workgroups, dispatch_of.size)?;
    let running = ShaderContext {
        program: &program,
        job: &job,
        warp: u32::from(terms.model.warp_width),
        clock: terms.clock,
    };
    let within = dispatch::DispatchParams {
        translation: terms.translation,
        groups: dispatch_of.workgroups,
        budget: terms.budget,
        progress: terms.progress,
    };
    let done: DispatchResult<ThreadFollower> = dispatch::dispatch(memory, within, || FollowRunner {
        shader: Shader::new(&running),
        order,
        workgroups: dispatch_of.workgroups,
    });
    let stop = done.stop;
    let f = done.trace;
    let end = match (f.stopped, stop) {
        (Some(why), _) => ThreadEnd::Stopped(why),
        (None, Some((group, stop))) if f.executed == 0 => {
            return Err(DebugError::no_shader(
                place,
                format!(
                    "workgroup {group:?}, which runs before, was stopped: {}",
                    describe_stop(&stop)
                ),
            ));
        }
        _ => ThreadEnd::Ended,
    };
    Ok(ThreadTrace {
        job: va,
        shader: job.shader,
        workgroups: dispatch_of.workgroups,
        size: dispatch_of.size,
        uniforms: job.push_uniforms.clone(),
        from: query.from,
        steps: f.steps,
        executed: f.executed,
        marked_step: f.marked,
        end,
        changes: f.changes,
        accesses: f.accesses,
        checkpoints: f.whole,
    })
}

/// Thread to trace within a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FollowRequest {
    pub workgroup: [u32; 3],
    /// Number of the thread, counted along x, then y, then z.
    pub thread: u32,
    pub from: u64,
    pub max_steps: usize,
    pub mark: Option<GpuVa>,
}

/// Tracer of a thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadFollower {
    order: Option<FollowRequest>,
    /// Registers before the running clause.
    before: Option<Box<[u32; REGISTERS]>>,
    pub steps: Vec<Step>,
    pub changes: Vec<Change>,
    pub accesses: Vec<MemoryAccess>,
    pub whole: Vec<[u32; REGISTERS]>,
    pub executed: u64,
    pub marked: Option<u64>,
    pub stopped: Option<String>,
}

impl ThreadFollower {
    /// Starts the trace of the requested workgroup.
    fn begin(&mut self, order: FollowRequest) {
        self.order = Some(order);
    }

    fn end(&mut self, ran: &Result<(), Stop>) {
        self.order = None;
        self.before = None;
        if let Err(stop) = ran {
            self.stopped = Some(describe_stop(stop));
        }
    }

    /// Returns whether the current step is recorded.
    fn is_kept_step(&self, order: &FollowRequest) -> bool {
        self.executed.checked_sub(order.from) == Some(self.steps.len() as u64) && !self.steps.is_empty()
    }

    fn record_access(&mut self, what: AccessRange, value: Value<'_>, who: &AccessSource, write: bool) {
        let Some(order) = self.order.filter(|o| o.thread == who.thread && self.before.is_some()) else {
            return;
        };
        let covers = |mark: GpuVa| mark.offset_from(what.va).is_some_and(|n| n < u64::from(what.bytes));
        if write && order.mark.is_some_and(covers) {
            self.marked = self.executed.checked_sub(1);
        }
        if !self.is_kept_step(&order) || self.steps.last().is_none_or(|s| s.clause != who.pc) {
            return;
        }
        self.accesses.push(MemoryAccess {
            va: what.va,
            bytes: what.bytes,
            value: value.number(),
            write,
            tuple: who.tuple,
        });
        if let Some(step) = self.steps.last_mut() {
            step.accesses.end = self.accesses.len();
        }
    }
}

impl Trace for ThreadFollower {
    const ON: bool = true;
    const READS: bool = true;
    const CLAUSES: bool = true;

    fn read(&mut self, what: AccessRange, value: Value<'_>, who: &AccessSource) {
        self.record_access(what, value, who, false);
    }

    fn write(&mut self, what: AccessRange, value: Value<'_>, who: &AccessSource) {
        self.record_access(what, value, who, true);
    }

    fn begin_clause(&mut self, clause: &ClauseExecution<'_>) {
        let Some(order) = self.order else { return };
        self.before = None;
        let Some(lane) = clause.lane_of(order.thread) else {
            return;
        };
        let registers = clause.registers_of(lane);
        self.executed += 1;
        self.before = Some(Box::new(registers));
        if self.executed <= order.from || self.steps.len() >= order.max_steps {
            return;
        }
        if self.steps.len().is_multiple_of(CHECKPOINT) {
            self.whole.push(registers);
        }
        let (changes, accesses) = (self.changes.len(), self.accesses.len());
        self.steps.push(Step {
            clause: clause.address,
            active_threads: clause.lanes.count_ones(),
            first: clause.first,
            lanes: clause.lanes,
            changes: changes..changes,
            accesses: accesses..accesses,
        });
    }

    fn end_clause(&mut self, clause: &ClauseExecution<'_>) {
        let Some(order) = self.order else { return };
        let Some(before) = self.before.take() else { return };
        // A step outside the recorded range has no entry.
        if self.executed <= order.from || self.executed - order.from > self.steps.len() as u64 {
            return;
        }
        let Some(lane) = clause.lane_of(order.thread) else {
            return;
        };
        let after = clause.registers_of(lane);
        for (register, (before, after)) in (0u8..).zip(before.iter().zip(after)) {
            if *before != after {
                self.changes.push(Change {
                    register,
                    before: *before,
                    after,
                });
            }
        }
        if let Some(step) = self.steps.last_mut() {
            step.changes.end = self.changes.len();
        }
    }

    fn absorb(&mut self, later: Self) {
        // Only one workgroup is requested, so at most one chunk has a result: the thread's, or that of another thread
        // that stopped the workgroup.
        if later.executed > 0 || later.stopped.is_some() {
            *self = later;
        }
    }
}

/// Runs the workgroups before the requested one, then the requested one with tracing, and none after it.
pub(crate) struct FollowRunner<'j> {
    pub shader: Shader<'j>,
    pub order: FollowRequest,
    pub workgroups: [u32; 3],
}

/// Returns the position of a workgroup in execution order.
fn linear([x, y, z]: [u32; 3], [sx, sy, _]: [u32; 3]) -> u128 {
    u128::from(x) + u128::from(sx) * (u128::from(y) + u128::from(sy) * u128::from(z))
}

impl WorkgroupRunner<ThreadFollower> for FollowRunner<'_> {
    fn run(&mut self, group: [u32; 3], view: &mut View<'_, ThreadFollower>, meter: &mut Meter<'_>) -> Result<(), Stop> {
        let place = |g| linear(g, self.workgroups);
        if place(group) > place(self.order.workgroup) {
            return Ok(());
        }
        if group != self.order.workgroup {
            return self.shader.run(group, view, meter);
        }
        view.trace().begin(self.order);
        let ran = self.shader.run(group, view, meter);
        view.trace().end(&ran);
        ran
    }
}
