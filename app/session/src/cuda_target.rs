//! Requests to a target with a CUDA device besides a replay: the plan of the API trace, and errors.

use replay_cuda::{ApiOptions, compile};
use replay_engine::client::{ClientError, Lease};
use replay_engine::plan::{CompileError, Compiled, Edits};
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

/// Compiles the recording for a query that may take `time_ns` nanoseconds.
///
/// # Errors
/// Returns an error if the recording cannot be compiled for the target.
pub(crate) fn compile_query(
    lease: &Lease,
    (recording, edits): (&Recording, &Edits),
    options: &ApiOptions,
    time_ns: u64,
    progress: &Progress,
) -> Result<Compiled, DeviceQueryError> {
    if !lease.info().takes_api_traces() {
        return Err(DeviceQueryError::NotCuda);
    }
    let mut compiled = compile(recording, edits, lease.info(), options, progress)?;
    let time = time_ns.saturating_add(BESIDE).min(MAX_PLAN_NS);
    compiled.plan.budgets.time_ns = compiled.plan.budgets.time_ns.max(time);
    Ok(compiled)
}

/// Returns the error for a target that did not return the requested data.
pub(crate) fn missing_answer(failure: Option<String>) -> DeviceQueryError {
    DeviceQueryError::Failed(failure.unwrap_or_else(|| "the target reported nothing".to_owned()))
}
