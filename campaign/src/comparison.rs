//! The comparison of two campaigns, cell by cell: what broke, what is fixed, what is slower.

use crate::cell::{Cell, CellVerdict};
use crate::summary::{CellKey, Summary};
use kinescope_session::text;
use serde::Serialize;
use std::collections::BTreeSet;

/// Ratio of two median times from which a cell counts as slower or faster.
const TIME_RATIO: f64 = 1.25;
/// Difference of two median times, ns, below which a cell is neither slower nor faster.
const MIN_TIME_DIFFERENCE_NS: u64 = 1_000_000;

/// How a cell changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CellChange {
    /// It matched before.
    Broken,
    /// It did not match before, and has another verdict or first divergence now; or its result must be the same and is
    /// another: outputs of a pipeline or program, outcomes of seeds.
    Changed,
    /// It matches now.
    Fixed,
    /// It is new, and does not match.
    Failing,
    /// It is new, and matches.
    New,
    /// It is in the first campaign only.
    Gone,
    /// Some of its runs have no result yet, and the others are not worse.
    Waiting,
    /// Its median time rose.
    Slower,
    /// Its median time fell.
    Faster,
}

impl CellChange {
    /// Returns the change in one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Broken => "broken",
            Self::Changed => "changed",
            Self::Fixed => "fixed",
            Self::Failing => "failing",
            Self::New => "new",
            Self::Gone => "gone",
            Self::Waiting => "waiting",
            Self::Slower => "slower",
            Self::Faster => "faster",
        }
    }

    /// Returns whether the second campaign is worse.
    #[must_use]
    pub fn is_worse(self) -> bool {
        matches!(self, Self::Broken | Self::Changed | Self::Failing)
    }
}

/// A cell that differs between two campaigns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellDifference {
    /// How it changed: `broken`, `changed`, `fixed`, `failing`, `new`, `gone`, `waiting`, `slower`, `faster`.
    pub change: CellChange,
    /// The kind of work: `replay`, `pipeline`, `tuning`, `wasm`, `fuzz`, `bisect`.
    pub kind: &'static str,
    /// Name of the recording, pipeline or program.
    pub recording: String,
    /// Options of the work, in words.
    pub options: String,
    /// Target.
    pub target: String,
    /// Verdicts in the first and the second campaign; `null`: the cell has no result there.
    pub verdict_before: Option<&'static str>,
    /// See `verdict_before`.
    pub verdict: Option<&'static str>,
    /// Number of its runs without a result in the first and the second campaign.
    pub waiting_before: u64,
    /// See `waiting_before`.
    pub waiting: u64,
    /// Median times in both, ns; `null`: no run, or not there.
    pub run_ns_before: Option<u64>,
    /// See `run_ns_before`.
    pub run_ns: Option<u64>,
    /// Event of the first divergence in the second campaign; `null` if there is none.
    pub event: Option<u64>,
    /// The first divergence or the failure of the second campaign, in words.
    pub text: Option<String>,
    /// Whether the recording has other bytes in the second campaign.
    pub recording_changed: bool,
}

impl CellDifference {
    /// Returns the state of the cell in the first campaign, in words; `None` if the campaign does not have it.
    #[must_use]
    pub fn describe_before(&self) -> Option<String> {
        describe_state(self.verdict_before, self.waiting_before)
    }

    /// Returns the state of the cell in the second campaign, in words; `None` if the campaign does not have it.
    #[must_use]
    pub fn describe_after(&self) -> Option<String> {
        describe_state(self.verdict, self.waiting)
    }
}

fn describe_state(verdict: Option<&str>, waiting: u64) -> Option<String> {
    match (verdict, waiting) {
        (verdict, 0) => verdict.map(str::to_owned),
        (None, n) => Some(format!("waiting ({})", text::count_noun(n, "run", "runs"))),
        (Some(verdict), n) => Some(format!("{verdict} ({})", text::count_noun(n, "run waits", "runs wait"))),
    }
}

/// The difference of two campaigns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CampaignDifference {
    /// The cells that differ: the worst changes first, then in order of their keys.
    pub cells: Vec<CellDifference>,
    /// Number of cells that are the same.
    pub same: u64,
    /// Number of runs without a result in the first campaign.
    pub waiting_before: u64,
    /// Number of runs without a result in the second campaign.
    pub waiting: u64,
}

/// A cell in one of the campaigns.
#[derive(Clone, Copy)]
struct CellState<'a> {
    /// Its results.
    cell: Option<&'a Cell>,
    /// Number of its runs without a result.
    waiting: u64,
}

