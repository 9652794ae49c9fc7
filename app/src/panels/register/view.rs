//! What the Register panel shows.

use crate::theme::rows::Rows;
use std::sync::Arc;
use trace_core::progress::Progress;
use trace_core::registers::{Accesses, Guess};

/// Which accesses are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessFilter {
    /// All.
    #[default]
    All,
    /// Those that write.
    Writes,
    /// Those whose value differs from the one before.
    Changes,
}

impl AccessFilter {
    /// All, in the order in which they are offered.
    pub const ALL: [Self; 3] = [Self::All, Self::Writes, Self::Changes];

    /// In a word.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Writes => "writes",
            Self::Changes => "changes",
        }
    }
}

/// What the panel shows.
#[derive(Clone, Default)]
pub struct View {
    /// Only registers whose names hold this are offered.
    pub find: String,
    /// The list of accesses.
    pub(super) list: Rows,
    /// The list of registers.
    pub(super) all: Rows,
    pub(super) shown: Option<(u32, u64)>,
    /// Which accesses are listed.
    pub filter: AccessFilter,
    /// Accesses that change the value, of this register, once found.
    pub(super) changes: Option<(u32, Arc<Accesses>)>,
    /// Whether statistics are shown in place of the accesses.
    pub statistics: bool,
    /// Those of the register that was looked at last.
    pub(super) guess: Option<Arc<Guess>>,
    /// The register whose accesses are being looked at.
    pub(super) guessing: Option<(u32, Progress)>,
    /// The register whose changes are looked for.
    pub(super) looking: Option<u32>,
}
