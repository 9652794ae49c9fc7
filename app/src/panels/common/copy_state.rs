//! How the states of a WebAssembly program's copies look.

use crate::theme::Palette;
use egui::Color32;
use kinescope_session::wasm_run::CopyState;

/// Returns the colour of a state.
#[must_use]
pub fn state_colour(p: &Palette, state: CopyState) -> Color32 {
    match state {
        CopyState::Running => p.job,
        CopyState::Waiting => p.poll,
        CopyState::Done => p.text,
        CopyState::Failed => p.warning,
        CopyState::Trapped => p.error,
    }
}

/// Returns the mark of a state: its shape tells it apart without colour.
#[must_use]
pub fn state_mark(state: CopyState) -> &'static str {
    match state {
        CopyState::Running => "▶",
        CopyState::Waiting => "…",
        CopyState::Done => "✓",
        CopyState::Failed => "!",
        CopyState::Trapped => "▲",
    }
}
