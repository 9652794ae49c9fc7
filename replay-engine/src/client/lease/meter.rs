//! The progress of a replay on one scale.

use trace_core::progress::Progress;

/// Units of a replay's progress.
pub(super) const TOTAL: u64 = 1_000_000;
/// Progress values at which the upload and the run end.
pub(super) const UPLOADED: u64 = 200_000;
pub(super) const RAN: u64 = 950_000;

/// Advances a [`Progress`] on a scale of [`TOTAL`].
pub(super) struct Meter<'a> {
    pub(super) progress: &'a Progress,
    pub(super) at: u64,
}

impl Meter<'_> {
    /// Moves to a position on the scale. Returns `false` if the user cancelled.
    pub(super) fn move_to(&mut self, position: u64) -> bool {
        let by = position.min(TOTAL).saturating_sub(self.at);
        self.at += by;
        self.progress.advance(by).is_ok()
    }

    /// Moves to the part `done` of `of` between two positions. Returns `false` if the user cancelled.
    pub(super) fn move_within(&mut self, from: u64, to: u64, done: u64, of: u64) -> bool {
        let part = u128::from(to - from) * u128::from(done.min(of)) / u128::from(of.max(1));
        self.move_to(from + part as u64)
    }
}
