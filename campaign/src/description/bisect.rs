//! The table `[[bisect]]`: recordings that are bisected, with the options of `bisect`.

use super::checker::Checker;
use super::raw_entry::{CommonKeys, DescriptionError, EntryDefaults, EntryOptions, Expand, RawEntry, table_keys};
use crate::campaign_files::CampaignFiles;
use crate::matrix_error::MatrixError;
use crate::work::{BisectWork, KeptProducers, WorkItem};
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

table_keys!(RawBisect {
    #[serde(default)]
    producers: KeptProducers,
    #[serde(default)]
    jobs_only: bool,
    max_candidates: Option<Spanned<u64>>,
});

impl RawEntry for RawBisect {
    type Entry = BisectEntry;

    fn common(&self) -> CommonKeys<'_> {
        self.common_keys()
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
