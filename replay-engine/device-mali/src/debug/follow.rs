//! One thread followed: every clause that it executes, with the registers that it changes and the memory that it
//! reads and writes.

use super::job_trace::resolve_query;
use super::writers::JobLocation;
use super::{DebugError, ThreadQuery};
use crate::compute::dispatch::{self, DispatchResult, WorkgroupRunner};
use crate::compute::job::{self, ComputeEnd};
use crate::compute::stop::{Meter, Stop};
use crate::compute::trace::{AccessRange, AccessSource, ClauseExecution, Trace, Value};
use crate::compute::view::{ChunkMode, View};
use crate::memory::ArenaMemory;
use crate::shader::group::{Shader, ShaderContext};
use std::ops::Range;

/// Registers of a thread.
pub(crate) const REGISTERS: usize = 64;
/// Steps between two sets of registers that are kept whole.
const CHECKPOINT: usize = 256;

/// A register that a clause changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its number, 0 to 63.
    pub register: u8,
    /// What it held before the clause.
    pub before: u32,
    /// What it holds after it.
    pub after: u32,
}

/// Memory that a clause read or wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// GPU address of the first byte.
    pub va: u64,
    /// How many bytes; of more than 16 the value holds the first 16.
    pub bytes: u32,
    /// The bytes, the first lowest.
    pub value: u128,
    /// Whether it wrote.
    pub write: bool,
    /// Tuple of the clause that sent the message.
    pub tuple: u8,
}

/// A clause that the thread executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Address of the clause.
    pub clause: u64,
    /// Threads that executed it together with this one, itself among them.
    pub active_threads: u32,
    /// Number of the first thread that could execute it together with this one, counted along x, then y, then z.
    pub first: u32,
    /// Which did, a bit each from that thread on.
    pub lanes: u32,
    changes: Range<usize>,
    accesses: Range<usize>,
}

/// How the thread came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadEnd {
    /// It ended.
    Ended,
    /// Its workgroup was stopped, and why. The last step may be a clause that was not done.
    Stopped(String),
}

/// What a thread did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadTrace {
    /// GPU address of the job.
    pub job: u64,
    /// Where its shader begins.
    pub shader: u64,
    /// Workgroups of the job along x, y, z.
    pub workgroups: [u32; 3],
    /// Threads of a workgroup along x, y, z.
    pub size: [u32; 3],
    /// Pushed uniforms, 64 bits each.
    pub uniforms: Vec<u64>,
    /// The number of the first step that is kept.
    pub from: u64,
    /// The steps that are kept, in order.
    pub steps: Vec<Step>,
    /// Clauses that the thread executed, kept or not.
    pub executed: u64,
    /// The last step that wrote the byte which was looked for.
    pub marked_step: Option<u64>,
    /// How it ended.
    pub end: ThreadEnd,
    changes: Vec<Change>,
    accesses: Vec<MemoryAccess>,
    /// Registers before the steps of these numbers: every [`CHECKPOINT`]th.
    checkpoints: Vec<[u32; REGISTERS]>,
}

impl ThreadTrace {
    /// Registers that a step changed.
    #[must_use]
    pub fn changes(&self, step: usize) -> &[Change] {
        let range = self.steps.get(step).map(|s| s.changes.clone());
        range.and_then(|r| self.changes.get(r)).unwrap_or_default()
    }

    /// Memory that a step read and wrote, in order.
    #[must_use]
    pub fn accesses(&self, step: usize) -> &[MemoryAccess] {
        let range = self.steps.get(step).map(|s| s.accesses.clone());
        range.and_then(|r| self.accesses.get(r)).unwrap_or_default()
    }

    /// Registers before a step; of the number behind the last one, those in the end.
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

    /// Whether every clause of the thread is kept.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.steps.len() as u64 == self.executed
    }
}

/// Why a workgroup stopped, in words.
fn describe_stop(stop: &Stop) -> String {
    match stop {
        Stop::Fault(f) => {
            let name = trace_core::jobs::exception_name(f.code());
            format!("a fault, exception {name} ({:#04x})", f.code())
        }
        Stop::Unimplemented { pc, name } => format!("{name} at {pc:#x} is not implemented"),
        Stop::Budget => "its budget of clauses was spent".to_owned(),
        Stop::Cancelled => "it was cancelled".to_owned(),
        Stop::Retry => "it ran ahead of its turn".to_owned(),
    }
}

/// Runs the workgroups of a compute job up to the wanted one and follows a thread of that.
///
/// # Errors
/// When the job's shader cannot run, or there is no such workgroup or thread.
pub(crate) fn follow(
    memory: &mut ArenaMemory,
    va: u64,
    terms: job::ComputeParams<'_>,
    place: JobLocation,
    wanted: &ThreadQuery,
) -> Result<ThreadTrace, DebugError> {
    let mut view: View<'_> = View::new(memory, terms.translation, ChunkMode::InOrder);
    let prepared = job::prepare(&mut view, va, terms.model);
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
    let order = resolve_query(wanted, dispatch_of.workgroups, dispatch_of.size)?;
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
        from: wanted.from,
        steps: f.steps,
        executed: f.executed,
        marked_step: f.marked,
        end,
        changes: f.changes,
        accesses: f.accesses,
        checkpoints: f.whole,
    })
}

/// What is to be followed, within the job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FollowRequest {
    pub workgroup: [u32; 3],
    /// Number of the thread, counted along x, then y, then z.
    pub thread: u32,
    pub from: u64,
    pub max_steps: usize,
    pub mark: Option<u64>,
}

/// Follows a thread.
#[derive(Debug, Default)]
pub(crate) struct ThreadFollower {
    order: Option<FollowRequest>,
    /// Registers as they were before the clause under way.
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
    /// Begins; what is told from here on is of the workgroup that is wanted.
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

    /// Whether the step under way is one that is kept.
    fn is_kept_step(&self, order: &FollowRequest) -> bool {
        self.executed.checked_sub(order.from) == Some(self.steps.len() as u64) && !self.steps.is_empty()
    }

    fn record_access(&mut self, what: AccessRange, value: Value<'_>, who: &AccessSource, write: bool) {
        let Some(order) = self.order.filter(|o| o.thread == who.thread && self.before.is_some()) else {
            return;
        };
        let covers = |mark: u64| what.va <= mark && mark - what.va < u64::from(what.bytes);
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
        // A step that is beyond those that are kept has no place.
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
        // One workgroup is wanted, so one chunk knows something: of its thread, or of another that stopped it.
        if later.executed > 0 || later.stopped.is_some() {
            *self = later;
        }
    }
}

/// Runs the workgroups before the wanted one, then that one while it is followed, and none behind it.
pub(crate) struct FollowRunner<'j> {
    pub shader: Shader<'j>,
    pub order: FollowRequest,
    pub workgroups: [u32; 3],
}

/// The place of a workgroup in the order in which they run.
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
