//! Why the matrix of a campaign cannot be made.

use crate::file_digest::DigestError;

/// Maximum number of runs of a campaign.
pub(crate) const MAX_RUNS: u64 = 10_000_000;

/// Why a campaign has no matrix.
#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    /// The pattern of an entry has a mistake, or matches nothing.
    #[error("line {line}: {reason}")]
    Entry {
        /// Line of the entry.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A file cannot be read.
    #[error(transparent)]
    Digest(#[from] DigestError),
    /// There are too many runs.
    #[error("the campaign has {0} runs (at most {MAX_RUNS}); divide it")]
    TooManyRuns(u64),
}
