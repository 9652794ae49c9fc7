//! A bisection of a recording, as work of a campaign.

use super::detail_columns::{DetailColumns, Details};
use super::{FieldHasher, KeptOutcomes, Locate, RecordingFile, Work};
use serde::{Deserialize, Serialize};

/// What replaces the output of removed jobs that the kept ones read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeptProducers {
    /// The jobs themselves, which are kept.
    #[default]
    Jobs,
    /// Their bytes, as the simulator computes them.
    Bytes,
    /// Nothing: the kept jobs compute something else.
    Nothing,
}

impl KeptProducers {
    /// Returns the name of the choice.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Bytes => "bytes",
            Self::Nothing => "nothing",
        }
    }
}

/// A search for the shortest part of a recording that still fails in the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BisectWork {
    /// The recording.
    pub recording: RecordingFile,
    /// What replaces the output of removed jobs.
    #[serde(default)]
    pub producers: KeptProducers,
    /// Whether the events around the jobs stay.
    #[serde(default)]
    pub jobs_only: bool,
    /// Maximum number of tested candidates.
    pub max_candidates: u64,
    /// Time limit of each replay, seconds; `None` for the default one.
    #[serde(default)]
    pub time_limit_s: Option<u64>,
    /// Whether a target without containment is accepted.
    #[serde(default)]
    pub without_containment: bool,
    /// Whether the shortest part is kept.
    #[serde(default)]
    pub keep_outcomes: KeptOutcomes,
}

impl Work for BisectWork {
    fn kind(&self) -> &'static str {
        "bisect"
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
        let producers = match self.producers {
            KeptProducers::Jobs => None,
            other => Some(format!("producers {}", other.name())),
        };
        let jobs_only = self.jobs_only.then(|| "jobs only".to_owned());
        let parts = producers.into_iter().chain(jobs_only);
        parts.collect::<Vec<_>>().join(", ")
    }

    fn hash_into(&self, hasher: &mut FieldHasher<'_>) {
        hasher.add("bisect");
        hasher.add(&self.recording.digest);
        hasher.add(self.producers.name());
        hasher.add(if self.jobs_only { "jobs-only" } else { "" });
        hasher.add_number(self.max_candidates);
        hasher.add_limits(self.time_limit_s, self.without_containment);
    }
}

/// The result of a bisection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BisectDetails {
    /// Number of jobs of the recording.
    pub jobs: u64,
    /// The jobs of the shortest part that fails in the same way, as ranges; `None` if the whole recording matches.
    pub jobs_kept: Option<String>,
    /// Number of events of the recording, and of the shortest part.
    pub events: Option<(u64, u64)>,
    /// Number of tested candidates.
    pub tried: u64,
    /// Whether the search ended at its maximum number of candidates.
    pub at_limit: bool,
}

impl Details for BisectDetails {
    fn columns(&self) -> DetailColumns {
        DetailColumns {
            items: Some(self.tried),
            jobs: self.jobs_kept.clone(),
            ..DetailColumns::default()
        }
    }

    fn describe(&self) -> String {
        let Some(jobs) = &self.jobs_kept else {
            return "no failure to bisect".to_owned();
        };
        let limit = if self.at_limit {
            ", at the maximum number of candidates"
        } else {
            ""
        };
        let events = match self.events {
            Some((all, kept)) => format!(", {kept} of {all} events"),
            None => String::new(),
        };
        format!("jobs {jobs} of {}{events}, {} candidates{limit}", self.jobs, self.tried)
    }
}
