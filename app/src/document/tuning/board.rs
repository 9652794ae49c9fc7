//! The one place where a tuning goes to a board: as a plan that says what to tune.

use replay_engine::client::{ClientError, Lease};
use replay_engine::plan::{CompileError, CompileOptions, Edits, compile};
use replay_engine::tune::{Tune, Tuned};
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// Time that a board has beside the time for the tuning itself, in nanoseconds: memory is mapped, code is loaded, and what
/// comes before the launch is played.
const BESIDE: u64 = 300_000_000_000;
/// Most time that a plan may ask for.
const MOST: u64 = 3_600_000_000_000;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// The board cannot be had, or was lost.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The recording is no plan for the board.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The board takes accesses to registers.
    #[error("it is no board with a CUDA device, which launches are made on (cuda:0 is this machine's first)")]
    NotCuda,
    /// The board could not do it.
    #[error("{0}")]
    Failed(String),
}

/// Whether a board of this name has a CUDA device, as far as its name tells.
#[must_use]
pub fn tunes(board: &str) -> bool {
    board.contains("cuda")
}

/// Tunes a launch of a recording on a board, with a person's inputs where there are some: then points are held against
/// what the recorded launch leaves on the device, not against what the recording holds.
///
/// # Errors
/// When the recording is no plan for the board, or the board cannot do it.
pub fn at(
    lease: &mut Lease,
    recording: &Recording,
    edits: &Edits,
    ask: &Tune,
    progress: &Progress,
) -> Result<Tuned, TuneError> {
    let device = lease.info().clone();
    if !device.takes_calls() {
        return Err(TuneError::NotCuda);
    }
    let mut compiled = compile(
        recording,
        edits,
        &device,
        &CompileOptions {
            // What the recording holds of memory behind the launch is what the recorded launch has to leave here, too.
            memory: true,
            held: edits.inputs.is_empty(),
            ..CompileOptions::default()
        },
        progress,
    )?;
    let time = ask.limits.total_ns.saturating_add(BESIDE).min(MOST);
    compiled.plan.budgets.time_ns = compiled.plan.budgets.time_ns.max(time);
    let calls = compiled.plan.calls.as_mut().ok_or(TuneError::NotCuda)?;
    calls.tune = Some(ask.clone());
    let outcome = lease.replay(&compiled, 1, progress, false)?;
    let nothing = || "the board told nothing of it".to_owned();
    match outcome.calls.and_then(|c| c.tuned) {
        Some(tuned) => Ok(tuned),
        None => Err(TuneError::Failed(outcome.failure.unwrap_or_else(nothing))),
    }
}
