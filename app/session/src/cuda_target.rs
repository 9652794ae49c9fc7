//! Requests to a target with a CUDA device besides a replay: the plan of the API trace, and errors.

use crate::targets::{Targets, describe_open_error};
use replay_cuda::{ApiOptions, compile};
use replay_engine::client::{ClientError, Lease};
use replay_engine::plan::{CompileError, Compiled, Edits};
use std::fmt;
use trace_core::api_trace::MemoryTraceError;
use trace_core::progress::{Cancelled, Progress};
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
    /// The user cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// The request is not valid, or the target failed.
    #[error("{0}")]
    Failed(String),
}

/// A query to a target that failed. The text names the target.
#[derive(Debug)]
pub struct TargetQueryError {
    target: String,
    stage: QueryStage,
    /// Boxed, because it is large, and answers are returned beside it.
    error: Box<DeviceQueryError>,
}

impl TargetQueryError {
    /// Creates the error of a query to a target that was opened, or needs none.
    pub(crate) fn new(target: &str, error: DeviceQueryError) -> Self {
        Self {
            target: target.to_owned(),
            stage: QueryStage::Query,
            error: Box::new(error),
        }
    }
}

/// The part of a query that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueryStage {
    /// Opening the target.
    Open,
    /// Everything after it.
    Query,
}

impl fmt::Display for TargetQueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.error, self.stage) {
            (DeviceQueryError::Client(e), QueryStage::Open) => f.write_str(&describe_open_error(&self.target, e)),
            (e, _) => write!(f, "target {}: {e}", self.target),
        }
    }
}

impl std::error::Error for TargetQueryError {}

/// Opens a target, sends it a query, and returns the answer.
///
/// # Errors
/// Returns an error if the target cannot be opened, or if the query fails.
pub(crate) fn query_target<T>(
    targets: &Targets,
    target: &str,
    query: impl FnOnce(&mut Lease) -> Result<T, DeviceQueryError>,
) -> Result<T, TargetQueryError> {
    let mut lease = targets.open(target).map_err(|e| TargetQueryError {
        stage: QueryStage::Open,
        ..TargetQueryError::new(target, e.into())
    })?;
    query(&mut lease).map_err(|e| TargetQueryError::new(target, e))
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
