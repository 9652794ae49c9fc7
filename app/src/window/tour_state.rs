//! The state of the tour.

use std::path::PathBuf;

/// The state of an active tour.
#[derive(Clone, Debug, Default)]
pub struct Tour {
    /// Path of the sample, until it is open.
    pub(super) waits: Option<PathBuf>,
    /// Index of the step.
    pub(super) at: usize,
    /// Whether the command of the step was run.
    pub(super) ran: bool,
    /// Number of changes at the start of the step.
    pub(super) changes: usize,
    /// Description of what the user did in the previous step.
    pub(super) did: Option<&'static str>,
    /// Whether all steps are done.
    pub(super) over: bool,
}

impl Tour {
    /// Returns the number of the visible step, from 1; `None`: the sample is not open yet.
    #[must_use]
    pub fn step(&self) -> Option<usize> {
        self.waits.is_none().then_some(self.at + 1)
    }
}
