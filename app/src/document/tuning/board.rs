//! The one place where a tuning goes to a board.

use replay_engine::device::cuda::{Script, StageOptions, tune};
use replay_engine::tune::{Tune, Tuned};
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
/// When the board cannot be had, or what was asked for cannot be done there, in words.
pub fn at(board: &str, recording: &Recording, ask: &Tune, progress: &Progress) -> Result<Tuned, String> {
    let number = board.strip_prefix("cuda:").and_then(|n| n.parse().ok());
    let device = number.ok_or_else(|| format!("board {board}: it tunes no launches (expected cuda:N)"))?;
    let script = Script::of(recording).map_err(|e| e.to_string())?;
    let options = StageOptions {
        device,
        ..StageOptions::default()
    };
    tune(recording, &script, &options, ask, progress).map_err(|e| format!("board {board}: {e}"))
}
