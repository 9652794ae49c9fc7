//! What the result of a run says besides its verdict, for each kind of work: columns of the table, and a line for pages.

use super::{BisectDetails, FuzzDetails, PipelineDetails, TuningDetails, WasmDetails};
use serde::{Deserialize, Serialize};

/// The result of one kind of work. A replay has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum RunDetails {
    /// Of a pipeline.
    Pipeline(PipelineDetails),
    /// Of a tuning.
    Tuning(TuningDetails),
    /// Of a batch of copies of a WebAssembly program.
    Wasm(WasmDetails),
    /// Of some seeds.
    Fuzz(FuzzDetails),
    /// Of a bisection.
    Bisect(BisectDetails),
}

/// Columns of the table of results that only some kinds of work have.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DetailColumns {
    /// Number of parts: stages, points, copies, seeds, candidates.
    pub items: Option<u64>,
    /// Number of parts that failed.
    pub failed_items: Option<u64>,
    /// Names of parts that failed: a stage, inputs, seeds.
    pub failed: Option<String>,
    /// The fastest valid point of a tuning.
    pub best_point: Option<String>,
    /// Time of the recorded launch and of the fastest valid point, ns.
    pub launch_ns: Option<(u64, u64)>,
    /// Jobs of the shortest part of a bisection.
    pub jobs: Option<String>,
}

/// What every result of a kind gives.
pub(crate) trait Details {
    /// Returns its columns.
    fn columns(&self) -> DetailColumns;

    /// Returns the result in a line for a cell of a page; empty if there is nothing to say.
    fn describe(&self) -> String;

    /// Returns how a later result differs, in words; `None` if it does not.
    fn describe_change(&self, later: &RunDetails) -> Option<String> {
        let _ = later;
        None
    }
}

impl RunDetails {
    fn as_details(&self) -> &dyn Details {
        match self {
            Self::Pipeline(details) => details,
            Self::Tuning(details) => details,
            Self::Wasm(details) => details,
            Self::Fuzz(details) => details,
            Self::Bisect(details) => details,
        }
    }

    /// Returns its columns of the table.
    pub(crate) fn columns(&self) -> DetailColumns {
        self.as_details().columns()
    }

    /// Returns the result in a line; empty if there is nothing to say.
    #[must_use]
    pub fn describe(&self) -> String {
        self.as_details().describe()
    }

    /// Returns how the result of the same work differs on another target, in another repeat or in a later campaign.
    /// `None` if it does not, or the kind need not give the same result twice.
    #[must_use]
    pub fn describe_change(&self, later: &Self) -> Option<String> {
        self.as_details().describe_change(later)
    }
}

/// Lists at most `max` of some names: `a, b and 3 more`.
pub(crate) fn list_names<T: ToString>(names: impl ExactSizeIterator<Item = T>, max: usize) -> String {
    let count = names.len();
    let shown: Vec<String> = names.take(max).map(|n| n.to_string()).collect();
    match count.saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
