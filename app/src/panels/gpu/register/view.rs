//! State of the Register panel.

use crate::theme::rows::Rows;
use std::sync::Arc;
use trace_core::RegOffset;
use trace_core::progress::Progress;
use trace_core::registers::{Accesses, Guess};

/// Choice of listed accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessFilter {
    /// All.
    #[default]
    All,
    /// Only writes.
    Writes,
    /// Only those whose value differs from the one before.
    Changes,
}

impl AccessFilter {
    /// All variants, in the order in which they are offered.
    pub const ALL: [Self; 3] = [Self::All, Self::Writes, Self::Changes];

    /// Returns the label, one word.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Writes => "writes",
            Self::Changes => "changes",
        }
    }
}

/// State of the panel.
#[derive(Clone, Default)]
pub struct View {
    /// Only registers whose names contain this text are offered.
    pub find: String,
    /// The list of accesses.
    pub(super) list: Rows,
    /// The list of registers.
    pub(super) all: Rows,
    pub(super) shown: Option<(RegOffset, u64)>,
    /// The choice of listed accesses.
    pub filter: AccessFilter,
    /// A register, and its accesses that change the value, once known.
    pub(super) changes: Option<(RegOffset, Arc<Accesses>)>,
    /// Whether statistics are shown instead of the accesses.
    pub statistics: bool,
    /// Statistics of the last register that was analysed.
    pub(super) guess: Option<Arc<Guess>>,
    /// The register whose accesses are being analysed.
    pub(super) guessing: Option<(RegOffset, Progress)>,
    /// The register whose changes are being searched.
    pub(super) looking: Option<RegOffset>,
}

impl View {
    /// Drops what was computed from a shorter reading of the recording.
    pub fn forget_results(&mut self) {
        self.changes = None;
        self.guess = None;
        if let Some((_, running)) = self.guessing.take() {
            running.cancel();
        }
        self.looking = None;
    }
}
