//! A cell of a campaign's matrix: what the repeats of a work item on a target gave.

use crate::run_result::{FirstDivergence, RunVerdict};
use crate::work::RunDetails;
use std::path::PathBuf;

/// The verdict on all repeats of a cell: the worst one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CellVerdict {
    /// All repeats match.
    Match,
    /// A repeat diverged.
    Diverged,
    /// A repeat failed.
    Failed,
    /// A repeat was refused.
    Refused,
}

impl From<RunVerdict> for CellVerdict {
    fn from(verdict: RunVerdict) -> Self {
        match verdict {
            RunVerdict::Match => Self::Match,
            RunVerdict::Diverged => Self::Diverged,
            RunVerdict::Failed => Self::Failed,
            RunVerdict::Refused => Self::Refused,
        }
    }
}

impl CellVerdict {
    /// Returns the verdict in one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Match => "match",
            Self::Diverged => "diverged",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }
}

/// A cell: the results of its repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Number of repeats with a result.
    pub runs: u64,
    /// Number of them that match.
    pub matches: u64,
    /// Number of them whose earlier attempt may have executed too.
    pub repeated: u64,
    /// The verdict.
    pub verdict: CellVerdict,
    /// Number of different fingerprints: above 1, repeats of the same run gave different results.
    pub fingerprints: usize,
    /// The first divergence of the worst repeat.
    pub divergence: Option<FirstDivergence>,
    /// Why the worst repeat failed.
    pub failure: Option<String>,
    /// Times of the repeats, ns, in order.
    pub run_ns: Vec<u64>,
    /// Name of the GPU.
    pub gpu: String,
    /// Path of the recording.
    pub path: PathBuf,
    /// Digest of the recording.
    pub digest: String,
    /// A kept outcome of the worst repeat, in the campaign's folder.
    pub outcome: Option<PathBuf>,
    /// What only this kind of work has, of the worst repeat.
    pub details: Option<RunDetails>,
    /// How the result of a repeat differs from another one that must be the same, in words; `None` if none does.
    pub unequal: Option<String>,
    /// Number of results of the same work with earlier contents of its files. Nothing else here counts them.
    pub superseded: u64,
}

impl Cell {
    /// Returns the median time of the repeats that ran, ns: of an even number, the mean of the two middle times.
    #[must_use]
    pub fn median_ns(&self) -> Option<u64> {
        find_median(&self.run_ns)
    }
}

/// Returns the median of times in ascending order: of an even number, the mean of the two middle ones.
pub(crate) fn find_median(sorted: &[u64]) -> Option<u64> {
    let middle = sorted.get(sorted.len() / 2).copied()?;
    match sorted.len() % 2 {
        0 => Some(u64::midpoint(*sorted.get(sorted.len() / 2 - 1)?, middle)),
        _ => Some(middle),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_mean_of_the_two_middle_values() {
        assert_eq!(find_median(&[]), None);
        assert_eq!(find_median(&[7]), Some(7));
        // The smaller one of two repeats was their median.
        assert_eq!(find_median(&[10_450_000, 44_880_000]), Some(27_665_000));
        assert_eq!(find_median(&[1, 2, 9]), Some(2));
        assert_eq!(find_median(&[1, 2, 4, 9]), Some(3));
        assert_eq!(find_median(&[u64::MAX - 2, u64::MAX]), Some(u64::MAX - 1));
    }
}
