//! Queries to a target with a CUDA device besides a replay: a plan of the API trace that states the requested data.

use replay_engine::client::{ClientError, Lease};
use replay_engine::plan::calls::ApiTracePlan;
use replay_engine::plan::{CompileError, CompileOptions, Edits, compile};
use replay_engine::run::Outcome;
use trace_core::api_trace::MemoryTraceError;
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// Time that a target gets in addition to the time of the query, nanoseconds. It covers mapping memory, loading code,
/// and replaying the calls before.
const BESIDE: u64 = 300_000_000_000;
/// Maximum time that a plan may request, nanoseconds.
const MAX_PLAN_NS: u64 = 3_600_000_000_000;

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum DeviceQueryError {
    /// The target cannot be leased, or was lost.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The recording cannot be compiled to a plan for the target.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The target accepts register accesses, not calls.
    #[error("it is not a target with a CUDA device, which kernel launches need: choose one, for example cuda:0")]
    NotCuda,
    /// The answer cannot be parsed.
    #[error(transparent)]
    Watched(#[from] MemoryTraceError),
    /// The target answered another query.
    #[error("its answer does not match the request")]
    UnexpectedAnswer,
    /// The target failed.
    #[error("{0}")]
    Failed(String),
}

/// Whether a target of this name has a CUDA device, based on its name only.
#[must_use]
pub fn is_cuda(target: &str) -> bool {
    target.contains("cuda")
}

/// Runs a query. `want` adds the requested data to the plan, which may take `time_ns` nanoseconds.
///
/// # Errors
/// Returns an error if the recording cannot be compiled for the target, or the target is lost.
pub(super) fn run_query(
    lease: &mut Lease,
    work: (&Recording, &Edits),
    options: &CompileOptions,
    time_ns: u64,
    want: impl FnOnce(&mut ApiTracePlan),
    progress: &Progress,
) -> Result<Outcome, DeviceQueryError> {
    run_query_repeated(lease, work, options, (time_ns, 1), want, progress)
}

/// Runs a query like [`run_query`], with a replay that is repeated this many times.
///
/// # Errors
/// The same as [`run_query`].
pub(super) fn run_query_repeated(
    lease: &mut Lease,
    (recording, edits): (&Recording, &Edits),
    options: &CompileOptions,
    (time_ns, repeat): (u64, u32),
    want: impl FnOnce(&mut ApiTracePlan),
    progress: &Progress,
) -> Result<Outcome, DeviceQueryError> {
    let device = lease.info().clone();
    if !device.takes_calls() {
        return Err(DeviceQueryError::NotCuda);
    }
    let mut compiled = compile(recording, edits, &device, options, progress)?;
    let time = time_ns.saturating_add(BESIDE).min(MAX_PLAN_NS);
    compiled.plan.budgets.time_ns = compiled.plan.budgets.time_ns.max(time);
    want(compiled.plan.calls.as_mut().ok_or(DeviceQueryError::NotCuda)?);
    Ok(lease.replay(&compiled, repeat, progress, false)?)
}

/// Returns the error for a target that did not return the requested data.
pub(super) fn missing_answer(failure: Option<String>) -> DeviceQueryError {
    DeviceQueryError::Failed(failure.unwrap_or_else(|| "the target reported nothing".to_owned()))
}
