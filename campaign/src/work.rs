//! What a run of a campaign does: one kind of work, with all that its result depends on.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Which outcomes a campaign keeps as recordings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeptOutcomes {
    /// None.
    #[default]
    None,
    /// Those that diverged or failed.
    Diverged,
    /// All.
    All,
}

impl KeptOutcomes {
    /// Returns whether the outcome of a run is kept.
    #[must_use]
    pub fn keeps(self, is_match: bool) -> bool {
        match self {
            Self::None => false,
            Self::Diverged => !is_match,
            Self::All => true,
        }
    }
}

/// A recording: a file, or a folder that can be imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordingFile {
    /// Where it is on the machine of the campaign.
    pub path: PathBuf,
    /// Its name in reports: the path as the description or its pattern gives it.
    pub name: String,
    /// BLAKE3 digest of its bytes, 64 hex digits.
    pub digest: String,
}

/// A file with the new content of a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputFile {
    /// Where it is on the machine of the campaign.
    pub path: PathBuf,
    /// BLAKE3 digest of its bytes, 64 hex digits.
    pub digest: String,
}

/// A replay of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayWork {
    /// The recording.
    pub recording: RecordingFile,
    /// New contents of buffers, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, InputFile>,
    /// Tolerances of outputs, as `--tolerance` takes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerance: Vec<String>,
    /// Time limit of the run, seconds; `None` for the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_s: Option<u64>,
    /// Whether a target without containment is accepted.
    #[serde(default)]
    pub without_containment: bool,
    /// Which outcomes are kept as recordings.
    #[serde(default)]
    pub keep_outcomes: KeptOutcomes,
}

/// What a run does. Another kind of work is another variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum WorkItem {
    /// Replays a recording.
    Replay(ReplayWork),
}

impl WorkItem {
    /// Returns the kind in one word: `replay`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Replay(_) => "replay",
        }
    }

    /// Returns the recording that the work is about.
    #[must_use]
    pub fn recording(&self) -> &RecordingFile {
        match self {
            Self::Replay(work) => &work.recording,
        }
    }

    /// Returns the files that the work reads: their paths and digests.
    #[must_use]
    pub fn files(&self) -> Vec<(&PathBuf, &str)> {
        match self {
            Self::Replay(work) => {
                let inputs = work.inputs.values().map(|i| (&i.path, i.digest.as_str()));
                std::iter::once((&work.recording.path, work.recording.digest.as_str()))
                    .chain(inputs)
                    .collect()
            }
        }
    }

    /// Returns what distinguishes the work, apart from its recording, in a few words; empty if nothing does.
    #[must_use]
    pub fn describe_options(&self) -> String {
        match self {
            Self::Replay(work) => {
                let inputs = work.inputs.keys().map(|name| format!("input {name}"));
                let rules = work.tolerance.iter().map(|rule| format!("tolerance {rule}"));
                inputs.chain(rules).collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// Adds everything that the result depends on to a hasher. Paths and names are left out.
    pub(crate) fn hash_into(&self, hasher: &mut blake3::Hasher) {
        let mut add = |text: &str| {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        };
        match self {
            Self::Replay(work) => {
                add("replay");
                add(&work.recording.digest);
                for (name, input) in &work.inputs {
                    add(name);
                    add(&input.digest);
                }
                add("tolerance");
                work.tolerance.iter().for_each(|rule| add(rule));
                add(&work.time_limit_s.map_or_else(String::new, |s| s.to_string()));
                add(if work.without_containment { "uncontained" } else { "" });
            }
        }
    }
}
