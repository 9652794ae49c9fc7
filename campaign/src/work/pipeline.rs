//! A run of a pipeline, as work of a campaign.

use super::detail_columns::{DetailColumns, Details, list_names};
use super::{FieldHasher, InputFile, KeptOutcomes, Locate, RecordingFile, Work};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A run of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipelineWork {
    /// The pipeline file.
    pub pipeline: RecordingFile,
    /// The files that it names: recordings, modules and inputs, by their paths in it.
    #[serde(default)]
    pub files: BTreeMap<String, InputFile>,
    /// New contents of its inputs, by name.
    #[serde(default)]
    pub inputs: BTreeMap<String, InputFile>,
    /// Targets of stages with a label, by the label. All other stages run on the target of the run.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Time limit of each replay, seconds; `None` for the default one.
    #[serde(default)]
    pub time_limit_s: Option<u64>,
    /// Whether targets without containment are accepted.
    #[serde(default)]
    pub without_containment: bool,
    /// Which outcomes of stages are kept as recordings.
    #[serde(default)]
    pub keep_outcomes: KeptOutcomes,
}

impl Work for PipelineWork {
    fn kind(&self) -> &'static str {
        "pipeline"
    }

    fn recording(&self) -> &RecordingFile {
        &self.pipeline
    }

    fn files(&self) -> Vec<(&PathBuf, &str)> {
        let others = self.files.values().chain(self.inputs.values());
        std::iter::once((&self.pipeline.path, self.pipeline.digest.as_str()))
            .chain(others.map(|f| (&f.path, f.digest.as_str())))
            .collect()
    }

    fn relocate(&mut self, locate: &mut Locate<'_>) {
        self.pipeline.relocate(locate);
        self.files.values_mut().for_each(|f| f.relocate(locate));
        self.inputs.values_mut().for_each(|i| i.relocate(locate));
    }

    fn consent_mut(&mut self) -> Option<&mut bool> {
        Some(&mut self.without_containment)
    }

    fn describe_options(&self) -> String {
        let inputs = self.inputs.keys().map(|name| format!("input {name}"));
        let labels = self.labels.iter().map(|(label, target)| format!("{label} on {target}"));
        inputs.chain(labels).collect::<Vec<_>>().join(", ")
    }

    fn hash_into(&self, hasher: &mut FieldHasher<'_>) {
        hasher.add("pipeline");
        hasher.add(&self.pipeline.digest);
        hasher.add_files(&self.files);
        hasher.add_files(&self.inputs);
        hasher.add_map(&self.labels);
        hasher.add_limits(self.time_limit_s, self.without_containment);
    }
}

/// The result of a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineDetails {
    /// Number of stages that ended, each round of a loop on its own.
    pub stages: u64,
    /// The stage that diverged or failed.
    pub failed_stage: Option<String>,
    /// BLAKE3 digests of the outputs, by name; empty if the run did not come to its end.
    pub outputs: BTreeMap<String, String>,
}

impl PipelineDetails {
    /// Returns how a later result differs, in words; `None` if it does not.
    pub(crate) fn describe_change(&self, later: &Self) -> Option<String> {
        if self.outputs.is_empty() || later.outputs.is_empty() {
            return None;
        }
        let names = self.outputs.keys().chain(later.outputs.keys());
        let differs = |name: &&String| self.outputs.get(*name) != later.outputs.get(*name);
        let changed: std::collections::BTreeSet<&String> = names.filter(differs).collect();
        (!changed.is_empty()).then(|| format!("other outputs: {}", list_names(changed.into_iter(), 8)))
    }
}

impl Details for PipelineDetails {
    fn columns(&self) -> DetailColumns {
        DetailColumns {
            items: Some(self.stages),
            failed_items: Some(u64::from(self.failed_stage.is_some())),
            failed: self.failed_stage.clone(),
            ..DetailColumns::default()
        }
    }

    fn describe(&self) -> String {
        match &self.failed_stage {
            Some(stage) => format!("stage {stage}"),
            None => format!("{} stages", self.stages),
        }
    }
}
