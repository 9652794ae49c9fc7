//! A cell that is being collected from results, in any order.
//!
//! A folder can hold results of work whose files changed between two calls. The cell is that of the contents that were
//! queued last; it counts the other results apart.

use crate::cell::{Cell, CellVerdict};
use crate::run_result::{RunResult, RunVerdict};
use crate::work::RunDetails;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Maximum number of run times of a cell that are kept.
const MAX_TIMES: usize = 1000;

/// A cell that is being collected.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenCell {
    /// By the digest of the contents of the files.
    versions: BTreeMap<String, Version>,
}

/// The results of work with one content of its files.
#[derive(Clone, Debug)]
struct Version {
    cell: Cell,
    fingerprints: BTreeSet<String>,
    /// The details of the first repeat.
    first: Option<RunDetails>,
    /// When its last run was queued, milliseconds since 1970.
    queued_ms: u64,
}

impl OpenCell {
    /// Adds a result. `contents` is the digest of the contents of the work's files; `path` and `digest` are those of its
    /// recording.
    pub fn add(&mut self, contents: &str, path: &Path, digest: &str, result: RunResult) {
        match self.versions.get_mut(contents) {
            Some(version) => version.add(result),
            None => {
                let mut version = Version::new(path, digest, &result);
                version.add(result);
                self.versions.insert(contents.to_owned(), version);
            }
        }
    }

    /// Returns the digest of the contents that the cell shows.
    pub fn newest(&self) -> Option<&str> {
        let newest = self.versions.iter().max_by_key(|(_, version)| version.queued_ms);
        newest.map(|(contents, _)| contents.as_str())
    }

    /// Returns the cell with the results until now; `None` without results.
    pub fn close(&self) -> Option<Cell> {
        let mut cell = self.versions.get(self.newest()?)?.cell.clone();
        let all: u64 = self.versions.values().map(|version| version.cell.runs).sum();
        cell.superseded = all.saturating_sub(cell.runs);
        Some(cell)
    }
}

impl Version {
    /// Creates a version without results. `first` is the result that is added first.
    fn new(path: &Path, digest: &str, first: &RunResult) -> Self {
        Self {
            cell: Cell {
                runs: 0,
                matches: 0,
                repeated: 0,
                verdict: first.verdict.into(),
                fingerprints: 0,
                divergence: first.divergence.clone(),
                failure: first.failure.clone(),
                run_ns: Vec::new(),
                gpu: first.gpu.clone(),
                path: path.to_owned(),
                digest: digest.to_owned(),
                outcome: first.outcome.clone(),
                details: first.details.clone(),
                unequal: None,
                superseded: 0,
            },
            fingerprints: BTreeSet::new(),
            first: first.details.clone(),
            queued_ms: first.queued_ms,
        }
    }

    fn add(&mut self, result: RunResult) {
        self.queued_ms = self.queued_ms.max(result.queued_ms);
        let verdict = CellVerdict::from(result.verdict);
        let cell = &mut self.cell;
        cell.runs += 1;
        cell.matches += u64::from(result.verdict == RunVerdict::Match);
        cell.repeated += u64::from(result.is_repeated());
        if result.run_ns > 0 && cell.run_ns.len() < MAX_TIMES {
            let at = cell.run_ns.partition_point(|ns| *ns <= result.run_ns);
            cell.run_ns.insert(at, result.run_ns);
        }
        if !result.fingerprint.is_empty() {
            self.fingerprints.insert(result.fingerprint);
            cell.fingerprints = self.fingerprints.len();
        }
        if cell.gpu.is_empty() {
            cell.gpu = result.gpu;
        }
        match (&self.first, &result.details) {
            (Some(first), Some(details)) if cell.unequal.is_none() => cell.unequal = first.describe_change(details),
            (None, Some(details)) => self.first = Some(details.clone()),
            _ => {}
        }
        if verdict > cell.verdict || cell.details.is_none() {
            cell.details = result.details;
        }
        if verdict > cell.verdict {
            cell.verdict = verdict;
            cell.divergence = result.divergence;
            cell.failure = result.failure;
            cell.outcome = result.outcome;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{LeasedRun, Run};
    use crate::work::WorkItem;

    fn result(queued_ms: u64, fingerprint: &str, verdict: RunVerdict) -> RunResult {
        let work = r#"{"kind":"replay","recording":{"path":"/a","name":"a","digest":"00"}}"#;
        let work: WorkItem = serde_json::from_str(work).unwrap();
        let leased = LeasedRun {
            run: Run::new(work, "t", 0),
            queued_ms,
            attempt: 1,
            earlier_attempts: Vec::new(),
            token: 0,
        };
        RunResult {
            fingerprint: fingerprint.to_owned(),
            verdict,
            ..RunResult::unstarted(&leased, "t", "w")
        }
    }

    /// A recording that was made again looked like one whose repeats differ, and its old divergence stayed.
    #[test]
    fn results_of_other_contents_are_counted_apart() {
        let mut open = OpenCell::default();
        assert!(open.close().is_none());
        let results = [
            ("old", result(1, "x", RunVerdict::Diverged)),
            ("new", result(5, "y", RunVerdict::Match)),
            ("old", result(1, "x", RunVerdict::Match)),
            ("new", result(5, "y", RunVerdict::Match)),
            ("old", result(1, "x", RunVerdict::Match)),
        ];
        for (contents, result) in results {
            open.add(contents, Path::new("/a"), contents, result);
        }
        let cell = open.close().unwrap();
        assert_eq!((open.newest(), cell.digest.as_str()), (Some("new"), "new"));
        assert_eq!(
            (cell.runs, cell.matches, cell.fingerprints, cell.superseded),
            (2, 2, 1, 3)
        );
        assert_eq!(cell.verdict, CellVerdict::Match);
        // The old contents are queued again.
        open.add("old", Path::new("/a"), "old", result(9, "z", RunVerdict::Match));
        let cell = open.close().unwrap();
        assert_eq!((cell.runs, cell.fingerprints, cell.superseded), (4, 2, 2));
        assert_eq!(cell.verdict, CellVerdict::Diverged);
    }
}
