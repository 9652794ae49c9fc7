//! What the result of a run says besides its verdict, for each kind of work.

use super::detail_columns::{DetailColumns, Details};
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
        match (self, later) {
            (Self::Pipeline(details), Self::Pipeline(later)) => details.describe_change(later),
            (Self::Wasm(details), Self::Wasm(later)) => details.describe_change(later),
            (Self::Fuzz(details), Self::Fuzz(later)) => details.describe_change(later),
            _ => None,
        }
    }
}
