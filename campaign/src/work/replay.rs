//! A replay of a recording, as work of a campaign.

use super::{FieldHasher, InputFile, KeptOutcomes, Locate, RecordingFile, Work};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

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

impl Work for ReplayWork {
    fn kind(&self) -> &'static str {
        "replay"
    }

    fn recording(&self) -> &RecordingFile {
        &self.recording
    }

    fn files(&self) -> Vec<(&PathBuf, &str)> {
        let inputs = self.inputs.values().map(|i| (&i.path, i.digest.as_str()));
        std::iter::once((&self.recording.path, self.recording.digest.as_str()))
            .chain(inputs)
            .collect()
    }

    fn relocate(&mut self, locate: &mut Locate<'_>) {
        self.recording.relocate(locate);
        self.inputs.values_mut().for_each(|i| i.relocate(locate));
    }

    fn consent_mut(&mut self) -> Option<&mut bool> {
        Some(&mut self.without_containment)
    }

    fn describe_options(&self) -> String {
        let inputs = self.inputs.keys().map(|name| format!("input {name}"));
        let rules = self.tolerance.iter().map(|rule| format!("tolerance {rule}"));
        inputs.chain(rules).collect::<Vec<_>>().join(", ")
    }

    // The ids of queued runs depend on these fields and their order.
    fn hash_into(&self, hasher: &mut FieldHasher<'_>) {
        hasher.add("replay");
        hasher.add(&self.recording.digest);
        for (name, input) in &self.inputs {
            hasher.add(name);
            hasher.add(&input.digest);
        }
        hasher.add("tolerance");
        self.tolerance.iter().for_each(|rule| hasher.add(rule));
        hasher.add(&self.time_limit_s.map_or_else(String::new, |s| s.to_string()));
        hasher.add(if self.without_containment { "uncontained" } else { "" });
    }
}
