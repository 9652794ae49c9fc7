//! Jobs that a side did not compute, whose outputs therefore cannot be compared.

use super::rules::{Pattern, Rule, Rules};
use crate::recording::{BufferRole, Recording};
use serde::{Deserialize, Serialize};

/// Number of jobs on each side that did not complete with all of their shaders run, according to the recordings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotComputed {
    /// Number of jobs in the first recording.
    pub a: u64,
    /// Number of jobs in the second recording.
    pub b: u64,
}

impl NotComputed {
    /// Counts the jobs that were not computed according to the recordings.
    pub(super) fn from_recordings(a: &Recording, b: &Recording) -> Self {
        let count = |r: &Recording| {
            let reports = r.chain_reports();
            reports.iter().filter(|report| !report.has_computed()).count() as u64
        };
        Self {
            a: count(a),
            b: count(b),
        }
    }

    /// Returns whether there is any such job.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.a + self.b > 0
    }

    /// Returns the same with the sides swapped.
    pub(super) fn swapped(self) -> Self {
        Self { a: self.b, b: self.a }
    }
}

/// Returns the rules with the addition that no output of either side is compared.
pub(super) fn without_outputs(rules: &Rules, a: &Recording, b: &Recording) -> Rules {
    let mut all = rules.clone();
    for buffer in a.metadata.buffers.iter().chain(&b.metadata.buffers) {
        if buffer.role == BufferRole::Output {
            all.list.push(Rule::Buffer(Pattern::for_name(&buffer.name)));
        }
    }
    all
}
