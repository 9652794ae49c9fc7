//! The one place where a tuning goes to a board.

use replay_engine::client::{ClientError, Lease};
use replay_engine::plan::{CompileOptions, Edits, compile};
use replay_engine::tune::{Ended, Tune, Tuned};
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// Whether a board of this name has a CUDA device, as far as its name tells.
#[must_use]
pub fn tunes(board: &str) -> bool {
    board.contains("cuda")
}

/// Tunes a launch of a recording on a board.
///
/// # Errors
/// When what was asked for cannot be done there, in words.
pub fn at(lease: &mut Lease, recording: &Recording, ask: &Tune, progress: &Progress) -> Result<Tuned, String> {
    let options = CompileOptions::default();
    let mut compiled =
        compile(recording, &Edits::default(), lease.info(), &options, &Progress::new()).map_err(|e| e.to_string())?;
    if let Some(calls) = &mut compiled.plan.calls {
        calls.tune = Some(ask.clone());
    }
    let outcome = match lease.replay(&compiled, 1, progress, false) {
        Ok(outcome) => outcome,
        Err(ClientError::Cancelled) => {
            return Ok(Tuned {
                ended: Ended::Cancelled,
                ..Tuned::default()
            });
        }
        Err(e) => return Err(e.to_string()),
    };
    let failure = outcome.failure;
    let tuned = outcome.calls.and_then(|c| c.tuned);
    tuned.ok_or_else(|| failure.unwrap_or_else(|| "the board did not tell what the tuning came to".to_owned()))
}
