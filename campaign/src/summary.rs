//! The cells of a campaign's matrix: work on a file, with its options, on a target, and what its repeats gave.

use crate::cell::{Cell, CellVerdict};
use crate::folder_queue::FolderQueue;
use crate::open_cell::OpenCell;
use crate::queue::{QueueError, RunQueue};
use crate::run::Run;
use crate::run_result::{RunResult, RunVerdict};
use crate::work::RunDetails;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// What identifies a cell in two campaigns. The recording's content may differ.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CellKey {
    /// The kind of work: `replay`, `pipeline`, `tuning`, `wasm`, `fuzz`, `bisect`.
    pub kind: &'static str,
    /// Name of the recording, pipeline or program, as the description gives it.
    pub recording: String,
    /// Options of the work, in words.
    pub options: String,
    /// Target.
    pub target: String,
}

/// What identifies a row of the matrix in two campaigns: a work item with its options, on any target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkKey {
    /// The kind of work, as in [`CellKey`].
    pub kind: &'static str,
    /// Name of the recording, pipeline or program, as the description gives it.
    pub recording: String,
    /// Options of the work, in words.
    pub options: String,
}

impl CellKey {
    /// Returns the key of the cell of a work item on a target.
    #[must_use]
    pub fn new(work: WorkKey, target: String) -> Self {
        Self {
            kind: work.kind,
            recording: work.recording,
            options: work.options,
            target,
        }
    }

    /// Returns the key of its work item.
    #[must_use]
    pub fn work(&self) -> WorkKey {
        WorkKey {
            kind: self.kind,
            recording: self.recording.clone(),
            options: self.options.clone(),
        }
    }

    /// Returns the key of the cell that a run belongs to.
    #[must_use]
    pub fn for_run(run: &Run) -> Self {
        Self {
            kind: run.work.kind(),
            recording: run.work.recording().name.clone(),
            options: run.work.describe_options(),
            target: run.target.clone(),
        }
    }
}

/// The kinds of work in the order of reports.
pub const WORK_KINDS: [&str; 6] = ["replay", "pipeline", "tuning", "wasm", "fuzz", "bisect"];

/// Returns the number of a kind in the order of reports.
fn kind_order(kind: &str) -> usize {
    WORK_KINDS.iter().position(|k| *k == kind).unwrap_or(WORK_KINDS.len())
}

/// Compares two texts with their numbers by value: `seeds 50` comes before `seeds 100`.
fn compare_natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        let (Some(x), Some(y)) = (left.chars().next(), right.chars().next()) else {
            return left.len().cmp(&right.len()).then_with(|| a.cmp(b));
        };
        if x.is_ascii_digit() && y.is_ascii_digit() {
            let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            let ((m, rest_left), (n, rest_right)) = (left.split_at(digits(left)), right.split_at(digits(right)));
            let (m, n) = (m.trim_start_matches('0'), n.trim_start_matches('0'));
            match m.len().cmp(&n.len()).then_with(|| m.cmp(n)) {
                Ordering::Equal => (left, right) = (rest_left, rest_right),
                other => return other,
            }
        } else if x == y {
            let size = x.len_utf8();
            (left, right) = (left.split_at(size).1, right.split_at(size).1);
        } else {
            return x.cmp(&y);
        }
    }
}

/// Compares work items in the order of reports: by kind, by file, by options.
fn compare_work(a: (&str, &str, &str), b: (&str, &str, &str)) -> Ordering {
    kind_order(a.0)
        .cmp(&kind_order(b.0))
        .then_with(|| a.0.cmp(b.0))
        .then_with(|| compare_natural(a.1, b.1))
        .then_with(|| compare_natural(a.2, b.2))
}

/// Keys are in the order of reports.
impl Ord for WorkKey {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_work(
            (self.kind, &self.recording, &self.options),
            (other.kind, &other.recording, &other.options),
        )
    }
}

impl PartialOrd for WorkKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Keys are in the order of reports: by work item, by target.
impl Ord for CellKey {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_work(
            (self.kind, &self.recording, &self.options),
            (other.kind, &other.recording, &other.options),
        )
        .then_with(|| compare_natural(&self.target, &other.target))
    }
}

impl PartialOrd for CellKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Work whose results differ between two targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnequalTargets<'a> {
    /// The cell of the first target.
    pub key: &'a CellKey,
    /// The other target.
    pub other: &'a str,
    /// How its result differs, in words.
    pub text: String,
}

/// The cells of a campaign, and totals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The cells.
    pub cells: BTreeMap<CellKey, Cell>,
    /// Number of results by verdict.
    pub verdicts: BTreeMap<RunVerdict, u64>,
    /// Number of results whose earlier attempt may have executed too.
    pub repeated: u64,
    /// When the first run started and the last one ended, milliseconds since 1970; `None` without results.
    pub span_ms: Option<(u64, u64)>,
    /// The longest time of a run on each target, ns. A target whose runs were all refused has none.
    pub longest_ns: BTreeMap<String, u64>,
    /// Number of runs without a result, of each cell that has some. [`Summary::with_waiting`] counts them.
    pub waiting: BTreeMap<CellKey, u64>,
}

