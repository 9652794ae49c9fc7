//! Replays of a recording with mutated inputs, one for each seed of a range, as work of a campaign.

use super::detail_columns::{DetailColumns, Details, list_names};
use super::{FieldHasher, KeptOutcomes, Locate, RecordingFile, Work};
use crate::mutation::MutationKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Maximum number of seeds of a run: its result has a digest of each.
pub(crate) const MAX_RUN_SEEDS: u64 = 4096;

/// Replays with mutated inputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FuzzWork {
    /// The recording.
    pub recording: RecordingFile,
    /// Names of the buffers whose contents are mutated.
    pub inputs: Vec<String>,
    /// The first seed.
    pub first_seed: u64,
    /// Number of seeds, at most 4096.
    pub seeds: u64,
    /// The kinds of mutation that a seed chooses from.
    pub mutations: Vec<MutationKind>,
    /// Time limit of each replay, seconds; `None` for the default one.
    #[serde(default)]
    pub time_limit_s: Option<u64>,
    /// Whether a target without containment is accepted.
    #[serde(default)]
    pub without_containment: bool,
    /// Whether the outcome of the first failed seed is kept.
    #[serde(default)]
    pub keep_outcomes: KeptOutcomes,
}

impl Work for FuzzWork {
    fn kind(&self) -> &'static str {
        "fuzz"
    }

    fn recording(&self) -> &RecordingFile {
        &self.recording
    }

    fn relocate(&mut self, locate: &mut Locate<'_>) {
        self.recording.relocate(locate);
    }

    fn consent_mut(&mut self) -> Option<&mut bool> {
        Some(&mut self.without_containment)
    }

    fn describe_options(&self) -> String {
        let last = self.first_seed.saturating_add(self.seeds);
        format!("{}, seeds {}..{last}", self.inputs.join(" "), self.first_seed)
    }

    fn hash_into(&self, hasher: &mut FieldHasher<'_>) {
        hasher.add("fuzz");
        // Another generator gives other bytes for the same seed.
        hasher.add(crate::mutation::GENERATOR);
        hasher.add(&self.recording.digest);
        hasher.add_list(&self.inputs);
        hasher.add_number(self.first_seed);
        hasher.add_number(self.seeds);
        let names: Vec<&str> = self.mutations.iter().map(|m| m.name()).collect();
        hasher.add_list(&names);
        hasher.add_limits(self.time_limit_s, self.without_containment);
    }
}

/// A seed whose replay failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedSeed {
    /// The seed.
    pub seed: u64,
    /// Why: a fault, a hang, a refusal.
    pub reason: String,
    /// The mutated inputs by the name of the buffer, in the campaign's folder: raw bytes, as `replay --input` takes them.
    pub files: BTreeMap<String, PathBuf>,
}

/// The result of some seeds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FuzzDetails {
    /// The first seed.
    pub first_seed: u64,
    /// Digest of each seed's outcome, 16 hex digits: its verdict, its outputs and the number of its faults.
    pub digests: Vec<String>,
    /// Number of seeds whose replay diverged; that is no failure. Outputs do not count: the inputs are others.
    pub diverged: u64,
    /// Number of seeds with an output that differs from the recorded one. `None` if no output could be compared, and in
    /// results of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differing: Option<u64>,
    /// Number of seeds whose replay failed.
    pub failed_count: u64,
    /// The first of them.
    pub failed: Vec<FailedSeed>,
}

impl FuzzDetails {
    /// Returns the seeds whose outcomes differ between two results of the same seeds.
    #[must_use]
    pub fn differing_seeds(&self, other: &Self) -> Vec<u64> {
        if self.first_seed != other.first_seed {
            return Vec::new();
        }
        let pairs = self.digests.iter().zip(&other.digests);
        let numbered = (self.first_seed..).zip(pairs);
        numbered.filter(|(_, (a, b))| a != b).map(|(seed, _)| seed).collect()
    }
}

impl FuzzDetails {
    /// Returns how a later result differs, in words; `None` if it does not.
    pub(crate) fn describe_change(&self, later: &Self) -> Option<String> {
        let seeds = self.differing_seeds(later);
        (!seeds.is_empty()).then(|| format!("other outcomes of the seeds {}", list_names(seeds.iter(), 16)))
    }
}

impl Details for FuzzDetails {
    fn columns(&self) -> DetailColumns {
        let seeds: Vec<String> = self.failed.iter().map(|f| f.seed.to_string()).collect();
        DetailColumns {
            items: Some(self.digests.len() as u64),
            failed_items: Some(self.failed_count),
            failed: (!seeds.is_empty()).then(|| seeds.join(" ")),
            ..DetailColumns::default()
        }
    }

    fn describe(&self) -> String {
        let count = self.digests.len();
        let mut text = match (self.failed_count, self.differing) {
            (0, Some(differing)) => format!("{count} seeds; outputs of {differing} differ from the recording"),
            (0, None) => format!("{count} seeds; their outputs were not compared"),
            (n, _) => {
                let names = list_names(self.failed.iter().map(|f| f.seed), 8);
                return format!("{n} of {count} seeds failed: {names}");
            }
        };
        if self.diverged > 0 {
            text += &format!("; {} diverged", self.diverged);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_says_what_is_counted() {
        // A result of an earlier version.
        let text = r#"{"first_seed":0,"digests":["a","b","c"],"diverged":2,"failed_count":0,"failed":[]}"#;
        let mut details: FuzzDetails = serde_json::from_str(text).unwrap();
        assert_eq!(
            details.describe(),
            "3 seeds; their outputs were not compared; 2 diverged"
        );
        assert_eq!(serde_json::to_string(&details).unwrap(), text);
        details.differing = Some(3);
        assert_eq!(
            details.describe(),
            "3 seeds; outputs of 3 differ from the recording; 2 diverged"
        );
        details.failed_count = 1;
        details.failed = vec![FailedSeed {
            seed: 7,
            reason: "it hung".into(),
            files: BTreeMap::new(),
        }];
        assert_eq!(details.describe(), "1 of 3 seeds failed: 7");
    }
}