impl<'a> CellState<'a> {
    fn new(summary: &'a Summary, key: &CellKey) -> Self {
        Self {
            cell: summary.cells.get(key),
            waiting: summary.waiting_of(key),
        }
    }

    fn is_absent(self) -> bool {
        self.cell.is_none() && self.waiting == 0
    }
}

/// Compares two campaigns. A cell that has no result in either of them is left out.
#[must_use]
pub fn compare(before: &Summary, after: &Summary) -> CampaignDifference {
    let mut difference = CampaignDifference {
        waiting_before: before.waiting_total(),
        waiting: after.waiting_total(),
        ..CampaignDifference::default()
    };
    let keys: BTreeSet<&CellKey> = before.cells.keys().chain(after.cells.keys()).collect();
    for key in keys {
        let (earlier, later) = (CellState::new(before, key), CellState::new(after, key));
        match find_change(earlier, later) {
            Some(change) => difference.cells.push(describe(change, key, earlier, later)),
            None => difference.same += 1,
        }
    }
    difference.cells.sort_by_key(|c| c.change);
    difference
}

/// Returns how a cell changed. A result that is worse counts at once; nothing else is known until all runs have one.
fn find_change(before: CellState<'_>, after: CellState<'_>) -> Option<CellChange> {
    if after.is_absent() {
        return Some(CellChange::Gone);
    }
    let change = after.cell.and_then(|cell| find_cell_change(before.cell, cell));
    match change {
        Some(change) if change.is_worse() => Some(change),
        _ if before.waiting > 0 || after.waiting > 0 => Some(CellChange::Waiting),
        change => change,
    }
}

fn find_cell_change(before: Option<&Cell>, after: &Cell) -> Option<CellChange> {
    let is_match = |cell: &Cell| cell.verdict == CellVerdict::Match;
    let Some(before) = before else {
        return Some(if is_match(after) {
            CellChange::New
        } else {
            CellChange::Failing
        });
    };
    match (is_match(before), is_match(after)) {
        (true, false) => Some(CellChange::Broken),
        (false, true) => Some(CellChange::Fixed),
        (false, false) => {
            let event = |cell: &Cell| cell.divergence.as_ref().map(|d| d.event);
            let is_same = before.verdict == after.verdict && event(before) == event(after);
            (!is_same || has_other_result(before, after)).then_some(CellChange::Changed)
        }
        (true, true) if has_other_result(before, after) => Some(CellChange::Changed),
        (true, true) => {
            let (a, b) = (before.median_ns()?, after.median_ns()?);
            if a.abs_diff(b) < MIN_TIME_DIFFERENCE_NS {
                return None;
            }
            let ratio = b as f64 / a.max(1) as f64;
            match ratio {
                r if r >= TIME_RATIO => Some(CellChange::Slower),
                r if r <= 1.0 / TIME_RATIO => Some(CellChange::Faster),
                _ => None,
            }
        }
    }
}

/// Returns how the result of a cell differs, in words, if it must be the same.
fn describe_other_result(before: &Cell, after: &Cell) -> Option<String> {
    before.details.as_ref()?.describe_change(after.details.as_ref()?)
}

fn has_other_result(before: &Cell, after: &Cell) -> bool {
    describe_other_result(before, after).is_some()
}