impl Summary {
    /// Reads the results of a queue.
    ///
    /// # Errors
    /// If the queue cannot be read.
    pub fn read(queue: &dyn RunQueue) -> Result<Self, QueueError> {
        let mut summary = Self::default();
        let mut cells: BTreeMap<CellKey, OpenCell> = BTreeMap::new();
        queue.results(&mut |run, result| {
            summary.count(&run.target, &result);
            add(&mut cells, &run, result);
            true
        })?;
        let closed = cells.into_iter().filter_map(|(key, open)| Some((key, open.close()?)));
        summary.cells = closed.collect();
        Ok(summary)
    }

    /// Returns the summary with the numbers of runs that have no result yet.
    ///
    /// # Errors
    /// If the queue cannot be read.
    pub fn with_waiting(mut self, queue: &FolderQueue) -> Result<Self, QueueError> {
        queue.unfinished(None, &mut |run, _| {
            *self.waiting.entry(CellKey::for_run(&run)).or_default() += 1;
            true
        })?;
        Ok(self)
    }

    fn count(&mut self, target: &str, result: &RunResult) {
        *self.verdicts.entry(result.verdict).or_default() += 1;
        self.repeated += u64::from(result.is_repeated());
        let (first, last) = self.span_ms.unwrap_or((u64::MAX, 0));
        self.span_ms = Some((first.min(result.started_ms), last.max(result.ended_ms)));
        match self.longest_ns.get_mut(target) {
            Some(longest) => *longest = result.run_ns.max(*longest),
            None if result.run_ns > 0 => {
                self.longest_ns.insert(target.to_owned(), result.run_ns);
            }
            None => {}
        }
    }

    /// Returns the number of results with a verdict.
    #[must_use]
    pub fn results_with(&self, verdict: RunVerdict) -> u64 {
        self.verdicts.get(&verdict).copied().unwrap_or(0)
    }

    /// Returns the number of results.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.verdicts.values().sum()
    }

    /// Returns the number of runs without a result.
    #[must_use]
    pub fn waiting_total(&self) -> u64 {
        self.waiting.values().sum()
    }

    /// Returns the number of runs of a cell without a result.
    #[must_use]
    pub fn waiting_of(&self, key: &CellKey) -> u64 {
        self.waiting.get(key).copied().unwrap_or(0)
    }

    /// Returns the keys of all cells that have a result or a run that waits.
    #[must_use]
    pub fn keys(&self) -> BTreeSet<&CellKey> {
        self.cells.keys().chain(self.waiting.keys()).collect()
    }

    /// Whether every result is a match, and repeats that must give the same result did. Superseded results are left out.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.cells.values().all(|cell| cell.matches == cell.runs) && self.unequal_cells() == 0
    }

    /// Returns the number of results of work whose files have other contents now.
    #[must_use]
    pub fn superseded(&self) -> u64 {
        self.cells.values().map(|cell| cell.superseded).sum()
    }

    /// Returns the number of cells whose repeats gave different results, although they must not.
    #[must_use]
    pub fn unequal_cells(&self) -> u64 {
        self.cells.values().filter(|cell| cell.unequal.is_some()).count() as u64
    }

    /// Compares the results of each work item on its first target with those on its other targets: outputs of pipelines
    /// and programs, outcomes of seeds. Targets that failed are left out.
    #[must_use]
    pub fn unequal_targets(&self) -> Vec<UnequalTargets<'_>> {
        let mut all = Vec::new();
        let mut first: Option<(&CellKey, &RunDetails)> = None;
        for (key, cell) in &self.cells {
            let Some(details) = cell.details.as_ref().filter(|_| cell.verdict != CellVerdict::Refused) else {
                continue;
            };
            let is_same_work =
                |a: &CellKey| (a.kind, &a.recording, &a.options) == (key.kind, &key.recording, &key.options);
            match first.filter(|(before, _)| is_same_work(before)) {
                Some((before, expected)) => {
                    if let Some(text) = expected.describe_change(details) {
                        all.push(UnequalTargets {
                            key: before,
                            other: &key.target,
                            text,
                        });
                    }
                }
                None => first = Some((key, details)),
            }
        }
        all
    }
}

fn add(cells: &mut BTreeMap<CellKey, OpenCell>, run: &Run, result: RunResult) {
    let recording = run.work.recording();
    let open = cells.entry(CellKey::for_run(run)).or_default();
    open.add(&run.work.content_digest(), &recording.path, &recording.digest, result);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_in_the_order_of_their_numbers() {
        let mut all = [
            "a10",
            "a9",
            "b",
            "a",
            "a9b",
            "a09",
            "",
            "é2",
            "a99999999999999999999999",
            "a010",
        ];
        all.sort_by(|a, b| compare_natural(a, b));
        assert_eq!(
            all,
            [
                "",
                "a",
                "a09",
                "a9",
                "a9b",
                "a010",
                "a10",
                "a99999999999999999999999",
                "b",
                "é2"
            ]
        );
    }
}
