//! The table `[[fuzz]]`: recordings that are replayed with mutated inputs, one replay for each seed.

use super::checker::Checker;
use super::raw_entry::{CommonKeys, DescriptionError, EntryDefaults, EntryOptions, Expand, RawEntry, table_keys};
use crate::campaign_files::CampaignFiles;
use crate::matrix_error::MatrixError;
use crate::mutation::MutationKind;
use crate::work::{FuzzWork, MAX_RUN_SEEDS, WorkItem};
use std::collections::BTreeSet;
use std::ops::Range;
use toml::Spanned;
use trace_core::ranges;

/// Allowed numbers of seeds of a run.
const STEPS: (u64, u64) = (1, MAX_RUN_SEEDS);
/// Default number of seeds of a run.
const STEP: u64 = 100;
/// Maximum number of seeds of an entry.
const MAX_SEEDS: u64 = 100_000_000;
/// Maximum number of runs that an entry makes of a recording.
const MAX_STEPS: u64 = 50_000;

/// Recordings that are replayed with mutated inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FuzzEntry {
    /// Names of the buffers whose contents are mutated, at least one.
    pub inputs: Vec<String>,
    /// The seeds, at least one.
    pub seeds: Range<u64>,
    /// Number of seeds of a run.
    pub step: u64,
    /// The kinds of mutation, at least one.
    pub mutations: Vec<MutationKind>,
}

table_keys!(RawFuzz {
    inputs: Spanned<Vec<Spanned<String>>>,
    seeds: Spanned<String>,
    step: Option<Spanned<u64>>,
    mutations: Option<Spanned<Vec<Spanned<String>>>>,
});

/// Parses `FIRST..END` or `FIRST..=LAST`.
fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let bad = || format!("`{text}` are no seeds (expected FIRST..END, which excludes END, or FIRST..=LAST)");
    let typed = ranges::split(text).ok_or_else(bad)?;
    let first: u64 = typed.first.parse().map_err(|_| bad())?;
    let end: u64 = typed.end.parse().map_err(|_| bad())?;
    let end = match typed.inclusive {
        true => end.checked_add(1).ok_or_else(bad)?,
        false => end,
    };
    if first >= end {
        return Err(bad());
    }
    if end - first > MAX_SEEDS {
        return Err(format!("`{text}` are more than {MAX_SEEDS} seeds"));
    }
    Ok(first..end)
}

impl RawFuzz {
    fn check_mutations(&self, checker: &Checker<'_>) -> Result<Vec<MutationKind>, DescriptionError> {
        let Some(names) = &self.mutations else {
            return Ok(MutationKind::ALL.to_vec());
        };
        let mut kinds = BTreeSet::new();
        for name in names.get_ref() {
            let kind = MutationKind::from_name(name.get_ref()).ok_or_else(|| {
                let known = MutationKind::ALL.map(MutationKind::name).join(", ");
                checker.error(
                    name,
                    format!("`{}` is no kind of mutation (expected {known})", name.get_ref()),
                )
            })?;
            kinds.insert(kind);
        }
        if kinds.is_empty() {
            return Err(checker.error(names, "`mutations` is empty; leave it out for all kinds"));
        }
        // The order decides which numbers choose which kind.
        Ok(kinds.into_iter().collect())
    }
}

impl RawEntry for RawFuzz {
    type Entry = FuzzEntry;

    fn common(&self) -> CommonKeys<'_> {
        self.common_keys()
    }

    fn check(&self, checker: &Checker<'_>, _defaults: &EntryDefaults) -> Result<FuzzEntry, DescriptionError> {
        let inputs = checker.texts(self.inputs.get_ref(), |name| match name.is_empty() {
            true => Err("the name of an input is empty".to_owned()),
            false => Ok(()),
        })?;
        if inputs.is_empty() {
            return Err(checker.error(&self.inputs, "`inputs` is empty (expected names of buffers)"));
        }
        if inputs.iter().collect::<BTreeSet<_>>().len() < inputs.len() {
            return Err(checker.error(&self.inputs, "an input is listed twice"));
        }
        let seeds = parse_seeds(self.seeds.get_ref()).map_err(|e| checker.error(&self.seeds, e))?;
        let step = checker.number(self.step.as_ref(), "step", STEPS)?.unwrap_or(STEP);
        let runs = (seeds.end - seeds.start).div_ceil(step);
        if runs > MAX_STEPS {
            let reason = format!("these seeds make {runs} runs of a recording (at most {MAX_STEPS}); raise `step`");
            return Err(checker.error(&self.seeds, reason));
        }
        Ok(FuzzEntry {
            inputs,
            seeds,
            step,
            mutations: self.check_mutations(checker)?,
        })
    }
}

impl Expand for FuzzEntry {
    fn expand(&self, entry: &EntryOptions<'_>, files: &mut CampaignFiles<'_>) -> Result<Vec<WorkItem>, MatrixError> {
        let mut all = Vec::new();
        for path in files.find(entry.line, entry.path, "recording")? {
            let recording = files.recording(&path)?;
            let mut first_seed = self.seeds.start;
            while first_seed < self.seeds.end {
                files.check_count(entry.line, all.len())?;
                let seeds = self.step.min(self.seeds.end - first_seed);
                all.push(WorkItem::Fuzz(FuzzWork {
                    recording: recording.clone(),
                    inputs: self.inputs.clone(),
                    first_seed,
                    seeds,
                    mutations: self.mutations.clone(),
                    time_limit_s: entry.time_limit_s,
                    without_containment: entry.without_containment,
                    keep_outcomes: files.keep_outcomes(),
                }));
                first_seed += seeds;
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_ranges() {
        assert_eq!(parse_seeds("0..1000"), Ok(0..1000));
        assert_eq!(parse_seeds("5 ..=9"), Ok(5..10));
        assert_eq!(
            parse_seeds(&format!("{}..{}", u64::MAX - 1, u64::MAX)),
            Ok(u64::MAX - 1..u64::MAX)
        );
        for bad in [
            "",
            "7",
            "3..3",
            "9..1",
            "a..b",
            "0..",
            "..5",
            "-1..4",
            "0..100000001",
            "0..=18446744073709551615",
        ] {
            assert!(parse_seeds(bad).is_err(), "{bad}");
        }
    }
}
