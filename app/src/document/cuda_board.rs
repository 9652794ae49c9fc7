//! What is asked of a board with a CUDA device beside a replay: a plan of the recording's calls that says what is
//! wanted.

use replay_engine::client::{ClientError, Lease};
use replay_engine::plan::calls::Calls;
use replay_engine::plan::{CompileError, CompileOptions, Edits, compile};
use replay_engine::run::Outcome;
use trace_core::calls::MemoryTraceError;
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// Time that a board has beside the time for what is wanted, in nanoseconds: memory is mapped, code is loaded, and what
/// comes before is played.
const BESIDE: u64 = 300_000_000_000;
/// Maximum time that a plan may ask for.
const MAX_PLAN_NS: u64 = 3_600_000_000_000;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum DeviceQueryError {
    /// The board cannot be had, or was lost.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The recording is no plan for the board.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The board takes accesses to registers.
    #[error("it is no board with a CUDA device, which launches are made on (cuda:0 is this machine's first)")]
    NotCuda,
    /// What came is no answer.
    #[error(transparent)]
    Watched(#[from] MemoryTraceError),
    /// It answers something that was not asked.
    #[error("what it told is no answer to what it was asked")]
    UnexpectedAnswer,
    /// The board could not do it.
    #[error("{0}")]
    Failed(String),
}

/// Whether a board of this name has a CUDA device, as far as its name tells.
#[must_use]
pub fn is_cuda(board: &str) -> bool {
    board.contains("cuda")
}

/// Asks: `want` says in the plan what is wanted, which may take so many nanoseconds.
///
/// # Errors
/// When the recording is no plan for the board, or the board is lost.
pub(super) fn run_query(
    lease: &mut Lease,
    work: (&Recording, &Edits),
    options: &CompileOptions,
    time_ns: u64,
    want: impl FnOnce(&mut Calls),
    progress: &Progress,
) -> Result<Outcome, DeviceQueryError> {
    run_query_repeated(lease, work, options, (time_ns, 1), want, progress)
}

/// As [`ask`], of a replay that is repeated so often.
///
/// # Errors
/// As [`ask`].
pub(super) fn run_query_repeated(
    lease: &mut Lease,
    (recording, edits): (&Recording, &Edits),
    options: &CompileOptions,
    (time_ns, repeat): (u64, u32),
    want: impl FnOnce(&mut Calls),
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

/// What a board told that did not do what was wanted.
pub(super) fn missing_answer(failure: Option<String>) -> DeviceQueryError {
    DeviceQueryError::Failed(failure.unwrap_or_else(|| "the board told nothing of it".to_owned()))
}