fn describe(change: CellChange, key: &CellKey, earlier: CellState<'_>, later: CellState<'_>) -> CellDifference {
    let (before, after) = (earlier.cell, later.cell);
    let divergence = after.and_then(|c| c.divergence.as_ref());
    let failure = after.and_then(|c| c.failure.clone());
    let other_result = before.zip(after).and_then(|(a, b)| describe_other_result(a, b));
    CellDifference {
        change,
        kind: key.kind,
        recording: key.recording.clone(),
        options: key.options.clone(),
        target: key.target.clone(),
        verdict_before: before.map(|c| c.verdict.name()),
        verdict: after.map(|c| c.verdict.name()),
        waiting_before: earlier.waiting,
        waiting: later.waiting,
        run_ns_before: before.and_then(Cell::median_ns),
        run_ns: after.and_then(Cell::median_ns),
        event: divergence.map(|d| d.event),
        text: divergence.map(|d| d.text.clone()).or(failure).or(other_result),
        recording_changed: matches!((before, after), (Some(a), Some(b)) if a.digest != b.digest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_result::FirstDivergence;
    use std::collections::BTreeMap;

    fn cell(verdict: CellVerdict, event: Option<u64>, ns: u64) -> Cell {
        Cell {
            runs: 1,
            matches: 0,
            repeated: 0,
            verdict,
            fingerprints: 1,
            divergence: event.map(|event| FirstDivergence {
                event,
                text: "x".into(),
            }),
            failure: None,
            run_ns: vec![ns],
            gpu: String::new(),
            path: "/a".into(),
            digest: String::new(),
            outcome: None,
            details: None,
            unequal: None,
            superseded: 0,
        }
    }

    fn summary(cells: &[(&str, Cell)]) -> Summary {
        let key = |name: &str| CellKey {
            kind: "replay",
            recording: name.into(),
            options: String::new(),
            target: "t".into(),
        };
        Summary {
            cells: cells
                .iter()
                .map(|(n, c)| (key(n), c.clone()))
                .collect::<BTreeMap<_, _>>(),
            ..Summary::default()
        }
    }

    #[test]
    fn changes_come_in_order_of_their_weight() {
        use CellVerdict::{Diverged, Failed, Match};
        const MS: u64 = 1_000_000;
        let before = summary(&[
            ("broken", cell(Match, None, 10 * MS)),
            ("changed", cell(Diverged, Some(3), 1)),
            ("fixed", cell(Failed, None, 1)),
            ("gone", cell(Match, None, 1)),
            ("same", cell(Diverged, Some(4), 1)),
            ("slow", cell(Match, None, 10 * MS)),
            ("short", cell(Match, None, 10)),
            ("fast", cell(Match, None, 20 * MS)),
        ]);
        let after = summary(&[
            ("broken", cell(Diverged, Some(9), 10 * MS)),
            ("changed", cell(Diverged, Some(2), 1)),
            ("fixed", cell(Match, None, 1)),
            ("new", cell(Match, None, 1)),
            ("other", cell(Failed, None, 1)),
            ("same", cell(Diverged, Some(4), 1)),
            ("slow", cell(Match, None, 13 * MS)),
            ("short", cell(Match, None, 1000)),
            ("fast", cell(Match, None, 10 * MS)),
        ]);
        let difference = compare(&before, &after);
        let names: Vec<_> = difference
            .cells
            .iter()
            .map(|c| (c.change.name(), c.recording.as_str()))
            .collect();
        assert_eq!(
            names,
            [
                ("broken", "broken"),
                ("changed", "changed"),
                ("fixed", "fixed"),
                ("failing", "other"),
                ("new", "new"),
                ("gone", "gone"),
                ("slower", "slow"),
                ("faster", "fast"),
            ]
        );
        assert_eq!((difference.same, difference.cells[0].event), (2, Some(9)));
        assert!(compare(&before, &before).cells.is_empty());
    }

    /// A cell of a campaign that was stopped was `gone`, or the same.
    #[test]
    fn cells_whose_runs_wait_are_neither_gone_nor_the_same() {
        use CellVerdict::{Diverged, Match};
        let names = ["all-wait", "broken", "done", "part-waits", "removed"];
        let before = summary(&names.map(|name| (name, cell(Match, None, 1))));
        let mut after = summary(&[
            ("broken", cell(Diverged, Some(9), 1)),
            ("done", cell(Match, None, 1)),
            ("part-waits", cell(Match, None, 1)),
        ]);
        let key = |name: &str| {
            let found = before.cells.keys().find(|key| key.recording == name);
            found.cloned().unwrap()
        };
        let waiting = [("all-wait", 40), ("broken", 39), ("part-waits", 1)];
        after.waiting = waiting.map(|(name, n)| (key(name), n)).into();
        let describe = |difference: &CampaignDifference| -> Vec<String> {
            let line = |c: &CellDifference| {
                let (before, after) = (c.describe_before(), c.describe_after());
                let words = [before, after].map(|words| words.unwrap_or_else(|| "–".into()));
                format!("{} {}: {}", c.change.name(), c.recording, words.join(", "))
            };
            difference.cells.iter().map(line).collect()
        };
        let difference = compare(&before, &after);
        assert_eq!(
            describe(&difference),
            [
                "broken broken: match, diverged (39 runs wait)",
                "gone removed: match, –",
                "waiting all-wait: match, waiting (40 runs)",
                "waiting part-waits: match, match (1 run waits)",
            ]
        );
        assert_eq!(
            (difference.same, difference.waiting_before, difference.waiting),
            (1, 0, 80)
        );
        // The first campaign is the unfinished one.
        let difference = compare(&after, &before);
        assert_eq!(
            describe(&difference),
            [
                "new removed: –, match",
                "waiting all-wait: waiting (40 runs), match",
                "waiting broken: diverged (39 runs wait), match",
                "waiting part-waits: match (1 run waits), match",
            ]
        );
    }
}
