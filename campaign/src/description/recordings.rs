//! The table `[[recordings]]`: recordings that are replayed in the same way.

use super::checker::Checker;
use super::raw_entry::{CommonKeys, DescriptionError, EntryDefaults, EntryOptions, Expand, RawEntry, table_keys};
use crate::campaign_files::CampaignFiles;
use crate::matrix_error::MatrixError;
use crate::work::{ReplayWork, WorkItem};
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::Spanned;

/// Recordings that are replayed in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingsEntry {
    /// Tolerances of outputs, as `--tolerance` takes them.
    pub tolerance: Vec<String>,
    /// Files with new contents of buffers, by the name of the buffer.
    pub inputs: BTreeMap<String, PathBuf>,
}

table_keys!(RawRecordings {
    tolerance: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    inputs: BTreeMap<String, Spanned<String>>,
});

impl RawEntry for RawRecordings {
    type Entry = RecordingsEntry;

    fn common(&self) -> CommonKeys<'_> {
        self.common_keys()
    }

    fn check(&self, checker: &Checker<'_>, defaults: &EntryDefaults) -> Result<RecordingsEntry, DescriptionError> {
        Ok(RecordingsEntry {
            tolerance: match &self.tolerance {
                Some(rules) => checker.tolerance(rules)?,
                None => defaults.tolerance.clone(),
            },
            inputs: checker.inputs(&self.inputs)?,
        })
    }
}

impl Expand for RecordingsEntry {
    fn expand(&self, entry: &EntryOptions<'_>, files: &mut CampaignFiles<'_>) -> Result<Vec<WorkItem>, MatrixError> {
        let inputs = files.inputs(&self.inputs)?;
        let mut all = Vec::new();
        for path in files.find(entry.line, entry.path, "recording")? {
            all.push(WorkItem::Replay(ReplayWork {
                recording: files.recording(&path)?,
                inputs: inputs.clone(),
                tolerance: self.tolerance.clone(),
                time_limit_s: entry.time_limit_s,
                without_containment: entry.without_containment,
                keep_outcomes: files.keep_outcomes(),
            }));
        }
        Ok(all)
    }
}
