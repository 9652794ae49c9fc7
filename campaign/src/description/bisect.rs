//! The table `[[bisect]]`: recordings that are bisected, with the options of `bisect`.

use super::checker::Checker;
use super::raw_entry::{CommonKeys, DescriptionError, EntryDefaults, EntryOptions, Expand, RawEntry};
use crate::campaign_files::CampaignFiles;
use crate::matrix_error::MatrixError;
use crate::work::{BisectWork, KeptProducers, WorkItem};
use serde::Deserialize;
use toml::Spanned;

/// Allowed numbers of candidates.
const CANDIDATES: (u64, u64) = (1, 1_000_000);
/// Default number of candidates.
const MAX_CANDIDATES: u64 = 1000;

/// Recordings that are bisected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BisectEntry {
    /// What replaces the output of removed jobs that the kept ones read.
    pub producers: KeptProducers,
    /// Whether the events around the jobs stay.
    pub jobs_only: bool,
    /// Maximum number of tested candidates.
    pub max_candidates: u64,
}

/// The keys of the table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawBisect {
    path: Spanned<String>,
    targets: Option<Vec<Spanned<String>>>,
    repeats: Option<Spanned<u32>>,
    time_limit: Option<Spanned<u64>>,
    without_containment: Option<bool>,
    #[serde(default)]
    producers: KeptProducers,
    #[serde(default)]
    jobs_only: bool,
    max_candidates: Option<Spanned<u64>>,
}

impl RawEntry for RawBisect {
    type Entry = BisectEntry;

    fn common(&self) -> CommonKeys<'_> {
        CommonKeys {
            path: &self.path,
            targets: self.targets.as_deref(),
            repeats: self.repeats.as_ref(),
            time_limit: self.time_limit.as_ref(),
            without_containment: self.without_containment,
        }
    }

    fn check(&self, checker: &Checker<'_>, _defaults: &EntryDefaults) -> Result<BisectEntry, DescriptionError> {
        let max = checker.number(self.max_candidates.as_ref(), "max-candidates", CANDIDATES)?;
        Ok(BisectEntry {
            producers: self.producers,
            jobs_only: self.jobs_only,
            max_candidates: max.unwrap_or(MAX_CANDIDATES),
        })
    }
}

impl Expand for BisectEntry {
    fn expand(&self, entry: &EntryOptions<'_>, files: &mut CampaignFiles<'_>) -> Result<Vec<WorkItem>, MatrixError> {
        let mut all = Vec::new();
        for path in files.find(entry.line, entry.path, "recording")? {
            all.push(WorkItem::Bisect(BisectWork {
                recording: files.recording(&path)?,
                producers: self.producers,
                jobs_only: self.jobs_only,
                max_candidates: self.max_candidates,
                time_limit_s: entry.time_limit_s,
                without_containment: entry.without_containment,
                keep_outcomes: files.keep_outcomes(),
            }));
        }
        Ok(all)
    }
}
